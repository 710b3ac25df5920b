// What a kernel's PTX says of its parameters, held against what a launch passes.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "common/device/device.h"

namespace device {

/// One .param of an entry, in bytes.
struct Parameter {
  std::size_t size;
  std::size_t alignment;
  bool operator==(const Parameter&) const = default;
};

/// The parameters of `entry` in the text `ptx`, in order (PTX ISA 5.2.1 and 10.3: scalars such as
/// `.param .u64 name`, arrays such as `.param .align 128 .b8 name[128]`). Throws Failure when there
/// is no such entry or its list can't be read.
std::vector<Parameter> entry_parameters(std::string_view ptx, std::string_view entry);

/// Throws Failure, naming the first argument that differs and both sizes, unless `arguments` have
/// the sizes and alignments of `parameters`. `kernel` is the name that the message uses.
void check_arguments(std::string_view kernel, std::span<const Parameter> parameters,
                     std::span<const Argument> arguments);

}  // namespace device

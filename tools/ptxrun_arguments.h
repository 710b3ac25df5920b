// A kernel's arguments, described in words (ptxrun --help lists them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/device/device.h"

namespace ptxrun {

struct ElementFormat;

struct Argument {
  std::vector<std::byte> value;  ///< as the kernel gets it
  device::Buffer memory;         ///< what it points to, if it brings memory of its own
  std::size_t elements = 0;      ///< of that memory
  const ElementFormat* format = nullptr;
};

/// The argument that `word` describes, `earlier` being those before it. Random elements follow from
/// `seed`. Throws harness::UsageError or device::InvalidTensorMap.
Argument parse_argument(device::Device& device, const std::string& word,
                        const std::vector<Argument>& earlier, std::uint64_t seed);

/// "f32 x 1024: 0 1 2 3 ...": the first `count` elements of an argument that has memory.
std::string describe(device::Device& device, const Argument& argument, std::size_t count);

/// `text` as a whole number up to `high`. Throws UsageError that names `what`.
std::uint64_t whole_number(const std::string& what, const std::string& text, std::uint64_t high);

/// The parts of `text` between separators.
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace ptxrun

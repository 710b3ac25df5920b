// printf from a kernel. CUDA C++ Programming Guide, "Formatted Output".
#pragma once

#include <cstdint>
#include <string>

#include "common/emulator/program.h"

namespace emulator {

/// Writes what printf(format, ...) prints for one lane; `arguments` is a buffer in which each
/// argument lies at a multiple of its size (4 or 8 bytes). Returns the number of arguments, as the
/// device's printf does. Faults when the format or an argument can't be read.
int print_lane(Warp& warp, const Op& op, int lane, std::uint64_t format, std::uint64_t arguments);

/// A zero-terminated string at a generic address; faults when it can't be read.
std::string read_string(Warp& warp, const Op& op, int lane, std::uint64_t address);

}  // namespace emulator

// Why a launch would be refused, in words and before it is tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/device/device.h"

namespace device {

/// The most CTAs of a cluster that every Hopper GPU takes; more must be allowed kernel by kernel.
inline constexpr unsigned portable_cluster_size = 8;

/// The number of CTAs or threads in `extent`.
std::uint64_t volume(const Extent& extent);

/// What a kernel leaves for its launches on a device.
struct LaunchLimits {
  unsigned threads_per_block = 1024;       ///< what its registers and launch bounds allow
  std::size_t static_shared_bytes = 0;     ///< shared memory that the kernel declares itself
  std::size_t shared_bytes_per_block = 0;  ///< static and dynamic together, 232448 on Hopper
};

/// Throws Failure if a Hopper GPU can't launch `shape`. `kernel` is the name that the message uses.
/// Rules: CUDA C++ Programming Guide, compute capability 9.0.
void check_launch(std::string_view kernel, const LaunchShape& shape, const LaunchLimits& limits);

}  // namespace device

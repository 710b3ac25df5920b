// Clocks that a kernel can read. PTX ISA 10 (special registers).
#pragma once

#include <cstdint>

namespace ptx {

/// Cycles of this SM. The difference of two readings counts cycles at whatever clock the SM ran.
__device__ inline std::uint64_t sm_cycles() {
  std::uint64_t cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}

/// Nanoseconds, the same for all SMs; it may tick in steps of a microsecond.
__device__ inline std::uint64_t nanoseconds() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

}  // namespace ptx

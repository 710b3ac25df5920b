// Where a thread runs. PTX ISA 10 (special registers).
#pragma once

#include <cstdint>

namespace ptx {

/// The SM that this thread runs on, from 0. A thread that the driver preempts may come back on
/// another one.
__device__ inline std::uint32_t sm_index() {
  std::uint32_t sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}

}  // namespace ptx

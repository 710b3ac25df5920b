// Barriers for some of a CTA's warps. PTX ISA 9.7.13.1 (bar).
#pragma once

namespace ptx {

/// Waits until `threads` threads, in whole warps, have come to barrier `id`, 1 to 15 (0 is that of
/// __syncthreads). What they have written to memory is then visible to all of them.
__device__ inline void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace ptx

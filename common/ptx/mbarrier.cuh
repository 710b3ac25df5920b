// mbarrier: a counter in shared memory that threads and the copy engine arrive on, phase by phase.
// PTX ISA 9.7.13.15.
//
// A phase completes when no arrival is pending and the byte count is back at zero; the barrier then
// re-arms itself for the next phase. Waiters name a phase by its parity (0 for the first, then 1,
// 0, ...). Waiting on parity p returns once the latest phase of parity p has completed, so nobody
// may fall two phases behind: the parity would alias.
#pragma once

#include <cstdint>

#include "common/ptx/address.cuh"

namespace ptx {

/// An mbarrier object: 8 bytes of shared memory, opaque to everything but the functions below.
using Mbarrier = std::uint64_t;

/// Phase 0 begins; each phase expects `arrivals` arrivals. One thread runs this, then
/// fence_mbarrier_init(), then a barrier lets the others use it. 9.7.13.15.9
__device__ inline void mbarrier_init(Mbarrier& barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)),
               "r"(arrivals)
               : "memory");
}

/// Announces `bytes` that the copy engine will bring in this phase, and arrives once. The phase
/// can't complete before these bytes have landed. 9.7.13.15.13
__device__ inline void mbarrier_arrive_expect_tx(Mbarrier& barrier, std::uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
      "r"(bytes)
      : "memory");
}

/// Arrives once, and releases what this thread has done to the threads of its CTA that wait.
/// 9.7.13.15.13
__device__ inline void mbarrier_arrive(Mbarrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier))
               : "memory");
}

/// Returns once the phase of this parity has completed; what the arrivals released and what the
/// copy engine wrote is then visible to this thread. try_wait sleeps in hardware for a while and
/// may give up, hence the loop. 9.7.13.15.16
__device__ inline void mbarrier_wait(Mbarrier& barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}\n"
        : "=r"(done)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
  }
}

}  // namespace ptx

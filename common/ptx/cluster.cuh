// Clusters: CTAs that run at the same time and reach each other's shared memory. PTX ISA 9.7.13.3
// (barrier.cluster), 9.7.9.23 (mapa), 9.7.13.15 (mbarrier), 9.7.9.25.5.2 (multicast).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/ptx/address.cuh"
#include "common/ptx/mbarrier.cuh"

namespace ptx {

/// This CTA's rank in its cluster.
__device__ inline std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Arrives at the barrier of the cluster, and releases what this thread has written. Followed by
/// cluster_wait().
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/// Waits until all threads of the cluster that have not exited have arrived.
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// The address, in the shared window of the cluster, of what CTA `rank` has where this CTA has
/// `object`.
__device__ inline std::uint32_t peer_address(const void* object, std::uint32_t rank) {
  std::uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(shared_address(object)), "r"(rank));
  return address;
}

/// Arrives once on the `barrier` of CTA `rank`, and releases to the threads of the cluster what
/// this thread has written.
__device__ inline void mbarrier_arrive_peer(Mbarrier& barrier, std::uint32_t rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                   peer_address(&barrier, rank))
               : "memory");
}

/// Likewise, with the scope that mbarrier.arrive has when none is written, the CTA: it releases
/// nothing to the waiting thread of another CTA. Enough to give back what only wgmma has read.
__device__ inline void mbarrier_arrive_peer_cta_scope(Mbarrier& barrier, std::uint32_t rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(peer_address(&barrier, rank))
               : "memory");
}

/// As mbarrier_wait(), and acquires what threads of other CTAs of the cluster have released.
__device__ inline void mbarrier_wait_cluster(Mbarrier& barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}\n"
        : "=r"(done)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
  }
}

/// tma_load_2d() into the same place of each CTA in `ctas` (bit r: rank r), reporting to the
/// `barrier` of each.
__device__ inline void tma_load_2d_multicast(void* shared, const CUtensorMap& map, int column,
                                             int row, Mbarrier& barrier, std::uint16_t ctas) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(&barrier)), "h"(ctas)
      : "memory");
}

}  // namespace ptx

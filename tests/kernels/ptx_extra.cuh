// PTX instructions that the test kernels need and no lesson uses yet.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/ptx/address.cuh"
#include "common/ptx/mbarrier.cuh"

namespace ptx {

// ---- Clusters. PTX ISA 9.7.13.3 (barrier.cluster), 9.7.9.23 (mapa).

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

/// Likewise, releasing nothing.
__device__ inline void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
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

/// Reads an fp32 at an address that peer_address() has returned.
__device__ inline float load_peer(std::uint32_t address) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

// ---- mbarrier. PTX ISA 9.7.13.15.

/// Arrives once on the `barrier` of CTA `rank`, and releases to the threads of the cluster.
__device__ inline void mbarrier_arrive_peer(Mbarrier& barrier, std::uint32_t rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                   peer_address(&barrier, rank))
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

// ---- TMA. PTX ISA 9.7.9.25.

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

// ---- Flags in global memory. PTX ISA 9.7.9.8 (ld), 9.7.13.6 (red), 9.7.13.5 (atom).

/// Reads a flag; what was released before the value that it finds was written is then visible.
__device__ inline std::uint32_t load_acquire(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

/// Reads a flag, and no more.
__device__ inline std::uint32_t load_relaxed(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

__device__ inline void store_relaxed(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

/// Adds to a flag, and releases what this thread has done and seen before.
__device__ inline void add_release(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

/// Likewise, but only to the threads of this CTA.
__device__ inline void add_release_cta(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("red.release.cta.global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ inline void add_relaxed(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

/// Returns the counter's value and counts it up, from `last` to 0 again; releases and acquires.
__device__ inline std::uint32_t increment_acq_rel(std::uint32_t* counter, std::uint32_t last) {
  std::uint32_t value;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(value)
               : "l"(counter), "r"(last)
               : "memory");
  return value;
}

/// Likewise, and orders nothing.
__device__ inline std::uint32_t increment_relaxed(std::uint32_t* counter, std::uint32_t last) {
  std::uint32_t value;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(value)
               : "l"(counter), "r"(last)
               : "memory");
  return value;
}

}  // namespace ptx

// PTX instructions that the test kernels need and no lesson uses yet.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "common/ptx/address.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/wgmma.cuh"

namespace ptx {

// ---- Registers. PTX ISA 9.7.19.5.

/// Gives registers back to the CTA's pool, down to `count` a thread; a whole warpgroup runs this.
template <int count>
__device__ inline void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

/// Takes registers from the CTA's pool, up to `count` a thread, and waits until they are there.
template <int count>
__device__ inline void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

// ---- wgmma. PTX ISA 9.7.15.7.1.

/// As wgmma_fence(). The empty asm statements cost no instruction: without them the compiler may
/// move what it writes to the accumulators, such as zeros, to behind the fence.
template <std::size_t blocks, std::size_t count>
__device__ inline void wgmma_fence(float (&accumulators)[blocks][count]) {
#pragma unroll
  for (std::size_t i = 0; i < blocks * count; ++i) {
    asm volatile("" : "+f"(accumulators[i / count][i % count])::"memory");
  }
  wgmma_fence();
}

// ---- Barriers of some of a CTA's warps. PTX ISA 9.7.13.1.

/// Waits until `threads` threads, in whole warps, have come to barrier `id` (0 is __syncthreads).
__device__ inline void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

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

/// Arrives once, and releases what this thread has done to the threads of its CTA that wait.
__device__ inline void mbarrier_arrive(Mbarrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier))
               : "memory");
}

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

/// Starts the copy of one box from shared memory to the tensor; what lies outside the tensor is
/// left out. It belongs to the bulk group that this thread commits next.
__device__ inline void tma_store_2d(const CUtensorMap& map, int column, int row,
                                    const void* shared) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
          &map),
      "r"(column), "r"(row), "r"(shared_address(shared))
      : "memory");
}

/// Closes a group: all bulk stores that this thread has issued since the last commit.
__device__ inline void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until at most `pending` of this thread's latest groups still read their sources.
template <int pending>
__device__ inline void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

// ---- Fragments. PTX ISA 9.7.14.5.16 (stmatrix).

/// Stores four 8 x 8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix
/// l / 8 (16 bytes), and in value[i] the two elements of matrix i in row l / 4, columns 2 (l % 4)
/// and up: what a wgmma leaves in a thread's accumulators.
__device__ inline void stmatrix_x4(void* row, const std::uint32_t (&value)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   shared_address(row)),
               "r"(value[0]), "r"(value[1]), "r"(value[2]), "r"(value[3])
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

// TMA: the copy engine moves boxes of a tensor between global and shared memory, described by a
// tensor map and named by the coordinates of the box. PTX ISA 5.5 (tensors), 9.7.9.25.5.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/ptx/mbarrier.cuh"

namespace ptx {

/// Fetches the 128 bytes of a tensor map ahead of its first use. The map is a `const
/// __grid_constant__` parameter, or lies in global memory, and this CTA has acquired it
/// (tensormap.cuh). 9.7.9.15 (prefetch.tensormap)
__device__ inline void tma_prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Starts the copy of one box into shared memory; `column` is the coordinate of the contiguous
/// dimension. Returns at once: the bytes are there when `barrier`'s phase completes. Elements
/// outside the tensor arrive as zeros and count like the others: the barrier gets the full bytes of
/// the box. One thread issues this. 9.7.9.25.5.2 (cp.async.bulk.tensor)
__device__ inline void tma_load_2d(void* shared, const CUtensorMap& map, int column, int row,
                                   Mbarrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(&barrier))
      : "memory");
}

/// Starts the copy of one box from shared memory to the tensor; what lies outside the tensor is
/// left out, in units of 16 bytes of a row: a row of 15 bytes is written as 16. What threads have
/// written there they must have shown by fence_proxy_async() and a barrier. The copy belongs to the
/// bulk group that this thread commits next. 9.7.9.25.5.2
__device__ inline void tma_store_2d(const CUtensorMap& map, int column, int row,
                                    const void* shared) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
          &map),
      "r"(column), "r"(row), "r"(shared_address(shared))
      : "memory");
}

/// Closes a group: all bulk stores that this thread has issued since the last commit. 9.7.9.25.6.1
__device__ inline void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until at most `pending` of this thread's latest groups still read their sources. Only then
/// may shared memory that they read be overwritten, or its CTA exit. 9.7.9.25.6.2
template <int pending>
__device__ inline void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

}  // namespace ptx

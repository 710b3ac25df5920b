// TMA: the copy engine moves boxes of a tensor between global and shared memory, described by a
// tensor map and named by the coordinates of the box. PTX ISA 5.5 (tensors), 9.7.9.25.5.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/ptx/mbarrier.cuh"

namespace ptx {

/// Fetches the 128 bytes of a tensor map ahead of its first use. The map must be a
/// `const __grid_constant__` parameter. 9.7.9.25.6 (prefetch.tensormap)
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

}  // namespace ptx

// The product of one k-tile: 64 elements of K, 128 bytes a row, in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ptx/address.cuh"
#include "common/ptx/descriptor.h"
#include "common/ptx/wgmma.cuh"

namespace gemm {

constexpr int tile_k = 64;             ///< bf16 elements, one row of the 128-byte swizzle
constexpr int row_bytes = 2 * tile_k;  ///< of a k-tile in shared memory

/// Starts accumulator = A * B^T + (accumulate ? accumulator : 0) for one warpgroup and commits it
/// as a group of wgmmas. A is 64 * blocks x tile_k, B is 2 * count x tile_k, both in shared memory
/// with the 128-byte swizzle, from multiples of 1024 bytes on. The accumulators' layout:
/// ptx::wgmma_m64k16. Needs no wgmma_fence() of the caller's.
template <std::size_t blocks, std::size_t count>
__device__ inline void multiply_k_tile(float (&accumulator)[blocks][count], const void* tile_a,
                                       const void* tile_b, bool accumulate) {
  const std::uint32_t a = ptx::shared_address(tile_a);
  const std::uint32_t b = ptx::shared_address(tile_b);
  ptx::wgmma_fence(accumulator);
#pragma unroll
  for (int slice = 0; slice < tile_k / 16; ++slice) {  // a wgmma takes 16 elements, 32 bytes of K
#pragma unroll
    for (int i = 0; i < static_cast<int>(blocks); ++i) {
      ptx::wgmma_m64k16<2 * count>(
          accumulator[i], ptx::k_major_descriptor(a + 64 * row_bytes * i + 32 * slice),
          ptx::k_major_descriptor(b + 32 * slice), accumulate || slice > 0);
    }
  }
  ptx::wgmma_commit();
}

}  // namespace gemm

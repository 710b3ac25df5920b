// The product of one k-tile: 128 bytes of K a row, in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ptx/address.cuh"
#include "common/ptx/descriptor.h"
#include "common/ptx/wgmma.cuh"

namespace gemm {

constexpr int row_bytes = 128;  ///< of a k-tile in shared memory, one row of the 128-byte swizzle
constexpr int tile_k = 64;      ///< bf16 elements in it

/// What a k-tile holds: how many elements a row, and the wgmma for them, 32 bytes of K at a time.
struct Bf16Operands {
  static constexpr int tile_k = gemm::tile_k;

  template <int N>
  __device__ static void multiply(float (&d)[N / 2], std::uint64_t a, std::uint64_t b,
                                  bool accumulate) {
    ptx::wgmma_m64k16<N>(d, a, b, accumulate);
  }
};

/// The same of 8-bit floats.
template <ptx::Fp8 A, ptx::Fp8 B>
struct Fp8Operands {
  static constexpr int tile_k = 128;

  template <int N>
  __device__ static void multiply(float (&d)[N / 2], std::uint64_t a, std::uint64_t b,
                                  bool accumulate) {
    ptx::wgmma_m64k32<A, B, N>(d, a, b, accumulate);
  }
};

/// Starts accumulator = A * B^T + (accumulate ? accumulator : 0) for one warpgroup and commits it
/// as a group of wgmmas. A is 64 * blocks x tile_k, B is 2 * count x tile_k, both in shared memory
/// with the 128-byte swizzle, from multiples of 1024 bytes on. The accumulators' layout:
/// ptx::wgmma_m64k16. Needs no wgmma_fence() of the caller's.
template <class Operands = Bf16Operands, std::size_t blocks, std::size_t count>
__device__ inline void multiply_k_tile(float (&accumulator)[blocks][count], const void* tile_a,
                                       const void* tile_b, bool accumulate) {
  const std::uint32_t a = ptx::shared_address(tile_a);
  const std::uint32_t b = ptx::shared_address(tile_b);
  ptx::wgmma_fence(accumulator);
#pragma unroll
  for (int slice = 0; slice < row_bytes / 32; ++slice) {  // a wgmma takes 32 bytes of K
#pragma unroll
    for (int i = 0; i < static_cast<int>(blocks); ++i) {
      Operands::template multiply<2 * count>(
          accumulator[i], ptx::k_major_descriptor(a + 64 * row_bytes * i + 32 * slice),
          ptx::k_major_descriptor(b + 32 * slice), accumulate || slice > 0);
    }
  }
  ptx::wgmma_commit();
}

}  // namespace gemm

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

/// The same operands, whose descriptors are computed once a k-tile, in uniform registers.
///
/// A wgmma takes its descriptors from uniform registers. ptxas can't prove that all lanes agree on
/// the stage: so it computes each descriptor in each lane, and moves it over, which takes a hundred
/// instructions a k-tile. Lane 0's address by a shuffle is the same in all lanes for sure, and what
/// follows from it is computed once a warp.
template <class Operands>
struct UniformOperands : Operands {};

template <class Operands>
constexpr bool is_uniform = false;
template <class Operands>
constexpr bool is_uniform<UniformOperands<Operands>> = true;

/// Starts accumulator = A * B^T + (accumulate ? accumulator : 0) for one warpgroup and commits it
/// as a group of wgmmas. A is 64 * blocks x tile_k, B is 2 * count x tile_k, both in shared memory
/// with the 128-byte swizzle, from multiples of 1024 bytes on. The accumulators' layout:
/// ptx::wgmma_m64k16. Needs no wgmma_fence() of the caller's.
template <class Operands = Bf16Operands, std::size_t blocks, std::size_t count>
__device__ inline void multiply_k_tile(float (&accumulator)[blocks][count], const void* tile_a,
                                       const void* tile_b, bool accumulate) {
  std::uint32_t a = ptx::shared_address(tile_a);
  std::uint32_t b = ptx::shared_address(tile_b);
  if constexpr (is_uniform<Operands>) {
    a = __shfl_sync(0xFFFFFFFF, a, 0);
    b = __shfl_sync(0xFFFFFFFF, b, 0);
  }
  // What lies `bytes` behind a tile's begin; the address is in the lowest bits, in units of 16.
  const auto descriptor = [](std::uint32_t tile, int bytes) {
    return is_uniform<Operands> ? ptx::k_major_descriptor(tile) + bytes / 16
                                : ptx::k_major_descriptor(tile + bytes);
  };
  ptx::wgmma_fence(accumulator);
#pragma unroll
  for (int slice = 0; slice < row_bytes / 32; ++slice) {  // a wgmma takes 32 bytes of K
#pragma unroll
    for (int i = 0; i < static_cast<int>(blocks); ++i) {
      Operands::template multiply<2 * count>(accumulator[i],
                                             descriptor(a, 64 * row_bytes * i + 32 * slice),
                                             descriptor(b, 32 * slice), accumulate || slice > 0);
    }
  }
  ptx::wgmma_commit();
}

}  // namespace gemm

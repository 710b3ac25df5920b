// From a thread's accumulators to D, whatever D's type: bf16 or an 8-bit float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/gemm/chunk.cuh"
#include "common/gemm/scaled_problem.h"
#include "common/ptx/convert.cuh"

namespace gemm {

/// Where a thread's elements lie within 64 rows of accumulators (ptx::wgmma_m64k16): number
/// 4 j + 2 half + e is at row accumulator_row() + 8 half, column accumulator_column() + 8 j + e.
__device__ inline int accumulator_row() {
  return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
}
__device__ inline int accumulator_column() {
  return threadIdx.x % 4 * 2;
}

/// Bytes of an element of D.
HOST_DEVICE constexpr int output_bytes(Output output) {
  return output == Output::bf16 ? 2 : 1;
}

/// Two neighbours as they are stored, the first in the lower half.
template <Output output>
__device__ inline std::uint32_t pack(float first, float second) {
  if constexpr (output == Output::bf16) {
    return pack_bf16(first, second);
  } else {
    return ptx::pack_fp8 < output == Output::e4m3 ? ptx::Fp8::e4m3
                                                  : ptx::Fp8::e5m2 > (first, second);
  }
}

/// Writes a thread's 16 pairs of a chunk of 64 x 64 as a box of TMA lays it out: rows of 128 bytes
/// with the 128-byte swizzle, or of 64 with the 64-byte one, from a multiple of 1024 bytes on.
/// stmatrix puts pairs of bf16 where they belong. Of fp8 it would want four neighbours in a lane,
/// and a lane has two.
template <Output output>
__device__ inline void write_chunk_pairs(unsigned char* chunk, const std::uint32_t (&pair)[16]) {
#pragma unroll
  for (int first = 0; first < 16; first += 4) {
    if constexpr (output == Output::bf16) {
      write_pairs<64>(chunk, first,
                      {pair[first], pair[first + 1], pair[first + 2], pair[first + 3]});
    } else {
#pragma unroll
      for (int i = first; i < first + 4; ++i) {
        const int row = accumulator_row() + i % 2 * 8;
        const std::uint32_t plain = row * 64 + i / 2 * 8 + accumulator_column();
        const std::uint32_t swizzled = plain ^ ((plain >> 3) & 0x30);
        *reinterpret_cast<std::uint16_t*>(chunk + swizzled) = pair[i];
      }
    }
  }
}

/// Stores the pairs of a chunk that lie inside D, with D's (row, column) as its first element, by
/// ordinary stores.
template <Output output>
__device__ inline void store_chunk_pairs(const std::uint32_t (&pair)[16], const ScaledProblem& p,
                                         int row, int column) {
  constexpr bool is_bf16 = output == Output::bf16;
  using Element = std::conditional_t<is_bf16, std::uint16_t, std::uint8_t>;
  using Pair = std::conditional_t<is_bf16, std::uint32_t, std::uint16_t>;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int own_row = row + accumulator_row() + i % 2 * 8;
    const int own_column = column + accumulator_column() + i / 2 * 8;
    if (own_row >= p.m || own_column >= p.n) continue;
    Element* const d = static_cast<Element*>(p.d) + own_row * p.ldd + own_column;  // 64-bit offset
    if (own_column + 1 < p.n) {
      *reinterpret_cast<Pair*>(d) = pair[i];
    } else {
      *d = pair[i];
    }
  }
}

/// Adds beta * C to Z, whose first element of 64 rows is at (row, column); beta is not 0, and C's
/// pitch is even. Where a pair overhangs a row of C, its second element gets what lies there.
template <std::size_t count>
__device__ inline void add_c(float (&z)[count], const ScaledProblem& p, int row, int column) {
#pragma unroll
  for (int i = 0; i < static_cast<int>(count / 2); ++i) {
    const int own_row = row + accumulator_row() + i % 2 * 8;
    const int own_column = column + accumulator_column() + i / 2 * 8;
    if (own_row >= p.m || own_column >= p.n) continue;
    const __nv_bfloat16* const c = p.c + own_row * p.ldc + own_column;  // 64-bit offset
    const float2 pair = unpack_bf16(*reinterpret_cast<const std::uint32_t*>(c));
    z[2 * i] += p.beta * pair.x;
    z[2 * i + 1] += p.beta * pair.y;
  }
}

/// Makes zeros of what lies outside D.
template <std::size_t count>
__device__ inline void clear_outside(float (&z)[count], const ScaledProblem& p, int row,
                                     int column) {
#pragma unroll
  for (int i = 0; i < static_cast<int>(count); ++i) {
    const int own_row = row + accumulator_row() + i / 2 % 2 * 8;
    const int own_column = column + accumulator_column() + i / 4 * 8 + i % 2;
    if (own_row >= p.m || own_column >= p.n) z[i] = 0;
  }
}

}  // namespace gemm

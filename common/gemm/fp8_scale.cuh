// From the sums in a thread's registers to Z of a gemm::ScaledProblem.
#pragma once

#include <cfloat>
#include <cstddef>
#include <cstdint>

#include "common/gemm/chunk.cuh"
#include "common/gemm/scaled_problem.h"
#include "common/ptx/math.cuh"

namespace gemm {

/// Where a thread's elements lie within 64 rows of accumulators (ptx::wgmma_m64k16): number
/// 4 j + 2 half + e is at row accumulator_row() + 8 half, column accumulator_column() + 8 j + e.
__device__ inline int accumulator_row() {
  return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
}
__device__ inline int accumulator_column() {
  return threadIdx.x % 4 * 2;
}

/// Multiplies some columns by the factors of their rows.
template <std::size_t count>
__device__ inline void scale_rows(float (&z)[count], const float (&row)[2]) {
#pragma unroll
  for (std::size_t i = 0; i < count; ++i) z[i] *= row[i / 2 % 2];
}

/// Multiplies a chunk by the factors of its rows and columns; `column`: of this lane's two columns.
__device__ inline void scale_chunk(float (&z)[32], const float (&row)[2],
                                   const float (&column)[2]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int at = i / 2 * 4 + i % 2;  // of a column's element in the upper row
    const float own = __shfl_sync(~0u, column[i % 2], i / 2 * 4 + threadIdx.x % 4);
    z[at] *= row[0] * own;
    z[at + 2] *= row[1] * own;
  }
}

/// The larger of `amax` and all |z|.
template <std::size_t count>
__device__ inline float max_magnitude(const float (&z)[count], float amax) {
  float part[4] = {amax, amax, amax, amax};  // a maximum waits for the one before: four don't
#pragma unroll
  for (std::size_t i = 0; i < count; ++i) part[i % 4] = ptx::max_or_nan(part[i % 4], fabsf(z[i]));
  return ptx::max_or_nan(ptx::max_or_nan(part[0], part[1]), ptx::max_or_nan(part[2], part[3]));
}

/// Calls function(z, c) for each chunk of a thread's Z, 32 elements of it, which it may change. One
/// copy of its code serves all chunks: registers have no index that a kernel could compute, so each
/// chunk is moved to where the code finds it, and back.
template <std::size_t count, class Function>
__device__ inline void for_each_chunk(float (&z)[count], Function function) {
  constexpr int chunks = count / 32;
  // The empty asm keeps the compiler from making a select of each move, one for each candidate.
  const auto move = [](float& to, float from) {
    to = from;
    asm volatile("" : "+f"(to));
  };
#pragma unroll 1
  for (int c = 0; c < chunks; ++c) {
    float chunk[32] = {};
#pragma unroll
    for (int candidate = 0; candidate < chunks; ++candidate) {
      if (c != candidate) continue;
#pragma unroll
      for (int i = 0; i < 32; ++i) move(chunk[i], z[32 * candidate + i]);
    }
    function(chunk, c);
#pragma unroll
    for (int candidate = 0; candidate < chunks; ++candidate) {
      if (c != candidate) continue;
#pragma unroll
      for (int i = 0; i < 32; ++i) move(z[32 * candidate + i], chunk[i]);
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

/// The factor of a block; the least normal number is its least, so that it can be divided by.
__device__ inline float block_factor(float amax, float largest, BlockScales blocks) {
  const float factor = fmaxf(amax * (1 / largest), FLT_MIN);
  if (blocks == BlockScales::fp32_128) return factor;
  return __uint_as_float((__float_as_uint(factor) + 0x7FFFFF) & 0x7F800000);  // rounded up
}

/// Stores the factor of the block of D at (row, column), if it lies in D.
__device__ inline void store_factor(const ScaledProblem& p, int row, int column, float factor) {
  if (row >= p.m || column >= p.n) return;
  if (p.blocks == BlockScales::ue8m0_32) {
    static_cast<std::uint8_t*>(p.block_factors)[row * p.block_pitch + column / 32] =
        __float_as_uint(factor) >> 23;
  } else {
    static_cast<float*>(p.block_factors)[row * p.block_pitch + column / 128] = factor;
  }
}

/// The largest |z| of a row, `width` columns from z on; four lanes hold it, and all get the answer.
/// NaN is left out: it stays in D, and shall not take its neighbours with it. If not `whole`, each
/// gets its own quarter's answer: a broken variant's.
template <bool whole, int width>
__device__ inline float block_amax(const float* z, int half) {
  float amax = 0;
#pragma unroll
  for (int i = 0; i < width / 4; ++i) {
    amax = fmaxf(amax, fabsf(z[i / 2 * 4 + half * 2 + i % 2]));
  }
  if constexpr (whole) {
    amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, 1));
    amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, 2));
  }
  return fminf(amax, FLT_MAX);
}

/// What z is multiplied by before it is rounded: by row half, and by 32 columns of a chunk.
using Multipliers = float[2][2];

/// Computes and stores the factors of the blocks in a chunk, or in this one and the next.
template <bool whole, BlockScales blocks>
__device__ inline void scale_blocks(Multipliers& multiplier, const float* z, const ScaledProblem& p,
                                    int row, int column, float largest) {
  constexpr int width = block_width(blocks);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      if (part == 1 && width > 32) {
        multiplier[half][1] = multiplier[half][0];
        continue;
      }
      const float factor =
          block_factor(block_amax<whole, width>(z + 16 * part, half), largest, blocks);
      multiplier[half][part] = __fdividef(1, factor);
      if (threadIdx.x % 4 == 0) {
        store_factor(p, row + accumulator_row() + 8 * half, column + 32 * part, factor);
      }
    }
  }
}

}  // namespace gemm

// The epilogue: from accumulators in registers to D in global memory.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "common/gemm/problem.h"

namespace gemm {

/// Adds beta * C to the two elements of D at (row, column) and its right neighbour; an element that
/// lies outside D is left as it is. beta is not 0.
__device__ inline void add_c(float2& value, const Problem& problem, int row, int column) {
  if (row >= problem.m || column >= problem.n) return;
  // 64-bit: rows x pitch passes 2^31 for large C.
  const __nv_bfloat16* const c = problem.c + row * problem.ldc + column;
  value.x += problem.beta * __bfloat162float(c[0]);
  if (column + 1 < problem.n) value.y += problem.beta * __bfloat162float(c[1]);
}

/// Writes one warpgroup's 64 x N accumulator (layout: ptx::wgmma_m64k16) to D, with its first
/// element at (first_row, first_column): D = alpha * accumulator + beta * C, rounded once to bf16.
/// Rows and columns outside D are left out. Each thread holds pairs of neighbouring columns, so it
/// stores 4 bytes at a time; C's and D's pitches must be even.
template <int N>
__device__ inline void store_accumulator(const float (&accumulator)[N / 2], const Problem& problem,
                                         int first_row, int first_column) {
  const int warp = threadIdx.x % 128 / 32;
  const int lane = threadIdx.x % 32;

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + 16 * warp + lane / 4 + 8 * half;
    if (row >= problem.m) continue;
    // 64-bit: rows x pitch passes 2^31 for large D.
    __nv_bfloat16* const d = problem.d + row * problem.ldd;

#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      const int column = first_column + 8 * j + lane % 4 * 2;
      if (column >= problem.n) continue;
      const bool pair = column + 1 < problem.n;

      float2 value{problem.alpha * accumulator[4 * j + 2 * half],
                   problem.alpha * accumulator[4 * j + 2 * half + 1]};
      if (problem.beta != 0) add_c(value, problem, row, column);  // else C may hold NaN
      if (pair) {
        *reinterpret_cast<__nv_bfloat162*>(d + column) = __float22bfloat162_rn(value);
      } else {
        d[column] = __float2bfloat16_rn(value.x);
      }
    }
  }
}

}  // namespace gemm

// A chunk: 64 rows of D on their way from the accumulators of a warpgroup to a TMA store, or of C
// on the way back.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "common/gemm/problem.h"
#include "common/gemm/swizzle.h"
#ifdef __CUDACC__
#include "common/ptx/matrix.cuh"
#endif

namespace gemm {

/// 64 rows x `columns` of bf16 in shared memory, as a box of TMA lays them out.
///
/// Eight lanes of a stmatrix write the same 16 bytes of eight rows. So that they fall into
/// different banks, rows of 64 columns (128 bytes) are swizzled; others are an odd number of
/// 16-byte units long, and need nothing.
template <int columns>
struct Chunk {
  static_assert(columns == 64 || columns / 8 % 2 == 1, "rows that would collide in the banks");
  static_assert(columns % 8 == 0);
  static constexpr bool swizzled = columns == 64;
  static constexpr int row_bytes = 2 * columns;
  static constexpr int bytes = 64 * row_bytes;

  /// Of 16-byte unit `unit` of row `row`. A swizzled chunk starts on a multiple of 1024 bytes.
  HOST_DEVICE static constexpr std::uint32_t offset(int row, int unit) {
    const std::uint32_t plain = row * row_bytes + 16 * unit;
    return swizzled ? swizzle_128b(plain) : plain;
  }
};

#ifdef __CUDACC__

/// Two fp32 values, rounded to bf16, the first in the lower half.
__device__ inline std::uint32_t pack_bf16(float first, float second) {
  const __nv_bfloat162 rounded = __floats2bfloat162_rn(first, second);
  return reinterpret_cast<const std::uint32_t&>(rounded);
}

/// The two bf16 values of a pair: each is the upper half of an fp32 value. Written in 32 bits, so
/// that a pair that waits in a register stays there: as two halves it takes two.
__device__ inline float2 unpack_bf16(std::uint32_t pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000)};
}

/// Two neighbours of D: alpha * sums.
__device__ inline std::uint32_t scaled_pair(const float* sums, float alpha) {
  return pack_bf16(alpha * sums[0], alpha * sums[1]);
}

/// Two neighbours of D: alpha * sums + beta * C.
__device__ inline std::uint32_t scaled_pair(const float* sums, float alpha, std::uint32_t pair_of_c,
                                            float beta) {
  const float2 c = unpack_bf16(pair_of_c);
  return pack_bf16(alpha * sums[0] + beta * c.x, alpha * sums[1] + beta * c.y);
}

/// A thread holds a chunk in pairs of neighbours: pair i is its accumulators 2 i and 2 i + 1
/// (ptx::wgmma_m64k16). Four of them are those of two units of 16 bytes, which one instruction
/// moves; of the last unit of an odd number, there are two.
template <int columns>
__device__ constexpr int pairs_at(int first) {
  return columns / 4 - first < 4 ? 2 : 4;
}

/// The address that this thread gives to the instruction that moves pairs `first`, ...: matrices 0
/// and 1 are rows 0-7 and 8-15 of the warp, 2 and 3 the same rows of the next unit.
template <int columns>
__device__ inline unsigned char* matrix_row(unsigned char* chunk, int first) {
  const int warp = threadIdx.x % 128 / 32;
  const int lane = threadIdx.x % 32;
  const int next_unit = pairs_at<columns>(first) == 4 ? lane / 16 : 0;
  return chunk + Chunk<columns>::offset(16 * warp + lane % 16, first / 2 + next_unit);
}

template <int columns>
__device__ inline void read_pairs(unsigned char* chunk, int first, std::uint32_t (&pair)[4]) {
  if (pairs_at<columns>(first) == 4) {
    ptx::ldmatrix_x4(matrix_row<columns>(chunk, first), pair);
  } else {
    ptx::ldmatrix_x2(matrix_row<columns>(chunk, first), pair[0], pair[1]);
  }
}

template <int columns>
__device__ inline void write_pairs(unsigned char* chunk, int first,
                                   const std::uint32_t (&pair)[4]) {
  if (pairs_at<columns>(first) == 4) {
    ptx::stmatrix_x4(matrix_row<columns>(chunk, first), pair);
  } else {
    ptx::stmatrix_x2(matrix_row<columns>(chunk, first), pair[0], pair[1]);
  }
}

/// Writes the pairs that the threads of a warpgroup hold to `chunk`, 64 x `columns` elements.
template <int columns>
__device__ inline void write_chunk(unsigned char* chunk,
                                   const std::uint32_t (&pairs)[columns / 4]) {
#pragma unroll
  for (int first = 0; first < columns / 4; first += 4) {
    std::uint32_t pair[4] = {};
#pragma unroll
    for (int i = 0; i < pairs_at<columns>(first); ++i) pair[i] = pairs[first + i];
    write_pairs<columns>(chunk, first, pair);
  }
}

/// Writes alpha * accumulator to `chunk`, 64 x `columns` of them; a warpgroup runs this.
template <int columns>
__device__ inline void write_chunk(unsigned char* chunk, const float* accumulator, float alpha) {
#pragma unroll
  for (int first = 0; first < columns / 4; first += 4) {
    std::uint32_t pair[4] = {};
#pragma unroll
    for (int i = 0; i < pairs_at<columns>(first); ++i) {
      pair[i] = scaled_pair(accumulator + 2 * (first + i), alpha);
    }
    write_pairs<columns>(chunk, first, pair);
  }
}

/// Replaces C in `chunk` by alpha * accumulator + beta * C. Each warp reads only what it
/// overwrites.
template <int columns>
__device__ inline void write_chunk(unsigned char* chunk, const float* accumulator, float alpha,
                                   float beta) {
#pragma unroll
  for (int first = 0; first < columns / 4; first += 4) {
    std::uint32_t pair[4] = {};
    read_pairs<columns>(chunk, first, pair);
#pragma unroll
    for (int i = 0; i < pairs_at<columns>(first); ++i) {
      pair[i] = scaled_pair(accumulator + 2 * (first + i), alpha, pair[i], beta);
    }
    write_pairs<columns>(chunk, first, pair);
  }
}

/// Whether a TMA store of the chunk of D whose columns start at `first_column` would write beyond
/// them. It leaves out what lies outside the tensor in units of 16 bytes: where n is not a multiple
/// of 8, it overwrites up to 7 elements between the rows of D. Seen on an H200; ordinary stores
/// then have to do.
template <int columns>
__device__ inline bool overhangs_a_unit(const Problem& problem, int first_column) {
  return problem.n % 8 != 0 && first_column + columns > problem.n;
}

/// Calls function(i, row, column) for pair i of this thread, whose first element is D's at (row,
/// column), if the chunk's is at (first_row, first_column); pairs outside D are left out.
template <int columns, class Function>
__device__ inline void for_each_pair(const Problem& problem, int first_row, int first_column,
                                     int first, Function function) {
#pragma unroll
  for (int i = 0; i < pairs_at<columns>(first); ++i) {
    const int row =
        first_row + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + (first + i) % 2 * 8;
    const int column = first_column + threadIdx.x % 4 * 2 + (first + i) / 2 * 8;
    if (row < problem.m && column < problem.n) function(i, row, column);
  }
}

/// This thread's pairs `first`, ... of C by ordinary loads, 0 where they lie outside; C's pitch is
/// even.
template <int columns>
__device__ inline void load_pairs(const Problem& problem, int first_row, int first_column,
                                  int first, std::uint32_t (&pair)[4]) {
#pragma unroll
  for (std::uint32_t& each : pair) each = 0;
  for_each_pair<columns>(problem, first_row, first_column, first, [&](int i, int row, int column) {
    const __nv_bfloat16* const c = problem.c + row * problem.ldc + column;  // 64-bit offset
    pair[i] = column + 1 < problem.n ? *reinterpret_cast<const std::uint32_t*>(c)
                                     : __bfloat16_as_ushort(*c);
  });
}

/// Packs alpha * accumulator, this thread's part of a chunk.
template <int columns>
__device__ inline void pack_chunk(std::uint32_t (&pairs)[columns / 4], const float* accumulator,
                                  float alpha) {
#pragma unroll
  for (int i = 0; i < columns / 4; ++i) pairs[i] = scaled_pair(accumulator + 2 * i, alpha);
}

/// Packs alpha * accumulator + beta * C, this thread's part of the chunk of D from (first_row,
/// first_column) on.
template <int columns>
__device__ inline void pack_chunk(std::uint32_t (&pairs)[columns / 4], const float* accumulator,
                                  const Problem& problem, int first_row, int first_column) {
#pragma unroll
  for (int first = 0; first < columns / 4; first += 4) {
    std::uint32_t c[4];
    load_pairs<columns>(problem, first_row, first_column, first, c);
#pragma unroll
    for (int i = 0; i < pairs_at<columns>(first); ++i) {
      pairs[first + i] =
          scaled_pair(accumulator + 2 * (first + i), problem.alpha, c[i], problem.beta);
    }
  }
}

/// Fills `chunk` with C. Afterwards each warp has its rows.
template <int columns>
__device__ inline void load_chunk(unsigned char* chunk, const Problem& problem, int first_row,
                                  int first_column) {
#pragma unroll
  for (int first = 0; first < columns / 4; first += 4) {
    std::uint32_t pair[4];
    load_pairs<columns>(problem, first_row, first_column, first, pair);
    write_pairs<columns>(chunk, first, pair);
  }
  __syncwarp();
}

/// Copies what lies inside D from `chunk` by ordinary stores, D's pitch being even; each warp
/// copies what it has written.
template <int columns>
__device__ inline void store_chunk(unsigned char* chunk, const Problem& problem, int first_row,
                                   int first_column) {
  __syncwarp();
#pragma unroll
  for (int first = 0; first < columns / 4; first += 4) {
    std::uint32_t pair[4] = {};
    read_pairs<columns>(chunk, first, pair);
    for_each_pair<columns>(
        problem, first_row, first_column, first, [&](int i, int row, int column) {
          __nv_bfloat16* const d = problem.d + row * problem.ldd + column;  // 64-bit offset
          if (column + 1 < problem.n) {
            *reinterpret_cast<std::uint32_t*>(d) = pair[i];
          } else {
            *d = __ushort_as_bfloat16(pair[i]);
          }
        });
  }
}

#endif

}  // namespace gemm

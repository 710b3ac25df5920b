// Operations of a training step's epilogue: what the forward pass keeps for the backward one, and
// what the backward one makes of it.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "common/gemm/activation.h"
#include "common/gemm/epilogue_chain.cuh"
#include "common/gemm/training_problem.h"
#include "common/ptx/flag.cuh"
#include "common/ptx/math.cuh"
#include "common/ptx/named_barrier.cuh"

namespace gemm {

/// Writes the values in bf16 to a place; or, where a TMA store would write beyond the rows, to the
/// matrix itself.
__device__ inline void store_bf16(const Fragment& f, unsigned char* place, const TrainingProblem& p,
                                  __nv_bfloat16* matrix, std::int64_t pitch) {
  const auto round = [](float x, float y) { return __floats2bfloat162_rn(x, y); };
  if (p.overhangs_a_unit(f.column - Fragment::own_column(), 64)) {
    store_directly<__nv_bfloat162>(f, p.product, matrix, pitch, round);
  } else {
    stage_16_bit(f, place, round);
  }
}

/// Keeps the values as they are at this place in the chain: aux, in place 1.
struct StoreAux : Operation {
  const TrainingProblem& p;

  __device__ explicit StoreAux(const TrainingProblem& problem) : p(problem) {}
  __device__ void visit(Fragment& f, Places places) const {
    store_bf16(f, places.at(1), p, p.aux, p.ld_aux);
  }
};

/// StoreD for a D that is always in bf16.
struct StoreBf16D : Operation {
  const TrainingProblem& p;

  __device__ explicit StoreBf16D(const TrainingProblem& problem) : p(problem) {}
  __device__ void store(const Fragment& f, Places places) const {
    store_bf16(f, places.at(0), p, p.product.d, p.product.ldd);
  }
};

/// value * activation'(aux): aux comes in the last place.
template <Activation activation>
struct TimesSlope : Operation {
  const TrainingProblem& p;

  __device__ explicit TimesSlope(const TrainingProblem& problem) : p(problem) {}
  __device__ void visit(Fragment& f, Places places) const {
#pragma unroll
    for (int first = 0; first < Fragment::pairs; first += 4) {
      std::uint32_t pair[4];
      read_pairs<64>(places.at(p.loads() - 1), first, pair);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 z = unpack_bf16(pair[i]);
        f.value[2 * (first + i)] *= slope<activation>(z.x);
        f.value[2 * (first + i) + 1] *= slope<activation>(z.y);
      }
    }
  }
};

enum class ReduceBreak { none, padded_rows, early_count, relaxed_count };

/// Adds D up as it is stored: over rows or columns for the bias' gradient, over all elements for
/// the scalar. In the same order in every launch:
///
///   1. a thread adds up what it holds of a chunk, then a warp of a tile, by shuffles;
///   2. the warps write their sums to global memory, each to a place of its own, and count the
///   tile;
///   3. whoever counts the last tile of a column (or row, or of all) of tiles adds them up in the
///      order of their places, and sets the count back.
///
/// So the order does not depend on who is last. Elements outside D count as 0. With
/// TrainingProblem::is_atomic, 2 and 3 are an atomic addition by each warp.
template <ReduceBreak broken>
struct Reduce : Operation {
  const TrainingProblem& p;
  /// Of lane l, over the warp's rows: columns 2 l and 2 l + 1 of each strip. Or, for a gradient of
  /// rows, of the thread's four rows, over the columns that it holds.
  float sums[4];
  float all;

  __device__ explicit Reduce(const TrainingProblem& problem) : p(problem) {}

  __device__ void begin(int, int) {
#pragma unroll
    for (float& sum : sums) sum = 0;
    all = 0;
  }

  __device__ void reduce(Fragment& f) {
    if (p.bias_gradient == nullptr && p.scalar == Scalar::none) return;
    round(f);
    mask(f);
    if (p.bias_gradient != nullptr && p.bias_kind == Bias::column) add_columns(f);
    if (p.bias_gradient != nullptr && p.bias_kind == Bias::row) {
#pragma unroll
      for (int i = 0; i < Fragment::pairs; ++i) {
        sums[2 * f.block + i % 2] += f.value[2 * i] + f.value[2 * i + 1];
      }
    }
    if (p.scalar == Scalar::sum) {
#pragma unroll
      for (const float value : f.value) all += value;
    } else if (p.scalar == Scalar::amax) {
#pragma unroll
      for (const float value : f.value) all = ptx::max_or_nan(all, fabsf(value));
    }
  }

  /// The tile's first row and column.
  __device__ void end(int row, int column) const {
    const int tile_row = row / 128, tile_column = column / 128;
    const int tiles_m = (p.product.m + 127) / 128, tiles_n = (p.product.n + 127) / 128;
    if (p.is_atomic) {
      add_atomically(row, column);
      return;
    }
    if (p.bias_gradient != nullptr && p.bias_kind == Bias::column) {
      write_columns(tile_row, column);
      if (is_last(p.gradient_counts + tile_column, tiles_m)) {
        add_parts(2 * tiles_m, column, p.product.n);
      }
    } else if (p.bias_gradient != nullptr) {
      write_rows(tile_column, row);
      if (is_last(p.gradient_counts + tile_row, tiles_n)) add_parts(tiles_n, row, p.product.m);
    }
    if (p.scalar != Scalar::none) {
      write_scalar(tile_row * tiles_n + tile_column);
      if (is_last(p.scalar_count, tiles_m * tiles_n)) add_scalars(4 * tiles_m * tiles_n);
    }
  }

 private:
  static constexpr unsigned whole_warp = 0xFFFFFFFF;

  __device__ static int consumer() {
    return threadIdx.x / 128 - 1;
  }
  __device__ static void synchronize() {
    ptx::named_barrier_sync(1 + consumer(), 128);
  }
  /// 128 floats for each of two warps of a consumer.
  __device__ static float (&scratch())[2][128] {
    __shared__ float memory[2][2][128];
    return memory[consumer()];
  }

  /// Two values at a time: ptxas rounds a single one with F2F, an eighth as fast.
  __device__ static void round(Fragment& f) {
#pragma unroll
    for (int i = 0; i < Fragment::pairs; ++i) {
      const float2 stored = unpack_bf16(pack_bf16(f.value[2 * i], f.value[2 * i + 1]));
      f.value[2 * i] = stored.x;
      f.value[2 * i + 1] = stored.y;
    }
  }

  /// Sets what lies outside D to 0. Most chunks have nothing there.
  __device__ void mask(Fragment& f) const {
    const int first_row = f.row - Fragment::own_row();
    const int first_column = f.column - Fragment::own_column();
    const bool is_whole = first_row + 64 <= p.product.m && first_column + 64 <= p.product.n;
    if (is_whole || broken == ReduceBreak::padded_rows) return;
#pragma unroll
    for (int i = 0; i < 2 * Fragment::pairs; ++i) {
      const int row = f.row_of(i / 2), column = f.column_of(i / 2) + i % 2;
      if (row >= p.product.m || column >= p.product.n) f.value[i] = 0;
    }
  }

  /// Adds the chunk's 64 columns up over the warp's 16 rows. Eight lanes hold parts of the same
  /// columns. In each of three steps two of them that differ in one bit of their number share what
  /// they have: each hands over the half that the other keeps. In the end lane l has columns 2 l
  /// and 2 l + 1.
  __device__ void add_columns(const Fragment& f) {
    float sum[16];  // of the thread's 8 pairs of columns, over its two rows
#pragma unroll
    for (int i = 0; i < 16; ++i)
      sum[i] = f.value[i / 2 * 4 + i % 2] + f.value[i / 2 * 4 + 2 + i % 2];
#pragma unroll
    for (int step = 0; step < 3; ++step) {
      const int half = 8 >> step;
      const int distance = 16 >> step;  // lanes apart
      const bool keeps_upper = (threadIdx.x & distance) != 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i >= half) continue;
        const float lower = sum[i], upper = sum[half + i];
        const float given = __shfl_xor_sync(whole_warp, keeps_upper ? lower : upper, distance);
        sum[i] = (keeps_upper ? upper : lower) + given;
      }
    }
    sums[2 * f.strip] += sum[0];
    sums[2 * f.strip + 1] += sum[1];
  }

  __device__ void add_atomically(int row, int column) const {
    if (p.bias_gradient != nullptr) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (p.bias_kind == Bias::column) {
          const int at = column + 64 * (i / 2) + 2 * (threadIdx.x % 32) + i % 2;
          if (at < p.product.n) atomicAdd(p.bias_gradient + at, sums[i]);
        } else {
          const float sum = combine_quad(sums[i]);
          const int at = row + own_row(i);
          if (threadIdx.x % 4 == 0 && at < p.product.m) atomicAdd(p.bias_gradient + at, sum);
        }
      }
    }
    if (p.scalar == Scalar::none) return;
    const float of_warp = combine_lanes(all);
    if (threadIdx.x % 32 != 0) return;
    if (p.scalar == Scalar::sum) {
      atomicAdd(p.scalar_result, of_warp);
    } else {
      // Of magnitudes, the larger has the larger bits, and NaN has the largest.
      atomicMax(reinterpret_cast<unsigned*>(p.scalar_result), __float_as_uint(of_warp));
    }
  }

  /// The sum of four neighbouring lanes, which hold parts of the same rows.
  __device__ static float combine_quad(float sum) {
    sum += __shfl_xor_sync(whole_warp, sum, 1);
    return sum + __shfl_xor_sync(whole_warp, sum, 2);
  }
  /// Row `i` of a thread's four, in the tile.
  __device__ static int own_row(int i) {
    return Fragment::own_row() + 64 * (i / 2) + 8 * (i % 2);
  }

  /// Two parts a tile: warps 2 and 3 hand theirs to warps 0 and 1.
  __device__ void write_columns(int tile_row, int column) const {
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    float(&upper)[2][128] = scratch();
    if (warp >= 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        upper[warp - 2][64 * (i / 2) + 2 * lane + i % 2] = sums[i];
      }
    }
    synchronize();
    if (warp < 2) {
      // 64-bit: parts x n may pass 2^31.
      float* const part =
          p.gradient_parts + std::int64_t{p.product.n} * (2 * tile_row + warp) + column;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = 64 * (i / 2) + 2 * lane + i % 2;
        if (column + at < p.product.n) part[at] = sums[i] + upper[warp][at];
      }
    }
  }

  /// One part a tile: a warp has all columns of its rows, a quarter in each of four lanes.
  __device__ void write_rows(int tile_column, int row) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float sum = combine_quad(sums[i]);
      const int at = row + own_row(i);
      if (threadIdx.x % 4 == 0 && at < p.product.m) {
        p.gradient_parts[std::int64_t{p.product.m} * tile_column + at] = sum;
      }
    }
  }

  __device__ float combine(float a, float b) const {
    return p.scalar == Scalar::sum ? a + b : ptx::max_or_nan(a, b);
  }
  __device__ float combine_lanes(float value) const {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      value = combine(value, __shfl_xor_sync(whole_warp, value, distance));
    }
    return value;
  }

  __device__ void write_scalar(int tile) const {
    const float of_warp = combine_lanes(all);
    if (threadIdx.x % 32 == 0) {
      p.scalar_parts[std::int64_t{4} * tile + threadIdx.x % 128 / 32] = of_warp;
    }
  }

  /// Counts this tile, and says whether it is the last of `tiles`: then the parts of all are there
  /// to be read by all 128 threads, and the count is 0 again.
  __device__ static bool is_last(std::uint32_t* count, int tiles) {
    __shared__ bool is_last[2];
    if constexpr (broken != ReduceBreak::early_count)
      synchronize();  // all have written their parts
    if (threadIdx.x % 128 == 0) {
      const std::uint32_t before = broken == ReduceBreak::relaxed_count
                                       ? ptx::add_relaxed(count, 1)
                                       : ptx::add_acquire_release(count, 1);
      is_last[consumer()] = before + 1 == static_cast<std::uint32_t>(tiles);
      if (is_last[consumer()]) ptx::store_relaxed(count, 0);
    }
    synchronize();
    return is_last[consumer()];
  }

  /// The gradient's elements from `first` on, one a thread.
  __device__ void add_parts(int parts, int first, int length) const {
    const int element = first + threadIdx.x % 128;
    if (element >= length) return;
    float sum = 0;
#pragma unroll 8
    for (int part = 0; part < parts; ++part) {
      sum += p.gradient_parts[std::int64_t{length} * part + element];
    }
    p.bias_gradient[element] = sum;
  }

  __device__ void add_scalars(int parts) const {
    float value = 0;
    for (int part = threadIdx.x % 128; part < parts; part += 128) {
      value = combine(value, p.scalar_parts[part]);
    }
    value = combine_lanes(value);
    float(&of_warps)[128] = scratch()[0];
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x % 128 / 32] = value;
    synchronize();
    if (threadIdx.x % 128 == 0) {
      *p.scalar_result =
          combine(combine(of_warps[0], of_warps[1]), combine(of_warps[2], of_warps[3]));
    }
    synchronize();  // scratch may be used again
  }
};

}  // namespace gemm

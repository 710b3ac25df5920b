// Operations of a training step's epilogue: what the forward pass keeps for the backward one, and
// what the backward one makes of it.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "common/gemm/activation.h"
#include "common/gemm/epilogue_chain.cuh"
#include "common/gemm/fused_roles.cuh"
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
///   2. the sums of a tile go to global memory, to a place of their own (end);
///   3. behind its last tile each CTA waits until all have written theirs, and then adds up its
///      share of the columns (or rows), in the order of the places (finish).
///
/// All CTAs of the grid must be able to run at a time, as in lesson 11: there is one for each SM at
/// the most. Elements outside D count as 0. With TrainingProblem::is_atomic, 2 and 3 are an atomic
/// addition by each warp.
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
    if (p.bias_gradient != nullptr && p.bias_kind == Bias::row) add_rows(f);
    if (p.scalar == Scalar::sum) {
#pragma unroll
      for (const float value : f.value) all += value;
    } else if (p.scalar == Scalar::amax) {
#pragma unroll
      for (const float value : f.value) all = ptx::max_or_nan(all, fabsf(value));
    }
  }

  __device__ void end(int row, int column) const {
    if (p.is_atomic) {
      add_atomically(row, column);
      return;
    }
    if (p.bias_gradient != nullptr && p.bias_kind == Bias::column) {
      write_columns(row / 128, column);
    } else if (p.bias_gradient != nullptr) {
      write_rows(column / 128, row);
    }
    if (p.scalar != Scalar::none) write_scalar(row / 128 * tiles_n(p) + column / 128);
  }

  __device__ static void finish(const TrainingProblem& p) {
    if (p.is_atomic || (p.bias_gradient == nullptr && p.scalar == Scalar::none)) return;
    await_parts(p);
    if (p.bias_gradient != nullptr && p.bias_kind == Bias::column) {
      add_parts(p, tiles_m(p), p.product.n);
    } else if (p.bias_gradient != nullptr) {
      add_parts(p, tiles_n(p), p.product.m);
    }
    if (p.scalar != Scalar::none && blockIdx.x == gridDim.x - 1) add_scalars(p);
  }

 private:
  static constexpr unsigned whole_warp = 0xFFFFFFFF;

  __device__ static int tiles_m(const TrainingProblem& p) {
    return (p.product.m + 127) / 128;
  }
  __device__ static int tiles_n(const TrainingProblem& p) {
    return (p.product.n + 127) / 128;
  }
  /// Room for 128 floats of each consumer.
  __device__ static float* scratch() {
    __shared__ float memory[fused::consumers * 128];
    return memory;
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
    add_to_half(f.strip, sum[0], sum[1]);
  }

  /// Adds the thread's two rows of the chunk up over the columns that it holds.
  __device__ void add_rows(const Fragment& f) {
    float sum[2] = {};
#pragma unroll
    for (int i = 0; i < Fragment::pairs; ++i) sum[i % 2] += f.value[2 * i] + f.value[2 * i + 1];
    add_to_half(f.block, sum[0], sum[1]);
  }

  /// Adds to the first or second half of `sums`: registers have no index.
  __device__ void add_to_half(int half, float first, float second) {
    sums[0] += half == 0 ? first : 0;
    sums[1] += half == 0 ? second : 0;
    sums[2] += half == 1 ? first : 0;
    sums[3] += half == 1 ? second : 0;
  }

  __device__ void add_atomically(int row, int column) const {
    if (p.bias_gradient != nullptr) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (p.bias_kind == Bias::column) {
          const int at = column + own_column(i);
          if (at < p.product.n) atomicAdd(p.bias_gradient + at, sums[i]);
        } else {
          const float sum = combine_quad(sums[i]);
          const int at = row + own_row(i);
          if (threadIdx.x % 4 == 0 && at < p.product.m) atomicAdd(p.bias_gradient + at, sum);
        }
      }
    }
    if (p.scalar == Scalar::none) return;
    const float of_warp = combine_lanes(p, all);
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
  /// The row or column of sums[i], in the tile.
  __device__ static int own_row(int i) {
    return Fragment::own_row() + 64 * (i / 2) + 8 * (i % 2);
  }
  __device__ static int own_column(int i) {
    return 64 * (i / 2) + 2 * (threadIdx.x % 32) + i % 2;
  }

  /// One part a tile. There is room for the sums of one warp only, so they go from warp 3 to 2, to
  /// 1, to 0, and each adds its own.
  __device__ void write_columns(int part, int column) const {
    const int consumer = threadIdx.x / 128 - 1, warp = threadIdx.x % 128 / 32;
    float* const below = scratch() + 128 * consumer;
    for (int turn = 3; turn > 0; --turn) {
      if (warp == turn) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          below[own_column(i)] = turn == 3 ? sums[i] : below[own_column(i)] + sums[i];
        }
      }
      ptx::named_barrier_sync(1 + consumer, 128);
    }
    if (warp > 0) return;
    // 64-bit: parts x n may pass 2^31.
    float* const to = p.gradient_parts + std::int64_t{p.product.n} * part + column;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = own_column(i);
      if (column + at < p.product.n) to[at] = below[at] + sums[i];
    }
  }

  /// One part a tile: a warp has all columns of its rows, a quarter in each of four lanes.
  __device__ void write_rows(int part, int row) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float sum = combine_quad(sums[i]);
      const int at = row + own_row(i);
      if (threadIdx.x % 4 == 0 && at < p.product.m) {
        p.gradient_parts[std::int64_t{p.product.m} * part + at] = sum;
      }
    }
  }

  __device__ static float combine(const TrainingProblem& p, float a, float b) {
    return p.scalar == Scalar::sum ? a + b : ptx::max_or_nan(a, b);
  }
  __device__ static float combine_lanes(const TrainingProblem& p, float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      value = combine(p, value, __shfl_xor_sync(whole_warp, value, distance));
    }
    return value;
  }

  __device__ void write_scalar(int tile) const {
    const float of_warp = combine_lanes(p, all);
    if (threadIdx.x % 32 == 0) {
      p.scalar_parts[std::int64_t{4} * tile + threadIdx.x % 128 / 32] = of_warp;
    }
  }

  // ---- What finish() does, with all threads of both consumers.

  static constexpr int finishers = 128 * fused::consumers;
  static constexpr int groups = finishers / 32;  // a warp each

  __device__ static void synchronize() {
    ptx::named_barrier_sync(1 + fused::consumers, finishers);
  }

  /// Waits until all CTAs have written their parts. The count goes from 0 to one less than there
  /// are CTAs, and the last one sets it to 0 again: that is what all wait for.
  __device__ static void await_parts(const TrainingProblem& p) {
    if constexpr (broken != ReduceBreak::early_count) synchronize();  // this CTA has
    if (threadIdx.x == 128) {
      ptx::count_release(p.ended, gridDim.x - 1);
      const auto count = [&] {
        return broken == ReduceBreak::relaxed_count ? ptx::load_relaxed(p.ended)
                                                    : ptx::load_acquire(p.ended);
      };
      while (count() != 0) {
      }
    }
    synchronize();
  }

  /// Of 32 elements of the gradient at a time, each warp adds up every eighth part.
  __device__ static void add_parts(const TrainingProblem& p, int parts, int length) {
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32 - 4;
    float* const sums = scratch();
    for (int first = 32 * blockIdx.x; first < length; first += 32 * gridDim.x) {
      const int own = first + lane;
      float sum = 0;
      if (own < length) {
#pragma unroll 8
        for (int part = group; part < parts; part += groups) {
          sum += p.gradient_parts[std::int64_t{length} * part + own];
        }
      }
      sums[32 * group + lane] = sum;
      synchronize();
      if (group == 0 && own < length) {
        for (int other = 1; other < groups; ++other) sum += sums[32 * other + lane];
        p.bias_gradient[own] = sum;
      }
      synchronize();  // the scratch may be used again
    }
  }

  __device__ static void add_scalars(const TrainingProblem& p) {
    const int lane = threadIdx.x % 32, group = threadIdx.x / 32 - 4;
    const int parts = 4 * tiles_m(p) * tiles_n(p);
    float value = 0;
#pragma unroll 8
    for (int part = threadIdx.x - 128; part < parts; part += finishers) {
      value = combine(p, value, p.scalar_parts[part]);
    }
    value = combine_lanes(p, value);
    if (lane == 0) scratch()[group] = value;
    synchronize();
    if (group != 0 || lane != 0) return;
    for (int other = 1; other < groups; ++other) value = combine(p, value, scratch()[other]);
    *p.scalar_result = value;
  }
};

}  // namespace gemm

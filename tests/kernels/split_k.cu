// A test kernel: CTAs share the sum over K, and one of them puts the parts together.
//
// A tile of D is 8 x 8. `splits` CTAs each sum part of K for it. How the parts meet:
//   flag     each CTA but the last writes its part to the workspace and counts up a flag; the last
//            waits until the flag says that all have, adds the parts in order, and sets the flag
//            back to 0. A CTA only waits for CTAs with smaller indices.
//   ticket   each CTA adds its part to the workspace with atomics and draws a ticket; who draws the
//            last one stores the sums, and sets the workspace back to 0. The counter wraps by
//            itself.
// Either way workspace and flags are as before when the kernel ends: the next launch needs no
// memset.
//
// D = alpha * A * B^T + beta * C. `workspace` has splits * 64 fp32 for each tile (flag: undefined
// contents, ticket: zeros, the first 64 are used), `flags` a word for each tile, 0.
#include <cuda_bf16.h>

#include <cstdint>

#include "common/gemm/problem.h"
#include "common/ptx/flag.cuh"
#include "tests/kernels/ptx_extra.cuh"

namespace kernels {

constexpr int tile = 8;
constexpr int outputs = tile * tile;
constexpr int threads = 128;
constexpr int chunk = 64;  // of K: what a split takes at least

enum class Break {
  none,
  relaxed_flag,
  cta_scope_flag,
  relaxed_wait,
  no_barrier_before_flag,
  no_barrier_after_wait,
  no_wait,
  no_reset,
  early_reset,
  first_waits,
  empty_split_returns,
  workspace_by_tile,
  half_warp_shuffle,
  no_barrier_after_sums,
  no_barrier_after_ticket,
  relaxed_ticket,
  no_barrier_before_ticket,
};

/// The 64 sums over [k_begin, k_end) of this CTA's tile: each warp sums 16 of them, one after the
/// other, with its lanes along K.
template <Break broken>
__device__ void sum_part(const gemm::Problem& p, int first_row, int first_column, int k_begin,
                         int k_end, float* part) {
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  for (int output = warp; output < outputs; output += threads / 32) {
    const int row = first_row + output / tile;
    const int column = first_column + output % tile;
    float sum = 0;
    if (row < p.m && column < p.n) {
      for (int k = k_begin + lane; k < k_end; k += 32) {
        sum += __bfloat162float(p.a[row * p.lda + k]) * __bfloat162float(p.b[column * p.ldb + k]);
      }
    }
    if (broken == Break::half_warp_shuffle && lane >= 16) continue;
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xFFFFFFFF, sum, distance);
    }
    if (lane == 0) part[output] = sum;
  }
}

__device__ inline void store(const gemm::Problem& p, int row, int column, float sum) {
  if (row >= p.m || column >= p.n) return;
  float value = p.alpha * sum;
  if (p.beta != 0) value += p.beta * __bfloat162float(p.c[row * p.ldc + column]);
  p.d[row * p.ldd + column] = __float2bfloat16_rn(value);
}

template <bool by_ticket, Break broken>
__global__ void __launch_bounds__(threads)
    split_k(const gemm::Problem p, int splits, float* workspace, std::uint32_t* flags) {
  __shared__ float part[outputs];
  __shared__ std::uint32_t ticket;

  const int tiles_n = (p.n + tile - 1) / tile;
  const int index = blockIdx.x / splits;  // of the tile
  const int split = blockIdx.x % splits;
  const int first_row = index / tiles_n * tile;
  const int first_column = index % tiles_n * tile;
  const int chunks = (p.k + chunk - 1) / chunk;
  const int k_begin = chunks * split / splits * chunk;
  const int k_end = min(p.k, chunks * (split + 1) / splits * chunk);
  std::uint32_t* const flag = flags + index;
  const int output = threadIdx.x;
  const int row = first_row + output / tile;
  const int column = first_column + output % tile;

  if (broken == Break::empty_split_returns && k_begin >= k_end && split + 1 < splits) return;

  sum_part<broken>(p, first_row, first_column, k_begin, k_end, part);
  if (broken != Break::no_barrier_after_sums) __syncthreads();

  if constexpr (by_ticket) {
    float* const sums = workspace + static_cast<std::int64_t>(index) * splits * outputs;
    if (output < outputs) atomicAdd(sums + output, part[output]);
    // The ticket releases what this thread has seen: the atomics of all.
    if (broken != Break::no_barrier_before_ticket) __syncthreads();
    if (threadIdx.x == 0) {
      ticket = broken == Break::relaxed_ticket ? ptx::increment_relaxed(flag, splits - 1)
                                               : ptx::increment_acq_rel(flag, splits - 1);
    }
    if (broken != Break::no_barrier_after_ticket) __syncthreads();
    if (ticket + 1 != splits || output >= outputs) return;
    store(p, row, column, sums[output]);
    sums[output] = 0;
    return;
  }

  float* const parts = workspace + static_cast<std::int64_t>(
                                       broken == Break::workspace_by_tile ? blockIdx.x : index) *
                                       splits * outputs;
  const int waiter = broken == Break::first_waits ? 0 : splits - 1;
  if (split != waiter) {
    if (output < outputs) parts[split * outputs + output] = part[output];
    if (broken != Break::no_barrier_before_flag) __syncthreads();
    if (threadIdx.x == 0) {
      if (broken == Break::relaxed_flag) {
        ptx::red_add_relaxed(flag, 1);
      } else if (broken == Break::cta_scope_flag) {
        ptx::add_release_cta(flag, 1);
      } else {
        ptx::add_release(flag, 1);
      }
    }
    return;
  }

  if (threadIdx.x == 0 && broken != Break::no_wait) {
    const std::uint32_t others = splits - 1;
    if (broken == Break::early_reset) ptx::store_relaxed(flag, 0);
    while ((broken == Break::relaxed_wait ? ptx::load_relaxed(flag) : ptx::load_acquire(flag)) !=
           others) {
    }
    if (broken != Break::no_reset) ptx::store_relaxed(flag, 0);
  }
  if (broken != Break::no_barrier_after_wait) __syncthreads();
  if (output >= outputs) return;
  float sum = 0;
  for (int i = 0; i < splits; ++i) {
    sum += i == waiter ? part[output] : parts[i * outputs + output];
  }
  store(p, row, column, sum);
}

// Makes a variant a kernel of the module.
#define INSTANTIATE(by_ticket, broken)                                                         \
  template __global__ void split_k<by_ticket, Break::broken>(const gemm::Problem, int, float*, \
                                                             std::uint32_t*)

INSTANTIATE(false, none);
INSTANTIATE(false, relaxed_flag);
INSTANTIATE(false, cta_scope_flag);
INSTANTIATE(false, relaxed_wait);
INSTANTIATE(false, no_barrier_before_flag);
INSTANTIATE(false, no_barrier_after_wait);
INSTANTIATE(false, no_wait);
INSTANTIATE(false, no_reset);
INSTANTIATE(false, early_reset);
INSTANTIATE(false, first_waits);
INSTANTIATE(false, empty_split_returns);
INSTANTIATE(false, workspace_by_tile);
INSTANTIATE(false, half_warp_shuffle);
INSTANTIATE(false, no_barrier_after_sums);
INSTANTIATE(true, none);
INSTANTIATE(true, no_barrier_before_ticket);
INSTANTIATE(true, no_barrier_after_ticket);
INSTANTIATE(true, relaxed_ticket);

}  // namespace kernels

// What a fused softmax or top-k saves: the same in a kernel of its own, behind a product in bf16.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "common/gemm/eight.h"
#include "common/gemm/problem.h"
#include "common/gemm/row_statistics.h"
#include "common/gemm/top_list.cuh"

namespace gemm {

constexpr int separate_threads = 256;
constexpr int separate_warps = separate_threads / 32;

/// Calls function(column, logit) for this thread's elements of row blockIdx.x, columns upwards;
/// rows of `logits` are p.ldd elements apart, a multiple of 8.
template <class Function>
__device__ void for_each_logit(const Problem& p, const __nv_bfloat16* logits, Function function) {
  const __nv_bfloat16* const row = logits + blockIdx.x * p.ldd;  // 64-bit offset
  for (int first = 8 * threadIdx.x; first < p.n; first += 8 * separate_threads) {
    const auto eight = *reinterpret_cast<const Eight<__nv_bfloat16>*>(row + first);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (first + i < p.n) function(first + i, __bfloat162float(eight.value[i]));
    }
  }
}

/// p.d = softmax of each row of `logits`, which have D's pitch. A CTA a row.
__global__ void __launch_bounds__(separate_threads)
    softmax_row(const Problem p, const __nv_bfloat16* logits) {
  __shared__ RowStatistics of_warp[separate_warps];
  float max = -INFINITY;
  for_each_logit(p, logits, [&](int, float logit) { max = fmaxf(max, logit); });
  RowStatistics row{max, 0};
  for_each_logit(p, logits, [&](int, float logit) { row.sum += exp_of(logit - reference(max)); });
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    row = merge(row, {__shfl_xor_sync(~0U, row.max, lanes), __shfl_xor_sync(~0U, row.sum, lanes)});
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = row;
  __syncthreads();
  row = of_warp[0];
#pragma unroll
  for (int warp = 1; warp < separate_warps; ++warp) row = merge(row, of_warp[warp]);

  const float factor = ptx::reciprocal_approx_ftz(row.sum);
  __nv_bfloat16* const d = p.d + blockIdx.x * p.ldd;
  for_each_logit(p, logits, [&](int column, float logit) {
    d[column] = __float2bfloat16_rn(exp_of(logit - reference(row.max)) * factor);
  });
}

/// The top-k of each row of `logits`, which have D's pitch. A CTA a row.
__global__ void __launch_bounds__(separate_threads)
    top_of_row(const Problem p, const __nv_bfloat16* logits, const TopRows top) {
  constexpr int capacity = 8;
  __shared__ TopList<capacity> of_warp[separate_warps];
  TopList<capacity> list;
  for_each_logit(p, logits, [&](int column, float logit) { list.insert(make_key(logit, column)); });
  list = merge_lanes<32>(list);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = list;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  list = threadIdx.x < separate_warps ? of_warp[threadIdx.x] : TopList<capacity>{};
  write_top_row(top, blockIdx.x, merge_lanes<32>(list));
}

}  // namespace gemm

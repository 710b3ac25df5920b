// Top-k lists across the lanes of a warp.
#pragma once

#include <cstdint>

#include "common/gemm/row_statistics.h"
#include "common/gemm/top_list.h"

namespace gemm {

/// The list of what `lanes` neighbouring lanes have in theirs; each of them gets it. Their heads
/// are compared, the largest is taken from whoever has it, and so on. All 32 lanes call this.
template <int lanes, int capacity>
__device__ TopList<capacity> merge_lanes(TopList<capacity> list) {
  TopList<capacity> merged;
#pragma unroll
  for (TopKey& place : merged.keys) {
    place = list.keys[0];
#pragma unroll
    for (int distance = 1; distance < lanes; distance *= 2) {
      const TopKey other = __shfl_xor_sync(~0U, place, distance);
      place = other > place ? other : place;
    }
    if (list.keys[0] == place) list.remove_first();
  }
  return merged;
}

/// Writes a row's values and columns. The values are the softmax over those that are kept; where
/// the first is NaN or infinite, they are NaN. All lanes of a warp call this with the same list.
template <int capacity>
__device__ void write_top_row(const TopRows& top, int row, const TopList<capacity>& list) {
  const int lane = threadIdx.x % 32;
  TopKey own = 0;
#pragma unroll
  for (int i = 0; i < capacity; ++i) own = lane == i ? list.keys[i] : own;
  const bool is_kept = lane < top.count;
  const float exponential = is_kept ? exp_of(value_of(own) - value_of(list.keys[0])) : 0;
  float sum = exponential;
#pragma unroll
  for (int distance = 1; distance < 8; distance *= 2) {
    sum += __shfl_xor_sync(~0U, sum, distance);
  }
  if (!is_kept) return;
  const std::int64_t at = std::int64_t{row} * top.count + lane;
  top.values[at] = exponential * ptx::reciprocal_approx_ftz(sum);
  top.columns[at] = column_of(own);
}

}  // namespace gemm

// In which order the tiles of many problems are computed.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "common/gemm/problem.h"

namespace gemm {

/// Puts groups that multiply the same B side by side, each B where it first appeared. The tiles of
/// neighbours are computed at the same time: they read B from the L2 but once.
inline void sort_by_weights(std::vector<Problem>& groups) {
  std::vector<const __nv_bfloat16*> weights;  // in the order in which they appear
  const auto place = [&](const Problem& p) {
    return std::find(weights.begin(), weights.end(), p.b) - weights.begin();
  };
  for (const Problem& p : groups) {
    if (place(p) == std::ssize(weights)) weights.push_back(p.b);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const Problem& p, const Problem& q) { return place(p) < place(q); });
}

}  // namespace gemm

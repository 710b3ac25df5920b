// The softmax of a row that is seen piece by piece: online maximum and sum.
#pragma once

#include <cmath>

#include "common/gemm/fast.h"
#include "common/host_device.h"

namespace gemm {

/// e^x, as 2^(x log2 e); a result below 2^-126 is 0.
HOST_DEVICE inline float exp_of(float x) {
  constexpr float log2_e = 1.44269504F;
  return Fast::exp2_ftz(log2_e * x);
}

/// What a softmax has to know of some elements of a row: the largest, and the sum of
/// e^(element - the largest). Of no element: -inf and 0.
///
/// The largest leaves NaN out, and the sum is then NaN. So it is where an element is +inf: the sum
/// holds e^(inf - inf).
struct alignas(8) RowStatistics {
  float max = -INFINITY;
  float sum = 0;
};

/// What is subtracted from the elements. Of nothing but -inf it is 0: -inf - -inf would be NaN.
HOST_DEVICE inline float reference(float max) {
  return max == -INFINITY ? 0 : max;
}

/// The statistics of two sets of elements together. The sum of the one with the smaller maximum is
/// moved to the larger one. merge(a, b) and merge(b, a) have the same bits.
HOST_DEVICE inline RowStatistics merge(RowStatistics a, RowStatistics b) {
  const RowStatistics larger = a.max >= b.max ? a : b;
  const RowStatistics smaller = a.max >= b.max ? b : a;
  const float factor = exp_of(smaller.max - reference(larger.max));
  return {larger.max, std::fma(smaller.sum, factor, larger.sum)};
}

}  // namespace gemm

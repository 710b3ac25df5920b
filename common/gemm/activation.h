// Activations, in fp32, as an epilogue computes them.
//
// GELU, its tanh form and SiLU are all x * S(x), with an S that rises from 0 to 1 and S(-x) = 1 -
// S(x). Hence x * S(x) = relu(x) - |x| * S(-|x|): ReLU less a bump, the same on both sides of 0,
// that dies out with the distance. In this form nothing overflows, and nothing is lost where two
// large terms would cancel: for x = -20 the bump is all there is. Far from 0 the bump is 0, also at
// infinity: f(inf) = inf, f(-inf) = 0, the limit. NaN stays NaN.
#pragma once

#include <cmath>

#include "common/gemm/fast.h"
#include "common/host_device.h"

namespace gemm {

/// gelu is x * Phi(x), Phi being the normal distribution; gelu_tanh is its older approximation,
/// another function: they differ by up to 4.7e-4.
enum class Activation { none, relu, gelu, gelu_tanh, silu };

/// max(x, 0).
HOST_DEVICE inline float relu(float x) {
  return Fast::max_or_nan(x, 0);
}

/// |x|, but no farther from 0 than where every bump is 0: infinity times 0 would be NaN.
HOST_DEVICE inline float bump_distance(float x) {
  return std::fmin(std::fabs(x), 128.0F);
}

/// Phi(-t) for t >= 0 as 2^P(t): its logarithm is nearly a parabola. P is a minimax fit on [0,
/// 6.5], where the result is off by 2^-16 of itself at the most; beyond, where Phi(-t) < 5e-11, it
/// goes on to fall.
HOST_DEVICE inline float normal_tail(float t) {
  float p = -1.75777643e-6F;
  p = std::fma(p, t, 5.99365776e-5F);
  p = std::fma(p, t, -9.16362857e-4F);
  p = std::fma(p, t, 8.44738539e-3F);
  p = std::fma(p, t, -5.38244992e-2F);
  p = std::fma(p, t, -0.45861572F);
  p = std::fma(p, t, -1.15118015F);
  p = std::fma(p, t, -1.0000038F);
  return Fast::exp2_ftz(p);
}

/// 1 / (1 + 2^v) for v >= 0, as 2^-v / (1 + 2^-v).
HOST_DEVICE inline float logistic_tail(float v) {
  const float e = Fast::exp2_ftz(-v);
  return e * Fast::reciprocal(1 + e);
}

/// S(-t) for t >= 0, see above.
template <Activation activation>
HOST_DEVICE inline float tail(float t) {
  constexpr float log2_e = 1.44269504F;
  if constexpr (activation == Activation::gelu) {
    return normal_tail(t);
  } else if constexpr (activation == Activation::gelu_tanh) {
    // (1 + tanh u) / 2 = 1 / (1 + e^(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
    constexpr float linear = 2 * 0.797884561F * log2_e;
    return logistic_tail(t * std::fma(0.044715F * linear, t * t, linear));
  } else {
    static_assert(activation == Activation::silu);
    return logistic_tail(t * log2_e);
  }
}

/// S'(t) for t >= 0, given S(-t).
template <Activation activation>
HOST_DEVICE inline float tail_slope(float t, float tail_of_t) {
  if constexpr (activation == Activation::gelu) {
    // The normal density: e^(-t^2 / 2) / sqrt(2 pi).
    constexpr float half_log2_e = 0.72134752F, log2_density_at_0 = -1.32574806F;
    return Fast::exp2_ftz(std::fma(-half_log2_e * t, t, log2_density_at_0));
  } else {
    // The logistic function L has L' = L (1 - L).
    const float logistic_slope = std::fma(-tail_of_t, tail_of_t, tail_of_t);
    if constexpr (activation == Activation::silu) return logistic_slope;
    constexpr float linear = 2 * 0.797884561F;  // 2 u = linear * (x + 0.044715 x^3)
    return logistic_slope * std::fma(3 * 0.044715F * linear, t * t, linear);
  }
}

/// The slope of the activation at x. Where x > 0 it is 1 - q, elsewhere q, with q = S(-t) - t
/// S'(t): as far from 1/2 on both sides. It is off by at most 2^-18. ReLU has slope 0 at 0. NaN
/// gives NaN.
template <Activation activation>
HOST_DEVICE inline float slope(float x) {
  if constexpr (activation == Activation::none) {
    return 1;
  } else if constexpr (activation == Activation::relu) {
    return x > 0 ? 1.0F : x <= 0 ? 0.0F : x;
  } else {
    const float t = Fast::min_or_nan(std::fabs(x), 128);
    const float tail_of_t = tail<activation>(t);
    const float q = std::fma(-t, tail_slope<activation>(t, tail_of_t), tail_of_t);
    return 0.5F + std::copysign(0.5F - q, x);
  }
}

/// The activation of x. It is off from the exact function by one rounding, and by at most 2^-16 of
/// the bump (see above) and 2^-31.
template <Activation activation>
HOST_DEVICE inline float activate(float x) {
  if constexpr (activation == Activation::none) {
    return x;
  } else if constexpr (activation == Activation::relu) {
    return relu(x);
  } else {
    const float t = bump_distance(x);
    return std::fma(-t, tail<activation>(t), relu(x));
  }
}

}  // namespace gemm

#include "common/harness/fused_verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "common/harness/verdict.h"

namespace harness {
namespace {

using gemm::Activation;

/// The largest |f'|: at +-sqrt(2) of gelu, near it of its tanh form, at +-2.4 of SiLU; rounded up.
double steepest_slope(Activation activation) {
  switch (activation) {
    case Activation::gelu:
    case Activation::gelu_tanh:
      return 1.13;
    case Activation::silu:
      return 1.1;
    case Activation::none:
    case Activation::relu:
      break;
  }
  return 1;
}

/// How far gemm::activate() is off at x, as it states.
double activation_error(Activation activation, double x, double y) {
  const double rounding = 0x1p-23 * std::abs(y);
  if (activation == Activation::none || activation == Activation::relu) return 0;
  return 0x1p-16 * std::abs(std::max(x, 0.0) - y) + 0x1p-31 + rounding;
}

}  // namespace

double exact_activation(Activation activation, double x) {
  const bool vanishes = x == -std::numeric_limits<double>::infinity();
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::gelu:
      return vanishes ? 0 : 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh: {
      const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return vanishes ? 0 : x / (1 + std::exp(-2 * u));
    }
    case Activation::silu:
      return vanishes ? 0 : x / (1 + std::exp(-x));
  }
  return x;
}

double exact_slope(Activation activation, double x) {
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return activation == Activation::none || x > 0 ? 1 : 0;
  constexpr double pi = std::numbers::pi;
  // x * L(v(x)) with the logistic function L has the slope L + x L (1 - L) v'.
  const auto of_logistic = [x](double v, double slope_of_v) {
    const double rising = 1 / (1 + std::exp(-v)), falling = 1 / (1 + std::exp(v));
    return rising + x * rising * falling * slope_of_v;
  };
  switch (activation) {
    case Activation::none:
      return 1;
    case Activation::relu:
      return x > 0 ? 1 : 0;
    case Activation::gelu:
      return 0.5 * std::erfc(-x / std::numbers::sqrt2) +
             x * std::exp(-x * x / 2) / std::sqrt(2 * pi);
    case Activation::gelu_tanh: {
      const double linear = 2 * std::sqrt(2 / pi);
      return of_logistic(linear * (x + 0.044715 * x * x * x), linear * (1 + 3 * 0.044715 * x * x));
    }
    case Activation::silu:
      return of_logistic(x, 1);
  }
  return 1;
}

// Five roundings lead to z: two products, two sums, and products of these errors; each is off by at
// most 2^-24 of a partial sum, or 2^-150 where that is subnormal.
Expected expected_sum(std::int64_t k, const FusedElement& element) {
  const double scaled = element.alpha * element.sum, added = element.beta * element.c;
  const double z = scaled + added + element.bias;
  if (!std::isfinite(z)) return {z, 0};
  double error = std::abs(element.alpha) * accumulation_bound(k, element.magnitude) +
                 0x1p-21 * (std::abs(scaled) + std::abs(added) + std::abs(element.bias)) + 0x1p-148;
  if (element.in_two_kernels) error = rounded_bound(bf16_rounding, scaled + added, error);
  return {z, error};
}

Expected expected_element(std::int64_t k, Activation activation, const FusedElement& element) {
  const Expected z = expected_sum(k, element);
  const double y = exact_activation(activation, z.value);
  const double value = y + element.residual;
  if (!std::isfinite(value)) return {value, 0};
  double error = 0x1p-23 * (std::abs(y) + std::abs(element.residual)) + 0x1p-148;
  if (std::isfinite(z.value)) {
    error += steepest_slope(activation) * z.error + activation_error(activation, z.value, y);
  }
  return {value, error};
}

// gemm::slope() is off by at most 2^-18.
Expected expected_gradient(std::int64_t k, Activation activation, const FusedElement& element,
                           double aux) {
  const Expected z = expected_sum(k, element);
  const double slope = exact_slope(activation, aux), value = z.value * slope;
  if (!std::isfinite(value)) return {value, 0};
  const double error_of_slope =
      activation == Activation::none || activation == Activation::relu ? 0 : 0x1p-18;
  return {value, std::abs(slope) * z.error + (std::abs(z.value) + z.error) * error_of_slope +
                     0x1p-23 * std::abs(value) + 0x1p-148};
}

double fused_bound(const Rounding& format, const Expected& expected) {
  return std::isfinite(expected.value) ? rounded_bound(format, expected.value, expected.error) : 0;
}

}  // namespace harness

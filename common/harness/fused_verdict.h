// What the elements of a fused epilogue should be, and how far a right kernel may be off.
#pragma once

#include <cstdint>

#include "common/gemm/activation.h"
#include "common/harness/rounding.h"

namespace harness {

/// The activation in double precision. At -infinity GELU and SiLU have their limit, 0; NaN gives
/// NaN.
double exact_activation(gemm::Activation activation, double x);

/// A value, and how far a right kernel's may lie from it before it is rounded to the output's type.
struct Expected {
  double value, error;
};

/// The inputs of one element of D = activation(alpha * sum + beta * c + bias) + residual; what does
/// not exist is 0.
struct FusedElement {
  double alpha, sum, magnitude;  ///< see Oracle
  double beta, c, bias, residual;
  /// Whether alpha * sum + beta * c was rounded to bf16 before the bias was added, as two kernels
  /// do.
  bool in_two_kernels = false;
};

/// What the element is before D's rounding. The error of the sums (accumulation_bound) goes through
/// the activation, which enlarges it by its steepest slope at the most; each operation adds its
/// own.
Expected expected_element(std::int64_t k, gemm::Activation activation, const FusedElement& element);

/// The slope of the activation in double precision; at 0 ReLU has slope 0.
double exact_slope(gemm::Activation activation, double x);

/// z = alpha * sum + beta * c + bias before an activation, as it is kept for the backward pass.
Expected expected_sum(std::int64_t k, const FusedElement& element);

/// z * activation'(aux), aux being exact.
Expected expected_gradient(std::int64_t k, gemm::Activation activation, const FusedElement& element,
                           double aux);

/// How far an element of D may lie from `expected.value`. Where that is infinite or NaN, 0.
double fused_bound(const Rounding& format, const Expected& expected);

}  // namespace harness

// Right or wrong for a gemm::ScaledProblem: D, the factors of its blocks, and the amax.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <span>

#include "common/gemm/scaled_problem.h"
#include "common/harness/verdict.h"

namespace harness {

/// How far a sum of k products of 8-bit floats may lie from its exact value `sum`, when the tensor
/// cores add up `chain` of them, a multiple of 32, before the sum is added in fp32; `root` is the
/// root of the sum of their squares. It is a bound for products of random signs: a sum of products
/// of one sign loses more, and is wrong. The derivation stands beside the definition.
double fp8_accumulation_bound(std::int64_t k, std::int64_t chain, double sum, double root);

/// Some rows of a problem's outputs, and what they should be. Spans hold just these rows, with the
/// problem's pitches; sums, magnitudes and squares have n columns. Scales are whole vectors.
struct ScaledRows {
  std::int64_t first;  ///< the first row's number
  std::span<const std::uint8_t> d, factors;
  std::span<const float> scale_a, scale_b;
  std::span<const __nv_bfloat16> c;                   ///< empty when beta = 0
  std::span<const double> sums, magnitudes, squares;  ///< of a b, |a b| and (a b)^2
};

/// What was found in some rows: of D, of the block factors, and between which bounds the largest
/// |Z| of these rows lies.
struct ScaledVerdict {
  Verdict d, factors;
  double least_amax = 0, largest_amax = 0;
  bool has_nan = false;                         ///< one Z is NaN, and so must be the amax
  double square_errors = 0, square_values = 0;  ///< sums over the finite elements of D
};

/// Judges rows of D and its padding, and of the factors. The addresses in `problem` are not used.
void judge_rows(ScaledVerdict& verdict, const gemm::ScaledProblem& problem, std::int64_t chain,
                const ScaledRows& rows);

void merge(ScaledVerdict& verdict, const ScaledVerdict& other);

/// The verdict on all outputs; `amax` is the float that was found.
Verdict conclude(const ScaledVerdict& verdict, float amax);

}  // namespace harness

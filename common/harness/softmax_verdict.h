// Right or wrong: a row's softmax, or its largest elements, against logits in double precision
// that are known within bounds.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/gemm/problem.h"
#include "common/harness/verdict.h"

namespace harness {

/// A logit and how far a right kernel's may lie from it. One that is beyond fp32 for certain is
/// infinite; one that may be is finite, with a bound that reaches beyond.
struct Logit {
  double value, bound;
};

/// alpha * sum for each of a row's sums, within |alpha| * accumulation_bound() and one rounding.
///
/// `is_exact`: all products are whole numbers. Sums of magnitudes up to 2^24 are then the same in
/// any order, and so are logits in fp32: their bound is 0.
std::vector<Logit> row_logits(const gemm::Problem& problem, std::span<const double> sums,
                              std::span<const double> magnitudes, bool is_exact);

/// Logits that were rounded to bf16 on their way.
std::vector<Logit> through_bf16(std::span<const Logit> logits);

/// An element of a softmax, and how far a right kernel's may lie from it before it is rounded to
/// the type of the output.
struct Share {
  double value, bound;
};

/// The softmax over `logits`, of which element `i` is asked for.
///
/// Each logit x has a bound b. The share of i is largest if its own logit is x + b and all others
/// are x - b, and smallest the other way round: that is the first part of the bound. The second
/// one is the fp32 arithmetic, derived beside the definition. NaN, with bound 0, where a logit is
/// NaN or +inf, or all are -inf.
class Softmax {
 public:
  explicit Softmax(std::span<const Logit> logits);
  Share at(std::size_t i) const;

 private:
  std::span<const Logit> logits_;
  double largest_ = 0;
  double sum_ = 0, least_sum_ = 0, most_sum_ = 0;  ///< of e^(x - largest), with x, x - b, x + b
  double arithmetic_ = 0;                          ///< relative error of the sum
  bool is_nan_ = false;
};

/// Judges a row of a softmax in bf16. Logits that may be beyond fp32 are taken for finite, or all
/// of them for infinite: what suits the row better.
void judge_softmax_row(Verdict& verdict, std::int64_t row, std::span<const __nv_bfloat16> got,
                       std::span<const Logit> logits);

/// Judges a row of a top-k: values, the softmax over those that are kept, and columns.
///
/// The i-th column is right if its logit can be the i-th largest, which is between the i-th largest
/// of all x - b and the i-th largest of all x + b; no column may come twice. Where all bounds are 0
/// it must be the oracle's column: of equal logits the one in the lowest column comes first, NaN
/// before all others. Logits that may be beyond fp32 are taken as judge_softmax_row() takes them.
void judge_top_row(Verdict& verdict, std::int64_t row, std::span<const float> values,
                   std::span<const int> columns, std::span<const Logit> logits);

}  // namespace harness

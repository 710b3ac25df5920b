// Right or wrong: every element of D against the oracle, within a bound that is derived, not tuned.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/harness/lesson.h"
#include "common/harness/oracle.h"
#include "common/harness/workload.h"

namespace harness {

struct WrongElement {
  std::int64_t row, column;
  double got, expected, bound;
  std::string matrix = {};  ///< where there is more than one: "D of group 7"
};

struct Verdict {
  std::int64_t elements = 0;  ///< of D, all of them compared
  std::int64_t wrong = 0;
  std::optional<WrongElement> first;     ///< the first wrong one in row-major order
  double worst = 0;                      ///< largest |got - expected| / bound, NaN left out
  std::int64_t damaged_padding = 0;      ///< elements of D's row padding that were overwritten
  std::int64_t damaged_guard_bytes = 0;  ///< bytes of the guard bands that were overwritten
  /// Root mean square of got - expected over that of expected, where it was asked for.
  std::optional<double> relative_error = {};
  bool passed() const { return wrong == 0 && damaged_padding == 0 && damaged_guard_bytes == 0; }
};

/// How far fp32 accumulation may take sum_k a b from its exact value: (k / 16 + 16) * 2^-23 *
/// magnitude, where magnitude = sum_k |a||b|. Tensor cores add k in chunks of 16 products and keep
/// 24 bits of each result. The derivation stands beside the definition.
double accumulation_bound(std::int64_t k, double magnitude);

/// How far a right result may lie from alpha * sum + beta * c.
///
/// One rounding to bf16 (half a unit in the last place of the expected value), plus
/// |alpha| * accumulation_bound, plus the few roundings of the epilogue. No constant makes small
/// values free: zero inputs must give zero. Where inf or NaN is expected the bound is 0. Infinity
/// is held against it as 2^128: bf16 rounds to inf what it would round to 2^128 with more exponent.
double error_bound(std::int64_t k, double alpha, double beta, double sum, double magnitude,
                   double c);

/// Counts `element`, which lies `error` from what is expected: it is wrong if that is more than its
/// bound, or NaN. NaN where NaN is expected is right, whatever `error` is.
void count_element(Verdict& verdict, const WrongElement& element, double error);

/// Judges rows [first_row, first_row + d.size() / ldd) of D and their padding. `d` and `c` hold
/// those rows with pitches `ldd` and `ldc`; `c` is empty when beta = 0. NaN is right only where NaN
/// is expected.
void judge_rows(Verdict& verdict, const gemm::Problem& problem, std::int64_t first_row,
                std::span<const __nv_bfloat16> d, std::span<const __nv_bfloat16> c,
                std::span<const double> sums, std::span<const double> magnitudes);

/// Of a row's padding, the elements that no longer hold what Workload::poison_output() put there.
std::int64_t count_overwritten(std::span<const __nv_bfloat16> padding);

/// Adds what was found in other rows, or in another matrix: then `verdict` keeps its own first
/// wrong element, if it has one.
void merge(Verdict& verdict, const Verdict& other);

/// Judges all of D in blocks of rows, its padding and its guard bands.
Verdict judge(const Workload& workload, Oracle& oracle);

/// One or more lines: PASS with the worst share of the bound, or FAIL with the first wrong element,
/// its tile, and the share of wrong elements.
std::string describe(const Verdict& verdict, const Tile& tile);

}  // namespace harness

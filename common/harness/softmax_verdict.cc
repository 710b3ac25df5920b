#include "common/harness/softmax_verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "common/harness/rounding.h"

namespace harness {
namespace {

/// From here on fp32 rounds to infinity.
constexpr double beyond_fp32 = 0x1.FFFFFFp127;
/// Results below may be 0: the exponential flushes them, and bf16 has few bits left there.
constexpr double smallest = 0x1p-126;

// The fp32 arithmetic. e^d for d = x - the largest <= 0 is computed in two parts at the most, since
// a tile's largest need not be the row's: each part rounds its difference, the constant log2 e and
// their product, 3 * 2^-24 of d in all, and 2^x itself is off by 2^-22.
double exponential_error(double d) {
  return 2 * 0x1p-22 + 3 * 0x1p-24 * std::abs(d);
}

// A sum of n terms, none negative: every term is rounded at most once for each addition that it
// goes through. In a thread's part of a tile these are 64, and then there are as many as there are
// merges, of which each multiplies by an exponential, too. There are no more merges than pieces of
// 64 columns, and 8 for the lanes. Its reciprocal is off by 2^-23.
double sum_error(double columns) {
  const double merges = columns / 64 + 8;
  return (64 + 2 * merges) * 0x1p-24 + merges * 0x1p-22 + 0x1p-23;
}

/// e^x where x may be out of all proportion, as the bound of a logit can be: large enough to make a
/// share 1 and all others 0.
double capped_exp(double x) {
  return std::exp(std::min(x, 300.0));
}

/// The share of `own` in all. `others` came from a subtraction; `slack` is what it may have lost.
double share(double own, double others, double slack) {
  return own == 0 ? 0 : own / (own + std::max(0.0, others + slack));
}

Logit infinite(double value) {
  return {std::copysign(std::numeric_limits<double>::infinity(), value), 0};
}

/// Calls judge(part, logits) and merges the part. If something is wrong, and logits may be infinite
/// that are not, it is called again with those infinite, and the better part counts.
template <class Judge>
void judge_either_way(Verdict& verdict, std::span<const Logit> logits, Judge judge) {
  Verdict part;
  judge(part, logits);
  const auto may_be_infinite = [](const Logit& logit) {
    return std::isfinite(logit.value) && std::abs(logit.value) + logit.bound >= beyond_fp32;
  };
  if (part.wrong > 0 && std::any_of(logits.begin(), logits.end(), may_be_infinite)) {
    std::vector<Logit> others(logits.begin(), logits.end());
    for (Logit& logit : others) {
      if (may_be_infinite(logit)) logit = infinite(logit.value);
    }
    Verdict other_part;
    judge(other_part, std::span<const Logit>(others));
    if (other_part.wrong < part.wrong) part = other_part;
  }
  merge(verdict, part);
}

/// Whether logit i comes before logit j.
bool comes_before(std::span<const Logit> logits, int i, int j) {
  const double a = logits[i].value, b = logits[j].value;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && (!std::isnan(b) || i < j);
  return a > b || (a == b && i < j);
}

std::vector<int> first_columns(std::span<const Logit> logits, std::size_t count) {
  std::vector<int> columns(logits.size());
  std::iota(columns.begin(), columns.end(), 0);
  std::partial_sort(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(count),
                    columns.end(), [&](int i, int j) { return comes_before(logits, i, j); });
  columns.resize(count);
  return columns;
}

/// The `count` largest of x + sign * b. Without NaN.
std::vector<double> largest(std::span<const Logit> logits, double sign, std::size_t count) {
  std::vector<double> values;
  for (const Logit& logit : logits) values.push_back(logit.value + sign * logit.bound);
  const auto end = values.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(values.begin(), end, values.end(), std::greater<>());
  values.erase(end, values.end());
  return values;
}

/// Counts an element that must not lie farther than its bound from what is expected.
void compare(Verdict& verdict, const WrongElement& element) {
  count_element(verdict, element, std::abs(element.got - element.expected));
}

/// The columns that a kernel names, if each of them may stand where it does; else those that the
/// oracle has, and the wrong ones are counted.
std::vector<int> judge_columns(Verdict& verdict, std::int64_t row, std::span<const int> columns,
                               std::span<const Logit> logits) {
  const std::size_t count = columns.size();
  const std::vector<int> expected = first_columns(logits, count);
  const bool is_exact = std::all_of(logits.begin(), logits.end(),
                                    [](const Logit& logit) { return logit.bound == 0; });
  const std::vector<double> least = is_exact ? std::vector<double>{} : largest(logits, -1, count);
  const std::vector<double> most = is_exact ? std::vector<double>{} : largest(logits, 1, count);
  bool all_right = true;
  for (std::size_t i = 0; i < count; ++i) {
    const int column = columns[i];
    const auto may_stand_here = [&] {
      if (is_exact) return column == expected[i];
      if (column < 0 || column >= std::ssize(logits)) return false;
      if (std::count(columns.begin(), columns.end(), column) > 1) return false;
      const auto [value, bound] = logits[column];
      return value + bound >= least[i] && value - bound <= most[i];
    };
    ++verdict.elements;
    if (may_stand_here()) continue;
    all_right = false;
    ++verdict.wrong;
    if (!verdict.first) {
      verdict.first = {row,
                       static_cast<std::int64_t>(i),
                       static_cast<double>(column),
                       static_cast<double>(expected[i]),
                       0,
                       "the columns"};
    }
  }
  return all_right ? std::vector<int>(columns.begin(), columns.end()) : expected;
}

}  // namespace

std::vector<Logit> row_logits(const gemm::Problem& problem, std::span<const double> sums,
                              std::span<const double> magnitudes, bool is_exact) {
  std::vector<Logit> logits(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (is_exact && magnitudes[i] <= 0x1p24) {
      logits[i] = {problem.alpha * static_cast<float>(sums[i]), 0};
      continue;
    }
    const double value = problem.alpha * sums[i];
    const double bound = std::abs(problem.alpha) * accumulation_bound(problem.k, magnitudes[i]) +
                         0x1p-24 * std::abs(value) + 0x1p-149;
    logits[i] = std::abs(value) - bound < beyond_fp32 ? Logit{value, bound} : infinite(value);
  }
  return logits;
}

std::vector<Logit> through_bf16(std::span<const Logit> logits) {
  // From here on bf16 rounds to infinity.
  constexpr double beyond_bf16 = 0x1.FFp127;
  std::vector<Logit> rounded;
  for (const auto& [value, bound] : logits) {
    rounded.push_back(std::abs(value) < beyond_bf16
                          ? Logit{value, rounded_bound(bf16_rounding, value, bound)}
                          : infinite(value));
  }
  return rounded;
}

Softmax::Softmax(std::span<const Logit> logits) : logits_(logits) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  largest_ = -infinity;
  for (const Logit& logit : logits) {
    is_nan_ |= std::isnan(logit.value) || logit.value == infinity;
    largest_ = std::max(largest_, logit.value);
  }
  is_nan_ |= largest_ == -infinity;
  if (is_nan_) return;
  double weighted = 0;
  for (const auto& [value, bound] : logits) {
    const double d = value - largest_;
    const double exponential = std::exp(d);
    sum_ += exponential;
    least_sum_ += std::exp(d - bound);
    most_sum_ += capped_exp(d + bound);
    if (exponential > 0) weighted += exponential * exponential_error(d);
  }
  arithmetic_ = weighted / sum_ + sum_error(static_cast<double>(logits.size()));
}

Share Softmax::at(std::size_t i) const {
  if (is_nan_) return {std::numeric_limits<double>::quiet_NaN(), 0};
  const auto [x, bound] = logits_[i];
  const double d = x - largest_;
  if (std::isinf(d)) return {0, 0};
  const double least = std::exp(d - bound), most = capped_exp(d + bound);
  const double value = std::exp(d) / sum_;
  constexpr double lost = 0x1p-40;  // by adding up in double precision, of the sum
  const double highest = share(most, least_sum_ - least, -lost * least_sum_);
  const double lowest = share(least, most_sum_ - most, lost * most_sum_);
  // Two multiplications are rounded.
  const double arithmetic = exponential_error(d) + arithmetic_ + 2 * 0x1p-24;
  return {value, std::max(highest * (1 + arithmetic) - value, value - lowest * (1 - arithmetic))};
}

void judge_softmax_row(Verdict& verdict, std::int64_t row, std::span<const __nv_bfloat16> got,
                       std::span<const Logit> logits) {
  judge_either_way(verdict, logits, [&](Verdict& part, std::span<const Logit> taken) {
    const Softmax softmax(taken);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto [value, bound] = softmax.at(i);
      const double rounding =
          std::isnan(value) ? 0 : half_ulp(bf16_rounding, value + bound) + smallest;
      compare(part, {row, static_cast<std::int64_t>(i), __bfloat162float(got[i]), value,
                     bound + rounding});
    }
  });
}

void judge_top_row(Verdict& verdict, std::int64_t row, std::span<const float> values,
                   std::span<const int> columns, std::span<const Logit> logits) {
  judge_either_way(verdict, logits, [&](Verdict& part, std::span<const Logit> taken) {
    std::vector<Logit> kept;
    for (const int column : judge_columns(part, row, columns, taken)) {
      kept.push_back(taken[column]);
    }
    const Softmax softmax(kept);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto [value, bound] = softmax.at(i);
      compare(part, {row, static_cast<std::int64_t>(i), values[i], value,
                     std::isnan(value) ? 0 : bound + smallest, "the values"});
    }
  });
}

}  // namespace harness

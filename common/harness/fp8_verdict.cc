#include "common/harness/fp8_verdict.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

#include <cuda_fp8.h>

#include "common/harness/rounding.h"

namespace harness {
namespace {

using gemm::BlockScales;
using gemm::Output;
using gemm::ScaledProblem;

const Rounding& rounding(Output output) {
  if (output == Output::bf16) return bf16_rounding;
  return output == Output::e4m3 ? e4m3_rounding : e5m2_rounding;
}

std::array<double, 256> all_values(__nv_fp8_interpretation_t type) {
  std::array<double, 256> values{};
  for (int code = 0; code < 256; ++code) {
    const __half_raw half = __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), type);
    values[static_cast<std::size_t>(code)] = __half2float(half);
  }
  return values;
}

/// Element `index` of D as it is stored.
double stored(Output output, const std::uint8_t* d, std::int64_t index) {
  static const std::array<double, 256> e4m3 = all_values(__NV_E4M3), e5m2 = all_values(__NV_E5M2);
  if (output == Output::e4m3) return e4m3[d[index]];
  if (output == Output::e5m2) return e5m2[d[index]];
  __nv_bfloat16 element;
  std::memcpy(&element, d + 2 * index, sizeof(element));
  return __bfloat162float(element);
}

/// Factor `index` of some that are stored.
double stored_factor(BlockScales blocks, const std::uint8_t* factors, std::int64_t index) {
  if (blocks == BlockScales::ue8m0_32) {
    const std::uint8_t code = factors[index];
    return code == 0xFF ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
  }
  float factor;
  std::memcpy(&factor, factors + 4 * index, sizeof(factor));
  return factor;
}

/// A number that a right kernel has with an error of at most `error`; none where it isn't finite.
struct Estimate {
  double value, error;
};

/// Z at (row, column) of `rows`.
Estimate estimate(const ScaledProblem& p, std::int64_t chain, const ScaledRows& rows,
                  std::int64_t row, std::int64_t column) {
  const std::int64_t at = row * p.n + column;
  const double scale = double{p.alpha} *
                       rows.scale_a[static_cast<std::size_t>((rows.first + row) * p.scale_a.step)] *
                       rows.scale_b[static_cast<std::size_t>(column * p.scale_b.step)];
  const double scaled = scale * rows.sums[at];
  const double added =
      p.beta == 0 ? 0 : p.beta * double{__bfloat162float(rows.c[row * p.ldc + column])};
  const double value = scaled + added;
  if (!std::isfinite(value)) return {value, 0};
  // The product of the scales, that with the sum, beta * C and the addition are rounded to fp32.
  const double epilogue = 0x1p-21 * (std::abs(scaled) + std::abs(added)) + 0x1p-147;
  // An oracle that adds in fp32 is off, too.
  const double sum =
      fp8_accumulation_bound(p.k, chain, rows.sums[at], std::sqrt(rows.squares[at])) +
      accumulation_bound(p.k, rows.magnitudes[at]);
  return {value, std::abs(scale) * sum + epilogue};
}

/// Judges an element of D that stands for `got` times `factor`. Beside the others of its block it
/// is never too large, unless it is infinite; else it may be saturated.
void judge_element(Verdict& verdict, const ScaledProblem& p, std::int64_t row, std::int64_t column,
                   double got, double factor, const Estimate& z) {
  const Rounding& format = rounding(p.output);
  const double expected = z.value / factor;
  const bool fits = p.blocks != BlockScales::none && std::isfinite(z.value);
  double bound = 0;
  if (std::isfinite(z.value)) {
    // The kernel multiplies by a reciprocal, or by scale_d.
    const double before = z.error / factor + 0x1p-21 * std::abs(expected);
    bound = before + half_ulp(format, std::abs(expected) + before);
  }
  count_element(verdict, {row, column, got, expected, bound},
                fits ? std::abs(got - expected) : distance(format, got, expected));
}

/// The factor for a largest magnitude, but for rounding `slack` times as large.
double factor_for(const ScaledProblem& p, double amax, double slack) {
  const double exact = std::min(amax, double{FLT_MAX}) / rounding(p.output).largest;
  const double factor = std::max(exact * slack, double{FLT_MIN});
  if (p.blocks == BlockScales::fp32_128) return factor;
  return factor == binade(factor) ? factor : 2 * binade(factor);
}

void judge_factor(Verdict& verdict, const ScaledProblem& p, std::int64_t row, std::int64_t block,
                  double got, std::span<const Estimate> z) {
  double amax = 0, least = 0, largest = 0;
  for (const Estimate& element : z) {
    if (std::isnan(element.value)) continue;
    const double magnitude = std::abs(element.value);
    amax = std::max(amax, magnitude);
    least = std::max(least, magnitude - element.error);
    largest = std::max(largest, magnitude + element.error);
  }
  const double expected = factor_for(p, amax, 1);
  const double low = factor_for(p, least, 1 - 0x1p-22);
  const double high = factor_for(p, largest, 1 + 0x1p-22);
  const double bound = std::max(expected - low, high - expected);
  const bool is_between = low <= got && got <= high;
  count_element(verdict, {row, block, got, expected, bound, "the block factors"},
                is_between ? std::abs(got - expected) : std::numeric_limits<double>::infinity());
}

void judge_row(ScaledVerdict& verdict, const ScaledProblem& p, std::int64_t chain,
               const ScaledRows& rows, std::int64_t row, std::span<Estimate> z) {
  for (std::int64_t column = 0; column < p.n; ++column) {
    const Estimate own = z[column] = estimate(p, chain, rows, row, column);
    const double magnitude = std::abs(own.value);
    verdict.has_nan = verdict.has_nan || std::isnan(own.value);
    verdict.least_amax = std::max(verdict.least_amax, magnitude - own.error);
    verdict.largest_amax = std::max(verdict.largest_amax, magnitude + own.error);
  }
  const bool in_blocks = p.blocks != BlockScales::none;
  const std::int64_t width = in_blocks ? block_width(p.blocks) : p.n;
  for (std::int64_t first = 0; first < p.n; first += width) {
    const std::int64_t end = std::min<std::int64_t>(first + width, p.n), block = first / width;
    double factor = 1 / double{p.scale_d};
    if (in_blocks) {
      factor = stored_factor(p.blocks, rows.factors.data(), row * p.block_pitch + block);
      judge_factor(verdict.factors, p, rows.first + row, block, factor,
                   z.subspan(first, end - first));
    }
    for (std::int64_t column = first; column < end; ++column) {
      const double got = stored(p.output, rows.d.data(), row * p.ldd + column);
      judge_element(verdict.d, p, rows.first + row, column, got, factor, z[column]);
      const double error = got * factor - z[column].value;
      if (!std::isfinite(error)) continue;
      verdict.square_errors += error * error;
      verdict.square_values += z[column].value * z[column].value;
    }
  }
}

}  // namespace

// An instruction adds 32 products to the sum S of those before it. It aligns all of them to the
// largest exponent e, truncates each towards zero to a multiple of u = 2^(e - 13), adds, and
// truncates the result to 14 bits (emulator/wgmma.h). Let Q be `root`, and the signs be random.
//
// - Hoeffding: a sum of random signs is beyond 8 Q once in 4 * 10^13 times (2 exp(-8 * 8 / 2)).
// This
//   goes for each S, and also for S less the products that are still to come, since their signs are
//   random, too. The mean of S less these and of the whole `sum` is S. So |S| <= |sum| / 2 + 4 Q.
//   The exponent of a product counts no more than that of 8 Q, also if a factor is subnormal; for a
//   normal one, no more than that of Q.
// - A product loses what is below u, between nothing and u, its square u^2 / 3 in the mean. The
// loss
//   has the product's sign. So they add up to 8 times the root of the sum of these squares at the
//   most. Over chains with Q_1, Q_2, ..., of whose sums we only know |S| <= 8 Q_i, that is
//   8 * 2^-13 * 8 * sqrt(chain / 3 * (Q_1^2 + Q_2^2 + ...)), and the last factor is Q^2.
// - S and the result lose less than u each in a step, always towards zero. Over chains that is
//   chain / 32 * 2 * 2^-13 * 8 * (Q_1 + Q_2 + ...), and the last factor at most sqrt(chains) * Q.
// - Adding the chains in fp32 rounds a sum of at most 8 Q each time.
double fp8_accumulation_bound(std::int64_t k, std::int64_t chain, double sum, double root) {
  if (k == 0) return 0;
  const auto length = static_cast<double>(std::min(k, chain));
  const double chains = std::ceil(static_cast<double>(k) / length);
  const double reach = chains == 1 ? std::min(std::abs(sum) / 2 + 4 * root, 8 * root) : 8 * root;
  const double unit = 0x1p-13 * reach;
  const double products = 8 * std::sqrt(length / 3) * unit;
  const double sums = std::ceil(length / 32) * 2 * unit * std::sqrt(chains);
  return products + sums + chains * 0x1p-24 * 8 * root;
}

void judge_rows(ScaledVerdict& verdict, const ScaledProblem& problem, std::int64_t chain,
                const ScaledRows& rows) {
  const std::int64_t element_bytes = problem.output == Output::bf16 ? 2 : 1;
  const std::int64_t row_bytes = problem.ldd * element_bytes;
  const std::int64_t count = static_cast<std::int64_t>(rows.d.size()) / row_bytes;
  std::vector<Estimate> z(static_cast<std::size_t>(problem.n));
  for (std::int64_t row = 0; row < count; ++row) {
    judge_row(verdict, problem, chain, rows, row, z);
    const auto padding = rows.d.subspan(row * row_bytes + problem.n * element_bytes,
                                        row_bytes - problem.n * element_bytes);
    verdict.d.damaged_padding += std::count_if(padding.begin(), padding.end(),
                                               [](std::uint8_t byte) { return byte != 0xFF; });
  }
}

void merge(ScaledVerdict& verdict, const ScaledVerdict& other) {
  merge(verdict.d, other.d);
  merge(verdict.factors, other.factors);
  verdict.least_amax = std::max(verdict.least_amax, other.least_amax);
  verdict.largest_amax = std::max(verdict.largest_amax, other.largest_amax);
  verdict.has_nan = verdict.has_nan || other.has_nan;
  verdict.square_errors += other.square_errors;
  verdict.square_values += other.square_values;
}

Verdict conclude(const ScaledVerdict& verdict, float amax) {
  Verdict all = verdict.d;
  merge(all, verdict.factors);
  Verdict of_amax;
  const double low = verdict.least_amax, high = verdict.largest_amax;
  const double middle = std::isinf(high) ? high : (low + high) / 2;
  const double bound = std::isinf(high) ? 0 : (high - low) / 2;
  const bool is_right = verdict.has_nan ? std::isnan(amax) : low <= amax && amax <= high;
  const double expected = verdict.has_nan ? std::numeric_limits<double>::quiet_NaN() : middle;
  count_element(of_amax, {0, 0, amax, expected, bound, "the amax"},
                is_right ? 0 : std::numeric_limits<double>::infinity());
  merge(all, of_amax);
  if (verdict.square_values > 0) {
    all.relative_error = std::sqrt(verdict.square_errors / verdict.square_values);
  }
  return all;
}

}  // namespace harness

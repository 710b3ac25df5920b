#include "common/harness/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <vector>

#include "common/harness/parallel.h"
#include "common/harness/rounding.h"

namespace harness {
namespace {

/// 16777216 as "16,777,216".
std::string with_commas(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::int64_t at = std::ssize(digits) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string format(const char* pattern, double value) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

/// Without the sign that printf gives to some NaN.
std::string value_in_words(double value) {
  return std::isnan(value) ? "nan" : format("%.7g", value);
}

std::string first_in_words(const WrongElement& first, const Tile& tile) {
  std::string text =
      "First at row " + with_commas(first.row) + ", column " + with_commas(first.column) +
      " (tile " + with_commas(first.row / tile.m) + ", " + with_commas(first.column / tile.n) +
      "; row " + with_commas(first.row % tile.m) + ", column " +
      with_commas(first.column % tile.n) + " of the tile)" +
      (first.matrix.empty() ? "" : " of " + first.matrix) + ": got " + value_in_words(first.got) +
      ", expected " + value_in_words(first.expected) + " +- " + format("%.2g", first.bound) + ".";
  if (std::isnan(first.got)) text += " It held nan before the launch: perhaps nothing was stored.";
  return text;
}

}  // namespace

// Where the constants come from. M stands for the magnitude, the sum of |a||b|.
//
// A tensor core adds 16 products to the accumulator and truncates the result to the 24 bits of
// fp32: one step is off by less than 2^-23 of the partial sum, and so of M. The k / 16 steps of an
// accumulation are off by at most k / 16 * 2^-23 * M. None comes near that: partial sums are M / 2
// in the mean if all products have one sign, and about sqrt(k) times smaller if signs are random.
// What is left covers, for the operands that the harness draws (random signs, or small integers,
// whose sums are exact):
//   - the 17 addends of a step are aligned to the largest and truncated two bits below its last
//     one (Khattak and Mikaitis, Accurate Models of NVIDIA Tensor Cores, arXiv 2512.07004);
//   - an oracle that accumulates in fp32, too;
//   - a CUDA core, which adds one product at a time: k roundings of 2^-24 of the partial sum.
// The 16 steps on top are for what does not shrink with k: a last chunk that is not full, the
// partial sums of split-K and Stream-K, short sums of single products.
double accumulation_bound(std::int64_t k, double magnitude) {
  return (static_cast<double>(k) / 16 + 16) * 0x1p-23 * magnitude;
}

// If fp32 arithmetic is off by at most e, the kernel rounds some x' in [x - e, x + e] to bf16,
// where x is the expected value. The rounding moves x' by at most half an ulp of x', which is at
// most half an ulp of |x| + e. The epilogue rounds alpha * sum, beta * c and their sum, each by at
// most 2^-24 of its value, or 2^-150 if that is subnormal; a fourth 2^-24 covers products of these
// errors. For zero inputs this leaves 2^-134 + 2^-148, less than the smallest bf16 above zero.
double error_bound(std::int64_t k, double alpha, double beta, double sum, double magnitude,
                   double c) {
  const double scaled = alpha * sum, added = beta * c, expected = scaled + added;
  if (!std::isfinite(expected)) return 0;
  const double epilogue = 0x1p-22 * (std::abs(scaled) + std::abs(added)) + 0x1p-148;
  const double fp32 = std::abs(alpha) * accumulation_bound(k, magnitude) + epilogue;
  return half_ulp(bf16_rounding, std::abs(expected) + fp32) + fp32;
}

void count_element(Verdict& verdict, const WrongElement& element, double error) {
  ++verdict.elements;
  if (std::isnan(element.got) && std::isnan(element.expected)) return;
  // Written so that an error that is NaN counts as wrong.
  if (!(error <= element.bound)) {
    ++verdict.wrong;
    if (!verdict.first) verdict.first = element;
  }
  if (element.bound > 0 && error / element.bound > verdict.worst) {
    verdict.worst = error / element.bound;
  }
}

void judge_rows(Verdict& verdict, const gemm::Problem& problem, std::int64_t first_row,
                std::span<const __nv_bfloat16> d, std::span<const __nv_bfloat16> c,
                std::span<const double> sums, std::span<const double> magnitudes) {
  const std::int64_t n = problem.n;
  const std::int64_t count = static_cast<std::int64_t>(d.size()) / problem.ldd;
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      const double sum = sums[row * n + column], magnitude = magnitudes[row * n + column];
      const double c_element = c.empty() ? 0 : __bfloat162float(c[row * problem.ldc + column]);
      const double got = __bfloat162float(d[row * problem.ldd + column]);
      const double expected = problem.alpha * sum + problem.beta * c_element;
      const double bound =
          error_bound(problem.k, problem.alpha, problem.beta, sum, magnitude, c_element);
      count_element(verdict, {first_row + row, column, got, expected, bound},
                    distance(bf16_rounding, got, expected));
    }
    verdict.damaged_padding += count_overwritten(d.subspan(row * problem.ldd + n, problem.ldd - n));
  }
}

std::int64_t count_overwritten(std::span<const __nv_bfloat16> padding) {
  return std::count_if(padding.begin(), padding.end(), [](__nv_bfloat16 element) {
    return __bfloat16_as_ushort(element) != 0xFFFF;
  });
}

void merge(Verdict& verdict, const Verdict& other) {
  verdict.elements += other.elements;
  verdict.wrong += other.wrong;
  verdict.worst = std::max(verdict.worst, other.worst);
  verdict.damaged_padding += other.damaged_padding;
  verdict.damaged_guard_bytes += other.damaged_guard_bytes;
  if (!other.first) return;
  const bool is_earlier = verdict.first && other.first->matrix == verdict.first->matrix &&
                          other.first->row < verdict.first->row;
  if (!verdict.first || is_earlier) verdict.first = other.first;
}

Verdict judge(const Workload& workload, Oracle& oracle) {
  constexpr std::int64_t block_elements = std::int64_t{1} << 22;
  const gemm::Problem& problem = workload.problem();
  const std::int64_t m = problem.m, n = problem.n, ldc = problem.ldc, ldd = problem.ldd;
  const std::int64_t block_rows =
      std::clamp<std::int64_t>(block_elements / ldd, 1, std::max(m, std::int64_t{1}));

  Verdict verdict;
  verdict.damaged_guard_bytes = workload.damaged_guard_bytes();
  std::vector<__nv_bfloat16> d(block_rows * ldd);
  std::vector<double> sums(block_rows * n), magnitudes(block_rows * n);
  for (std::int64_t first = 0; first < m; first += block_rows) {
    const std::int64_t count = std::min(block_rows, m - first);
    workload.copy_output_rows(first, count, d);
    oracle.rows(first, count, std::span(sums).first(count * n),
                std::span(magnitudes).first(count * n));
    const std::span<const __nv_bfloat16> c = workload.host_c();
    std::mutex mutex;
    parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t rows = end - begin;
      Verdict part;
      judge_rows(part, problem, first + begin, std::span(d).subspan(begin * ldd, rows * ldd),
                 c.empty() ? c : c.subspan((first + begin) * ldc, rows * ldc),
                 std::span(sums).subspan(begin * n, rows * n),
                 std::span(magnitudes).subspan(begin * n, rows * n));
      const std::lock_guard lock(mutex);
      merge(verdict, part);
    });
  }
  return verdict;
}

std::string describe(const Verdict& verdict, const Tile& tile) {
  if (verdict.passed()) {
    return "PASS: " + with_commas(verdict.elements) + " elements within the bound, worst at " +
           format("%.2f", verdict.worst) + " of it." +
           (verdict.relative_error ? " Relative error " + format("%.2g", *verdict.relative_error) +
                                         " (root mean square)."
                                   : "");
  }
  std::string lines;
  const auto add = [&](const std::string& line) {
    lines += (lines.empty() ? "FAIL: " : "\n") + line;
  };
  if (verdict.first) {
    const double percent =
        100.0 * static_cast<double>(verdict.wrong) / static_cast<double>(verdict.elements);
    add(with_commas(verdict.wrong) + " of " + with_commas(verdict.elements) + " elements wrong (" +
        format("%.3g", percent) + " %). " + first_in_words(*verdict.first, tile));
  }
  if (verdict.damaged_padding > 0) {
    add(with_commas(verdict.damaged_padding) +
        " elements between the rows of D were overwritten: stores pass the last column.");
  }
  if (verdict.damaged_guard_bytes > 0) {
    add(with_commas(verdict.damaged_guard_bytes) +
        " bytes around D were overwritten: stores leave the matrix.");
  }
  return lines;
}

}  // namespace harness

// Right kernels pass and wrong kernels fail: the kernels are simulated, the verdict is the real
// one.
#include "common/harness/verdict.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "common/harness/guarded_matrix.h"
#include "tests/catch.h"
#include "tests/unit/host_device.h"

namespace {

using harness::Init;
using harness::Options;
using harness::Verdict;
using harness::Workload;

Options options(int m, int n, int k, Init init = Init::normal, std::uint64_t seed = 1) {
  Options result;
  result.m = m;
  result.n = n;
  result.k = k;
  result.init = init;
  result.seed = seed;
  return result;
}

/// Where the mutants of the checker are tried.
std::vector<Options> mutant_problems() {
  std::vector<Options> result;
  for (const Init init : {Init::normal, Init::uniform}) {
    result.push_back(options(128, 136, 200, init, 1));
    result.push_back(options(256, 256, 256, init, 2));
    result.push_back(options(128, 128, 2048, init, 3));
  }
  return result;
}

std::string in_words(const Options& problem) {
  return std::to_string(problem.m) + " x " + std::to_string(problem.n) + " x " +
         std::to_string(problem.k) + ", " + std::string(harness::name(problem.init)) + ", seed " +
         std::to_string(problem.seed);
}

/// A problem whose D a test writes as a kernel would. Rows of A, B and D are given by index.
class Bench {
 public:
  explicit Bench(const Options& options)
      : workload(device_, options, 8), problem(workload.problem()) {
    sums.resize(std::int64_t{problem.m} * problem.n);
    std::vector<double> magnitudes(sums.size());
    harness::cpu_oracle(workload)->rows(0, problem.m, sums, magnitudes);
  }

  float a(std::int64_t row, std::int64_t k) const {
    return __bfloat162float(workload.host_a()[row * problem.lda + k]);
  }
  float b(std::int64_t column, std::int64_t k) const {
    return __bfloat162float(workload.host_b()[column * problem.ldb + k]);
  }
  float c(std::int64_t row, std::int64_t column) const {
    return __bfloat162float(workload.host_c()[row * problem.ldc + column]);
  }
  double sum(std::int64_t row, std::int64_t column) const { return sums[row * problem.n + column]; }
  /// The part of the sum that k in [first, last) contributes.
  double part(std::int64_t row, std::int64_t column, std::int64_t first, std::int64_t last) const {
    double result = 0;
    for (std::int64_t k = first; k < last; ++k) {
      result += static_cast<double>(a(row, k)) * b(column, k);
    }
    return result;
  }
  __nv_bfloat16& d(std::int64_t row, std::int64_t column) const {
    return problem.d[row * problem.ldd + column];
  }

  using Element = std::function<double(std::int64_t row, std::int64_t column)>;
  /// Stores `element`, rounded once, in all of D.
  void store(const Element& element) const {
    for (std::int64_t row = 0; row < problem.m; ++row) {
      for (std::int64_t column = 0; column < problem.n; ++column) {
        d(row, column) = __double2bfloat16(element(row, column));
      }
    }
  }
  void store_right() const {
    store([this](std::int64_t row, std::int64_t column) {
      return problem.alpha * sum(row, column) +
             (problem.beta != 0 ? problem.beta * c(row, column) : 0.0);
    });
  }

  Verdict judge() const { return harness::judge(workload, *harness::cpu_oracle(workload)); }

 private:
  tests::HostDevice device_;

 public:
  Workload workload;
  const gemm::Problem& problem;
  std::vector<double> sums;
};

/// fp32 as a CUDA core adds: one product after another.
double sequential_fp32(const Bench& bench, std::int64_t row, std::int64_t column) {
  float sum = 0;
  for (int k = 0; k < bench.problem.k; ++k)
    sum = std::fma(bench.a(row, k), bench.b(column, k), sum);
  return sum;
}

/// fp32 as a Hopper tensor core adds: 16 products and the accumulator are aligned to the largest
/// exponent, truncated to 25 bits after the leading one, added exactly, and truncated to fp32.
double tensor_core_fp32(const Bench& bench, std::int64_t row, std::int64_t column) {
  float sum = 0;
  for (int first = 0; first < bench.problem.k; first += 16) {
    const int count = std::min(16, bench.problem.k - first);
    std::array<double, 17> addends{};
    addends[16] = sum;
    double largest = std::abs(sum);
    for (int i = 0; i < count; ++i) {
      addends[i] = static_cast<double>(bench.a(row, first + i)) * bench.b(column, first + i);
      largest = std::max(largest, std::abs(addends[i]));
    }
    if (largest == 0) continue;
    const double scale = std::ldexp(1.0, 25 - std::ilogb(largest));
    std::int64_t fixed = 0;
    for (const double addend : addends) fixed += static_cast<std::int64_t>(addend * scale);
    const double exact = static_cast<double>(fixed) / scale;
    sum = static_cast<float>(exact);
    if (std::abs(sum) > std::abs(exact)) sum = std::nextafter(sum, 0.0F);
  }
  return sum;
}

double root_mean_square(std::span<const double> values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0) /
                   std::ssize(values));
}

/// The bf16 value `steps` further from zero.
__nv_bfloat16 away_from_zero(__nv_bfloat16 value, int steps) {
  return __ushort_as_bfloat16(__bfloat16_as_ushort(value) + steps);
}

__nv_bfloat16 truncated(float value) {
  return __ushort_as_bfloat16(std::bit_cast<std::uint32_t>(value) >> 16);
}

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Judges one element, the product of one pair, as if alpha = 1 and beta = 0.
bool is_right(double expected, __nv_bfloat16 got) {
  gemm::Problem problem{};
  problem.m = problem.n = problem.k = 1;
  problem.alpha = 1;
  problem.ldd = 1;
  Verdict verdict;
  const double magnitude = std::abs(expected);
  harness::judge_rows(verdict, problem, 0, {&got, 1}, {}, {&expected, 1}, {&magnitude, 1});
  CHECK(verdict.elements == 1);
  return verdict.passed();
}

bool is_right(double expected, double got) {
  return is_right(expected, __double2bfloat16(got));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Right kernels pass", "[verdict]") {
  std::vector<Options> problems = mutant_problems();
  for (const std::uint64_t seed : {4, 5, 6})
    problems.push_back(options(7, 9, 65, Init::normal, seed));
  for (const Init init : {Init::ones, Init::zeros, Init::index}) {
    problems.push_back(options(129, 136, 72, init));
  }
  problems.push_back(options(1, 8, 8));
  problems.push_back(options(2, 8, 20000));
  for (const Options& problem : problems) {
    INFO(in_words(problem));
    const Bench bench(problem);
    bench.store_right();
    CHECK(bench.judge().passed());
    bench.store([&](auto row, auto column) { return sequential_fp32(bench, row, column); });
    CHECK(bench.judge().passed());
    bench.store([&](auto row, auto column) { return tensor_core_fp32(bench, row, column); });
    const Verdict verdict = bench.judge();
    CHECK(verdict.passed());
    CHECK(verdict.elements == std::int64_t{problem.m} * problem.n);
    CHECK(verdict.worst <= 1);
  }
}

TEST_CASE("Mutant: NaN in one element", "[verdict]") {
  for (const Options& problem : mutant_problems()) {
    INFO(in_words(problem));
    const Bench bench(problem);
    bench.store_right();
    bench.d(77, 130 % problem.n) = __float2bfloat16_rn(NAN);
    const Verdict verdict = bench.judge();
    CHECK_FALSE(verdict.passed());
    CHECK(verdict.wrong == 1);
    REQUIRE(verdict.first);
    CHECK(verdict.first->row == 77);
    CHECK(verdict.first->column == 130 % problem.n);
    CHECK(std::isnan(verdict.first->got));
    CHECK(verdict.worst <= 1);
  }
}

TEST_CASE("Mutant: nothing is stored", "[verdict]") {
  for (const Options& problem : mutant_problems()) {
    const Bench bench(problem);
    CHECK(bench.judge().wrong == std::int64_t{problem.m} * problem.n);
  }
}

TEST_CASE("Mutant: zeros", "[verdict]") {
  for (const Options& problem : mutant_problems()) {
    INFO(in_words(problem));
    const Bench bench(problem);
    bench.store([](auto, auto) { return 0.0; });
    const Verdict verdict = bench.judge();
    CHECK_FALSE(verdict.passed());
    CHECK(verdict.wrong > 0.99 * verdict.elements);
  }
}

TEST_CASE("Mutant: a constant", "[verdict]") {
  for (const Options& problem : mutant_problems()) {
    INFO(in_words(problem));
    const Bench bench(problem);
    const double mean =
        std::accumulate(bench.sums.begin(), bench.sums.end(), 0.0) / std::ssize(bench.sums);
    for (const double constant : {mean, 1.0, root_mean_square(bench.sums)}) {
      bench.store([&](auto, auto) { return constant; });
      const Verdict verdict = bench.judge();
      CHECK_FALSE(verdict.passed());
      CHECK(verdict.wrong > 0.98 * verdict.elements);
    }
  }
}

TEST_CASE("Mutant: the last k-tile dropped", "[verdict]") {
  for (const Options& problem : mutant_problems()) {
    INFO(in_words(problem));
    const Bench bench(problem);
    const int last_tile = (problem.k - 1) / 64 * 64;
    bench.store([&](auto row, auto column) {
      return bench.sum(row, column) - bench.part(row, column, last_tile, problem.k);
    });
    const Verdict verdict = bench.judge();
    CHECK_FALSE(verdict.passed());
    CHECK(verdict.wrong > 0.9 * verdict.elements);
  }
}

TEST_CASE("Mutant: the first k-tile counted twice", "[verdict]") {
  for (const Options& problem : mutant_problems()) {
    INFO(in_words(problem));
    const Bench bench(problem);
    bench.store([&](auto row, auto column) {
      return bench.sum(row, column) + bench.part(row, column, 0, 64);
    });
    const Verdict verdict = bench.judge();
    CHECK_FALSE(verdict.passed());
    CHECK(verdict.wrong > 0.9 * verdict.elements);
  }
}

TEST_CASE("Mutant: two 64-row blocks swapped", "[verdict]") {
  std::vector<Options> problems = mutant_problems();
  problems.push_back(options(128, 128, 128, Init::index));
  for (const Options& problem : problems) {
    INFO(in_words(problem));
    const Bench bench(problem);
    bench.store(
        [&](auto row, auto column) { return bench.sum(row < 128 ? row ^ 64 : row, column); });
    const Verdict verdict = bench.judge();
    CHECK_FALSE(verdict.passed());
    CHECK(verdict.wrong > 0.9 * 128 * problem.n);
    CHECK(verdict.wrong <= 128 * problem.n);
  }
}

TEST_CASE("Mutant: one column untouched", "[verdict]") {
  for (const Options& problem : mutant_problems()) {
    INFO(in_words(problem));
    const Bench bench(problem);
    bench.store_right();
    const int column = problem.n - 1;
    for (int row = 0; row < problem.m; ++row) bench.d(row, column) = __ushort_as_bfloat16(0xFFFF);
    const Verdict verdict = bench.judge();
    CHECK_FALSE(verdict.passed());
    CHECK(verdict.wrong == problem.m);
    REQUIRE(verdict.first);
    CHECK(verdict.first->row == 0);
    CHECK(verdict.first->column == column);
  }
}

TEST_CASE("Mutant: the store truncates instead of rounding", "[verdict]") {
  for (const Options& problem : mutant_problems()) {
    INFO(in_words(problem));
    const Bench bench(problem);
    for (int row = 0; row < problem.m; ++row) {
      for (int column = 0; column < problem.n; ++column) {
        bench.d(row, column) = truncated(static_cast<float>(bench.sum(row, column)));
      }
    }
    const Verdict verdict = bench.judge();
    CHECK_FALSE(verdict.passed());
    // Half of all, less those that the error of fp32 leaves in doubt.
    CHECK(verdict.wrong > 0.25 * verdict.elements);
  }
}

TEST_CASE("Mutant: the sum is rounded to bf16 between two halves of K", "[verdict]") {
  for (const Options& problem : mutant_problems()) {
    INFO(in_words(problem));
    const Bench bench(problem);
    bench.store([&](auto row, auto column) {
      const double half = bench.part(row, column, 0, problem.k / 2);
      return bench.sum(row, column) - half + __bfloat162float(__double2bfloat16(half));
    });
    CHECK_FALSE(bench.judge().passed());
  }
}

TEST_CASE("The bound is not loose: a few units in the last place", "[verdict]") {
  for (const Options& problem : mutant_problems()) {
    INFO(in_words(problem));
    const Bench bench(problem);
    const double typical = root_mean_square(bench.sums);
    for (const int steps : {-2, 2}) {
      bench.store_right();
      std::int64_t moved = 0;
      for (int row = 0; row < problem.m; ++row) {
        for (int column = 0; column < problem.n; ++column) {
          if (std::abs(bench.sum(row, column)) < typical) continue;
          bench.d(row, column) = away_from_zero(bench.d(row, column), steps);
          ++moved;
        }
      }
      CHECK(moved > 0);
      CHECK(bench.judge().wrong == moved);
    }
  }
}

TEST_CASE("The bound is not loose: one product of 256", "[verdict]") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Bench bench(options(128, 128, 256, Init::normal, seed));
    bench.store([&](auto row, auto column) {
      return bench.sum(row, column) - bench.part(row, column, 255, 256);
    });
    const Verdict verdict = bench.judge();
    CHECK_FALSE(verdict.passed());
    CHECK(verdict.wrong > 0.5 * verdict.elements);
  }
}

TEST_CASE("Zeros must give exact zeros", "[verdict]") {
  const Bench bench(options(64, 64, 128, Init::zeros));
  bench.store_right();
  bench.d(3, 3) = __float2bfloat16_rn(-0.0F);
  CHECK(bench.judge().passed());
  bench.d(5, 6) = __ushort_as_bfloat16(0x0001);  // the smallest subnormal
  const Verdict verdict = bench.judge();
  CHECK_FALSE(verdict.passed());
  CHECK(verdict.wrong == 1);
}

TEST_CASE("Damage outside of D fails", "[verdict]") {
  Options padded = options(64, 60, 32);
  padded.ldd = 72;
  const Bench bench(padded);
  bench.store_right();
  REQUIRE(bench.judge().passed());

  SECTION("in the padding of a row, even by another NaN") {
    bench.d(10, 60) = __ushort_as_bfloat16(0x7FC0);
    bench.d(63, 71) = __float2bfloat16_rn(0);
    const Verdict verdict = bench.judge();
    CHECK_FALSE(verdict.passed());
    CHECK(verdict.wrong == 0);
    CHECK(verdict.damaged_padding == 2);
    CHECK(contains(describe(verdict, {64, 64}), "FAIL: 2 elements between the rows of D"));
  }
  SECTION("before D") {
    bench.problem.d[-harness::guard_bytes / 2] = __float2bfloat16_rn(0);
    const Verdict verdict = bench.judge();
    CHECK_FALSE(verdict.passed());
    CHECK(verdict.damaged_guard_bytes == 2);
    CHECK(contains(describe(verdict, {64, 64}), "FAIL: 2 bytes around D"));
  }
  SECTION("after D") {
    bench.d(64, 0) = __float2bfloat16_rn(0);
    CHECK_FALSE(bench.judge().passed());
  }
}

TEST_CASE("alpha and beta", "[verdict]") {
  Options scaled = options(96, 80, 64);
  scaled.alpha = 2;
  scaled.beta = 3;
  const Bench bench(scaled);
  const auto epilogue = [&](float alpha, float beta) {
    bench.store([&](auto row, auto column) {
      const float sum = static_cast<float>(tensor_core_fp32(bench, row, column));
      return std::fma(alpha, sum, beta * bench.c(row, column));
    });
    return bench.judge();
  };
  CHECK(epilogue(2, 3).passed());
  CHECK(epilogue(2, 0).wrong > 0.9 * 96 * 80);
  CHECK(epilogue(2, 1).wrong > 0.9 * 96 * 80);
  CHECK(epilogue(1, 3).wrong > 0.9 * 96 * 80);
}

TEST_CASE("C = NaN must not reach D when beta is 0", "[verdict]") {
  const Bench bench(options(96, 80, 64));
  bench.store_right();
  CHECK(bench.judge().passed());
  bench.store([&](auto row, auto column) {
    return bench.sum(row, column) +
           0 * __bfloat162float(bench.problem.c[row * bench.problem.ldc + column]);
  });
  CHECK(bench.judge().wrong == 96 * 80);
}

TEST_CASE("A = B = NaN must not reach D when alpha is 0 or k is 0", "[verdict]") {
  Options scaled = options(96, 80, 64);
  for (const float beta : {0.0F, 2.0F}) {
    for (const bool alpha_is_zero : {true, false}) {
      scaled.alpha = alpha_is_zero ? 0 : 1;
      scaled.k = alpha_is_zero ? 64 : 0;
      scaled.beta = beta;
      const Bench bench(scaled);
      bench.store_right();
      CHECK(bench.judge().passed());
      CHECK(__bfloat162float(bench.d(4, 5)) == (beta == 0 ? 0 : beta * bench.c(4, 5)));
      bench.store([&](auto row, auto) { return 0 * __bfloat162float(bench.problem.a[row]); });
      CHECK(bench.judge().wrong == 96 * 80);
    }
  }
}

TEST_CASE("NaN passes only where it is expected", "[verdict]") {
  Options scaled = options(16, 16, 16);
  scaled.alpha = NAN;
  const Bench bench(scaled);
  bench.store_right();
  CHECK(bench.judge().passed());
  bench.d(1, 1) = __float2bfloat16_rn(0);
  CHECK(bench.judge().wrong == 1);

  CHECK_FALSE(is_right(1, not_a_number));
  CHECK_FALSE(is_right(inf, not_a_number));
  CHECK_FALSE(is_right(0, not_a_number));
  CHECK_FALSE(is_right(not_a_number, inf));
  CHECK(is_right(not_a_number, not_a_number));
}

TEST_CASE("Large values round to infinity, and only they", "[verdict]") {
  constexpr double largest = 0x1.FEp127, tie = 0x1.FFp127;
  CHECK(is_right(largest, largest));
  CHECK_FALSE(is_right(largest, inf));
  CHECK(is_right(std::numeric_limits<float>::max(), inf));
  CHECK(is_right(1e300, inf));
  CHECK(is_right(-1e300, -inf));
  CHECK(is_right(inf, inf));
  CHECK_FALSE(is_right(std::numeric_limits<float>::max(), -inf));
  CHECK_FALSE(is_right(std::numeric_limits<float>::max(), largest));
  CHECK_FALSE(is_right(1e300, largest));
  CHECK_FALSE(is_right(inf, largest));
  CHECK_FALSE(is_right(inf, -inf));
  // Within the error of fp32, the tie goes either way.
  CHECK(is_right(tie, largest));
  CHECK(is_right(tie, inf));
}

TEST_CASE("Rounding to bf16, and what truncation makes of it", "[verdict]") {
  CHECK(is_right(1.01171875, 1.015625));
  CHECK(is_right(3.14, 3.140625));
  CHECK(is_right(1.00390625, 1.0));
  CHECK(is_right(not_a_number, __ushort_as_bfloat16(0x7FC0)));
  CHECK(is_right(not_a_number, __ushort_as_bfloat16(0xFFFF)));

  CHECK_FALSE(is_right(3.14, truncated(3.14F)));
  CHECK_FALSE(is_right(1.012, truncated(1.012F)));
  CHECK_FALSE(
      is_right(not_a_number, truncated(std::bit_cast<float>(0x7F800001))));  // a NaN made inf
  CHECK_FALSE(
      is_right(std::numeric_limits<float>::max(), truncated(std::numeric_limits<float>::max())));
}

TEST_CASE("Subnormals are rounded like the rest", "[verdict]") {
  constexpr double smallest = 0x1p-133;
  CHECK(is_right(5 * smallest, 5 * smallest));
  CHECK_FALSE(is_right(5 * smallest, 6 * smallest));
  CHECK_FALSE(is_right(5 * smallest, 0.0));
  CHECK(is_right(0.4 * smallest, 0.0));
  CHECK_FALSE(is_right(0.4 * smallest, smallest));
}

TEST_CASE("The error bound is what its description says", "[verdict]") {
  // Half an ulp of 300 is 1; k / 16 + 16 = 20 steps of 2^-23 of the magnitude 2^13.
  const double accumulation = 20 * 0x1p-23 * 0x1p13;
  CHECK(harness::accumulation_bound(64, 0x1p13) == accumulation);
  CHECK(harness::error_bound(64, 1, 0, 300, 0x1p13, 0) ==
        Approx(1 + accumulation + 300 * 0x1p-22).epsilon(1e-12));
  CHECK(harness::error_bound(64, -2, 3, 150, 0x1p13, 200) ==
        Approx(1 + 2 * accumulation + 900 * 0x1p-22).epsilon(1e-12));
  // The error of fp32 may carry a value just below 512 over it, where an ulp is twice as large.
  CHECK(harness::error_bound(64, 1, 0, 511.99, 0x1p13, 0) > 2);
  CHECK(harness::error_bound(0, 1, 0, 0, 0, 0) < 0x1p-133);
}

TEST_CASE("Every row block and every thread is counted", "[verdict]") {
  // More elements than a block of judge() holds, so that there are two.
  Options tall = options(1 << 13, 8, 8, Init::index);
  tall.ldd = 1 << 10;
  const Bench bench(tall);
  bench.store_right();
  CHECK(bench.judge().passed());
  for (const int row : {4095, 4096, 8191}) bench.d(row, 7) = __float2bfloat16_rn(-1000);
  const Verdict verdict = bench.judge();
  CHECK(verdict.elements == 8 << 13);
  CHECK(verdict.wrong == 3);
  REQUIRE(verdict.first);
  CHECK(verdict.first->row == 4095);
  CHECK(verdict.first->column == 7);
  CHECK(verdict.worst > 1);
}

TEST_CASE("An empty D passes if nothing around it is written", "[verdict]") {
  for (const Options& empty : {options(0, 8, 8), options(8, 0, 8), options(0, 0, 0)}) {
    const Bench bench(empty);
    CHECK(bench.judge().passed());
    CHECK(bench.judge().elements == 0);
    *bench.problem.d = __float2bfloat16_rn(0);
    CHECK_FALSE(bench.judge().passed());
  }
}

TEST_CASE("Verdicts merge: counts add up, and the first wrong element is that of the first matrix",
          "[verdict]") {
  Verdict verdict, later_rows, earlier_rows, other_matrix;
  later_rows.elements = earlier_rows.elements = other_matrix.elements = 10;
  later_rows.wrong = earlier_rows.wrong = 1;
  later_rows.worst = 3;
  later_rows.first = harness::WrongElement{5, 0, 1, 0, 0.5};
  earlier_rows.first = harness::WrongElement{2, 1, 1, 0, 0.5};
  other_matrix.wrong = 2;
  other_matrix.damaged_guard_bytes = 4;
  other_matrix.first = harness::WrongElement{0, 0, 1, 0, 0.5, "D of group 1"};
  for (const Verdict& other : {later_rows, earlier_rows, other_matrix}) merge(verdict, other);
  CHECK(verdict.elements == 30);
  CHECK(verdict.wrong == 4);
  CHECK(verdict.worst == 3);
  CHECK(verdict.damaged_guard_bytes == 4);
  REQUIRE(verdict.first);
  CHECK(verdict.first->row == 2);
  CHECK(verdict.first->matrix.empty());
}

TEST_CASE("The report names the first wrong element, its tile and the share", "[verdict]") {
  Verdict verdict;
  verdict.elements = 16777216;
  verdict.worst = 0.614;
  CHECK(describe(verdict, {128, 128}) ==
        "PASS: 16,777,216 elements within the bound, worst at 0.61 of it.");

  verdict.wrong = 8192;
  verdict.first = harness::WrongElement{3, 130, not_a_number, -1.234512, 0.00781};
  CHECK(
      describe(verdict, {128, 128}) ==
      "FAIL: 8,192 of 16,777,216 elements wrong (0.0488 %). First at row 3, column 130 (tile 0, 1; "
      "row 3, column 2 of the tile): got nan, expected -1.234512 +- 0.0078. It held nan before the "
      "launch: perhaps nothing was stored.");

  verdict.first->matrix = "D of group 7";
  CHECK(contains(describe(verdict, {128, 128}), "column 2 of the tile) of D of group 7: got nan"));

  verdict.first->got = inf;
  verdict.damaged_guard_bytes = 64;
  const std::string text = describe(verdict, {128, 128});
  CHECK(contains(text, "got inf, expected"));
  CHECK(contains(text, "\n64 bytes around D were overwritten"));
}

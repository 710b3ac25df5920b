// The verdict on a softmax and a top-k: right rows pass, wrong ones fail.
#include "common/harness/softmax_verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "common/gemm/row_statistics.h"
#include "tests/catch.h"

namespace {

using harness::Logit;
using harness::Softmax;
using harness::Verdict;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

std::vector<Logit> draw(int count, double scale, double bound = 0) {
  std::mt19937 random(count);
  std::normal_distribution<double> normal(0, scale);
  std::vector<Logit> logits;
  for (int i = 0; i < count; ++i) logits.push_back({static_cast<float>(normal(random)), bound});
  return logits;
}

/// As a kernel computes it, in fp32; each logit is moved by `shift` of its bound, up and down in
/// turn.
std::vector<float> compute(std::span<const Logit> logits, double shift = 0) {
  std::vector<float> x;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    x.push_back(
        static_cast<float>(logits[i].value + (i % 2 == 0 ? shift : -shift) * logits[i].bound));
  }
  const float max = *std::max_element(x.begin(), x.end());
  float sum = 0;
  for (float& element : x) sum += element = gemm::exp_of(element - gemm::reference(max));
  for (float& element : x) element /= sum;
  return x;
}

std::vector<__nv_bfloat16> rounded(std::span<const float> values) {
  std::vector<__nv_bfloat16> result;
  for (const float value : values) result.push_back(__float2bfloat16_rn(value));
  return result;
}

Verdict judge_softmax(std::span<const float> values, std::span<const Logit> logits) {
  Verdict verdict;
  harness::judge_softmax_row(verdict, 3, rounded(values), logits);
  return verdict;
}

Verdict judge_top(const std::vector<float>& values, const std::vector<int>& columns,
                  std::span<const Logit> logits) {
  Verdict verdict;
  harness::judge_top_row(verdict, 3, values, columns, logits);
  return verdict;
}

}  // namespace

TEST_CASE("a softmax in fp32 passes, at the bounds of its logits, too", "[softmax]") {
  for (const double scale : {0.0, 1.0, 20.0, 8000.0}) {
    for (const double bound : {0.0, 1e-4, 0.02, 1.0}) {
      for (const int count : {1, 7, 300}) {
        const std::vector<Logit> logits = draw(count, scale, bound);
        INFO(count << " logits of scale " << scale << ", bound " << bound);
        for (const double shift : {0.0, 0.99, -0.99}) {
          const Verdict verdict = judge_softmax(compute(logits, shift), logits);
          CHECK(verdict.passed());
          CHECK(verdict.elements == count);
        }
      }
    }
  }
}

TEST_CASE("bounds out of all proportion allow any share, and no NaN", "[softmax]") {
  const std::vector<Logit> logits{{1e38, 1e33}, {-1e38, 1e33}, {1e38, 1e33}};
  CHECK(judge_softmax(std::vector<float>{1, 0, 0}, logits).passed());
  CHECK(judge_softmax(std::vector<float>{0.5F, 0, 0.5F}, logits).passed());
  CHECK(judge_softmax(std::vector<float>{0, 1, 0}, logits).wrong == 1);
  CHECK(judge_softmax(std::vector<float>(3, std::nanf("")), logits).wrong == 3);
  // One of them may be anything, which says nothing of the others among themselves.
  const std::vector<Logit> mixed{{0, 1000}, {1, 0}, {0, 0}};
  CHECK(judge_softmax(std::vector<float>{1, 0, 0}, mixed).passed());
  CHECK(judge_softmax(std::vector<float>{0, 0.731F, 0.269F}, mixed).passed());
}

TEST_CASE("wrong softmaxes fail", "[softmax]") {
  const std::vector<Logit> logits = draw(300, 2, 1e-4);
  const std::vector<float> right = compute(logits);
  const auto wrong = [&](auto change) {
    std::vector<float> values = right;
    change(values);
    return judge_softmax(values, logits).wrong;
  };
  CHECK(wrong([](auto&) {}) == 0);
  CHECK(wrong([](auto& values) { values[5] = std::nanf(""); }) == 1);
  CHECK(wrong([](auto& values) { std::fill(values.begin(), values.end(), 0.0F); }) == 300);
  CHECK(wrong([](auto& values) { std::fill(values.begin(), values.end(), 1.0F / 300); }) > 250);
  CHECK(wrong([](auto& values) { std::swap(values[0], values[1]); }) == 2);
  // A sum that misses a column, or has one more with logit 0.
  CHECK(wrong([&](auto& values) {
          const float largest = *std::max_element(values.begin(), values.end());
          for (float& value : values) value /= 1 - largest;
        }) > 250);
  CHECK(wrong([&](auto& values) {
          for (float& value : values) value *= 0.98F;
        }) > 250);
}

TEST_CASE("a softmax of infinities and NaN", "[softmax]") {
  const std::vector<float> all_nan(3, std::nanf(""));
  const std::vector<Logit> with_nan{{1, 0}, {not_a_number, 0}, {2, 0}};
  const std::vector<Logit> with_infinity{{1, 0}, {infinity, 0}, {2, 0}};
  const std::vector<Logit> nothing{{-infinity, 0}, {-infinity, 0}, {-infinity, 0}};
  for (const auto& logits : {with_nan, with_infinity, nothing}) {
    CHECK(judge_softmax(all_nan, logits).passed());
    CHECK(judge_softmax(std::vector<float>{0, 1, 0}, logits).wrong == 3);
  }
  const std::vector<Logit> masked{{3, 0}, {-infinity, 0}, {3, 0}};
  CHECK(judge_softmax(std::vector<float>{0.5F, 0, 0.5F}, masked).passed());
  CHECK(judge_softmax(all_nan, masked).wrong == 3);
}

TEST_CASE("exact logits: the columns are the oracle's, ties by the lowest", "[topk]") {
  const std::vector<Logit> logits{{1, 0}, {5, 0}, {5, 0}, {-2, 0}, {5, 0}};
  const std::vector<float> halves{0.5F, 0.5F};
  CHECK(judge_top(halves, {1, 2}, logits).passed());
  CHECK(judge_top(halves, {1, 4}, logits).wrong == 1);
  CHECK(judge_top(halves, {2, 1}, logits).wrong == 2);
  CHECK(judge_top({0.6F, 0.4F}, {1, 2}, logits).wrong == 2);
  CHECK(judge_top(halves, {-1, 2}, logits).wrong == 1);
  CHECK(judge_top(halves, {1, 5}, logits).wrong == 1);
  CHECK(judge_top(halves, {1, 4}, logits).first->matrix == "the columns");
  CHECK(judge_top({0.6F, 0.4F}, {1, 2}, logits).first->matrix == "the values");
}

TEST_CASE("logits within bounds: a column may stand where its logit may", "[topk]") {
  const std::vector<Logit> logits{{1, 0.1}, {5, 0.1}, {5.15, 0.1}, {4.5, 0.1}};
  const auto values = [](double first, double second) {
    const double sum = std::exp(first) + std::exp(second);
    return std::vector<float>{static_cast<float>(std::exp(first) / sum),
                              static_cast<float>(std::exp(second) / sum)};
  };
  CHECK(judge_top(values(5.15, 5), {2, 1}, logits).passed());
  CHECK(judge_top(values(5.08, 5.06), {1, 2}, logits).passed());   // either may be the larger one
  CHECK(judge_top(values(5.15, 4.5), {2, 3}, logits).wrong == 3);  // and so the values are
  CHECK(judge_top(values(5, 5), {2, 2}, logits).wrong == 2);
}

TEST_CASE("NaN comes first in a top-k, and its values are NaN", "[topk]") {
  const std::vector<Logit> logits{{1, 0}, {infinity, 0}, {not_a_number, 0}, {-infinity, 0}};
  const std::vector<float> nan(4, std::nanf(""));
  CHECK(judge_top(nan, {2, 1, 0, 3}, logits).passed());
  CHECK(judge_top(nan, {1, 2, 0, 3}, logits).wrong == 2);
  CHECK(judge_top({1, 0, 0, 0}, {2, 1, 0, 3}, logits).wrong == 4);
}

TEST_CASE("logits of whole numbers are exact, and beyond fp32 they are infinite", "[softmax]") {
  gemm::Problem problem{};
  problem.k = 64;
  problem.alpha = 3e38F;
  const std::vector<double> sums{1, 2, -2, 0}, magnitudes{10, 20, 20, 10};
  for (const bool is_exact : {true, false}) {
    const std::vector<Logit> logits = harness::row_logits(problem, sums, magnitudes, is_exact);
    CHECK(logits[0].value == Approx(3e38));
    CHECK(logits[1].value == infinity);
    CHECK(logits[2].value == -infinity);
    CHECK(logits[3].value == 0);
    CHECK(logits[1].bound == 0);
    CHECK((logits[0].bound == 0) == is_exact);
  }
  problem.alpha = 1;
  const std::vector<double> large{1e8}, large_magnitude{1e8};
  CHECK(harness::row_logits(problem, large, large_magnitude, true)[0].bound > 0);
}

TEST_CASE("logits that went through bf16 may be off by a rounding", "[softmax]") {
  const std::vector<Logit> logits{{256, 0}, {1, 0.5}, {-257, 0}, {3.4e38, 1e30}, {-infinity, 0}};
  const std::vector<Logit> rounded = harness::through_bf16(logits);
  CHECK(rounded[0].value == 256);
  CHECK(rounded[0].bound == 1);  // neighbours are 2 apart
  CHECK(rounded[1].bound == 0.5 + 0x1p-8);
  CHECK(rounded[2].value == -257);
  CHECK(rounded[2].bound == 1);
  CHECK(rounded[3].value == infinity);
  CHECK(rounded[4].value == -infinity);
  CHECK(rounded[4].bound == 0);

  std::vector<Logit> exact = draw(300, 20);
  std::vector<float> as_bf16;
  for (const Logit& logit : exact) {
    as_bf16.push_back(__bfloat162float(__float2bfloat16_rn(static_cast<float>(logit.value))));
  }
  std::vector<Logit> stored;
  for (const float value : as_bf16) stored.push_back({value, 0});
  CHECK(judge_softmax(compute(stored), harness::through_bf16(exact)).passed());
  CHECK(judge_softmax(compute(stored), exact).wrong > 0);
}

TEST_CASE("a logit at the end of fp32 may be infinite or not", "[softmax]") {
  gemm::Problem problem{};
  problem.k = 64;
  problem.alpha = 1e37F;
  const double end = 0x1.FFFFFFp127 / problem.alpha;
  const std::vector<double> magnitudes{40, 40, 40};
  for (const double nearly : {1 - 1e-9, 1 + 1e-9}) {
    const std::vector<double> sums{nearly * end, 0.1, -nearly * end};
    const std::vector<Logit> logits = harness::row_logits(problem, sums, magnitudes, false);
    CHECK(judge_softmax(std::vector<float>{1, 0, 0}, logits).passed());
    CHECK(judge_softmax(std::vector<float>(3, std::nanf("")), logits).passed());
    CHECK(judge_softmax(std::vector<float>{0, 1, 0}, logits).wrong == 1);
    CHECK(judge_softmax(std::vector<float>{1, 0, std::nanf("")}, logits).wrong == 1);

    const std::vector<double> with_infinity{nearly * end, 0.1, 2 * end};
    const std::vector<Logit> two = harness::row_logits(problem, with_infinity, magnitudes, false);
    const std::vector<float> nan(2, std::nanf(""));
    CHECK(judge_top(nan, {0, 2}, two).passed());
    CHECK(judge_top(nan, {2, 0}, two).passed());
    CHECK(judge_top(nan, {2, 1}, two).wrong > 0);
    CHECK(judge_top({1, 0}, {2, 0}, two).wrong == 2);
  }
}

#include "common/harness/timing.h"

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/device/errors.h"
#include "common/harness/benchmark.h"
#include "common/harness/throughput.h"
#include "tests/catch.h"
#include "tests/unit/message.h"

namespace {

using harness::TimedContender;
using harness::Timing;

Timing timing(std::vector<double> samples_ms, double ms) {
  Timing result;
  result.ms = ms;
  result.launches = static_cast<std::int64_t>(samples_ms.size());
  result.samples_ms = std::move(samples_ms);
  return result;
}

/// An H100 at the clock of its data sheet.
device::Properties h100() {
  device::Properties properties;
  properties.sm_count = 132;
  properties.max_clock_mhz = 1830;
  return properties;
}

gemm::Problem problem(int m, int n, int k) {
  gemm::Problem result{};
  result.m = m;
  result.n = n;
  result.k = k;
  return result;
}

}  // namespace

TEST_CASE("in every round each contender runs once", "[timing]") {
  for (const std::size_t count : {1, 2, 3, 10}) {
    for (int round = -harness::warmup_rounds; round < 50; ++round) {
      std::vector<std::size_t> order = harness::shuffled_order(count, 1, round);
      std::sort(order.begin(), order.end());
      REQUIRE(order.size() == count);
      for (std::size_t i = 0; i < count; ++i) CHECK(order[i] == i);
    }
  }
}

TEST_CASE("the order varies with round and seed, and follows from them", "[timing]") {
  std::set<std::vector<std::size_t>> by_round, by_seed;
  std::size_t first_is_lesson = 0;
  constexpr int rounds = 1000;
  for (int round = 0; round < rounds; ++round) {
    by_round.insert(harness::shuffled_order(4, 1, round));
    by_seed.insert(harness::shuffled_order(4, static_cast<std::uint64_t>(round) << 32, 0));
    first_is_lesson += harness::shuffled_order(2, 7, round).front() == 0;
  }
  CHECK(by_round.size() == 24);  // 4! orders: each of them came
  CHECK(by_seed.size() == 24);
  // A fair coin leaves this range once in a million trials of 1000.
  CHECK(first_is_lesson > 420);
  CHECK(first_is_lesson < 580);
  CHECK(harness::shuffled_order(9, 3, 5) == harness::shuffled_order(9, 3, 5));
}

TEST_CASE("the flush reads four times the L2, and at least 256 MiB", "[timing]") {
  constexpr std::size_t mib = std::size_t{1} << 20;
  CHECK(harness::flush_bytes(0) == 256 * mib);
  CHECK(harness::flush_bytes(50 * mib) == 256 * mib);
  CHECK(harness::flush_bytes(126 * mib) == 504 * mib);
}

TEST_CASE("FLOPs are counted without overflow", "[timing]") {
  CHECK(harness::gemm_flops(problem(1024, 1024, 1024)) == 2147483648.0);
  CHECK(harness::gemm_flops(problem(16384, 16384, 16384)) == 8796093022208.0);
  CHECK(harness::gemm_flops(problem(2147483647, 2147483647, 2147483647)) ==
        Approx(1.9807e28).epsilon(1e-4));
  CHECK(harness::gemm_flops(problem(8, 8, 0)) == 0);
}

TEST_CASE("the peak is the data sheet's", "[timing]") {
  CHECK(harness::peak_flops(h100()) == Approx(989.4e12).epsilon(1e-4));
}

TEST_CASE("a figure above the peak is a failure, not a result", "[timing]") {
  const double flops = harness::gemm_flops(problem(8192, 8192, 8192));
  const double fastest_possible_ms = flops / harness::peak_flops(h100()) * 1e3;
  const auto require = [&](std::vector<double> samples_ms) {
    harness::require_plausible("lesson99", timing(samples_ms, harness::sustained_seconds), flops,
                               harness::peak_flops(h100()));
  };
  CHECK_NOTHROW(require({1.01 * fastest_possible_ms, 2 * fastest_possible_ms}));
  CHECK_THROWS_AS(require({0.99 * fastest_possible_ms}), device::Failure);
  // One launch in three that returned early would leave the median as it is.
  CHECK_THROWS_AS(require({1.5, 1.5, 0.004}), device::Failure);
  CHECK_THROWS_AS(require({0}), device::Failure);
  CHECK_THROWS_AS(require({std::numeric_limits<double>::quiet_NaN()}), std::invalid_argument);

  const std::string message =
      tests::message_of<device::Failure>([&] { require({0.5 * fastest_possible_ms}); });
  CHECK(message.find("lesson99") != std::string::npos);
  CHECK(message.find("no figure is reported") != std::string::npos);
}

TEST_CASE("interleaved contenders are compared round by round", "[timing]") {
  const std::vector<TimedContender> contenders{
      {"lesson99", "lesson", timing({2, 1, 3}, 2), 1},
      {"cublasGemmEx", "standard", timing({1, 2, 9}, 2), 1},
      {"cublasLtMatmul, heuristic 1", "candidate", timing({4, 1, 3}, 3), 1},
      {"cublasLtMatmul, heuristic 2", "candidate", timing({1, 0.5, 1.5}, 1), 1}};
  const harness::Ratio plain = harness::compare(contenders, true, false);
  CHECK(plain.standard == 2);
  CHECK_FALSE(plain.best.has_value());
  CHECK_FALSE(plain.best_contender.has_value());

  const harness::Ratio best = harness::compare(contenders, true, true);
  CHECK(best.standard == 2);
  CHECK(best.best == 0.5);
  CHECK(best.best_contender == "cublasLtMatmul, heuristic 2");
}

TEST_CASE("sustained contenders are compared by their total times", "[timing]") {
  // Their batches are not of the same moment, and there may be more of one than of the other.
  const std::vector<TimedContender> contenders{
      {"lesson99", "lesson", timing({2, 2}, 2), 1},
      {"cublasGemmEx", "standard", timing({0.9, 1, 1.1}, 1), 1}};
  const harness::Ratio ratio = harness::compare(contenders, false, true);
  CHECK(ratio.standard == 0.5);
  CHECK(ratio.best == 0.5);
  CHECK(ratio.best_contender == "cublasGemmEx");
}

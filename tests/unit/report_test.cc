#include "common/harness/report.h"

#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace {

using harness::Benchmark;
using harness::TimedContender;

TimedContender contender(std::string name, std::string role, double ms, double tflops) {
  harness::Timing timing;
  timing.ms = ms;
  timing.samples_ms = {0.99 * ms, ms, 1.01 * ms};
  timing.launches = 3;
  return {std::move(name), std::move(role), timing, tflops};
}

Benchmark interleaved() {
  Benchmark benchmark;
  benchmark.protocol.text = "interleaved, L2 flushed by reading 256 MiB";
  benchmark.protocol.rounds = 20;
  benchmark.contenders = {contender("lesson03", "lesson", 0.4, 343.6),
                          contender("cublasGemmEx", "standard", 0.2, 687.2)};
  benchmark.ratio.standard = 0.443;
  return benchmark;
}

std::string text(const Benchmark& benchmark) {
  std::ostringstream out;
  harness::report(out, benchmark);
  return out.str();
}

}  // namespace

TEST_CASE("further lines of a report stand under the first", "[report]") {
  std::ostringstream out;
  harness::report(out, "verify", "FAIL: one\ntwo");
  CHECK(out.str() == "verify   FAIL: one\n         two\n");
}

TEST_CASE("hazards, or that there are none", "[report]") {
  std::ostringstream out;
  harness::report(out, device::Hazards{0, "", "schedule fair, seed 1"});
  harness::report(out, device::Hazards{2, "E01 one\n  first\nE02 two\n  second\n", "strict"});
  CHECK(out.str() ==
        "hazards  none found (schedule fair, seed 1)\n"
        "hazards  2 found (strict)\n"
        "         E01 one\n"
        "           first\n"
        "         E02 two\n"
        "           second\n"
        "         --explain with the id of a finding prints the rule behind it.\n");
}

TEST_CASE("a right D with hazards is no PASS, nor luck", "[report]") {
  harness::CheckedVerdict checked;
  checked.verdict.elements = 480;
  checked.oracle = "CPU";
  checked.hazards = device::Hazards{1, "E01 one\n  first\n", "strict"};
  CHECK_FALSE(checked.passed());
  for (const char* broken : {"", "no-fence"}) {
    std::ostringstream out;
    harness::report(out, checked, {8, 8}, broken);
    CHECK(out.str().starts_with(
        "verify   FAIL (D is right this time, but see the hazards): 480 elements"));
    CHECK(out.str().find("PASS") == std::string::npos);
    CHECK(out.str().find("luck") == std::string::npos);
    CHECK(out.str().find("hazards  1 found (strict)\n") != std::string::npos);
  }
}

TEST_CASE("an interleaved benchmark", "[report]") {
  CHECK(text(interleaved()) ==
        "time     0.4 ms (0.398 .. 0.402)   343.6 TFLOP/s\n"
        "cuBLAS   0.2 ms (0.199 .. 0.201)   687.2 TFLOP/s   cublasGemmEx\n"
        "ratio    0.443 of cuBLAS (median of 20 rounds, interleaved, L2 flushed by reading 256 "
        "MiB)\n");
}

TEST_CASE("of the candidates, the best one is shown", "[report]") {
  Benchmark benchmark = interleaved();
  benchmark.contenders.push_back(
      contender("cublasLtMatmul, heuristic 1", "candidate", 0.25, 549.8));
  benchmark.contenders.push_back(
      contender("cublasLtMatmul, heuristic 2", "candidate", 0.16, 859.0));
  benchmark.ratio.best = 0.4;
  benchmark.ratio.best_contender = "cublasLtMatmul, heuristic 2";
  const std::string best = text(benchmark);
  CHECK(best.find("best     0.16 ms (0.1592 .. 0.1608)   859 TFLOP/s   cublasLtMatmul, heuristic "
                  "2\n") != std::string::npos);
  CHECK(best.find("heuristic 1") == std::string::npos);
  CHECK(best.find("0.443 of cuBLAS, 0.4 of its best (") != std::string::npos);

  benchmark.ratio.best_contender = "cublasGemmEx";
  CHECK(text(benchmark).find("best     ") == std::string::npos);
}

TEST_CASE("a sustained benchmark says what clock and power it ran at", "[report]") {
  Benchmark benchmark = interleaved();
  benchmark.protocol = {.name = "sustained",
                        .text = "sustained, each alone for 1 s",
                        .rounds = {},
                        .warmup_rounds = {},
                        .flush_mib = {},
                        .seconds = 1};
  benchmark.contenders[0].timing.sm_clock_mhz = 1530;
  benchmark.contenders[0].timing.power_w = 698.25;
  const std::string sustained = text(benchmark);
  CHECK(sustained.find("343.6 TFLOP/s   1530 MHz   698 W\n") != std::string::npos);
  CHECK(sustained.find("ratio    0.443 of cuBLAS (sustained, each alone for 1 s)\n") !=
        std::string::npos);
}

TEST_CASE("the clocks before and after are shown as far as they are known", "[report]") {
  Benchmark benchmark = interleaved();
  benchmark.before.sm_clock_mhz = 1980;
  benchmark.after.sm_clock_mhz = 1755;
  CHECK(text(benchmark).find("clock    SM 1980 -> 1755 MHz\n") != std::string::npos);
  benchmark.before.power_w = 118.2;
  benchmark.after.power_w = 301;
  CHECK(text(benchmark).find("clock    SM 1980 -> 1755 MHz, power 118 -> 301 W\n") !=
        std::string::npos);
}

TEST_CASE("samples that may hold launch cost are pointed out", "[report]") {
  Benchmark benchmark = interleaved();
  benchmark.contenders[0].timing.late = 2;
  CHECK(text(benchmark).find("note     2 of 3 samples of lesson03 may hold the cost of "
                             "launching") != std::string::npos);
}

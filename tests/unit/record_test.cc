#include "common/harness/record.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <string>

#include "common/harness/grouped_experiment.h"
#include "common/harness/statistics.h"
#include "tests/catch.h"
#include "tests/unit/host_device.h"

namespace {

namespace fs = std::filesystem;

using harness::GemmRun;
using harness::GpuState;
using harness::Json;
using harness::RooflineRun;
using harness::Timing;

constexpr double gemm_flops = 2.0 * 4096 * 4096 * 4096;

Timing timing(std::vector<double> samples_ms) {
  Timing result;
  result.ms = harness::median(samples_ms);
  result.launches = static_cast<std::int64_t>(samples_ms.size());
  result.samples_ms = std::move(samples_ms);
  return result;
}

harness::TimedContender contender(std::string name, std::string role,
                                  std::vector<double> samples_ms, double flops = gemm_flops) {
  const Timing times = timing(std::move(samples_ms));
  return {std::move(name), std::move(role), times, flops / times.ms * 1e-9};
}

harness::Machine sample_machine() {
  return {.gpu = "sample, not measured",
          .sm_count = 132,
          .max_sm_clock_mhz = 1980,
          .driver = "13.0",
          .runtime = "13.0",
          .cublas = "13.1.0",
          .commit = {}};
}

const GpuState before{
    .sm_clock_mhz = 1980, .memory_clock_mhz = 3201, .power_w = 118.5, .temperature_c = 34};
const GpuState after{
    .sm_clock_mhz = 1755, .memory_clock_mhz = 3201, .power_w = 301.2, .temperature_c = 41};

/// The run that plots/data/sample/lesson03.json claims to be of.
GemmRun sample_gemm_run() {
  GemmRun run;
  run.lesson = 3;
  run.name = "tma";
  run.options.m = run.options.n = run.options.k = 4096;
  run.options.selection.set("tile", "128x128");
  gemm::Problem problem{};
  problem.lda = problem.ldb = problem.ldc = problem.ldd = 4096;
  run.problem = harness::problem_json(run.options, problem);
  harness::Verdict verdict;
  verdict.elements = 4096 * 4096;
  verdict.worst = 0.61;
  run.checked = {.verdict = verdict, .oracle = "cuBLAS 13.1.0, fp32", .soak = {}};
  harness::Benchmark benchmark;
  benchmark.protocol = {.name = "interleaved",
                        .text = "interleaved, L2 flushed by reading 256 MiB",
                        .rounds = 5,
                        .warmup_rounds = 3,
                        .flush_mib = 256,
                        .seconds = {}};
  benchmark.contenders = {
      contender("lesson03", "lesson", {0.402, 0.399, 0.407, 0.4, 0.403}),
      contender("cublasGemmEx", "standard", {0.178, 0.177, 0.18, 0.178, 0.179})};
  benchmark.ratio = harness::compare(benchmark.contenders, true, false);
  benchmark.before = before;
  benchmark.after = after;
  run.benchmark = benchmark;
  run.machine = sample_machine();
  return run;
}

/// The run that plots/data/sample/lesson12.json claims to be of.
GemmRun sample_grouped_run() {
  GemmRun run = sample_gemm_run();
  run.kind = "grouped";
  run.lesson = 12;
  run.name = "grouped";
  run.options.selection = {};
  run.options.selection.set("groups", "128x512x512*4");
  run.options.selection.set("weights", "auto");
  run.options.selection.set("tile", "128x128");
  run.options.selection.set("order", "weights");
  tests::HostDevice device;
  const auto experiment = harness::grouped_experiment(device, run.options, 8, {});
  run.problem = experiment->problem_json();
  run.checked->verdict.elements = 4 * 128 * 512;
  const double flops = experiment->flops();
  run.benchmark->contenders = {
      contender("lesson12", "lesson", {0.0105, 0.0101, 0.0102, 0.0103, 0.0102}, flops),
      contender("cublasGemmGroupedBatchedEx", "standard", {0.0204, 0.0206, 0.0202, 0.0204, 0.0207},
                flops),
      contender("cublasGemmEx, one by one", "candidate", {0.0306, 0.0304, 0.0309, 0.0306, 0.0305},
                flops)};
  run.benchmark->ratio = harness::compare(run.benchmark->contenders, true, false);
  return run;
}

harness::Ceiling ceiling(std::string name, std::string init, double value, std::string unit,
                         std::vector<double> samples_ms, double sm_clock_mhz, double power_w) {
  Timing times = timing(std::move(samples_ms));
  times.sm_clock_mhz = sm_clock_mhz;
  times.power_w = power_w;
  return {std::move(name), std::move(init), value, std::move(unit), times};
}

/// The run that plots/data/sample/lesson00.json claims to be of.
RooflineRun sample_roofline_run() {
  RooflineRun run;
  run.name = "roofline";
  run.ceilings = {
      ceiling("copy", "normal", 4.2e12, "B/s", {2.04, 2.05, 2.05, 2.05, 2.06}, 1755, 410),
      ceiling("wgmma", "normal", 8.7e14, "FLOP/s", {1.26, 1.26, 1.27, 1.25, 1.26}, 1560, 698),
      ceiling("wgmma", "zeros", 9.46e14, "FLOP/s", {1.16, 1.16, 1.16, 1.17, 1.15}, 1749, 520)};
  run.ridge_flop_per_byte = 8.7e14 / 4.2e12;
  run.machine = sample_machine();
  run.before = before;
  run.after = after;
  return run;
}

/// The first line of a file; the tests run at the root of the project.
std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string with_sample_date(const Json& record) {
  return std::regex_replace(record.text(), std::regex(R"("date":"[^"]*")"),
                            R"("date":"2025-01-31T12:00:00Z")");
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

// tests/cli/test_cli.py holds the keys of the sample files against docs/result-files.md.
TEST_CASE("a run of edited PTX on the emulator says so", "[record]") {
  GemmRun run = sample_gemm_run();
  run.options.ptx = "edited.ptx";
  run.checked->hazards = device::Hazards{2, "text", "strict"};
  run.machine.driver = {};
  const std::string text = harness::record(run).text();
  CHECK(contains(text, R"("break":null,"ptx":"edited.ptx")"));
  CHECK(contains(text, R"("status":"fail")"));
  CHECK(contains(text, R"("hazards":2})"));
  CHECK(contains(text, R"("driver":null)"));
}

TEST_CASE("the sample files are what the harness writes", "[record]") {
  CHECK(with_sample_date(harness::record(sample_gemm_run())) ==
        first_line("plots/data/sample/lesson03.json"));
  CHECK(with_sample_date(harness::record(sample_roofline_run())) ==
        first_line("plots/data/sample/lesson00.json"));
  CHECK(with_sample_date(harness::record(sample_grouped_run())) ==
        first_line("plots/data/sample/lesson12.json"));
}

TEST_CASE("a record is dated in UTC", "[record]") {
  CHECK(std::regex_search(harness::record(sample_gemm_run()).text(),
                          std::regex(R"("date":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"\}$)")));
}

TEST_CASE("a run that was not checked or not timed has the same keys", "[record]") {
  GemmRun run = sample_gemm_run();
  run.checked.reset();
  run.benchmark.reset();
  const std::string text = harness::record(run).text();
  CHECK(contains(
      text, R"("verdict":{"status":"unchecked","elements":null,"wrong":null,)"
            R"("worst_share":null,"relative_error":null,"damaged_padding":null,)"
            R"("damaged_guard_bytes":null,)"
            R"("oracle":null,"soak_launches":null,"soak_first_difference":null,"hazards":null})"));
  CHECK(contains(text, R"("protocol":null,"contenders":[],"ratio":null,)"));
  CHECK(contains(text, R"("before":{"sm_clock_mhz":null,"memory_clock_mhz":null,"power_w":null,)"
                       R"("temperature_c":null})"));
}

TEST_CASE("a wrong result is recorded as a failure", "[record]") {
  GemmRun run = sample_gemm_run();
  run.benchmark.reset();
  SECTION("wrong elements") {
    run.checked->verdict.wrong = 7;
    CHECK(contains(harness::record(run).text(), R"("status":"fail")"));
    CHECK(contains(harness::record(run).text(), R"("wrong":7)"));
  }
  SECTION("damaged guard bands") {
    run.checked->verdict.damaged_guard_bytes = 2;
    CHECK(contains(harness::record(run).text(), R"("status":"fail")"));
  }
  SECTION("a launch that gave other bits") {
    run.checked->soak = {.launches = 100, .first_difference = 17};
    CHECK(contains(harness::record(run).text(), R"("status":"fail")"));
    CHECK(
        contains(harness::record(run).text(), R"("soak_launches":100,"soak_first_difference":17)"));
  }
  SECTION("launches that all gave the same bits are no failure") {
    run.checked->soak = {.launches = 100, .first_difference = {}};
    CHECK(contains(harness::record(run).text(), R"("status":"pass")"));
    CHECK(contains(harness::record(run).text(),
                   R"("soak_launches":100,"soak_first_difference":null)"));
  }
}

TEST_CASE("what the user chose is in the record", "[record]") {
  GemmRun run = sample_gemm_run();
  run.options.alpha = 0.1F;
  run.options.beta = -3;
  run.options.seed = std::numeric_limits<std::uint64_t>::max();
  run.options.init = harness::Init::zeros;
  run.problem = harness::problem_json(run.options, {});
  run.options.selection.set("stages", "4");
  run.options.selection.set_broken("no-fence");
  const std::string text = harness::record(run).text();
  CHECK(contains(text, R"("alpha":0.1,"beta":-3,)"));
  CHECK(contains(text, R"("seed":18446744073709551615,"init":"zeros")"));
  CHECK(contains(text, R"("knobs":{"stages":"4","tile":"128x128"},"break":"no-fence",)"));
}

TEST_CASE("a figure that is not finite becomes null", "[record]") {
  GemmRun run = sample_gemm_run();
  run.benchmark->ratio.standard = std::numeric_limits<double>::quiet_NaN();
  run.benchmark->contenders[0].tflops = std::numeric_limits<double>::infinity();
  const std::string text = harness::record(run).text();
  CHECK(contains(text, R"("ratio":{"standard":null)"));
  CHECK(contains(text, R"("tflops":null)"));
}

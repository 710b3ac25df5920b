#include "common/harness/run.h"

#include <cuda_bf16.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "common/device/errors.h"
#include "common/harness/options.h"
#include "tests/catch.h"
#include "tests/unit/child.h"
#include "tests/unit/host_gemm.h"
#include "tests/unit/host_device.h"
#include "tests/unit/temporary_folder.h"

namespace {

namespace fs = std::filesystem;

using harness::JsonFile;
using harness::Options;
using harness::OutputFiles;
using harness::Selection;
using tests::HostDevice;
using tests::multiply;
using tests::TemporaryFolder;

/// A lesson that computes on the host, and what its runs said.
struct FakeLesson {
  int launches = 0;
  /// What launch number `launches` does after it multiplied.
  std::function<void(const gemm::Problem&)> afterwards = [](const gemm::Problem&) {};

  harness::Lesson lesson() {
    return {.number = 9,
            .name = "fake",
            .trick = "a kernel that is none",
            .likely_wait = "the host",
            .knobs = {{"tile", "nothing", {"8x8"}, "8x8"}},
            .breaks = {{"never-seen", "nothing that shows"}},
            .tile =
                [](const Selection&) {
                  return harness::Tile{8, 8};
                },
            .prepare =
                [this](device::Device&, const gemm::Problem& problem, const Selection&) {
                  return [this, problem] {
                    ++launches;
                    multiply(problem);
                    afterwards(problem);
                  };
                }};
  }
};

Options options(int m, int n, int k) {
  Options result;
  result.m = m;
  result.n = n;
  result.k = k;
  result.selection.set("tile", "8x8");
  return result;
}

OutputFiles files_at(const fs::path& record) {
  return {.record = JsonFile("--json", record)};
}

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct Outcome {
  int status;
  std::string report, record;
  bool says(const std::string& part) const { return report.find(part) != std::string::npos; }
  bool recorded(const std::string& part) const { return record.find(part) != std::string::npos; }
};

Outcome run(FakeLesson& fake, const Options& options) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "record.json";
  HostDevice device;
  std::ostringstream report;
  const int status = harness::run(fake.lesson(), options, device, files_at(path), report);
  CHECK(device.allocated_bytes() == 0);
  std::stringstream record;
  record << std::ifstream(path).rdbuf();
  return {status, report.str(), record.str()};
}

void spoil(const gemm::Problem& problem, std::int64_t element) {
  problem.d[element] = __float2bfloat16_rn(1e9F);
}

}  // namespace

TEST_CASE("a right kernel passes, is not timed on the emulator, and is recorded", "[run]") {
  FakeLesson fake;
  const Outcome outcome = run(fake, options(20, 24, 40));
  INFO(outcome.report);
  CHECK(outcome.status == 0);
  CHECK(fake.launches == 1);
  CHECK(outcome.says("lesson09 fake: a kernel that is none\nhost memory"));
  CHECK(outcome.says("D = 1 * A B^T + 0 * C, M 20, N 24, K 40, normal, seed 1\n"));
  CHECK(outcome.says("verify   PASS: 480 elements"));
  CHECK(outcome.says("oracle   CPU, double precision"));
  CHECK(outcome.says("time     not measured: the emulator has no clock."));
  CHECK_FALSE(outcome.says("TFLOP"));
  CHECK(outcome.recorded(R"("lesson":9,"name":"fake","knobs":{"tile":"8x8"},"break":null)"));
  CHECK(outcome.recorded(R"("status":"pass","elements":480,"wrong":0)"));
  CHECK(outcome.recorded(R"("oracle":"CPU, double precision")"));
  CHECK(outcome.recorded(R"("contenders":[],"ratio":null)"));
}

TEST_CASE("a wrong kernel fails, is not timed, and is recorded as wrong", "[run]") {
  FakeLesson fake;
  fake.afterwards = [](const gemm::Problem& problem) { spoil(problem, 2 * problem.ldd + 3); };
  const Outcome outcome = run(fake, options(20, 24, 40));
  INFO(outcome.report);
  CHECK(outcome.status == 1);
  CHECK(outcome.says("verify   FAIL: 1 of 480 elements wrong"));
  CHECK_FALSE(outcome.says("PASS"));
  CHECK_FALSE(outcome.says("time "));
  CHECK(outcome.recorded(R"("status":"fail","elements":480,"wrong":1)"));
}

TEST_CASE("alpha, beta and C = NaN at beta = 0", "[run]") {
  FakeLesson fake;
  CHECK(run(fake, options(7, 9, 65)).status == 0);
  Options scaled = options(7, 9, 65);
  scaled.alpha = 2;
  scaled.beta = 3;
  CHECK(run(fake, scaled).status == 0);
}

TEST_CASE("K = 0 is verified; an empty D needs no launch", "[run]") {
  FakeLesson fake;
  Options scaled = options(5, 7, 0);
  scaled.beta = 3;
  CHECK(run(fake, scaled).status == 0);
  CHECK(fake.launches == 1);

  for (const Options& empty : {options(0, 7, 8), options(5, 0, 8), options(0, 0, 0)}) {
    const Outcome outcome = run(fake, empty);
    INFO(outcome.report);
    CHECK(outcome.status == 0);
    CHECK(outcome.says("nothing to launch"));
    CHECK(outcome.recorded(R"("status":"pass","elements":0,"wrong":0,"worst_share":null)"));
  }
  CHECK(fake.launches == 1);
}

TEST_CASE("--check-only verifies and stops", "[run]") {
  FakeLesson fake;
  Options check_only = options(5, 7, 9);
  check_only.mode = harness::Mode::check_only;
  const Outcome outcome = run(fake, check_only);
  CHECK(outcome.status == 0);
  CHECK_FALSE(outcome.says("time "));
}

TEST_CASE("--bench is refused where there is no clock", "[run]") {
  FakeLesson fake;
  Options bench = options(5, 7, 9);
  bench.mode = harness::Mode::bench_only;
  CHECK_THROWS_AS(run(fake, bench), harness::UsageError);
  CHECK(fake.launches == 0);
}

TEST_CASE("a soak compares the bits of every launch", "[run]") {
  FakeLesson fake;
  Options soak = options(20, 24, 40);
  soak.soak = 5;
  SECTION("the same each time") {
    const Outcome outcome = run(fake, soak);
    INFO(outcome.report);
    CHECK(outcome.status == 0);
    CHECK(fake.launches == 5);
    CHECK(outcome.says("soak     PASS: 5 launches"));
    CHECK(outcome.recorded(R"("soak_launches":5,"soak_first_difference":null)"));
  }
  SECTION("one bit of one launch") {
    fake.afterwards = [&](const gemm::Problem& problem) {
      __nv_bfloat16& last = problem.d[19 * problem.ldd + 23];
      if (fake.launches == 3) last = __ushort_as_bfloat16(__bfloat16_as_ushort(last) ^ 1);
    };
    const Outcome outcome = run(fake, soak);
    INFO(outcome.report);
    CHECK(outcome.status == 1);
    CHECK(fake.launches == 3);
    CHECK(outcome.says("soak     FAIL: launch 3 of 5 gave other bits"));
    CHECK_FALSE(outcome.says("time "));
    CHECK(outcome.recorded(R"("status":"fail")"));
    CHECK(outcome.recorded(R"("soak_launches":5,"soak_first_difference":3)"));
  }
  SECTION("an element that a launch leaves as the launch before wrote it") {
    fake.afterwards = [&](const gemm::Problem& problem) {
      if (fake.launches == 2) problem.d[0] = __ushort_as_bfloat16(0xFFFF);
    };
    CHECK(run(fake, soak).status == 1);
    CHECK(fake.launches == 2);
  }
}

TEST_CASE("a broken variant that passes does so by luck, and is not timed", "[run]") {
  FakeLesson fake;
  Options broken = options(20, 24, 40);
  broken.selection.set_broken("never-seen");
  const Outcome outcome = run(fake, broken);
  INFO(outcome.report);
  CHECK(outcome.status == 0);
  CHECK(outcome.says("PASS (by luck: what --break never-seen breaks did not show this time)"));
  CHECK_FALSE(outcome.says("time "));
  CHECK(outcome.recorded(R"("break":"never-seen")"));

  fake.afterwards = [](const gemm::Problem& problem) { spoil(problem, 0); };
  CHECK(run(fake, broken).status == 1);
}

TEST_CASE("hazards end a soak, fail a run whose D is right, and are counted", "[run]") {
  class Suspicious : public HostDevice {
   public:
    explicit Suspicious(const int& launches, int first) : launches_(launches), first_(first) {}
    std::optional<device::Hazards> hazards() const override {
      if (launches_ < first_) return device::Hazards{0, "", "strict"};
      return device::Hazards{1, "E01 one\n  first\n", "strict"};
    }

   private:
    const int& launches_;
    const int first_;
  };
  const auto run_with = [](int first_hazard, int& launches) {
    const TemporaryFolder folder;
    const fs::path path = folder.path() / "record.json";
    FakeLesson fake;
    Options soak = options(20, 24, 40);
    soak.soak = 5;
    Suspicious device(fake.launches, first_hazard);
    std::ostringstream report;
    const int status = harness::run(fake.lesson(), soak, device, files_at(path), report);
    launches = fake.launches;
    std::stringstream record;
    record << std::ifstream(path).rdbuf();
    return Outcome{status, report.str(), record.str()};
  };
  int launches = 0;
  const Outcome clean = run_with(6, launches);
  INFO(clean.report);
  CHECK(clean.status == 0);
  CHECK(clean.says("hazards  none found (strict)"));
  CHECK(clean.recorded(R"("soak_first_difference":null,"hazards":0)"));

  const Outcome first = run_with(1, launches);
  CHECK(first.status == 1);
  CHECK(launches == 1);
  CHECK_FALSE(first.says("PASS"));
  CHECK(first.recorded(R"("status":"fail","elements":480,"wrong":0)"));
  CHECK(first.recorded(R"("hazards":1)"));

  const Outcome third = run_with(3, launches);
  CHECK(third.status == 1);
  CHECK(launches == 3);
  CHECK(third.says("soak     PASS: 3 launches"));
  CHECK(third.says("hazards  1 found (strict)"));
}

TEST_CASE("a launch that fails leaves no PASS and the old record", "[run]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "record.json";
  std::ofstream(path) << "old";
  FakeLesson fake;
  fake.afterwards = [](const gemm::Problem&) { throw device::Failure("The launch failed."); };
  HostDevice device;
  std::ostringstream report;
  CHECK_THROWS_AS(harness::run(fake.lesson(), options(5, 7, 9), device, files_at(path), report),
                  device::Failure);
  CHECK(report.str().find("PASS") == std::string::npos);
  std::string record;
  std::ifstream(path) >> record;
  CHECK(record == "old");
}

TEST_CASE("a kernel that hangs is reported with what it most likely waits for", "[run]") {
  class HangingDevice : public HostDevice {
   public:
    void set_time_limit(double seconds) override { limit_ = seconds; }
    void synchronize() override {
      if (limit_ == 0.5) throw device::Hang("The GPU did not finish within 0.5 s.");
    }

   private:
    double limit_ = 0;
  };
  FakeLesson fake;
  Options impatient = options(5, 7, 9);
  impatient.time_limit_s = 0.5;
  const tests::ChildResult result = tests::run_in_child([&] {
    HangingDevice device;
    std::ostringstream report;
    return harness::run(fake.lesson(), impatient, device, OutputFiles{}, report);
  });
  CHECK(result.status == 3);
  CHECK(result.errors ==
        "lesson09: The GPU did not finish within 0.5 s. The kernel most likely waits for the "
        "host.\n");
}

namespace {

/// A lesson whose traced kernel writes one track of one span, on the host.
struct TracedLesson : FakeLesson {
  int traced_launches = 0;
  std::uint32_t sm = 0;
  std::function<void(const gemm::Problem&)> after_traced = [](const gemm::Problem&) {};

  harness::Lesson lesson() {
    harness::Lesson lesson = FakeLesson::lesson();
    lesson.tracks = {"host"};
    lesson.prepare = [this, untraced = lesson.prepare](device::Device& device,
                                                       const gemm::Problem& problem,
                                                       const Selection& selection) {
      if (!selection.traced()) return untraced(device, problem, selection);
      const gemm::Timeline timeline = selection.timeline();
      return harness::Launch([this, problem, timeline] {
        ++traced_launches;
        multiply(problem);
        after_traced(problem);
        if (sm >= timeline.sms) return;
        timeline.tracks[(*timeline.taken)++] = {.cta = 0,
                                                .track = 0,
                                                .sm = sm,
                                                .records = 1,
                                                .first = {1000, 1000},
                                                .last = {9000, 5000}};
        timeline.records[0] = {2000, 4000, gemm::Span::multiply, 7};
      });
    };
    return lesson;
  }
};

struct TracedOutcome {
  int status;
  std::string report, trace;
  bool says(const std::string& part) const { return report.find(part) != std::string::npos; }
};

TracedOutcome run_traced(TracedLesson& fake, Options options, const std::string& old = "") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "trace.json";
  if (!old.empty()) std::ofstream(path) << old;
  options.trace = path;
  HostDevice device;
  std::ostringstream report;
  const int status =
      harness::run(fake.lesson(), options, device, {.trace = JsonFile("--trace", path)}, report);
  CHECK(device.allocated_bytes() == 0);
  return {status, report.str(), content(path)};
}

}  // namespace

TEST_CASE("--trace launches the traced kernel once more and writes its timeline", "[run][trace]") {
  TracedLesson fake;
  const TracedOutcome outcome = run_traced(fake, options(20, 24, 40));
  INFO(outcome.report << outcome.trace);
  CHECK(outcome.status == 0);
  CHECK(fake.launches == 1);
  CHECK(fake.traced_launches == 1);
  CHECK(outcome.says("trace    1 span of 1 track in "));
  CHECK_FALSE(outcome.says("lost"));
  CHECK(outcome.trace.starts_with(R"({"traceEvents":[)"));
  // 2000 cycles at 2 cycles a nanosecond.
  CHECK(outcome.trace.find(R"("name":"multiply","ph":"X","pid":1,"tid":1,"ts":0,"dur":1,)") !=
        std::string::npos);
  CHECK(outcome.trace.find(R"("status":"pass","elements":480)") != std::string::npos);

  TracedLesson untraced;
  CHECK(harness::run(untraced.lesson(), options(20, 24, 40), *std::make_unique<HostDevice>(),
                     OutputFiles{}, *std::make_unique<std::ostringstream>()) == 0);
  CHECK(untraced.traced_launches == 0);
}

TEST_CASE("a wrong kernel is not traced, and a wrong traced kernel is no PASS", "[run][trace]") {
  TracedLesson wrong;
  wrong.afterwards = [](const gemm::Problem& problem) { spoil(problem, 3); };
  const TracedOutcome untraced = run_traced(wrong, options(20, 24, 40), "old");
  CHECK(untraced.status == 1);
  CHECK(untraced.says("trace    not written: the kernel is wrong."));
  CHECK(wrong.traced_launches == 0);
  CHECK(untraced.trace == "old");

  TracedLesson wrong_when_traced;
  wrong_when_traced.after_traced = [](const gemm::Problem& problem) { spoil(problem, 3); };
  const TracedOutcome outcome = run_traced(wrong_when_traced, options(20, 24, 40), "old");
  INFO(outcome.report);
  CHECK(outcome.status == 1);
  CHECK(outcome.says("trace    not written: the traced kernel is wrong"));
  CHECK(outcome.says("verify   FAIL: 1 of 480 elements wrong"));
  CHECK(outcome.trace == "old");
}

TEST_CASE("a timeline without a track is a failure that says where to look", "[run][trace]") {
  TracedLesson elsewhere;
  elsewhere.sm = 5;
  std::string message;
  try {
    run_traced(elsewhere, options(20, 24, 40));
  } catch (const device::Failure& failure) {
    message = failure.what();
  }
  CHECK(message.find("--trace-sms") != std::string::npos);
  Options wide = options(20, 24, 40);
  wide.trace_sms = 6;
  CHECK(run_traced(elsewhere, wide).status == 0);
}

TEST_CASE("an empty D has no timeline", "[run][trace]") {
  TracedLesson fake;
  const TracedOutcome outcome = run_traced(fake, options(0, 24, 40), "old");
  CHECK(outcome.status == 0);
  CHECK(outcome.says("trace    not written: nothing was launched."));
  CHECK(outcome.trace == "old");
}

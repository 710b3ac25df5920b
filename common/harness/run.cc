#include "common/harness/run.h"

#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/device/concat.h"
#include "common/harness/benchmark.h"
#include "common/harness/oracle.h"
#include "common/harness/progress.h"
#include "common/harness/report.h"
#include "common/harness/verdict.h"
#include "common/harness/watchdog.h"
#include "common/harness/workload.h"

namespace harness {
namespace {

constexpr int right_status = 0;
constexpr int wrong_status = 1;

/// "lesson03"
std::string program_name(const Lesson& lesson) {
  return device::concat("lesson", lesson.number < 10 ? "0" : "", lesson.number);
}

CommandLine command_line(const Lesson& lesson) {
  return {.program = program_name(lesson),
          .trick = lesson.trick,
          .default_m = lesson.default_size,
          .default_n = lesson.default_size,
          .default_k = lesson.default_size,
          .emulator_size = lesson.emulator_size,
          .knobs = lesson.knobs,
          .breaks = lesson.breaks};
}

Workload draw(device::Device& device, const Options& options, int pitch_multiple) {
  const Progress progress("drawing the operands");
  return Workload(device, options, pitch_multiple);
}

/// One run of a lesson with m, n > 0: its operands, its launch, and where it reports.
class Session {
 public:
  Session(const Lesson& lesson, const Options& options, device::Device& device, Workload& workload,
          std::ostream& out)
      : options_(options),
        device_(device),
        workload_(workload),
        out_(out),
        name_(program_name(lesson)),
        tile_(lesson.tile(options.selection)),
        watchdog_(device, name_, lesson.likely_wait),
        launch_(lesson.prepare(device, workload.problem(), options.selection)) {}

  /// Verifies D and soaks, as far as the options ask for it. Empty with --bench.
  std::optional<CheckedVerdict> check();

  /// Times the lesson beside the library. Empty, with a reason on `out`, where that makes no sense.
  std::optional<Benchmark> time();

 private:
  /// Poisons D and launches into it.
  void launch_and_wait();
  CheckedVerdict verify();
  Soak soak();

  const Options& options_;
  device::Device& device_;
  Workload& workload_;
  std::ostream& out_;
  std::string name_;
  Tile tile_;
  Watchdog watchdog_;
  Launch launch_;
};

std::optional<CheckedVerdict> Session::check() {
  if (options_.mode == Mode::bench_only) {
    report(out_, "verify", "not verified in this run (--bench).");
    return std::nullopt;
  }
  CheckedVerdict checked = verify();
  if (checked.passed() && options_.soak > 0) {
    checked.soak = soak();
    checked.hazards = device_.hazards();
  }
  report(out_, checked, tile_, options_.selection.broken());
  return checked;
}

void Session::launch_and_wait() {
  workload_.poison_output();
  launch_();
  watchdog_.wait();
}

CheckedVerdict Session::verify() {
  const Progress progress("verifying");
  launch_and_wait();
  const std::unique_ptr<Oracle> oracle = device_.backend() == device::Backend::cuda
                                             ? cublas_oracle(device_, workload_)
                                             : cpu_oracle(workload_);
  return {.verdict = judge(workload_, *oracle),
          .oracle = oracle->name(),
          .soak = {},
          .hazards = device_.hazards()};
}

/// Launch 1 is the one that was verified: its output is in D.
Soak Session::soak() {
  const gemm::Problem& problem = workload_.problem();
  std::vector<__nv_bfloat16> first(static_cast<std::size_t>(problem.m * problem.ldd));
  std::vector<__nv_bfloat16> later(first.size());
  workload_.copy_output_rows(0, problem.m, first);

  Progress progress("soak, launch", options_.soak);
  progress.step();
  for (int number = 2; number <= options_.soak; ++number) {
    launch_and_wait();
    workload_.copy_output_rows(0, problem.m, later);
    if (std::memcmp(first.data(), later.data(), first.size() * sizeof(first[0])) != 0) {
      return {.launches = options_.soak, .first_difference = number};
    }
    const std::optional<device::Hazards> hazards = device_.hazards();
    if (hazards && hazards->count > 0) return {.launches = number, .first_difference = {}};
    progress.step();
  }
  return {.launches = options_.soak, .first_difference = {}};
}

std::optional<Benchmark> Session::time() {
  const bool wanted = options_.mode != Mode::check_only && options_.selection.broken().empty();
  if (!wanted) return std::nullopt;
  if (device_.backend() == device::Backend::emulator) {
    report(out_, "time", "not measured: the emulator has no clock.");
    return std::nullopt;
  }
  if (workload_.problem().k == 0) {
    report(out_, "time", "n/a: with K = 0 or alpha = 0 there is no product to time.");
    return std::nullopt;
  }
  Benchmark timed = benchmark(device_, watchdog_, {name_, launch_}, workload_.problem(), options_);
  report(out_, timed);
  return timed;
}

void introduce(std::ostream& out, const Lesson& lesson, const Options& options,
               const device::Device& device, const Machine& machine) {
  out << program_name(lesson) << ' ' << lesson.name << ": " << lesson.trick << '\n'
      << banner(machine) << '\n';
  report(out, device);
  out << "D = " << options.alpha << " * A B^T + " << options.beta << " * C, M " << options.m
      << ", N " << options.n << ", K " << options.k << ", " << name(options.init) << ", seed "
      << options.seed << std::endl;
}

}  // namespace

int run(const Lesson& lesson, const Options& options, device::Device& device,
        const RecordFile& record_file, std::ostream& out) {
  if (options.mode == Mode::bench_only && device.backend() == device::Backend::emulator) {
    throw UsageError("--bench needs a GPU: the emulator has no clock.");
  }
  device.set_time_limit(options.time_limit_s);
  GemmRun run{.lesson = lesson.number,
              .name = lesson.name,
              .options = options,
              .problem = {},
              .checked = {},
              .benchmark = {},
              .machine = describe_machine(device)};
  Workload workload = draw(device, options, lesson.pitch_multiple);
  run.problem = workload.problem();
  introduce(out, lesson, options, device, run.machine);

  if (options.m == 0 || options.n == 0) {
    report(out, "verify", "PASS: D has no elements, so there was nothing to launch.");
    run.checked = CheckedVerdict{};
  } else {
    Session session(lesson, options, device, workload, out);
    run.checked = session.check();
    const bool wrong = run.checked && !run.checked->passed();
    if (!wrong) run.benchmark = session.time();
  }
  record_file.write(record(run));
  return run.checked && !run.checked->passed() ? wrong_status : right_status;
}

int run(const Lesson& lesson, int argc, char** argv) {
  return guard(program_name(lesson), [&] {
    const CommandLine line = command_line(lesson);
    const auto arguments = std::span(argv, static_cast<std::size_t>(argc)).subspan(1);
    Options options = parse(line, arguments);
    if (answer(line, options, std::cout)) return right_status;
    const RecordFile record_file(options.json);
    const std::unique_ptr<device::Device> device = open_device(options);
    if (device->backend() == device::Backend::emulator) {
      options = parse(on_emulator(line), arguments);
    }
    return run(lesson, options, *device, record_file, std::cout);
  });
}

}  // namespace harness

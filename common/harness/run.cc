#include "common/harness/run.h"

#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/device/concat.h"
#include "common/device/errors.h"
#include "common/harness/benchmark.h"
#include "common/harness/oracle.h"
#include "common/harness/progress.h"
#include "common/harness/record.h"
#include "common/harness/report.h"
#include "common/harness/trace_file.h"
#include "common/harness/trace_memory.h"
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
          .breaks = lesson.breaks,
          .has_tracks = !lesson.tracks.empty(),
          .has_schedule = lesson.list_work != nullptr};
}

Workload draw(device::Device& device, const Options& options, int pitch_multiple) {
  const Progress progress("drawing the operands");
  return Workload(device, options, pitch_multiple);
}

/// The traced kernel, ready to be launched, and where it writes its timeline.
struct TracedKernel {
  TraceMemory memory;
  Launch launch;

  TracedKernel(const Lesson& lesson, const Options& options, device::Device& device,
               const gemm::Problem& problem)
      : memory(device, options.trace_sms) {
    Selection selection = options.selection;
    selection.set_timeline(memory.timeline());
    launch = lesson.prepare(device, problem, selection);
  }
};

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
        launch_(lesson.prepare(device, workload.problem(), options.selection)) {
    if (!options.trace.empty()) traced_.emplace(lesson, options, device, workload.problem());
  }

  /// Verifies D and soaks, as far as the options ask for it. Empty with --bench.
  std::optional<CheckedVerdict> check();

  /// Times the lesson beside the library. Empty, with a reason on `out`, where that makes no sense.
  std::optional<Benchmark> time();

  bool is_traced() const { return traced_.has_value(); }

  /// Launches the traced kernel and verifies its D, since it is another kernel than the one that
  /// check() verified.
  CheckedVerdict check_traced();

  /// The timeline of that launch. Throws device::Failure when it is empty.
  Trace trace() const;

 private:
  /// Poisons D and launches into it.
  void launch_and_wait(const Launch& launch);
  /// Judges what the last launch left in D.
  CheckedVerdict verdict();
  Soak soak();

  const Options& options_;
  device::Device& device_;
  Workload& workload_;
  std::ostream& out_;
  std::string name_;
  Tile tile_;
  Watchdog watchdog_;
  Launch launch_;
  std::optional<TracedKernel> traced_;  ///< with --trace
};

std::optional<CheckedVerdict> Session::check() {
  if (options_.mode == Mode::bench_only) {
    report(out_, "verify", "not verified in this run (--bench).");
    return std::nullopt;
  }
  CheckedVerdict checked = [&] {
    const Progress progress("verifying");
    launch_and_wait(launch_);
    return verdict();
  }();
  if (checked.passed() && options_.soak > 0) {
    checked.soak = soak();
    checked.hazards = device_.hazards();
  }
  report(out_, checked, tile_, options_.selection.broken());
  return checked;
}

void Session::launch_and_wait(const Launch& launch) {
  workload_.poison_output();
  launch();
  watchdog_.wait();
}

CheckedVerdict Session::verdict() {
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
    launch_and_wait(launch_);
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

CheckedVerdict Session::check_traced() {
  const Progress progress("tracing");
  // A GPU's first launch of a kernel loads its code. The emulator has no such cost.
  if (device_.backend() == device::Backend::cuda) launch_and_wait(traced_->launch);
  traced_->memory.clear();
  launch_and_wait(traced_->launch);
  CheckedVerdict checked = verdict();
  if (!checked.passed()) {
    report(out_, "trace",
           "not written: the traced kernel is wrong, unlike the one without --trace.");
    report(out_, checked, tile_, "");
  }
  return checked;
}

Trace Session::trace() const {
  Trace trace = traced_->memory.read();
  if (!trace.tracks.empty()) return trace;
  throw device::Failure(device::concat("There is no timeline: no CTA ran on the first ",
                                       device::counted(options_.trace_sms, "SM"),
                                       "; ask for more of them with --trace-sms."));
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
        const OutputFiles& files, std::ostream& out) {
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
  std::optional<Trace> trace;
  Workload workload = draw(device, options, lesson.pitch_multiple);
  run.problem = workload.problem();
  introduce(out, lesson, options, device, run.machine);

  if (options.m == 0 || options.n == 0) {
    report(out, "verify", "PASS: D has no elements, so there was nothing to launch.");
    if (files.trace.is_wanted()) report(out, "trace", "not written: nothing was launched.");
    run.checked = CheckedVerdict{};
  } else {
    Session session(lesson, options, device, workload, out);
    run.checked = session.check();
    if (!run.is_wrong()) run.benchmark = session.time();
    if (run.is_wrong() && session.is_traced()) {
      report(out, "trace", "not written: the kernel is wrong.");
    } else if (session.is_traced()) {
      const CheckedVerdict checked = session.check_traced();
      if (checked.passed()) {
        trace = session.trace();
      } else {
        run.checked = checked;
      }
    }
  }
  const Json run_record = record(run);
  if (trace) {
    report(out, *trace, options.trace);
    files.trace.write(trace_json(*trace, {.track_names = lesson.tracks,
                                          .backend = device.backend(),
                                          .sms = options.trace_sms,
                                          .record = run_record}));
  }
  files.record.write(run_record);
  return run.is_wrong() ? wrong_status : right_status;
}

int run(const Lesson& lesson, int argc, char** argv) {
  return guard(program_name(lesson), [&] {
    const CommandLine line = command_line(lesson);
    const auto arguments = std::span(argv, static_cast<std::size_t>(argc)).subspan(1);
    Options options = parse(line, arguments);
    if (answer(line, options, std::cout)) return right_status;
    if (options.print_schedule > 0) {
      print_schedule(lesson, options, std::cout);
      return right_status;
    }
    const OutputFiles files = output_files(options);
    const std::unique_ptr<device::Device> device = open_device(options);
    if (device->backend() == device::Backend::emulator) {
      options = parse(on_emulator(line), arguments);
    }
    return run(lesson, options, *device, files, std::cout);
  });
}

}  // namespace harness

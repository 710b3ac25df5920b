#include "common/harness/run.h"

#include <cstddef>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/device/concat.h"
#include "common/device/errors.h"
#include "common/harness/benchmark.h"
#include "common/harness/experiment.h"
#include "common/harness/progress.h"
#include "common/harness/record.h"
#include "common/harness/report.h"
#include "common/harness/trace_file.h"
#include "common/harness/trace_memory.h"
#include "common/harness/verdict.h"
#include "common/harness/watchdog.h"

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
          .has_schedule = lesson.list_work != nullptr,
          .omitted = lesson.omitted};
}

std::unique_ptr<Experiment> draw(const Lesson& lesson, const Options& options,
                                 device::Device& device) {
  const Progress progress("drawing the operands");
  return lesson.experiment ? lesson.experiment(device, options)
                           : gemm_experiment(lesson, options, device);
}

/// The traced kernel, ready to be launched, and where it writes its timeline.
struct TracedKernel {
  TraceMemory memory;
  Launch launch;

  TracedKernel(const Options& options, device::Device& device, Experiment& experiment)
      : memory(device, options.trace_sms) {
    Selection selection = options.selection;
    selection.set_timeline(memory.timeline());
    launch = experiment.prepare(selection);
  }
};

/// One run of a lesson that has something to compute: its experiment, its launch, and where it
/// reports.
class Session {
 public:
  Session(const Lesson& lesson, const Options& options, device::Device& device,
          Experiment& experiment, std::ostream& out)
      : options_(options),
        device_(device),
        experiment_(experiment),
        out_(out),
        name_(program_name(lesson)),
        tile_(lesson.tile(options.selection)),
        watchdog_(device, name_, lesson.likely_wait),
        launch_(experiment.prepare(options.selection)) {
    if (!options.trace.empty()) traced_.emplace(options, device, experiment);
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
  Experiment& experiment_;
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
  experiment_.poison_output();
  launch();
  watchdog_.wait();
}

CheckedVerdict Session::verdict() {
  return {.verdict = experiment_.judge(),
          .oracle = experiment_.oracle(),
          .soak = {},
          .hazards = device_.hazards()};
}

/// Launch 1 is the one that was verified: its output is in D.
Soak Session::soak() {
  const std::vector<std::byte> first = experiment_.output();
  Progress progress("soak, launch", options_.soak);
  progress.step();
  for (int number = 2; number <= options_.soak; ++number) {
    launch_and_wait(launch_);
    if (experiment_.output() != first) {
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
  if (experiment_.flops() == 0) {
    report(out_, "time", "n/a: with K = 0 or alpha = 0 there is no product to time.");
    return std::nullopt;
  }
  std::vector<Contender> contenders = experiment_.library(options_.baseline);
  contenders.insert(contenders.begin(), {name_, launch_});
  Benchmark timed = benchmark(device_, watchdog_, contenders, experiment_.flops(),
                              experiment_.peak_flops(device_.properties()), options_);
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

void introduce(std::ostream& out, const Lesson& lesson, const Experiment& experiment,
               const device::Device& device, const Machine& machine) {
  out << program_name(lesson) << ' ' << lesson.name << ": " << lesson.trick << '\n'
      << banner(machine) << '\n';
  report(out, device);
  out << experiment.describe() << std::endl;
}

}  // namespace

int run(const Lesson& lesson, const Options& options, device::Device& device,
        const OutputFiles& files, std::ostream& out) {
  if (options.mode == Mode::bench_only && device.backend() == device::Backend::emulator) {
    throw UsageError("--bench needs a GPU: the emulator has no clock.");
  }
  device.set_time_limit(options.time_limit_s);
  const std::unique_ptr<Experiment> experiment = draw(lesson, options, device);
  GemmRun run{.lesson = lesson.number,
              .name = lesson.name,
              .kind = experiment->kind(),
              .options = options,
              .problem = experiment->problem_json(),
              .checked = {},
              .benchmark = {},
              .machine = describe_machine(device)};
  std::optional<Trace> trace;
  introduce(out, lesson, *experiment, device, run.machine);

  if (!experiment->has_output()) {
    report(out, "verify", "PASS: D has no elements, so there was nothing to launch.");
    if (files.trace.is_wanted()) report(out, "trace", "not written: nothing was launched.");
    run.checked = CheckedVerdict{};
  } else {
    Session session(lesson, options, device, *experiment, out);
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

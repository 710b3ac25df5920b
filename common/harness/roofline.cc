#include "common/harness/roofline.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <optional>

#include "common/harness/json_file.h"
#include "common/harness/lesson.h"
#include "common/harness/oracle.h"
#include "common/harness/progress.h"
#include "common/harness/record.h"
#include "common/harness/report.h"
#include "common/harness/throughput.h"
#include "common/harness/timing.h"
#include "common/harness/verdict.h"
#include "common/harness/watchdog.h"
#include "common/harness/workload.h"

namespace harness {
namespace {

constexpr int tile_k = 64;                                         // of A and B
constexpr std::size_t guard_bytes = 4096;                          // behind a copy; must survive
constexpr std::size_t most_checked_bytes = std::size_t(64) << 20;  // of a copy
constexpr std::size_t timed_bytes = std::size_t(1) << 30;          // read, and as many written
constexpr int checked_repeats = 3;
constexpr int timed_repeats = 20000;  // some 13 ms
constexpr char program[] = "lesson00";

/// The lesson's copy of the first `bytes` bytes of `source`.
void launch_copy(const RooflineLesson& lesson, device::Device& device, const device::Buffer& source,
                 const device::Buffer& destination, std::size_t bytes) {
  lesson.copy(device, {static_cast<const unsigned char*>(source.address()),
                       static_cast<unsigned char*>(destination.address()),
                       static_cast<std::int64_t>(bytes)});
}

/// Copies `bytes` bytes and says what is wrong with the copy, nothing if it is right.
std::string check_copy(const RooflineLesson& lesson, device::Device& device,
                       const Watchdog& watchdog, std::size_t bytes) {
  std::vector<unsigned char> expected(bytes + guard_bytes, 0xFF);
  for (std::size_t i = 0; i < bytes; ++i) expected[i] = (i * 2654435761u) >> 13;
  const device::Buffer source(device, bytes), destination(device, bytes + guard_bytes);
  device.copy_to_device(source.address(), expected.data(), bytes);
  device.fill(destination.address(), 0xFF, destination.bytes());
  launch_copy(lesson, device, source, destination, bytes);
  watchdog.wait();
  std::vector<unsigned char> got(expected.size());
  device.copy_to_host(got.data(), destination.address(), got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] != expected[i]) return "byte " + std::to_string(i) + " of the copy is wrong";
  }
  return "";
}

/// The multiplying kernel on every SM, with its operands.
class Multiplier {
 public:
  Multiplier(const RooflineLesson& lesson, device::Device& device, const Options& options,
             Init init)
      : lesson_(lesson),
        device_(device),
        width_(options.selection.number("width")),
        rows_(64 * lesson.warpgroups),
        ctas_(device.properties().sm_count),
        operands_(device, tile_options(options.seed, init), 8),
        d_(device, sizeof(float) * tile_elements() * ctas_),
        elapsed_(device, sizeof(Elapsed)) {}

  void launch(int repeats) {
    lesson_.multiply(device_, {.width = width_,
                               .ctas = ctas_,
                               .a = operands_.problem().a,
                               .b = operands_.problem().b,
                               .d = static_cast<float*>(d_.address()),
                               .repeats = repeats,
                               .elapsed = static_cast<Elapsed*>(elapsed_.address())});
  }

  double flops(int repeats) const { return 2.0 * tile_elements() * tile_k * ctas_ * repeats; }

  /// The SM clock during the last launch.
  double mhz() const {
    Elapsed elapsed;
    device_.copy_to_host(&elapsed, elapsed_.address(), sizeof(elapsed));
    return 1e3 * double(elapsed.cycles) / double(elapsed.nanoseconds);
  }

  /// Says what is wrong with the product of every CTA, nothing if all are right.
  std::string check(const Watchdog& watchdog) {
    device_.fill(d_.address(), 0xFF, d_.bytes());
    launch(checked_repeats);
    watchdog.wait();
    std::vector<float> d(d_.bytes() / sizeof(float));
    device_.copy_to_host(d.data(), d_.address(), d_.bytes());

    std::vector<double> sums(tile_elements()), magnitudes(sums.size());
    cpu_oracle(operands_)->rows(0, rows_, sums, magnitudes);
    for (std::size_t i = 0; i < d.size(); ++i) {
      const std::size_t element = place(i % sums.size());
      const double error = std::abs(d[i] - checked_repeats * sums[element]);
      const double bound =
          accumulation_bound(checked_repeats * tile_k, checked_repeats * magnitudes[element]);
      if (!(error <= bound)) {
        return "element " + std::to_string(element) + " of CTA " + std::to_string(i / sums.size()) +
               "'s product is off by " + std::to_string(error);
      }
    }
    return "";
  }

 private:
  Options tile_options(std::uint64_t seed, Init init) const {
    Options options;
    options.m = rows_;
    options.n = width_;
    options.k = tile_k;
    options.seed = seed;
    options.init = init;
    return options;
  }

  /// Of a CTA's tile of D.
  std::size_t tile_elements() const { return std::size_t(rows_) * width_; }

  /// The row-major place in the CTA's tile of D of what the kernel stored at `index`: register i of
  /// thread t, whose row and column are those of ptx::wgmma_m64k16.
  std::size_t place(std::size_t index) const {
    const std::size_t of_warpgroup = std::size_t(64) * width_;
    const std::size_t warpgroup = index / of_warpgroup;
    const std::size_t i = index % of_warpgroup / 128, t = index % 128;
    const std::size_t row = 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2);
    const std::size_t column = 8 * (i / 4) + 2 * (t % 4) + i % 2;
    return (64 * warpgroup + row) * width_ + column;
  }

  const RooflineLesson& lesson_;
  device::Device& device_;
  int width_, rows_;
  unsigned ctas_;
  Workload operands_;
  device::Buffer d_, elapsed_;
};

/// Bytes that a kernel can't avoid: A, B and, with beta, C read once, D written once.
double compulsory_bytes(const Options& o) {
  const double c_and_d = (o.beta != 0 ? 2.0 : 1.0) * o.m * o.n;
  return sizeof(__nv_bfloat16) * (double(o.m) * o.k + double(o.n) * o.k + c_and_d);
}

bool verify(const RooflineLesson& lesson, device::Device& device, const Watchdog& watchdog,
            const Options& options) {
  const std::size_t bytes = std::min(std::size_t(compulsory_bytes(options)), most_checked_bytes);
  std::string wrong = check_copy(lesson, device, watchdog, bytes);
  if (wrong.empty()) wrong = Multiplier(lesson, device, options, options.init).check(watchdog);
  report(std::cout, "verify",
         wrong.empty() ? "PASS: " + std::to_string(bytes) +
                             " bytes copied, and every SM's product is within its bound"
                       : "FAIL: " + wrong);
  return wrong.empty();
}

Ceiling measure_copy(const RooflineLesson& lesson, device::Device& device, const Watchdog& watchdog,
                     const Options& options) {
  const device::Buffer source(device, timed_bytes), destination(device, timed_bytes);
  device.fill(source.address(), 0x5A, timed_bytes);
  const Contender copy{"copy",
                       [&] { launch_copy(lesson, device, source, destination, timed_bytes); }};
  Progress progress("copying, round", options.rounds);
  const Timing timing =
      interleave(device, watchdog, {&copy, 1}, options.rounds, options.seed, progress)[0];
  return {.name = "copy",
          .init = {},
          .value = 2.0 * timed_bytes / (1e-3 * timing.ms),
          .unit = "B/s",
          .timing = timing};
}

Ceiling measure_wgmma(const RooflineLesson& lesson, device::Device& device,
                      const Watchdog& watchdog, const Options& options, Init init,
                      const GpuMonitor& monitor) {
  Multiplier multiplier(lesson, device, options, init);
  const Contender wgmma{"wgmma", [&] { multiplier.launch(timed_repeats); }};
  Timing timing = sustain(watchdog, wgmma, sustained_seconds, monitor);
  timing.sm_clock_mhz = multiplier.mhz();  // the kernel's own count: NVML's is an average over it
  const double flops = multiplier.flops(timed_repeats);
  require_plausible("wgmma", timing, flops, peak_flops(device.properties()));
  return {.name = "wgmma",
          .init = std::string(name(init)),
          .value = flops / (1e-3 * timing.ms),
          .unit = "FLOP/s",
          .timing = timing};
}

std::string format(const char* text, auto... values) {
  char line[200];
  std::snprintf(line, sizeof(line), text, values...);
  return line;
}

/// Where the problem lies under the roof: its intensity, and the shortest time it can take.
void place_problem(const Options& o, double bytes_per_s, double flop_per_s) {
  const double flop = 2.0 * o.m * o.n * o.k, bytes = compulsory_bytes(o);
  if (bytes == 0) return;
  const double memory_ms = 1e3 * bytes / bytes_per_s, compute_ms = 1e3 * flop / flop_per_s;
  report(std::cout, "problem",
         format("M %d, N %d, K %d: %.4g FLOP over %.4g bytes = %.1f FLOP per byte: "
                "%s-bound,\nat least %.4g ms (memory %.4g, tensor cores %.4g)",
                o.m, o.n, o.k, flop, bytes, flop / bytes,
                memory_ms > compute_ms ? "memory" : "compute", std::max(memory_ms, compute_ms),
                memory_ms, compute_ms));
}

RooflineRun measure(const RooflineLesson& lesson, device::Device& device, const Watchdog& watchdog,
                    const Options& options) {
  const GpuMonitor monitor(device.properties().pci_bus_id);
  RooflineRun run{.lesson = 0,
                  .name = "roofline",
                  .selection = options.selection,
                  .ceilings = {},
                  .machine = describe_machine(device),
                  .before = monitor.read(),
                  .after = {}};
  run.ceilings.push_back(measure_copy(lesson, device, watchdog, options));
  for (const Init init : {Init::normal, Init::zeros}) {
    run.ceilings.push_back(measure_wgmma(lesson, device, watchdog, options, init, monitor));
  }
  run.after = monitor.read();

  const Ceiling &copy = run.ceilings[0], &random = run.ceilings[1], &zeros = run.ceilings[2];
  run.ridge_flop_per_byte = random.value / copy.value;
  report(std::cout, "copy", format("%.2f TB/s, 1 GiB read and 1 GiB written", 1e-12 * copy.value));
  for (const Ceiling* ceiling : {&random, &zeros}) {
    report(
        std::cout, "wgmma",
        format("%.0f TFLOP/s at %.0f MHz on %s, back to back for a second", 1e-12 * ceiling->value,
               *ceiling->timing.sm_clock_mhz, ceiling == &random ? "random numbers" : "zeros"));
  }
  report(std::cout, "ridge", format("%.0f FLOP per byte", run.ridge_flop_per_byte));
  place_problem(options, copy.value, random.value);
  return run;
}

CommandLine command_line(const RooflineLesson& lesson) {
  return {.program = program,
          .trick = lesson.trick,
          .default_m = 4096,
          .default_n = 4096,
          .default_k = 4096,
          .knobs = lesson.knobs,
          .breaks = {},
          .omitted = {"--lda", "--ldb", "--ldc", "--ldd", "--soak", "--sustained", "--baseline",
                      "--break", "--list-breaks"}};
}

}  // namespace

int run(const RooflineLesson& lesson, int argc, char** argv) {
  return guard(program, [&] {
    const CommandLine line = command_line(lesson);
    Options options = parse(line, {argv + 1, argv + argc});
    if (answer(line, options, std::cout)) return 0;
    const OutputFiles files = output_files(options);
    const auto device = open_device(options);
    const bool has_clock = device->backend() == device::Backend::cuda;
    if (!has_clock) options = parse(on_emulator(line), {argv + 1, argv + argc});
    device->set_time_limit(options.time_limit_s);
    const Watchdog watchdog(*device, program, "nothing: raise --timeout");
    std::cout << program << " roofline: " << line.trick << '\n'
              << banner(describe_machine(*device)) << std::endl;
    report(std::cout, *device);

    const bool only_bench = options.mode == Mode::bench_only;
    if (only_bench && !has_clock) {
      throw UsageError("--bench needs a GPU: the emulator has no clock.");
    }
    const bool verified = only_bench || verify(lesson, *device, watchdog, options);
    const std::optional<device::Hazards> hazards = device->hazards();
    if (hazards) report(std::cout, *hazards);
    if (!verified || (hazards && hazards->count > 0)) return 1;
    if (!has_clock) {
      report(std::cout, "time", "not measured: the emulator has no clock.");
    } else if (options.mode != Mode::check_only) {
      files.record.write(record(measure(lesson, *device, watchdog, options)));
    }
    return 0;
  });
}

}  // namespace harness

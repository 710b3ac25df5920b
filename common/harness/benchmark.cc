#include "common/harness/benchmark.h"

#include <algorithm>
#include <utility>

#include "common/device/concat.h"
#include "common/harness/statistics.h"
#include "common/harness/throughput.h"

namespace harness {
namespace {

Protocol interleaved_protocol(int rounds, const device::Properties& properties) {
  const std::size_t flush_mib = flush_bytes(properties.l2_bytes) >> 20;
  return {.name = "interleaved",
          .text = device::concat("interleaved, L2 flushed by reading ", flush_mib, " MiB"),
          .rounds = rounds,
          .warmup_rounds = warmup_rounds,
          .flush_mib = flush_mib,
          .seconds = {}};
}

Protocol sustained_protocol() {
  return {.name = "sustained",
          .text = device::concat("sustained, each alone for ", sustained_seconds, " s"),
          .rounds = {},
          .warmup_rounds = {},
          .flush_mib = {},
          .seconds = sustained_seconds};
}

std::vector<Timing> time_interleaved(device::Device& device, const Watchdog& watchdog,
                                     std::span<const Contender> contenders,
                                     const Options& options) {
  Progress progress("timing, round", options.rounds);
  return interleave(device, watchdog, contenders, options.rounds, options.seed, progress);
}

std::vector<Timing> time_sustained(const Watchdog& watchdog, std::span<const Contender> contenders,
                                   const GpuMonitor& monitor) {
  Progress progress("timing, contender", static_cast<int>(contenders.size()));
  std::vector<Timing> timings;
  for (const Contender& contender : contenders) {
    timings.push_back(sustain(watchdog, contender, sustained_seconds, monitor));
    progress.step();
  }
  return timings;
}

double time_ratio(const Timing& library, const Timing& lesson, bool interleaved) {
  return interleaved ? median_ratio(library.samples_ms, lesson.samples_ms) : library.ms / lesson.ms;
}

std::string role(std::size_t index) {
  if (index == 0) return "lesson";
  return index == 1 ? "standard" : "candidate";
}

}  // namespace

Ratio compare(std::span<const TimedContender> contenders, bool interleaved, bool with_best) {
  const Timing& lesson = contenders[0].timing;
  Ratio ratio{.standard = time_ratio(contenders[1].timing, lesson, interleaved),
              .best = {},
              .best_contender = {}};
  if (with_best) {
    const auto best = std::min_element(
        contenders.begin() + 1, contenders.end(),
        [](const TimedContender& a, const TimedContender& b) { return a.timing.ms < b.timing.ms; });
    ratio.best = time_ratio(best->timing, lesson, interleaved);
    ratio.best_contender = best->name;
  }
  return ratio;
}

Benchmark benchmark(device::Device& device, const Watchdog& watchdog,
                    std::span<const Contender> contenders, double flops, double peak,
                    const Options& options) {
  const device::Properties& properties = device.properties();

  Benchmark result;
  result.protocol =
      options.sustained ? sustained_protocol() : interleaved_protocol(options.rounds, properties);
  const GpuMonitor monitor(properties.pci_bus_id);
  result.before = monitor.read();
  std::vector<Timing> timings = options.sustained
                                    ? time_sustained(watchdog, contenders, monitor)
                                    : time_interleaved(device, watchdog, contenders, options);
  result.after = monitor.read();

  for (std::size_t i = 0; i < contenders.size(); ++i) {
    require_plausible(contenders[i].name, timings[i], flops, peak);
    const double tflops = flops / timings[i].ms * 1e-9;
    result.contenders.push_back({contenders[i].name, role(i), std::move(timings[i]), tflops});
  }
  result.ratio = compare(result.contenders, !options.sustained, options.baseline == Baseline::best);
  return result;
}

}  // namespace harness

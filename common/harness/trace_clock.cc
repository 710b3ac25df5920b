#include "common/harness/trace_clock.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "common/device/errors.h"

namespace harness {
namespace {

using gemm::ClockPair;
using Readings = std::map<std::uint32_t, std::vector<ClockPair>>;

/// By SM, in the order of its cycles.
Readings readings_of(std::span<const TrackTrace> tracks) {
  Readings readings;
  for (const TrackTrace& trace : tracks) {
    std::vector<ClockPair>& of_sm = readings[trace.track.sm];
    of_sm.push_back(trace.track.first);
    of_sm.push_back(trace.track.last);
  }
  for (auto& [sm, of_sm] : readings) {
    std::sort(of_sm.begin(), of_sm.end(),
              [](const ClockPair& a, const ClockPair& b) { return a.cycles < b.cycles; });
  }
  return readings;
}

double rate_of(const Readings& readings) {
  std::uint64_t longest = 0;
  double rate = 0;
  for (const auto& [sm, of_sm] : readings) {
    const ClockPair &first = of_sm.front(), &last = of_sm.back();
    if (last.nanoseconds <= first.nanoseconds + longest) continue;
    longest = last.nanoseconds - first.nanoseconds;
    rate = static_cast<double>(last.cycles - first.cycles) / static_cast<double>(longest);
  }
  if (rate > 0) return rate;
  throw device::Failure(
      "The traced launch was over before the GPU's nanosecond clock ticked, so its cycles can't be "
      "turned into time: take a larger problem.");
}

}  // namespace

TraceClock::TraceClock(std::span<const TrackTrace> tracks) {
  const Readings readings = readings_of(tracks);
  cycles_per_nanosecond_ = rate_of(readings);
  std::uint64_t start = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [sm, of_sm] : readings) start = std::min(start, of_sm.front().nanoseconds);

  for (const auto& [sm, of_sm] : readings) {
    const std::uint64_t origin = of_sm.front().cycles;
    double offset = 0;
    for (const ClockPair& reading : of_sm) {
      const double elapsed = static_cast<double>(reading.cycles - origin) / cycles_per_nanosecond_;
      offset = std::max(offset, static_cast<double>(reading.nanoseconds - start) - elapsed);
    }
    counters_[sm] = {origin, offset};
  }
}

double TraceClock::nanoseconds(std::uint32_t sm, std::uint64_t cycles) const {
  const Counter& counter = counters_.at(sm);
  const auto elapsed = static_cast<double>(static_cast<std::int64_t>(cycles - counter.origin));
  return counter.offset + elapsed / cycles_per_nanosecond_;
}

}  // namespace harness

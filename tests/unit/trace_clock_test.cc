#include "common/harness/trace_clock.h"

#include <cmath>
#include <string>
#include <vector>

#include "common/device/errors.h"
#include "tests/catch.h"
#include "tests/unit/message.h"

namespace {

using gemm::ClockPair;
using harness::TraceClock;
using harness::TrackTrace;

constexpr std::uint64_t epoch = 1'764'000'000'000'000'000;  // as %globaltimer counts: since 1970

/// An SM whose counter stood at `start` cycles when the others began, and what it reads at
/// `nanoseconds` after that: its counter exactly, the nanosecond clock in ticks.
struct Sm {
  std::uint32_t index;
  std::uint64_t start;
  double cycles_per_nanosecond = 1.755;
  std::uint64_t tick = 32;

  std::uint64_t cycles(double nanoseconds) const {
    return start + static_cast<std::uint64_t>(std::llround(nanoseconds * cycles_per_nanosecond));
  }
  ClockPair read(double nanoseconds) const {
    const std::uint64_t now = epoch + static_cast<std::uint64_t>(nanoseconds);
    return {cycles(nanoseconds), now / tick * tick};
  }
  TrackTrace track(double first, double last) const {
    return {
        {.cta = 0, .track = 0, .sm = index, .records = 0, .first = read(first), .last = read(last)},
        {}};
  }
};

}  // namespace

TEST_CASE("cycles of an SM become nanoseconds, true to the cycle among each other", "[trace]") {
  const Sm sm{.index = 3, .start = 1'000'000'007};
  const std::vector<TrackTrace> tracks{sm.track(10, 100'010), sm.track(20, 99'000)};
  const TraceClock clock(tracks);
  CHECK(std::abs(clock.cycles_per_nanosecond() - 1.755) < 1.755 * 64 / 100'000);
  const double span = clock.nanoseconds(3, sm.cycles(501)) - clock.nanoseconds(3, sm.cycles(500));
  CHECK(std::abs(span - 1) < 0.6);  // a cycle is 0.57 ns
  // A moment before the first reading has a place as well.
  CHECK(clock.nanoseconds(3, sm.cycles(0)) < clock.nanoseconds(3, sm.cycles(10)));
}

TEST_CASE("SMs whose counters stand elsewhere share one axis, to a tick", "[trace]") {
  for (const std::uint64_t tick : {1, 32, 1000}) {
    const Sm one{.index = 0, .start = 5, .tick = tick};
    const Sm other{.index = 7, .start = 0xFFFF'FFFF'0000, .tick = tick};
    std::vector<TrackTrace> tracks;
    for (const Sm& sm : {one, other}) {
      for (const double begin : {5.0, 311.0, 777.0, 1400.0}) {
        tracks.push_back(sm.track(begin, 100'000 + 1.7 * begin));
      }
    }
    const TraceClock clock(tracks);
    for (const double moment : {0.0, 50'000.0, 99'999.0}) {
      const double difference =
          clock.nanoseconds(0, one.cycles(moment)) - clock.nanoseconds(7, other.cycles(moment));
      INFO("tick " << tick << ", moment " << moment << ": " << difference);
      CHECK(std::abs(difference) <= static_cast<double>(tick) + 1);
    }
  }
}

TEST_CASE("the rate is that of the SM with the longest lapse", "[trace]") {
  const Sm brief{.index = 0, .start = 0, .tick = 1000};
  const Sm long_one{.index = 1, .start = 0, .tick = 1000};
  const std::vector<TrackTrace> tracks{brief.track(999, 2001), long_one.track(0, 500'000)};
  CHECK(std::abs(TraceClock(tracks).cycles_per_nanosecond() - 1.755) < 0.005);
}

TEST_CASE("model time is one cycle a nanosecond", "[trace]") {
  const std::vector<TrackTrace> tracks{
      {{.cta = 0, .track = 0, .sm = 0, .records = 0, .first = {40, 40}, .last = {9040, 9040}}, {}}};
  const TraceClock clock(tracks);
  CHECK(clock.cycles_per_nanosecond() == 1);
  CHECK(clock.nanoseconds(0, 40) == 0);
  CHECK(clock.nanoseconds(0, 1040) == 1000);
}

TEST_CASE("a launch within one tick gives no rate, and says so", "[trace]") {
  const Sm sm{.index = 0, .start = 0, .tick = 1'000'000};
  const std::vector<TrackTrace> tracks{sm.track(10, 3000)};
  const std::string message = tests::message_of<device::Failure>([&] { TraceClock clock(tracks); });
  CHECK(message.find("take a larger problem") != std::string::npos);
}

// One time axis for the cycle counters of all SMs.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "common/harness/trace_memory.h"

namespace harness {

/// Turns cycles of an SM into nanoseconds on an axis that all SMs share.
///
/// Tracks have read both clocks at their begin and end (gemm::ClockPair). How many cycles a
/// nanosecond has is taken from the two readings of one SM that lie farthest apart; all SMs run at
/// the same clock. Where an SM's counter stands against the common axis is taken from all of its
/// readings: the nanosecond clock stands still between its ticks, so a reading may be late but
/// never early, and the one that puts the counter latest is the nearest to the truth. So spans on
/// one SM are true to a cycle among each other, and to one tick among SMs.
class TraceClock {
 public:
  /// Throws device::Failure if the tracks lasted less than a tick, which gives no rate.
  explicit TraceClock(std::span<const TrackTrace> tracks);

  /// Nanoseconds since the first reading of all.
  double nanoseconds(std::uint32_t sm, std::uint64_t cycles) const;
  double cycles_per_nanosecond() const { return cycles_per_nanosecond_; }

 private:
  struct Counter {
    std::uint64_t origin;  ///< cycles; differences from it are small enough for a double
    double offset;         ///< where it lies on the axis, in nanoseconds
  };

  double cycles_per_nanosecond_ = 0;
  std::map<std::uint32_t, Counter> counters_;  ///< by SM
};

}  // namespace harness

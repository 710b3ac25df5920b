// What a traced kernel writes down: when each of its roles did what. The device side is
// timeline.cuh; the harness makes a trace file of it (--trace).
#pragma once

#include <cstdint>

namespace gemm {

/// What a role is doing. A role that waits gives its reason.
enum class Span : std::uint32_t {
  wait_empty,  ///< the producer, for a stage that consumers have released
  load,        ///< issuing copies; the bytes come later
  wait_full,   ///< a consumer, for a stage whose bytes have landed
  multiply,    ///< wgmma, issued and waited for
  wait_turn,   ///< for the other consumer, at an ordered barrier
  epilogue,    ///< from accumulators to where the output is stored from, or to the output
  store,       ///< the copy of the output to global memory, issued and waited for
  schedule,    ///< finding the next tile, and making its tensor maps
};

/// For people: "wait full".
constexpr const char* span_name(Span span) {
  switch (span) {
    case Span::wait_empty:
      return "wait empty";
    case Span::load:
      return "load";
    case Span::wait_full:
      return "wait full";
    case Span::multiply:
      return "multiply";
    case Span::wait_turn:
      return "wait turn";
    case Span::epilogue:
      return "epilogue";
    case Span::store:
      return "store";
    case Span::schedule:
      return "schedule";
  }
  return "?";
}

/// One span of a track.
struct TimelineRecord {
  std::uint64_t begin, end;  ///< cycles of the SM
  Span span;
  std::uint32_t step;  ///< k-tile, or tile for what is done once a tile
};

/// The same moment on two clocks.
///
/// %clock64 is exact to the cycle, but each SM counts for itself and at the clock that it happens
/// to run at. %globaltimer is one clock for all SMs, in nanoseconds, but it ticks every 32 ns on
/// some GPUs and every microsecond on others. So spans are stored in cycles, and each track stores
/// two such pairs, by which the host puts all SMs on one axis (harness/timeline_clock.h).
struct ClockPair {
  std::uint64_t cycles, nanoseconds;
};

/// What a track says of itself beside its records.
struct TimelineTrack {
  std::uint32_t cta;      ///< linear index of the block in the grid
  std::uint32_t track;    ///< index into the lesson's list of tracks
  std::uint32_t sm;       ///< that it ran on
  std::uint32_t records;  ///< how many it wanted to write; those beyond `capacity` are lost
  ClockPair first, last;  ///< at its construction and at its destruction
};

/// The memory that a traced kernel writes to: a kernel parameter, all zero unless traced.
///
/// Tracks take their places in the order in which they begin, so the memory need not grow with the
/// grid; each has room for `capacity` records.
struct Timeline {
  TimelineTrack* tracks;    ///< `places` of them
  TimelineRecord* records;  ///< places x capacity
  std::uint32_t* taken;     ///< how many tracks wanted a place; those beyond `places` are lost
  std::uint32_t places, capacity;
  std::uint32_t sms;  ///< only CTAs on SMs 0 .. sms - 1 are recorded
};

}  // namespace gemm

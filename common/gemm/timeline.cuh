// How a kernel writes down what its roles do, and when. Off unless the kernel is instantiated for
// it: then it costs a few instructions a span, which is why the timed kernel is another
// instantiation.
//
//   gemm::Track<traced> track(timeline, 0, threadIdx.x == 0);
//   ...
//   const auto begin = track.now();
//   ptx::mbarrier_wait(full, phase);
//   track.record(gemm::Span::wait_full, k_tile, begin);
#pragma once

#include <cstdint>

#include "common/gemm/timeline.h"
#include "common/ptx/clock.cuh"
#include "common/ptx/placement.cuh"

namespace gemm {

/// What one role of a CTA does, seen from one of its threads. All threads of the role may call all
/// members; those that are not `active` write nothing.
template <bool traced>
class Track {
 public:
  /// `track` is the index into the lesson's list of tracks. One thread of the role is active.
  __device__ Track(const Timeline& timeline, int track, bool active) : timeline_(timeline) {
    const std::uint32_t sm = ptx::sm_index();
    if (!active || sm >= timeline_.sms) return;
    place_ = atomicAdd(timeline_.taken, 1u);
    if (!has_place()) return;
    TimelineTrack& self = timeline_.tracks[place_];
    self.cta = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    self.track = track;
    self.sm = sm;
    self.first = both_clocks();
  }

  __device__ ~Track() {
    if (!has_place()) return;
    TimelineTrack& self = timeline_.tracks[place_];
    self.records = records_;
    self.last = both_clocks();
  }

  Track(const Track&) = delete;
  Track& operator=(const Track&) = delete;

  /// The begin of a span that record() will end.
  __device__ std::uint64_t now() const { return ptx::sm_cycles(); }

  /// Writes down that `span` lasted from `begin`, which now() gave, until now.
  __device__ void record(Span span, std::uint32_t step, std::uint64_t begin) {
    if (!has_place()) return;
    const std::uint64_t end = ptx::sm_cycles();
    if (records_ < timeline_.capacity) {
      timeline_.records[std::uint64_t{place_} * timeline_.capacity + records_] = {begin, end, span,
                                                                                  step};
    }
    ++records_;
  }

 private:
  __device__ bool has_place() const { return place_ < timeline_.places; }

  __device__ static ClockPair both_clocks() { return {ptx::sm_cycles(), ptx::nanoseconds()}; }

  Timeline timeline_;
  std::uint32_t place_ = ~0u;  // none
  std::uint32_t records_ = 0;
};

/// Nothing at all: the timed kernel has not one instruction more.
template <>
class Track<false> {
 public:
  __device__ Track(const Timeline&, int, bool) {}
  __device__ std::uint64_t now() const { return 0; }
  __device__ void record(Span, std::uint32_t, std::uint64_t) {}
};

}  // namespace gemm

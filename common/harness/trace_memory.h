// The device memory that a traced kernel writes its timeline to, and what is read from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/device/device.h"
#include "common/gemm/timeline.h"

namespace harness {

/// What one role of one CTA did.
struct TrackTrace {
  gemm::TimelineTrack track;
  std::vector<gemm::TimelineRecord> records;
};

/// What the roles of some CTAs did in one launch.
struct Trace {
  std::vector<TrackTrace> tracks;  ///< by CTA, then by track
  std::uint32_t lost_tracks = 0;   ///< for which there was no place
  std::uint64_t lost_records = 0;  ///< for which their tracks had no room
  std::size_t record_count() const;
};

class TraceMemory {
 public:
  /// Room for the CTAs on the first `sms` SMs, as far as it goes: what does not fit is counted.
  TraceMemory(device::Device& device, int sms);

  /// The kernel's parameter.
  const gemm::Timeline& timeline() const { return timeline_; }

  /// To be called before each launch, when no other is running: forgets what earlier ones wrote.
  void clear();

  /// What the launch since clear() wrote; it must be over.
  Trace read() const;

 private:
  device::Device& device_;
  device::Buffer tracks_, records_, taken_;
  gemm::Timeline timeline_;
};

}  // namespace harness

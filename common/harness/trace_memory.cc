#include "common/harness/trace_memory.h"

#include <algorithm>
#include <tuple>

namespace harness {
namespace {

// Enough for the CTAs of 64x64 tiles of an 8192 x 8192 output, ...
constexpr std::uint32_t places_per_sm = 192;
// ... and for two spans a k-tile where a CTA goes through a thousand of them.
constexpr std::uint32_t records_per_track = 2048;

}  // namespace

std::size_t Trace::record_count() const {
  std::size_t count = 0;
  for (const TrackTrace& track : tracks) count += track.records.size();
  return count;
}

TraceMemory::TraceMemory(device::Device& device, int sms) : device_(device) {
  const std::size_t places = std::size_t{places_per_sm} * static_cast<std::size_t>(sms);
  tracks_ = device::Buffer(device, places * sizeof(gemm::TimelineTrack));
  records_ = device::Buffer(device, places * records_per_track * sizeof(gemm::TimelineRecord));
  taken_ = device::Buffer(device, sizeof(std::uint32_t));
  timeline_ = {.tracks = static_cast<gemm::TimelineTrack*>(tracks_.address()),
               .records = static_cast<gemm::TimelineRecord*>(records_.address()),
               .taken = static_cast<std::uint32_t*>(taken_.address()),
               .places = static_cast<std::uint32_t>(places),
               .capacity = records_per_track,
               .sms = static_cast<std::uint32_t>(sms)};
}

void TraceMemory::clear() {
  device_.fill(tracks_.address(), 0, tracks_.bytes());
  device_.fill(taken_.address(), 0, taken_.bytes());
}

Trace TraceMemory::read() const {
  std::uint32_t taken = 0;
  device_.copy_to_host(&taken, timeline_.taken, sizeof taken);
  const std::uint32_t written = std::min(taken, timeline_.places);
  std::vector<gemm::TimelineTrack> tracks(written);
  device_.copy_to_host(tracks.data(), timeline_.tracks, written * sizeof tracks[0]);

  Trace trace;
  trace.lost_tracks = taken - written;
  for (std::size_t place = 0; place < written; ++place) {
    const std::uint32_t count = std::min(tracks[place].records, timeline_.capacity);
    trace.lost_records += tracks[place].records - count;
    TrackTrace& read = trace.tracks.emplace_back(tracks[place]);
    read.records.resize(count);
    device_.copy_to_host(read.records.data(), timeline_.records + place * timeline_.capacity,
                         count * sizeof read.records[0]);
  }
  std::sort(trace.tracks.begin(), trace.tracks.end(), [](const TrackTrace& a, const TrackTrace& b) {
    return std::tie(a.track.cta, a.track.track) < std::tie(b.track.cta, b.track.track);
  });
  return trace;
}

}  // namespace harness

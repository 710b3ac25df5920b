#include "common/harness/trace_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "common/device/concat.h"
#include "common/harness/trace_clock.h"

namespace harness {
namespace {

constexpr int schema_version = 1;

/// Viewers keep process 0 and thread 0 for the idle CPU.
std::uint32_t process_of(const TrackTrace& trace) {
  return trace.track.cta + 1;
}
std::uint32_t thread_of(const TrackTrace& trace) {
  return trace.track.track + 1;
}

/// The format's unit, with as many decimals as cycles have a meaning for.
double microseconds(double nanoseconds) {
  constexpr double decimals = 1e4;
  return std::round(nanoseconds * 1e-3 * decimals) / decimals;
}

Json process_name(const TrackTrace& trace) {
  const std::uint32_t cta = trace.track.cta, sm = trace.track.sm;
  const std::string name = device::concat("CTA ", cta, " on SM ", sm);
  return Json::Object{{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", process_of(trace)},
                      {"args", Json::Object{{"name", name}, {"cta", cta}, {"sm", sm}}}};
}

Json thread_name(const TrackTrace& trace, const std::string& name) {
  return Json::Object{{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", process_of(trace)},
                      {"tid", thread_of(trace)},
                      {"args", Json::Object{{"name", name}}}};
}

/// The begin of the first span of all: the zero of the file's times.
double start_of(const Trace& trace, const TraceClock& clock) {
  double start = std::numeric_limits<double>::infinity();
  for (const TrackTrace& track : trace.tracks) {
    for (const gemm::TimelineRecord& record : track.records) {
      start = std::min(start, clock.nanoseconds(track.track.sm, record.begin));
    }
  }
  return start;
}

Json span_event(const TrackTrace& trace, const gemm::TimelineRecord& record,
                const TraceClock& clock, double start) {
  const double begin = microseconds(clock.nanoseconds(trace.track.sm, record.begin) - start);
  const double end = microseconds(clock.nanoseconds(trace.track.sm, record.end) - start);
  return Json::Object{{"name", gemm::span_name(record.span)},
                      {"ph", "X"},
                      {"pid", process_of(trace)},
                      {"tid", thread_of(trace)},
                      {"ts", begin},
                      {"dur", microseconds((end - begin) * 1e3)},
                      {"args", Json::Object{{"step", record.step}}}};
}

Json::Array events(const Trace& trace, std::span<const std::string> track_names,
                   const TraceClock& clock) {
  Json::Array all;
  std::optional<std::uint32_t> cta;
  for (const TrackTrace& track : trace.tracks) {
    if (cta != track.track.cta) all.push_back(process_name(track));
    cta = track.track.cta;
    all.push_back(thread_name(track, track_names[track.track.track]));
  }
  const double start = start_of(trace, clock);
  for (const TrackTrace& track : trace.tracks) {
    for (const gemm::TimelineRecord& record : track.records) {
      all.push_back(span_event(track, record, clock, start));
    }
  }
  return all;
}

}  // namespace

Json trace_json(const Trace& trace, const TraceSubject& subject) {
  const TraceClock clock(trace.tracks);
  const bool is_model = subject.backend == device::Backend::emulator;
  const std::optional<double> sm_clock_mhz =
      is_model ? std::nullopt : std::optional(std::round(clock.cycles_per_nanosecond() * 1e3));
  // The events come first: some viewers read no further than to the first key that they don't know.
  return Json::Object{
      {"traceEvents", events(trace, subject.track_names, clock)},
      {"displayTimeUnit", "ns"},
      {"otherData",
       Json::Object{
           {"schema", schema_version},
           {"kind", "trace"},
           {"time_unit", is_model ? "model time" : "GPU nanoseconds"},
           {"sm_clock_mhz", sm_clock_mhz},
           {"sms", subject.sms},
           {"lost_tracks", trace.lost_tracks},
           {"lost_spans", trace.lost_records},
           {"record", subject.record},
       }},
  };
}

}  // namespace harness

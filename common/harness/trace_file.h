// The file of --trace: a timeline in the Trace Event Format, which Perfetto and Chrome show.
#pragma once

#include <span>
#include <string>

#include "common/device/device.h"
#include "common/harness/json.h"
#include "common/harness/trace_memory.h"

namespace harness {

/// What a trace is of.
struct TraceSubject {
  std::span<const std::string> track_names;  ///< Lesson::tracks
  device::Backend backend;                   ///< on the emulator the times are model time
  int sms;                                   ///< --trace-sms
  Json record;                               ///< of the run (record.h)
};

/// The file's content; docs/result-files.md says what each key means. Throws device::Failure if the
/// launch was too short to tell its times.
Json trace_json(const Trace& trace, const TraceSubject& subject);

}  // namespace harness

// What a traced kernel wrote, read from its memory and made into a file.
#include "common/harness/trace_file.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/harness/trace_memory.h"
#include "tests/catch.h"
#include "tests/unit/host_device.h"

namespace {

using gemm::Span;
using gemm::Timeline;
using harness::Json;
using harness::Trace;
using harness::TraceMemory;
using tests::HostDevice;

/// Writes as gemm::Track does, for a track that wants `records` records.
void write_track(const Timeline& timeline, std::uint32_t cta, std::uint32_t track,
                 std::uint32_t records) {
  const std::uint32_t place = (*timeline.taken)++;
  if (place >= timeline.places) return;
  timeline.tracks[place] = {.cta = cta,
                            .track = track,
                            .sm = cta % 2,
                            .records = records,
                            .first = {100, 100},
                            .last = {100'100, 100'100}};
  for (std::uint32_t i = 0; i < std::min(records, timeline.capacity); ++i) {
    timeline.records[std::uint64_t{place} * timeline.capacity + i] = {
        200 + 1000 * i, 700 + 1000 * i, Span::wait_full, i};
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a trace has the tracks of its launch, by CTA and track", "[trace]") {
  HostDevice device;
  TraceMemory memory(device, 2);
  memory.clear();
  for (const std::uint32_t cta : {5, 0}) {
    for (const std::uint32_t track : {1, 0}) write_track(memory.timeline(), cta, track, track + 2);
  }
  const Trace trace = memory.read();
  REQUIRE(trace.tracks.size() == 4);
  CHECK(trace.record_count() == 10);
  CHECK(trace.lost_tracks == 0);
  CHECK(trace.lost_records == 0);
  CHECK(trace.tracks[0].track.cta == 0);
  CHECK(trace.tracks[0].track.track == 0);
  CHECK(trace.tracks[1].track.track == 1);
  CHECK(trace.tracks[2].track.cta == 5);
  CHECK(trace.tracks[1].records.size() == 3);
  CHECK(trace.tracks[1].records[2].begin == 2200);
  CHECK(trace.tracks[1].records[2].step == 2);

  memory.clear();
  CHECK(memory.read().tracks.empty());
}

TEST_CASE("what had no room in a trace is counted", "[trace]") {
  HostDevice device;
  TraceMemory memory(device, 1);
  memory.clear();
  const Timeline& timeline = memory.timeline();
  for (std::uint32_t cta = 0; cta < timeline.places + 3; ++cta) {
    write_track(timeline, cta, 0, cta == 1 ? timeline.capacity + 9 : 1);
  }
  const Trace trace = memory.read();
  CHECK(trace.tracks.size() == timeline.places);
  CHECK(trace.tracks[1].records.size() == timeline.capacity);
  CHECK(trace.lost_tracks == 3);
  CHECK(trace.lost_records == 9);
}

TEST_CASE("the file has a process a CTA, a thread a track, and spans in microseconds", "[trace]") {
  HostDevice device;
  TraceMemory memory(device, 2);
  memory.clear();
  write_track(memory.timeline(), 3, 1, 2);
  const std::vector<std::string> names{"producer", "consumer 0"};
  const auto text = [&](device::Backend backend) {
    return harness::trace_json(memory.read(), {.track_names = names,
                                               .backend = backend,
                                               .sms = 2,
                                               .record = Json::Object{{"lesson", 7}}})
        .text();
  };
  const std::string events =
      R"({"traceEvents":[{"name":"process_name","ph":"M","pid":4,"args":{"name":"CTA 3 on SM 1",)"
      R"("cta":3,"sm":1}},{"name":"thread_name","ph":"M","pid":4,"tid":2,"args":{"name":)"
      R"("consumer 0"}},{"name":"wait full","ph":"X","pid":4,"tid":2,"ts":0,"dur":0.5,"args":)"
      R"({"step":0}},{"name":"wait full","ph":"X","pid":4,"tid":2,"ts":1,"dur":0.5,"args":)"
      R"({"step":1}}],"displayTimeUnit":"ns","otherData":{"schema":1,"kind":"trace",)";
  CHECK(text(device::Backend::emulator) ==
        events + R"("time_unit":"model time","sm_clock_mhz":null,"sms":2,"lost_tracks":0,)" +
            R"("lost_spans":0,"record":{"lesson":7}}})");
  CHECK(contains(text(device::Backend::cuda),
                 R"("time_unit":"GPU nanoseconds","sm_clock_mhz":1000,)"));
}

TEST_CASE("every span has a name of its own", "[trace]") {
  std::vector<std::string> names;
  for (const Span span : {Span::wait_empty, Span::load, Span::wait_full, Span::multiply,
                          Span::wait_turn, Span::epilogue, Span::store}) {
    names.push_back(gemm::span_name(span));
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(std::find(names.begin(), names.end(), "?") == names.end());
}

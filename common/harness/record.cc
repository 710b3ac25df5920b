#include "common/harness/record.h"

#include <ctime>
#include <utility>

#include "common/harness/statistics.h"

namespace harness {
namespace {

constexpr int schema_version = 1;

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[sizeof "2025-01-31T12:00:00Z"];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json knobs_json(const Selection& selection) {
  Json::Object knobs;
  for (const auto& [knob, value] : selection.knobs()) knobs.emplace_back(knob, value);
  return knobs;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

/// `object->*field`, or null where there is no object.
template <class Object, class Field>
Json field_or_null(const Object* object, Field Object::*field) {
  return object == nullptr ? Json() : Json(object->*field);
}

Json verdict_json(const std::optional<CheckedVerdict>& checked) {
  const Verdict* const verdict = checked ? &checked->verdict : nullptr;
  const Soak* const soak = checked && checked->soak ? &*checked->soak : nullptr;
  const bool compared = verdict != nullptr && verdict->elements > 0;
  return Json::Object{
      {"status", !checked            ? "unchecked"
                 : checked->passed() ? "pass"
                                     : "fail"},
      {"elements", field_or_null(verdict, &Verdict::elements)},
      {"wrong", field_or_null(verdict, &Verdict::wrong)},
      {"worst_share", field_or_null(compared ? verdict : nullptr, &Verdict::worst)},
      {"relative_error", verdict != nullptr ? Json(verdict->relative_error) : Json()},
      {"damaged_padding", field_or_null(verdict, &Verdict::damaged_padding)},
      {"damaged_guard_bytes", field_or_null(verdict, &Verdict::damaged_guard_bytes)},
      {"oracle", compared ? Json(checked->oracle) : Json()},
      {"soak_launches", field_or_null(soak, &Soak::launches)},
      {"soak_first_difference", field_or_null(soak, &Soak::first_difference)},
      {"hazards", checked && checked->hazards ? Json(checked->hazards->count) : Json()},
  };
}

Json protocol_json(const Protocol& protocol) {
  return Json::Object{
      {"name", protocol.name},           {"text", protocol.text},
      {"rounds", protocol.rounds},       {"warmup_rounds", protocol.warmup_rounds},
      {"flush_mib", protocol.flush_mib}, {"seconds", protocol.seconds},
  };
}

/// Appends the keys that a contender and a ceiling share. A contender's `tflops` comes between
/// them, right after the times that it is made of.
void append_timing(Json::Object& object, const Timing& timing, std::optional<double> tflops) {
  const Summary summary = summarize(timing.samples_ms);
  object.emplace_back("ms", timing.ms);
  object.emplace_back("ms_lower_quartile", summary.lower_quartile);
  object.emplace_back("ms_upper_quartile", summary.upper_quartile);
  object.emplace_back("ms_min", summary.min);
  if (tflops) object.emplace_back("tflops", *tflops);
  object.emplace_back("launches", timing.launches);
  object.emplace_back("late", timing.late);
  object.emplace_back("samples_ms",
                      Json::Array(timing.samples_ms.begin(), timing.samples_ms.end()));
  object.emplace_back("sm_clock_mhz", timing.sm_clock_mhz);
  object.emplace_back("power_w", timing.power_w);
}

Json contender_json(const TimedContender& contender) {
  Json::Object object{{"name", contender.name}, {"role", contender.role}};
  append_timing(object, contender.timing, contender.tflops);
  return object;
}

Json ceiling_json(const Ceiling& ceiling) {
  Json::Object object{{"name", ceiling.name},
                      {"init", ceiling.init},
                      {"value", ceiling.value},
                      {"unit", ceiling.unit}};
  append_timing(object, ceiling.timing, std::nullopt);
  return object;
}

Json ratio_json(const Ratio& ratio) {
  return Json::Object{
      {"standard", ratio.standard}, {"best", ratio.best}, {"best_contender", ratio.best_contender}};
}

Json state_json(const GpuState& state) {
  return Json::Object{{"sm_clock_mhz", state.sm_clock_mhz},
                      {"memory_clock_mhz", state.memory_clock_mhz},
                      {"power_w", state.power_w},
                      {"temperature_c", state.temperature_c}};
}

Json machine_json(const Machine& machine, const GpuState& before, const GpuState& after) {
  return Json::Object{
      {"gpu", machine.gpu},
      {"sm_count", machine.sm_count},
      {"max_sm_clock_mhz", machine.max_sm_clock_mhz},
      {"driver", machine.driver},
      {"runtime", machine.runtime},
      {"cublas", machine.cublas},
      {"commit", machine.commit},
      {"before", state_json(before)},
      {"after", state_json(after)},
  };
}

template <class Element>
Json array_of(const std::vector<Element>& elements, Json (*to_json)(const Element&)) {
  Json::Array array;
  for (const Element& element : elements) array.push_back(to_json(element));
  return array;
}

}  // namespace

Json problem_json(const Options& options, const gemm::Problem& problem) {
  return Json::Object{
      {"m", options.m},
      {"n", options.n},
      {"k", options.k},
      {"alpha", options.alpha},
      {"beta", options.beta},
      {"lda", problem.lda},
      {"ldb", problem.ldb},
      {"ldc", problem.ldc},
      {"ldd", problem.ldd},
      {"seed", options.seed},
      {"init", name(options.init)},
  };
}

Json record(const GemmRun& run) {
  const Benchmark* const timed = run.benchmark ? &*run.benchmark : nullptr;
  return Json::Object{
      {"schema", schema_version},
      {"kind", run.kind},
      {"lesson", run.lesson},
      {"name", run.name},
      {"knobs", knobs_json(run.options.selection)},
      {"break", text_or_null(run.options.selection.broken())},
      {"ptx", text_or_null(run.options.ptx)},
      {"problem", run.problem},
      {"verdict", verdict_json(run.checked)},
      {"protocol", timed ? protocol_json(timed->protocol) : Json()},
      {"contenders", timed ? array_of(timed->contenders, contender_json) : Json(Json::Array{})},
      {"ratio", timed ? ratio_json(timed->ratio) : Json()},
      {"machine", machine_json(run.machine, timed ? timed->before : GpuState{},
                               timed ? timed->after : GpuState{})},
      {"date", utc_now()},
  };
}

Json record(const RooflineRun& run) {
  return Json::Object{
      {"schema", schema_version},
      {"kind", "roofline"},
      {"lesson", run.lesson},
      {"name", run.name},
      {"knobs", knobs_json(run.selection)},
      {"ceilings", array_of(run.ceilings, ceiling_json)},
      {"ridge_flop_per_byte", run.ridge_flop_per_byte},
      {"machine", machine_json(run.machine, run.before, run.after)},
      {"date", utc_now()},
  };
}

}  // namespace harness

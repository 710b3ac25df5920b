#include "tests/emulator/ptx_edits.h"

#include <algorithm>

#include "common/emulator/checker.h"
#include "common/emulator/tensor_map_record.h"
#include "tests/catch.h"
#include "tests/emulator/schedules.h"
#include "tests/emulator/workbench.h"
#include "tests/unit/emulator_lab.h"

namespace ptx_edits {

namespace {

workbench::Result launch(const std::string& ptx, const Kernel& kernel,
                         const workbench::Order& order) {
  constexpr std::size_t words = 256;
  lab::Lab machine({.schedule = order.schedule, .seed = order.seed});
  emulator::Checker checker({.strict = true});
  machine.observer = &checker;
  auto* const in = machine.array<std::uint32_t>(words, 1);
  auto* const out = machine.array<std::uint32_t>(words);
  emulator::TensorMapRecord record;
  record.type = emulator::TensorType::u32;
  record.rank = 2;
  record.address = reinterpret_cast<std::uint64_t>(in);
  record.extent = {16, 8, 1, 1, 1};
  record.stride = {64};
  record.box = {16, 8, 1, 1, 1};
  const emulator::TensorMapBytes bytes = emulator::encode_tensor_map(record);
  auto* const map = machine.array<std::byte>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), map);
  const emulator::Outcome outcome =
      machine.launch(ptx, lab::geometry(1, kernel.threads), in, out, map);
  return {
      .ending = outcome.ending, .findings = checker.findings(outcome.findings), .first_wrong = {}};
}

std::string rule_of(const emulator::Finding& finding) {
  const emulator::Rule* const rule = emulator::find_rule(finding.rule);
  return std::string(rule != nullptr ? rule->name : finding.rule);
}

std::string text_of(const Kernel& kernel, const std::string& body) {
  return lab::kernel_text({"in", "out", "map"}, body, "", kernel.declarations);
}

void check_right(const Kernel& kernel) {
  const std::string ptx = text_of(kernel, kernel.body);
  const emulator::Module module = emulator::parse(ptx);
  for (const workbench::Order& order : workbench::orders(workbench::sample_seeds)) {
    const workbench::Result result = launch(ptx, kernel, order);
    INFO(workbench::name_of(order.schedule) << " " << workbench::text(module, result));
    CHECK(result.ending == emulator::Outcome::Ending::finished);
    CHECK(result.findings.empty());
  }
}

void check_broken(const Kernel& kernel, const Edit& edit) {
  INFO(edit.rule << ": " << edit.from << " -> " << edit.to);
  std::string body = kernel.body;
  const std::size_t place = body.find(edit.from);
  REQUIRE(place != std::string::npos);
  REQUIRE(body.find(edit.from, place + 1) == std::string::npos);
  body.replace(place, edit.from.size(), edit.to);
  const std::string ptx = text_of(kernel, body);
  const emulator::Module module = emulator::parse(ptx);
  for (const workbench::Order& order : workbench::orders(workbench::sample_seeds)) {
    const workbench::Result result = launch(ptx, kernel, order);
    INFO(workbench::name_of(order.schedule) << " " << workbench::text(module, result));
    CHECK(std::any_of(result.findings.begin(), result.findings.end(), [&](const auto& finding) {
      return rule_of(finding) == edit.rule && lab::mentions(finding.sentence, edit.names) &&
             workbench::opcode_at(module, finding).starts_with(edit.at);
    }));
    for (const emulator::Finding& finding : result.findings) {
      const std::string rule = rule_of(finding);
      if (rule != edit.rule) CHECK(rule == edit.also);
    }
  }
}

}  // namespace

void check(const Kernel& kernel, const std::vector<Edit>& edits) {
  check_right(kernel);
  for (const Edit& edit : edits) check_broken(kernel, edit);
}

}  // namespace ptx_edits

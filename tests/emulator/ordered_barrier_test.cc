// The three guarantees of gemm::OrderedBarrier, under many schedules; and that this test sees it
// when one of them does not hold.
#include <cstddef>
#include <fstream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/emulator/checker.h"
#include "common/emulator/machine.h"
#include "common/emulator/parser.h"
#include "common/emulator/report.h"
#include "tests/catch.h"
#include "tests/emulator/schedules.h"
#include "tests/kernels/ordered.h"

namespace {

using kernels::ordered_rounds;
using kernels::Seen;

/// What a run showed.
struct Result {
  Seen seen;
  bool finished;
  std::vector<emulator::Finding> findings;
  std::string text;
};

const emulator::Module& module() {
  static const emulator::Module parsed = [] {
    const std::string path = "build/tests/kernels/ordered.ptx";
    std::ifstream file(path);
    if (!file) throw std::runtime_error("Can't read " + path + ": run `make build/unit_tests`.");
    std::ostringstream text;
    text << file.rdbuf();
    return emulator::parse(text.str());
  }();
  return parsed;
}

const emulator::Function& kernel(const std::string& variant) {
  for (const emulator::Function& function : module().functions) {
    if (function.name == "ordered_" + variant) return function;
  }
  throw std::runtime_error("ordered.ptx has no ordered_" + variant + ".");
}

Result run(const std::string& variant, const workbench::Order& order) {
  emulator::Machine machine({.schedule = order.schedule, .seed = order.seed});
  machine.options().time_limit_s = 60;
  emulator::Checker checker({.strict = true});
  Seen* const seen = static_cast<Seen*>(machine.allocate(sizeof(Seen)));
  *seen = {};
  const auto bytes = std::as_bytes(std::span(&seen, 1));
  const std::vector<std::span<const std::byte>> arguments{bytes};
  const emulator::Function& function = kernel(variant);
  const emulator::Outcome outcome = machine.launch(
      module(), function, {.grid = {1}, .block = {256}, .cluster = {}, .dynamic_shared_bytes = 0},
      emulator::pack_parameters(function, arguments), &checker);
  Result result{*seen,
                outcome.ending == emulator::Outcome::Ending::finished,
                checker.findings(outcome.findings),
                {}};
  std::ostringstream text;
  text << variant << ", " << workbench::name_of(order.schedule) << " " << order.seed << "\n"
       << emulator::describe(module(), result.findings);
  result.text = text.str();
  return result;
}

/// Guarantee 3: the four warps of warpgroup 0 enter a section, then those of 1, in each round.
bool is_in_order(const Seen& seen, int section) {
  for (int i = 0; i < 2 * 4 * ordered_rounds; ++i) {
    const Seen::Entry& entry = seen.entries[section][i];
    if (entry.round != i / 8 || entry.warpgroup != i / 4 % 2) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("An ordered barrier lets two warpgroups take turns in both sections", "[ordered]") {
  unsigned overlaps = 0;
  for (const workbench::Order& order : workbench::orders(workbench::whole_seeds)) {
    const Result result = run("none", order);
    INFO(result.text);
    CHECK(result.finished);
    CHECK(result.findings.empty());
    for (int section = 0; section < 2; ++section) {
      CHECK(result.seen.crowded[section] == 0);
      CHECK(result.seen.turns[section] == 2 * ordered_rounds);
      CHECK(is_in_order(result.seen, section));
    }
    overlaps += result.seen.overlaps;
  }
  // The point of it: one section does not wait for the other.
  CHECK(overlaps > 0);
}

TEST_CASE("An ordered barrier without its first wait crowds section 0", "[ordered]") {
  for (const workbench::Order& order : workbench::orders(workbench::sample_seeds)) {
    const Result result = run("no_first_wait", order);
    INFO(result.text);
    CHECK(result.seen.crowded[0] > 0);
    CHECK(result.seen.crowded[1] == 0);
    CHECK(is_in_order(result.seen, 1));
    CHECK_FALSE(result.findings.empty());
  }
}

TEST_CASE("An ordered barrier without its second wait crowds section 1", "[ordered]") {
  for (const workbench::Order& order : workbench::orders(workbench::sample_seeds)) {
    const Result result = run("no_second_wait", order);
    INFO(result.text);
    CHECK(result.seen.crowded[0] == 0);
    CHECK(is_in_order(result.seen, 0));
    CHECK(result.seen.crowded[1] > 0);
    CHECK_FALSE(result.findings.empty());
  }
}

TEST_CASE("An ordered barrier that is left before the section crowds both", "[ordered]") {
  for (const workbench::Order& order : workbench::orders(workbench::sample_seeds)) {
    const Result result = run("early_arrive", order);
    INFO(result.text);
    CHECK(result.seen.crowded[0] > 0);
    CHECK(result.seen.crowded[1] > 0);
    CHECK_FALSE(result.findings.empty());
  }
}

TEST_CASE("An ordered barrier with both warpgroups first crowds section 0", "[ordered]") {
  for (const workbench::Order& order : workbench::orders(workbench::sample_seeds)) {
    const Result result = run("both_first", order);
    INFO(result.text);
    CHECK(result.seen.crowded[0] > 0);
    CHECK_FALSE(is_in_order(result.seen, 0));
    CHECK_FALSE(result.findings.empty());
  }
}

TEST_CASE("An ordered barrier with warpgroup 1 first is out of order and no more", "[ordered]") {
  for (const workbench::Order& order : workbench::orders(workbench::sample_seeds)) {
    const Result result = run("second_first", order);
    INFO(result.text);
    CHECK(result.finished);
    CHECK(result.findings.empty());
    for (int section = 0; section < 2; ++section) {
      CHECK(result.seen.crowded[section] == 0);
      CHECK_FALSE(is_in_order(result.seen, section));
    }
  }
}

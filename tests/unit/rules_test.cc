#include <set>
#include <string>
#include <string_view>

#include "common/emulator/report.h"
#include "tests/catch.h"

namespace {

using emulator::find_rule;
using emulator::Finding;
using emulator::Location;
using emulator::Module;
using emulator::Rule;
using emulator::rules;

}  // namespace

TEST_CASE("Rules have ids in order, without a gap, and names of their own", "[rules]") {
  std::set<std::string_view> names;
  int number = 0;
  for (const Rule& rule : rules()) {
    ++number;
    const std::string id = "E" + std::string(number < 10 ? "0" : "") + std::to_string(number);
    CHECK(rule.id == id);
    CHECK(names.insert(rule.name).second);
    CHECK_FALSE(rule.explain.empty());
    CHECK(rule.explain.back() != '\n');
    CHECK_FALSE(rule.source.empty());
  }
}

TEST_CASE("A rule is found by id and by name", "[rules]") {
  REQUIRE(find_rule("E07") != nullptr);
  CHECK(find_rule("E07")->name == "phase-aba");
  CHECK(find_rule("e07") == find_rule("E07"));
  CHECK(find_rule("phase-aba") == find_rule("E07"));
  CHECK(find_rule("E99") == nullptr);
  CHECK(find_rule("") == nullptr);
}

TEST_CASE("The catalogue has what the machine finds", "[rules]") {
  for (const char* name :
       {"deadlock", "livelock", "over-arrival", "expect-tx-range", "named-barrier-count",
        "setmaxnreg", "misaligned", "out-of-bounds", "barrier-not-initialized", "exited-target",
        "divergent-aligned", "bad-descriptor", "bad-tensor-map", "trap", "assert", "mbarrier-count",
        "barrier-overwritten", "stack-overflow"}) {
    INFO(name);
    REQUIRE(find_rule(name) != nullptr);
    CHECK_FALSE(find_rule(name)->strict_only);
  }
}

TEST_CASE("Only what the ISA leaves in doubt is strict", "[rules]") {
  std::set<std::string_view> strict;
  for (const Rule& rule : rules()) {
    if (rule.strict_only) strict.insert(rule.name);
  }
  CHECK(strict == std::set<std::string_view>{"one-warp-waited", "overwrite-without-proxy-fence",
                                             "store-of-unwritten", "lanes-left-behind",
                                             "relaxed-order"});
}

TEST_CASE("A place is a CUDA line, or a PTX line without line information", "[rules]") {
  Module module;
  module.files = {"/course/lessons/lesson03_tma.cu"};
  CHECK(emulator::place(module, Location{372, 0, 74}) == "lesson03_tma.cu:74");
  CHECK(emulator::place(module, Location{372, -1, 0}) == "PTX line 372");
  CHECK(emulator::place(module, Location{372, 5, 74}) == "PTX line 372");
  CHECK(emulator::place_in_ptx(module, Location{372, 0, 74}) ==
        "lesson03_tma.cu:74 (PTX line 372)");
  CHECK(emulator::place_in_ptx(module, Location{372, -1, 0}) == "PTX line 372");
}

TEST_CASE("Findings are described with id, name, place, role and sentence", "[rules]") {
  Module module;
  module.files = {"lesson03_tma.cu"};
  Finding once;
  once.rule = "E15";
  once.sentence = "reads `tile` with wgmma.";
  once.location = {1, 0, 40};
  once.role = "warp 2 of CTA 0";
  Finding often = once;
  often.rule = "E01";
  often.location = {9, -1, 0};
  often.count = 3;
  CHECK(emulator::describe(module, {once, often}) ==
        "E15 missing-proxy-fence at lesson03_tma.cu:40\n"
        "  warp 2 of CTA 0 reads `tile` with wgmma.\n"
        "E01 deadlock at PTX line 9, 3 times\n"
        "  warp 2 of CTA 0 reads `tile` with wgmma.\n");
  CHECK(emulator::describe(module, {}).empty());
}

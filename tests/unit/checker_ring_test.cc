// The ring of stages that a producer fills and a warpgroup empties, right and broken.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/checker_script.h"

namespace {

using emulator::FenceKind;
using emulator::Order;
using emulator::Scope;
using script::empty;
using script::full;
using script::lane;
using script::Script;
using script::Shape;
using script::stage_bytes;
using script::tile;
using script::warp;
using Names = std::vector<std::string>;

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr int stages = 2;
constexpr int tiles = 10;  // five laps

/// What is wrong with the ring, and when its copies land.
struct Ring {
  bool lands_late = false;  // only when there is nothing else to do
  bool waits_for_full = true;
  bool one_warp_waits_for_full = false;
  bool waits_for_empty = true;
  bool waits_for_wgmma = true;
  bool releases_early = false;
  int releasing_warps = 4;
  int announced = stage_bytes;
  bool fences_init = true;
  bool syncs_after_init = true;
  bool waits_for_last = true;
  Order wait_order = Order::acquire;  // of the waits for FULL
  bool fences_after_wait = false;
  bool strict = false;
};

/// Warp 0's lane 0 produces; warps 4 to 7 consume, one lane of each hands the stage back.
class RingScript {
 public:
  explicit RingScript(const Ring& ring) : ring_(ring), script_(Shape{.strict = ring.strict}) {}

  Names run() {
    prepare();
    for (int k = 0; k < tiles; ++k) {
      if (k < stages) produce(k);
      consume(k);
      if (k + stages < tiles) produce(k + stages);
    }
    return script_.end();
  }

  Script& script() { return script_; }

 private:
  void prepare() {
    script_.at(10);
    for (int s = 0; s < stages; ++s) {
      script_.init(producer_, full(s), 1);
      script_.init(producer_, empty(s), static_cast<std::uint32_t>(ring_.releasing_warps));
    }
    if (ring_.fences_init) script_.init_fence(producer_);
    if (ring_.syncs_after_init) script_.sync_cta();
  }

  void produce(int k) {
    const int s = k % stages;
    script_.at(20);
    if (ring_.waits_for_empty) script_.wait(producer_, empty(s));
    script_.at(21).expect(producer_, full(s), ring_.announced);
    script_.arrive(producer_, full(s));
    copies_[k] = script_.at(22).copy(producer_, {{0, tile(s), full(s)}}, stage_bytes);
    if (!ring_.lands_late) script_.land(copies_[k]);
  }

  void consume(int k) {
    const int s = k % stages;
    if (ring_.lands_late && ring_.waits_for_full) script_.land(copies_[k]);
    script_.at(30);
    const bool waits = ring_.waits_for_full && (ring_.waits_for_last || k + 1 < tiles);
    for (int w = 4; waits && w < (ring_.one_warp_waits_for_full ? 5 : 8); ++w) {
      script_.wait(warp(w), full(s), Scope::cta, ring_.wait_order);
      if (ring_.fences_after_wait) script_.fence(warp(w), FenceKind::memory, Scope::cta);
    }
    const auto product = script_.at(31).wgmma(1, {tile(s)}, stage_bytes);
    if (ring_.releases_early) release(s);
    script_.complete(product);
    script_.at(32);
    for (int w = 4; ring_.waits_for_wgmma && w < 4 + ring_.releasing_warps; ++w) {
      script_.wait_wgmma(warp(w), 0);
    }
    if (!ring_.releases_early) release(s);
    if (ring_.lands_late && !ring_.waits_for_full) {
      script_.land(copies_[k]);
    }
    for (int w = 4; w < 8; ++w) script_.wait_wgmma(warp(w), 0);
  }

  void release(int s) {
    script_.at(33);
    for (int w = 4; w < 4 + ring_.releasing_warps; ++w) script_.arrive(lane(w, 0), empty(s));
  }

  const Ring ring_;
  Script script_;
  const script::Who producer_ = lane(0, 0);
  std::array<emulator::AsyncId, tiles> copies_{};
};

Names run(const Ring& ring) {
  return RingScript(ring).run();
}

/// Whether `rule` is broken whenever the copies land.
bool always_finds(Ring ring, const std::string& rule) {
  ring.lands_late = false;
  const bool early = has(run(ring), rule);
  ring.lands_late = true;
  return early && has(run(ring), rule);
}

}  // namespace

TEST_CASE("A correct ring has no findings", "[checker]") {
  CHECK(run({}).empty());
  CHECK(run({.lands_late = true}).empty());
  CHECK(run({.strict = true}).empty());
  CHECK(run({.lands_late = true, .strict = true}).empty());
}

TEST_CASE("One warp may hand back a stage for its warpgroup, except in strict mode", "[checker]") {
  CHECK(run({.releasing_warps = 1}).empty());
  CHECK(run({.lands_late = true, .releasing_warps = 1}).empty());
  CHECK(has(run({.releasing_warps = 1, .strict = true}), "one-warp-waited"));
}

TEST_CASE("A ring whose consumer does not wait for FULL reads too early", "[checker]") {
  CHECK(always_finds({.waits_for_full = false}, "read-before-landed"));
}

TEST_CASE("Every warp of a warpgroup must know that the stage is full", "[checker]") {
  CHECK(always_finds({.one_warp_waits_for_full = true}, "read-before-landed"));
}

TEST_CASE("A read before landing names the copy, the barrier, the phase and the warp",
          "[checker]") {
  RingScript late({.lands_late = true, .waits_for_full = false});
  late.run();
  const auto findings = late.script().findings();
  const auto found = std::find_if(findings.begin(), findings.end(), [](const auto& finding) {
    return finding.rule == emulator::find_rule("read-before-landed")->id;
  });
  REQUIRE(found != findings.end());
  CHECK(found->sentence ==
        "reads `tile` with wgmma, where the copy at kernel.cu:22 is still writing: no thread of "
        "warp 4 has waited for phase 0 of `full[0]`.");
  CHECK(found->role == "warp 4 of CTA 0");
  CHECK(found->location.cuda_line == 31);
  CHECK(found->count > 1);

  RingScript lucky({.waits_for_full = false});
  lucky.run();
  const auto by_luck = lucky.script().findings();
  CHECK(std::any_of(by_luck.begin(), by_luck.end(), [](const auto& finding) {
    return finding.sentence.find(
               "the copy at kernel.cu:22 writes (by luck it is done): no thread "
               "of warp 4 has waited for phase 0 of `full[0]`") != std::string::npos;
  }));
}

TEST_CASE("A relaxed wait for FULL shows nothing of what the copy has brought", "[checker]") {
  CHECK(always_finds({.wait_order = Order::relaxed}, "read-before-landed"));
  CHECK(run({.wait_order = Order::relaxed, .fences_after_wait = true, .strict = true}).empty());

  RingScript relaxed({.wait_order = Order::relaxed});
  REQUIRE(relaxed.run() == Names{"read-before-landed"});
  CHECK(relaxed.script().findings().front().sentence ==
        "reads `tile` with wgmma, where the copy at kernel.cu:22 writes: warp 4 knows that phase 0 "
        "of `full[0]` is complete, but only from a relaxed operation, which shows it no data.");
}

TEST_CASE("A producer that does not wait for EMPTY overwrites what wgmma reads", "[checker]") {
  CHECK(always_finds({.waits_for_empty = false}, "overwritten-while-wgmma-reads"));
}

TEST_CASE("A stage that is released before wgmma is done is overwritten", "[checker]") {
  CHECK(always_finds({.releases_early = true}, "overwritten-while-wgmma-reads"));
  CHECK(always_finds({.waits_for_wgmma = false}, "overwritten-while-wgmma-reads"));
}

TEST_CASE("Barriers need their init to be ordered and fenced", "[checker]") {
  CHECK(always_finds({.syncs_after_init = false}, "barrier-not-initialized"));
  CHECK(always_finds({.fences_init = false}, "missing-init-fence"));
  CHECK_FALSE(has(run({.fences_init = false}), "barrier-not-initialized"));
}

TEST_CASE("A copy that nobody waits for is in flight at exit", "[checker]") {
  CHECK(has(run({.waits_for_last = false}), "exit-in-flight"));
  CHECK(has(run({.lands_late = true, .waits_for_last = false}), "exit-in-flight"));
}

TEST_CASE("A byte count that never balances is told at exit and at a deadlock", "[checker]") {
  const auto play = [](Script& s, std::int64_t announced) {
    const auto producer = lane(0, 0);
    s.at(1).init(producer, full(0), 1);
    s.init_fence(producer);
    s.sync_cta();
    s.at(2).expect(producer, full(0), announced);
    s.arrive(producer, full(0));
    s.at(3).land(s.copy(producer, {{0, tile(0), full(0)}}, stage_bytes));
  };
  Script more;
  play(more, stage_bytes + 16);
  CHECK(more.end_in_deadlock() == Names{"deadlock", "unbalanced-expect-tx"});
  Script fewer;
  play(fewer, stage_bytes - 16);
  CHECK(has(fewer.end(), "unbalanced-expect-tx"));

  // After any other fault an open count means nothing.
  Script fault;
  play(fault, stage_bytes + 16);
  fault.checker().launch_ends();
  CHECK(fault.checker().findings().empty());
}

TEST_CASE("With too few bytes announced a phase completes before all copies have landed",
          "[checker]") {
  for (const bool second_first : {false, true}) {
    Script s;
    const auto producer = lane(0, 0);
    s.at(1).init(producer, full(0), 1);
    s.init_fence(producer);
    s.sync_cta();
    s.at(2).expect(producer, full(0), stage_bytes);
    s.arrive(producer, full(0));
    const auto a = s.at(3).copy(producer, {{0, tile(0), full(0)}}, stage_bytes);
    const auto b = s.at(4).copy(producer, {{0, tile(1), full(0)}}, stage_bytes);
    s.land(second_first ? b : a);
    s.land(second_first ? a : b);
    for (int w = 4; w < 8; ++w) s.at(5).wait(warp(w), full(0));
    s.at(6).wgmma(1, {tile(0), tile(1)}, stage_bytes);
    s.wait_wgmma(1, 0);
    const Names names = s.end();
    // The second copy counts against phase 1. Had the script's wait come between the two, it would
    // have passed phase 0; it must not matter.
    CHECK(has(names, "exit-in-flight"));
    CHECK(has(names, "unbalanced-expect-tx"));
    CHECK(has(names, "read-before-landed"));
  }
}

TEST_CASE("Too few bytes are told when the rest lands, however the launch ends", "[checker]") {
  Script s;
  const auto producer = lane(0, 0);
  s.at(1).init(producer, full(0), 1);
  s.init_fence(producer);
  s.sync_cta();
  s.at(2).expect(producer, full(0), stage_bytes);
  s.arrive(producer, full(0));
  const auto a = s.at(3).copy(producer, {{0, tile(0), full(0)}}, stage_bytes);
  const auto b = s.at(4).copy(producer, {{0, tile(1), full(0)}}, stage_bytes);
  s.land(a);
  CHECK(s.findings().empty());
  s.land(b);
  CHECK(s.sentence() ==
        "announces fewer bytes for `full[0]` than come: phase 0 completes without those of the "
        "copy at kernel.cu:4, which was issued in it and lands in phase 1.");
}

TEST_CASE("At exit bytes that are under way count as those that have come", "[checker]") {
  const auto play = [](std::int64_t announced) {
    Script s;
    const auto producer = lane(0, 0);
    s.at(1).init(producer, full(0), 1);
    s.init_fence(producer);
    s.sync_cta();
    s.at(2).expect(producer, full(0), announced);
    s.arrive(producer, full(0));
    s.at(3).copy(producer, {{0, tile(0), full(0)}}, stage_bytes);
    return s.end();
  };
  CHECK(play(stage_bytes) == Names{"exit-in-flight"});
  CHECK(play(stage_bytes - 16) == Names{"unbalanced-expect-tx", "exit-in-flight"});
  CHECK(play(stage_bytes + 16) == Names{"unbalanced-expect-tx", "exit-in-flight"});
}

TEST_CASE("At exit each CTA counts the bytes that come to itself", "[checker]") {
  Script s(Shape{.ctas = 2, .ctas_per_cluster = 2});
  for (std::uint32_t cta = 0; cta < 2; ++cta) {
    s.at(1).init(lane(0, 0, cta), full(0), 1);
    s.init_fence(lane(0, 0, cta));
  }
  s.sync_cluster();
  for (std::uint32_t cta = 0; cta < 2; ++cta) {
    s.at(2).expect(lane(0, 0, cta), full(0), 2 * stage_bytes);
    s.arrive(lane(0, 0, cta), full(0));
  }
  const auto both =
      s.at(3).copy(lane(0, 0, 0), {{0, tile(0), full(0)}, {1, tile(0), full(0)}}, stage_bytes);
  s.at(4).copy(lane(0, 0, 0), {{0, tile(1), full(0)}}, stage_bytes);
  s.land(both);
  s.end();
  // CTA 1 has announced twice what comes, CTA 0 what has come and what is under way.
  for (const emulator::Finding& finding : s.findings()) {
    if (finding.rule != emulator::find_rule("unbalanced-expect-tx")->id) continue;
    CHECK(finding.count == 1);
    CHECK(finding.role == "warp 0 of CTA 1 (lane 0)");
  }
  CHECK(s.findings().size() == 3);
}

TEST_CASE("A wait that keeps the parity of the first lap passes at once", "[checker]") {
  Script s;
  const auto producer = lane(0, 0);
  s.at(1).init(producer, full(0), 1);
  s.init_fence(producer);
  s.sync_cta();
  for (int lap = 0; lap < 2; ++lap) {
    s.at(2).expect(producer, full(0), stage_bytes);
    s.arrive(producer, full(0));
    const auto copy = s.at(3).copy(producer, {{0, tile(0), full(0)}}, stage_bytes);
    if (lap == 0) s.land(copy);
    for (int w = 0; w < 4; ++w) s.at(4).wait(warp(w), full(0));  // in lap 1: phase 0 again
    s.at(5).wgmma(0, {tile(0)}, stage_bytes);
    s.wait_wgmma(0, 0);
    s.sync_cta();
    if (lap == 1) s.land(copy);
  }
  CHECK(has(s.end(), "read-before-landed"));
}

TEST_CASE("wait_group N leaves the latest groups running", "[checker]") {
  const auto play = [](int released_behind) {
    Script s;
    const auto producer = lane(0, 0);
    for (int stage = 0; stage < 3; ++stage) {
      s.at(1).init(producer, full(stage), 1);
      s.init(producer, empty(stage), 4);
    }
    s.init_fence(producer);
    s.sync_cta();
    const auto produce = [&](int stage) {
      s.at(2).wait(producer, empty(stage));
      s.at(3).expect(producer, full(stage), stage_bytes);
      s.arrive(producer, full(stage));
      s.at(4).land(s.copy(producer, {{0, tile(stage), full(stage)}}, stage_bytes));
    };
    for (int k = 0; k < 9; ++k) {
      produce(k % 3);
      for (int w = 4; w < 8; ++w) s.at(5).wait(warp(w), full(k % 3));
      s.at(6).wgmma(1, {tile(k % 3)}, stage_bytes);
      s.at(7).wait_wgmma(1, 1);
      const int done = k - released_behind;
      for (int w = 4; done >= 0 && w < 8; ++w) s.at(8).arrive(lane(w, 0), empty(done % 3));
    }
    s.wait_wgmma(1, 0);
    return s.end();
  };
  CHECK(play(1).empty());
  CHECK(has(play(0), "overwritten-while-wgmma-reads"));
}

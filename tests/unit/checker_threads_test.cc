// Barriers, phases of mbarriers, clusters and distributed shared memory.
#include <algorithm>
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
using script::out;
using script::Script;
using script::Shape;
using script::stage_bytes;
using script::tile;
using script::warp;
using script::Who;
using Names = std::vector<std::string>;

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const std::vector<Who> group_0{warp(0), warp(1), warp(2), warp(3)};
const std::vector<Who> group_1{warp(4), warp(5), warp(6), warp(7)};

}  // namespace

// ---- Named barriers.

TEST_CASE("Groups with barriers of their own do not disturb each other", "[checker]") {
  Script s;
  for (int round = 0; round < 3; ++round) {
    s.at(1).barrier(group_0, 1);
    s.at(2).barrier(group_1, 2);
  }
  CHECK(s.end().empty());
}

TEST_CASE("Two groups that share a barrier are found under any schedule", "[checker]") {
  SECTION("they take turns by luck") {
    Script s;
    s.at(1).barrier(group_0, 1);
    s.at(2).barrier(group_1, 1);
    CHECK(
        s.sentence() ==
        "arrives at barrier 1 in its generation 1 without being ordered after generation 0: under "
        "another schedule it joins that one. Two groups of threads use the same barrier, or an "
        "arrival runs ahead of the other side.");
    CHECK(s.end() == Names{"named-barrier-shared"});
  }
  SECTION("they mix") {
    Script s;
    s.at(1).barrier({warp(0), warp(1), warp(4), warp(5)}, 1);
    s.at(2).barrier({warp(2), warp(3), warp(6), warp(7)}, 1);
    CHECK(s.end() == Names{"named-barrier-shared"});
  }
}

TEST_CASE("Two groups may share a barrier if something else keeps them apart", "[checker]") {
  Script s;
  s.at(1).init(lane(0, 0), full(0), 128);
  s.sync_cta();
  s.at(2).barrier(group_0, 1);
  for (const Who& w : group_0) s.arrive(w, full(0));
  for (const Who& w : group_1) s.wait(w, full(0));
  s.at(3).barrier(group_1, 1);
  CHECK(s.end().empty());
}

TEST_CASE("bar.arrive must not run ahead of the other side", "[checker]") {
  const auto play = [](bool answers) {
    Script s;
    for (int round = 0; round < 3; ++round) {
      for (const Who& w : group_0) s.at(1).store(w, out + 128u * w.warp);
      for (const Who& w : group_0) s.at(2).arrive_barrier(w, 1);
      for (const Who& w : group_1) s.at(3).arrive_barrier(w, 1);
      s.leave_barrier(group_1, 1);
      for (const Who& w : group_1) s.at(4).load(w, out + 128u * (w.warp - 4u));
      if (!answers) continue;
      for (const Who& w : group_1) s.at(5).arrive_barrier(w, 2);
      for (const Who& w : group_0) s.at(6).arrive_barrier(w, 2);
      s.leave_barrier(group_0, 2);
    }
    return s.end();
  };
  CHECK(play(true).empty());
  const Names ahead = play(false);
  CHECK(has(ahead, "named-barrier-shared"));
  CHECK(has(ahead, "shared-race"));
}

// ---- Phases.

TEST_CASE("An mbarrier orders what arrives before it with who waits", "[checker]") {
  Script s;
  s.at(1).init(lane(0, 0), full(0), 256);
  s.sync_cta();
  for (int round = 0; round < 4; ++round) {
    for (int w = 0; w < 8; ++w) {
      s.at(2).store(warp(w), out + 128 * static_cast<unsigned>(w));
      s.arrive(warp(w), full(0));
    }
    for (int w = 0; w < 8; ++w) s.wait(warp(w), full(0));
    for (int w = 0; w < 8; ++w) s.at(3).load(warp(w), out + 128 * static_cast<unsigned>(7 - w));
    for (int w = 0; w < 8; ++w) s.arrive(warp(w), full(0));
    for (int w = 0; w < 8; ++w) s.wait(warp(w), full(0));
  }
  CHECK(s.end().empty());
}

TEST_CASE("A wait does not see arrivals of the phase in progress", "[checker]") {
  Script s;
  s.at(1).init(lane(0, 0), full(0), 1);
  s.sync_cta();
  s.arrive(lane(1, 0), full(0));
  s.at(2).store(lane(1, 0), out);
  s.at(3).wait(lane(2, 0), full(0));
  s.at(4).load(lane(2, 0), out);
  CHECK(s.end() == Names{"shared-race"});
}

TEST_CASE("A waiter that skips a phase could take the one before for it", "[checker]") {
  Script s;
  s.at(1).init(lane(0, 0), full(0), 1);
  s.sync_cta();
  s.arrive(lane(1, 0), full(0));
  s.wait(lane(1, 0), full(0));
  s.arrive(lane(1, 0), full(0));
  s.at(2).wait(lane(2, 0), full(0));  // phase 1, never having waited for phase 0
  CHECK(s.sentence() ==
        "waits for parity 1 of `full[0]` and finds phase 1 complete, without knowing that phase 0 "
        "was: while that is in progress the same parity lets it pass because of phase -1, as on a "
        "fresh barrier. A waiter must follow the phases one by one.");
  CHECK(s.end() == Names{"phase-aba"});
}

TEST_CASE("A waiter may skip a phase that it knows to be over from elsewhere", "[checker]") {
  Script s;
  s.at(1).init(lane(0, 0), full(0), 1);
  s.init(lane(0, 0), empty(0), 1);
  s.sync_cta();
  s.arrive(lane(1, 0), full(0));
  s.wait(lane(1, 0), full(0));
  s.arrive(lane(1, 0), empty(0));
  s.wait(lane(2, 0), empty(0));
  s.arrive(lane(1, 0), full(0));
  s.at(2).wait(lane(2, 0), full(0));
  CHECK(s.end().empty());
}

TEST_CASE("A barrier must not complete two phases past a waiter", "[checker]") {
  const auto play = [](bool counts_both) {
    Script s;
    s.at(1).init(lane(0, 0), full(0), 1);
    s.init(lane(0, 0), empty(0), counts_both ? 2 : 1);
    s.sync_cta();
    for (int round = 0; round < 3; ++round) {
      s.at(2).wait(lane(1, 0), empty(0));
      s.arrive(lane(1, 0), full(0));
      for (const int w : {2, 3}) {
        s.at(3).wait(lane(w, 0), full(0));
        if (counts_both || w == 3) s.arrive(lane(w, 0), empty(0));
      }
    }
    return s.end();
  };
  CHECK(play(true).empty());
  CHECK(play(false) == Names{"phase-aba"});
}

TEST_CASE("Who passes a fresh barrier must come before its first phase completes", "[checker]") {
  const auto play = [](bool waits_for_full) {
    Script s;
    s.at(1).init(lane(0, 0), full(0), 1);
    s.init(lane(0, 0), empty(0), 1);
    s.sync_cta();
    s.at(2).wait(lane(1, 0), empty(0));
    s.at(3).arrive(lane(1, 0), full(0));
    if (waits_for_full) s.at(4).wait(lane(2, 0), full(0));
    s.at(5).arrive(lane(2, 0), empty(0));
    CHECK(s.sentence() ==
          (waits_for_full
               ? "0 findings"
               : "passes the fresh barrier `empty[0]`, but nothing keeps phase 0 from completing "
                 "before it has looked: then the parity tells it to wait for phase 1. Phase 0 must "
                 "need an arrival of this thread, or one that comes after its wait."));
    return s.end();
  };
  CHECK(play(true).empty());
  CHECK(play(false) == Names{"phase-aba"});
}

TEST_CASE("Lanes that wait beside the one that goes on are left behind in strict mode",
          "[checker]") {
  const auto play = [](bool strict, bool syncs) {
    Script s(Shape{.strict = strict});
    s.at(1).init(lane(0, 0), full(0), 1);
    s.sync_cta();
    for (int round = 0; round < 3; ++round) {
      s.arrive(lane(1, 0), full(0));
      s.at(2).wait(warp(1), full(0));
      if (syncs) s.sync_warp(warp(1));
    }
    return s.end();
  };
  CHECK(play(false, false).empty());
  CHECK(play(true, false) == Names{"lanes-left-behind"});
  CHECK(play(true, true).empty());
}

TEST_CASE("A barrier that is initialized twice is overwritten", "[checker]") {
  const auto play = [](bool invalidates) {
    Script s;
    s.at(1).init(lane(0, 0), full(0), 1);
    s.sync_cta();
    s.arrive(lane(1, 0), full(0));
    s.wait(lane(1, 0), full(0));
    s.sync_cta();
    if (invalidates) s.inval(lane(0, 0), full(0));
    s.at(2).init(lane(0, 0), full(0), 1);
    s.sync_cta();
    s.arrive(lane(1, 0), full(0));
    s.wait(lane(1, 0), full(0));
    return s.end();
  };
  CHECK(play(true).empty());
  CHECK(play(false) == Names{"barrier-overwritten"});
}

TEST_CASE("A relaxed wait needs a fence before the data are read", "[checker]") {
  const auto play = [](Order order, bool fences) {
    Script s;
    s.at(1).init(lane(0, 0), full(0), 1);
    s.sync_cta();
    s.store(lane(1, 0), out);
    s.arrive(lane(1, 0), full(0));
    s.at(2).wait(lane(2, 0), full(0), Scope::cta, order);
    if (fences) s.fence(lane(2, 0), FenceKind::memory, Scope::cta);
    s.at(3).load(lane(2, 0), out);
    return s.end();
  };
  CHECK(play(Order::acquire, false).empty());
  CHECK(play(Order::relaxed, true).empty());
  CHECK(play(Order::relaxed, false) == Names{"insufficient-scope"});
}

TEST_CASE("A relaxed arrival does not say that a read is over, in strict mode", "[checker]") {
  const auto play = [](Order arrival, Order waiting, bool strict) {
    Script s(Shape{.strict = strict});
    s.at(1).init(lane(0, 0), empty(0), 1);
    s.store(lane(2, 0), out);
    s.sync_cta();
    s.at(2).load(lane(1, 0), out);
    s.arrive(lane(1, 0), empty(0), -1, Scope::cta, arrival);
    s.wait(lane(2, 0), empty(0), Scope::cta, waiting);
    s.at(3).store(lane(2, 0), out);
    return s.end();
  };
  CHECK(play(Order::release, Order::acquire, true).empty());
  CHECK(play(Order::relaxed, Order::acquire, false).empty());
  CHECK(play(Order::relaxed, Order::acquire, true) == Names{"relaxed-order"});
  CHECK(play(Order::release, Order::relaxed, true) == Names{"relaxed-order"});
}

// ---- Clusters.

TEST_CASE("Distributed shared memory is ordered by barriers of the cluster", "[checker]") {
  const auto play = [](bool first, bool middle, bool last, Order arrival) {
    Script s(Shape{.ctas = 2, .ctas_per_cluster = 2});
    if (first) s.sync_cluster();
    s.at(1).store(warp(0, 0), out, 4, 4, 1);
    if (middle) s.sync_cluster(arrival);
    s.at(2).load(warp(3, 1), out);
    if (last) s.sync_cluster();
    return s.end();
  };
  CHECK(play(true, true, true, Order::release).empty());
  CHECK(play(true, true, false, Order::release).empty());  // CTA 1 has waited for it in the middle
  CHECK(play(false, true, true, Order::release) == Names{"peer-not-started"});
  CHECK(has(play(true, false, true, Order::release), "shared-race"));
  CHECK(play(true, true, true, Order::relaxed) == Names{"insufficient-scope"});
}

TEST_CASE("A CTA must not exit while others may access its memory", "[checker]") {
  const auto play = [](bool last) {
    Script s(Shape{.ctas = 2, .ctas_per_cluster = 2});
    s.at(1).store(warp(0, 1), out);
    s.sync_cluster();
    s.at(2).load(warp(0, 0), out, 4, 4, 1);
    if (last) s.sync_cluster();
    return s.end();
  };
  CHECK(play(true).empty());
  CHECK(play(false) == Names{"exited-target"});
}

TEST_CASE("A relaxed barrier of the cluster lets a CTA exit, except in strict mode", "[checker]") {
  const auto play = [](Order last, bool fences, bool strict) {
    Script s(Shape{.ctas = 2, .ctas_per_cluster = 2, .strict = strict});
    s.at(1).store(warp(0, 1), out);
    s.sync_cluster();
    s.at(2).load(warp(0, 0), out, 4, 4, 1);
    if (fences) s.fence(warp(0, 0), FenceKind::memory, Scope::cluster);
    s.sync_cluster(last);
    return s.end();
  };
  CHECK(play(Order::release, false, true).empty());
  CHECK(play(Order::relaxed, true, true).empty());
  CHECK(play(Order::relaxed, false, false).empty());
  CHECK(play(Order::relaxed, false, true) == Names{"relaxed-order"});
}

TEST_CASE("A remote arrival is over when its phase is", "[checker]") {
  const auto play = [](bool waits, Order arrival) {
    Script s(Shape{.ctas = 2, .ctas_per_cluster = 2, .strict = true});
    s.at(1).init(lane(0, 0, 1), full(0), 1);
    s.init_fence(lane(0, 0, 1));
    s.sync_cluster(Order::relaxed);
    s.at(2).arrive(lane(0, 0, 0), full(0), 1, Scope::cta, arrival);
    if (waits) s.wait(lane(0, 0, 1), full(0), Scope::cta, Order::relaxed);
    s.sync_cluster(Order::relaxed);
    return s.end();
  };
  CHECK(play(true, Order::relaxed).empty());
  CHECK(play(true, Order::release).empty());
  CHECK(play(false, Order::release) == Names{"relaxed-order"});
}

TEST_CASE("A remote arrival is not over when a later one at another barrier is", "[checker]") {
  const auto play = [](bool waits_for_both, Scope scope, bool strict) {
    Script s(Shape{.ctas = 2, .ctas_per_cluster = 2, .strict = strict});
    for (const int stage : {0, 1}) s.at(1).init(lane(0, 0, 1), full(stage), 1);
    s.init_fence(lane(0, 0, 1));
    s.sync_cluster(Order::relaxed);
    for (const int stage : {0, 1}) s.at(2).arrive(lane(0, 0, 0), full(stage), 1, scope);
    if (waits_for_both) s.at(3).wait(lane(0, 0, 1), full(0), scope);
    s.at(4).wait(lane(0, 0, 1), full(1), scope);
    return s.end();
  };
  CHECK(play(true, Scope::cta, true).empty());
  CHECK(play(false, Scope::cta, false).empty());
  CHECK(play(false, Scope::cta, true) == Names{"relaxed-order"});
  CHECK(play(false, Scope::cluster, true).empty());  // the release carries the first one along
}

TEST_CASE("Data that threads hand over between CTAs need cluster scope on both sides",
          "[checker]") {
  const auto play = [](Scope arrive, Scope wait) {
    Script s(Shape{.ctas = 2, .ctas_per_cluster = 2});
    s.at(1).init(lane(0, 0, 1), full(0), 1);
    s.init_fence(lane(0, 0, 1));
    s.sync_cluster();
    s.at(2).store(lane(0, 0, 0), out, 4, 4, 1);
    s.at(3).arrive(lane(0, 0, 0), full(0), 1, arrive);
    s.at(4).wait(lane(0, 0, 1), full(0), wait);
    s.at(5).load(lane(0, 0, 1), out);
    s.sync_cluster();
    return s.end();
  };
  CHECK(play(Scope::cluster, Scope::cluster).empty());
  CHECK(play(Scope::cta, Scope::cluster) == Names{"insufficient-scope"});
  CHECK(play(Scope::cluster, Scope::cta) == Names{"insufficient-scope"});
}

TEST_CASE("A remote arrive needs the barrier to be initialized first", "[checker]") {
  const auto play = [](bool syncs, Order arrival, bool fences) {
    Script s(Shape{.ctas = 2, .ctas_per_cluster = 2});
    s.at(1).init(lane(0, 0, 1), full(0), 1);
    if (fences) s.init_fence(lane(0, 0, 1));
    if (syncs) s.sync_cluster(arrival);
    s.at(2).arrive(lane(0, 0, 0), full(0), 1);
    s.wait(lane(0, 0, 1), full(0));
    s.sync_cluster();
    return s.end();
  };
  CHECK(play(true, Order::relaxed, true).empty());
  CHECK(play(true, Order::release, false).empty());
  CHECK(play(true, Order::relaxed, false) == Names{"barrier-not-initialized"});
  CHECK(play(false, Order::release, true) == Names{"barrier-not-initialized"});
}

namespace {

/// A cluster of two: each CTA's producer multicasts half of the tile that both consume.
struct Multicast {
  Scope scope = Scope::cta;  // of the arrivals on EMPTY: the default, as in CUTLASS
  bool counts_peer = true;
  bool syncs_at_end = true;
  bool reads_by_threads = false;
};

class MulticastScript {
 public:
  explicit MulticastScript(const Multicast& how) : how_(how) {}

  Names run() {
    for (std::uint32_t cta = 0; cta < 2; ++cta) {
      const auto producer = lane(0, 0, cta);
      for (int stage = 0; stage < 2; ++stage) {
        script_.at(1).init(producer, full(stage), 1);
        script_.init(producer, empty(stage), how_.counts_peer ? 8 : 4);
      }
      script_.init_fence(producer);
    }
    script_.sync_cluster(Order::relaxed);
    constexpr int tiles = 6;
    for (int k = 0; k < tiles; ++k) {
      if (k < 2) produce(k % 2);
      for (std::uint32_t cta = 0; cta < 2; ++cta) consume(k % 2, cta);
      if (k + 2 < tiles) produce(k % 2);
    }
    if (how_.syncs_at_end) script_.sync_cluster();
    return script_.end();
  }

 private:
  void produce(int stage) {
    constexpr std::uint32_t half = stage_bytes / 2;
    std::vector<emulator::AsyncId> copies;
    for (std::uint32_t cta = 0; cta < 2; ++cta) {
      const auto producer = lane(0, 0, cta);
      const std::uint32_t place = tile(stage) + half * cta;
      script_.at(10).wait(producer, empty(stage), how_.scope);
      script_.at(11).expect(producer, full(stage), 2 * half);
      script_.arrive(producer, full(stage));
      copies.push_back(
          script_.at(12).copy(producer, {{0, place, full(stage)}, {1, place, full(stage)}}, half));
    }
    for (const auto id : copies) script_.land(id);
  }

  void consume(int stage, std::uint32_t cta) {
    for (int w = 4; w < 8; ++w) script_.at(20).wait(warp(w, cta), full(stage));
    script_.complete(script_.at(21).wgmma(1, {tile(stage)}, stage_bytes, 0, cta));
    if (how_.reads_by_threads) script_.at(22).load(warp(5, cta), tile(stage));
    script_.at(23).wait_wgmma(1, 0, cta);
    for (int w = 4; w < 8; ++w) {
      script_.at(24).arrive(lane(w, 0, cta), empty(stage), static_cast<int>(cta), how_.scope);
      if (!how_.counts_peer) continue;
      const int peer = static_cast<int>(1 - cta);
      script_.at(25).arrive(lane(w, 0, cta), empty(stage), peer, how_.scope);
    }
  }

  const Multicast how_;
  Script script_{Shape{.ctas = 2, .ctas_per_cluster = 2}};
};

Names play_multicast(const Multicast& how) {
  return MulticastScript(how).run();
}

}  // namespace

TEST_CASE("Multicast works with arrivals of the default scope", "[checker]") {
  CHECK(play_multicast({}).empty());
  CHECK(play_multicast({.scope = Scope::cluster}).empty());
  CHECK(play_multicast({.reads_by_threads = true}).empty());
}

TEST_CASE("Multicast overwrites the stages of a CTA whose consumers are not counted", "[checker]") {
  CHECK(has(play_multicast({.counts_peer = false}), "overwritten-while-wgmma-reads"));
}

TEST_CASE("A cluster that multicasts and arrives remotely must meet at the end", "[checker]") {
  CHECK(play_multicast({.syncs_at_end = false}) == Names{"exited-target"});
}

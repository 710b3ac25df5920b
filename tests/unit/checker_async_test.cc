// Bulk stores, proxies, the registers of wgmma, tensor maps, and what is under way at exit.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/checker_script.h"

namespace {

using emulator::Access;
using emulator::FenceKind;
using emulator::Order;
using emulator::Scope;
using script::full;
using script::lane;
using script::out;
using script::Script;
using script::Shape;
using script::stage_bytes;
using script::tile;
using script::warp;
using Names = std::vector<std::string>;

constexpr std::uint64_t destination = 0x7f00'0000'2000;
constexpr std::uint64_t flag = 64;

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// All warps write a tile with stores, one lane sends it to global memory, and again.
struct Epilogue {
  bool fences = true;
  bool fences_behind_barrier = false;
  bool syncs = true;
  bool waits = true;
  bool commits = true;
  bool other_lane_waits = false;
  bool syncs_after_wait = true;
  int pending = 0;
  bool strict = false;
};

Names play(const Epilogue& e) {
  Script s(Shape{.strict = e.strict});
  const auto sending = lane(0, 0);
  const auto waiting = e.other_lane_waits ? lane(0, 1) : sending;
  for (int round = 0; round < 3; ++round) {
    for (int w = 0; w < 8; ++w) {
      s.at(1).store(warp(w), out + 128 * static_cast<unsigned>(w));
      if (e.fences) s.at(2).proxy_fence(warp(w));
    }
    if (e.syncs) s.sync_cta();
    if (e.fences_behind_barrier) s.proxy_fence(sending);
    const std::uint64_t to = destination + 4096 * static_cast<unsigned>(round);
    s.complete(s.at(3).bulk_store(sending, out, 1024, to));
    if (e.commits) s.commit(sending);
    if (e.waits) s.at(4).wait_bulk(waiting, e.pending, true);
    if (e.syncs_after_wait) s.sync_cta();
  }
  s.wait_bulk(sending, 0, true);
  return s.end();
}

/// A barrier that counts the bytes of copies by lane 0 of warp 0.
void prepare(Script& s, int stage = 0, std::uint32_t cta = 0) {
  const auto producer = lane(0, 0, cta);
  s.at(1).init(producer, full(stage), 1);
  s.init_fence(producer);
  s.sync_cta(cta);
}

/// Four warps fill a tile, show it to the async proxy, and meet.
void fill(Script& s) {
  for (int w = 0; w < 4; ++w) {
    s.at(1).store(warp(w), tile(0) + 128 * static_cast<unsigned>(w));
    s.proxy_fence(warp(w));
  }
  s.sync_cta();
}

}  // namespace

TEST_CASE("A correct epilogue has no findings", "[checker]") {
  CHECK(play({}).empty());
  CHECK(play({.strict = true}).empty());
  CHECK(play({.fences = false, .fences_behind_barrier = true}).empty());
}

TEST_CASE("A bulk store needs fence.proxy.async, though the data be right", "[checker]") {
  CHECK(play({.fences = false}) == Names{"missing-proxy-fence"});
}

TEST_CASE("A proxy fence of another state space does not help", "[checker]") {
  const auto with = [](FenceKind kind) {
    Script s;
    s.at(1).store(warp(0), out);
    s.fence(warp(0), kind);
    s.sync_cta();
    s.at(2).bulk_store(lane(0, 0), out, 128);
    s.commit(lane(0, 0));
    s.wait_bulk(lane(0, 0), 0, true);
    return s.end();
  };
  CHECK(with(FenceKind::proxy_async).empty());
  CHECK(with(FenceKind::proxy_async_shared).empty());
  CHECK(with(FenceKind::proxy_async_global) == Names{"missing-proxy-fence"});
  CHECK(with(FenceKind::memory) == Names{"missing-proxy-fence"});
}

TEST_CASE("A fence in one thread does not show later stores, nor those of others", "[checker]") {
  Script later;
  later.proxy_fence(warp(0));
  later.at(1).store(warp(0), out);
  later.sync_cta();
  later.at(2).bulk_store(lane(0, 0), out, 128);
  CHECK(later.sentence() ==
        "reads `out` with a bulk store, which warp 0 of CTA 0 (lanes 0-3) writes at kernel.cu:1: "
        "the order is right, but no fence.proxy.async between the two shows the write to the async "
        "proxy.");

  Script others;
  others.at(1).store(warp(1), out);
  others.proxy_fence(warp(0));
  others.sync_cta();
  others.at(2).bulk_store(lane(0, 0), out, 128);
  CHECK(has(others.end(), "missing-proxy-fence"));
}

TEST_CASE("A bulk store that is not ordered after the stores races with them", "[checker]") {
  CHECK(has(play({.syncs = false}), "shared-race"));
}

TEST_CASE("A tile that a bulk store reads must not be overwritten", "[checker]") {
  CHECK(has(play({.waits = false}), "overwritten-while-store-reads"));
  CHECK(has(play({.syncs_after_wait = false}), "overwritten-while-store-reads"));
  // Bulk groups belong to the thread that issues them.
  CHECK(has(play({.other_lane_waits = true}), "overwritten-while-store-reads"));
  CHECK(has(play({.commits = false}), "overwritten-while-store-reads"));
  CHECK(has(play({.pending = 1}), "overwritten-while-store-reads"));
}

TEST_CASE("A thread must wait for its bulk stores before it exits", "[checker]") {
  Script s;
  s.at(1).store(warp(0), out);
  s.proxy_fence(warp(0));
  s.sync_warp(warp(0));
  s.complete(s.at(2).bulk_store(lane(0, 0), out, 128));
  s.commit(lane(0, 0));
  CHECK(s.at(9).end() == Names{"exit-in-flight"});
  CHECK(s.sentence() ==
        "exits (kernel.cu:9) without having waited for this bulk store, which may still read "
        "shared memory that is no longer there: cp.async.bulk.wait_group.read 0 must come first.");
}

TEST_CASE("What a bulk store writes is there after wait_group, not after wait_group.read",
          "[checker]") {
  const auto play_use = [](bool read_only) {
    Script s(Shape{.ctas = 2});
    const auto a = lane(0, 0, 0);
    const auto b = lane(0, 0, 1);
    s.at(1).store(a, out);
    s.proxy_fence(a);
    s.complete(s.at(2).bulk_store(a, out, 4, destination));
    s.commit(a);
    s.wait_bulk(a, 0, read_only);
    s.at(3).strong_global(a, flag, Access::write, Order::release, Scope::gpu);
    s.at(4).strong_global(b, flag, Access::read, Order::acquire, Scope::gpu);
    s.at(5).load_global(b, destination);
    return s.end();
  };
  CHECK(play_use(false).empty());
  CHECK(play_use(true) == Names{"store-not-complete"});
}

TEST_CASE("A copy from global memory that the launch has written needs order and fence",
          "[checker]") {
  const auto play_load = [](bool orders, bool fences) {
    Script s(Shape{.ctas = 2});
    const auto a = lane(0, 0, 0);
    const auto b = lane(0, 0, 1);
    prepare(s, 0, 1);
    s.at(2).store_global(a, destination);
    if (fences) s.fence(a, FenceKind::proxy_async_global);
    if (orders) {
      s.at(3).strong_global(a, flag, Access::write, Order::release, Scope::gpu);
      s.at(4).strong_global(b, flag, Access::read, Order::acquire, Scope::gpu);
    }
    s.at(5).expect(b, full(0), 512);
    s.arrive(b, full(0));
    s.land(s.at(6).copy(b, {{1, tile(0), full(0)}}, 512, destination));
    s.wait(b, full(0));
    return s.end();
  };
  CHECK(play_load(true, true).empty());
  CHECK(play_load(true, false) == Names{"missing-proxy-fence"});
  CHECK(play_load(false, true) == Names{"global-race"});
}

TEST_CASE("Bulk reductions may meet, stores may not", "[checker]") {
  const auto meet = [](Access access) {
    Script s(Shape{.ctas = 2});
    for (std::uint32_t cta = 0; cta < 2; ++cta) {
      const auto who = lane(0, 0, cta);
      s.at(1).store(who, out);
      s.proxy_fence(who);
      s.at(2).begin_bulk_store(who, out, 4, destination, access);
      s.commit(who);
      s.wait_bulk(who, 0, true);
    }
    return s.end();
  };
  CHECK(meet(Access::atomic).empty());
  CHECK(meet(Access::write) == Names{"store-not-complete"});
}

TEST_CASE("A bulk store of what nothing wrote is a finding in strict mode only", "[checker]") {
  const auto play_store = [](bool strict) {
    Script s(Shape{.strict = strict});
    s.at(1).bulk_store(lane(0, 0), out, 128);
    s.commit(lane(0, 0));
    s.wait_bulk(lane(0, 0), 0, true);
    return s.end();
  };
  CHECK(play_store(false).empty());
  CHECK(play_store(true) == Names{"store-of-unwritten"});
}

TEST_CASE("A copy over what threads have read needs a proxy fence in strict mode only",
          "[checker]") {
  const auto play_overwrite = [](bool strict, bool fences) {
    Script s(Shape{.strict = strict});
    const auto producer = lane(0, 0);
    prepare(s);
    for (int lap = 0; lap < 2; ++lap) {
      s.at(2).expect(producer, full(0), stage_bytes);
      s.arrive(producer, full(0));
      s.land(s.at(3).copy(producer, {{0, tile(0), full(0)}}, stage_bytes));
      for (int w = 0; w < 8; ++w) s.wait(warp(w), full(0));
      s.at(4).load(warp(3), tile(0));
      if (fences) s.proxy_fence(warp(3));
      s.sync_cta();
    }
    return s.end();
  };
  CHECK(play_overwrite(false, false).empty());
  CHECK(play_overwrite(true, false) == Names{"overwrite-without-proxy-fence"});
  CHECK(play_overwrite(true, true).empty());
}

// ---- wgmma.

TEST_CASE("wgmma needs a proxy fence for tiles that threads have filled", "[checker]") {
  const auto play_fill = [](bool fences, bool syncs) {
    Script s(Shape{.warps = 4});
    for (int round = 0; round < 2; ++round) {
      for (int w = 0; w < 4; ++w) {
        s.at(1).store(warp(w), tile(0) + 128 * static_cast<unsigned>(w));
        if (fences) s.proxy_fence(warp(w));
      }
      if (syncs) s.sync_cta();
      s.complete(s.at(2).wgmma(0, {tile(0)}, stage_bytes));
      s.at(3).wait_wgmma(0, 0);
      s.sync_cta();
    }
    return s.end();
  };
  CHECK(play_fill(true, true).empty());
  CHECK(play_fill(false, true) == Names{"missing-proxy-fence"});
  CHECK(has(play_fill(true, false), "shared-race"));
}

TEST_CASE("Threads must not overwrite what wgmma reads", "[checker]") {
  Script s(Shape{.warps = 4});
  fill(s);
  s.at(2).wgmma(0, {tile(0)}, 256);
  s.at(3).store(warp(3), tile(0) + 384);  // it does not read there
  CHECK(s.findings().empty());
  s.at(4).store(warp(1), tile(0) + 128);
  CHECK(s.sentence() ==
        "writes `tile` + 128, which the wgmma at kernel.cu:2 may still be reading: no "
        "wgmma.wait_group that covers it comes before.");
  s.wait_wgmma(0, 0);
  CHECK(s.end() == Names{"overwritten-while-wgmma-reads"});
}

TEST_CASE("Accumulators belong to wgmma until its group is waited for", "[checker]") {
  Script s(Shape{.warps = 4});
  fill(s);
  s.touch_register(warp(1), 10, Access::write);
  s.at(2).wgmma(0, {tile(0)}, stage_bytes, 10);
  s.at(3).wgmma(0, {tile(0)}, stage_bytes, 20);
  s.at(4).wait_wgmma(0, 1);
  s.at(5).touch_register(warp(1), 11, Access::read);
  CHECK(s.findings().empty());
  s.at(6).touch_register(warp(1), 20, Access::read);
  CHECK(s.sentence() ==
        "reads %f20, a register of the wgmma at kernel.cu:3, which may still be running: no "
        "wgmma.wait_group that covers it comes before.");
  s.wait_wgmma(0, 0);
  s.at(7).touch_register(warp(1), 20, Access::write);
  CHECK(s.end() == Names{"accumulator-in-flight"});
}

TEST_CASE("wgmma needs a fence behind other accesses to its registers", "[checker]") {
  const auto play_fences = [](bool first_fence, bool touches, bool second_fence) {
    Script s(Shape{.warps = 4});
    fill(s);
    s.touch_register(warp(2), 10, Access::write);
    if (first_fence) s.fence_wgmma(0);
    s.at(2).issue_wgmma(0, {tile(0)}, stage_bytes, 10);
    s.commit_wgmma(0);
    s.wait_wgmma(0, 0);
    if (touches) s.at(3).touch_register(warp(2), 10, Access::read);
    if (second_fence) s.fence_wgmma(0);
    s.at(4).issue_wgmma(0, {tile(0)}, stage_bytes, 10);
    s.commit_wgmma(0);
    s.wait_wgmma(0, 0);
    return s.end();
  };
  CHECK(play_fences(true, false, false).empty());
  CHECK(play_fences(true, true, true).empty());
  CHECK(play_fences(true, true, false) == Names{"missing-wgmma-fence"});
  CHECK(play_fences(false, false, false) == Names{"missing-wgmma-fence"});
}

TEST_CASE("wgmmas of different shapes on one accumulator need a fence", "[checker]") {
  const auto play_shapes = [](const std::string& second, std::uint32_t accumulator) {
    Script s(Shape{.warps = 4});
    fill(s);
    s.fence_wgmma(0);
    s.at(2, "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16");
    s.issue_wgmma(0, {tile(0)}, stage_bytes, 10);
    s.at(3, "wgmma.mma_async.sync.aligned." + second + ".f32.bf16.bf16");
    s.issue_wgmma(0, {tile(0)}, stage_bytes, accumulator);
    s.commit_wgmma(0);
    s.wait_wgmma(0, 0);
    return s.end();
  };
  CHECK(play_shapes("m64n16k16", 10).empty());
  CHECK(play_shapes("m64n8k16", 20).empty());
  CHECK(play_shapes("m64n8k16", 10) == Names{"missing-wgmma-fence"});
}

TEST_CASE("A warp must wait for its wgmmas before it exits", "[checker]") {
  const auto play_exit = [](bool waits) {
    Script s(Shape{.warps = 4});
    fill(s);
    s.complete(s.at(2).wgmma(0, {tile(0)}, stage_bytes));
    if (waits) s.wait_wgmma(0, 0);
    return s.end();
  };
  CHECK(play_exit(true).empty());
  CHECK(play_exit(false) == Names{"exit-in-flight"});
}

// ---- Loads.

TEST_CASE("A load must be waited for in its CTA", "[checker]") {
  const auto play_load = [](bool lands, bool waits) {
    Script s;
    const auto producer = lane(0, 0);
    prepare(s);
    s.at(2).expect(producer, full(0), stage_bytes);
    s.arrive(producer, full(0));
    const auto id = s.at(3).copy(producer, {{0, tile(0), full(0)}}, stage_bytes);
    if (lands) s.land(id);
    if (waits) s.wait(warp(5), full(0));
    return s.end();
  };
  CHECK(play_load(true, true).empty());
  CHECK(play_load(true, false) == Names{"exit-in-flight"});
  CHECK(play_load(false, false) == Names{"exit-in-flight"});
}

TEST_CASE("Two copies must not write the same bytes at once", "[checker]") {
  Script s;
  const auto producer = lane(0, 0);
  prepare(s);
  s.at(2).expect(producer, full(0), 2 * stage_bytes);
  s.arrive(producer, full(0));
  const auto a = s.at(3).copy(producer, {{0, tile(0), full(0)}}, stage_bytes);
  const auto b = s.at(4).copy(producer, {{0, tile(0), full(0)}}, stage_bytes);
  s.land(a);
  s.land(b);
  s.wait(warp(0), full(0));
  CHECK(s.sentence() ==
        "overwrites `tile` with a copy, where the copy at kernel.cu:3 is still writing: it is not "
        "ordered after phase 0 of `full[0]`.");
  CHECK(s.end() == Names{"write-while-landing"});
}

TEST_CASE("Threads must not touch bytes that a copy is writing", "[checker]") {
  Script s;
  const auto producer = lane(0, 0);
  prepare(s);
  s.at(2).expect(producer, full(0), stage_bytes);
  s.arrive(producer, full(0));
  const auto id = s.at(3).copy(producer, {{0, tile(0), full(0)}}, stage_bytes);
  s.at(4).load(warp(1), tile(0));
  CHECK(s.sentence() ==
        "reads 4 bytes at `tile` that the copy at kernel.cu:3 is still writing: it has not waited "
        "for phase 0 of `full[0]`.");
  s.at(5).store(warp(1), tile(0) + 128);
  s.land(id);
  s.wait(warp(1), full(0));
  s.at(6).load(warp(1), tile(0) + 256);
  CHECK(s.end() == Names{"read-before-landed", "write-while-landing"});
}

TEST_CASE("A thread that has waited with .relaxed must not read what a copy has brought",
          "[checker]") {
  const auto play_wait = [](Order order, bool fences) {
    Script s;
    const auto producer = lane(0, 0);
    prepare(s);
    s.at(2).expect(producer, full(0), stage_bytes);
    s.arrive(producer, full(0));
    s.land(s.at(3).copy(producer, {{0, tile(0), full(0)}}, stage_bytes));
    s.wait(warp(1), full(0), Scope::cta, order);
    if (fences) s.fence(warp(1), FenceKind::memory, Scope::cta);
    s.at(4).load(warp(1), tile(0));
    return std::pair(s.sentence(), s.end());
  };
  CHECK(play_wait(Order::acquire, false).second.empty());
  CHECK(play_wait(Order::relaxed, true).second.empty());
  const auto [sentence, names] = play_wait(Order::relaxed, false);
  CHECK(names == Names{"read-before-landed"});
  CHECK(sentence ==
        "reads 4 bytes at `tile` that the copy at kernel.cu:3 writes: it knows that phase 0 of "
        "`full[0]` is complete, but only from a relaxed operation, which shows it no data.");
}

// ---- Tensor maps in global memory.

TEST_CASE("A tensor map that was changed needs the fence of its proxy", "[checker]") {
  constexpr std::uint64_t map = 0x7f00'0010'0000;
  const auto play_map = [&](bool releases, bool acquires, bool waits) {
    Script s;
    const auto producer = lane(0, 0);
    prepare(s);
    for (int group = 0; group < 2; ++group) {
      s.at(2).store_global(warp(0), map);
      if (releases) s.fence(warp(0), FenceKind::tensormap_release);
      s.sync_warp(warp(0));
      if (acquires) s.at(3).fence(warp(0), FenceKind::tensormap_acquire);
      s.at(4).expect(producer, full(0), stage_bytes);
      s.arrive(producer, full(0));
      s.land(s.at(5).begin_copy(producer, {{0, tile(0), full(0)}}, stage_bytes, map));
      if (waits || group == 1) s.wait(warp(0), full(0));
    }
    return s.end();
  };
  CHECK(play_map(true, true, true).empty());
  CHECK(play_map(true, false, true) == Names{"tensor-map-fence"});
  CHECK(play_map(false, true, true) == Names{"tensor-map-fence"});
  CHECK(has(play_map(true, true, false), "tensor-map-in-use"));
}

TEST_CASE("A thread may acquire a tensor map for the others of its CTA, not for other CTAs",
          "[checker]") {
  constexpr std::uint64_t map = 0x7f00'0010'0000;
  const auto writer = lane(1, 0);
  const auto change = [&](Script& s) {
    s.at(2).store_global(writer, map);
    s.fence(writer, FenceKind::tensormap_release);
  };
  const auto acquire = [](Script& s, const script::Who& who) {
    s.at(3).fence(who, FenceKind::tensormap_acquire);
  };
  const auto use = [&](Script& s, const script::Who& user) {
    s.at(4).expect(user, full(0), stage_bytes);
    s.arrive(user, full(0));
    s.land(s.at(5).begin_copy(user, {{user.cta, tile(0), full(0)}}, stage_bytes, map));
    s.wait(user, full(0));
    return s.end();
  };

  const auto told_by_mbarrier = [&](bool acquires_first) {
    Script s;
    prepare(s);
    s.at(1).init(writer, full(1), 1);
    s.init_fence(writer);
    s.sync_cta();
    change(s);
    if (acquires_first) acquire(s, writer);
    s.arrive(writer, full(1));
    if (!acquires_first) acquire(s, writer);
    s.wait(lane(0, 0), full(1));
    return use(s, lane(0, 0));
  };
  CHECK(told_by_mbarrier(true).empty());
  CHECK(told_by_mbarrier(false) == Names{"tensor-map-fence"});

  const auto told_by_flag = [&](bool user_acquires) {
    Script s(Shape{.ctas = 2});
    prepare(s, 0, 1);
    change(s);
    acquire(s, writer);
    s.strong_global(writer, flag, Access::write, Order::release, Scope::gpu);
    s.strong_global(lane(0, 0, 1), flag, Access::read, Order::acquire, Scope::gpu);
    if (user_acquires) acquire(s, lane(0, 0, 1));
    return use(s, lane(0, 0, 1));
  };
  CHECK(told_by_flag(true).empty());
  CHECK(told_by_flag(false) == Names{"tensor-map-fence"});

  const auto told_by_cluster = [&](std::uint32_t cta, bool user_acquires) {
    Script s(Shape{.ctas = 2, .ctas_per_cluster = 2});
    prepare(s, 0, cta);
    change(s);
    acquire(s, writer);
    s.sync_cluster();
    if (user_acquires) acquire(s, lane(0, 0, cta));
    return use(s, lane(0, 0, cta));
  };
  CHECK(told_by_cluster(0, false).empty());
  CHECK(told_by_cluster(1, true).empty());
  CHECK(told_by_cluster(1, false) == Names{"tensor-map-fence"});

  const auto told_by_remote_mbarrier = [&](bool user_acquires) {
    Script s(Shape{.ctas = 2, .ctas_per_cluster = 2});
    const auto user = lane(0, 0, 1);
    prepare(s, 0, 1);
    s.at(1).init(user, full(1), 1);
    s.init_fence(user);
    s.sync_cluster();
    change(s);
    acquire(s, writer);
    s.arrive(writer, full(1), 1, Scope::cluster);
    s.wait(user, full(1), Scope::cluster);
    if (user_acquires) acquire(s, user);
    return use(s, user);
  };
  CHECK(told_by_remote_mbarrier(true).empty());
  CHECK(told_by_remote_mbarrier(false) == Names{"tensor-map-fence"});
}

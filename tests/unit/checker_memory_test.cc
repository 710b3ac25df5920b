// Accesses of threads: races on shared and global memory, scopes, flags.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/checker_script.h"

namespace {

using emulator::Access;
using emulator::FenceKind;
using emulator::Order;
using emulator::Scope;
using script::lane;
using script::out;
using script::Script;
using script::Shape;
using script::tile;
using script::warp;
using Names = std::vector<std::string>;

constexpr std::uint64_t data = 0x7f00'0000'1000;
constexpr std::uint64_t flag = 0x7f00'0080'0000;

}  // namespace

TEST_CASE("Stores and loads around a barrier are ordered", "[checker]") {
  Script s;
  for (int round = 0; round < 3; ++round) {
    for (int w = 0; w < 8; ++w) s.at(1).store(warp(w), out + 128 * static_cast<unsigned>(w));
    s.sync_cta();
    for (int w = 0; w < 8; ++w) s.at(2).load(warp(w), out + 128 * static_cast<unsigned>(7 - w));
    s.sync_cta();
  }
  CHECK(s.end().empty());
}

TEST_CASE("Without a barrier a load races with the store, in either order", "[checker]") {
  Script after;
  after.at(1).store(warp(0), out);
  after.at(2).load(warp(1), out);
  CHECK(after.sentence() ==
        "reads 4 bytes at `out` that warp 0 of CTA 0 (lane 0) writes at kernel.cu:1: nothing "
        "orders the two.");
  CHECK(after.end() == Names{"shared-race"});

  Script before;
  before.at(1).store(warp(1), out);
  before.sync_cta();
  before.at(2).load(warp(0), out);
  before.at(3).store(warp(1), out);
  CHECK(before.sentence() ==
        "writes 4 bytes at `out` that warp 0 of CTA 0 (lane 0) reads at kernel.cu:2: nothing "
        "orders the two.");
}

TEST_CASE("Neighbours in one granule do not race", "[checker]") {
  for (const std::uint32_t bytes : {1u, 2u, 4u, 8u}) {
    Script s;
    for (int round = 0; round < 2; ++round) {  // each thread updates its own element in place
      for (int w = 0; w < 4; ++w) {
        const std::uint32_t first = out + 32 * bytes * static_cast<unsigned>(w) + bytes;
        s.at(1).store(warp(w), first, bytes, bytes);
        s.at(2).load(warp(w), first, bytes, bytes);
        s.at(3).store(warp(w), first, bytes, bytes);
      }
    }
    INFO(bytes);
    CHECK(s.end().empty());
  }
}

TEST_CASE("Bytes of one word that two warps share are told apart", "[checker]") {
  Script s;
  s.at(1).store(lane(0, 0), out, 1, 1);
  s.at(2).store(lane(1, 0), out + 1, 1, 1);
  s.at(3).load(lane(0, 0), out, 1, 1);
  s.at(4).load(lane(1, 0), out + 1, 1, 1);
  CHECK(s.findings().empty());
  s.at(5).load(lane(1, 0), out, 1, 2);
  CHECK(s.end() == Names{"shared-race"});
}

TEST_CASE("Lanes of a warp need __syncwarp to exchange data", "[checker]") {
  const auto play = [](bool syncs) {
    Script s;
    s.at(1).store(warp(0), out);
    if (syncs) s.sync_warp(warp(0));
    s.at(2).load(warp(0), out + 4);  // lane i reads what lane i + 1 wrote
    return s.end();
  };
  CHECK(play(true) == Names{"unwritten-read"});  // the last lane reads beyond
  const Names broken = play(false);
  CHECK(std::find(broken.begin(), broken.end(), "shared-race") != broken.end());
}

TEST_CASE("Lanes that write the same bytes in one instruction do not race", "[checker]") {
  Script s;
  s.at(1).store(warp(0), out, 0);
  s.sync_warp(warp(0));
  s.at(2).load(warp(0), out, 0);
  CHECK(s.end().empty());
}

TEST_CASE("An arrive speaks for its lane and for what __syncwarp ordered before it", "[checker]") {
  const auto play = [](bool syncs, bool writes_late) {
    Script s;
    s.at(1).init(lane(0, 0), script::full(0), 1);
    s.sync_cta();
    s.at(2).store(warp(0), out);
    if (syncs) s.sync_warp(warp(0));
    if (writes_late) s.at(3).store(lane(0, 5), out + 256);
    s.at(4).arrive(lane(0, 0), script::full(0));
    s.at(5).wait(warp(1), script::full(0));
    s.at(6).load(warp(1), writes_late ? out + 256 : out, writes_late ? 0 : 4);
    return s.end();
  };
  CHECK(play(true, false).empty());
  CHECK(play(false, false) == Names{"shared-race"});
  CHECK(play(true, true) == Names{"shared-race"});
}

TEST_CASE("Shared memory that nothing wrote must not be read", "[checker]") {
  Script s;
  s.at(1).store(warp(0), out, 4, 4);
  s.sync_cta();
  s.at(2).load(lane(1, 0), out + 124, 4, 8);
  CHECK(s.sentence() == "reads `out` + 128, where nothing has been written.");
  CHECK(s.end() == Names{"unwritten-read"});

  // A new CTA starts anew.
  Script two(Shape{.ctas = 2});
  two.at(1).store(warp(0, 0), out);
  two.at(2).load(warp(0, 1), out);
  CHECK(two.end() == Names{"unwritten-read"});
}

// ---- Global memory.

TEST_CASE("Global memory that a launch only reads has no findings", "[checker]") {
  Script s(Shape{.ctas = 2});
  for (std::uint32_t cta = 0; cta < 2; ++cta) s.at(1).load_global(warp(0, cta), data);
  s.at(2).store_global(warp(0, 0), data + 4096);
  s.at(3).store_global(warp(0, 1), data + 4096 + 128);
  CHECK(s.end().empty());
}

TEST_CASE("Global accesses of two CTAs race without a flag", "[checker]") {
  Script read(Shape{.ctas = 2});
  read.at(1).store_global(warp(0, 0), data);
  read.at(2).load_global(warp(0, 1), data);
  CHECK(read.sentence() ==
        "reads 4 bytes of global memory that warp 0 of CTA 0 (lane 0) writes at kernel.cu:1: "
        "nothing orders the two.");
  CHECK(read.end() == Names{"global-race"});

  Script write(Shape{.ctas = 2});
  write.at(1).store_global(warp(0, 0), data);
  write.at(2).store_global(warp(0, 1), data);
  CHECK(write.end() == Names{"global-race"});

  Script within;
  within.at(1).store_global(warp(0), data);
  within.sync_cta();
  within.at(2).load_global(warp(1), data);
  CHECK(within.end().empty());
}

namespace {

/// CTA 0 writes data and sets a flag; CTA 1 reads the flag and then the data.
struct Flag {
  Order set = Order::release;
  Scope set_scope = Scope::gpu;
  Access set_access = Access::write;
  bool fences_before = false;
  bool all_fence_before = false;
  Order get = Order::acquire;
  Scope get_scope = Scope::gpu;
  bool fences_behind = false;
  bool all_fence_behind = false;
  Scope fence_scope = Scope::gpu;
  bool syncs = true;
  std::uint32_t ctas_per_cluster = 1;
};

Names play(const Flag& f) {
  Script s(Shape{.ctas = 2, .ctas_per_cluster = f.ctas_per_cluster});
  for (int w = 0; w < 8; ++w) {
    s.at(1).store_global(warp(w, 0), data + 128 * static_cast<unsigned>(w));
    if (f.all_fence_before) s.fence(warp(w, 0), FenceKind::memory, f.fence_scope);
  }
  if (f.syncs) s.sync_cta(0);
  if (f.fences_before) s.at(2).fence(lane(0, 0, 0), FenceKind::memory, f.fence_scope);
  s.at(3, "red.global.add.u32");
  s.strong_global(lane(0, 0, 0), flag, f.set_access, f.set, f.set_scope);
  s.at(4, "ld.global.u32");
  s.strong_global(lane(0, 0, 1), flag, Access::read, f.get, f.get_scope);
  if (f.fences_behind) s.at(5).fence(lane(0, 0, 1), FenceKind::memory, f.fence_scope);
  if (f.syncs) s.sync_cta(1);
  for (int w = 0; w < 8; ++w) {
    if (f.all_fence_behind) s.fence(warp(w, 1), FenceKind::memory, f.fence_scope);
    s.at(6).load_global(warp(w, 1), data + 128 * static_cast<unsigned>(7 - w));
  }
  return s.end();
}

}  // namespace

TEST_CASE("A flag that is released and acquired orders data", "[checker]") {
  CHECK(play({}).empty());
  CHECK(play({.set_access = Access::atomic}).empty());
  CHECK(play({.set_scope = Scope::system, .get_scope = Scope::system}).empty());
}

TEST_CASE("Fences make relaxed flags strong, wherever they stand on the way", "[checker]") {
  const Access atomic = Access::atomic;
  const Order relaxed = Order::relaxed;
  CHECK(play({.set = relaxed, .fences_before = true}).empty());
  CHECK(play({.set = relaxed, .set_access = atomic, .fences_before = true}).empty());
  CHECK(play({.get = relaxed, .fences_behind = true}).empty());
  CHECK(play({.set = relaxed, .all_fence_before = true, .get = relaxed, .fences_behind = true})
            .empty());
  CHECK(play({.set = relaxed, .all_fence_before = true, .get = relaxed, .all_fence_behind = true})
            .empty());
}

TEST_CASE("A flag that is too weak does not order data", "[checker]") {
  const Names weak{"insufficient-flag"};
  CHECK(play({.set = Order::relaxed}) == weak);
  CHECK(play({.set = Order::relaxed, .set_access = Access::atomic}) == weak);
  CHECK(play({.get = Order::relaxed}) == weak);
  CHECK(play({.set_scope = Scope::cluster}) == weak);
  CHECK(play({.set = Order::relaxed, .fences_before = true, .fence_scope = Scope::cta}) == weak);
  CHECK(play({.get = Order::relaxed, .fences_behind = true, .fence_scope = Scope::cluster}) ==
        weak);
  // In a cluster its scope is enough.
  CHECK(play({.set_scope = Scope::cluster, .get_scope = Scope::cluster, .ctas_per_cluster = 2})
            .empty());
}

TEST_CASE("A flag carries what its thread has been ordered after, and no more", "[checker]") {
  CHECK(play({.syncs = false}) == Names{"global-race"});
}

TEST_CASE("A plain flag is a race itself", "[checker]") {
  Script s(Shape{.ctas = 2});
  s.at(1).store_global(lane(0, 0, 0), flag);
  s.at(2).load_global(lane(0, 0, 1), flag);
  CHECK(s.end() == Names{"global-race"});
}

TEST_CASE("What another CTA may still read must not be written again", "[checker]") {
  const auto play = [](bool tells) {
    Script s(Shape{.ctas = 2});
    const std::uint64_t done = flag + 128;
    s.at(1).store_global(lane(0, 0, 0), data);
    s.at(2, "red.global.add.u32");
    s.strong_global(lane(0, 0, 0), flag, Access::atomic, Order::release, Scope::gpu);
    s.at(3, "ld.global.u32");
    s.strong_global(lane(0, 0, 1), flag, Access::read, Order::acquire, Scope::gpu);
    s.at(4).load_global(lane(0, 0, 1), data);
    if (tells) {
      s.at(5, "red.global.add.u32");
      s.strong_global(lane(0, 0, 1), done, Access::atomic, Order::release, Scope::gpu);
      s.at(6, "ld.global.u32");
      s.strong_global(lane(0, 0, 0), done, Access::read, Order::acquire, Scope::gpu);
    }
    s.at(7).store_global(lane(0, 0, 0), data);
    if (!tells) {
      CHECK(s.sentence() ==
            "writes 4 bytes of global memory that warp 0 of CTA 1 (lane 0) reads at kernel.cu:4: "
            "nothing orders the two.");
    }
    return s.end();
  };
  CHECK(play(true).empty());
  CHECK(play(false) == Names{"global-race"});
}

TEST_CASE("Volatile accesses are relaxed ones of the widest scope", "[checker]") {
  Script s(Shape{.ctas = 2});
  s.at(1).store_global(lane(0, 0, 0), data);
  s.fence(lane(0, 0, 0), FenceKind::memory);
  s.at(2, "st.volatile.global.u32").store_global(lane(0, 0, 0), flag);
  s.at(3, "ld.volatile.global.u32").load_global(lane(0, 0, 1), flag);
  s.fence(lane(0, 0, 1), FenceKind::memory);
  s.at(4).load_global(lane(0, 0, 1), data);
  CHECK(s.end().empty());
}

TEST_CASE("Atomics do not race with each other, unless a scope is too narrow", "[checker]") {
  const auto add = [](Scope scope) {
    Script s(Shape{.ctas = 2});
    for (std::uint32_t cta = 0; cta < 2; ++cta) {
      s.at(1, "red.global.add.f32");
      s.strong_global(warp(0, cta), data, Access::atomic, Order::relaxed, scope);
    }
    return s.end();
  };
  CHECK(add(Scope::gpu).empty());
  CHECK(add(Scope::cta) == Names{"insufficient-flag"});
}

TEST_CASE("A plain read of a sum must be ordered after all that add to it", "[checker]") {
  // CTA 1 adds last: it may read its own sum, but not what CTA 0 has added.
  const auto play_sum = [](bool orders) {
    Script s(Shape{.ctas = 2});
    s.at(1, "red.global.add.f32");
    s.strong_global(lane(0, 0, 0), data, Access::atomic, Order::relaxed, Scope::gpu);
    if (orders) {
      s.at(2, "atom.global.add.u32");
      s.strong_global(lane(0, 0, 0), flag, Access::atomic, Order::acq_rel, Scope::gpu);
    }
    s.at(3, "red.global.add.f32");
    s.strong_global(lane(0, 0, 1), data, Access::atomic, Order::relaxed, Scope::gpu);
    if (orders) {
      s.at(4, "atom.global.add.u32");
      s.strong_global(lane(0, 0, 1), flag, Access::atomic, Order::acq_rel, Scope::gpu);
    }
    s.at(5).load_global(lane(0, 0, 1), data);
    return s.end();
  };
  CHECK(play_sum(true).empty());
  CHECK(play_sum(false) == Names{"global-race"});
}

TEST_CASE("The last of several CTAs that count may read what all have written", "[checker]") {
  constexpr std::uint32_t ctas = 4;
  Script s(Shape{.ctas = ctas});
  const auto part = [](std::uint32_t cta, int w) {
    return data + 4096 * cta + 128 * static_cast<unsigned>(w);
  };
  for (std::uint32_t cta = 0; cta < ctas; ++cta) {
    for (int w = 0; w < 8; ++w) s.at(1).store_global(warp(w, cta), part(cta, w));
    s.sync_cta(cta);
    s.at(2, "atom.global.add.u32");
    s.strong_global(lane(0, 0, cta), flag, Access::atomic, Order::acq_rel, Scope::gpu);
    s.sync_cta(cta);
  }
  for (std::uint32_t cta = 0; cta < ctas; ++cta) {
    s.at(3).load_global(warp(5, ctas - 1), part(cta, 5));
  }
  CHECK(s.findings().empty());
  // An earlier one may not.
  s.at(4).load_global(warp(5, 0), part(3, 5));
  CHECK(s.end() == Names{"global-race"});
}

TEST_CASE("A store to a flag begins a new sequence", "[checker]") {
  Script s(Shape{.ctas = 3});
  s.at(1).store_global(lane(0, 0, 0), data);
  s.at(2).strong_global(lane(0, 0, 0), flag, Access::write, Order::release, Scope::gpu);
  s.at(3).strong_global(lane(0, 0, 1), flag, Access::write, Order::release, Scope::gpu);
  s.at(4).strong_global(lane(0, 0, 2), flag, Access::read, Order::acquire, Scope::gpu);
  s.at(5).load_global(lane(0, 0, 2), data);
  CHECK(s.end() == Names{"global-race"});
}

TEST_CASE("Flags work in shared memory too", "[checker]") {
  const auto play_shared = [](Order get) {
    Script s;
    s.at(1).store(lane(0, 0), out);
    s.at(2).strong(lane(0, 0), tile(0), Access::write, Order::release, Scope::cta);
    s.at(3).strong(lane(1, 0), tile(0), Access::read, get, Scope::cta);
    s.at(4).load(lane(1, 0), out);
    return s.end();
  };
  CHECK(play_shared(Order::acquire).empty());
  CHECK(play_shared(Order::relaxed) == Names{"insufficient-scope"});
}

TEST_CASE("Who has seen a flag may reset it with a plain store", "[checker]") {
  const auto play_reset = [](const std::string& opcode, Access access) {
    Script s(Shape{.ctas = 2});
    for (std::uint32_t cta = 0; cta < 2; ++cta) {
      s.at(1).fence(lane(0, 0, cta), FenceKind::memory);
      s.at(2, "red.global.add.u32");
      s.strong_global(lane(0, 0, cta), flag, Access::atomic, Order::relaxed, Scope::gpu);
    }
    s.at(3, opcode).strong_global(lane(0, 0, 1), flag, access, Order::relaxed, Scope::gpu);
    s.at(4).store_global(lane(0, 0, 1), flag);
    return s.end();
  };
  CHECK(play_reset("ld.relaxed.gpu.global.u32", Access::read).empty());
  CHECK(play_reset("atom.global.add.u32", Access::atomic).empty());
  CHECK(play_reset("red.global.add.u32", Access::atomic) == Names{"global-race"});
}

TEST_CASE("A spinning reader learns nothing new until its flag changes", "[checker]") {
  Script s(Shape{.ctas = 2});
  const auto spin = [&] {
    s.at(3);
    for (int i = 0; i < 1000; ++i) {
      s.strong_global(lane(0, 0, 1), flag, Access::read, Order::acquire, Scope::gpu);
    }
  };
  s.at(1).store_global(lane(0, 0, 0), data);
  s.at(2).strong_global(lane(0, 0, 0), flag, Access::write, Order::release, Scope::gpu);
  spin();
  s.at(4).load_global(lane(0, 0, 1), data);
  s.at(5).store_global(lane(0, 0, 0), data + 64);
  s.at(2).strong_global(lane(0, 0, 0), flag, Access::write, Order::release, Scope::gpu);
  spin();
  s.at(6).load_global(lane(0, 0, 1), data + 64);
  CHECK(s.end().empty());
}

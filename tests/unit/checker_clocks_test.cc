// The clocks and the shadow memory that the checker is made of.
#include <utility>
#include <vector>

#include "common/emulator/clocks.h"
#include "common/emulator/shadow.h"
#include "tests/catch.h"

namespace {

using emulator::all_bytes;
using emulator::By;
using emulator::ByteMask;
using emulator::GlobalShadow;
using emulator::Granule;
using emulator::Known;
using emulator::KnownAccesses;
using emulator::LaneMask;
using emulator::Scope;
using emulator::SharedShadow;
using emulator::Stamp;
using emulator::Times;
using emulator::Transfer;
using emulator::VectorClock;
using emulator::WarpClocks;

constexpr LaneMask all = 0xFFFFFFFF;

WarpClocks warp_clocks(std::uint32_t warp, std::uint32_t cluster = 0) {
  WarpClocks clocks;
  clocks.reset(cluster, warp);
  return clocks;
}

Stamp by_lanes(std::uint32_t warp, std::uint32_t time, ByteMask bytes, LaneMask lanes) {
  Stamp stamp;
  stamp.by = By::thread;
  stamp.who = warp;
  stamp.time = time;
  stamp.bytes = bytes;
  for (int word = 0; word < 4; ++word) {
    if ((bytes >> (4 * word) & 0xF) != 0) stamp.lanes[word] = lanes;
  }
  return stamp;
}

Stamp atomic(std::uint32_t warp, std::uint32_t time, ByteMask bytes) {
  Stamp stamp = by_lanes(warp, time, bytes, 1);
  stamp.atomic = true;
  return stamp;
}

std::vector<Stamp> writes(Granule& granule, ByteMask bytes = all_bytes) {
  std::vector<Stamp> result;
  granule.for_each_write(bytes, [&](const Stamp& stamp) { result.push_back(stamp); });
  return result;
}

std::vector<Stamp> reads(Granule& granule, ByteMask bytes = all_bytes) {
  std::vector<Stamp> result;
  granule.for_each_read(bytes, [&](const Stamp& stamp) { result.push_back(stamp); });
  return result;
}

}  // namespace

TEST_CASE("A vector of times keeps the largest of each entry", "[checker]") {
  Times a;
  CHECK(a[1000] == 0);
  a.raise(3, 7);
  a.raise(3, 5);
  CHECK(a[3] == 7);
  Times b;
  b.raise(3, 6);
  b.raise(40, 2);
  a.join(b);
  CHECK(a[3] == 7);
  CHECK(a[40] == 2);
  b.join(a);
  CHECK(b[3] == 7);
  a.join(a);
  CHECK(a[40] == 2);
}

TEST_CASE("A release tells of the lanes that release, an acquire tells the lanes that acquire",
          "[checker]") {
  WarpClocks writer = warp_clocks(1);
  const std::uint32_t before = writer.time();
  VectorClock barrier(0);
  writer.release(1u << 4, barrier);
  CHECK(writer.time() == before + 1);

  WarpClocks reader = warp_clocks(2);
  reader.acquire(1u << 9, barrier);
  CHECK(reader.witness(9).knows(Known::data, 0, 1, 1u << 4, before));
  CHECK_FALSE(reader.witness(9).knows(Known::data, 0, 1, 1u << 5, before));
  CHECK_FALSE(reader.witness(9).knows(Known::data, 0, 1, 1u << 4, before + 1));
  CHECK_FALSE(reader.witness(8).knows(Known::data, 0, 1, 1u << 4, before));
  CHECK(reader.witness().knows(Known::data, 0, 1, 1u << 4, before));

  reader.meet(all);
  CHECK(reader.witness(8).knows(Known::data, 0, 1, 1u << 4, before));
}

TEST_CASE("Lanes know themselves by program order, and each other after they have met",
          "[checker]") {
  WarpClocks clocks = warp_clocks(0);
  const std::uint32_t now = clocks.time();
  CHECK(clocks.witness(3).knows(Known::data, 0, 0, 1u << 3, now));
  CHECK_FALSE(clocks.witness(3).knows(Known::data, 0, 0, 1u << 4, now));
  clocks.meet(0b11000);
  CHECK(clocks.witness(3).knows(Known::data, 0, 0, 1u << 4, now));
  CHECK_FALSE(clocks.witness(5).knows(Known::data, 0, 0, 1u << 4, now));
  // Lanes that have exited need not be there.
  clocks.exit(0xFFFF0000);
  clocks.meet(0x0000FFFF);
  CHECK(clocks.common_witness().knows(Known::data, 0, 0, 1u << 4, now));
}

TEST_CASE("An order alone lets no write be seen", "[checker]") {
  WarpClocks writer = warp_clocks(1);
  const std::uint32_t now = writer.time();
  VectorClock barrier(0);
  writer.release(all, barrier, Transfer::order());
  WarpClocks reader = warp_clocks(2);
  reader.acquire(all, barrier);
  CHECK(reader.witness().knows(Known::order, 0, 1, all, now));
  CHECK_FALSE(reader.witness().knows(Known::data, 0, 1, all, now));
}

TEST_CASE("A fence shows what came before it, not what comes behind", "[checker]") {
  WarpClocks clocks = warp_clocks(1);
  const std::uint32_t before = clocks.time();
  clocks.fence(all, Known::proxy_shared);
  const std::uint32_t behind = clocks.time();
  CHECK(behind > before);
  CHECK(clocks.witness(0).knows(Known::proxy_shared, 0, 1, 1, before));
  CHECK_FALSE(clocks.witness(0).knows(Known::proxy_shared, 0, 1, 1, behind));
}

TEST_CASE("Relaxed operations carry what was fenced before, to fences behind", "[checker]") {
  WarpClocks writer = warp_clocks(1);
  const std::uint32_t fenced = writer.time();
  writer.fence(all, Known::fenced_gpu);
  const std::uint32_t behind = writer.time();
  VectorClock flag(0);
  writer.release(all, flag);

  WarpClocks reader = warp_clocks(2);
  reader.acquire(all, flag, Transfer::fenced(Scope::gpu));
  CHECK(reader.witness().knows(Known::data, 0, 1, all, fenced));
  CHECK_FALSE(reader.witness().knows(Known::data, 0, 1, all, behind));

  WarpClocks observer = warp_clocks(3);
  observer.acquire(all, flag, Transfer::fenced(Scope::gpu).observed(Scope::gpu));
  CHECK_FALSE(observer.witness().knows(Known::data, 0, 1, all, fenced));
  observer.admit(all, Known::observed_cta);
  CHECK_FALSE(observer.witness().knows(Known::data, 0, 1, all, fenced));
  observer.admit(all, Known::observed_gpu);
  CHECK(observer.witness().knows(Known::data, 0, 1, all, fenced));
}

TEST_CASE("Clocks keep other clusters apart", "[checker]") {
  WarpClocks writer = warp_clocks(1, 7);
  const std::uint32_t now = writer.time();
  VectorClock flag(7);
  writer.release(all, flag);
  WarpClocks reader = warp_clocks(1, 3);
  reader.acquire(1, flag);
  CHECK(reader.witness(0).knows(Known::data, 7, 1, all, now));
  CHECK_FALSE(reader.witness(0).knows(Known::data, 3, 1, 2, now));

  // On to a third one, and back.
  VectorClock next(3);
  reader.release(1, next);
  WarpClocks third = warp_clocks(0, 5);
  third.acquire(all, next);
  CHECK(third.witness().knows(Known::data, 7, 1, all, now));
  CHECK(third.witness().knows(Known::data, 3, 1, 1, reader.time() - 1));
  VectorClock back(5);
  third.release(all, back);
  WarpClocks fresh = warp_clocks(0, 7);
  fresh.acquire(all, back);
  CHECK(fresh.witness().knows(Known::data, 7, 1, all, now));
}

TEST_CASE("More groups of lanes than are kept apart are taken together", "[checker]") {
  WarpClocks clocks = warp_clocks(0);
  for (int lane = 0; lane < 20; ++lane) {
    clocks.learn(1u << lane, 5000, static_cast<std::uint32_t>(lane + 1));
  }
  for (int lane = 0; lane < 20; ++lane) {
    INFO(lane);
    CHECK(clocks.witness(lane).fact(Known::order, 0, 5000) >= static_cast<unsigned>(lane + 1));
  }
}

// ---- Shadow memory.

TEST_CASE("A granule tells writers of different bytes apart", "[checker]") {
  Granule granule;
  granule.record_write(by_lanes(0, 1, 0x000F, 1));
  granule.record_write(by_lanes(1, 1, 0x00F0, 2));
  CHECK(granule.written() == 0x00FF);
  REQUIRE(writes(granule, 0x00F0).size() == 1);
  CHECK(writes(granule, 0x00F0)[0].who == 1);

  // Lanes of one instruction share a stamp, word by word.
  granule.record_write(by_lanes(2, 5, 0x0F00, 4));
  granule.record_write(by_lanes(2, 5, 0xF000, 8));
  REQUIRE(writes(granule, 0xFF00).size() == 1);
  CHECK(writes(granule, 0xFF00)[0].lanes_at(0x0F00) == 4);
  CHECK(writes(granule, 0xFF00)[0].lanes_at(0xFF00) == 12);

  // Parts of a word need a stamp each.
  granule.record_write(by_lanes(3, 1, 0x0001, 1));
  granule.record_write(by_lanes(3, 1, 0x0002, 2));
  CHECK(writes(granule, 0x0001)[0].lanes_at(0x0001) == 1);
  CHECK(writes(granule, 0x0002)[0].lanes_at(0x0002) == 2);

  granule.record_write(by_lanes(4, 1, all_bytes, 1));
  CHECK(writes(granule).size() == 1);
}

TEST_CASE("Atomics of several warps stay beside each other until a write", "[checker]") {
  Granule granule;
  for (std::uint32_t warp = 0; warp < 3; ++warp) granule.record_write(atomic(warp, 1, 0x000F));
  granule.record_write(atomic(1, 2, 0x000F));
  CHECK(writes(granule).size() == 3);
  granule.record_write(by_lanes(5, 1, 0x000F, 1));
  CHECK(writes(granule).size() == 1);
  for (std::uint32_t warp = 0; warp < 1000; ++warp) granule.record_write(atomic(warp, 1, 0x000F));
  CHECK(writes(granule).size() < 100);
}

TEST_CASE("A write ends the reads before it, of its own bytes only", "[checker]") {
  Granule granule;
  granule.record_write(by_lanes(0, 1, all_bytes, 1));
  granule.record_read(by_lanes(1, 1, 0x00FF, 1));
  granule.record_read(by_lanes(2, 1, 0xFF00, 1));
  granule.record_write(by_lanes(0, 2, 0x000F, 1));
  CHECK(reads(granule, 0x000F).empty());
  CHECK(reads(granule, 0x00F0).size() == 1);
  CHECK(reads(granule, 0xFF00).size() == 1);
}

TEST_CASE("A later read of the same lanes replaces the earlier one", "[checker]") {
  Granule granule;
  for (std::uint32_t time = 1; time < 50; ++time) {
    granule.record_read(by_lanes(1, time, 0x000F, 1));
    granule.record_read(by_lanes(1, time, 0x00F0, 2));
    granule.record_read(by_lanes(2, time, 0x00FF, all));
  }
  CHECK(reads(granule).size() <= 3);
  for (const Stamp& stamp : reads(granule)) CHECK(stamp.time == 49);
}

TEST_CASE("What is known of an access holds for earlier ones of the same agent", "[checker]") {
  KnownAccesses known;
  const Stamp stamp = by_lanes(3, 9, all_bytes, all);
  CHECK_FALSE(known.contains(stamp));
  known.add(stamp);
  CHECK(known.contains(stamp));
  CHECK(known.contains(by_lanes(3, 8, 1, 1)));
  CHECK_FALSE(known.contains(by_lanes(3, 10, 1, 1)));
  CHECK_FALSE(known.contains(by_lanes(4, 9, 1, 1)));
}

TEST_CASE("A region of shared memory dissolves when a granule of it is looked at", "[checker]") {
  SharedShadow shadow;
  shadow.reset(1000);
  CHECK(shadow.granule(992) != nullptr);
  CHECK(shadow.granule(1024) == nullptr);
  const Stamp stamp = by_lanes(6, 2, all_bytes, 1);
  for (std::uint32_t i = 0; i < 512; i += emulator::line_bytes) {
    shadow.write(*shadow.line(i), stamp);
  }
  shadow.cover(0, 512, stamp);
  REQUIRE(shadow.region(128, 64) != nullptr);
  CHECK(shadow.region(480, 64) == nullptr);
  shadow.region(128, 64)->write.time = 3;
  CHECK(writes(*shadow.granule(256))[0].time == 3);
  CHECK(shadow.region(128, 64) == nullptr);
  CHECK(writes(*shadow.granule(0))[0].time == 3);

  shadow.reset(1000);
  CHECK(shadow.granule(256)->written() == 0);
}

TEST_CASE("Global memory that was never written is told quickly", "[checker]") {
  GlobalShadow shadow;
  constexpr std::uint64_t address = 0x7f12'3456'7890;
  CHECK_FALSE(shadow.may_hold(address, 0xFFF));
  CHECK(shadow.find(address) == nullptr);
  shadow.make(address).record_write(by_lanes(0, 1, 1, 1));
  CHECK(shadow.may_hold(address, 0));
  REQUIRE(shadow.find(address) != nullptr);
  CHECK(shadow.find(address)->written() == 1);
  CHECK(shadow.find(address + 4096) == nullptr);
  CHECK_FALSE(shadow.may_hold(address + (1 << 20), 0xFF));
}

TEST_CASE("A range is divided into granules", "[checker]") {
  std::vector<std::pair<std::uint64_t, ByteMask>> parts;
  emulator::for_each_granule(
      30, 20, [&](std::uint64_t start, ByteMask mask) { parts.emplace_back(start, mask); });
  CHECK(parts == std::vector<std::pair<std::uint64_t, ByteMask>>{
                     {16, ByteMask{0xC000}}, {32, all_bytes}, {48, ByteMask{0x0003}}});
}

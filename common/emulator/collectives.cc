// What the lanes of a warp do together. PTX ISA 9.7.9.6 to 9.7.9.11, 9.7.13.3, 9.7.13.12, 9.7.14.5.
#include <algorithm>

#include "common/emulator/arithmetic.h"
#include "common/emulator/decode.h"
#include "common/emulator/execution.h"
#include "common/emulator/fault.h"
#include "common/emulator/fragments.h"
#include "common/emulator/memory.h"
#include "common/emulator/memory_access.h"
#include "common/emulator/opcode.h"

namespace emulator {

namespace {

/// Waits for the lanes that the membermask `slot` of the lanes here names. Lanes may name different
/// masks: each waits for all that any of them names.
bool gather_members(Warp& warp, const Op& op, Slot slot) {
  const Row<u32> masks = warp.row<u32>(slot);
  LaneMask members = 0;
  for_each_lane(warp.lanes, [&](int lane) {
    members |= masks[lane];
    if ((masks[lane] >> lane & 1) != 0) return;
    fault(warp, op, lane_bit(lane), "divergent-aligned",
          "executes a .sync instruction whose membermask " + hex(masks[lane]) +
              " does not have its own lane: that is undefined.");
  });
  return warp.gather(op, members);
}

void report_meeting(Warp& warp, const Op& op) {
  if (Observer* const observer = warp.execution().observer()) observer->warp_sync(warp.site(op));
}

// ---- bar.warp.sync. Lanes may meet that execute it at different places.

Flow sync_warp(Warp& warp, const Op& op) {
  const LaneMask members = warp.row<u32>(op.a)[first_lane(warp.lanes)] & warp.live();
  const auto waits_here_too = [&](const Split& split) {
    return split.wait.kind == Wait::Kind::lanes && split.wait.op->run == sync_warp &&
           (split.wait.mask & warp.live()) == members;
  };
  LaneMask met = warp.lanes;
  for (const Split& split : warp.others()) {
    if (waits_here_too(split)) met |= split.lanes;
  }
  if ((members & ~met) != 0) {
    gather_members(warp, op, op.a);
    return Flow::leave;
  }
  for (Split& split : warp.others()) {
    if (!waits_here_too(split)) continue;
    ++split.pc;
    split.wait.kind = Wait::Kind::none;
  }
  if (Observer* const observer = warp.execution().observer()) {
    observer->warp_sync(warp.site(op, met));
  }
  return Flow::next;
}

// ---- shfl. Op::a value, b lane, c clamp and segment mask, e membermask.

enum Shuffle : u8 { up, down, butterfly, index };

struct SourceLane {
  int lane;
  bool in_range;
};

SourceLane shuffle_source(u8 mode, int lane, u32 b, u32 c) {
  const auto own = static_cast<u32>(lane);
  const u32 distance = b & 31;
  const u32 clamp = c & 31;
  const u32 segment = c >> 8 & 31;
  const u32 last = (own & segment) | (clamp & ~segment);
  const u32 first = own & segment;
  u32 from = own;
  bool in_range = false;
  switch (mode) {
    case up:
      from = own - distance;
      in_range = static_cast<s32>(from) >= static_cast<s32>(last);
      break;
    case down:
      from = own + distance;
      in_range = from <= last;
      break;
    case butterfly:
      from = own ^ distance;
      in_range = from <= last;
      break;
    default:
      from = first | (distance & ~segment);
      in_range = from <= last;
  }
  return {static_cast<int>(in_range ? from : own), in_range};
}

Flow shuffle(Warp& warp, const Op& op) {
  if (!gather_members(warp, op, op.e)) return Flow::leave;
  report_meeting(warp, op);
  const Row<u32> a = warp.row<u32>(op.a);
  const Row<u32> b = warp.row<u32>(op.b);
  const Row<u32> c = warp.row<u32>(op.c);
  u32 values[warp_size];
  LaneMask in_range = 0;
  for_each_lane(warp.lanes, [&](int lane) {
    const SourceLane source = shuffle_source(op.mode, lane, b[lane], c[lane]);
    values[lane] = a[source.lane];
    if (source.in_range) in_range |= lane_bit(lane);
  });
  const Row<u32> d = warp.row<u32>(op.d);
  for_each_lane(warp.lanes, [&](int lane) { d.set(lane, values[lane]); });
  if (op.d2 != no_slot) warp.set_predicate(op.d2, in_range);
  return Flow::next;
}

void build_shuffle(InstructionDecoder& d) {
  d.expect_operands(5, 5);
  const auto pair = d.destination_pair(d.operand(0), 32, 1);
  d.op.d = pair.first;
  d.op.d2 = pair.second;
  d.op.a = d.source(d.operand(1), 32);
  d.op.b = d.source(d.operand(2), 32);
  d.op.c = d.source(d.operand(3), 32);
  d.op.e = d.source(d.operand(4), 32);
  d.op.mode = static_cast<u8>(d.choose({"up", "down", "bfly", "idx"}));
  d.op.run = shuffle;
}

// ---- vote. Op::a predicate, b membermask.

enum Vote : u8 { all, any, uniform, ballot };

Flow vote(Warp& warp, const Op& op) {
  if (!gather_members(warp, op, op.b)) return Flow::leave;
  report_meeting(warp, op);
  const LaneMask given = op.negated ? ~warp.predicate(op.a) : warp.predicate(op.a);
  const Row<u32> masks = warp.row<u32>(op.b);
  LaneMask result = 0;
  for_each_lane(warp.lanes, [&](int lane) {
    const LaneMask members = masks[lane] & warp.lanes;
    const LaneMask votes = given & members;
    const bool value = op.mode == all   ? votes == members
                       : op.mode == any ? votes != 0
                                        : votes == 0 || votes == members;
    if (value) result |= lane_bit(lane);
    if (op.mode == ballot) warp.row<u32>(op.d).set(lane, votes);
  });
  if (op.mode != ballot) warp.set_predicate(op.d, result);
  return Flow::next;
}

void build_vote(InstructionDecoder& d) {
  d.expect_operands(3, 3);
  d.op.mode = static_cast<u8>(d.choose({"all", "any", "uni", "ballot"}));
  d.op.d = d.destination(d.operand(0), d.op.mode == ballot ? 32 : 1);
  d.op.a = d.predicate(d.operand(1));
  d.op.b = d.source(d.operand(2), 32);
  d.op.run = vote;
}

// ---- match. Op::a value, b membermask.

template <class T, bool all_equal>
Flow match(Warp& warp, const Op& op) {
  if (!gather_members(warp, op, op.b)) return Flow::leave;
  report_meeting(warp, op);
  const Row<T> a = warp.row<T>(op.a);
  const Row<u32> masks = warp.row<u32>(op.b);
  u32 equal[warp_size];
  for_each_lane(warp.lanes, [&](int lane) {
    equal[lane] = masks[lane] & warp.lanes & where([&](int i) { return a[i] == a[lane]; });
  });
  LaneMask agree = 0;
  const Row<u32> d = warp.row<u32>(op.d);
  for_each_lane(warp.lanes, [&](int lane) {
    const bool whole = equal[lane] == (masks[lane] & warp.lanes);
    if (whole) agree |= lane_bit(lane);
    d.set(lane, !all_equal || whole ? equal[lane] : 0);
  });
  if (op.d2 != no_slot) warp.set_predicate(op.d2, agree);
  return Flow::next;
}

void build_match(InstructionDecoder& d) {
  d.expect_operands(3, 3);
  const int bits = d.part(-1) == "b64" ? 64 : 32;
  const bool all_equal = d.has("all");
  const auto pair = d.destination_pair(d.operand(0), 32, 1);
  d.op.d = pair.first;
  d.op.d2 = pair.second;
  d.op.a = d.source(d.operand(1), bits);
  d.op.b = d.source(d.operand(2), 32);
  d.op.run = bits == 64 ? (all_equal ? match<u64, true> : match<u64, false>)
                        : (all_equal ? match<u32, true> : match<u32, false>);
}

// ---- redux. Op::a value, b membermask.

struct Sum {
  static u32 of(u32 a, u32 b) { return a + b; }
};
template <class T>
struct Least {
  static u32 of(u32 a, u32 b) { return static_cast<u32>(std::min(T(a), T(b))); }
};
template <class T>
struct Greatest {
  static u32 of(u32 a, u32 b) { return static_cast<u32>(std::max(T(a), T(b))); }
};
struct AllBits {
  static u32 of(u32 a, u32 b) { return a & b; }
};
struct AnyBits {
  static u32 of(u32 a, u32 b) { return a | b; }
};
struct OddBits {
  static u32 of(u32 a, u32 b) { return a ^ b; }
};

template <class Function>
Flow reduce(Warp& warp, const Op& op) {
  if (!gather_members(warp, op, op.b)) return Flow::leave;
  report_meeting(warp, op);
  const Row<u32> a = warp.row<u32>(op.a);
  const Row<u32> masks = warp.row<u32>(op.b);
  u32 results[warp_size];
  for_each_lane(warp.lanes, [&](int lane) {
    const LaneMask members = masks[lane] & warp.lanes;
    const int first = first_lane(members);
    u32 result = a[first];
    for_each_lane(members & ~lane_bit(first), [&](int i) { result = Function::of(result, a[i]); });
    results[lane] = result;
  });
  const Row<u32> d = warp.row<u32>(op.d);
  for_each_lane(warp.lanes, [&](int lane) { d.set(lane, results[lane]); });
  return Flow::next;
}

// ---- activemask, elect.

Flow active_mask(Warp& warp, const Op& op) {
  const LaneMask lanes = warp.lanes;
  assign_lanes(lanes, warp.row<u32>(op.d), [=](int) { return lanes; });
  return Flow::next;
}

/// elect.sync d|p, membermask: which lane is for the hardware to choose, but always the same.
Flow elect(Warp& warp, const Op& op) {
  if (!gather_members(warp, op, op.a)) return Flow::leave;
  const LaneMask members = warp.row<u32>(op.a)[first_lane(warp.lanes)] & warp.lanes;
  const int leader = warp.execution().timing().elects_last_lane()
                         ? warp_size - 1 - __builtin_clz(members)
                         : first_lane(members);
  assign_lanes(warp.lanes, warp.row<u32>(op.d), [=](int) { return static_cast<u32>(leader); });
  warp.set_predicate(op.d2, lane_bit(leader));
  return Flow::next;
}

void build_elect(InstructionDecoder& d) {
  d.expect_operands(2, 2);
  const auto pair = d.destination_pair(d.operand(0), 32, 1);
  if (pair.second == no_slot) d.fail("needs two destinations, `d|p`");
  d.op.d = pair.first;
  d.op.d2 = pair.second;
  d.op.a = d.source(d.operand(1), 32);
  d.op.run = elect;
}

// ---- ldmatrix, stmatrix. Op::list: a register a matrix; mode: transposed.

/// The rows of the matrices: 16 bytes at the address of lane 8 * matrix + row.
void resolve_rows(Warp& warp, const Op& op, Access access, LanePointers& rows) {
  const LaneMask all = warp.lanes;
  const int count = 8 * op.list_size;
  warp.lanes = count == warp_size ? all_lanes : lane_bit(count) - 1;
  resolve(warp, op, 16, access, rows);
  warp.lanes = all;
}

bool gather_whole_warp(Warp& warp, const Op& op) {
  if (warp.live() != all_lanes) {
    fault(warp, op, "divergent-aligned",
          "needs all 32 lanes of its warp, but some have exited or were never there.");
  }
  return warp.gather(op, all_lanes);
}

Flow load_matrices(Warp& warp, const Op& op) {
  if (!gather_whole_warp(warp, op)) return Flow::leave;
  LanePointers rows;
  resolve_rows(warp, op, Access::read, rows);
  const Slot* const slots = warp.execution().program().slots.data() + op.list;
  // An address register may be a destination too: `rows` holds the addresses.
  for (int matrix = 0; matrix < op.list_size; ++matrix) {
    load_matrix(rows.data() + 8 * matrix, op.mode != 0, warp.row_pointer(slots[matrix]));
  }
  return Flow::next;
}

Flow store_matrices(Warp& warp, const Op& op) {
  if (!gather_whole_warp(warp, op)) return Flow::leave;
  LanePointers rows;
  resolve_rows(warp, op, Access::write, rows);
  const Slot* const slots = warp.execution().program().slots.data() + op.list;
  for (int matrix = 0; matrix < op.list_size; ++matrix) {
    store_matrix(warp.row_pointer(slots[matrix]), op.mode != 0, rows.data() + 8 * matrix);
  }
  warp.execution().note_progress();
  return Flow::next;
}

void build_matrix_access(InstructionDecoder& d) {
  d.expect_operands(2, 2);
  const bool loads = d.part(0) == "ldmatrix";
  const Operand& registers = d.operand(loads ? 0 : 1);
  set_memory_address(d, d.operand(loads ? 1 : 0));
  const std::vector<Slot> slots =
      loads ? d.destination_list(registers, 32) : d.source_list(registers, 32);
  const std::size_t count = d.has("x1") ? 1 : d.has("x2") ? 2 : 4;
  if (slots.size() != count) d.fail("needs " + std::to_string(count) + " registers");
  d.set_list(slots);
  d.op.mode = d.has("trans") ? 1 : 0;
  d.op.cost = 8;
  d.op.run = loads ? load_matrices : store_matrices;
}

constexpr Opcode table[] = {
    {"bar.warp.sync",
     {},
     sync_warp,
     [](InstructionDecoder& d) {
       d.expect_operands(1, 1);
       d.op.a = d.source(d.operand(0), 32);
     }},
    {"shfl.sync.up|down|bfly|idx.b32", {}, nullptr, build_shuffle},
    {"vote.sync.all|any|uni.pred", {}, nullptr, build_vote},
    {"vote.sync.ballot.b32", {}, nullptr, build_vote},
    {"match.any|all.sync.b32|b64", {}, nullptr, build_match},
    {"redux.sync.add.u32|s32", "d32 s32 s32", reduce<Sum>},
    {"redux.sync.min.u32", "d32 s32 s32", reduce<Least<u32>>},
    {"redux.sync.min.s32", "d32 s32 s32", reduce<Least<s32>>},
    {"redux.sync.max.u32", "d32 s32 s32", reduce<Greatest<u32>>},
    {"redux.sync.max.s32", "d32 s32 s32", reduce<Greatest<s32>>},
    {"redux.sync.and.b32", "d32 s32 s32", reduce<AllBits>},
    {"redux.sync.or.b32", "d32 s32 s32", reduce<AnyBits>},
    {"redux.sync.xor.b32", "d32 s32 s32", reduce<OddBits>},
    {"activemask.b32", "d32", active_mask},
    {"elect.sync", {}, nullptr, build_elect},
    {"ldmatrix.sync.aligned.m8n8.x1|x2|x4.?trans.?shared|shared::cta.b16",
     {},
     nullptr,
     build_matrix_access},
    {"stmatrix.sync.aligned.m8n8.x1|x2|x4.?trans.?shared|shared::cta.b16",
     {},
     nullptr,
     build_matrix_access},
};

}  // namespace

std::span<const Opcode> collective_opcodes() {
  return table;
}

}  // namespace emulator

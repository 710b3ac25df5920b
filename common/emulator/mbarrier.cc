#include "common/emulator/mbarrier.h"

#include <algorithm>
#include <string>

#include "common/emulator/arithmetic.h"
#include "common/emulator/cta.h"
#include "common/emulator/decode.h"
#include "common/emulator/execution.h"
#include "common/emulator/fault.h"
#include "common/emulator/memory.h"
#include "common/emulator/memory_access.h"
#include "common/emulator/opcode.h"

namespace emulator {

void MbarrierTable::insert(std::uint32_t offset, const Mbarrier& barrier) {
  barriers_.insert_or_assign(offset, barrier);
  begin_ = std::min(begin_, offset);
  end_ = std::max(end_, offset + 8);
}

void MbarrierTable::clear() {
  *this = {};
}

std::optional<std::uint32_t> MbarrierTable::overlapped(std::uint32_t offset,
                                                       std::uint32_t bytes) const {
  const auto found = std::find_if(barriers_.begin(), barriers_.end(), [&](const auto& entry) {
    return entry.first < offset + bytes && offset < entry.first + 8;
  });
  if (found == barriers_.end()) return std::nullopt;
  return found->first;
}

namespace {

/// How long try_wait without a time limit of its own suspends a thread, in model nanoseconds.
constexpr std::uint64_t default_time_limit = 2'000'000;

struct Place {
  Cta* cta;
  std::uint32_t offset;
  Mbarrier* barrier;
};

std::string name(const Warp& warp, std::uint32_t offset) {
  return shared_object(warp.execution().program(), offset);
}

/// "full[0] (phase 3: 1 of 2 arrivals and 16384 bytes to come)"
std::string state(const Mbarrier& barrier) {
  return "phase " + std::to_string(barrier.phase) + ": " + std::to_string(barrier.pending) +
         " of " + counted(barrier.expected, "arrival") + " and " + std::to_string(barrier.bytes) +
         " bytes pending";
}

SharedPlace find_place(const Warp& warp, const Op& op, int lane, const LaneAddresses& addresses) {
  const auto address = op.generic
                           ? shared_from_generic(warp, op, lane, addresses[lane], "the mbarrier")
                           : static_cast<std::uint32_t>(addresses[lane]);
  // Only .shared::cluster and generic addresses may name another CTA's barriers.
  return find_shared(warp, op, lane, address, 8, 8, "the mbarrier", !op.cluster && !op.generic);
}

/// The barrier that a lane names, which must be initialized.
Place find_barrier(const Warp& warp, const Op& op, int lane, const LaneAddresses& addresses) {
  const SharedPlace place = find_place(warp, op, lane, addresses);
  Mbarrier* const barrier = place.cta->mbarriers.find(place.offset);
  if (barrier == nullptr) {
    fault(warp, op, lane_bit(lane), "barrier-not-initialized",
          "uses " + name(warp, place.offset) + " of CTA " + std::to_string(place.cta->index) +
              " as an mbarrier, but no mbarrier.init has run on it.");
  }
  return {place.cta, place.offset, barrier};
}

LaneAddresses barrier_addresses(const Warp& warp, const Op& op) {
  LaneAddresses addresses;
  lane_addresses(warp, op.a, op.wide_address, op.immediate, addresses);
  return addresses;
}

/// Completes the phase if nothing is pending.
void settle(Execution& execution, const Place& place) {
  Mbarrier& barrier = *place.barrier;
  execution.note_progress();
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  if (Observer* const observer = execution.observer()) {
    observer->mbarrier_completes(place.cta->index, place.offset, barrier.phase - 1);
  }
  for (const auto& warp : place.cta->warps) {
    warp->end_waits([&](const Split& split) {
      return split.wait.kind == Wait::Kind::mbarrier && split.wait.address == place.offset;
    });
  }
}

void add_bytes(const Warp& warp, const Op& op, int lane, const Place& place, std::int64_t bytes) {
  Mbarrier& barrier = *place.barrier;
  barrier.bytes += bytes;
  if (bytes > mbarrier_limit || barrier.bytes > mbarrier_limit || barrier.bytes < -mbarrier_limit) {
    fault(warp, op, lane_bit(lane), "expect-tx-range",
          "brings the bytes that " + name(warp, place.offset) + " expects to " +
              std::to_string(barrier.bytes) + "; the range is +-" + std::to_string(mbarrier_limit) +
              ".");
  }
}

// ---- init, inval.

Flow initialize(Warp& warp, const Op& op) {
  const LaneAddresses addresses = barrier_addresses(warp, op);
  const Row<u32> counts = warp.row<u32>(op.b);
  for_each_lane(warp.lanes, [&](int lane) {
    const SharedPlace place = find_place(warp, op, lane, addresses);
    const u32 count = counts[lane];
    if (count == 0 || count > mbarrier_limit) {
      fault(warp, op, lane_bit(lane), "mbarrier-count",
            "initializes " + name(warp, place.offset) + " for " + std::to_string(count) +
                " arrivals; the range is 1 to " + std::to_string(mbarrier_limit) + ".");
    }
    place.cta->mbarriers.insert(place.offset, {count, count, 0, 0});
    if (Observer* const observer = warp.execution().observer()) {
      observer->mbarrier_init(warp.site(op, lane_bit(lane)), place.cta->index, place.offset, count);
    }
  });
  warp.execution().note_progress();
  return Flow::next;
}

Flow invalidate(Warp& warp, const Op& op) {
  const LaneAddresses addresses = barrier_addresses(warp, op);
  for_each_lane(warp.lanes, [&](int lane) {
    const Place place = find_barrier(warp, op, lane, addresses);
    place.cta->mbarriers.erase(place.offset);
    if (Observer* const observer = warp.execution().observer()) {
      observer->mbarrier_inval(warp.site(op, lane_bit(lane)), place.cta->index, place.offset);
    }
  });
  return Flow::next;
}

// ---- arrive, expect_tx, complete_tx. Op::a address, b count (or no_slot: 1), c bytes, d state.

/// Op::mode.
constexpr u8 mode_drops = 1;
constexpr u8 mode_no_complete = 2;

/// What arrive returns and test_wait takes: the phase, and the arrivals that were pending.
constexpr int state_shift = 20;
constexpr u64 state_token(const Mbarrier& barrier) {
  return barrier.phase << state_shift | barrier.pending;
}

/// `lanes` arrive, each `count` times, with no end of a phase in between.
void arrive(Warp& warp, const Op& op, LaneMask lanes, const Place& place, u32 count) {
  Mbarrier& barrier = *place.barrier;
  const u64 total = u64{count} * static_cast<u64>(count_lanes(lanes));
  if (total > barrier.pending || count == 0) {
    fault(warp, op, lanes, "over-arrival",
          "arrives " + counted(total, "time") + " at " + name(warp, place.offset) + " of CTA " +
              std::to_string(place.cta->index) + ", which is in " + state(barrier) +
              ": more arrivals than mbarrier.init was told to expect.");
  }
  if (Observer* const observer = warp.execution().observer()) {
    observer->mbarrier_arrive(warp.site(op, lanes), place.cta->index, place.offset, barrier.phase,
                              count, op.order, op.scope);
  }
  barrier.pending -= static_cast<u32>(total);
  if ((op.mode & mode_drops) != 0) barrier.expected -= static_cast<u32>(total);
  if ((op.mode & mode_no_complete) != 0 && barrier.pending == 0 && barrier.bytes == 0) {
    fault(warp, op, lanes, "over-arrival",
          "completes the phase of " + name(warp, place.offset) +
              ", which .noComplete promises "
              "not to do.");
  }
  settle(warp.execution(), place);
}

/// Whether all lanes name the same barrier and count, so that they can arrive as one.
bool arrive_as_one(const Warp& warp, const Op& op, const LaneAddresses& addresses,
                   const Mbarrier& barrier, u32 count) {
  const int first = first_lane(warp.lanes);
  const LaneMask alike = where([&](int i) { return addresses[i] == addresses[first]; });
  if ((warp.lanes & ~alike) != 0) return false;
  if (op.b != no_slot) {
    const Row<u32> counts = warp.row<u32>(op.b);
    if ((warp.lanes & ~where([&](int i) { return counts[i] == count; })) != 0) return false;
  }
  return u64{count} * static_cast<u64>(count_lanes(warp.lanes)) <= barrier.pending;
}

Flow arrive_lanes(Warp& warp, const Op& op) {
  const LaneAddresses addresses = barrier_addresses(warp, op);
  const Row<u64> states = warp.row<u64>(op.d);
  const auto count_of = [&](int lane) {
    return op.b != no_slot ? warp.row<u32>(op.b)[lane] : u32{1};
  };
  const int first = first_lane(warp.lanes);
  const Place place = find_barrier(warp, op, first, addresses);
  const u32 count = count_of(first);
  if (op.c == no_slot && arrive_as_one(warp, op, addresses, *place.barrier, count)) {
    u64 token = state_token(*place.barrier);
    for_each_lane(warp.lanes, [&](int lane) {
      states.set(lane, token);
      token -= count;
    });
    arrive(warp, op, warp.lanes, place, count);
    return Flow::next;
  }
  for_each_lane(warp.lanes, [&](int lane) {
    const Place own = find_barrier(warp, op, lane, addresses);
    states.set(lane, state_token(*own.barrier));
    if (op.c != no_slot) {
      const u32 bytes = warp.row<u32>(op.c)[lane];
      if (Observer* const observer = warp.execution().observer()) {
        observer->mbarrier_expect(warp.site(op, lane_bit(lane)), own.cta->index, own.offset,
                                  own.barrier->phase, bytes);
      }
      add_bytes(warp, op, lane, own, bytes);
    }
    arrive(warp, op, lane_bit(lane), own, count_of(lane));
  });
  return Flow::next;
}

Flow expect_bytes(Warp& warp, const Op& op) {
  const LaneAddresses addresses = barrier_addresses(warp, op);
  const Row<u32> bytes = warp.row<u32>(op.c);
  for_each_lane(warp.lanes, [&](int lane) {
    const Place place = find_barrier(warp, op, lane, addresses);
    if (Observer* const observer = warp.execution().observer()) {
      observer->mbarrier_expect(warp.site(op, lane_bit(lane)), place.cta->index, place.offset,
                                place.barrier->phase, bytes[lane]);
    }
    add_bytes(warp, op, lane, place, bytes[lane]);
    settle(warp.execution(), place);
  });
  return Flow::next;
}

/// mbarrier.complete_tx: a thread plays the part of an asynchronous operation.
Flow complete_bytes_by_thread(Warp& warp, const Op& op) {
  const LaneAddresses addresses = barrier_addresses(warp, op);
  const Row<u32> bytes = warp.row<u32>(op.c);
  for_each_lane(warp.lanes, [&](int lane) {
    const Place place = find_barrier(warp, op, lane, addresses);
    if (Observer* const observer = warp.execution().observer()) {
      observer->mbarrier_expect(warp.site(op, lane_bit(lane)), place.cta->index, place.offset,
                                place.barrier->phase, -std::int64_t{bytes[lane]});
    }
    add_bytes(warp, op, lane, place, -std::int64_t{bytes[lane]});
    settle(warp.execution(), place);
  });
  return Flow::next;
}

void set_barrier_address(InstructionDecoder& d, const Operand& operand) {
  set_memory_address(d, operand);
  if (!d.op.generic && d.op.space != Space::shared) d.fail("needs an address in shared memory");
  d.op.cost = 4;
}

/// {state,} [address] {, count or bytes}
void build_arrive(InstructionDecoder& d) {
  const bool expects = d.has("expect_tx");
  d.expect_operands(expects ? 3 : 2, 3);
  d.op.d = d.destination(d.operand(0), 64);
  set_barrier_address(d, d.operand(1));
  if (d.operand_count() == 3) (expects ? d.op.c : d.op.b) = d.source(d.operand(2), 32);
  set_memory_order(d);
  if (d.op.order == Order::weak) d.op.order = Order::release;
  if (d.part(1) == "arrive_drop") d.op.mode |= mode_drops;
  if (d.has("noComplete")) d.op.mode |= mode_no_complete;
  d.op.run = arrive_lanes;
}

void build_bytes(InstructionDecoder& d) {
  d.expect_operands(2, 2);
  set_barrier_address(d, d.operand(0));
  d.op.c = d.source(d.operand(1), 32);
  d.op.run = d.part(1) == "expect_tx" ? expect_bytes : complete_bytes_by_thread;
}

void build_initialize(InstructionDecoder& d) {
  d.expect_operands(2, 2);
  set_barrier_address(d, d.operand(0));
  d.op.b = d.source(d.operand(1), 32);
  d.op.run = initialize;
}

void build_invalidate(InstructionDecoder& d) {
  d.expect_operands(1, 1);
  set_barrier_address(d, d.operand(0));
  d.op.run = invalidate;
}

// ---- test_wait, try_wait. Op::a address, b parity or state, c time limit.

/// Op::mode.
constexpr u8 mode_parity = 1;
constexpr u8 mode_suspends = 2;

struct WaitResult {
  bool done;
  u64 passed;  ///< the phase whose completion ends the wait; ~0 on a fresh barrier
};

WaitResult test_phase(const Op& op, const Mbarrier& barrier, u64 operand) {
  if ((op.mode & mode_parity) != 0) {
    return {(barrier.phase & 1) != (operand & 1), barrier.phase - 1};
  }
  const u64 phase = operand >> state_shift;
  return {barrier.phase > phase, phase};
}

/// Reports the lanes that passed, all together where they passed the same phase of one barrier.
void report_waits(Warp& warp, const Op& op, LaneMask passed, const LaneAddresses& addresses,
                  const std::array<u64, warp_size>& operands) {
  Observer* const observer = warp.execution().observer();
  while (observer != nullptr && passed != 0) {
    const int first = first_lane(passed);
    const LaneMask alike =
        passed & where([&](int i) {
          return addresses[i] == addresses[first] && operands[i] == operands[first];
        });
    const Place place = find_barrier(warp, op, first, addresses);
    observer->mbarrier_wait(warp.site(op, alike), place.offset,
                            test_phase(op, *place.barrier, operands[first]).passed,
                            place.barrier->phase, op.order, op.scope);
    passed &= ~alike;
  }
}

Flow wait_for_phase(Warp& warp, const Op& op) {
  const LaneAddresses addresses = barrier_addresses(warp, op);
  std::array<u64, warp_size> operands{};
  LaneMask passed = 0;
  bool alike = true;
  const int first = first_lane(warp.lanes);
  for_each_lane(warp.lanes, [&](int lane) {
    operands[lane] =
        (op.mode & mode_parity) != 0 ? u64{warp.row<u32>(op.b)[lane]} : warp.row<u64>(op.b)[lane];
    alike &= addresses[lane] == addresses[first] && operands[lane] == operands[first];
    // One look is enough where all lanes look at the same.
    if (alike && lane != first) {
      if ((passed & lane_bit(first)) != 0) passed |= lane_bit(lane);
      return;
    }
    const Place place = find_barrier(warp, op, lane, addresses);
    if (test_phase(op, *place.barrier, operands[lane]).done) passed |= lane_bit(lane);
  });

  if (passed == 0 && (op.mode & mode_suspends) != 0 && alike && !warp.timed_out()) {
    const Place place = find_barrier(warp, op, first, addresses);
    const Flow flow = warp.wait_and_retry(
        op, {.kind = Wait::Kind::mbarrier, .address = place.offset, .value = operands[first]});
    const u64 limit = op.c != no_slot ? warp.row<u32>(op.c)[first] : default_time_limit;
    warp.execution().time_out_at(warp.time() + limit, warp, warp.others().back().wait.serial);
    return flow;
  }
  const bool timed_out = warp.timed_out();
  warp.forgive_timeout();
  report_waits(warp, op, passed, addresses, operands);
  warp.set_predicate(op.d, passed);
  return passed != 0 || timed_out ? Flow::next : warp.poll(op, nullptr);
}

void build_wait(InstructionDecoder& d) {
  const bool suspends = d.part(1) == "try_wait";
  d.expect_operands(3, suspends ? 4 : 3);
  d.op.d = d.predicate_destination(d.operand(0));
  set_barrier_address(d, d.operand(1));
  if (d.op.cluster) d.fail("waits in another CTA: threads can wait for their own CTA's only");
  const bool parity = d.has("parity");
  d.op.b = d.source(d.operand(2), parity ? 32 : 64);
  if (d.operand_count() == 4) d.op.c = d.source(d.operand(3), 32);
  if (parity) d.op.mode |= mode_parity;
  if (suspends) d.op.mode |= mode_suspends;
  set_memory_order(d);
  if (d.op.order == Order::weak) d.op.order = Order::acquire;
  d.op.run = wait_for_phase;
}

struct PendingCount {
  u32 operator()(u64 state) const { return static_cast<u32>(state & mbarrier_limit); }
};

#define OWN "?shared|shared::cta"
#define ANY "?shared|shared::cta|shared::cluster"
#define SCOPE "?cta|cluster"

constexpr Opcode table[] = {
    {"mbarrier.init." OWN ".b64", {}, nullptr, build_initialize},
    {"mbarrier.inval." OWN ".b64", {}, nullptr, build_invalidate},
    {"mbarrier.arrive|arrive_drop.?expect_tx.?release|relaxed." SCOPE "." ANY ".b64",
     {},
     nullptr,
     build_arrive},
    {"mbarrier.arrive|arrive_drop.noComplete.?release." SCOPE "." OWN ".b64",
     {},
     nullptr,
     build_arrive},
    {"mbarrier.expect_tx|complete_tx.?relaxed." SCOPE "." ANY ".b64", {}, nullptr, build_bytes},
    {"mbarrier.test_wait|try_wait.?parity.?acquire|relaxed." SCOPE "." OWN ".b64",
     {},
     nullptr,
     build_wait},
    {"mbarrier.pending_count.b64", "d32 s64", unary<PendingCount, u32, u64>},
};

#undef OWN
#undef ANY
#undef SCOPE

}  // namespace

void complete_bytes(Execution& execution, const Site& issuer, AsyncId operation,
                    const SharedPlace& place, std::uint32_t bytes) {
  Mbarrier* const barrier = place.cta->mbarriers.find(place.offset);
  const std::string object = shared_object(execution.program(), place.offset) + " of CTA " +
                             std::to_string(place.cta->index);
  if (place.cta->exited()) {
    fault(issuer, "exited-target",
          "has bytes on their way to CTA " + std::to_string(place.cta->index) +
              ", all of whose threads have exited before " + object +
              " could count them. Nothing keeps the memory of a CTA that has exited.");
  }
  if (barrier == nullptr) {
    fault(issuer, "barrier-not-initialized",
          "reports bytes to " + object + ", but no mbarrier.init has run on it.");
  }
  if (Observer* const observer = execution.observer()) {
    observer->async_complete_on_mbarrier(operation, place.cta->index, place.offset, barrier->phase);
  }
  barrier->bytes -= bytes;
  if (barrier->bytes < -mbarrier_limit) {
    fault(issuer, "expect-tx-range",
          "brings the bytes that " + object + " expects to " + std::to_string(barrier->bytes) +
              ": nobody announces them with expect_tx.");
  }
  settle(execution, {place.cta, place.offset, barrier});
}

std::span<const Opcode> mbarrier_opcodes() {
  return table;
}

}  // namespace emulator

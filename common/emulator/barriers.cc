// bar, barrier, barrier.cluster and the fences. PTX ISA 9.7.13.1 to 9.7.13.4.
#include "common/emulator/barriers.h"

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

namespace {

// ---- bar and barrier. Op::a id, b count (or no_slot: all threads), c predicate of .red.

/// Op::mode.
enum Kind : u8 { sync, arrive, count_true, all_true, any_true };
constexpr u8 kind_mask = 7;
constexpr u8 mode_aligned = 8;

Kind kind_of(const Op& op) {
  return static_cast<Kind>(op.mode & kind_mask);
}

/// Threads that must arrive: `barrier.expected`, or all that have not exited, in whole warps.
std::uint32_t expected_threads(const Cta& cta, const NamedBarrier& barrier) {
  return barrier.expected != 0 ? barrier.expected : cta.live_warps * warp_size;
}

/// The result of bar.red for lanes that leave the barrier.
void deliver(Warp& warp, const Op& op, LaneMask lanes, std::uint32_t trues, std::uint32_t votes) {
  const LaneMask running = warp.lanes;
  warp.lanes = lanes;
  switch (kind_of(op)) {
    case count_true:
      assign_lanes(lanes, warp.row<u32>(op.d), [=](int) { return trues; });
      break;
    case all_true:
      warp.set_predicate(op.d, trues == votes ? all_lanes : 0);
      break;
    case any_true:
      warp.set_predicate(op.d, trues != 0 ? all_lanes : 0);
      break;
    default:
      break;
  }
  warp.lanes = running;
}

/// Begins the next generation and lets those go who wait for this one.
void complete(Execution& execution, Cta& cta, int id) {
  NamedBarrier& barrier = cta.named_barriers[id];
  Observer* const observer = execution.observer();
  execution.note_progress();
  for (const auto& warp : cta.warps) {
    warp->end_waits([&](const Split& split) {
      if (split.wait.kind != Wait::Kind::named_barrier || split.wait.id != id) return false;
      const Op& op = *split.wait.op;
      deliver(*warp, op, split.lanes, barrier.count_true, barrier.count_voted);
      if (observer != nullptr) {
        observer->barrier_leave(warp->site(op, split.lanes), id, barrier.generation);
      }
      return true;
    });
  }
  barrier = {.generation = barrier.generation + 1};
}

std::string threads(std::uint32_t count) {
  return count == 0 ? "all threads of the CTA" : counted(count, "thread");
}

void check_count(const Warp& warp, const Op& op, int id, std::uint32_t count) {
  const NamedBarrier& barrier = warp.cta().named_barriers[id];
  if (op.b != no_slot && (count == 0 || count % warp_size != 0)) {
    fault(warp, op, "named-barrier-count",
          "names " + std::to_string(count) + " threads for barrier " + std::to_string(id) +
              "; the count must be a multiple of 32, since a barrier counts whole warps.");
  }
  if (barrier.first != nullptr && barrier.expected != count) {
    fault(warp, op, "named-barrier-count",
          "arrives at barrier " + std::to_string(id) + " for " + threads(count) +
              ", but the first to arrive named " + threads(barrier.expected) + " (" +
              place(*warp.execution().program().module, barrier.first->source->location) +
              "): all must name the same count.");
  }
}

Flow named_barrier(Warp& warp, const Op& op) {
  if ((op.mode & mode_aligned) != 0 && !warp.gather(op, all_lanes)) return Flow::leave;
  const int lane = first_lane(warp.lanes);
  const u32 id = warp.row<u32>(op.a)[lane];
  const u32 count = op.b != no_slot ? warp.row<u32>(op.b)[lane] : 0;
  if (id >= 16) {
    fault(warp, op, "named-barrier-count",
          "names barrier " + std::to_string(id) + "; a CTA has barriers 0 to 15.");
  }
  check_count(warp, op, static_cast<int>(id), count);

  Cta& cta = warp.cta();
  Execution& execution = warp.execution();
  NamedBarrier& barrier = cta.named_barriers[id];
  if (barrier.first == nullptr) barrier.first = &op;
  barrier.expected = count;
  // A whole warp counts as 32, whoever of it has exited.
  barrier.arrived += warp.lanes == warp.live() ? warp_size : count_lanes(warp.lanes);
  if (op.c != no_slot) {
    const LaneMask votes = op.negated ? ~warp.predicate(op.c) : warp.predicate(op.c);
    barrier.count_true += static_cast<u32>(count_lanes(votes & warp.lanes));
    barrier.count_voted += static_cast<u32>(count_lanes(warp.lanes));
  }
  Observer* const observer = execution.observer();
  const std::uint64_t generation = barrier.generation;
  if (observer != nullptr) {
    observer->barrier_arrive(warp.site(op), static_cast<int>(id), generation);
  }
  const u32 expected = expected_threads(cta, barrier);
  if (barrier.arrived > expected) {
    fault(warp, op, "named-barrier-count",
          "brings the arrivals at barrier " + std::to_string(id) + " to " +
              std::to_string(barrier.arrived) + " of " + std::to_string(expected) +
              ": more threads use it at once than it was told to expect.");
  }
  const bool waits = kind_of(op) != arrive;
  if (barrier.arrived < expected) {
    if (!waits) return Flow::next;
    return warp.wait_and_go_on(op, {.kind = Wait::Kind::named_barrier, .id = static_cast<int>(id)});
  }
  const u32 trues = barrier.count_true;
  const u32 votes = barrier.count_voted;
  complete(execution, cta, static_cast<int>(id));
  if (waits) {
    deliver(warp, op, warp.lanes, trues, votes);
    if (observer != nullptr) {
      observer->barrier_leave(warp.site(op), static_cast<int>(id), generation);
    }
  }
  return Flow::next;
}

/// bar is barrier.aligned under its old name.
void build_named_barrier(InstructionDecoder& d) {
  Kind kind = sync;
  if (d.has("arrive")) kind = arrive;
  if (d.has("red")) kind = d.has("popc") ? count_true : d.has("and") ? all_true : any_true;
  d.op.mode = kind;
  if (d.part(0) == "bar" || d.has("aligned")) d.op.mode |= mode_aligned;
  d.op.cost = 8;

  // {d,} id {, count} {, predicate}
  const bool reduces = kind >= count_true;
  std::size_t next = 0;
  if (reduces) d.op.d = d.destination(d.operand(next++), kind == count_true ? 32 : 1);
  const std::size_t fixed = next + 1 + (reduces ? 1 : 0);
  d.expect_operands(kind == arrive ? fixed + 1 : fixed, fixed + 1);
  d.op.a = d.source(d.operand(next++), 32);
  if (d.operand_count() > fixed) d.op.b = d.source(d.operand(next++), 32);
  if (reduces) d.op.c = d.predicate(d.operand(next));
  d.op.run = named_barrier;
}

// ---- barrier.cluster.

Flow cluster_arrive(Warp& warp, const Op& op) {
  if ((op.mode & mode_aligned) != 0 && !warp.gather(op, all_lanes)) return Flow::leave;
  Cluster& cluster = *warp.cta().cluster;
  if ((warp.cluster_arrived & warp.lanes) != 0) {
    fault(warp, op, "over-arrival",
          "arrives at the barrier of the cluster a second time without barrier.cluster.wait "
          "between.");
  }
  warp.cluster_arrived |= warp.lanes;
  warp.cluster_generation = cluster.barrier.generation;
  cluster.barrier.arrived += static_cast<u32>(count_lanes(warp.lanes));
  Execution& execution = warp.execution();
  if (Observer* const observer = execution.observer()) {
    observer->cluster_arrive(warp.site(op), warp.cluster_generation, op.order);
  }
  complete_cluster_barrier(execution, cluster);
  return Flow::next;
}

Flow cluster_wait(Warp& warp, const Op& op) {
  if ((op.mode & mode_aligned) != 0 && !warp.gather(op, all_lanes)) return Flow::leave;
  const ClusterBarrier& barrier = warp.cta().cluster->barrier;
  const bool arrived = (warp.lanes & ~warp.cluster_arrived) == 0;
  if (!arrived || barrier.generation == warp.cluster_generation) {
    // Without an arrival of its own this never ends: the barrier counts all threads.
    return warp.wait_and_retry(op,
                               {.kind = Wait::Kind::cluster_barrier,
                                .value = arrived ? warp.cluster_generation : ~std::uint64_t{0}});
  }
  warp.cluster_arrived &= ~warp.lanes;
  if (Observer* const observer = warp.execution().observer()) {
    observer->cluster_leave(warp.site(op), warp.cluster_generation, op.order);
  }
  return Flow::next;
}

void build_cluster_barrier(InstructionDecoder& d) {
  d.expect_operands(0, 0);
  const bool arrives = d.has("arrive");
  d.op.order = d.has("relaxed") ? Order::relaxed : arrives ? Order::release : Order::acquire;
  d.op.scope = Scope::cluster;
  if (d.has("aligned")) d.op.mode = mode_aligned;
  d.op.cost = 8;
  d.op.run = arrives ? cluster_arrive : cluster_wait;
}

// ---- Fences. Op::mode: the FenceKind.

Flow fence(Warp& warp, const Op& op) {
  if (Observer* const observer = warp.execution().observer()) {
    observer->fence(warp.site(op), static_cast<FenceKind>(op.mode), op.order, op.scope);
  }
  return Flow::next;
}

void set_fence(InstructionDecoder& d, FenceKind kind, Order order, Scope scope) {
  d.op.mode = static_cast<u8>(kind);
  d.op.order = order;
  d.op.scope = scope;
  d.op.cost = 4;
  d.op.run = fence;
}

void build_fence(InstructionDecoder& d) {
  d.expect_operands(0, 0);
  set_memory_order(d);
  const Order order = d.op.order == Order::weak ? Order::acq_rel : d.op.order;  // .sc, or nothing
  set_fence(d, FenceKind::memory, order, d.op.scope);
}

void build_membar(InstructionDecoder& d) {
  d.expect_operands(0, 0);
  const Scope scope = d.has("sys") ? Scope::system : d.has("gl") ? Scope::gpu : Scope::cta;
  set_fence(d, FenceKind::memory, Order::acq_rel, scope);
}

void build_proxy_fence(InstructionDecoder& d) {
  d.expect_operands(0, 0);
  const FenceKind kind = d.has("global") ? FenceKind::proxy_async_global
                         : d.has("shared::cta") || d.has("shared::cluster")
                             ? FenceKind::proxy_async_shared
                             : FenceKind::proxy_async;
  set_fence(d, kind, Order::acq_rel, Scope::system);
}

void build_mbarrier_init_fence(InstructionDecoder& d) {
  d.expect_operands(0, 0);
  set_fence(d, FenceKind::mbarrier_init, Order::release, Scope::cluster);
}

/// The acquire form names the 128 bytes of the tensor map.
void build_tensormap_fence(InstructionDecoder& d) {
  set_memory_order(d);
  const bool acquires = d.op.order == Order::acquire;
  if (acquires) {
    d.expect_operands(2, 2);
    d.set_address(d.operand(0), Space::global, true);
    if (d.integer(d.operand(1)) != 128) d.fail("needs 128 as its size, that of a tensor map");
  } else {
    d.expect_operands(0, 0);
  }
  set_fence(d, acquires ? FenceKind::tensormap_acquire : FenceKind::tensormap_release, d.op.order,
            d.op.scope);
}

constexpr Opcode table[] = {
    {"bar|barrier.?cta.sync.?aligned", {}, nullptr, build_named_barrier},
    {"bar|barrier.?cta.arrive.?aligned", {}, nullptr, build_named_barrier},
    {"bar|barrier.?cta.red.popc.?aligned.u32", {}, nullptr, build_named_barrier},
    {"bar|barrier.?cta.red.and|or.?aligned.pred", {}, nullptr, build_named_barrier},
    {"barrier.cluster.arrive.?release|relaxed.?aligned", {}, nullptr, build_cluster_barrier},
    {"barrier.cluster.wait.?acquire.?aligned", {}, nullptr, build_cluster_barrier},
    {"fence.?sc|acq_rel|acquire|release.cta|cluster|gpu|sys", {}, nullptr, build_fence},
    {"membar.cta|gl|sys", {}, nullptr, build_membar},
    {"fence.proxy.async.?global|shared::cta|shared::cluster", {}, nullptr, build_proxy_fence},
    {"fence.mbarrier_init.release.cluster", {}, nullptr, build_mbarrier_init_fence},
    {"fence.proxy.tensormap::generic.acquire|release.cta|cluster|gpu|sys",
     {},
     nullptr,
     build_tensormap_fence},
};

}  // namespace

void complete_named_barriers(Execution& execution, Cta& cta) {
  for (int id = 0; id < static_cast<int>(cta.named_barriers.size()); ++id) {
    const NamedBarrier& barrier = cta.named_barriers[id];
    const bool counts_all = barrier.first != nullptr && barrier.expected == 0;
    if (counts_all && barrier.arrived >= expected_threads(cta, barrier)) {
      complete(execution, cta, id);
    }
  }
}

void complete_cluster_barrier(Execution& execution, Cluster& cluster) {
  if (cluster.barrier.arrived == 0 || cluster.barrier.arrived < cluster.live_threads) return;
  cluster.barrier = {.arrived = 0, .generation = cluster.barrier.generation + 1};
  execution.note_progress();
  for (const auto& cta : cluster.ctas) {
    for (const auto& warp : cta->warps) {
      warp->end_waits([](const Split& split) {
        return split.wait.kind == Wait::Kind::cluster_barrier &&
               split.wait.value != ~std::uint64_t{0};
      });
    }
  }
}

std::span<const Opcode> barrier_opcodes() {
  return table;
}

}  // namespace emulator

// What the machine tells the checker, and nothing else: the checker never changes what a kernel
// computes, and a machine without one runs the same.
//
// The machine executes; the checker keeps clocks (who has been ordered after what) and a shadow of
// memory. Each call names where in the program it happens (Site). Every access, fence, arrival and
// wait is reported in the order in which the machine performs it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/emulator/module.h"

namespace emulator {

using LaneMask = std::uint32_t;

/// An instruction executed by some lanes of a warp. `cta` is the linear index in the grid, `warp`
/// the warp's rank in its CTA.
struct Site {
  const Instruction* instruction;
  std::uint32_t cta;
  std::uint16_t warp;
  LaneMask lanes;
};

enum class Access : std::uint8_t { read, write, atomic };
enum class Proxy : std::uint8_t { generic, async };
enum class Scope : std::uint8_t { cta, cluster, gpu, system };
enum class Order : std::uint8_t { weak, relaxed, acquire, release, acq_rel };

enum class FenceKind : std::uint8_t {
  memory,             ///< fence / membar, with Order and Scope
  proxy_async,        ///< fence.proxy.async, all state spaces or the one named
  proxy_async_shared,
  proxy_async_global,
  mbarrier_init,      ///< fence.mbarrier_init.release.cluster
  tensormap_release,  ///< the release half of tensormap.cp_fenceproxy
  tensormap_acquire,  ///< fence.proxy.tensormap::generic.acquire
};

enum class AsyncKind : std::uint8_t {
  tma_load,      ///< global to shared, completes on an mbarrier
  tma_store,     ///< shared to global (also cp.reduce), completes in a bulk group of its thread
  bulk_load,     ///< cp.async.bulk without a tensor map, completes on an mbarrier
  bulk_store,    ///< likewise in a bulk group
  wgmma,         ///< completes in a wgmma group of its warpgroup
  st_async,      ///< st.async / red.async, completes on an mbarrier
};

/// Names an asynchronous operation between its begin and its completion.
using AsyncId = std::uint64_t;

struct LaunchInfo {
  const Module* module;
  const Function* kernel;
  std::uint32_t ctas;             ///< of the grid
  std::uint32_t ctas_per_cluster;
  std::uint32_t warps_per_cta;
  std::uint32_t shared_bytes;     ///< static + dynamic, a CTA
  /// Where each .shared variable lies in the CTA's shared memory, for naming barriers and tiles.
  struct Placement {
    const Variable* variable;
    std::uint32_t offset;
  };
  std::vector<Placement> shared_variables;
};

/// Shared-memory addresses here are offsets from the start of the target CTA's shared memory;
/// global addresses are device addresses. Arrays of addresses have 32 entries, one a lane; only the
/// lanes in site.lanes count.
class Observer {
 public:
  virtual ~Observer() = default;

  // Lifetime.
  virtual void launch_begins(const LaunchInfo&) {}
  /// The CTAs of a cluster begin one right after the other, in order of rank.
  virtual void cta_begins(std::uint32_t /*cta*/) {}
  virtual void lanes_exit(const Site&) {}
  virtual void cta_ends(std::uint32_t /*cta*/) {}
  virtual void launch_ends() {}

  // Accesses by threads, through the generic proxy. `cta` is the one whose shared memory is
  // accessed (another one of the cluster for DSMEM).
  virtual void shared_access(const Site&, std::uint32_t /*cta*/, const std::uint32_t* /*address*/,
                             std::uint32_t /*bytes*/, Access, Order, Scope) {}
  virtual void global_access(const Site&, const std::uint64_t* /*address*/, std::uint32_t /*bytes*/,
                             Access, Order, Scope) {}

  // Threads ordering each other. `generation` counts the completions of that barrier.
  /// The lanes of the site have met (bar.warp.sync, shfl.sync, vote.sync, redux.sync, match.sync).
  virtual void warp_sync(const Site&) {}
  virtual void barrier_arrive(const Site&, int /*id*/, std::uint64_t /*generation*/) {}
  virtual void barrier_leave(const Site&, int /*id*/, std::uint64_t /*generation*/) {}
  virtual void cluster_arrive(const Site&, std::uint64_t /*generation*/, Order) {}
  virtual void cluster_leave(const Site&, std::uint64_t /*generation*/, Order) {}
  virtual void fence(const Site&, FenceKind, Order, Scope) {}

  // mbarriers. `cta` and `address` name the barrier; `phase` counts completed phases, starting at
  // 0 (its parity is phase % 2).
  virtual void mbarrier_init(const Site&, std::uint32_t /*cta*/, std::uint32_t /*address*/,
                             std::uint32_t /*count*/) {}
  virtual void mbarrier_inval(const Site&, std::uint32_t /*cta*/, std::uint32_t /*address*/) {}
  /// Each lane of the site arrives `count` times in `phase`.
  virtual void mbarrier_arrive(const Site&, std::uint32_t /*cta*/, std::uint32_t /*address*/,
                               std::uint64_t /*phase*/, std::uint32_t /*count*/, Order, Scope) {}
  /// expect_tx, before it takes effect. A complete_tx by a thread is reported as minus its bytes.
  virtual void mbarrier_expect(const Site&, std::uint32_t /*cta*/, std::uint32_t /*address*/,
                               std::uint64_t /*phase*/, std::int64_t /*bytes*/) {}
  /// `phase` has just completed.
  virtual void mbarrier_completes(std::uint32_t /*cta*/, std::uint32_t /*address*/,
                                  std::uint64_t /*phase*/) {}
  /// A test_wait or try_wait of the lanes returned true because `passed` (a phase of the awaited
  /// parity) is complete; `current` is the phase in progress. passed + 1 < current means that the
  /// waiter is late by more than one phase; passed == ~0 that it passed on a fresh barrier.
  virtual void mbarrier_wait(const Site&, std::uint32_t /*address*/, std::uint64_t /*passed*/,
                             std::uint64_t /*current*/, Order, Scope) {}

  // Asynchronous operations. begin, then a touch for each range of memory that it reads or writes
  // from now until it completes, then complete, once, when its last byte is done.
  virtual void async_begin(const Site&, AsyncId, AsyncKind) {}
  virtual void async_touch_shared(AsyncId, std::uint32_t /*cta*/, std::uint32_t /*address*/,
                                  std::uint32_t /*bytes*/, Access) {}
  virtual void async_touch_global(AsyncId, std::uint64_t /*address*/, std::uint64_t /*bytes*/,
                                  Access) {}
  /// It will report to this mbarrier: after begin, once for each destination CTA of a multicast.
  virtual void async_signals(AsyncId, std::uint32_t /*cta*/, std::uint32_t /*address*/) {}
  /// It uses the tensor map at this global address (parameters and constants may be left out).
  virtual void async_uses_tensor_map(AsyncId, std::uint64_t /*address*/) {}
  /// Its bytes have landed and count towards `phase` of this mbarrier (once for each destination
  /// CTA of a multicast).
  virtual void async_complete_on_mbarrier(AsyncId, std::uint32_t /*cta*/, std::uint32_t /*address*/,
                                          std::uint64_t /*phase*/) {}
  virtual void async_complete(AsyncId) {}

  // Bulk groups belong to a thread: the site has one lane.
  virtual void bulk_commit(const Site&) {}
  /// At most `pending` of the thread's latest groups may be unfinished; `read_only`: their sources
  /// have been read, but their writes may not have been made.
  virtual void bulk_wait(const Site&, int /*pending*/, bool /*read_only*/) {}

  // wgmma belongs to a warpgroup (warp / 4); each warp reports its own execution. A wgmma runs (and
  // async_begin is called) when the fourth warp has issued it.
  virtual void wgmma_fence(const Site&) {}
  /// This warp issues a wgmma whose accumulator (and A, if in registers) are these registers.
  virtual void wgmma_issue(const Site&, std::span<const std::uint32_t> /*accumulators*/,
                           std::span<const std::uint32_t> /*a_registers*/) {}
  virtual void wgmma_commit(const Site&) {}
  virtual void wgmma_wait(const Site&, int /*pending*/) {}
  /// An instruction other than wgmma reads or writes a register that occurs in some wgmma of this
  /// kernel. Registers are indices into Function::registers.
  virtual void wgmma_register_access(const Site&, std::uint32_t /*reg*/, Access) {}
};

}  // namespace emulator

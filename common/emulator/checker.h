// The checker: watches a launch and tells what is wrong with the kernel, even where it went well.
//
// It does not look for accidents, which depend on the schedule, but for missing orders, which do
// not: every access must be ordered after those that it conflicts with, by barriers, mbarriers,
// waits, fences or flags. It keeps vector clocks (clocks.h) for threads, phases of mbarriers,
// wgmmas and bulk copies, and a shadow of memory (shadow.h). The rules are in rules.cc.
//
// What it leaves out:
// - Global memory: writes are kept, reads are not, so that a write after an unordered read is not
//   found. Reads of memory that nothing wrote are found in shared memory only.
// - What orders through flags is what happened in this run: a thread that reads a flag after the
//   release, but would not have waited for it, counts as ordered.
// - Floating-point atomics never count as flags.
// - Local memory, constants, and what happens between launches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/emulator/observer.h"
#include "common/emulator/report.h"

namespace emulator {

struct CheckerOptions {
  /// Also applies the rules with Rule::strict_only, where the ISA's text leaves a doubt.
  bool strict = false;
};

/// Observes one launch at a time. `module` and `kernel` of LaunchInfo must live until findings().
class Checker final : public Observer {
 public:
  explicit Checker(const CheckerOptions& options = {});
  ~Checker() override;

  /// All findings of the last launch: those of the machine, if any, and then the checker's, by id,
  /// line and role. A byte count that can't balance while threads still run is told only where the
  /// machine found a deadlock or a livelock: after another fault it means nothing.
  std::vector<Finding> findings(std::span<const Finding> of_machine = {}) const;

  void launch_begins(const LaunchInfo& info) override;
  void cta_begins(std::uint32_t cta) override;
  void lanes_exit(const Site& site) override;
  void cta_ends(std::uint32_t cta) override;
  void launch_ends() override;

  void shared_access(const Site& site, std::uint32_t cta, const std::uint32_t* address,
                     std::uint32_t bytes, Access access, Order order, Scope scope) override;
  void global_access(const Site& site, const std::uint64_t* address, std::uint32_t bytes,
                     Access access, Order order, Scope scope) override;

  void warp_sync(const Site& site) override;
  void barrier_arrive(const Site& site, int id, std::uint64_t generation) override;
  void barrier_leave(const Site& site, int id, std::uint64_t generation) override;
  void cluster_arrive(const Site& site, std::uint64_t generation, Order order) override;
  void cluster_leave(const Site& site, std::uint64_t generation, Order order) override;
  void fence(const Site& site, FenceKind kind, Order order, Scope scope) override;

  void mbarrier_init(const Site& site, std::uint32_t cta, std::uint32_t address,
                     std::uint32_t count) override;
  void mbarrier_inval(const Site& site, std::uint32_t cta, std::uint32_t address) override;
  void mbarrier_arrive(const Site& site, std::uint32_t cta, std::uint32_t address,
                       std::uint64_t phase, std::uint32_t count, Order order, Scope scope) override;
  void mbarrier_expect(const Site& site, std::uint32_t cta, std::uint32_t address,
                       std::uint64_t phase, std::int64_t bytes) override;
  void mbarrier_completes(std::uint32_t cta, std::uint32_t address, std::uint64_t phase) override;
  void mbarrier_wait(const Site& site, std::uint32_t address, std::uint64_t passed,
                     std::uint64_t current, Order order, Scope scope) override;

  void async_begin(const Site& site, AsyncId id, AsyncKind kind) override;
  void async_touch_shared(AsyncId id, std::uint32_t cta, std::uint32_t address, std::uint32_t bytes,
                          Access access) override;
  void async_touch_global(AsyncId id, std::uint64_t address, std::uint64_t bytes,
                          Access access) override;
  void async_signals(AsyncId id, std::uint32_t cta, std::uint32_t address) override;
  void async_uses_tensor_map(AsyncId id, std::uint64_t address) override;
  void async_complete_on_mbarrier(AsyncId id, std::uint32_t cta, std::uint32_t address,
                                  std::uint64_t phase) override;
  void async_complete(AsyncId id) override;

  void bulk_commit(const Site& site) override;
  void bulk_wait(const Site& site, int pending, bool read_only) override;

  void wgmma_fence(const Site& site) override;
  void wgmma_issue(const Site& site, std::span<const std::uint32_t> accumulators,
                   std::span<const std::uint32_t> a_registers) override;
  void wgmma_commit(const Site& site) override;
  void wgmma_wait(const Site& site, int pending) override;
  void wgmma_register_access(const Site& site, std::uint32_t reg, Access access) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emulator

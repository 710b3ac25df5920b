// Histories for the checker, written by hand: each call plays one event, in the order of the calls.
// Barriers keep count, so that a script only says who arrives and what lands.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/emulator/checker.h"

namespace script {

inline constexpr emulator::LaneMask all = 0xFFFFFFFF;

/// Lanes of a warp.
struct Who {
  std::uint32_t cta = 0;
  std::uint16_t warp = 0;
  emulator::LaneMask lanes = all;
};

inline Who warp(int rank, std::uint32_t cta = 0) {
  return {cta, static_cast<std::uint16_t>(rank), all};
}
inline Who lane(int rank, int lane, std::uint32_t cta = 0) {
  return {cta, static_cast<std::uint16_t>(rank), emulator::LaneMask{1} << lane};
}

/// Shared memory of the scripts' kernel: `full` and `empty`, 4 mbarriers each, `tile` and `out`.
constexpr std::uint32_t full(int stage) {
  return 8 * static_cast<std::uint32_t>(stage);
}
constexpr std::uint32_t empty(int stage) {
  return 32 + 8 * static_cast<std::uint32_t>(stage);
}
inline constexpr std::uint32_t stage_bytes = 512;
constexpr std::uint32_t tile(int stage) {
  return 1024 + stage_bytes * static_cast<std::uint32_t>(stage);
}
inline constexpr std::uint32_t out = 4096;
inline constexpr std::uint32_t shared_bytes = 8192;

struct Shape {
  std::uint32_t ctas = 1;
  std::uint32_t ctas_per_cluster = 1;
  std::uint32_t warps = 8;
  bool strict = false;
};

class Script {
 public:
  explicit Script(const Shape& shape = {});

  /// The instruction of the events that follow: its CUDA line, and its opcode if that matters.
  Script& at(int line, const std::string& opcode = "add.s32");

  // ---- Lifetime.
  void begin(std::uint32_t cta);
  void exit(const Who& who);
  /// All threads of the CTAs exit, and these end.
  void end_all();
  /// Ends the launch; the names of the rules that were broken, each once, in order of id.
  std::vector<std::string> end();
  std::vector<std::string> end_in_deadlock();
  /// The findings so far.
  std::vector<emulator::Finding> findings() const { return checker_.findings(); }
  /// The sentence of the only finding.
  std::string sentence() const;

  // ---- Accesses. Lane i accesses `bytes` at address + i * stride; `cta` is the memory's.
  void load(const Who& who, std::uint32_t address, std::uint32_t stride = 4,
            std::uint32_t bytes = 4, int cta = -1);
  void store(const Who& who, std::uint32_t address, std::uint32_t stride = 4,
             std::uint32_t bytes = 4, int cta = -1);
  void strong(const Who& who, std::uint32_t address, emulator::Access access, emulator::Order order,
              emulator::Scope scope);
  void load_global(const Who& who, std::uint64_t address, std::uint32_t stride = 4,
                   std::uint32_t bytes = 4);
  void store_global(const Who& who, std::uint64_t address, std::uint32_t stride = 4,
                    std::uint32_t bytes = 4);
  /// All lanes access the same 4 bytes.
  void strong_global(const Who& who, std::uint64_t address, emulator::Access access,
                     emulator::Order order, emulator::Scope scope);

  // ---- Orders.
  void sync_warp(const Who& who);
  void arrive_barrier(const Who& who, int id);
  /// All of them have arrived: they leave, and a new generation begins.
  void leave_barrier(const std::vector<Who>& who, int id);
  void barrier(const std::vector<Who>& who, int id = 0);
  void sync_cta(std::uint32_t cta = 0);
  void sync_cluster(emulator::Order arrival = emulator::Order::release);
  void fence(const Who& who, emulator::FenceKind kind, emulator::Scope scope = emulator::Scope::gpu,
             emulator::Order order = emulator::Order::acq_rel);
  void proxy_fence(const Who& who) { fence(who, emulator::FenceKind::proxy_async); }

  // ---- mbarriers.
  void init(const Who& who, std::uint32_t address, std::uint32_t count);
  void inval(const Who& who, std::uint32_t address);
  void init_fence(const Who& who) { fence(who, emulator::FenceKind::mbarrier_init); }
  void expect(const Who& who, std::uint32_t address, std::int64_t bytes, int cta = -1);
  void arrive(const Who& who, std::uint32_t address, int cta = -1,
              emulator::Scope scope = emulator::Scope::cta,
              emulator::Order order = emulator::Order::release);
  /// Passes the last completed phase (the fresh barrier, if none is).
  void wait(const Who& who, std::uint32_t address, emulator::Scope scope = emulator::Scope::cta,
            emulator::Order order = emulator::Order::acquire);

  // ---- Asynchronous operations.
  struct Target {
    std::uint32_t cta;
    std::uint32_t address;
    std::uint32_t barrier;
  };
  /// A copy of `bytes` from global memory at `source` to each target.
  emulator::AsyncId copy(const Who& who, const std::vector<Target>& targets, std::uint32_t bytes,
                         std::uint64_t source = 0x100000);
  /// The same with a tensor map in global memory.
  emulator::AsyncId begin_copy(const Who& who, const std::vector<Target>& targets,
                               std::uint32_t bytes, std::uint64_t map);
  void land(emulator::AsyncId id);
  /// A bulk store of `bytes` at `address` to `destination`.
  emulator::AsyncId bulk_store(const Who& who, std::uint32_t address, std::uint32_t bytes,
                               std::uint64_t destination = 0x200000);
  emulator::AsyncId begin_bulk_store(const Who& who, std::uint32_t address, std::uint32_t bytes,
                                     std::uint64_t destination, emulator::Access access);
  void commit(const Who& who);
  void wait_bulk(const Who& who, int pending, bool read_only);
  void complete(emulator::AsyncId id) { checker_.async_complete(id); }

  /// The four warps of a warpgroup execute: wgmma.fence; a wgmma that reads `bytes` at each of
  /// `addresses` into registers from `accumulator` on; commit_group.
  emulator::AsyncId wgmma(int group, const std::vector<std::uint32_t>& addresses,
                          std::uint32_t bytes, std::uint32_t accumulator = 0,
                          std::uint32_t cta = 0);
  void fence_wgmma(int group, std::uint32_t cta = 0);
  emulator::AsyncId issue_wgmma(int group, const std::vector<std::uint32_t>& addresses,
                                std::uint32_t bytes, std::uint32_t accumulator = 0,
                                std::uint32_t cta = 0);
  void commit_wgmma(int group, std::uint32_t cta = 0);
  void wait_wgmma(const Who& who, int pending);
  void wait_wgmma(int group, int pending, std::uint32_t cta = 0);
  void touch_register(const Who& who, std::uint32_t reg, emulator::Access access);

  emulator::Checker& checker() { return checker_; }

 private:
  struct Barrier {
    std::uint32_t count = 0;
    std::uint32_t pending = 0;
    std::int64_t bytes = 0;
    std::uint64_t phase = 0;
  };
  using Place = std::pair<std::uint32_t, std::uint32_t>;
  struct Copy {
    std::vector<Target> targets;
    std::uint32_t bytes;
  };

  emulator::Site site(const Who& who);
  std::uint32_t target(const Who& who, int cta) const;
  void settle(const Place& place);

  Shape shape_;
  emulator::Module module_;
  emulator::Checker checker_;
  std::deque<std::string> texts_;
  std::deque<emulator::Instruction> instructions_;
  const emulator::Instruction* current_ = nullptr;
  std::vector<std::uint32_t> live_;
  std::map<Place, Barrier> barriers_;
  std::map<std::pair<std::uint32_t, int>, std::uint64_t> generations_;
  std::uint64_t cluster_generation_ = 0;
  std::map<emulator::AsyncId, Copy> copies_;
  emulator::AsyncId next_id_ = 1;
};

}  // namespace script

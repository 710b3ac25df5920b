// What the checker remembers while a launch runs. Internal to checker*.cc.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/emulator/checker.h"
#include "common/emulator/checker_findings.h"
#include "common/emulator/clocks.h"
#include "common/emulator/shadow.h"

namespace emulator {

struct ClusterState;
struct CtaState;
struct WarpState;

/// Something that lanes of a warp did at a time of theirs.
struct Moment {
  std::uint32_t warp = 0;  ///< in the cluster
  LaneMask lanes = 0;
  std::uint32_t time = 0;
};

struct MbarrierState {
  std::uint32_t address = 0;
  std::uint32_t fact = 0;  ///< counts its completed phases
  Moment init;
  Site init_site{};
  std::optional<Moment> init_fence;  ///< that showed it to other CTAs and to the async proxy
  std::uint64_t phase = 0;           ///< in progress
  std::int64_t bytes = 0;            ///< of this phase: announced minus landed
  std::optional<Site> last_expect;
  /// What arrivals of threads of its own CTA, and those of any scope, have released so far, and up
  /// to the last completed phase. Those of other CTAs release no more than an order here.
  VectorClock near_so_far, near;
  /// What arrivals of cluster scope from other CTAs have released.
  VectorClock far_so_far, far;
  /// Who has passed the last completed phase, and must be ordered before the next one completes.
  struct Waiter {
    Moment moment;
    Site site;
  };
  std::vector<Waiter> waiters;
  /// Phases that include the last copy that reported here, and who issued it.
  std::uint32_t phases_with_copies = 0;
  Site last_copy{};
};

struct NamedBarrierState {
  std::optional<std::uint32_t> fact;  ///< counts its generations
  std::array<std::uint64_t, 2> generation{};
  std::array<VectorClock, 2> clock;  ///< of the last two generations, by parity
};

/// A variable that orders threads: a flag or a counter that strong operations access.
struct Flag {
  struct Release {
    std::uint32_t cta, cluster;
    Scope scope;
    bool relaxed;  ///< carries what fences went before, no more
    std::shared_ptr<const VectorClock> clock;
  };
  std::vector<Release> releases;
  std::uint32_t version = 0;
};

/// A wgmma instruction, and the registers that it uses.
struct WgmmaInstruction {
  const Instruction* source = nullptr;
  std::vector<std::uint32_t> accumulators, a_registers;
};

/// What a warp knows of a register that wgmmas use.
struct WgmmaRegister {
  std::vector<std::uint32_t> users;  ///< indices into State::wgmma_instructions
};

/// An access of a warp to such a register by anything but a wgmma.
struct RegisterAccess {
  std::uint32_t fences = 0;  ///< 1 + wgmma.fences that the warp had executed; 0: none
  const Instruction* instruction = nullptr;
};

/// Bulk stores of a thread.
struct BulkStores {
  int lane = 0;
  std::uint32_t fact = 0;  ///< counts copies that have been read; the next fact, those written
  std::uint32_t issued = 0;
  Site last{};
  std::vector<std::uint32_t> groups;  ///< `issued` at each commit
};

struct WarpState {
  CtaState* cta = nullptr;
  std::uint32_t in_cluster = 0;  ///< its index among the warps of the cluster
  WarpClocks clocks;
  std::uint32_t wgmma_fences = 0;
  std::uint32_t wgmmas_issued = 0;
  std::uint32_t wgmmas_awaited = 0;
  std::vector<std::uint32_t> wgmma_groups;  ///< wgmmas_issued at each commit
  Site last_wgmma{};
  std::size_t last_wgmma_shape = 0;
  std::uint32_t wgmmas_since_fence = 0;
  /// When it issued each of State::wgmma_instructions last: the number of the wgmma, from 1.
  std::vector<std::uint32_t> last_issue;
  std::vector<RegisterAccess> register_accesses;  ///< the last of each register
  std::uint32_t last_register_access = 0;         ///< RegisterAccess::fences of the latest
  std::vector<BulkStores> bulk_stores;
  std::vector<MbarrierState*> unfenced_inits;
  /// The last read of a flag, so that a spinning thread need not repeat what it has learned.
  struct Look {
    const Flag* flag = nullptr;
    const Instruction* instruction = nullptr;
    std::uint32_t version = 0;
    LaneMask lanes = 0;
    bool operator==(const Look&) const = default;
  };
  Look last_look;
  std::uint32_t started_peers = 0;  ///< ranks of CTAs that are known to have started
  /// Writes that all its lanes can see, and reads that they come after.
  KnownAccesses seen_writes, seen_reads;
};

/// A wgmma that some warp of its warpgroup has not yet waited for.
struct IssuedWgmma {
  std::array<std::shared_ptr<const VectorClock>, 4> known;  ///< by each warp when it issued it
  std::array<std::uint32_t, 4> time{};
  std::array<Site, 4> site{};
};

/// What a wgmma reads of shared memory.
struct WgmmaReads {
  struct Range {
    std::uint32_t address;
    std::uint32_t bytes;
  };
  std::uint32_t number = 0;
  const Instruction* instruction = nullptr;
  std::vector<Range> ranges;
  std::vector<Range> boxes;  ///< around ranges that lie close together
};

struct WarpgroupState {
  std::uint32_t first = 1;  ///< number of issued[0]
  std::deque<IssuedWgmma> issued;
  std::uint32_t started = 0;
  std::deque<WgmmaReads> reads;  ///< of the latest
  KnownAccesses seen_writes;     ///< that all four warps can see
};

/// A CTA's memory or mbarrier was accessed by a warp of another CTA.
struct RemoteAccess {
  Moment moment;
  Site site;
  /// Of an mbarrier that it arrived at: the fact that counts its phases, and how many of them are
  /// complete when the one of the arrival is.
  struct Phase {
    std::uint32_t fact;
    std::uint32_t count;
  };
  std::optional<Phase> phase;
};

struct CtaState {
  std::uint32_t index = 0;  ///< in the grid
  std::uint32_t rank = 0;
  bool ended = false;
  ClusterState* cluster = nullptr;
  SharedShadow shadow;
  std::unordered_map<std::uint32_t, MbarrierState> barriers;
  std::array<NamedBarrierState, 16> named_barriers;
  /// What its own threads have released at barrier.cluster, as ClusterState's.
  std::array<VectorClock, 2> cluster_barrier;
  std::array<std::uint64_t, 2> cluster_generation{};
  std::vector<WarpState> warps;
  std::vector<WarpgroupState> warpgroups;
  std::vector<RemoteAccess> remote_accesses;  ///< the last of each warp, at each mbarrier and else
  VectorClock at_exit;                        ///< what its threads knew when they exited
};

struct ClusterState {
  std::uint32_t number = 0;  ///< of those that have begun
  std::uint32_t next_fact = 0;
  std::uint32_t begun = 0;             ///< CTAs that have begun
  std::uint32_t ended = 0;             ///< CTAs that have ended
  std::array<VectorClock, 2> barrier;  ///< barrier.cluster: the last two generations, by parity
  std::array<std::uint64_t, 2> generation{};
  std::vector<CtaState> ctas;
};

/// An asynchronous operation that has not completed.
struct Operation {
  AsyncId id = 0;
  AsyncKind kind = AsyncKind::tma_load;
  Site site{};
  std::uint32_t cluster = 0;
  VectorClock issuer;        ///< loads: what the issuing thread knew and had done
  std::uint32_t who = 0;     ///< as in Stamp: bulk stores, wgmmas
  std::uint32_t number = 0;  ///< bulk stores, wgmmas: among those of their thread or warpgroup
  struct Range {
    std::uint32_t cta;
    std::uint32_t address;
    std::uint32_t bytes;
    bool writes;
  };
  std::vector<Range> ranges;
  std::vector<std::uint64_t> maps;  ///< tensor maps in global memory
  /// Accesses that it may touch the bytes of.
  KnownAccesses seen_writes, seen_reads;
  /// An mbarrier that gets the bytes that land in its CTA.
  struct Signal {
    std::uint32_t cta;
    std::uint32_t address;
    std::uint32_t fact;   ///< of the barrier
    std::uint64_t phase;  ///< in progress when the operation began
  };
  std::vector<Signal> signals;

  /// How many bytes it writes to a CTA.
  std::int64_t bytes_for(std::uint32_t cta) const;
};

inline constexpr std::uint64_t tensor_map_size = 128;

/// Bytes of one granule that lanes of a warp access at once.
struct Chunk {
  std::uint64_t address = 0;  ///< of the granule, in shared or global memory
  ByteMask bytes = 0;
  std::array<LaneMask, 4> lanes{};  ///< by word

  LaneMask all_lanes() const { return lanes[0] | lanes[1] | lanes[2] | lanes[3]; }
  /// The bytes that a lane accesses.
  ByteMask bytes_of(int lane) const;
};

/// An access by threads, as far as it is the same for all its chunks.
struct ThreadAccess {
  const Site& site;
  WarpState& warp;
  CtaState* cta;  ///< whose shared memory it is, nullptr: global memory
  Access access;
  Stamp stamp;  ///< without the bytes and lanes of a chunk

  Stamp stamp_of(const Chunk& chunk) const {
    Stamp result = stamp;
    result.bytes = chunk.bytes;
    result.lanes = chunk.lanes;
    return result;
  }
};

struct Checker::State {
  CheckerOptions options;
  LaunchInfo info{};
  FindingLog log;
  FindingLog deadlock_log;  ///< of interest only if the launch ended in a deadlock
  std::uint32_t warps_in_cluster = 0;
  std::vector<std::unique_ptr<ClusterState>> live_clusters, pool;
  std::uint32_t clusters_begun = 0;
  std::vector<CtaState*> ctas;               ///< by index in the grid; nullptr: not there
  std::vector<std::uint32_t> cta_of_number;  ///< by cluster number x CTAs a cluster + rank
  GlobalShadow global;
  /// Who has used each tensor map in global memory, by address.
  std::map<std::uint64_t, std::vector<Stamp>> tensor_maps;
  std::unordered_map<std::uint64_t, Flag> flags;  ///< by address
  std::unordered_map<AsyncId, Operation> operations;
  Operation* current = nullptr;  ///< the one found last
  Operation wgmma;               ///< begun last; when it completes does not matter
  /// The points of view of its four warps.
  std::vector<Witness> wgmma_witnesses;
  Stamp wgmma_checked;  ///< a write that all four know
  std::vector<WgmmaInstruction> wgmma_instructions;
  std::unordered_map<const Instruction*, std::uint32_t> wgmma_indices;
  std::vector<WgmmaRegister> wgmma_registers;  ///< by index into Function::registers

  // ---- checker.cc: the cast.

  CtaState* find_cta(std::uint32_t index) const {
    return index < ctas.size() ? ctas[index] : nullptr;
  }
  WarpState& warp_of(const Site& site) const;
  /// The index of the fact that counts the wgmmas that a warp of the cluster knows to be complete.
  std::uint32_t wgmma_fact(std::uint32_t warp) const { return warps_in_cluster * 32 + warp; }
  std::uint32_t new_fact(ClusterState& cluster) { return cluster.next_fact++; }
  CtaState& begin_cta(std::uint32_t index);
  std::unique_ptr<ClusterState> make_cluster() const;
  void reset(CtaState& cta) const;
  void retire(const ClusterState& cluster);
  void check_exit(WarpState& warp, const Site& site);
  void check_end(CtaState& cta);
  /// Who can still announce bytes for the barrier's phase has done so: do they agree with those
  /// that have landed and those under way?
  void check_balance(FindingLog& into, const CtaState& cta, const MbarrierState& barrier);
  std::int64_t bytes_under_way(const CtaState& cta, const MbarrierState& barrier) const;
  /// "warp 1 of CTA 0 (lane 3)" of a warp that may have exited.
  std::string party(std::uint32_t cluster, std::uint32_t warp, LaneMask lanes) const;
  std::string party(const Stamp& stamp, ByteMask bytes) const;
  /// "`full[1]`", with its CTA if that is not `from`.
  std::string object(const CtaState& cta, std::uint32_t address, std::uint32_t from) const;

  // ---- checker_threads.cc: how threads order each other.

  /// A strong access to a flag by lanes that name the same one.
  void observe_flag(WarpState& warp, const Site& site, LaneMask lanes, std::uint64_t flag,
                    Access access, Order order, Scope scope);
  void acquire_flag(WarpState& warp, LaneMask lanes, const Flag& flag, Order order, Scope scope);
  void release_flag(WarpState& warp, LaneMask lanes, Flag& flag, Access access, Order order,
                    Scope scope);
  MbarrierState* find_barrier(std::uint32_t cta, std::uint32_t address) const;
  /// Threads use a barrier: they must know that it has been initialized.
  void check_initialized(WarpState& warp, const Site& site, const CtaState& cta,
                         const MbarrierState& barrier);
  /// A parity can't tell phases apart that differ by two: the waiter must know that it is not early
  /// by a lap, and the barrier must not complete another phase before the waiter has looked.
  void check_not_early(WarpState& warp, const Site& site, const MbarrierState& barrier,
                       std::uint64_t passed);
  void check_not_late(const CtaState& cta, const MbarrierState& barrier);
  void fence_inits(WarpState& warp, LaneMask lanes);

  // ---- checker_memory.cc: accesses of threads.

  void access_shared(const ThreadAccess& access, const Chunk& chunk);
  void access_global(const ThreadAccess& access, const Chunk& chunk);
  void observe_flags(const ThreadAccess& access,
                     const std::array<std::uint64_t, 32>& flags_of_lanes, Order order, Scope scope);
  void check_conflicts(const ThreadAccess& access, const Chunk& chunk, Granule& granule);
  /// The lanes of `chunk` that are not ordered after an earlier access to its bytes.
  LaneMask find_unordered(const ThreadAccess& access, const Chunk& chunk, const Stamp& earlier,
                          bool earlier_reads) const;
  /// Writes to tensor maps that copies may still be using.
  void check_tensor_maps(const ThreadAccess& access, const Chunk& chunk);
  /// Whether the bytes that a lane accesses are used as a flag.
  bool is_flag(const ThreadAccess& access, const Chunk& chunk, int lane) const;
  bool both_strong(const ThreadAccess& access, const Stamp& earlier) const;
  void report_conflict(const ThreadAccess& access, const Chunk& chunk, const Stamp& earlier,
                       bool earlier_reads, LaneMask lanes);
  /// Overwrites of what wgmmas may still be reading.
  void check_wgmmas(const ThreadAccess& access, const Chunk& chunk);
  /// Whether there are wgmmas of `cta` that the warp does not know to be complete.
  bool wgmmas_unfinished(const WarpState& warp, const CtaState& cta) const;

  // ---- checker_cluster.cc: memory of other CTAs.

  /// Notes an access to another CTA's memory or mbarrier, which must be there then. `barrier`: what
  /// it arrives at, if that is what it does.
  void note_remote(WarpState& warp, const Site& site, CtaState& cta,
                   const MbarrierState* barrier = nullptr);
  /// All accesses of others to the CTA's memory must be over when it ends.
  void check_remote_accesses(const CtaState& cta);
  void check_started(WarpState& warp, const Site& site, const CtaState& cta);

  // ---- checker_async.cc: asynchronous operations.

  Operation* find_operation(AsyncId id);
  BulkStores& bulk_stores_of(WarpState& warp, int lane);
  void begin_wgmma(WarpState& warp, Operation& operation);
  /// What an operation does to shared memory, to a line of it, or to a granule; of global memory
  /// where cta is nullptr.
  void read_by_wgmma(const Operation& operation, CtaState& cta, std::uint32_t address,
                     std::uint32_t bytes);
  void write_lines(Operation& operation, CtaState& cta, std::uint32_t address, std::uint32_t bytes,
                   const Stamp& stamp);
  void read_line_by_wgmma(const Operation& operation, CtaState& cta, std::uint32_t address,
                          std::uint32_t bytes, Line& line);
  void write_line(Operation& operation, CtaState& cta, std::uint32_t address, const Stamp& stamp,
                  Line& line);
  void read_by_async(Operation& operation, const CtaState* cta, std::uint64_t address,
                     const Stamp& stamp, Granule& granule);
  void write_by_async(Operation& operation, const CtaState* cta, std::uint64_t address,
                      const Stamp& stamp, Granule& granule);
  /// The checks of them against one earlier access.
  void check_wgmma_read(const Operation& operation, CtaState& cta, std::uint32_t address,
                        ByteMask bytes, const Stamp& earlier);
  void check_write(Operation& operation, const CtaState* cta, std::uint64_t address, ByteMask bytes,
                   const Stamp& earlier, bool earlier_reads);
  /// Overwrites of what wgmmas may still be reading.
  void check_wgmmas(const Operation& operation, const CtaState& cta, std::uint32_t address,
                    std::uint32_t bytes);
  void check_written(const Operation& operation, const CtaState& cta, std::uint64_t address,
                     ByteMask unwritten);
  /// The rule that is broken if `witness`, the issuer or one of the warps of a wgmma, lets the
  /// operation read what `earlier` wrote; empty if none is.
  std::string_view rule_of_read(const Witness& witness, bool shared, ByteMask bytes,
                                const Stamp& earlier) const;
  void report_read(const Operation& operation, const Site& site, const Witness& witness,
                   const CtaState* cta, std::uint64_t address, ByteMask bytes, const Stamp& earlier,
                   std::string_view rule);
  /// Likewise if the operation overwrites what `earlier` wrote or reads.
  std::string_view rule_of_overwrite(const Witness& witness, bool shared, ByteMask bytes,
                                     const Stamp& earlier, bool earlier_reads) const;
  void report_overwrite(const Operation& operation, const CtaState* cta, std::uint64_t address,
                        ByteMask bytes, const Stamp& earlier, bool earlier_reads,
                        std::string_view rule);
  /// "reads `tile` with wgmma"
  std::string description(const Operation& operation, const CtaState* cta, std::uint32_t offset,
                          std::string_view verb) const;
  Stamp async_stamp(const Operation& operation, Access access) const;
  Witness issuer_of(const Operation& operation) const;
  /// The copy reports to a barrier that its issuer must know to be ready for the async proxy.
  void check_signal(const Operation& operation, const CtaState& cta, const MbarrierState& barrier);
  /// The copy lands in the phase in which it was issued. Since it might have landed at once, a
  /// phase that completes without its bytes has not been told of them.
  void check_same_phase(const Operation& operation, const CtaState& cta,
                        const MbarrierState& barrier);
  void land(const Operation& operation, const MbarrierState& barrier, std::uint32_t cta,
            std::uint64_t phase);

  // ---- checker_wgmma.cc: the registers of wgmmas, and who waits for them.

  std::uint32_t wgmma_index(const Site& site, std::span<const std::uint32_t> accumulators,
                            std::span<const std::uint32_t> a_registers);
  void check_registers(const WarpState& warp, const Site& site,
                       const WgmmaInstruction& instruction);
  void check_shapes(const WarpState& warp, const Site& site, std::uint32_t index);
  /// Notes that the wgmma that has begun last reads some bytes.
  void note_wgmma_read(WarpgroupState& group, std::uint32_t address, std::uint32_t bytes);
  /// What `witness` knows of the wgmmas of a warpgroup: up to which one they are complete, by the
  /// wait of any of its warps, or of all four.
  struct WgmmasDone {
    std::uint32_t by_any, by_all;
  };
  WgmmasDone wgmmas_done(const Witness& witness, const CtaState& cta, std::size_t group) const;
  /// Calls `report(rule, wgmma, offset)` where [address, address + bytes) is overwritten by
  /// somebody who does not know that a wgmma has read it.
  void check_wgmma_reads(const Witness& witness, const CtaState& cta, std::uint32_t address,
                         std::uint32_t bytes,
                         const std::function<void(std::string_view rule, const WgmmaReads& wgmma,
                                                  std::uint32_t offset)>& report) const;
  void learn_issuers(WarpState& warp, std::uint32_t number);

  // ---- Shared by them.

  /// Whether `witness` is ordered after what `stamp` stands for, in the sense of `kind`. Bulk
  /// stores: after their reads, or with Known::data after their writes.
  bool is_ordered(const Witness& witness, const Stamp& stamp, ByteMask bytes, Known kind) const;
  /// Likewise, but of all lanes where `stamp` is of threads: what KnownAccesses may remember.
  bool is_all_ordered(const Witness& witness, Stamp stamp, Known kind) const;
  /// Which mbarrier and phase a copy to `cta` reports to: "phase 3 of `full`".
  std::string landing_phase(const Stamp& stamp, const CtaState& cta) const;
  /// "the copy at lesson03_tma.cu:74 is still writing" or "writes"; `is_known`: the reader knows
  /// that it is done.
  std::string copy_text(const Stamp& stamp, bool is_known = false) const;
  /// "knows that ... is complete, but only ..." of somebody who may not read what has landed.
  static std::string known_by_relaxed(const std::string& phase);
};

}  // namespace emulator

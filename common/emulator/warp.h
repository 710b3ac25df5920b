// A warp: 32 lanes, their registers, and who of them is where.
//
// Lanes that share a program counter form a split. One split runs; the others are ready, or wait.
// Splits that meet at an instruction become one again. The split with the smallest program counter
// runs first, which lets the others meet it, and gives way after a while, so that lanes that spin
// do not starve those they spin for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/emulator/lanes.h"
#include "common/emulator/program.h"

namespace emulator {

struct Cta;
class Execution;

/// A return address.
struct CallFrame {
  std::uint32_t return_pc;
  std::uint32_t call;   ///< index into Program::calls
  std::uint32_t frame;  ///< the caller's frame in local memory
  /// The registers of a function that calls itself, as they were.
  std::shared_ptr<const std::vector<std::byte>> saved;

  // Splits that called at different times saved different registers: they stay apart till they
  // have returned.
  bool operator==(const CallFrame&) const = default;
};

/// What a split waits for: enough to end the wait, and to explain it if it never ends.
struct Wait {
  enum class Kind : std::uint8_t {
    none,             ///< does not wait
    lanes,            ///< the other lanes of `mask` at an .aligned or .sync instruction
    mbarrier,         ///< a phase of the mbarrier at `address`
    named_barrier,    ///< bar / barrier `id`
    cluster_barrier,  ///< the generation after `value`
    wgmma,            ///< wgmma number `value` of its warpgroup
    bulk_group,       ///< all but the last `value` bulk groups
    registers,        ///< `value` more registers of its CTA's pool
  };
  Kind kind = Kind::none;
  bool read_only = false;  ///< of bulk_group
  const Op* op = nullptr;  ///< the instruction that waits
  LaneMask mask = 0;
  int id = 0;
  std::uint32_t address = 0;  ///< from the start of the CTA's shared memory
  std::uint64_t value = 0;    ///< for an mbarrier, the parity
  std::uint64_t serial = 0;   ///< names this wait among those of the warp
};

struct Split {
  std::uint32_t pc = 0;
  LaneMask lanes = 0;
  std::uint32_t frame = 0;  ///< where its frame starts in local memory
  bool timed_out = false;   ///< its last wait for an mbarrier ended without the phase
  Wait wait;
  std::vector<CallFrame> calls;
};

/// Bulk copies of one thread that complete in groups: how many copies of each group are unfinished.
struct BulkGroups {
  struct Group {
    int unread = 0;     ///< whose source is still to be read
    int unwritten = 0;  ///< whose destination is still to be written
  };
  std::vector<std::shared_ptr<Group>> committed;  ///< unfinished ones, oldest first
  std::shared_ptr<Group> open;                    ///< since the last commit; may be nullptr
};

class Warp {
 public:
  /// The lanes that execute the current instruction.
  LaneMask lanes = 0;
  /// The carry flag of add.cc and its kin, a bit a lane.
  LaneMask carry = 0;
  std::vector<BulkGroups> bulk_groups;  ///< one a lane, empty before the first bulk copy

  Warp(Execution& execution, Cta& cta, std::uint32_t rank);

  /// Begins at the start of the program with `live` lanes.
  void start(LaneMask live, std::uint64_t time);
  /// Runs until its clock reaches `until`, or nothing of it can run.
  void run(std::uint64_t until);
  /// Makes a run() under way end at `time`, because something else happens then.
  void stop_at(std::uint64_t time) {
    if (time < until_) until_ = time;
  }

  // ---- For handlers: state.

  template <class T>
  Row<T> row(Slot slot) const {
    return Row<T>(bases_[slot >> 31] + (slot & ~constant_slot));
  }
  /// A predicate register as a mask.
  LaneMask predicate(Slot slot) const { return row<LaneMask>(slot)[0]; }
  /// Sets the lanes that execute to `value`.
  void set_predicate(Slot slot, LaneMask value) const {
    const Row<LaneMask> p = row<LaneMask>(slot);
    p.set(0, (p[0] & ~lanes) | (value & lanes));
  }
  /// A row of a 32-bit register for code that takes pointers (registers are aligned).
  std::uint32_t* row_pointer(Slot slot) const {
    return reinterpret_cast<std::uint32_t*>(bases_[slot >> 31] + (slot & ~constant_slot));
  }

  Execution& execution() const { return execution_; }
  Cta& cta() const { return cta_; }
  std::uint32_t rank() const { return rank_; }
  LaneMask live() const { return live_; }
  std::uint64_t time() const { return time_; }
  std::uint32_t frame() const { return current_.frame; }
  bool timed_out() const { return current_.timed_out; }
  Site site(const Op& op) const { return site(op, lanes); }
  Site site(const Op& op, LaneMask lanes) const;
  /// The local memory of a lane: Program::frame_bytes.
  std::byte* local_memory(int lane);

  // ---- For handlers: control flow. What returns a Flow is the handler's last word.

  /// Sends the lanes that execute to `target`.
  Flow jump(std::uint32_t target);
  /// Sends the lanes that execute into a function.
  Flow enter(const Op& op);
  Flow leave_function();
  Flow exit(const Op& op);
  /// Whether all live lanes of `needed` execute this instruction now. If not, those that do wait
  /// for the others, and the handler must return Flow::leave.
  bool gather(const Op& op, LaneMask needed);
  /// The lanes that execute wait, then execute this instruction again.
  Flow wait_and_retry(const Op& op, Wait wait);
  /// The lanes that execute wait, then go on behind this instruction.
  Flow wait_and_go_on(const Op& op, Wait wait);
  /// Ends the run: another warp may go first.
  Flow yield(std::uint64_t nanoseconds);
  /// An instruction looked at `place` and the machine did nothing since the last look that could
  /// change what is there: counts, and slows lanes down that spin.
  Flow poll(const Op& op, const void* place);
  void forgive_timeout() { current_.timed_out = false; }

  // ---- For whoever ends a wait.

  /// Ends the waits for which `matches` returns true.
  template <class Predicate>
  void end_waits(Predicate matches) {
    bool any = false;
    for (Split& split : others_) {
      if (split.wait.kind == Wait::Kind::none || !matches(split)) continue;
      split.wait.kind = Wait::Kind::none;
      any = true;
    }
    if (any) become_ready();
  }
  /// The splits that do not run; all of them when the warp does not.
  std::vector<Split>& others() { return others_; }
  const std::vector<Split>& others() const { return others_; }

  bool can_run() const;
  bool queued = false;  ///< in the scheduler's queue
  std::uint64_t polls() const { return polls_; }
  std::uint64_t poll_epoch() const { return poll_epoch_; }
  /// The last instruction that polled, nullptr if none did.
  const Op* last_look() const { return last_look_; }
  /// Model nanoseconds an instruction of cost 1 takes; how fast this warp goes.
  void set_pace(std::uint32_t pace) { pace_ = pace; }

  // ---- wgmma: what this warp has issued, committed and waited for (warpgroup.h).

  std::uint64_t wgmmas_issued = 0;
  std::vector<std::uint64_t> wgmma_groups;  ///< wgmmas_issued at each commit
  int registers_per_thread = 0;             ///< what setmaxnreg left
  std::uint64_t cluster_generation = 0;     ///< of its last barrier.cluster.arrive
  LaneMask cluster_arrived = 0;             ///< lanes that have arrived and not waited
  bool issues_copies = false;               ///< has issued a bulk load: a producer

 private:
  Flow step();
  bool choose();
  void reconcile();
  void set_aside(const Op& op, Wait wait, std::uint32_t pc);
  void become_ready();
  void report_wgmma_accesses(const Op& op);
  /// Gives the lanes that execute the registers of `function` as they were.
  void restore_registers(const FunctionCode& function, const std::vector<std::byte>& saved);

  Execution& execution_;
  Cta& cta_;
  const std::uint32_t rank_;
  const Op* ops_;
  std::array<std::byte*, 2> bases_;  ///< registers, constants
  std::uint64_t time_ = 0;
  std::uint64_t until_ = 0;
  std::uint32_t pace_ = 1;
  LaneMask live_ = 0;
  Split current_;  ///< runs; no lanes: none does
  std::vector<Split> others_;
  int turn_ = 0;           ///< instructions since the current split was chosen
  bool gave_way_ = false;  ///< the current split was chosen for fairness, not by its counter
  std::uint64_t wait_serial_ = 0;
  /// A look at something that others may change.
  struct Look {
    const Op* op = nullptr;
    const void* place = nullptr;
    bool operator==(const Look&) const = default;
  };
  std::array<Look, 8> looks_;  ///< of the loop that the warp may be spinning in
  std::size_t next_look_ = 0;
  const Op* last_look_ = nullptr;
  std::uint64_t polls_ = 0;
  std::uint64_t poll_epoch_ = 0;
  RowStorage registers_;
  std::unique_ptr<std::byte[]> local_;
};

}  // namespace emulator

// A launch while it runs: resident CTAs, virtual time, events, and whose turn it is.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <vector>

#include "common/emulator/cta.h"
#include "common/emulator/global_memory.h"
#include "common/emulator/machine.h"
#include "common/emulator/program.h"
#include "common/emulator/timing.h"

namespace emulator {

class Execution {
 public:
  /// `program.parameters` must hold the arguments. `seed` belongs to this launch alone.
  Execution(const Program& program, const LaunchGeometry& geometry, const MachineOptions& options,
            std::uint64_t seed, GlobalMemory& memory, Observer* observer);

  /// Runs the grid to its end, or to a fault.
  Outcome run();

  // ---- For handlers and engines.

  const Program& program() const { return program_; }
  const LaunchGeometry& geometry() const { return geometry_; }
  const MachineOptions& options() const { return options_; }
  GlobalMemory& memory() { return memory_; }
  Observer* observer() const { return observer_; }
  Timing& timing() { return timing_; }
  int registers_per_thread() const { return registers_per_thread_; }
  std::uint32_t shared_bytes() const { return shared_bytes_; }
  std::ostream& printf_output() const;
  Dim3 clusters() const;

  /// Model time at which whatever runs now, runs.
  std::uint64_t now() const { return running_ != nullptr ? running_->time() : now_; }
  /// Runs `action` at `time`.
  void at(std::uint64_t time, std::function<void()> action);
  /// Ends a wait for an mbarrier without success at `time`, unless it is over by then.
  void time_out_at(std::uint64_t time, Warp& warp, std::uint64_t serial);
  /// A warp that could not run can.
  void make_ready(Warp& warp);
  /// Something changed that a spinning thread could see.
  void note_progress() { ++epoch_; }
  std::uint64_t epoch() const { return epoch_; }
  /// Lanes of a running warp have exited.
  void lanes_exited(Warp& warp, LaneMask lanes);
  AsyncId next_async_id() { return ++statistics_.async_operations; }
  /// The CTA of this rank in the cluster of `cta`, nullptr if there is none.
  static Cta* peer(const Cta& cta, std::uint32_t rank);
  /// Where the tensor cores of each SM are busy until.
  std::uint64_t& tensor_cores_busy_until(int sm) { return tensor_cores_busy_until_[sm]; }
  void count_instruction() { ++statistics_.instructions; }

  /// The clusters that are resident, for the deadlock report.
  const std::vector<std::unique_ptr<Cluster>>& resident() const { return resident_; }

 private:
  struct Event {
    std::uint64_t time;
    std::uint64_t number;  ///< of equal times the first comes first
    std::function<void()> action;
  };
  struct Turn {
    std::uint64_t time;
    std::uint64_t number;
    Warp* warp;
  };
  struct Timeout {
    std::uint64_t time;
    std::uint64_t number;
    Warp* warp;
    std::uint64_t serial;
  };

  void check_geometry() const;
  /// False: the limits of the options ran out.
  bool run_grid();
  /// Runs the next event or warp. False: nothing is left that could.
  bool advance();
  void run_event();
  void run_warp();
  /// Ends the wait that times out first. False: such ends have led nowhere for too long.
  bool run_timeout(bool nothing_else);
  void check_livelock() const;
  void queue(Warp& warp);
  void start_clusters();
  void start_cluster(Cluster& cluster, std::uint64_t index);
  void start_cta(Cta& cta);
  void retire_clusters();
  std::unique_ptr<Cluster> make_cluster();

  const Program& program_;
  const LaunchGeometry geometry_;
  const MachineOptions& options_;
  GlobalMemory& memory_;
  Observer* const observer_;
  Timing timing_;
  int registers_per_thread_ = 0;
  std::uint32_t shared_bytes_ = 0;
  std::uint32_t warps_per_cta_ = 0;
  std::uint32_t ctas_per_cluster_ = 1;
  std::uint64_t slots_ = 1;  ///< CTAs that may be resident

  std::uint64_t now_ = 0;
  Warp* running_ = nullptr;
  // Heaps, the earliest on top.
  std::vector<Event> events_;
  std::vector<Turn> turns_;
  std::vector<Timeout> timeouts_;
  std::uint64_t number_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t timeout_epoch_ = 0;  ///< epoch_ when the last wait timed out
  std::uint64_t idle_timeouts_ = 0;  ///< waits that timed out since anything changed
  std::uint64_t next_cluster_ = 0;
  std::uint64_t resident_ctas_ = 0;
  bool any_exited_ = false;
  std::vector<std::unique_ptr<Cluster>> resident_;
  std::vector<std::unique_ptr<Cluster>> lingering_;     ///< exited, but copies are still under way
  std::vector<std::unique_ptr<Cluster>> pool_;          ///< to be used again
  std::vector<std::uint64_t> tensor_cores_busy_until_;  ///< of each SM
  std::vector<int> ctas_on_sm_;
  Statistics statistics_;
};

}  // namespace emulator

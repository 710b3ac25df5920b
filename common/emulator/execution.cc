#include "common/emulator/execution.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "common/emulator/barriers.h"
#include "common/emulator/deadlock.h"
#include "common/emulator/fault.h"
#include "common/emulator/memory_map.h"
#include "common/emulator/warpgroup.h"

namespace emulator {

namespace {

/// Limits of compute capability 9.0.
constexpr std::uint64_t threads_per_cta = 1024;
constexpr std::uint64_t threads_per_sm = 2048;
constexpr std::uint64_t registers_per_sm = 65536;
/// Of the shared memory of an SM each CTA costs this much more than it asks for.
constexpr std::uint64_t shared_overhead = 1024;

/// How long a warp may run when nobody else is there to wait for it, in model nanoseconds.
constexpr std::uint64_t longest_turn = 4096;
/// Waits for mbarriers that may time out one after the other with nothing else going on. A program
/// that counts its failures sees some; one that loops forever is told that it hangs.
constexpr std::uint64_t idle_timeout_limit = 4096;
/// Looks at unchanged memory by every thread that runs, after which they will never stop.
constexpr std::uint64_t livelock_polls = 2000;

std::string text(const Dim3& d) {
  return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
}

bool is_set(const std::array<int, 3>& extent) {
  return extent[0] != 0;
}

Dim3 dim3(const std::array<int, 3>& extent) {
  const auto at_least_one = [](int value) {
    return static_cast<std::uint32_t>(std::max(value, 1));
  };
  return {at_least_one(extent[0]), at_least_one(extent[1]), at_least_one(extent[2])};
}

bool same(const Dim3& a, const Dim3& b) {
  return a.x == b.x && a.y == b.y && a.z == b.z;
}

LaunchGeometry with_required_cluster(const Function& kernel, LaunchGeometry geometry) {
  if (is_set(kernel.required_cluster) && geometry.cluster.count() == 1) {
    geometry.cluster = dim3(kernel.required_cluster);
  }
  return geometry;
}

/// What ptxas allocates: as launch bounds or .maxnreg allow, else as many as a CTA can have.
int default_registers(const Function& kernel, const LaunchGeometry& geometry) {
  if (geometry.registers_per_thread != 0) return geometry.registers_per_thread;
  if (kernel.max_registers != 0) return kernel.max_registers;
  std::uint64_t threads = geometry.block.count();
  if (is_set(kernel.max_threads)) threads = dim3(kernel.max_threads).count();
  if (is_set(kernel.required_threads)) threads = dim3(kernel.required_threads).count();
  const auto ctas = static_cast<std::uint64_t>(std::max(kernel.min_ctas_per_sm, 1));
  const std::uint64_t registers = registers_per_sm / std::max<std::uint64_t>(threads * ctas, 1);
  return static_cast<int>(std::min<std::uint64_t>(registers / 8 * 8, 256));
}

/// CTAs of this size that fit on an SM.
std::uint64_t residency(const LaunchGeometry& geometry, const MachineOptions& options,
                        std::uint32_t shared_bytes) {
  const std::uint64_t threads = geometry.block.count();
  std::uint64_t ctas = static_cast<std::uint64_t>(std::max(options.ctas_per_sm, 1));
  ctas = std::min(ctas, threads_per_sm / threads);
  ctas = std::min(ctas, shared_bytes_per_sm / (shared_bytes + shared_overhead));
  if (geometry.registers_per_thread != 0) {
    const auto registers = static_cast<std::uint64_t>(geometry.registers_per_thread) * threads;
    ctas = std::min(ctas, registers_per_sm / registers);
  }
  return std::max<std::uint64_t>(ctas, 1);
}

// ---- Heaps of things that have a time and a number.

constexpr auto later = [](const auto& a, const auto& b) {
  return a.time != b.time ? a.time > b.time : a.number > b.number;
};

template <class T>
void push(std::vector<T>& heap, T item) {
  heap.push_back(std::move(item));
  std::push_heap(heap.begin(), heap.end(), later);
}

template <class T>
T pop(std::vector<T>& heap) {
  std::pop_heap(heap.begin(), heap.end(), later);
  T item = std::move(heap.back());
  heap.pop_back();
  return item;
}

template <class T>
std::uint64_t next_time(const std::vector<T>& heap) {
  return heap.empty() ? UINT64_MAX : heap.front().time;
}

}  // namespace

Execution::Execution(const Program& program, const LaunchGeometry& geometry,
                     const MachineOptions& options, std::uint64_t seed, GlobalMemory& memory,
                     Observer* observer)
    : program_(program),
      geometry_(with_required_cluster(*program.kernel, geometry)),
      options_(options),
      memory_(memory),
      observer_(observer),
      timing_(options.schedule, seed),
      shared_bytes_(program.dynamic_shared_offset + geometry.dynamic_shared_bytes) {
  check_geometry();
  registers_per_thread_ = default_registers(*program.kernel, geometry_);
  warps_per_cta_ =
      static_cast<std::uint32_t>((geometry_.block.count() + warp_size - 1) / warp_size);
  ctas_per_cluster_ = static_cast<std::uint32_t>(geometry_.cluster.count());
  const auto sms = static_cast<std::uint64_t>(std::max(options_.sms, 1));
  slots_ = sms * residency(geometry_, options_, shared_bytes_);
  tensor_cores_busy_until_.resize(sms);
  ctas_on_sm_.resize(sms);
}

void Execution::check_geometry() const {
  const Function& kernel = *program_.kernel;
  const auto refuse = [&](const std::string& what) {
    throw std::invalid_argument("Can't launch " + kernel.name + ": " + what);
  };
  const Dim3& grid = geometry_.grid;
  const Dim3& block = geometry_.block;
  const Dim3& cluster = geometry_.cluster;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7FFFFFFF || grid.y > 65535 ||
      grid.z > 65535 || grid.count() > 0xFFFFFFFF) {
    refuse("the grid " + text(grid) + " must be between 1 and 2147483647 x 65535 x 65535.");
  }
  if (block.count() == 0 || block.count() > threads_per_cta || block.z > 64) {
    refuse("the block " + text(block) + " must have between 1 and 1024 threads, at most 64 in z.");
  }
  if (cluster.count() == 0 || cluster.count() > cluster_size_limit) {
    refuse("the cluster " + text(cluster) + " must have between 1 and 16 CTAs.");
  }
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    refuse("the cluster " + text(cluster) + " does not divide the grid " + text(grid) + ".");
  }
  if (is_set(kernel.required_cluster) && !same(dim3(kernel.required_cluster), cluster)) {
    refuse("the cluster " + text(cluster) + " is not the one it was compiled for, " +
           text(dim3(kernel.required_cluster)) + ".");
  }
  if (is_set(kernel.required_threads) && !same(dim3(kernel.required_threads), block)) {
    refuse("the block " + text(block) + " is not the one it was compiled for, " +
           text(dim3(kernel.required_threads)) + ".");
  }
  if (is_set(kernel.max_threads) && block.count() > dim3(kernel.max_threads).count()) {
    refuse("the block " + text(block) + " has more threads than its launch bounds allow, " +
           std::to_string(dim3(kernel.max_threads).count()) + ".");
  }
  if (shared_bytes_ > shared_bytes_per_cta) {
    refuse("it needs " + std::to_string(shared_bytes_) + " bytes of shared memory, " +
           std::to_string(program_.dynamic_shared_offset) + " static and " +
           std::to_string(geometry_.dynamic_shared_bytes) + " dynamic; a CTA has at most " +
           std::to_string(shared_bytes_per_cta) + ".");
  }
}

std::ostream& Execution::printf_output() const {
  return options_.printf_output != nullptr ? *options_.printf_output : std::cout;
}

Dim3 Execution::clusters() const {
  return {geometry_.grid.x / geometry_.cluster.x, geometry_.grid.y / geometry_.cluster.y,
          geometry_.grid.z / geometry_.cluster.z};
}

Cta* Execution::peer(const Cta& cta, std::uint32_t rank) {
  return rank < cta.cluster->ctas.size() ? cta.cluster->ctas[rank].get() : nullptr;
}

// ---- The run.

Outcome Execution::run() {
  Outcome outcome;
  if (observer_ != nullptr) {
    observer_->launch_begins({program_.module, program_.kernel,
                              static_cast<std::uint32_t>(geometry_.grid.count()), ctas_per_cluster_,
                              warps_per_cta_, shared_bytes_, program_.shared_variables});
  }
  try {
    outcome.ending = run_grid() ? Outcome::Ending::finished : Outcome::Ending::out_of_time;
  } catch (Fault& fault) {
    outcome.ending = Outcome::Ending::fault;
    outcome.findings.push_back(std::move(fault.finding));
  }
  if (observer_ != nullptr) observer_->launch_ends();
  statistics_.virtual_time = now_;
  outcome.statistics = statistics_;
  return outcome;
}

bool Execution::run_grid() {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const std::chrono::duration<double> limit(options_.time_limit_s);
  const auto out_of_time = [&] {
    return statistics_.instructions > options_.step_limit ||
           (options_.time_limit_s > 0 && Clock::now() - start > limit);
  };

  start_clusters();
  for (std::uint64_t turn = 1; advance(); ++turn) {
    if (any_exited_) {
      retire_clusters();
      start_clusters();
    }
    if (turn % 256 == 0 && out_of_time()) return false;
  }
  if (!resident_.empty()) throw Fault{deadlock(*this)};
  return true;
}

bool Execution::advance() {
  const std::uint64_t next = std::min(next_time(turns_), next_time(events_));
  if (!timeouts_.empty() && timeouts_.front().time <= next) return run_timeout(next == UINT64_MAX);
  if (next == UINT64_MAX) return false;
  if (next_time(events_) == next) {
    run_event();
  } else {
    run_warp();
  }
  return true;
}

void Execution::run_event() {
  const Event event = pop(events_);
  now_ = std::max(now_, event.time);
  note_progress();
  event.action();
}

void Execution::run_warp() {
  Warp& warp = *pop(turns_).warp;
  warp.queued = false;
  if (!warp.can_run()) return;

  now_ = std::max(now_, warp.time());
  std::uint64_t until = std::min(warp.time() + longest_turn, next_time(events_));
  if (!turns_.empty()) until = std::min(until, next_time(turns_) + timing_.slice());
  warp.set_pace(timing_.pace(warp.issues_copies));
  running_ = &warp;
  warp.run(until);
  now_ = std::max(now_, warp.time());
  running_ = nullptr;

  if (warp.can_run()) queue(warp);
  if (warp.polls() >= livelock_polls && events_.empty()) check_livelock();
}

bool Execution::run_timeout(bool nothing_else) {
  const Timeout timeout = pop(timeouts_);
  const auto waits = [&](const Split& split) {
    return split.wait.kind == Wait::Kind::mbarrier && split.wait.serial == timeout.serial;
  };
  const std::vector<Split>& splits = timeout.warp->others();
  if (std::none_of(splits.begin(), splits.end(), waits)) return true;

  if (nothing_else) {
    idle_timeouts_ = timeout_epoch_ == epoch_ ? idle_timeouts_ + 1 : 1;
    timeout_epoch_ = epoch_;
    // The split goes on waiting, for the report.
    if (idle_timeouts_ > idle_timeout_limit) return false;
  }
  now_ = std::max(now_, timeout.time);
  timeout.warp->end_waits([&](Split& split) {
    split.timed_out = split.timed_out || waits(split);
    return waits(split);
  });
  return true;
}

void Execution::check_livelock() const {
  for (const auto& cluster : resident_) {
    for (const auto& cta : cluster->ctas) {
      for (const auto& warp : cta->warps) {
        if (!warp->can_run()) continue;
        if (warp->poll_epoch() != epoch_ || warp->polls() < livelock_polls) return;
      }
    }
  }
  throw Fault{livelock(*this)};
}

// ---- What handlers and engines ask for.

void Execution::at(std::uint64_t time, std::function<void()> action) {
  push(events_, Event{time, ++number_, std::move(action)});
  if (running_ != nullptr) running_->stop_at(time);
}

void Execution::time_out_at(std::uint64_t time, Warp& warp, std::uint64_t serial) {
  push(timeouts_, Timeout{time, ++number_, &warp, serial});
}

void Execution::make_ready(Warp& warp) {
  if (&warp == running_) return;
  queue(warp);
  if (running_ != nullptr) running_->stop_at(warp.time() + timing_.slice());
}

void Execution::queue(Warp& warp) {
  if (warp.queued) return;
  warp.queued = true;
  push(turns_, Turn{warp.time(), ++number_, &warp});
}

void Execution::lanes_exited(Warp& warp, LaneMask lanes) {
  Cta& cta = warp.cta();
  note_progress();
  Cluster& cluster = *cta.cluster;
  cluster.live_threads -= static_cast<std::uint32_t>(count_lanes(lanes));
  // The barrier of the cluster forgets arrivals of threads that have exited.
  const LaneMask arrived = warp.cluster_arrived & lanes;
  if (warp.cluster_generation == cluster.barrier.generation) {
    cluster.barrier.arrived -= static_cast<std::uint32_t>(count_lanes(arrived));
  }
  warp.cluster_arrived &= ~lanes;
  complete_cluster_barrier(*this, cluster);
  if (warp.live() != 0) return;

  --cta.live_warps;
  check_wgmmas_at_exit(warp);
  complete_named_barriers(*this, cta);
  if (!cta.exited()) return;
  any_exited_ = true;
  if (observer_ != nullptr) observer_->cta_ends(cta.index);
}

// ---- Residency.

void Execution::start_clusters() {
  const std::uint64_t total = clusters().count();
  while (next_cluster_ < total &&
         (resident_.empty() || resident_ctas_ + ctas_per_cluster_ <= slots_)) {
    std::unique_ptr<Cluster> cluster;
    if (pool_.empty()) {
      cluster = make_cluster();
    } else {
      cluster = std::move(pool_.back());
      pool_.pop_back();
    }
    start_cluster(*cluster, next_cluster_++);
    resident_.push_back(std::move(cluster));
    resident_ctas_ += ctas_per_cluster_;
  }
}

std::unique_ptr<Cluster> Execution::make_cluster() {
  auto cluster = std::make_unique<Cluster>();
  for (std::uint32_t rank = 0; rank < ctas_per_cluster_; ++rank) {
    auto cta = std::make_unique<Cta>();
    cta->rank = rank;
    cta->cluster = cluster.get();
    for (std::uint32_t warp = 0; warp < warps_per_cta_; ++warp) {
      cta->warps.push_back(std::make_unique<Warp>(*this, *cta, warp));
    }
    cluster->ctas.push_back(std::move(cta));
  }
  return cluster;
}

void Execution::start_cluster(Cluster& cluster, std::uint64_t index) {
  const Dim3 counts = clusters();
  cluster.id = {static_cast<std::uint32_t>(index % counts.x),
                static_cast<std::uint32_t>(index / counts.x % counts.y),
                static_cast<std::uint32_t>(index / counts.x / counts.y)};
  cluster.barrier = {};
  cluster.live_threads = static_cast<std::uint32_t>(geometry_.block.count()) * ctas_per_cluster_;
  for (const auto& cta : cluster.ctas) start_cta(*cta);
}

void Execution::start_cta(Cta& cta) {
  const Dim3& size = geometry_.cluster;
  const Dim3& cluster = cta.cluster->id;
  cta.id = {cluster.x * size.x + cta.rank % size.x, cluster.y * size.y + cta.rank / size.x % size.y,
            cluster.z * size.z + cta.rank / size.x / size.y};
  cta.index = (cta.id.z * geometry_.grid.y + cta.id.y) * geometry_.grid.x + cta.id.x;
  const auto sm = std::min_element(ctas_on_sm_.begin(), ctas_on_sm_.end());
  ++*sm;
  cta.sm = static_cast<int>(sm - ctas_on_sm_.begin());
  // What shared memory holds at first is undefined; all ones are NaN in every float format.
  cta.shared.assign(shared_bytes_, std::byte{0xFF});
  cta.mbarriers.clear();
  cta.named_barriers = {};
  cta.warpgroups.assign((warps_per_cta_ + 3) / 4, {});
  cta.free_registers = 0;
  cta.live_warps = warps_per_cta_;
  if (observer_ != nullptr) observer_->cta_begins(cta.index);

  const std::uint64_t time = now_ + timing_.start_delay();
  std::uint64_t threads = geometry_.block.count();
  for (const auto& warp : cta.warps) {
    const std::uint64_t lanes = std::min<std::uint64_t>(threads, warp_size);
    warp->start(lanes == warp_size ? all_lanes : lane_bit(static_cast<int>(lanes)) - 1, time);
    threads -= lanes;
    queue(*warp);
  }
}

void Execution::retire_clusters() {
  any_exited_ = false;
  const auto reuse = [&](std::vector<std::unique_ptr<Cluster>>& from) {
    std::erase_if(from, [&](std::unique_ptr<Cluster>& cluster) {
      if (!cluster->exited() || cluster->async_operations != 0) return false;
      pool_.push_back(std::move(cluster));
      return true;
    });
  };
  reuse(lingering_);
  for (auto& cluster : resident_) {
    if (!cluster->exited()) continue;
    for (const auto& cta : cluster->ctas) --ctas_on_sm_[cta->sm];
    resident_ctas_ -= ctas_per_cluster_;
    lingering_.push_back(std::move(cluster));
  }
  std::erase(resident_, nullptr);
  reuse(lingering_);
}

}  // namespace emulator

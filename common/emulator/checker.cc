#include "common/emulator/checker.h"

#include <algorithm>

#include "common/emulator/checker_state.h"
#include "common/emulator/fault.h"
#include "common/emulator/lanes.h"

namespace emulator {

Checker::Checker(const CheckerOptions& options) : state_(std::make_unique<State>()) {
  state_->options = options;
}
Checker::~Checker() = default;

std::vector<Finding> Checker::findings(std::span<const Finding> of_machine) const {
  const bool hangs = std::any_of(of_machine.begin(), of_machine.end(), [](const Finding& finding) {
    return finding.rule == find_rule("deadlock")->id || finding.rule == find_rule("livelock")->id;
  });
  std::vector<Finding> own = state_->log.list();
  if (hangs) {
    const std::vector<Finding> more = state_->deadlock_log.list();
    own.insert(own.end(), more.begin(), more.end());
  }
  std::stable_sort(own.begin(), own.end(),
                   [](const Finding& a, const Finding& b) { return a.rule < b.rule; });
  std::vector<Finding> all(of_machine.begin(), of_machine.end());
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

// ---- The cast.

WarpState& Checker::State::warp_of(const Site& site) const {
  return ctas[site.cta]->warps[site.warp];
}

std::unique_ptr<ClusterState> Checker::State::make_cluster() const {
  auto cluster = std::make_unique<ClusterState>();
  cluster->ctas.resize(info.ctas_per_cluster);
  for (std::uint32_t rank = 0; rank < info.ctas_per_cluster; ++rank) {
    CtaState& cta = cluster->ctas[rank];
    cta.rank = rank;
    cta.cluster = cluster.get();
    cta.warps.resize(info.warps_per_cta);
    cta.warpgroups.resize((info.warps_per_cta + 3) / 4);
    for (std::uint32_t i = 0; i < info.warps_per_cta; ++i) {
      cta.warps[i].cta = &cta;
      cta.warps[i].in_cluster = rank * info.warps_per_cta + i;
    }
  }
  return cluster;
}

void Checker::State::reset(CtaState& cta) const {
  cta.ended = false;
  cta.shadow.reset(info.shared_bytes);
  cta.barriers.clear();
  cta.named_barriers = {};
  const VectorClock nothing(cta.cluster->number);
  cta.cluster_barrier = {nothing, nothing};
  cta.cluster_generation = {};
  cta.remote_accesses.clear();
  cta.at_exit.clear(cta.cluster->number);
  for (WarpgroupState& group : cta.warpgroups) group = {};
  for (WarpState& warp : cta.warps) {
    WarpState fresh;
    fresh.cta = &cta;
    fresh.in_cluster = warp.in_cluster;
    fresh.clocks.reset(cta.cluster->number, warp.in_cluster);
    warp = std::move(fresh);
  }
}

CtaState& Checker::State::begin_cta(std::uint32_t index) {
  const bool starts = live_clusters.empty() || live_clusters.back()->begun == info.ctas_per_cluster;
  if (starts) {
    if (pool.empty()) pool.push_back(make_cluster());
    live_clusters.push_back(std::move(pool.back()));
    pool.pop_back();
    ClusterState& cluster = *live_clusters.back();
    cluster.number = clusters_begun++;
    cluster.next_fact = wgmma_fact(warps_in_cluster);
    cluster.begun = cluster.ended = 0;
    cluster.barrier = {VectorClock(cluster.number), VectorClock(cluster.number)};
    cluster.generation = {};
  }
  ClusterState& cluster = *live_clusters.back();
  CtaState& cta = cluster.ctas[cluster.begun++];
  cta.index = index;
  reset(cta);
  if (ctas.size() <= index) ctas.resize(index + 1);
  ctas[index] = &cta;
  cta_of_number.push_back(index);
  return cta;
}

void Checker::State::retire(const ClusterState& cluster) {
  for (const CtaState& cta : cluster.ctas) ctas[cta.index] = nullptr;
  const auto place = std::find_if(live_clusters.begin(), live_clusters.end(),
                                  [&](const auto& live) { return live.get() == &cluster; });
  pool.push_back(std::move(*place));
  live_clusters.erase(place);
}

std::string Checker::State::party(std::uint32_t cluster, std::uint32_t warp, LaneMask lanes) const {
  const std::uint32_t cta =
      cta_of_number[cluster * info.ctas_per_cluster + warp / info.warps_per_cta];
  return role({nullptr, cta, static_cast<std::uint16_t>(warp % info.warps_per_cta), lanes});
}

std::string Checker::State::party(const Stamp& stamp, ByteMask bytes) const {
  return party(stamp.cluster, stamp.who, stamp.lanes_at(bytes));
}

std::string Checker::State::object(const CtaState& cta, std::uint32_t address,
                                   std::uint32_t from) const {
  const std::string name = log.name(address);
  return cta.index == from ? name : name + " of CTA " + std::to_string(cta.index);
}

// ---- Lifetime.

void Checker::launch_begins(const LaunchInfo& info) {
  const CheckerOptions options = state_->options;
  state_ = std::make_unique<State>();
  state_->options = options;
  state_->info = info;
  state_->info.ctas_per_cluster = std::max(info.ctas_per_cluster, 1u);
  state_->warps_in_cluster = state_->info.ctas_per_cluster * info.warps_per_cta;
  state_->wgmma_registers.resize(info.kernel->registers.size());
  state_->log.begin(info);
  state_->deadlock_log.begin(info);
}

void Checker::cta_begins(std::uint32_t cta) {
  state_->begin_cta(cta);
}

void Checker::lanes_exit(const Site& site) {
  WarpState& warp = state_->warp_of(site);
  state_->check_exit(warp, site);
  warp.clocks.release(site.lanes, warp.cta->at_exit);
  warp.clocks.exit(site.lanes);
}

void Checker::State::check_exit(WarpState& warp, const Site& site) {
  for (const BulkStores& stores : warp.bulk_stores) {
    if ((site.lanes & lane_bit(stores.lane)) == 0) continue;
    const Witness witness = warp.clocks.witness(stores.lane);
    if (witness.fact(Known::order, warp.cta->cluster->number, stores.fact) >= stores.issued) {
      continue;
    }
    log.add("exit-in-flight", stores.last, {}, [&] {
      return "exits (" + log.place(*site.instruction) +
             ") without having waited for this bulk store, which may still read shared memory "
             "that is no longer there: cp.async.bulk.wait_group.read 0 must come first.";
    });
  }
  if (warp.wgmmas_issued > warp.wgmmas_awaited) {
    log.add("exit-in-flight", warp.last_wgmma, {}, [&] {
      return "exits (" + log.place(*site.instruction) +
             ") without having waited for this wgmma: wgmma.wait_group 0 must come first.";
    });
  }
}

void Checker::cta_ends(std::uint32_t index) {
  CtaState& cta = *state_->ctas[index];
  cta.ended = true;
  state_->check_end(cta);
  if (++cta.cluster->ended == state_->info.ctas_per_cluster) state_->retire(*cta.cluster);
}

std::int64_t Operation::bytes_for(std::uint32_t cta) const {
  std::int64_t bytes = 0;
  for (const Range& range : ranges) {
    if (range.writes && range.cta == cta) bytes += range.bytes;
  }
  return bytes;
}

std::int64_t Checker::State::bytes_under_way(const CtaState& cta,
                                             const MbarrierState& barrier) const {
  std::int64_t bytes = 0;
  for (const auto& [id, operation] : operations) {
    for (const Operation::Signal& signal : operation.signals) {
      if (signal.cta == cta.index && signal.address == barrier.address) {
        bytes += operation.bytes_for(cta.index);
      }
    }
  }
  return bytes;
}

void Checker::State::check_end(CtaState& cta) {
  for (const auto& [id, operation] : operations) {
    for (const Operation::Range& range : operation.ranges) {
      if (!range.writes || range.cta != cta.index) continue;
      log.add("exit-in-flight", operation.site, log.shared(range.address), [&] {
        return "issues a copy to " + object(cta, range.address, operation.site.cta) +
               " that is still under way when all threads of CTA " + std::to_string(cta.index) +
               " have exited: none has waited for it.";
      });
    }
  }
  for (const auto& [address, barrier] : cta.barriers) {
    if (barrier.phases_with_copies > cta.at_exit.at(Known::order, barrier.fact)) {
      log.add("exit-in-flight", barrier.last_copy, log.shared(address), [&] {
        return "issues a copy that reports to " + object(cta, address, barrier.last_copy.cta) +
               " in phase " + std::to_string(barrier.phases_with_copies - 1) +
               ": it has landed, but no thread of CTA " + std::to_string(cta.index) +
               " has waited for that phase, so that it might as well land after all have exited.";
      });
    }
    check_balance(log, cta, barrier);
  }
  check_remote_accesses(cta);
}

void Checker::State::check_balance(FindingLog& into, const CtaState& cta,
                                   const MbarrierState& barrier) {
  const std::int64_t lacking = barrier.bytes - bytes_under_way(cta, barrier);
  if (lacking == 0) return;
  const Site& site = barrier.last_expect ? *barrier.last_expect : barrier.last_copy;
  if (site.instruction == nullptr) return;
  into.add("unbalanced-expect-tx", site, into.shared(barrier.address), [&] {
    const std::string name = object(cta, barrier.address, site.cta);
    const std::string phase = "phase " + std::to_string(barrier.phase);
    if (lacking > 0) {
      return "announces more bytes for " + name + " than come: in the end " + phase +
             " still lacks " + counted(static_cast<std::uint64_t>(lacking), "byte") + ".";
    }
    return "announces fewer bytes for " + name + " than come: in the end " + phase + " has " +
           counted(static_cast<std::uint64_t>(-lacking), "byte") +
           " that nobody announced; it can't complete while they are too many.";
  });
}

void Checker::launch_ends() {
  State& state = *state_;
  for (const auto& cluster : state.live_clusters) {
    for (const CtaState& cta : cluster->ctas) {
      if (cta.ended || state.find_cta(cta.index) != &cta) continue;
      for (const auto& [address, barrier] : cta.barriers) {
        state.check_balance(state.deadlock_log, cta, barrier);
      }
    }
  }
}

}  // namespace emulator

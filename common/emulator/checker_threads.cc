// How threads order each other: barriers, mbarriers, flags, fences.
#include <algorithm>

#include "common/emulator/checker_state.h"
#include "common/emulator/lanes.h"

namespace emulator {

namespace {

bool releases(Order order) {
  return order == Order::release || order == Order::acq_rel;
}
bool acquires(Order order) {
  return order == Order::acquire || order == Order::acq_rel;
}

/// The smallest scope that contains both threads.
Scope scope_between(const Flag::Release& release, const CtaState& cta) {
  if (release.cluster != cta.cluster->number) return Scope::gpu;
  return release.cta == cta.index ? Scope::cta : Scope::cluster;
}

/// The clock of a generation of a barrier, forgetting the one before the last.
VectorClock& clock_of_generation(std::array<VectorClock, 2>& clocks,
                                 std::array<std::uint64_t, 2>& generations,
                                 std::uint64_t generation, std::uint32_t cluster) {
  const std::size_t parity = generation % 2;
  if (generations[parity] != generation) {
    clocks[parity].clear(cluster);
    generations[parity] = generation;
  }
  return clocks[parity];
}

bool has_part(const Instruction& instruction, std::string_view part) {
  return std::find(instruction.opcode.begin(), instruction.opcode.end(), part) !=
         instruction.opcode.end();
}

}  // namespace

// ---- Warps, named barriers, the barrier of the cluster.

void Checker::warp_sync(const Site& site) {
  state_->warp_of(site).clocks.meet(site.lanes);
}

void Checker::barrier_arrive(const Site& site, int id, std::uint64_t generation) {
  State& state = *state_;
  WarpState& warp = state.warp_of(site);
  ClusterState& cluster = *warp.cta->cluster;
  NamedBarrierState& barrier = warp.cta->named_barriers[static_cast<std::size_t>(id)];
  if (!barrier.fact) {
    barrier.fact = state.new_fact(cluster);
    for (VectorClock& clock : barrier.clock) clock.clear(cluster.number);
  }
  // A group of threads that does not know the last generation to be over could have joined it.
  const Witness witness = warp.clocks.witness();
  if (witness.fact(Known::order, cluster.number, *barrier.fact) < generation) {
    state.log.add("named-barrier-shared", site, {}, [&] {
      return "arrives at barrier " + std::to_string(id) + " in its generation " +
             std::to_string(generation) + " without being ordered after generation " +
             std::to_string(generation - 1) +
             ": under another schedule it joins that one. Two groups of threads use the same "
             "barrier, or an arrival runs ahead of the other side.";
    });
  }
  warp.clocks.release(site.lanes, clock_of_generation(barrier.clock, barrier.generation, generation,
                                                      cluster.number));
}

void Checker::barrier_leave(const Site& site, int id, std::uint64_t generation) {
  WarpState& warp = state_->warp_of(site);
  NamedBarrierState& barrier = warp.cta->named_barriers[static_cast<std::size_t>(id)];
  if (!barrier.fact) return;
  warp.clocks.acquire(site.lanes, clock_of_generation(barrier.clock, barrier.generation, generation,
                                                      warp.clocks.cluster()));
  warp.clocks.learn(site.lanes, *barrier.fact, static_cast<std::uint32_t>(generation + 1));
  warp.clocks.meet(site.lanes);
}

void Checker::cluster_arrive(const Site& site, std::uint64_t generation, Order order) {
  WarpState& warp = state_->warp_of(site);
  CtaState& cta = *warp.cta;
  ClusterState& cluster = *cta.cluster;
  const Transfer transfer =
      releases(order) ? Transfer::everything() : Transfer::fenced(Scope::cluster);
  warp.clocks.release(
      site.lanes,
      clock_of_generation(cluster.barrier, cluster.generation, generation, cluster.number),
      transfer.to_other_ctas());
  warp.clocks.release(
      site.lanes,
      clock_of_generation(cta.cluster_barrier, cta.cluster_generation, generation, cluster.number),
      transfer);
}

void Checker::cluster_leave(const Site& site, std::uint64_t generation, Order order) {
  WarpState& warp = state_->warp_of(site);
  CtaState& cta = *warp.cta;
  ClusterState& cluster = *cta.cluster;
  const Transfer transfer = acquires(order) ? Transfer::everything() : Transfer::order();
  warp.clocks.acquire(
      site.lanes,
      clock_of_generation(cluster.barrier, cluster.generation, generation, cluster.number),
      transfer);
  warp.clocks.acquire(
      site.lanes,
      clock_of_generation(cta.cluster_barrier, cta.cluster_generation, generation, cluster.number),
      transfer);
}

// ---- Fences.

void Checker::fence(const Site& site, FenceKind kind, Order order, Scope scope) {
  State& state = *state_;
  WarpState& warp = state.warp_of(site);
  switch (kind) {
    case FenceKind::memory:
      for (const Scope reached : {Scope::cta, Scope::cluster, Scope::gpu}) {
        if (reached > scope) break;
        if (acquires(order)) warp.clocks.admit(site.lanes, Transfer::observed_kind(reached));
      }
      for (const Scope reached : {Scope::cta, Scope::cluster, Scope::gpu}) {
        if (reached > scope) break;
        if (releases(order)) warp.clocks.fence(site.lanes, Transfer::fenced_kind(reached));
      }
      break;
    case FenceKind::proxy_async:
      state.fence_inits(warp, site.lanes);
      warp.clocks.fence(site.lanes, Known::proxy_shared);
      warp.clocks.fence(site.lanes, Known::proxy_global);
      break;
    case FenceKind::proxy_async_shared:
      state.fence_inits(warp, site.lanes);
      warp.clocks.fence(site.lanes, Known::proxy_shared);
      break;
    case FenceKind::proxy_async_global:
      warp.clocks.fence(site.lanes, Known::proxy_global);
      break;
    case FenceKind::mbarrier_init:
      state.fence_inits(warp, site.lanes);
      break;
    case FenceKind::tensormap_release:
      warp.clocks.fence(site.lanes, Known::released_map);
      break;
    case FenceKind::tensormap_acquire:
      warp.clocks.fence(site.lanes, Known::tensor_map);
      break;
  }
}

void Checker::State::fence_inits(WarpState& warp, LaneMask lanes) {
  std::erase_if(warp.unfenced_inits, [&](MbarrierState* barrier) {
    if ((barrier->init.lanes & lanes) == 0) return false;
    barrier->init_fence = Moment{warp.in_cluster, barrier->init.lanes, warp.clocks.time()};
    return true;
  });
  warp.clocks.advance();
}

// ---- Flags.

void Checker::State::observe_flag(WarpState& warp, const Site& site, LaneMask lanes,
                                  std::uint64_t address, Access access, Order order, Scope scope) {
  if (access == Access::read) {
    const auto known = flags.find(address);
    if (known == flags.end()) return;
    const Flag& flag = known->second;
    const WarpState::Look look{&flag, site.instruction, flag.version, lanes};
    if (look == warp.last_look) return;
    warp.last_look = look;
    acquire_flag(warp, lanes, flag, order, scope);
    return;
  }
  Flag& flag = flags[address];
  // red does not see the value that it changes.
  if (site.instruction->opcode.front() == "atom") acquire_flag(warp, lanes, flag, order, scope);
  release_flag(warp, lanes, flag, access, order, scope);
}

void Checker::State::acquire_flag(WarpState& warp, LaneMask lanes, const Flag& flag, Order order,
                                  Scope scope) {
  for (const Flag::Release& release : flag.releases) {
    const Scope needed = scope_between(release, *warp.cta);
    Transfer transfer = release.relaxed ? Transfer::fenced(needed) : Transfer::everything();
    if (!acquires(order)) transfer = transfer.observed(needed);
    if (release.scope < needed || scope < needed) transfer = Transfer::order();
    if (release.cta != warp.cta->index) transfer = transfer.to_other_ctas();
    warp.clocks.acquire(lanes, *release.clock, transfer);
  }
}

void Checker::State::release_flag(WarpState& warp, LaneMask lanes, Flag& flag, Access access,
                                  Order order, Scope scope) {
  // A plain store begins a new sequence; a read-modify-write goes on with the old one.
  if (access == Access::write) flag.releases.clear();
  const bool relaxed = !releases(order);
  const std::uint32_t cta = warp.cta->index;
  const auto same =
      std::find_if(flag.releases.begin(), flag.releases.end(), [&](const Flag::Release& release) {
        return release.cta == cta && release.scope == scope && release.relaxed == relaxed;
      });
  const bool is_new = same == flag.releases.end();
  auto clock = is_new ? std::make_shared<VectorClock>(warp.clocks.cluster())
                      : std::make_shared<VectorClock>(*same->clock);
  warp.clocks.release(lanes, *clock);
  if (is_new) {
    flag.releases.push_back({cta, warp.clocks.cluster(), scope, relaxed, std::move(clock)});
  } else {
    same->clock = std::move(clock);
  }
  ++flag.version;
}

// ---- mbarriers.

MbarrierState* Checker::State::find_barrier(std::uint32_t index, std::uint32_t address) const {
  CtaState* const cta = find_cta(index);
  if (cta == nullptr) return nullptr;
  const auto found = cta->barriers.find(address);
  return found == cta->barriers.end() ? nullptr : &found->second;
}

void Checker::mbarrier_init(const Site& site, std::uint32_t cta_index, std::uint32_t address,
                            std::uint32_t) {
  State& state = *state_;
  WarpState& warp = state.warp_of(site);
  CtaState& cta = *state.ctas[cta_index];
  const auto [place, is_new] = cta.barriers.try_emplace(address);
  MbarrierState& barrier = place->second;
  if (!is_new) {
    state.log.add("barrier-overwritten", site, state.log.shared(address), [&] {
      return "initializes " + state.object(cta, address, site.cta) + " again (the first time at " +
             state.log.place(*barrier.init_site.instruction) +
             ") while it is in use: mbarrier.inval must come first.";
    });
    std::erase(cta.warps[barrier.init_site.warp].unfenced_inits, &barrier);
  }
  const std::uint32_t number = cta.cluster->number;
  barrier = {};
  barrier.address = address;
  barrier.fact = state.new_fact(*cta.cluster);
  barrier.init = {warp.in_cluster, site.lanes, warp.clocks.time()};
  barrier.init_site = site;
  for (VectorClock* const clock :
       {&barrier.near_so_far, &barrier.near, &barrier.far_so_far, &barrier.far}) {
    clock->clear(number);
  }
  warp.unfenced_inits.push_back(&barrier);
}

void Checker::mbarrier_inval(const Site&, std::uint32_t cta_index, std::uint32_t address) {
  CtaState& cta = *state_->ctas[cta_index];
  const auto found = cta.barriers.find(address);
  if (found == cta.barriers.end()) return;
  MbarrierState* const barrier = &found->second;
  for (WarpState& warp : cta.warps) std::erase(warp.unfenced_inits, barrier);
  cta.barriers.erase(found);
}

void Checker::State::check_initialized(WarpState& warp, const Site& site, const CtaState& cta,
                                       const MbarrierState& barrier) {
  const std::uint32_t cluster = cta.cluster->number;
  const auto knows = [&](const Witness& witness) {
    const Moment& init = barrier.init;
    if (witness.knows(Known::data, cluster, init.warp, init.lanes, init.time)) return true;
    if (!barrier.init_fence) return false;
    const Moment& fence = *barrier.init_fence;
    return witness.knows(Known::order, cluster, fence.warp, fence.lanes, fence.time);
  };
  if (knows(warp.clocks.common_witness())) return;
  for_each_lane(site.lanes, [&](int lane) {
    if (knows(warp.clocks.witness(lane))) return;
    Site own = site;
    own.lanes = lane_bit(lane);
    log.add("barrier-not-initialized", own, log.shared(barrier.address), [&] {
      return "uses " + object(cta, barrier.address, site.cta) + ", which " +
             party(cluster, barrier.init.warp, barrier.init.lanes) + " initializes at " +
             log.place(*barrier.init_site.instruction) +
             ": nothing orders the two. A barrier of the CTA (with other CTAs involved, of the "
             "cluster) must stand between them.";
    });
  });
}

void Checker::mbarrier_arrive(const Site& site, std::uint32_t cta_index, std::uint32_t address,
                              std::uint64_t, std::uint32_t, Order order, Scope scope) {
  State& state = *state_;
  MbarrierState* const barrier = state.find_barrier(cta_index, address);
  if (barrier == nullptr) return;
  WarpState& warp = state.warp_of(site);
  CtaState& cta = *state.ctas[cta_index];
  state.check_initialized(warp, site, cta, *barrier);
  if (cta_index == site.cta) {
    warp.clocks.release(site.lanes, barrier->near_so_far,
                        releases(order) ? Transfer::everything() : Transfer::fenced(Scope::cta));
    return;
  }
  state.note_remote(warp, site, cta, barrier);
  if (scope >= Scope::cluster) {
    const Transfer transfer =
        releases(order) ? Transfer::everything() : Transfer::fenced(Scope::cluster);
    warp.clocks.release(site.lanes, barrier->far_so_far, transfer.to_other_ctas());
  }
  warp.clocks.release(site.lanes, barrier->near_so_far, Transfer::order());
}

void Checker::mbarrier_expect(const Site& site, std::uint32_t cta_index, std::uint32_t address,
                              std::uint64_t, std::int64_t bytes) {
  State& state = *state_;
  MbarrierState* const barrier = state.find_barrier(cta_index, address);
  if (barrier == nullptr) return;
  WarpState& warp = state.warp_of(site);
  CtaState& cta = *state.ctas[cta_index];
  state.check_initialized(warp, site, cta, *barrier);
  if (cta_index != site.cta) state.note_remote(warp, site, cta, barrier);
  barrier->bytes += bytes;
  barrier->last_expect = site;
}

void Checker::mbarrier_completes(std::uint32_t cta_index, std::uint32_t address,
                                 std::uint64_t phase) {
  State& state = *state_;
  MbarrierState* const barrier = state.find_barrier(cta_index, address);
  if (barrier == nullptr) return;
  state.check_not_late(*state.ctas[cta_index], *barrier);
  barrier->waiters.clear();
  barrier->phase = phase + 1;
  barrier->bytes = 0;
  const auto phases = static_cast<std::uint32_t>(barrier->phase);
  barrier->near_so_far.own(Known::order).raise(barrier->fact, phases);
  barrier->near_so_far.own(Known::data).raise(barrier->fact, phases);
  barrier->near = barrier->near_so_far;
  barrier->far = barrier->far_so_far;
}

void Checker::State::check_not_late(const CtaState& cta, const MbarrierState& barrier) {
  const std::uint32_t cluster = cta.cluster->number;
  Witness completion(0, 0, 0);
  completion.add(barrier.near_so_far);
  for (const MbarrierState::Waiter& waiter : barrier.waiters) {
    const Moment& moment = waiter.moment;
    LaneMask ordered = 0;
    for_each_lane(moment.lanes, [&](int lane) {
      if (completion.knows(Known::order, cluster, moment.warp, lane_bit(lane), moment.time)) {
        ordered |= lane_bit(lane);
      }
    });
    if (ordered == moment.lanes || (ordered != 0 && !options.strict)) continue;
    Site site = waiter.site;
    site.lanes = moment.lanes & ~ordered;
    const std::string_view rule = ordered == 0 ? "phase-aba" : "lanes-left-behind";
    log.add(rule, site, log.shared(barrier.address), [&] {
      const std::string next = std::to_string(barrier.phase);
      const std::string awaited = barrier.phase == 0
                                      ? "passes the fresh barrier " + log.name(barrier.address)
                                      : "waits for phase " + std::to_string(barrier.phase - 1) +
                                            " of " + log.name(barrier.address);
      return awaited + ", but nothing keeps phase " + next +
             " from completing before it has looked: then the parity tells it to wait for phase " +
             std::to_string(barrier.phase + 1) + ". Phase " + next +
             " must need an arrival of this thread, or one that comes after its wait.";
    });
  }
}

void Checker::State::check_not_early(WarpState& warp, const Site& site,
                                     const MbarrierState& barrier, std::uint64_t passed) {
  const Witness witness = warp.clocks.witness();
  const std::uint32_t known = witness.fact(Known::order, warp.clocks.cluster(), barrier.fact);
  if (known >= passed) return;
  log.add("phase-aba", site, log.shared(barrier.address), [&] {
    return "waits for parity " + std::to_string(passed % 2) + " of " + log.name(barrier.address) +
           " and finds phase " + std::to_string(passed) + " complete, without knowing that phase " +
           std::to_string(passed - 1) +
           " was: while that is in progress the same parity lets it pass because of phase " +
           (passed >= 2 ? std::to_string(passed - 2) : "-1, as on a fresh barrier") +
           ". A waiter must follow the phases one by one.";
  });
}

void Checker::mbarrier_wait(const Site& site, std::uint32_t address, std::uint64_t passed,
                            std::uint64_t current, Order order, Scope scope) {
  State& state = *state_;
  MbarrierState* const barrier = state.find_barrier(site.cta, address);
  if (barrier == nullptr) return;
  WarpState& warp = state.warp_of(site);
  state.check_initialized(warp, site, *warp.cta, *barrier);
  const bool is_fresh = passed == ~std::uint64_t{0};

  if (has_part(*site.instruction, "parity")) {
    if (!is_fresh) state.check_not_early(warp, site, *barrier, passed);
    if (passed + 1 == current) {
      const Moment moment{warp.in_cluster, site.lanes, warp.clocks.time()};
      auto& waiters = barrier->waiters;
      const auto same = std::find_if(waiters.begin(), waiters.end(), [&](const auto& waiter) {
        return waiter.moment.warp == moment.warp && waiter.moment.lanes == moment.lanes;
      });
      if (same == waiters.end()) {
        waiters.push_back({moment, site});
      } else {
        *same = {moment, site};
      }
    }
  }
  if (is_fresh) return;
  const auto transfer = [&](Scope needed) {
    return acquires(order) ? Transfer::everything() : Transfer::everything().observed(needed);
  };
  warp.clocks.acquire(site.lanes, barrier->near, transfer(Scope::cta));
  if (scope >= Scope::cluster) {
    warp.clocks.acquire(site.lanes, barrier->far, transfer(Scope::cluster));
  }
}

}  // namespace emulator

// Accesses to the memory of other CTAs of the cluster, which must have started and not yet exited.
#include <algorithm>

#include "common/emulator/checker_state.h"
#include "common/emulator/lanes.h"

namespace emulator {

void Checker::State::note_remote(WarpState& warp, const Site& site, CtaState& cta,
                                 const MbarrierState* barrier) {
  RemoteAccess access{{warp.in_cluster, site.lanes, warp.clocks.time()}, site, {}};
  if (barrier != nullptr) {
    access.phase = {barrier->fact, static_cast<std::uint32_t>(barrier->phase + 1)};
  }
  const auto fact_of = [](const RemoteAccess& each) {
    return each.phase ? std::optional(each.phase->fact) : std::nullopt;
  };
  const auto same =
      std::find_if(cta.remote_accesses.begin(), cta.remote_accesses.end(), [&](const auto& last) {
        return last.moment.warp == access.moment.warp && last.moment.lanes == access.moment.lanes &&
               fact_of(last) == fact_of(access);
      });
  if (same == cta.remote_accesses.end()) {
    cta.remote_accesses.push_back(access);
  } else {
    *same = access;
  }
}

void Checker::State::check_remote_accesses(const CtaState& cta) {
  const std::uint32_t cluster = cta.cluster->number;
  Witness exit(0, 0, 0);
  exit.add(cta.at_exit);
  for (const RemoteAccess& access : cta.remote_accesses) {
    const Moment& moment = access.moment;
    const auto knows = [&](Known kind) {
      return exit.knows(kind, cluster, moment.warp, moment.lanes, moment.time);
    };
    const std::string what = "accesses shared memory of CTA " + std::to_string(cta.index);
    if (!knows(Known::order)) {
      log.add("exited-target", access.site, {}, [&] {
        return what +
               ", whose threads may all have exited by then: nothing makes one of them wait until "
               "this has happened. A barrier of the cluster must stand between the two.";
      });
      continue;
    }
    // Who has seen the end of a phase has seen the arrivals that brought it.
    const bool is_counted =
        access.phase && exit.fact(Known::order, cluster, access.phase->fact) >= access.phase->count;
    if (!options.strict || is_counted || knows(Known::data)) continue;
    log.add("relaxed-order", access.site, {}, [&] {
      return what +
             ", whose threads exit when they have been told by a relaxed operation, or one whose "
             "scope does not reach them: it says nothing of the accesses before it.";
    });
  }
}

void Checker::State::check_started(WarpState& warp, const Site& site, const CtaState& cta) {
  const std::uint32_t bit = 1u << cta.rank;
  if ((warp.started_peers & bit) != 0) return;
  warp.started_peers |= bit;
  const Witness witness = warp.clocks.witness();
  for (const WarpState& other : cta.warps) {
    for (int lane = 0; lane < warp_size; ++lane) {
      if (witness.knows(Known::order, cta.cluster->number, other.in_cluster, lane_bit(lane), 1)) {
        return;
      }
    }
  }
  log.add("peer-not-started", site, {}, [&] {
    return "accesses shared memory of CTA " + std::to_string(cta.index) +
           " without knowing that it has started: a barrier of the cluster must come first.";
  });
}

}  // namespace emulator

// Accesses of threads to shared and global memory.
#include <algorithm>
#include <bit>

#include "common/emulator/checker_state.h"
#include "common/emulator/fault.h"
#include "common/emulator/lanes.h"

namespace emulator {

namespace {

/// Flags of shared memory have keys that no device address has.
std::uint64_t shared_flag(std::uint32_t cta, std::uint32_t address) {
  return std::uint64_t{1} << 63 | std::uint64_t{cta} << 32 | address;
}

/// Stamp::strength: atomics and volatile accesses are strong too.
std::uint8_t strength_of(const Site& site, Access access, Order order, Scope scope) {
  const auto& opcode = site.instruction->opcode;
  if (order != Order::weak || access == Access::atomic) {
    return static_cast<std::uint8_t>(1 + static_cast<int>(scope));
  }
  const bool is_volatile = opcode.size() > 1 && opcode[1] == "volatile";
  return is_volatile ? 1 + static_cast<std::uint8_t>(Scope::system) : 0;
}

/// Sums are no flags.
bool is_floating(const Instruction& instruction) {
  const std::string_view type = instruction.opcode.back();
  return type.starts_with('f') || type.starts_with("bf");
}

/// Calls `function(chunk)` for the granules that lanes access; neighbours that share one are put
/// together.
template <class Address, class Function>
void for_each_chunk(LaneMask lanes, const Address* address, std::uint32_t bytes,
                    Function function) {
  Chunk chunk;
  const auto add = [&](int lane, std::uint64_t granule, ByteMask mask) {
    // Lanes are kept by word: lanes that access parts of one can't be told apart in a chunk.
    const bool joins = chunk.address == granule && (bytes >= 4 || chunk.bytes == mask);
    if (chunk.bytes != 0 && !joins) {
      function(chunk);
      chunk = {};
    }
    chunk.address = granule;
    chunk.bytes |= mask;
    for (int word = 0; word < 4; ++word) {
      if ((mask >> (4 * word) & 0xF) != 0) chunk.lanes[word] |= lane_bit(lane);
    }
  };
  for_each_lane(lanes, [&](int lane) {
    for_each_granule(address[lane], bytes,
                     [&](std::uint64_t granule, ByteMask mask) { add(lane, granule, mask); });
  });
  if (chunk.bytes != 0) function(chunk);
}

Stamp stamp_of(const Site& site, const WarpState& warp, Access access, std::uint8_t strength) {
  Stamp stamp;
  stamp.instruction = site.instruction;
  stamp.time = warp.clocks.time();
  stamp.who = warp.in_cluster;
  stamp.cluster = warp.clocks.cluster();
  stamp.by = By::thread;
  stamp.strength = strength & 0xF;
  stamp.atomic = access == Access::atomic;
  return stamp;
}

const char* verb(Access access) {
  switch (access) {
    case Access::read:
      return "reads";
    case Access::write:
      return "writes";
    case Access::atomic:
      break;
  }
  return "updates";
}

}  // namespace

ByteMask Chunk::bytes_of(int lane) const {
  ByteMask result = 0;
  for (int word = 0; word < 4; ++word) {
    if ((lanes[word] & lane_bit(lane)) != 0) {
      result |= static_cast<ByteMask>(bytes & 0xF << (4 * word));
    }
  }
  return result;
}

// ---- The accesses.

void Checker::shared_access(const Site& site, std::uint32_t index, const std::uint32_t* address,
                            std::uint32_t bytes, Access kind, Order order, Scope scope) {
  State& state = *state_;
  CtaState* const cta = state.find_cta(index);
  if (cta == nullptr) return;
  WarpState& warp = state.warp_of(site);
  if (index != site.cta) {
    state.check_started(warp, site, *cta);
    state.note_remote(warp, site, *cta);
  }
  const ThreadAccess access{site, warp, cta, kind,
                            stamp_of(site, warp, kind, strength_of(site, kind, order, scope))};
  const bool may_meet_wgmmas = kind != Access::read && state.wgmmas_unfinished(warp, *cta);
  for_each_chunk(site.lanes, address, bytes, [&](const Chunk& chunk) {
    if (may_meet_wgmmas) state.check_wgmmas(access, chunk);
    state.access_shared(access, chunk);
  });
  if (access.stamp.strength == 0) return;
  std::array<std::uint64_t, 32> flags{};
  for_each_lane(site.lanes, [&](int lane) { flags[lane] = shared_flag(index, address[lane]); });
  state.observe_flags(access, flags, order, scope);
}

void Checker::State::access_shared(const ThreadAccess& access, const Chunk& chunk) {
  Granule* const granule = access.cta->shadow.granule(static_cast<std::uint32_t>(chunk.address));
  if (granule == nullptr) return;
  if (granule->is_plain(access.warp.seen_writes, access.warp.seen_reads)) {
    if (access.access == Access::read) return granule->record_read(access.stamp_of(chunk));
    return granule->record_write(access.stamp_of(chunk));
  }
  if (access.access != Access::write && (chunk.bytes & ~granule->written()) != 0) {
    const auto unwritten = static_cast<ByteMask>(chunk.bytes & ~granule->written());
    const std::uint32_t offset = static_cast<std::uint32_t>(chunk.address) +
                                 static_cast<std::uint32_t>(std::countr_zero(unwritten));
    log.add("unwritten-read", access.site, log.shared(offset), [&] {
      return std::string(verb(access.access)) + " " + object(*access.cta, offset, access.site.cta) +
             ", where nothing has been written.";
    });
  }
  check_conflicts(access, chunk, *granule);
  if (access.access == Access::read) {
    granule->record_read(access.stamp_of(chunk));
  } else {
    granule->record_write(access.stamp_of(chunk));
  }
}

void Checker::global_access(const Site& site, const std::uint64_t* address, std::uint32_t bytes,
                            Access kind, Order order, Scope scope) {
  State& state = *state_;
  const std::uint8_t strength = strength_of(site, kind, order, scope);
  if (kind == Access::read && strength == 0) {
    std::uint64_t all = ~std::uint64_t{0};
    std::uint64_t any = 0;
    for_each_lane(site.lanes, [&](int lane) {
      all &= address[lane];
      any |= address[lane];
    });
    if (!state.global.may_hold(address[first_lane(site.lanes)], all ^ any)) return;
  }
  WarpState& warp = state.warp_of(site);
  const ThreadAccess access{site, warp, nullptr, kind, stamp_of(site, warp, kind, strength)};
  for_each_chunk(site.lanes, address, bytes,
                 [&](const Chunk& chunk) { state.access_global(access, chunk); });
  if (strength == 0) return;
  std::array<std::uint64_t, 32> flags;
  std::copy_n(address, 32, flags.begin());
  state.observe_flags(access, flags, order, scope);
}

void Checker::State::access_global(const ThreadAccess& access, const Chunk& chunk) {
  if (access.access == Access::read) {
    if (Granule* const granule = global.find(chunk.address)) {
      check_conflicts(access, chunk, *granule);
      granule->record_read(access.stamp_of(chunk));
    }
    return;
  }
  if (!tensor_maps.empty()) check_tensor_maps(access, chunk);
  Granule& granule = global.make(chunk.address);
  check_conflicts(access, chunk, granule);
  granule.record_write(access.stamp_of(chunk));
}

void Checker::State::check_tensor_maps(const ThreadAccess& access, const Chunk& chunk) {
  auto map = tensor_maps.upper_bound(chunk.address);
  if (map == tensor_maps.begin()) return;
  --map;
  if (chunk.address - map->first >= tensor_map_size) return;
  const Witness witness = access.warp.clocks.witness(first_lane(chunk.all_lanes()));
  for (const Stamp& user : map->second) {
    if (is_ordered(witness, user, all_bytes, Known::order)) continue;
    log.add("tensor-map-in-use", access.site, {}, [&] {
      return std::string(verb(access.access)) + " a tensor map that the copy at " +
             log.place(*user.instruction) + " may still be using.";
    });
  }
}

void Checker::State::observe_flags(const ThreadAccess& access,
                                   const std::array<std::uint64_t, 32>& flags_of_lanes, Order order,
                                   Scope scope) {
  const Instruction& instruction = *access.site.instruction;
  const bool ordered = order != Order::weak && order != Order::relaxed;
  if (!ordered && access.access == Access::atomic && is_floating(instruction)) return;
  if (order == Order::weak) scope = Scope::system;  // volatile
  // Relaxed operations of many lanes on as many addresses are data, unless a fence came before.
  constexpr int most_flags = 2;
  const bool is_data =
      !ordered && access.access != Access::read && !access.warp.clocks.knows_fences();
  LaneMask rest = access.site.lanes;
  for (int count = 0; rest != 0; ++count) {
    if (is_data && count == most_flags) return;
    const std::uint64_t flag = flags_of_lanes[first_lane(rest)];
    LaneMask same = 0;
    for_each_lane(rest, [&](int lane) {
      if (flags_of_lanes[lane] == flag) same |= lane_bit(lane);
    });
    observe_flag(access.warp, access.site, same, flag, access.access, order, scope);
    rest &= ~same;
  }
}

// ---- Conflicts.

bool Checker::State::is_ordered(const Witness& witness, const Stamp& stamp, ByteMask bytes,
                                Known kind) const {
  switch (stamp.by) {
    case By::thread:
      return witness.knows(kind, stamp.cluster, stamp.who, stamp.lanes_at(bytes), stamp.time);
    case By::copy_in_flight:
      return false;
    case By::copy_landed: {
      const Known phase = kind == Known::data ? Known::data : Known::order;
      return witness.fact(phase, stamp.cluster, stamp.who) >= stamp.time;
    }
    case By::bulk_store:
      break;
  }
  return kind == Known::data ? witness.fact(Known::data, stamp.cluster, stamp.who + 1) >= stamp.time
                             : witness.fact(Known::order, stamp.cluster, stamp.who) >= stamp.time;
}

bool Checker::State::is_all_ordered(const Witness& witness, Stamp stamp, Known kind) const {
  stamp.lanes.fill(all_lanes);
  return is_ordered(witness, stamp, all_bytes, kind);
}

bool Checker::State::both_strong(const ThreadAccess& access, const Stamp& earlier) const {
  if (access.stamp.strength == 0 || !earlier.is_strong() || earlier.by != By::thread) return false;
  const bool same_cluster = earlier.cluster == access.warp.clocks.cluster();
  const bool same_cta = same_cluster && earlier.who / info.warps_per_cta == access.warp.cta->rank;
  const Scope needed = same_cta ? Scope::cta : same_cluster ? Scope::cluster : Scope::gpu;
  const auto scope = static_cast<Scope>(access.stamp.strength - 1);
  return std::min(scope, earlier.scope()) >= needed;
}

LaneMask Checker::State::find_unordered(const ThreadAccess& access, const Chunk& chunk,
                                        const Stamp& earlier, bool earlier_reads) const {
  // That a read has been executed does not make it certain that it is over.
  const bool must_be_certain = !earlier_reads || (options.strict && earlier.by == By::thread);
  const Known kind = must_be_certain ? Known::data : Known::order;
  WarpState& warp = access.warp;
  const Witness common = warp.clocks.common_witness();
  if (is_ordered(common, earlier, chunk.bytes, kind)) {
    if (is_all_ordered(common, earlier, kind)) {
      (earlier_reads ? warp.seen_reads : warp.seen_writes).add(earlier);
    }
    return 0;
  }
  if (both_strong(access, earlier)) return 0;
  // Lanes of one instruction that write the same bytes: one of them wins.
  const bool same_instruction = earlier.by == By::thread && earlier.who == warp.in_cluster &&
                                earlier.cluster == warp.clocks.cluster() &&
                                earlier.time == warp.clocks.time() &&
                                earlier.instruction == access.site.instruction;
  if (same_instruction) return 0;
  LaneMask unordered = 0;
  for_each_lane(chunk.all_lanes(), [&](int lane) {
    const auto bytes = static_cast<ByteMask>(chunk.bytes_of(lane) & earlier.bytes);
    if (bytes == 0) return;
    const Witness witness = warp.clocks.witness(lane);
    // Who has seen the value of a flag comes after those who made it, whatever it orders besides.
    const Known needed = earlier.is_strong() && is_flag(access, chunk, lane) ? Known::order : kind;
    if (!is_ordered(witness, earlier, bytes, needed)) unordered |= lane_bit(lane);
  });
  return unordered;
}

bool Checker::State::is_flag(const ThreadAccess& access, const Chunk& chunk, int lane) const {
  const std::uint64_t address = chunk.address + std::countr_zero(chunk.bytes_of(lane));
  const bool shared = access.cta != nullptr;
  return flags.contains(shared ? shared_flag(access.cta->index, static_cast<std::uint32_t>(address))
                               : address);
}

void Checker::State::check_conflicts(const ThreadAccess& access, const Chunk& chunk,
                                     Granule& granule) {
  granule.for_each_write(chunk.bytes, [&](const Stamp& earlier) {
    if (access.warp.seen_writes.contains(earlier)) return;
    const LaneMask lanes = find_unordered(access, chunk, earlier, false);
    if (lanes != 0) report_conflict(access, chunk, earlier, false, lanes);
  });
  if (access.access == Access::read) return;
  granule.for_each_read(chunk.bytes, [&](const Stamp& earlier) {
    if (access.warp.seen_reads.contains(earlier)) return;
    const LaneMask lanes = find_unordered(access, chunk, earlier, true);
    if (lanes != 0) report_conflict(access, chunk, earlier, true, lanes);
  });
}

bool Checker::State::wgmmas_unfinished(const WarpState& warp, const CtaState& cta) const {
  for (std::size_t group = 0; group < cta.warpgroups.size(); ++group) {
    const std::uint32_t started = cta.warpgroups[group].started;
    if (started == 0) continue;
    const WgmmasDone done = wgmmas_done(warp.clocks.common_witness(), cta, group);
    if (started > (options.strict ? done.by_all : done.by_any)) return true;
  }
  return false;
}

void Checker::State::check_wgmmas(const ThreadAccess& access, const Chunk& chunk) {
  for_each_lane(chunk.all_lanes(), [&](int lane) {
    const ByteMask own = chunk.bytes_of(lane);
    const auto first = static_cast<std::uint32_t>(std::countr_zero(own));
    const auto address = static_cast<std::uint32_t>(chunk.address) + first;
    const std::uint32_t bytes = static_cast<std::uint32_t>(std::bit_width(own)) - first;
    check_wgmma_reads(
        access.warp.clocks.witness(lane), *access.cta, address, bytes,
        [&](std::string_view rule, const WgmmaReads& wgmma, std::uint32_t offset) {
          Site site = access.site;
          site.lanes = lane_bit(lane);
          log.add(rule, site, log.shared(offset), [&] {
            return std::string(verb(access.access)) + " " + object(*access.cta, offset, site.cta) +
                   ", which the wgmma at " + log.place(*wgmma.instruction) +
                   (rule == "one-warp-waited"
                        ? " reads: not all four warps of the warpgroup are known to have waited "
                          "for it."
                        : " may still be reading: no wgmma.wait_group that covers it comes "
                          "before.");
          });
        });
  });
}

void Checker::State::report_conflict(const ThreadAccess& access, const Chunk& chunk,
                                     const Stamp& earlier, bool earlier_reads, LaneMask lanes) {
  const int lane = first_lane(lanes);
  const ByteMask own = chunk.bytes_of(lane);
  const auto bytes = static_cast<ByteMask>(own & earlier.bytes);
  const auto offset = static_cast<std::uint32_t>(chunk.address + std::countr_zero(own));
  Site site = access.site;
  site.lanes = lanes;
  const bool shared = access.cta != nullptr;
  const Subject subject = shared ? log.shared(offset) : Subject{};
  const auto what = [&] {
    return std::string(verb(access.access)) + " " +
           counted(static_cast<std::uint64_t>(std::popcount(own)), "byte") +
           (shared ? " at " + object(*access.cta, offset, access.site.cta)
                   : std::string(" of global memory"));
  };
  const std::string_view did = earlier_reads ? "reads" : earlier.atomic ? "updates" : "writes";

  switch (earlier.by) {
    case By::thread: {
      const bool weakly =
          is_ordered(access.warp.clocks.witness(lane), earlier, bytes, Known::order);
      const bool narrow = access.stamp.strength != 0 && earlier.is_strong();
      if (!weakly && !narrow) {
        return log.add(shared ? "shared-race" : "global-race", site, subject, [&] {
          return what() + " that " + party(earlier, bytes) + " " + std::string(did) + " at " +
                 log.place(*earlier.instruction) + ": nothing orders the two.";
        });
      }
      if (earlier_reads && weakly) {
        return log.add("relaxed-order", site, subject, [&] {
          return what() + " that " + party(earlier, bytes) + " reads at " +
                 log.place(*earlier.instruction) +
                 ". One comes before the other, but what orders them is relaxed or its scope does "
                 "not reach both threads: it says nothing of the read.";
        });
      }
      return log.add(shared ? "insufficient-scope" : "insufficient-flag", site, subject, [&] {
        return what() + " that " + party(earlier, bytes) + " " + std::string(did) + " at " +
               log.place(*earlier.instruction) +
               (weakly ? ". One comes before the other, but what orders them is too weak for the "
                         "write to be seen: a scope does not reach both threads, or a flag is "
                         "not released or not acquired."
                       : ". Both are atomic or strong, but the scope of one does not reach the "
                         "other thread.");
      });
    }
    case By::copy_in_flight:
    case By::copy_landed:
      if (earlier_reads) {
        return log.add("overwritten-while-store-reads", site, subject, [&] {
          return what() + " that the copy at " + log.place(*earlier.instruction) +
                 " may still be reading.";
        });
      }
      return log.add(access.access == Access::write ? "write-while-landing" : "read-before-landed",
                     site, subject, [&] {
                       const bool knows = is_ordered(access.warp.clocks.witness(lane), earlier,
                                                     bytes, Known::order);
                       const std::string phase = landing_phase(earlier, *access.cta);
                       return what() + " that " + copy_text(earlier, knows) + ": it " +
                              (knows ? known_by_relaxed(phase) : "has not waited for " + phase) +
                              ".";
                     });
    case By::bulk_store:
      break;
  }
  if (earlier_reads) {
    return log.add("overwritten-while-store-reads", site, subject, [&] {
      return what() + " that the bulk store at " + log.place(*earlier.instruction) +
             " may still be reading: no cp.async.bulk.wait_group.read of the thread that issued it "
             "comes before.";
    });
  }
  log.add("store-not-complete", site, subject, [&] {
    return what() + " that the bulk store at " + log.place(*earlier.instruction) +
           " may not have written yet: no cp.async.bulk.wait_group (without .read) of the thread "
           "that issued it comes before.";
  });
}

std::string Checker::State::copy_text(const Stamp& stamp, bool is_known) const {
  return "the copy at " + log.place(*stamp.instruction) +
         (stamp.by == By::copy_in_flight ? " is still writing"
          : is_known                     ? " writes"
                                         : " writes (by luck it is done)");
}

std::string Checker::State::known_by_relaxed(const std::string& phase) {
  return "knows that " + phase +
         " is complete, but only from a relaxed operation, which shows it no data";
}

std::string Checker::State::landing_phase(const Stamp& stamp, const CtaState& cta) const {
  const auto text = [&](const MbarrierState& barrier, std::uint64_t phase) {
    return "phase " + std::to_string(phase) + " of " + log.name(barrier.address);
  };
  if (stamp.by == By::copy_landed) {
    for (const auto& [address, barrier] : cta.barriers) {
      if (barrier.fact == stamp.who) return text(barrier, stamp.time - 1);
    }
    return {};
  }
  for (const auto& [id, operation] : operations) {
    if (static_cast<std::uint32_t>(id) != stamp.time) continue;
    for (const Operation::Signal& signal : operation.signals) {
      if (signal.cta != cta.index) continue;
      const MbarrierState* const barrier = find_barrier(signal.cta, signal.address);
      if (barrier != nullptr) return text(*barrier, barrier->phase);
    }
  }
  return "the phase that the copy reports to";
}

}  // namespace emulator

// The registers of wgmmas, and who waits for them.
#include <algorithm>
#include <functional>

#include "common/emulator/checker_state.h"
#include "common/emulator/lanes.h"

namespace emulator {

namespace {

/// Tells apart shapes: "m64n128k16" of wgmma.mma_async.sync.aligned.m64n128k16...
std::size_t shape(const Instruction& instruction) {
  const auto& opcode = instruction.opcode;
  return std::hash<std::string_view>{}(opcode.size() > 4 ? opcode[4] : std::string_view{});
}

}  // namespace

void Checker::wgmma_fence(const Site& site) {
  WarpState& warp = state_->warp_of(site);
  ++warp.wgmma_fences;
  warp.wgmmas_since_fence = 0;
  warp.clocks.meet_in_order();
}

std::uint32_t Checker::State::wgmma_index(const Site& site,
                                          std::span<const std::uint32_t> accumulators,
                                          std::span<const std::uint32_t> a_registers) {
  const auto [place, is_new] = wgmma_indices.try_emplace(
      site.instruction, static_cast<std::uint32_t>(wgmma_instructions.size()));
  const std::uint32_t index = place->second;
  if (!is_new) return index;
  wgmma_instructions.push_back({site.instruction,
                                {accumulators.begin(), accumulators.end()},
                                {a_registers.begin(), a_registers.end()}});
  for (const auto registers : {accumulators, a_registers}) {
    for (const std::uint32_t reg : registers) {
      if (wgmma_registers.size() <= reg) wgmma_registers.resize(reg + 1);
      wgmma_registers[reg].users.push_back(index);
    }
  }
  return index;
}

void Checker::State::check_registers(const WarpState& warp, const Site& site,
                                     const WgmmaInstruction& instruction) {
  const std::uint32_t since_fence = warp.wgmma_fences + 1;
  const auto check = [&](std::uint32_t reg, const char* use) {
    if (reg >= warp.register_accesses.size()) return;
    const RegisterAccess& access = warp.register_accesses[reg];
    if (access.fences != since_fence) return;
    log.add("missing-wgmma-fence", site, {}, [&] {
      return std::string(use) + " registers that " + log.place(*access.instruction) +
             " accesses, without a wgmma.fence in between.";
    });
  };
  for (const std::uint32_t reg : instruction.accumulators) check(reg, "accumulates into");
  for (const std::uint32_t reg : instruction.a_registers) check(reg, "takes A from");
}

void Checker::State::check_shapes(const WarpState& warp, const Site& site, std::uint32_t index) {
  // Wgmmas of other shapes since the last fence may not share accumulators with this one.
  const std::uint32_t first = warp.wgmmas_issued - warp.wgmmas_since_fence;
  const auto& own = wgmma_instructions[index].accumulators;
  for (std::size_t i = 0; i < warp.last_issue.size(); ++i) {
    const WgmmaInstruction& other = wgmma_instructions[i];
    if (warp.last_issue[i] < first || shape(*other.source) == shape(*site.instruction)) continue;
    const bool shares = std::any_of(own.begin(), own.end(), [&](std::uint32_t reg) {
      return std::find(other.accumulators.begin(), other.accumulators.end(), reg) !=
             other.accumulators.end();
    });
    if (!shares) continue;
    log.add("missing-wgmma-fence", site, {}, [&] {
      return "accumulates into registers that the wgmma of another shape at " +
             log.place(*other.source) + " uses too, without a wgmma.fence in between.";
    });
  }
}

void Checker::wgmma_issue(const Site& site, std::span<const std::uint32_t> accumulators,
                          std::span<const std::uint32_t> a_registers) {
  State& state = *state_;
  WarpState& warp = state.warp_of(site);
  const std::uint32_t index = state.wgmma_index(site, accumulators, a_registers);
  const std::uint32_t number = ++warp.wgmmas_issued;
  const std::size_t own_shape = shape(*site.instruction);
  if (warp.wgmma_fences == 0) {
    state.log.add("missing-wgmma-fence", site, {}, [] {
      return "is the first wgmma of its warp, and no wgmma.fence comes before it.";
    });
  } else if (warp.last_register_access == warp.wgmma_fences + 1) {
    state.check_registers(warp, site, state.wgmma_instructions[index]);
  }
  if (warp.wgmmas_since_fence != 0 && warp.last_wgmma_shape != own_shape) {
    state.check_shapes(warp, site, index);
  }
  ++warp.wgmmas_since_fence;
  warp.last_wgmma = site;
  warp.last_wgmma_shape = own_shape;
  if (warp.last_issue.size() <= index) warp.last_issue.resize(index + 1);
  warp.last_issue[index] = number;

  WarpgroupState& group = warp.cta->warpgroups[site.warp / 4];
  while (group.first + group.issued.size() <= number) group.issued.emplace_back();
  IssuedWgmma& issued = group.issued[number - group.first];
  const std::size_t member = site.warp % 4;
  issued.known[member] = warp.clocks.snapshot();
  issued.time[member] = warp.clocks.time();
  issued.site[member] = site;
}

void Checker::wgmma_commit(const Site& site) {
  WarpState& warp = state_->warp_of(site);
  warp.wgmma_groups.push_back(warp.wgmmas_issued);
  warp.clocks.meet_in_order();
}

void Checker::wgmma_wait(const Site& site, int pending) {
  State& state = *state_;
  WarpState& warp = state.warp_of(site);
  warp.clocks.meet_in_order();
  auto& groups = warp.wgmma_groups;
  const auto allowed = static_cast<std::size_t>(pending);
  if (groups.size() <= allowed) return;
  const std::size_t awaited = groups.size() - allowed;
  const std::uint32_t number = groups[awaited - 1];
  groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(awaited));
  if (number <= warp.wgmmas_awaited) return;
  warp.wgmmas_awaited = number;
  warp.clocks.learn(site.lanes, state.wgmma_fact(warp.in_cluster), number);
  state.learn_issuers(warp, number);
}

void Checker::State::learn_issuers(WarpState& warp, std::uint32_t number) {
  CtaState& cta = *warp.cta;
  const std::uint32_t rank = warp.in_cluster % info.warps_per_cta;
  WarpgroupState& group = cta.warpgroups[rank / 4];
  if (number < group.first || number - group.first >= group.issued.size()) return;
  // A wgmma runs when all four warps have issued it: its end tells that they have come so far.
  const IssuedWgmma& issued = group.issued[number - group.first];
  for (std::uint32_t i = 0; i < 4; ++i) {
    if (issued.known[i] == nullptr) continue;
    warp.clocks.acquire(all_lanes, *issued.known[i], Transfer::order());
    warp.clocks.learn_progress(all_lanes, warp.in_cluster - rank % 4 + i, issued.time[i]);
  }
  std::uint32_t done = number;
  for (std::uint32_t i = rank - rank % 4; i < std::min(rank - rank % 4 + 4, info.warps_per_cta);
       ++i) {
    done = std::min(done, cta.warps[i].wgmmas_awaited);
  }
  for (; group.first <= done && !group.issued.empty(); ++group.first) group.issued.pop_front();
}

void Checker::wgmma_register_access(const Site& site, std::uint32_t reg, Access access) {
  State& state = *state_;
  WarpState& warp = state.warp_of(site);
  if (state.wgmma_registers.size() <= reg) state.wgmma_registers.resize(reg + 1);
  for (const std::uint32_t user : state.wgmma_registers[reg].users) {
    const bool in_flight =
        user < warp.last_issue.size() && warp.last_issue[user] > warp.wgmmas_awaited;
    if (!in_flight) continue;
    state.log.add("accumulator-in-flight", site, {}, [&] {
      return std::string(access == Access::read ? "reads" : "writes") + " " +
             state.info.kernel->registers[reg].name + ", a register of the wgmma at " +
             state.log.place(*state.wgmma_instructions[user].source) +
             ", which may still be running: no wgmma.wait_group that covers it comes before.";
    });
    break;
  }
  if (warp.register_accesses.size() <= reg) warp.register_accesses.resize(reg + 1);
  warp.last_register_access = warp.wgmma_fences + 1;
  warp.register_accesses[reg] = {warp.last_register_access, site.instruction};
}

// ---- What wgmmas read of shared memory.

void Checker::State::note_wgmma_read(WarpgroupState& group, std::uint32_t address,
                                     std::uint32_t bytes) {
  WgmmaReads& reads = group.reads.back();
  reads.ranges.push_back({address, bytes});
  // The rows of a tile lie closer together than tiles do.
  constexpr std::uint32_t widest_gap = 512;
  if (!reads.boxes.empty()) {
    WgmmaReads::Range& box = reads.boxes.back();
    const std::uint32_t end = box.address + box.bytes;
    if (address >= end && address - end <= widest_gap) {
      box.bytes = address + bytes - box.address;
      return;
    }
  }
  reads.boxes.push_back({address, bytes});
}

Checker::State::WgmmasDone Checker::State::wgmmas_done(const Witness& witness, const CtaState& cta,
                                                       std::size_t group) const {
  WgmmasDone done{0, UINT32_MAX};
  for (std::size_t i = 4 * group; i < std::min(4 * group + 4, cta.warps.size()); ++i) {
    const std::uint32_t known =
        witness.fact(Known::order, cta.cluster->number, wgmma_fact(cta.warps[i].in_cluster));
    done.by_any = std::max(done.by_any, known);
    done.by_all = std::min(done.by_all, known);
  }
  return done;
}

void Checker::State::check_wgmma_reads(
    const Witness& witness, const CtaState& cta, std::uint32_t address, std::uint32_t bytes,
    const std::function<void(std::string_view rule, const WgmmaReads& wgmma, std::uint32_t offset)>&
        report) const {
  const auto overlap = [&](const WgmmaReads::Range& range) {
    return range.address < address + bytes && address < range.address + range.bytes;
  };
  for (std::size_t group = 0; group < cta.warpgroups.size(); ++group) {
    const auto& reads = cta.warpgroups[group].reads;
    if (reads.empty()) continue;
    const WgmmasDone done = wgmmas_done(witness, cta, group);
    const std::uint32_t certain = options.strict ? done.by_all : done.by_any;
    for (auto wgmma = reads.rbegin(); wgmma != reads.rend() && wgmma->number > certain; ++wgmma) {
      if (std::none_of(wgmma->boxes.begin(), wgmma->boxes.end(), overlap)) continue;
      const auto hit = std::find_if(wgmma->ranges.begin(), wgmma->ranges.end(), overlap);
      if (hit == wgmma->ranges.end()) continue;
      report(wgmma->number > done.by_any ? "overwritten-while-wgmma-reads" : "one-warp-waited",
             *wgmma, std::max(address, hit->address));
      break;
    }
  }
}

}  // namespace emulator

#include "common/emulator/deadlock.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/emulator/cta.h"
#include "common/emulator/execution.h"
#include "common/emulator/fault.h"
#include "common/emulator/memory.h"

namespace emulator {

namespace {

/// Lines of the list of waits that a report shows.
constexpr std::size_t longest_list = 12;

/// A split that waits, and where.
struct Waiting {
  const Warp* warp;
  const Split* split;
};

std::vector<Waiting> waiting_splits(const Execution& execution) {
  std::vector<Waiting> all;
  for (const auto& cluster : execution.resident()) {
    for (const auto& cta : cluster->ctas) {
      for (const auto& warp : cta->warps) {
        for (const Split& split : warp->others()) {
          if (split.wait.kind != Wait::Kind::none) all.push_back({warp.get(), &split});
        }
      }
    }
  }
  return all;
}

/// What the phase in progress still waits for.
std::string missing(const Mbarrier& barrier) {
  const std::string arrivals = barrier.pending == 0 ? "no arrival"
                                                    : std::to_string(barrier.pending) + " of " +
                                                          counted(barrier.expected, "arrival");
  if (barrier.bytes == 0) return "lacks " + arrivals;
  if (barrier.bytes > 0) {
    return "lacks " + arrivals + " and " +
           counted(static_cast<std::uint64_t>(barrier.bytes), "byte");
  }
  return "lacks " + arrivals + ", but has " +
         counted(static_cast<std::uint64_t>(-barrier.bytes), "byte") +
         " that no expect_tx announced";
}

std::string describe_mbarrier(const Waiting& w) {
  const Wait& wait = w.split->wait;
  const Mbarrier* const barrier = w.warp->cta().mbarriers.find(wait.address);
  const std::string name = shared_object(w.warp->execution().program(), wait.address);
  if (barrier == nullptr) return "waits for " + name + ", which has been invalidated";
  return "waits for parity " + std::to_string(wait.value & 1) + " of " + name + ", whose phase " +
         std::to_string(barrier->phase) + " (parity " + std::to_string(barrier->phase & 1) + ") " +
         missing(*barrier);
}

std::string describe_named_barrier(const Waiting& w) {
  const int id = w.split->wait.id;
  const Cta& cta = w.warp->cta();
  const NamedBarrier& barrier = cta.named_barriers[id];
  const std::uint32_t expected =
      barrier.expected != 0 ? barrier.expected : cta.live_warps * warp_size;
  return "waits at barrier " + std::to_string(id) + ", where " + std::to_string(barrier.arrived) +
         " of " + counted(expected, "thread") + " have arrived";
}

std::string describe_wgmma(const Waiting& w) {
  const Warpgroup& group = w.warp->cta().warpgroups[w.warp->rank() / 4];
  if (group.pending.empty()) return "waits for a wgmma to complete";
  return "waits for a wgmma that only " + std::to_string(group.pending.front().issued) +
         " of the 4 warps of its warpgroup have issued";
}

std::string lanes_text(LaneMask lanes) {
  const std::string text = role({nullptr, 0, 0, lanes});
  const std::size_t open = text.find('(');
  return open == std::string::npos ? "all lanes" : text.substr(open + 1, text.size() - open - 2);
}

std::string describe_wait(const Waiting& w) {
  const Wait& wait = w.split->wait;
  const Cta& cta = w.warp->cta();
  switch (wait.kind) {
    case Wait::Kind::mbarrier:
      return describe_mbarrier(w);
    case Wait::Kind::named_barrier:
      return describe_named_barrier(w);
    case Wait::Kind::cluster_barrier:
      return wait.value == ~std::uint64_t{0}
                 ? "waits at the barrier of the cluster without having arrived there itself"
                 : "waits at the barrier of the cluster, where " +
                       std::to_string(cta.cluster->barrier.arrived) + " of " +
                       counted(cta.cluster->live_threads, "thread") + " have arrived";
    case Wait::Kind::wgmma:
      return describe_wgmma(w);
    case Wait::Kind::bulk_group:
      return "waits for bulk copies";
    case Wait::Kind::registers:
      return "waits for " + std::to_string(wait.value) +
             " registers for its 32 threads; the pool of the CTA has " +
             std::to_string(cta.free_registers);
    case Wait::Kind::lanes:
    case Wait::Kind::none:
      break;
  }
  return "waits for " + lanes_text(wait.mask & ~w.split->lanes) + " of its warp to come there too";
}

/// Whether the lanes that `w` waits for wait themselves for lanes elsewhere: they never meet.
bool never_meets(const Waiting& w) {
  if (w.split->wait.kind != Wait::Kind::lanes) return false;
  LaneMask missing = w.split->wait.mask & ~w.split->lanes;
  for (const Split& other : w.warp->others()) {
    if (&other != w.split && other.wait.kind == Wait::Kind::lanes) missing &= ~other.lanes;
  }
  return missing == 0;
}

/// "  warps 4-7 of CTA 0 at lesson07.cu:88: waits for ..."
std::string wait_list(const Execution& execution, const std::vector<Waiting>& waiting) {
  struct Line {
    const Warp* warp;
    const Op* op;
    std::string text;
    std::vector<std::uint32_t> warps;
  };
  std::vector<Line> lines;
  for (const Waiting& w : waiting) {
    const std::string text = describe_wait(w);
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
      return &line.warp->cta() == &w.warp->cta() && line.op == w.split->wait.op &&
             line.text == text;
    });
    if (same != lines.end()) {
      same->warps.push_back(w.warp->rank());
    } else {
      lines.push_back({w.warp, w.split->wait.op, text, {w.warp->rank()}});
    }
  }

  const Module& module = *execution.program().module;
  std::string list;
  for (std::size_t i = 0; i < lines.size() && i < longest_list; ++i) {
    const Line& line = lines[i];
    list += "\n  ";
    list += line.warps.size() == 1 ? "warp " : "warps ";
    for (std::size_t k = 0; k < line.warps.size(); ++k) {
      if (k != 0) list += ", ";
      list += std::to_string(line.warps[k]);
    }
    list += " of CTA " + std::to_string(line.warp->cta().index) + " at " +
            place(module, line.op->source->location) + " (" + std::string(line.op->source->text) +
            "): " + line.text + ".";
  }
  if (lines.size() > longest_list) {
    list += "\n  and " + std::to_string(lines.size() - longest_list) + " more.";
  }
  return list;
}

Finding finding_at(const Warp& warp, const Op& op, LaneMask lanes, std::string_view rule,
                   std::string sentence) {
  Finding finding;
  const Rule* const known = find_rule(rule);
  finding.rule = known != nullptr ? known->id : rule;
  finding.sentence = std::move(sentence);
  finding.location = op.source->location;
  finding.role = role(warp.site(op, lanes));
  return finding;
}

}  // namespace

Finding deadlock(const Execution& execution) {
  const std::vector<Waiting> waiting = waiting_splits(execution);
  const auto apart = std::find_if(waiting.begin(), waiting.end(), never_meets);
  if (apart != waiting.end()) {
    return finding_at(
        *apart->warp, *apart->split->wait.op, apart->split->lanes, "divergent-aligned",
        "waits for lanes of its warp that wait at another instruction: an .aligned or "
        ".sync instruction must be reached by all of its lanes." +
            wait_list(execution, waiting));
  }
  // An mbarrier says the most.
  auto first = std::find_if(waiting.begin(), waiting.end(), [](const Waiting& w) {
    return w.split->wait.kind == Wait::Kind::mbarrier;
  });
  if (first == waiting.end()) first = waiting.begin();
  return finding_at(
      *first->warp, *first->split->wait.op, first->split->lanes, "deadlock",
      "waits forever: no thread can run and no copy is under way." + wait_list(execution, waiting));
}

Finding livelock(const Execution& execution) {
  const Warp* spinning = nullptr;
  std::string list;
  std::size_t count = 0;
  for (const auto& cluster : execution.resident()) {
    for (const auto& cta : cluster->ctas) {
      for (const auto& warp : cta->warps) {
        if (!warp->can_run() || warp->last_look() == nullptr) continue;
        if (spinning == nullptr) spinning = warp.get();
        if (++count > longest_list) continue;
        const Instruction& instruction = *warp->last_look()->source;
        list += "\n  warp " + std::to_string(warp->rank()) + " of CTA " +
                std::to_string(cta->index) + " at " +
                place(*execution.program().module, instruction.location) + " (" +
                std::string(instruction.text) + ").";
      }
    }
  }
  if (count > longest_list) list += "\n  and " + std::to_string(count - longest_list) + " more.";
  return finding_at(*spinning, *spinning->last_look(), all_lanes, "livelock",
                    "spins forever: every thread that runs reads memory again and again that no "
                    "thread will change any more (a CTA that would may not have started)." +
                        list + wait_list(execution, waiting_splits(execution)));
}

}  // namespace emulator

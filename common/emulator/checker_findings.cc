#include "common/emulator/checker_findings.h"

#include "common/emulator/fault.h"
#include "common/emulator/memory.h"

namespace emulator {

namespace {

/// Different findings of one launch that are kept; a hopeless kernel needs no longer list.
constexpr std::size_t most_findings = 1000;

}  // namespace

void FindingLog::begin(const LaunchInfo& info) {
  info_ = info;
  entries_.clear();
}

void FindingLog::add(std::string_view rule_name, const Site& site, const Subject& subject,
                     const std::function<std::string()>& sentence) {
  const Rule& rule = *find_rule(rule_name);
  const Location& location = site.instruction->location;
  // Unrolled copies of a line are the same finding.
  const bool has_line = location.file >= 0;
  const Key key{rule.id, has_line ? location.file : -1,
                has_line ? location.cuda_line : location.ptx_line, subject.variable};
  const Rank rank{site.cta, site.warp, subject.offset, site.lanes};

  const auto known = entries_.find(key);
  if (known == entries_.end()) {
    if (entries_.size() == most_findings) return;
    entries_.emplace(key, Entry{{rule.id, sentence(), location, role(site), 1}, rank});
    return;
  }
  Entry& entry = known->second;
  ++entry.finding.count;
  if (rank >= entry.rank) return;
  entry.finding.sentence = sentence();
  entry.finding.location = location;
  entry.finding.role = role(site);
  entry.rank = rank;
}

std::vector<Finding> FindingLog::list() const {
  std::vector<Finding> findings;
  for (const auto& [key, entry] : entries_) findings.push_back(entry.finding);
  return findings;
}

Subject FindingLog::shared(std::uint32_t offset) const {
  Subject subject{-1, offset};
  for (std::size_t i = 0; i < info_.shared_variables.size(); ++i) {
    const LaunchInfo::Placement& placement = info_.shared_variables[i];
    const std::size_t size = placement.variable->size;  // 0: to the end
    if (offset < placement.offset || (size != 0 && offset - placement.offset >= size)) continue;
    subject.variable = static_cast<std::int64_t>(i);
    if (size != 0) break;
  }
  return subject;
}

std::string FindingLog::name(std::uint32_t offset) const {
  const Subject subject = shared(offset);
  if (subject.variable < 0) return "shared memory + " + std::to_string(offset);
  const LaunchInfo::Placement& placement =
      info_.shared_variables[static_cast<std::size_t>(subject.variable)];
  const Variable& variable = *placement.variable;
  const std::string name = source_name(variable);
  const std::uint32_t inside = offset - placement.offset;
  // Arrays of 8-byte objects are mbarriers more often than not.
  const bool is_array = variable.size > 8 && variable.alignment == 8 && inside % 8 == 0;
  if (is_array) return "`" + name + "[" + std::to_string(inside / 8) + "]`";
  return "`" + name + "`" + (inside == 0 ? "" : " + " + std::to_string(inside));
}

std::string FindingLog::place(const Instruction& instruction) const {
  return emulator::place(*info_.module, instruction.location);
}

}  // namespace emulator

// Collects what the checker finds: folds equal findings, and puts them in an order that does not
// depend on when they were found.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "common/emulator/observer.h"
#include "common/emulator/report.h"

namespace emulator {

/// What a finding is about, for folding: a variable in shared memory, or anything else.
struct Subject {
  std::int64_t variable = -1;  ///< index into LaunchInfo::shared_variables
  std::uint32_t offset = 0;    ///< of the bytes in shared memory
};

class FindingLog {
 public:
  void begin(const LaunchInfo& info);

  /// Notes that the lanes of `site` broke `rule` (a name). Findings of one rule, CUDA line and
  /// subject's variable are one: its sentence is that of the first CTA, warp and offset. `sentence`
  /// is called only if it is needed.
  void add(std::string_view rule, const Site& site, const Subject& subject,
           const std::function<std::string()>& sentence);

  /// By id, place and subject.
  std::vector<Finding> list() const;

  /// What lies at an offset of shared memory.
  Subject shared(std::uint32_t offset) const;
  /// "`full[2]`", "`tile` + 4096": by the names of the CUDA source.
  std::string name(std::uint32_t offset) const;
  /// "lesson03_tma.cu:74"
  std::string place(const Instruction& instruction) const;

 private:
  using Key = std::tuple<std::string_view, int, int, std::int64_t>;
  using Rank = std::tuple<std::uint32_t, std::uint16_t, std::uint32_t, LaneMask>;
  struct Entry {
    Finding finding;
    Rank rank;
  };

  LaunchInfo info_{};
  std::map<Key, Entry> entries_;
};

}  // namespace emulator

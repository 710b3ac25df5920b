// The sizes of the problems that --groups names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace harness {

/// M, N and K of one problem of many.
struct GroupSize {
  int m, n, k;
  bool operator==(const GroupSize&) const = default;
};

/// Problems that are computed together.
struct GroupList {
  std::vector<GroupSize> groups;
  /// Different B's, unless the user says how many: group g multiplies that of group g % weights.
  int weights;
};

/// What --help says that --groups takes.
std::string group_list_help();

/// The problems that `text`, the value of --groups, stands for:
///
///   uniform | ragged-small | ragged-large   drawn from `seed`, a part of them where `is_small`
///   MxNxK,MxNxK*3,...                       these, the second one three times
///   FILE                                    its lines "m n k", blank ones and # comments left out
///
/// Throws UsageError that says what can't be read, and in which line.
GroupList parse_groups(const std::string& text, std::uint64_t seed, bool is_small);

}  // namespace harness

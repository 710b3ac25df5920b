// The variants of a lesson's kernel: one table of what is instantiated, and the flags that choose
// it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include "common/device/device.h"
#include "common/gemm/problem.h"
#include "common/harness/lesson.h"
#include "common/harness/options.h"

namespace harness {

/// The index of the variant that `selection` asks for, given the flags of each as Variants has
/// them. UsageError that says which knobs go together if there is none.
std::size_t chosen_variant(const std::vector<std::string>& flags, const Selection& selection);

/// The name in the flags of a broken variant, "no-phase"; empty for a right one.
std::string broken_name(const std::string& flags);

/// A table with a row for each variant, to be called as Lesson::prepare is:
///
///     {{"--tile 128x128", prepare<128, 128>},
///      {"--tile 64x128", prepare<64, 128>},
///      {"--trace", prepare<128, 128, Break::none, true>},
///      {"--break no-phase", prepare<128, 128, Break::no_phase>, "what it breaks, in a line"}}
///
/// The first row names every knob that chooses a variant; the others name what they change of it.
/// So --break no-phase runs with --tile 128x128 only. Other knobs are for `prepare` to read.
template <class... Problem>
class VariantsOf {
 public:
  struct Row {
    std::string flags;
    Launch (*prepare)(device::Device&, Problem..., const Selection&);
    std::string breaks = {};  ///< of a broken variant, for --list-breaks
  };

  VariantsOf(std::initializer_list<Row> rows) : rows_(rows) {}

  /// Prepares the variant that `selection` asks for.
  Launch operator()(device::Device& device, Problem... problem, const Selection& selection) const {
    std::vector<std::string> flags;
    for (const Row& row : rows_) flags.push_back(row.flags);
    return rows_[chosen_variant(flags, selection)].prepare(device, problem..., selection);
  }

  /// For Lesson::breaks.
  std::vector<Break> breaks() const {
    std::vector<Break> list;
    for (const Row& row : rows_) {
      if (!row.breaks.empty()) list.push_back({broken_name(row.flags), row.breaks});
    }
    return list;
  }

 private:
  std::vector<Row> rows_;
};

using Variants = VariantsOf<const gemm::Problem&>;

}  // namespace harness

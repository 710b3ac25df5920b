// What tests/kernels/ordered.cu writes down, for the test that reads it.
#pragma once

namespace kernels {

constexpr int ordered_rounds = 6;

/// Of the two sections of a gemm::OrderedBarrier. A warp enters when its warpgroup's wait() has
/// returned, and leaves before arrive().
struct Seen {
  unsigned crowded[2];  ///< entries that found a warp of the other warpgroup in the section
  unsigned overlaps;    ///< entries into section 0 that found the other warpgroup in section 1
  unsigned turns[2];    ///< counted by plain reads and writes, once a turn
  /// The entries in their order: which round, which warpgroup.
  struct Entry {
    int round, warpgroup;
  } entries[2][2 * 4 * ordered_rounds];
};

}  // namespace kernels

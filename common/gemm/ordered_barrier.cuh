// Who may do what: two warpgroups take turns, in two sections of their work.
#pragma once

#include "common/ptx/mbarrier.cuh"

namespace gemm {

/// The 2 x 2 mbarriers of an OrderedBarrier, in shared memory: a row for each section, a column for
/// each warpgroup. Warpgroup g waits at [section][g] for its turn, which the other one grants.
struct OrderedBarrierGrid {
  ptx::Mbarrier turn[2][2];

  /// One thread runs this, before a fence and a barrier.
  __device__ void init() {
    for (auto& row : turn) {
      for (ptx::Mbarrier& barrier : row) ptx::mbarrier_init(barrier, 4);  // the other one's warps
    }
  }
};

/// Puts the work of two warpgroups in order. Each goes through the same two sections over and over:
///
///   wait();  section 0  arrive();  ...  wait();  section 1  arrive();  ...
///
/// (With `sections` = 1, there is section 0 alone.) Then 1. only one of them is in section 0 at a
/// time, 2. only one is in section 1 at a time, 3. each goes through section 0 and section 1 in
/// turn, and in each section warpgroup 0 is first, then 1, then 0, ... While one is in section 1,
/// the other may be in section 0: that is the point.
///
/// All 128 threads of a warpgroup call both functions.
template <int sections = 2>
class OrderedBarrier {
  static_assert(sections == 1 || sections == 2);

 public:
  __device__ OrderedBarrier(OrderedBarrierGrid& grid, int warpgroup)
      : grid_(grid), warpgroup_(warpgroup), parity_(warpgroup == 0) {}

  /// Waits until it is this warpgroup's turn in its section.
  __device__ void wait() {
    // Warpgroup 0 is first: its first turn comes of itself, as if a phase before the first had
    // completed.
    ptx::mbarrier_wait(grid_.turn[section_][warpgroup_], parity_);
  }

  /// Leaves the section: the other warpgroup may enter it.
  __device__ void arrive() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(grid_.turn[section_][1 - warpgroup_]);
    section_ = (section_ + 1) % sections;
    parity_ ^= section_ == 0;  // behind the last section a new round begins
  }

 private:
  OrderedBarrierGrid& grid_;
  int warpgroup_;
  int section_ = 0;
  unsigned parity_;
};

}  // namespace gemm

// Whose tile is it? The tiles of many problems, laid end to end, are one list.
#pragma once

#include "common/gemm/problem.h"
#include "common/host_device.h"

namespace gemm {

/// The rows x columns of D that are computed at a time.
struct TileShape {
  int m, n;

  HOST_DEVICE constexpr int rows(const Problem& p) const { return p.m / m + (p.m % m != 0); }
  HOST_DEVICE constexpr int columns(const Problem& p) const { return p.n / n + (p.n % n != 0); }
  /// Tiles of a problem: none, if it has no elements.
  HOST_DEVICE constexpr int count(const Problem& p) const { return rows(p) * columns(p); }
};

#ifdef __CUDACC__

/// A warp's place in the tiles of groups 0, 1, 2, ..., counted on from group to group: its 32 lanes
/// call all members together.
class GroupSearch {
 public:
  __device__ GroupSearch(const Problem* groups, int count, TileShape tile)
      : groups_(groups), count_(count), tile_(tile) {}

  /// Goes on to the group that tile `index` belongs to. Returns false where the list ends before.
  /// `index` is never less than it was: the search goes on from the group that it found last.
  ///
  /// It is speculative: each lane counts the tiles of a group of its own, as if the tile were
  /// there. A scan of the 32 counts tells where each group ends, a vote which lane is right. Where
  /// none is, the next 32 groups are looked at.
  __device__ bool find(int index) {
    if (index < first_ + tiles_) return true;  // as most often: no memory is read
    const int lane = threadIdx.x % 32;
    for (; group_ < count_; group_ += 32) {
      const int own = group_ + lane < count_ ? tile_.count(groups_[group_ + lane]) : 0;
      const int end = first_ + sum_up_to_this_lane(own);
      const unsigned behind = __ballot_sync(all_lanes, index < end);
      if (behind != 0) {
        const int hit = __ffs(behind) - 1;
        tiles_ = __shfl_sync(all_lanes, own, hit);
        first_ = __shfl_sync(all_lanes, end, hit) - tiles_;
        group_ += hit;
        return true;
      }
      first_ = __shfl_sync(all_lanes, end, 31);
    }
    tiles_ = 0;
    return false;
  }

  __device__ int group() const { return group_; }
  /// The index of the group's first tile.
  __device__ int first_tile() const { return first_; }

 private:
  static constexpr unsigned all_lanes = 0xFFFFFFFF;

  /// The sum of `value` over lanes 0 to this one.
  __device__ static int sum_up_to_this_lane(int value) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int before = __shfl_up_sync(all_lanes, value, distance);
      if (lane >= distance) value += before;
    }
    return value;
  }

  const Problem* groups_;
  int count_;
  TileShape tile_;
  int group_ = 0;  ///< found last
  int first_ = 0;  ///< tiles of the groups before it
  int tiles_ = 0;  ///< its own
};

#endif

}  // namespace gemm

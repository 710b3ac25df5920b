// How a scheduler warp tells the other roles of its CTA which tiles to compute.
#pragma once

#include "common/gemm/ring_state.h"
#include "common/gemm/tile_order.h"
#include "common/ptx/mbarrier.cuh"

namespace gemm {

/// What stands in a queue behind the last tile.
constexpr int no_row = -1;

/// A ring of tiles' places in shared memory: like a ring of stages, but filled by ordinary stores.
struct TileQueue {
  static constexpr int slots = 4;

  TilePosition tiles[slots];
  ptx::Mbarrier full[slots];
  ptx::Mbarrier empty[slots];

  /// One thread runs this, before a fence and a barrier. `readers` is how many arrivals each tile's
  /// readers make together.
  __device__ void init(int readers) {
    for (int slot = 0; slot < slots; ++slot) {
      ptx::mbarrier_init(full[slot], 1);
      ptx::mbarrier_init(empty[slot], readers);
    }
  }

  /// The scheduler's thread appends a tile.
  __device__ void push(RingState& write, TilePosition tile) {
    ptx::mbarrier_wait(empty[write.index], write.phase ^ 1);
    tiles[write.index] = tile;
    ptx::mbarrier_arrive(full[write.index]);
    write.advance(slots);
  }

  /// Returns the tile at `read`. `lanes` is 1 or 32, as many as call this together; they make one
  /// arrival.
  template <int lanes>
  __device__ TilePosition pop(RingState& read) {
    ptx::mbarrier_wait(full[read.index], read.phase);
    const TilePosition tile = tiles[read.index];
    if constexpr (lanes == 32) __syncwarp();
    if (lanes == 1 || threadIdx.x % 32 == 0) ptx::mbarrier_arrive(empty[read.index]);
    read.advance(slots);
    return tile;
  }
};

}  // namespace gemm

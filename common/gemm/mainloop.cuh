// The main loop of a warp-specialized kernel, as lessons 04 to 06 have built it: a producer thread
// fills a ring of stages, consumer warpgroups multiply what is in them.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "common/gemm/k_tile.cuh"
#include "common/gemm/ring_state.h"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/wgmma.cuh"

namespace gemm {

/// A ring of stages in shared memory. A stage is a k-tile of A, tile_m_ rows, then one of B,
/// tile_n_ rows, both with the 128-byte swizzle; `buffers` starts on a multiple of 1024 bytes.
template <int tile_m_, int tile_n_, int stages_, class Operands_ = Bf16Operands>
struct Ring {
  using Operands = Operands_;
  static constexpr int tile_m = tile_m_, tile_n = tile_n_, stages = stages_;
  static constexpr int a_bytes = tile_m * row_bytes;
  static constexpr int stage_bytes = (tile_m + tile_n) * row_bytes;
  static constexpr int bytes = stages * stage_bytes;

  unsigned char* buffers;
  ptx::Mbarrier* full;   ///< [stages]: the bytes have landed
  ptx::Mbarrier* empty;  ///< [stages]: all readers have read them

  __device__ unsigned char* a(int stage) const { return buffers + stage * stage_bytes; }
  __device__ unsigned char* b(int stage) const { return a(stage) + a_bytes; }

  /// One thread runs this, before a fence and a barrier. `readers` are the warps that release a
  /// stage, one arrival each.
  __device__ void init(int readers) const {
    for (int stage = 0; stage < stages; ++stage) {
      ptx::mbarrier_init(full[stage], 1);  // the producer's arrival, with expect_tx
      ptx::mbarrier_init(empty[stage], readers);
    }
  }
};

/// Which k-tiles, and in which order: begin, begin + step, ...
struct KTiles {
  int begin, count;
  int step = 1;
};

/// The producer: loads k-tiles of A from `row` on and of B from `column` on, each as soon as its
/// stage is empty. One thread runs this; `write` goes on from tile to tile.
template <class Ring>
__device__ void load_k_tiles(const Ring& ring, RingState& write, const CUtensorMap& map_a,
                             const CUtensorMap& map_b, int row, int column, KTiles k_tiles) {
  for (int i = 0; i < k_tiles.count; ++i) {
    const int k = (k_tiles.begin + i * k_tiles.step) * Ring::Operands::tile_k;
    ptx::mbarrier_wait(ring.empty[write.index], write.phase ^ 1);
    ptx::Mbarrier& full = ring.full[write.index];
    ptx::mbarrier_arrive_expect_tx(full, Ring::stage_bytes);
    ptx::tma_load_2d(ring.a(write.index), map_a, k, row, full);
    ptx::tma_load_2d(ring.b(write.index), map_b, k, column, full);
    write.advance(Ring::stages);
  }
}

/// Says that this warp has read the stage.
template <class Ring>
__device__ void release_stage(const Ring& ring, int stage) {
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(ring.empty[stage]);
}

/// For multiply_k_tiles(): there is nothing to do meanwhile.
struct Nothing {
  __device__ void operator()() const {}
};

/// A consumer: starts the products of `k_tiles` k-tiles; the accumulators are then those of a tile
/// of D, once finish_k_tiles() has waited for the last one. Releasing lags behind reading by one
/// stage. This warpgroup's rows of A start `rows` below the stage's. All 128 threads run this;
/// k_tiles = 0 changes nothing.
///
/// Calls `meanwhile()` after the products of each k-tile were started, before it waits for those of
/// the one before: it runs beside the tensor cores, and must leave the accumulators alone.
template <class Ring, std::size_t blocks, std::size_t count, class Meanwhile = Nothing>
__device__ void multiply_k_tiles(float (&accumulator)[blocks][count], const Ring& ring,
                                 RingState& read, int rows, int k_tiles, Meanwhile meanwhile = {}) {
  const auto multiply = [&](bool accumulate) {
    ptx::mbarrier_wait(ring.full[read.index], read.phase);
    multiply_k_tile<typename Ring::Operands>(accumulator, ring.a(read.index) + rows * row_bytes,
                                             ring.b(read.index), accumulate);
    read.advance(Ring::stages);
    meanwhile();
  };

  if (k_tiles > 0) multiply(false);  // overwrites the accumulators: they need no zeros
  for (int k_tile = 1; k_tile < k_tiles; ++k_tile) {
    const int last = read.previous(Ring::stages);
    multiply(true);
    ptx::wgmma_wait<1>(accumulator);
    release_stage(ring, last);
  }
}

/// Waits for the last product and releases its stage.
template <class Ring, std::size_t blocks, std::size_t count>
__device__ void finish_k_tiles(float (&accumulator)[blocks][count], const Ring& ring,
                               const RingState& read, int k_tiles) {
  ptx::wgmma_wait<0>(accumulator);
  if (k_tiles > 0) release_stage(ring, read.previous(Ring::stages));
}

}  // namespace gemm

// The epilogue of lesson 09: a tile that is finished is put aside, and stored while the next one is
// multiplied.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/gemm/chunk.cuh"
#include "common/gemm/problem.h"
#include "common/gemm/store_tile.cuh"

namespace gemm {

/// What a thread holds of chunks of D that its warpgroup has computed and not stored: 16 registers
/// of each, two neighbours of bf16 in a register, or four of 8 bits in half of them.
template <int chunks_>
class DeferredChunks {
 public:
  static constexpr int chunks = chunks_;

  /// Whether a chunk waits to be stored.
  __device__ bool waits() const { return next_ < chunks; }

 protected:
  /// Calls function(pairs) for the chunk to store next. Registers have no index that a kernel could
  /// compute: there is a branch for each chunk.
  template <int c = 0, class Function>
  __device__ void visit_next(Function function) const {
    if (next_ == c) function(pair_[c]);
    if constexpr (c + 1 < chunks) visit_next<c + 1>(function);
  }

  std::uint32_t pair_[chunks][16];
  int row_, column_;   // of D, where the first chunk begins
  int next_ = chunks;  // the chunk to store next
};

/// A warpgroup's 64 * blocks rows x `columns` columns of D, computed and not stored. As bf16 they
/// need half the registers of their sums, and the accumulators are free for the next tile.
///
/// pack() fills it; store_next() empties it, chunk by chunk. All 128 threads call each of them.
template <int blocks, int columns>
class DeferredTile : public DeferredChunks<blocks * columns / 64> {
  using Chunks = DeferredChunks<blocks * columns / 64>;
  using Chunks::pair_, Chunks::row_, Chunks::column_, Chunks::next_;

 public:
  using Chunks::chunks;
  static constexpr int across = columns / 64;
  static_assert(chunks % Staging::chunks == 0, "each tile starts with the first place");

  /// Takes alpha * accumulator + beta * C, for D from (row, column) on. C is read here, and nothing
  /// hides it. No chunk may wait.
  __device__ void pack(const float (&accumulator)[blocks][columns / 2], const Problem& p, int row,
                       int column) {
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      const float* const sums = accumulator[c / across] + c % across * 32;
      if (p.beta != 0) {
        pack_chunk<64>(pair_[c], sums, p, row + c / across * 64, column + c % across * 64);
      } else {
        pack_chunk<64>(pair_[c], sums, p.alpha);
      }
    }
    row_ = row;
    column_ = column;
    next_ = 0;
  }

  /// Starts to store the chunk that waits longest. As with store_tile(), the copy engine may still
  /// read the staging when this returns.
  __device__ void store_next(const Problem& p, const CUtensorMap& map_d, const Staging& staging) {
    unsigned char* const chunk = await_place(staging, next_);
    this->visit_next([&](const std::uint32_t(&pairs)[16]) { write_chunk<64>(chunk, pairs); });
    send_chunk(chunk, p, map_d, staging, row_ + next_ / across * 64, column_ + next_ % across * 64);
    ++next_;
  }
};

}  // namespace gemm

// The epilogue of lesson 09: a tile that is finished is put aside, and stored while the next one is
// multiplied.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/gemm/chunk.cuh"
#include "common/gemm/problem.h"
#include "common/gemm/store_tile.cuh"

namespace gemm {

/// A warpgroup's 64 * blocks rows x `columns` columns of D, computed and not stored. As bf16 they
/// need half the registers of their sums, and the accumulators are free for the next tile.
///
/// pack() fills it; store_next() empties it, chunk by chunk. All 128 threads call each of them.
template <int blocks, int columns>
class DeferredTile {
 public:
  static constexpr int across = columns / 64;
  static constexpr int chunks = blocks * across;
  static_assert(chunks % Staging::chunks == 0, "each tile starts with the first place");

  /// Whether a chunk waits to be stored.
  __device__ bool waits() const { return next_ < chunks; }

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
    write_next(chunk);
    send_chunk(chunk, p, map_d, staging, row_ + next_ / across * 64, column_ + next_ % across * 64);
    ++next_;
  }

 private:
  /// Registers have no index that a kernel could compute: there is a branch for each chunk.
  template <int c = 0>
  __device__ void write_next(unsigned char* chunk) const {
    if (next_ == c) write_chunk<64>(chunk, pair_[c]);
    if constexpr (c + 1 < chunks) write_next<c + 1>(chunk);
  }

  std::uint32_t pair_[chunks][16];  // this thread's part of each chunk
  int row_, column_;
  int next_ = chunks;  // the chunk to store next
};

}  // namespace gemm

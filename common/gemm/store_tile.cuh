// The epilogue of lesson 07: a warpgroup's accumulators leave through chunks and the copy engine.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "common/gemm/chunk.cuh"
#include "common/gemm/problem.h"
#include "common/ptx/fence.cuh"
#include "common/ptx/named_barrier.cuh"
#include "common/ptx/tma.cuh"

namespace gemm {

/// Two chunks of 64 x 64 in shared memory, of one warpgroup: one is filled while the other is
/// stored.
struct Staging {
  static constexpr int chunks = 2;
  static constexpr int bytes = chunks * Chunk<64>::bytes;

  unsigned char* buffers;  ///< from a multiple of 1024 bytes on
  int barrier;             ///< a named barrier of the warpgroup's own
};

/// Chunk `number`'s place in the staging, once the store before the last one has read it. Chunks go
/// in turn through the places; all 128 threads run this.
__device__ inline unsigned char* await_place(const Staging& staging, int number) {
  if (threadIdx.x % 128 == 0) ptx::bulk_wait_read<Staging::chunks - 1>();
  ptx::named_barrier_sync(staging.barrier, 128);
  return staging.buffers + number % Staging::chunks * Chunk<64>::bytes;
}

/// Starts to store a chunk that the warpgroup has written, to D from (row, column) on; all 128
/// threads run this.
__device__ inline void send_chunk(unsigned char* chunk, const Problem& p, const CUtensorMap& map_d,
                                  const Staging& staging, int row, int column) {
  const bool overhangs = overhangs_a_unit<64>(p, column);
  if (overhangs) store_chunk<64>(chunk, p, row, column);
  ptx::fence_proxy_async();
  ptx::named_barrier_sync(staging.barrier, 128);
  if (threadIdx.x % 128 == 0) {
    if (!overhangs) ptx::tma_store_2d(map_d, column, row, chunk);
    ptx::bulk_commit();  // a group a chunk, if only an empty one
  }
}

/// D = alpha * accumulator + beta * C for the warpgroup's 64 * blocks rows from `row` on and its
/// 2 * count columns from `column` on. The stores may still read the chunks when this returns: it
/// may be called again, and finish_stores() must be before the CTA exits.
template <std::size_t blocks, std::size_t count>
__device__ void store_tile(const float (&accumulator)[blocks][count], const Problem& p,
                           const CUtensorMap& map_d, const Staging& staging, int row, int column) {
  constexpr int across = 2 * count / 64;
  static_assert(blocks * across % Staging::chunks == 0, "each tile starts with the first chunk");

#pragma unroll
  for (int c = 0; c < static_cast<int>(blocks) * across; ++c) {
    const float* const sums = accumulator[c / across] + c % across * 32;
    const int chunk_row = row + c / across * 64;
    const int chunk_column = column + c % across * 64;
    unsigned char* const chunk = await_place(staging, c);
    if (p.beta != 0) {
      load_chunk<64>(chunk, p, chunk_row, chunk_column);
      write_chunk<64>(chunk, sums, p.alpha, p.beta);
    } else {
      write_chunk<64>(chunk, sums, p.alpha);
    }
    send_chunk(chunk, p, map_d, staging, chunk_row, chunk_column);
  }
}

/// Waits until the stores have read their chunks: shared memory must stay until then.
__device__ inline void finish_stores() {
  if (threadIdx.x % 128 == 0) ptx::bulk_wait_read<0>();
}

}  // namespace gemm

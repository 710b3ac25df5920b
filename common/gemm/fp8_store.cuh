// From Z in a thread's registers to D, whatever D's type: bf16 or an 8-bit float.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/gemm/chunk.cuh"
#include "common/gemm/deferred_tile.cuh"
#include "common/gemm/fp8_scale.cuh"
#include "common/gemm/scaled_problem.h"
#include "common/ptx/convert.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/tma.cuh"

namespace gemm {

/// Packs a thread's 32 elements of a chunk, rounded to bf16.
__device__ inline void pack_chunk_bf16(std::uint32_t (&words)[16], const float* z) {
#pragma unroll
  for (int i = 0; i < 16; ++i) words[i] = pack_bf16(z[2 * i], z[2 * i + 1]);
}

/// The same, each multiplied by multiplier[row half][32 columns] and rounded to an 8-bit float. A
/// word holds two neighbours and, in its upper half, those 8 rows below.
template <ptx::Fp8 type>
__device__ inline void pack_chunk_fp8(std::uint32_t (&words)[16], const float* z,
                                      const float (&multiplier)[2][2]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    std::uint32_t pair[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float factor = multiplier[half][i / 4];
      const float* const own = z + 4 * i + 2 * half;
      pair[half] = ptx::pack_fp8<type>(factor * own[0], factor * own[1]);
    }
    words[i] = pair[0] | pair[1] << 16;
    words[i + 8] = 0;  // unused; but what was there would keep its register until now
  }
}

/// Byte `column`, a multiple of 8, of row `row` of 64 x 64 8-bit floats as a box of TMA lays them
/// out: rows of 64 bytes with the 64-byte swizzle, from a multiple of 512 bytes on.
__device__ inline std::uint32_t fp8_offset(int row, int column) {
  return row * 64 + (row * 8 & 0x30 ^ column);
}

/// Writes what pack_chunk_fp8() has packed to `chunk`. stmatrix would want four neighbours in a
/// lane, and a lane has two.
__device__ inline void write_chunk_fp8(unsigned char* chunk, const std::uint32_t (&words)[16]) {
  unsigned char* const own = chunk + accumulator_column();
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    unsigned char* const upper = own + fp8_offset(accumulator_row(), 8 * i);
    *reinterpret_cast<std::uint16_t*>(upper) = words[i];
    *reinterpret_cast<std::uint16_t*>(upper + fp8_offset(8, 0)) = words[i] >> 16;
  }
}

/// Copies the warp's 16 rows of a chunk, `chunk` being that of the warpgroup, to D by ordinary
/// stores, D's (row, column) being the first element of these 16 rows. What lies outside is left
/// out.
template <Output output>
__device__ inline void copy_rows(const unsigned char* chunk, const ScaledProblem& p, int row,
                                 int column) {
  constexpr bool is_bf16 = output == Output::bf16;
  using Element = std::conditional_t<is_bf16, std::uint16_t, std::uint8_t>;
  using Pair = std::conditional_t<is_bf16, std::uint32_t, std::uint16_t>;
  const int lane = threadIdx.x % 32;
  const int first = threadIdx.x % 128 / 32 * 16;  // of the warp's rows
  const int own = column + 2 * lane;
#pragma unroll 1
  for (int i = 0; i < min(16, p.m - row) && own < p.n; ++i) {
    const std::uint32_t at = is_bf16 ? Chunk<64>::offset(first + i, lane / 4) + lane % 4 * 4
                                     : fp8_offset(first + i, lane / 4 * 8) + lane % 4 * 2;
    const Pair pair = *reinterpret_cast<const Pair*>(chunk + at);
    Element* const d = static_cast<Element*>(p.d) + (row + i) * p.ldd + own;  // 64-bit offset
    if (own + 1 < p.n) {
      *reinterpret_cast<Pair*>(d) = pair;
    } else {
      *d = pair;
    }
  }
}

/// A warpgroup's 64 rows x `columns` of D, rounded and not stored. D leaves through `places` chunks
/// in shared memory, as many as Chunk<64> has bytes each. A warp fills its 16 rows of a chunk, and
/// stores them itself: no warp waits for another one.
///
/// begin() and chunk() fill the tile; store_next() empties it, chunk by chunk, or store_all() at
/// once. The copy engine may still read the staging when they return: finish_warp_stores().
template <int columns, int places>
class RoundedTile : public DeferredChunks<columns / 64> {
  using Chunks = DeferredChunks<columns / 64>;
  using Chunks::pair_, Chunks::row_, Chunks::column_, Chunks::next_;
  static_assert(columns / 64 % places == 0, "each tile starts with the first place");

 public:
  using Chunks::chunks, Chunks::waits;
  static constexpr int place_bytes = gemm::Chunk<64>::bytes;
  static constexpr int staging_bytes = places * place_bytes;

  /// Now chunk() must fill each chunk, for D from (row, column) on. No chunk may wait.
  __device__ void begin(int row, int column) {
    row_ = row;
    column_ = column;
    next_ = 0;
  }

  __device__ std::uint32_t (&chunk(int c))[16] { return pair_[c]; }

  /// Starts to store the chunk that waits longest. `map_d` has boxes of 16 rows x 64 columns.
  __device__ void store_next(const ScaledProblem& p, const CUtensorMap& map_d,
                             unsigned char* staging) {
    unsigned char* const place = staging + next_ % places * place_bytes;
    await_places<places - 1>();  // the last store from this place has read it
    this->visit_next([&](const std::uint32_t(&words)[16]) { write(place, words, p); });
    copy_overhang(place, next_, p);
    ptx::fence_proxy_async();
    __syncwarp();
    if (is_leader()) {
      send(place, next_, p, map_d);
      ptx::bulk_commit();  // a group a chunk, if only an empty one
    }
    ++next_;
  }

  /// Starts to store all chunks.
  __device__ void store_all(const ScaledProblem& p, const CUtensorMap& map_d,
                            unsigned char* staging) {
    if constexpr (places < chunks) {
      while (waits()) store_next(p, map_d, staging);
    } else {
      await_places<0>();
#pragma unroll
      for (int c = 0; c < chunks; ++c) {
        write(staging + c * place_bytes, pair_[c], p);
        copy_overhang(staging + c * place_bytes, c, p);
      }
      ptx::fence_proxy_async();
      __syncwarp();
      if (is_leader()) {
#pragma unroll
        for (int c = 0; c < chunks; ++c) send(staging + c * place_bytes, c, p, map_d);
        ptx::bulk_commit();
      }
      next_ = chunks;
    }
  }

 private:
  __device__ static bool is_leader() {
    return threadIdx.x % 32 == 0;
  }

  /// The copy engine would write up to 15 bytes behind a row of D (gemm::overhangs_a_unit).
  __device__ bool overhangs(int c, const ScaledProblem& p) const {
    const int unit = p.output == Output::bf16 ? 8 : 16;
    return (p.n & (unit - 1)) != 0 && column_ + 64 * (c + 1) > p.n;
  }

  template <int pending>
  __device__ static void await_places() {
    if (is_leader()) ptx::bulk_wait_read<pending>();
    __syncwarp();
  }

  __device__ static void write(unsigned char* place, const std::uint32_t (&words)[16],
                               const ScaledProblem& p) {
    if (p.output == Output::bf16) {
      write_chunk<64>(place, words);
    } else {
      write_chunk_fp8(place, words);
    }
  }

  /// Stores this warp's rows of a chunk itself, if the copy engine may not.
  __device__ void copy_overhang(const unsigned char* place, int c, const ScaledProblem& p) const {
    if (!overhangs(c, p)) return;
    __syncwarp();
    if (p.output == Output::bf16) {
      copy_rows<Output::bf16>(place, p, row_ + first_, column_ + 64 * c);
    } else {
      copy_rows<Output::e4m3>(place, p, row_ + first_, column_ + 64 * c);
    }
  }

  /// Hands this warp's rows of a chunk to the copy engine, if it may store them.
  __device__ void send(const unsigned char* place, int c, const ScaledProblem& p,
                       const CUtensorMap& map_d) const {
    if (overhangs(c, p)) return;
    ptx::tma_store_2d(map_d, column_ + 64 * c, row_ + first_,
                      place + first_ * (p.output == Output::bf16 ? 128 : 64));
  }

  /// The first of this warp's rows; by a shuffle, so that the compiler knows that its lanes agree.
  int first_ = __shfl_sync(~0u, threadIdx.x % 128 / 32 * 16, 0);
};

/// Waits until this warp's stores have read shared memory, which must stay until then.
__device__ inline void finish_warp_stores() {
  if (threadIdx.x % 32 == 0) ptx::bulk_wait_read<0>();
}

}  // namespace gemm

// A test kernel: a persistent, warp-specialized GEMM with all that a pipelined lesson will use.
//
// Warpgroup 0 is the producer: one of its threads fills a ring of stages with TMA. The other
// warpgroups are consumers: each computes 64 rows of the tile with wgmma, converts them, writes
// them to shared memory with stmatrix, and sends them to D with a TMA store. A CTA takes tiles
// until there are no more; the ring goes on from one tile to the next.
//
// D = A * B^T; A is m x k, B n x k, D m x n, bf16, each seen through a tensor map with the 128-byte
// swizzle: boxes of 64 columns and 64 * consumers (A) or 64 (B, D) rows.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

#include "common/gemm/swizzle.h"
#include "common/ptx/address.cuh"
#include "common/ptx/descriptor.h"
#include "common/ptx/fence.cuh"
#include "common/ptx/matrix.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/named_barrier.cuh"
#include "common/ptx/registers.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/wgmma.cuh"

namespace kernels {

constexpr int tile_n = 64;
constexpr int tile_k = 64;  // 64 bf16 = 128 bytes, one row of the swizzle pattern
constexpr int row_bytes = 2 * tile_k;
constexpr int block_bytes = 64 * row_bytes;  // 64 rows

enum class Break {
  none,
  no_init_barrier,
  no_init_fence,
  no_full_wait,
  no_phase_flip,
  flip_each_tile,   // the consumers' parity, instead of each round of the ring
  wrong_ring_size,  // the parity follows a ring of one stage more
  producer_parity,  // the producer waits for phase 0 of a fresh barrier
  short_expect,
  long_expect,
  no_expect_for_one_tile_of_k,
  one_arrival_expected,
  one_consumer_expected,
  all_lanes_expected,
  all_lanes_arrive,
  all_lanes_load,
  all_lanes_wait,
  no_release,
  release_before_wait,  // the last group's stage, before that group is complete
  release_current,      // the stage of the group that may still run
  no_wgmma_fence,
  no_wgmma_commit,
  one_group_pending,
  no_proxy_fence,
  no_barrier_before_store,
  no_store_wait,
  no_barrier_after_store_wait,
  no_store_commit,
  exit_before_store,
  too_many_threads_at_barrier,
  one_lane_at_barrier,
  shared_barrier,
  too_many_registers,
  no_registers_given,
  wrong_register_direction,
  idle_group_skips,
};

struct Extents {
  int m, n, k;
};

/// Where in the ring a thread is: round r of the ring is phase r of each of its barriers.
template <int stages, Break broken>
struct Position {
  int stage = 0;
  unsigned round = 0;

  __device__ void advance() {
    constexpr int size = broken == Break::wrong_ring_size ? stages + 1 : stages;
    ++step_;
    stage = step_ % stages;
    round = step_ / size;
  }

 private:
  unsigned step_ = 0;
};

template <int consumers, int stages>
struct Shared {
  static constexpr int a_bytes = consumers * block_bytes;
  static constexpr int stage_bytes = a_bytes + block_bytes;

  __device__ static unsigned char* a(unsigned char* shared, int stage) {
    return shared + stage * stage_bytes;
  }
  __device__ static unsigned char* b(unsigned char* shared, int stage) {
    return shared + stage * stage_bytes + a_bytes;
  }
  __device__ static unsigned char* d(unsigned char* shared, int consumer) {
    return shared + stages * stage_bytes + consumer * block_bytes;
  }
};

/// Fills the ring with the tiles of this CTA; one thread runs this.
template <int consumers, int stages, Break broken>
__device__ void produce(const CUtensorMap& map_a, const CUtensorMap& map_b, const Extents& extents,
                        unsigned char* shared, ptx::Mbarrier* full, ptx::Mbarrier* empty) {
  using Layout = Shared<consumers, stages>;
  constexpr int expected = broken == Break::short_expect  ? Layout::a_bytes
                           : broken == Break::long_expect ? Layout::stage_bytes + 16
                                                          : Layout::stage_bytes;
  const int tiles_n = (extents.n + tile_n - 1) / tile_n;
  const int tiles_m = (extents.m + 64 * consumers - 1) / (64 * consumers);
  Position<stages, broken> at;

  for (int tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
    for (int k = 0; k < extents.k; k += tile_k) {
      // The parity of the phase before the first: of a fresh barrier, the wait returns at once.
      const unsigned parity = broken == Break::producer_parity ? at.round & 1 : (at.round & 1) ^ 1;
      ptx::mbarrier_wait(empty[at.stage], parity);
      if (broken == Break::all_lanes_wait && threadIdx.x % 32 != 0) {
        at.advance();
        continue;
      }
      if (broken != Break::no_expect_for_one_tile_of_k || extents.k > tile_k) {
        ptx::mbarrier_arrive_expect_tx(full[at.stage], expected);
      }
      const int row_a = tile / tiles_n * 64 * consumers;
      ptx::tma_load_2d(Layout::a(shared, at.stage), map_a, k, row_a, full[at.stage]);
      ptx::tma_load_2d(Layout::b(shared, at.stage), map_b, k, tile % tiles_n * tile_n,
                       full[at.stage]);
      at.advance();
    }
  }
}

/// Says that this warp no longer reads a stage.
template <Break broken>
__device__ void release(ptx::Mbarrier& empty) {
  if (broken == Break::no_release) return;
  if (broken == Break::all_lanes_arrive || threadIdx.x % 32 == 0) ptx::mbarrier_arrive(empty);
}

/// Writes a warpgroup's 64 x 64 accumulators to `tile` in bf16, rows of 128 bytes, swizzled.
__device__ inline void store_fragments(unsigned char* tile, const float (&accumulator)[32]) {
  const int warp = threadIdx.x % 128 / 32;
  const int lane = threadIdx.x % 32;
  // Matrices 0 and 1: rows 0-7 and 8-15 of the warp, at the same 8 columns; 2 and 3: the next 8.
  const int row = 16 * warp + lane / 8 % 2 * 8 + lane % 8;
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    std::uint32_t value[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const element = accumulator + 8 * pair + 2 * i;
      const __nv_bfloat162 rounded = __floats2bfloat162_rn(element[0], element[1]);
      value[i] = reinterpret_cast<const std::uint32_t&>(rounded);
    }
    const int chunk = 2 * pair + lane / 16;
    ptx::stmatrix_x4(tile + gemm::swizzle_128b(row * row_bytes + 16 * chunk), value);
  }
}

/// Computes this warpgroup's rows of the tiles of this CTA.
template <int consumers, int stages, Break broken>
__device__ void consume(const CUtensorMap& map_d, const Extents& extents, unsigned char* shared,
                        ptx::Mbarrier* full, ptx::Mbarrier* empty) {
  using Layout = Shared<consumers, stages>;
  const int consumer = threadIdx.x / 128 - 1;
  const bool is_leader = threadIdx.x % 128 == 0;
  const int barrier = broken == Break::shared_barrier ? 1 : 1 + consumer;
  constexpr int barrier_threads = broken == Break::too_many_threads_at_barrier ? 256 : 128;
  unsigned char* const tile_d = Layout::d(shared, consumer);
  const int tiles_n = (extents.n + tile_n - 1) / tile_n;
  const int tiles_m = (extents.m + 64 * consumers - 1) / (64 * consumers);
  Position<stages, broken> at;
  unsigned tiles_done = 0;

  for (int tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
    const int first_row = (tile / tiles_n * consumers + consumer) * 64;
    if (broken == Break::idle_group_skips && first_row >= extents.m) continue;
    float accumulator[1][tile_n / 2] = {};
    int previous = -1;  // the stage that the pending group of wgmmas reads

    for (int k = 0; k < extents.k; k += tile_k) {
      const unsigned parity = broken == Break::no_phase_flip    ? 0
                              : broken == Break::flip_each_tile ? tiles_done & 1
                                                                : at.round & 1;
      if (broken != Break::no_full_wait) ptx::mbarrier_wait(full[at.stage], parity);

      if (broken != Break::no_wgmma_fence) ptx::wgmma_fence(accumulator);
#pragma unroll
      for (int slice = 0; slice < tile_k / 16; ++slice) {
        const std::uint32_t a =
            ptx::shared_address(Layout::a(shared, at.stage)) + consumer * block_bytes + 32 * slice;
        const std::uint32_t b = ptx::shared_address(Layout::b(shared, at.stage)) + 32 * slice;
        ptx::wgmma_m64k16<tile_n>(accumulator[0], ptx::k_major_descriptor(a),
                                  ptx::k_major_descriptor(b), true);
      }
      if (broken != Break::no_wgmma_commit) ptx::wgmma_commit();
      if (broken == Break::release_before_wait && previous >= 0) release<broken>(empty[previous]);
      ptx::wgmma_wait<1>(accumulator);
      if (broken == Break::release_current) {
        release<broken>(empty[at.stage]);
      } else if (broken != Break::release_before_wait && previous >= 0) {
        release<broken>(empty[previous]);
      }
      previous = at.stage;
      at.advance();
    }
    if (broken != Break::one_group_pending) ptx::wgmma_wait<0>(accumulator);
    if (broken != Break::release_current && previous >= 0) release<broken>(empty[previous]);

    // The last tile's store must have read `tile_d` before anybody writes there again.
    if (is_leader && broken != Break::no_store_wait) ptx::bulk_wait_read<0>();
    if (broken != Break::no_barrier_after_store_wait) {
      ptx::named_barrier_sync(barrier, barrier_threads);
    }
    store_fragments(tile_d, accumulator[0]);
    if (broken != Break::no_proxy_fence) ptx::fence_proxy_async();
    if (broken != Break::no_barrier_before_store &&
        (broken != Break::one_lane_at_barrier || threadIdx.x % 32 == 0)) {
      ptx::named_barrier_sync(barrier, barrier_threads);
    }
    if (is_leader) {
      ptx::tma_store_2d(map_d, tile % tiles_n * tile_n, first_row, tile_d);
      if (broken != Break::no_store_commit) ptx::bulk_commit();
    }
    ++tiles_done;
  }
  if (is_leader && broken != Break::exit_before_store) ptx::bulk_wait_read<0>();
}

// Registers a thread: 128 with one consumer (40 + 216 = 2 * 128), 168 with two (40 + 2 * 232 =
// 3 * 168).
template <int consumers, int stages, Break broken>
__global__ void __launch_bounds__(128 * (consumers + 1), consumers == 1 ? 2 : 1)
    ring(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
         const __grid_constant__ CUtensorMap map_d, const Extents extents) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ ptx::Mbarrier full[stages];
  __shared__ ptx::Mbarrier empty[stages];

  if (threadIdx.x == 0) {
    constexpr int warps = 4 * consumers;  // one lane of each arrives
    constexpr int arrivals = broken == Break::one_arrival_expected    ? 1
                             : broken == Break::one_consumer_expected ? 4
                             : broken == Break::all_lanes_expected    ? 32 * warps
                                                                      : warps;
    for (int stage = 0; stage < stages; ++stage) {
      ptx::mbarrier_init(full[stage], 1);
      ptx::mbarrier_init(empty[stage], arrivals);
    }
    if (broken != Break::no_init_fence) ptx::fence_mbarrier_init();
  }
  if (broken != Break::no_init_barrier) __syncthreads();

  if (threadIdx.x < 128) {
    if (broken != Break::no_registers_given) ptx::registers_decrease<40>();
    constexpr bool all_lanes = broken == Break::all_lanes_load || broken == Break::all_lanes_wait;
    if (threadIdx.x == 0 || (all_lanes && threadIdx.x < 32)) {
      produce<consumers, stages, broken>(map_a, map_b, extents, shared, full, empty);
    }
  } else {
    if (broken == Break::wrong_register_direction) ptx::registers_decrease<232>();
    ptx::registers_increase<(consumers == 1                        ? 216
                             : broken == Break::too_many_registers ? 240
                                                                   : 232)>();
    consume<consumers, stages, broken>(map_d, extents, shared, full, empty);
  }
}

// Makes a variant a kernel of the module.
#define INSTANTIATE(consumers, stages, broken)                                  \
  template __global__ void ring<consumers, stages, Break::broken>(              \
      const __grid_constant__ CUtensorMap, const __grid_constant__ CUtensorMap, \
      const __grid_constant__ CUtensorMap, const Extents)

}  // namespace kernels

// A test kernel: a cluster of CTAs shares the tiles of B by TMA multicast.
//
// The CTAs of a cluster compute tiles of D that lie one below the other, from the same rows of B.
// Each loads its own tile of A, and one part of the tile of B into the shared memory of all. So a
// stage may be filled again only when all CTAs of the cluster have read it: consumers arrive at the
// EMPTY barriers of all of them.
//
// In the end the cluster adds up the columns of its tiles through distributed shared memory: each
// CTA leaves partial sums in its own, tells the others, and reads theirs for some of the columns.
//
// D = A * B^T; A is m x k, B n x k, D m x n, bf16; A and B are seen through tensor maps with the
// 128-byte swizzle, in boxes of 64 columns and 64 (A) or 64 / cluster (B) rows. sums has a row of n
// fp32 for each cluster along m: the sums of its columns of A * B^T.
#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

#include "common/gemm/epilogue.cuh"
#include "common/gemm/problem.h"
#include "common/ptx/address.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/descriptor.h"
#include "common/ptx/fence.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/named_barrier.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/wgmma.cuh"
#include "tests/kernels/ptx_extra.cuh"

namespace kernels {

constexpr int tile_m = 64;
constexpr int tile_n = 64;
constexpr int tile_k = 64;  // 64 bf16 = 128 bytes, one row of the swizzle pattern
constexpr int row_bytes = 2 * tile_k;
constexpr int tile_bytes = 64 * row_bytes;
constexpr int stages = 2;
constexpr int threads = 160;  // a warpgroup of consumers, and the warp of the producer

enum class Break {
  none,
  producer_leaves,  // right: the barrier of the cluster waits for threads that have not exited
  relaxed_sync,     // right: the fence releases the inits, the arrival need not
  relaxed_sync_without_fence,
  no_initial_sync,
  no_init_fence,
  no_final_sync,
  idle_cta_returns,
  peers_not_counted,
  released_to_own_cta,
  all_lanes_release,
  release_before_wait,
  own_slice_expected,
  multicast_to_self,
  same_slice,
  empty_parity,
  sums_without_wait,
  sums_with_cta_scope,
  sums_before_barrier,
  sums_arrival_missing,
  no_sync_at_all,
};

struct Barriers {
  ptx::Mbarrier* full;
  ptx::Mbarrier* empty;
};

/// Fills this CTA's tiles of A, and this CTA's part of the tiles of B in all CTAs; one thread.
template <int cluster, Break broken>
__device__ void produce(const CUtensorMap& map_a, const CUtensorMap& map_b, int k_end,
                        int first_row, int first_column, unsigned char* shared, Barriers barriers) {
  constexpr int slice_rows = tile_n / cluster;
  constexpr int slice_bytes = slice_rows * row_bytes;
  constexpr std::uint16_t everybody = (1 << cluster) - 1;
  const int slice = broken == Break::same_slice ? 0 : ptx::cluster_rank();
  const std::uint16_t receivers =
      broken == Break::multicast_to_self ? 1 << ptx::cluster_rank() : everybody;

  for (int k = 0, step = 0; k < k_end; k += tile_k, ++step) {
    const int stage = step % stages;
    const unsigned round = step / stages;
    const unsigned parity = broken == Break::empty_parity ? round & 1 : (round & 1) ^ 1;
    ptx::mbarrier_wait_cluster(barriers.empty[stage], parity);

    unsigned char* const tile_a = shared + stage * 2 * tile_bytes;
    unsigned char* const tile_b = tile_a + tile_bytes;
    ptx::Mbarrier& full = barriers.full[stage];
    ptx::mbarrier_arrive_expect_tx(
        full, broken == Break::own_slice_expected ? tile_bytes + slice_bytes : 2 * tile_bytes);
    ptx::tma_load_2d(tile_a, map_a, k, first_row, full);
    ptx::tma_load_2d_multicast(tile_b + slice * slice_bytes, map_b, k,
                               first_column + slice * slice_rows, full, receivers);
  }
}

/// Tells all CTAs of the cluster that this warp no longer reads a stage.
template <int cluster, Break broken>
__device__ void release(ptx::Mbarrier& empty) {
  const unsigned lane = threadIdx.x % 32;
  if constexpr (broken == Break::released_to_own_cta || broken == Break::peers_not_counted) {
    if (lane == 0) ptx::mbarrier_arrive(empty);
  } else if constexpr (broken == Break::all_lanes_release) {
    ptx::mbarrier_arrive_peer(empty, lane % cluster);
  } else {
    if (lane < cluster) ptx::mbarrier_arrive_peer(empty, lane);
  }
}

/// The accumulators (layout: ptx::wgmma_m64k16) of this CTA's tile of A * B^T.
template <int cluster, Break broken>
__device__ void multiply(float (&accumulator)[1][tile_n / 2], int k_end, unsigned char* shared,
                         Barriers barriers) {
  for (int k = 0, step = 0; k < k_end; k += tile_k, ++step) {
    const int stage = step % stages;
    const unsigned char* const tile_a = shared + stage * 2 * tile_bytes;
    ptx::mbarrier_wait(barriers.full[stage], step / stages & 1);

    ptx::wgmma_fence(accumulator);
#pragma unroll
    for (int slice = 0; slice < tile_k / 16; ++slice) {
      const std::uint32_t a = ptx::shared_address(tile_a) + 32 * slice;
      ptx::wgmma_m64k16<tile_n>(accumulator[0], ptx::k_major_descriptor(a),
                                ptx::k_major_descriptor(a + tile_bytes), true);
    }
    ptx::wgmma_commit();
    if (broken == Break::release_before_wait) release<cluster, broken>(barriers.empty[stage]);
    ptx::wgmma_wait<0>(accumulator);
    if (broken != Break::release_before_wait) release<cluster, broken>(barriers.empty[stage]);
  }
}

/// Adds up the 16 rows of each warp: 64 sums a warp.
__device__ inline void sum_rows(const float (&accumulator)[tile_n / 2], float (*partial)[tile_n]) {
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < tile_n / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float sum = accumulator[4 * j + e] + accumulator[4 * j + 2 + e];
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) {
        sum += __shfl_xor_sync(0xFFFFFFFF, sum, distance);
      }
      if (lane < 4) partial[warp][8 * j + 2 * lane + e] = sum;
    }
  }
}

/// Adds up the partial sums of all CTAs of the cluster, each CTA for its share of the columns.
template <int cluster, Break broken>
__device__ void add_up(const float (*partial)[tile_n], ptx::Mbarrier& ready, float* sums, int n,
                       int first_column) {
  // All four warps have written; then one thread for each CTA says so.
  if constexpr (broken != Break::sums_before_barrier) ptx::named_barrier_sync(1, 128);
  constexpr int told = broken == Break::no_sync_at_all         ? 0
                       : broken == Break::sums_arrival_missing ? cluster - 1
                                                               : cluster;
  if (static_cast<int>(threadIdx.x) < told) ptx::mbarrier_arrive_peer(ready, threadIdx.x);
  if constexpr (broken == Break::sums_with_cta_scope) {
    ptx::mbarrier_wait(ready, 0);
  } else if constexpr (broken != Break::sums_without_wait && broken != Break::no_sync_at_all) {
    ptx::mbarrier_wait_cluster(ready, 0);
  }

  constexpr int columns = tile_n / cluster;
  if (threadIdx.x >= columns) return;
  const int column = ptx::cluster_rank() * columns + threadIdx.x;
  float sum = 0;
  for (int rank = 0; rank < cluster; ++rank) {
    for (int warp = 0; warp < 4; ++warp) {
      sum += ptx::load_peer(ptx::peer_address(&partial[warp][column], rank));
    }
  }
  if (first_column + column < n) sums[first_column + column] = sum;
}

template <int cluster, Break broken>
__global__ void __cluster_dims__(cluster, 1, 1) __launch_bounds__(threads)
    multicast(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
              const gemm::Problem p, float* sums) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ ptx::Mbarrier full[stages];
  __shared__ ptx::Mbarrier empty[stages];
  __shared__ ptx::Mbarrier ready;  // all CTAs have their partial sums
  __shared__ float partial[4][tile_n];

  const int tiles_n = (p.n + tile_n - 1) / tile_n;
  const int group = blockIdx.x / cluster;  // of this cluster
  const int rank = ptx::cluster_rank();
  const int first_row = (group / tiles_n * cluster + rank) * tile_m;
  const int first_column = group % tiles_n * tile_n;

  if (threadIdx.x == 0) {
    constexpr int releases = broken == Break::peers_not_counted ? 4 : 4 * cluster;
    for (int stage = 0; stage < stages; ++stage) {
      ptx::mbarrier_init(full[stage], 1);
      ptx::mbarrier_init(empty[stage], releases);
    }
    ptx::mbarrier_init(ready, cluster);
    if (broken != Break::no_init_fence && broken != Break::relaxed_sync_without_fence) {
      ptx::fence_mbarrier_init();
    }
  }
  // The others' copies come into this CTA's memory and report to its barriers.
  if constexpr (broken == Break::no_initial_sync || broken == Break::no_sync_at_all) {
    __syncthreads();
  } else {
    if constexpr (broken == Break::relaxed_sync || broken == Break::relaxed_sync_without_fence) {
      ptx::cluster_arrive_relaxed();
    } else {
      ptx::cluster_arrive();
    }
    ptx::cluster_wait();
  }
  // A CTA without rows of its own has its part of B to load.
  if (broken == Break::idle_cta_returns && first_row >= p.m) return;

  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) {
      produce<cluster, broken>(map_a, map_b, p.k, first_row, first_column, shared, {full, empty});
    }
    if (broken == Break::producer_leaves) return;
  } else {
    float accumulator[1][tile_n / 2] = {};
    multiply<cluster, broken>(accumulator, p.k, shared, {full, empty});
    gemm::store_accumulator<tile_n>(accumulator[0], p, first_row, first_column);
    sum_rows(accumulator[0], partial);
    add_up<cluster, broken>(partial, ready, sums + group / tiles_n * p.n, p.n, first_column);
  }
  // The others still read this CTA's sums and arrive at its barriers.
  __syncwarp();
  if constexpr (broken != Break::no_final_sync) {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
}

// Makes a variant a kernel of the module.
#define INSTANTIATE(cluster, broken)                                                              \
  template __global__ void multicast<cluster, Break::broken>(const __grid_constant__ CUtensorMap, \
                                                             const __grid_constant__ CUtensorMap, \
                                                             const gemm::Problem, float*)

INSTANTIATE(2, none);
INSTANTIATE(4, none);
INSTANTIATE(2, producer_leaves);
INSTANTIATE(2, relaxed_sync);
INSTANTIATE(2, relaxed_sync_without_fence);
INSTANTIATE(2, no_initial_sync);
INSTANTIATE(2, no_init_fence);
INSTANTIATE(2, no_final_sync);
INSTANTIATE(2, idle_cta_returns);
INSTANTIATE(2, peers_not_counted);
INSTANTIATE(2, released_to_own_cta);
INSTANTIATE(2, all_lanes_release);
INSTANTIATE(2, release_before_wait);
INSTANTIATE(2, own_slice_expected);
INSTANTIATE(2, multicast_to_self);
INSTANTIATE(2, same_slice);
INSTANTIATE(2, empty_parity);
INSTANTIATE(2, sums_without_wait);
INSTANTIATE(2, sums_with_cta_scope);
INSTANTIATE(2, sums_before_barrier);
INSTANTIATE(2, sums_arrival_missing);
INSTANTIATE(2, no_sync_at_all);

}  // namespace kernels

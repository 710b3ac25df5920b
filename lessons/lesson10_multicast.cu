// Lesson 10 - multicast: one load feeds several CTAs.
//
//   make lesson10 && ./lesson10
//
// Neighbouring tiles of D share rows of A or of B. In lesson 09 that was left to the L2 and to
// chance: they are computed at about the same time. Here their CTAs form a cluster, run at the same
// time for sure, and share on purpose: each loads a slice of the common operand, and the copy
// engine writes it into the shared memory of all.
//
// So a stage is empty only when the consumers of all CTAs have read it: EMPTY counts the peers'
// warps too, and each warp arrives at the barrier of every CTA. And no CTA may leave while a peer
// still arrives there: the producer stays until all stages are empty.
//
// The note: docs/lesson10_multicast.md
#include <cuda_bf16.h>

#include <algorithm>

#include "common/gemm/choose_order.h"
#include "common/gemm/k_tile.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/problem.h"
#include "common/gemm/register_budget.h"
#include "common/gemm/ring_state.h"
#include "common/gemm/store_tile.cuh"
#include "common/gemm/tile_order.h"
#include "common/gemm/timeline.cuh"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"
#include "common/ptx/cluster.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/registers.cuh"

namespace {

using gemm::row_bytes;
using gemm::Span;
using gemm::tile_k;
using gemm::TileOrder;
using gemm::TilePosition;

constexpr int consumers = 2;
constexpr int threads = 128 * (1 + consumers);  // warpgroup 0 is the producer
constexpr int stages = 4;
constexpr int tile_m = 128;
constexpr int tile_n = 256;
constexpr gemm::RegisterBudget registers{40, 232};
static_assert(gemm::is_possible(registers, consumers, 1));

constexpr int a_bytes = tile_m * row_bytes;
constexpr int b_bytes = tile_n * row_bytes;
constexpr int stage_bytes = a_bytes + b_bytes;
constexpr int shared_bytes = stages * stage_bytes + consumers * gemm::Staging::bytes;

enum class Break {
  none,
  peers_not_counted,
  own_slice_expected,
  no_cluster_sync,
  early_exit,
  released_at_home
};

/// The scope that a consumer's arrival at a peer's EMPTY is written with.
enum class Scope { cta, cluster };

/// A cluster of along_m x along_n CTAs, one of which is 1: their tiles lie below or beside each
/// other. Below each other they share B, beside each other A.
template <int along_m_, int along_n_>
struct Cluster {
  static constexpr int along_m = along_m_, along_n = along_n_;
  static constexpr int size = along_m * along_n;
  static_assert(along_m == 1 || along_n == 1);
  // Of the shared operand each CTA loads a slice; of the other one its own tile.
  static constexpr int a_rows = tile_m / along_n;
  static constexpr int b_rows = tile_n / along_m;
};

struct Ring {
  unsigned char* buffers;  // a stage: a tile of A, then a tile of B
  ptx::Mbarrier* full;
  ptx::Mbarrier* empty;
};

/// Loads `rows` rows of an operand into this CTA's shared memory, or into that of all.
template <bool is_shared, class Cluster>
__device__ void load(unsigned char* tile, const CUtensorMap& map, int k, int row,
                     ptx::Mbarrier& full) {
  if constexpr (is_shared) {
    constexpr std::uint16_t everybody = (1 << Cluster::size) - 1;
    ptx::tma_load_2d_multicast(tile, map, k, row, full, everybody);
  } else {
    ptx::tma_load_2d(tile, map, k, row, full);
  }
}

/// Fills the ring for one tile, and the peers' rings with this CTA's slices; one thread.
template <class Cluster, Break broken>
__device__ void load_tile(const Ring& ring, gemm::RingState& write, const CUtensorMap& map_a,
                          const CUtensorMap& map_b, TilePosition at, int k_tiles) {
  const int slice = ptx::cluster_rank();
  const int a_slice = Cluster::along_n > 1 ? slice * Cluster::a_rows : 0;
  const int b_slice = Cluster::along_m > 1 ? slice * Cluster::b_rows : 0;
  // What lands here, whoever asked for it.
  constexpr int expected = broken == Break::own_slice_expected
                               ? (Cluster::a_rows + Cluster::b_rows) * row_bytes
                               : stage_bytes;
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    ptx::mbarrier_wait(ring.empty[write.index], write.phase ^ 1);
    unsigned char* const a = ring.buffers + write.index * stage_bytes + a_slice * row_bytes;
    unsigned char* const b =
        ring.buffers + write.index * stage_bytes + a_bytes + b_slice * row_bytes;
    ptx::Mbarrier& full = ring.full[write.index];
    ptx::mbarrier_arrive_expect_tx(full, expected);
    load<(Cluster::along_n > 1), Cluster>(a, map_a, k_tile * tile_k, at.row * tile_m + a_slice,
                                          full);
    load<(Cluster::along_m > 1), Cluster>(b, map_b, k_tile * tile_k, at.column * tile_n + b_slice,
                                          full);
    write.advance(stages);
  }
}

/// Tells all CTAs of the cluster that this warp has read the stage: a lane for each.
template <class Cluster, Scope scope, Break broken>
__device__ void release(ptx::Mbarrier& empty) {
  const unsigned lane = threadIdx.x % 32;
  if constexpr (Cluster::size == 1 || broken == Break::released_at_home ||
                broken == Break::peers_not_counted) {
    if (lane == 0) ptx::mbarrier_arrive(empty);
  } else if constexpr (scope == Scope::cluster) {
    if (lane < Cluster::size) ptx::mbarrier_arrive_peer(empty, lane);
  } else {
    if (lane < Cluster::size) ptx::mbarrier_arrive_peer_cta_scope(empty, lane);
  }
}

/// accumulator = this consumer's rows of one tile; all its threads. As gemm::multiply_k_tiles() and
/// gemm::finish_k_tiles(), but for the release.
template <class Cluster, Scope scope, Break broken, std::size_t blocks, std::size_t count>
__device__ void multiply_tile(float (&accumulator)[blocks][count], const Ring& ring,
                              gemm::RingState& read, int rows, int k_tiles) {
  const auto multiply = [&](bool accumulate) {
    ptx::mbarrier_wait(ring.full[read.index], read.phase);
    const unsigned char* const stage = ring.buffers + read.index * stage_bytes;
    gemm::multiply_k_tile(accumulator, stage + rows * row_bytes, stage + a_bytes, accumulate);
    read.advance(stages);
  };

  if (k_tiles > 0) multiply(false);
  for (int k_tile = 1; k_tile < k_tiles; ++k_tile) {
    const int last = read.previous(stages);
    multiply(true);
    ptx::wgmma_wait<1>(accumulator);
    release<Cluster, scope, broken>(ring.empty[last]);
  }
  ptx::wgmma_wait<0>(accumulator);
  if (k_tiles > 0) release<Cluster, scope, broken>(ring.empty[read.previous(stages)]);
}

/// The static scheduler of lesson 09, a cluster at a time: `order` is that of blocks of tiles, one
/// for each cluster. A tile may lie outside D: its CTA has nothing to store, but slices to load.
template <class Cluster, class Function>
__device__ void for_each_tile(const TileOrder& order, Function function) {
  const int rank = ptx::cluster_rank();
  const int clusters = gridDim.x / Cluster::size;
  for (int index = blockIdx.x / Cluster::size; index < order.tiles(); index += clusters) {
    const TilePosition block = order.at(index);
    function(TilePosition{block.row * Cluster::along_m + (Cluster::along_m > 1 ? rank : 0),
                          block.column * Cluster::along_n + (Cluster::along_n > 1 ? rank : 0)},
             index);
  }
}

template <class Cluster, Scope scope, Break broken, bool traced>
__global__ void __launch_bounds__(threads, 1)
    gemm_multicast(const __grid_constant__ CUtensorMap map_a,
                   const __grid_constant__ CUtensorMap map_b,
                   const __grid_constant__ CUtensorMap map_d, const gemm::Problem p,
                   const TileOrder order, const gemm::Timeline timeline) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ ptx::Mbarrier full[stages];
  __shared__ ptx::Mbarrier empty[stages];

  const Ring ring{shared, full, empty};
  const int k_tiles = (p.k + tile_k - 1) / tile_k;

  if (threadIdx.x == 0) {
    constexpr int warps = 4 * consumers;
    for (int stage = 0; stage < stages; ++stage) {
      ptx::mbarrier_init(full[stage], 1);
      ptx::mbarrier_init(empty[stage],
                         broken == Break::peers_not_counted ? warps : warps * Cluster::size);
    }
    ptx::fence_mbarrier_init();
  }
  // The peers' copies come into this CTA's memory, and report to its barriers.
  if constexpr (Cluster::size == 1 || broken == Break::no_cluster_sync) {
    __syncthreads();
  } else {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }

  if (threadIdx.x < 128) {
    ptx::registers_decrease<registers.producer>();
    if (threadIdx.x != 0) return;
    gemm::Track<traced> track(timeline, 0, true);
    gemm::RingState write;
    for_each_tile<Cluster>(order, [&](TilePosition at, int index) {
      const auto begin = track.now();
      load_tile<Cluster, broken>(ring, write, map_a, map_b, at, k_tiles);
      track.record(Span::load, index, begin);
    });
    // As in lesson 05, and here it is needed: when all stages are empty, the peers have arrived at
    // this CTA's barriers for the last time.
    for (int i = 0; broken != Break::early_exit && i < stages; ++i) {
      ptx::mbarrier_wait(empty[write.index], write.phase ^ 1);
      write.advance(stages);
    }
  } else {
    ptx::registers_increase<registers.consumer>();
    constexpr int blocks = tile_m / (64 * consumers);  // of 64 rows, a consumer
    const int consumer = threadIdx.x / 128 - 1;
    const int own_rows = 64 * blocks * consumer;  // the tile's rows above this consumer's
    const gemm::Staging staging{shared + stages * stage_bytes + consumer * gemm::Staging::bytes,
                                1 + consumer};
    gemm::Track<traced> track(timeline, 1 + consumer, threadIdx.x % 128 == 0);
    gemm::RingState read;
    float accumulator[blocks][tile_n / 2] = {};

    for_each_tile<Cluster>(order, [&](TilePosition at, int index) {
      auto begin = track.now();
      multiply_tile<Cluster, scope, broken>(accumulator, ring, read, own_rows, k_tiles);
      track.record(Span::multiply, index, begin);

      begin = track.now();
      gemm::store_tile(accumulator, p, map_d, staging, at.row * tile_m + own_rows,
                       at.column * tile_n);
      track.record(Span::epilogue, index, begin);
    });
    gemm::finish_stores();
  }
}

template <class Cluster, Scope scope = Scope::cta, Break broken = Break::none, bool traced = false>
harness::Launch prepare(device::Device& device, const gemm::Problem& problem,
                        const harness::Selection& selection) {
  const auto kernel = gemm_multicast<Cluster, scope, broken, traced>;
  constexpr unsigned size = Cluster::size;
  const int block_m = tile_m * Cluster::along_m;  // of D, for a cluster
  const int block_n = tile_n * Cluster::along_n;
  device::LaunchShape shape{
      .grid = {size}, .block = {threads}, .cluster = {size}, .shared_bytes = shared_bytes};
  const unsigned resident = device.resident_clusters(shape, kernel);
  const TileOrder order =
      gemm::choose_order((problem.m + block_m - 1) / block_m, (problem.n + block_n - 1) / block_n,
                         block_m, block_n, resident);
  shape.grid.x = size * std::min(resident, static_cast<unsigned>(order.tiles()));

  const CUtensorMap map_a = gemm::map_of_a(device, problem, Cluster::a_rows);
  const CUtensorMap map_b = gemm::map_of_b(device, problem, Cluster::b_rows);
  const CUtensorMap map_d = gemm::chunk_map<64>(device, "D", problem.d, problem, problem.ldd);
  const gemm::Timeline timeline = selection.timeline();
  return
      [=, &device] { device.launch(shape, kernel, map_a, map_b, map_d, problem, order, timeline); };
}

}  // namespace

int main(int argc, char** argv) {
  using Default = Cluster<2, 1>;
  const harness::Variants variants{
      {"--cluster 2x1 --release cta", prepare<Default>},
      {"--release cluster", prepare<Default, Scope::cluster>},
      {"--cluster 1x1", prepare<Cluster<1, 1>>},
      {"--cluster 1x1 --release cluster", prepare<Cluster<1, 1>>},
      {"--cluster 1x2", prepare<Cluster<1, 2>>},
      {"--cluster 1x2 --release cluster", prepare<Cluster<1, 2>, Scope::cluster>},
      {"--cluster 4x1", prepare<Cluster<4, 1>>},
      {"--cluster 4x1 --release cluster", prepare<Cluster<4, 1>, Scope::cluster>},
      {"--cluster 1x4", prepare<Cluster<1, 4>>},
      {"--cluster 1x4 --release cluster", prepare<Cluster<1, 4>, Scope::cluster>},
      {"--trace", prepare<Default, Scope::cta, Break::none, true>},
      {"--break peers-not-counted", prepare<Default, Scope::cta, Break::peers_not_counted>,
       "EMPTY counts only this CTA's warps, and only they arrive: a peer's stage is overwritten "
       "while it is read"},
      {"--break own-slice-expected", prepare<Default, Scope::cta, Break::own_slice_expected>,
       "announces the bytes that this CTA loads, not those that land in it"},
      {"--break no-cluster-sync", prepare<Default, Scope::cta, Break::no_cluster_sync>,
       "sends slices to peers whose barriers are not made yet"},
      {"--break early-exit", prepare<Default, Scope::cta, Break::early_exit>,
       "the producer leaves while peers still arrive at its barriers"},
      {"--break released-at-home", prepare<Default, Scope::cta, Break::released_at_home>,
       "EMPTY counts the peers' warps, but they arrive at their own barrier: a hang"}};
  const harness::Lesson lesson{
      .number = 10,
      .name = "multicast",
      .trick = "clusters: one load feeds several CTAs",
      .likely_wait =
          "`empty`, whose count includes the warps of all CTAs of the cluster, or `full`, "
          "if a peer does not send its slice",
      .knobs = {{"cluster",
                 "CTAs along M x along N: along M they share B, along N they share A",
                 {"1x1", "2x1", "1x2", "4x1", "1x4"},
                 "2x1"},
                {"release",
                 "scope of a consumer's arrival at a peer's EMPTY; cluster makes it wait for all "
                 "that the thread has written",
                 {"cta", "cluster"},
                 "cta"}},
      .breaks = variants.breaks(),
      .tracks = {"producer", "consumer 0", "consumer 1"},
      .tile = harness::fixed_tile(tile_m, tile_n),
      .prepare = variants,
  };
  return harness::run(lesson, argc, argv);
}

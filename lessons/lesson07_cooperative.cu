// Lesson 07 - cooperative: two consumers share one tile that neither could hold alone.
//
//   make lesson07 && ./lesson07
//
// A tile of 128 x 256 reads A and B a quarter less often than one of 128 x 128 does twice. Its
// 32,768 accumulators are 256 registers a thread for one warpgroup, more than a thread can name;
// for two they are 128. Each consumer has its own rows of the tile and its own accumulators;
// together they read each stage, and nothing is added up between them.
//
// The CTA is persistent: there is one on each SM, and it takes tile after tile. The ring goes on
// across tiles, so the first stages of the next are loaded while this one is stored.
//
// The epilogue goes through shared memory: stmatrix puts a chunk of 64 x 64 there, and the copy
// engine stores it, in whole rows of 128 bytes.
//
// The note: docs/lesson07_cooperative.md
#include <cuda_bf16.h>

#include <algorithm>

#include "common/gemm/chunk.cuh"
#include "common/gemm/mainloop.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/problem.h"
#include "common/gemm/register_budget.h"
#include "common/gemm/tile_order.h"
#include "common/gemm/timeline.cuh"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"
#include "common/ptx/elect.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/named_barrier.cuh"
#include "common/ptx/registers.cuh"

namespace {

using gemm::Span;
using gemm::tile_k;

constexpr int consumers = 2;
constexpr int threads = 128 * (1 + consumers);  // warpgroup 0 is the producer
constexpr int stages = 4;
constexpr gemm::RegisterBudget registers{40, 232};
static_assert(gemm::is_possible(registers, consumers, 1));

using Chunk = gemm::Chunk<64>;
constexpr int chunks = 2;  // a consumer: one is filled while the other is stored

enum class Break {
  none,
  same_rows,
  one_consumer_counted,
  no_proxy_fence,
  no_store_wait,
  no_barrier_before_store,
  shared_barrier
};

template <int tile_m, int tile_n>
using Ring = gemm::Ring<tile_m, tile_n, stages>;

template <int tile_m, int tile_n>
constexpr int shared_bytes = Ring<tile_m, tile_n>::bytes + consumers* chunks* Chunk::bytes;

/// The tiles of D that this CTA computes: every gridDim.x-th.
struct Tiles {
  int rows, columns;  // of tiles
  int band;

  template <class Function>
  __device__ void for_each(Function function) const {
    for (int tile = blockIdx.x; tile < rows * columns; tile += gridDim.x) {
      function(gemm::tile_position(tile, rows, columns, band));
    }
  }
};

/// D = alpha * accumulator + beta * C for this consumer's rows, from `row` on, through its chunks.
template <int tile_n, Break broken, std::size_t blocks>
__device__ void store_tile(const float (&accumulator)[blocks][tile_n / 2], const gemm::Problem& p,
                           const CUtensorMap& map_d, unsigned char* staging, int row, int column) {
  const int consumer = threadIdx.x / 128 - 1;
  const int barrier = broken == Break::shared_barrier ? 1 : 1 + consumer;
  const bool is_leader = threadIdx.x % 128 == 0;

#pragma unroll
  for (int i = 0; i < static_cast<int>(blocks); ++i) {
#pragma unroll
    for (int c = 0; c < tile_n / 64; ++c) {
      unsigned char* const chunk = staging + (i * (tile_n / 64) + c) % chunks * Chunk::bytes;
      // The store before the last one has read this chunk: it may be filled anew.
      if (is_leader && broken != Break::no_store_wait) ptx::bulk_wait_read<chunks - 1>();
      ptx::named_barrier_sync(barrier, 128);

      const float* const sums = accumulator[i] + 32 * c;
      const int chunk_row = row + 64 * i;
      const int chunk_column = column + 64 * c;
      if (p.beta != 0) {
        gemm::load_chunk<64>(chunk, p, chunk_row, chunk_column);
        gemm::write_chunk<64>(chunk, sums, p.alpha, p.beta);
      } else {
        gemm::write_chunk<64>(chunk, sums, p.alpha);
      }
      const bool overhangs = gemm::overhangs_a_unit<64>(p, chunk_column);
      if (overhangs) gemm::store_chunk<64>(chunk, p, chunk_row, chunk_column);

      // As in lesson 02: ordinary stores, read by the copy engine.
      if constexpr (broken != Break::no_proxy_fence) ptx::fence_proxy_async();
      if constexpr (broken != Break::no_barrier_before_store) {
        ptx::named_barrier_sync(barrier, 128);
      }
      if (is_leader) {
        if (!overhangs) ptx::tma_store_2d(map_d, chunk_column, chunk_row, chunk);
        ptx::bulk_commit();  // a group a chunk, if only an empty one
      }
    }
  }
}

template <int tile_m, int tile_n, Break broken, bool traced>
__global__ void __launch_bounds__(threads, 1)
    gemm_cooperative(const __grid_constant__ CUtensorMap map_a,
                     const __grid_constant__ CUtensorMap map_b,
                     const __grid_constant__ CUtensorMap map_d, const gemm::Problem p, int band,
                     const gemm::Timeline timeline) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ ptx::Mbarrier full[stages];
  __shared__ ptx::Mbarrier empty[stages];

  const Ring<tile_m, tile_n> ring{shared, full, empty};
  const Tiles tiles{(p.m + tile_m - 1) / tile_m, (p.n + tile_n - 1) / tile_n, band};
  const int k_tiles = (p.k + tile_k - 1) / tile_k;

  if (threadIdx.x == 0) {
    // The first copies need not wait for their maps.
    ptx::tma_prefetch_map(map_a);
    ptx::tma_prefetch_map(map_b);
    ptx::tma_prefetch_map(map_d);
    ring.init(broken == Break::one_consumer_counted ? 4 : 4 * consumers);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < 128) {
    ptx::registers_decrease<registers.producer>();
    if (threadIdx.x >= 32 || !ptx::elect_one()) return;
    gemm::Track<traced> track(timeline, 0, true);
    gemm::RingState write;
    tiles.for_each([&](gemm::TilePosition at) {
      const auto begin = track.now();
      gemm::load_k_tiles(ring, write, map_a, map_b, at.row * tile_m, at.column * tile_n,
                         {0, k_tiles});
      track.record(Span::load, at.row * tiles.columns + at.column, begin);
    });
  } else {
    ptx::registers_increase<registers.consumer>();
    constexpr int blocks = tile_m / (64 * consumers);  // of 64 rows, a consumer
    const int consumer = threadIdx.x / 128 - 1;
    const int rows = broken == Break::same_rows ? 0 : 64 * blocks * consumer;  // above its own
    unsigned char* const staging =
        shared + Ring<tile_m, tile_n>::bytes + consumer * chunks * Chunk::bytes;
    gemm::Track<traced> track(timeline, 1 + consumer, threadIdx.x % 128 == 0);
    gemm::RingState read;
    float accumulator[blocks][tile_n / 2] = {};

    tiles.for_each([&](gemm::TilePosition at) {
      const int tile = at.row * tiles.columns + at.column;
      auto begin = track.now();
      gemm::multiply_k_tiles(accumulator, ring, read, rows, k_tiles);
      gemm::finish_k_tiles(accumulator, ring, read, k_tiles);
      track.record(Span::multiply, tile, begin);

      begin = track.now();
      store_tile<tile_n, broken>(accumulator, p, map_d, staging,
                                 at.row * tile_m + 64 * blocks * consumer, at.column * tile_n);
      track.record(Span::epilogue, tile, begin);
    });
    // Shared memory must stay until the last stores have read it.
    if (threadIdx.x % 128 == 0) ptx::bulk_wait_read<0>();
  }
}

template <int tile_m, int tile_n, Break broken = Break::none, bool traced = false>
harness::Launch prepare(device::Device& device, const gemm::Problem& problem,
                        const harness::Selection& selection) {
  const unsigned tiles_m = (problem.m + tile_m - 1) / tile_m;
  const unsigned tiles_n = (problem.n + tile_n - 1) / tile_n;
  const unsigned sms = device.properties().sm_count;
  const device::LaunchShape shape{.grid = {std::min(tiles_m * tiles_n, sms)},
                                  .block = {threads},
                                  .shared_bytes = shared_bytes<tile_m, tile_n>};

  const CUtensorMap map_a = gemm::map_of_a(device, problem, tile_m);
  const CUtensorMap map_b = gemm::map_of_b(device, problem, tile_n);
  const CUtensorMap map_d = gemm::chunk_map<64>(device, "D", problem.d, problem, problem.ldd);
  const auto kernel = gemm_cooperative<tile_m, tile_n, broken, traced>;
  const int band = selection.number("band");
  const gemm::Timeline timeline = selection.timeline();
  return
      [=, &device] { device.launch(shape, kernel, map_a, map_b, map_d, problem, band, timeline); };
}

}  // namespace

int main(int argc, char** argv) {
  const harness::Variants variants{
      {"--tile 128x256", prepare<128, 256>},
      {"--tile 256x128", prepare<256, 128>},
      {"--trace", prepare<128, 256, Break::none, true>},
      {"--break same-rows", prepare<128, 256, Break::same_rows>,
       "both consumers multiply the tile's upper rows"},
      {"--break one-consumer-counted", prepare<128, 256, Break::one_consumer_counted>,
       "EMPTY counts one consumer's warps, and two arrive"},
      {"--break no-proxy-fence", prepare<128, 256, Break::no_proxy_fence>,
       "lets the copy engine read a chunk without a proxy fence"},
      {"--break no-store-wait", prepare<128, 256, Break::no_store_wait>,
       "fills a chunk again that a store may still read"},
      {"--break no-barrier-before-store", prepare<128, 256, Break::no_barrier_before_store>,
       "stores a chunk before all four warps have written"},
      {"--break shared-barrier", prepare<128, 256, Break::shared_barrier>,
       "both consumers use named barrier 1, of 128 threads"}};
  const harness::Lesson lesson{
      .number = 7,
      .name = "cooperative",
      .trick = "two consumers share one tile; persistent CTAs; D leaves through the copy engine",
      .likely_wait = "`empty`, whose count is that of both consumers' warps, or a named barrier",
      .knobs = {{"tile",
                 "rows x columns of D that a CTA computes: each consumer has half of the rows",
                 {"128x256", "256x128"},
                 "128x256"},
                {"band",
                 "rows of tiles that are walked side by side, for the L2; lesson 09 is about it",
                 {"1", "4", "8", "16"},
                 "8"}},
      .breaks = variants.breaks(),
      .tracks = {"producer", "consumer 0", "consumer 1"},
      .tile = harness::chosen_tile,
      .prepare = variants,
  };
  return harness::run(lesson, argc, argv);
}

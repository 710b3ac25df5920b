// Lesson 08 - ping_pong: while one consumer stores its tile, the other multiplies the next.
//
//   make lesson08 && ./lesson08
//
// In lesson 07 both consumers finish their tile at the same time, and the tensor cores wait until
// both have stored it. Here each consumer has a tile of its own, and they take turns:
//
//   consumer 0   [multiply 0][epilogue 0][multiply 2][epilogue 2]
//   consumer 1               [multiply 1][epilogue 1][multiply 3] ...
//
// One ring feeds both, tile after tile, so their turns must be strict: gemm::OrderedBarrier.
// Without it (`--break no-order`) the kernel is not slow but wrong.
//
// The producer warpgroup has four roles, one a warp: it loads A and B, schedules tiles, loads C for
// the epilogues; the fourth warp is spare.
//
// The note: docs/lesson08_ping_pong.md
#include <cuda_bf16.h>

#include <algorithm>

#include "common/gemm/chunk.cuh"
#include "common/gemm/mainloop.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/ordered_barrier.cuh"
#include "common/gemm/problem.h"
#include "common/gemm/register_budget.h"
#include "common/gemm/tile_order.h"
#include "common/gemm/tile_queue.cuh"
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

enum class Break {
  none,
  no_order,
  both_first,
  no_skip,
  no_c_wait,
  no_c_release,
  early_c_release,
  reader_not_counted
};

/// A tile of D and what goes with it: stages of the ring, columns of a chunk and buffers for
/// chunks, registers.
template <int tile_m_, int tile_n_, int stages, int columns_, int buffers_, int producer,
          int consumer>
struct Config {
  static constexpr int tile_m = tile_m_, tile_n = tile_n_;
  static constexpr int columns = columns_, buffers = buffers_;
  using Ring = gemm::Ring<tile_m, tile_n, stages>;
  using Chunk = gemm::Chunk<columns>;
  static constexpr int blocks = tile_m / 64;
  static constexpr int chunks = blocks * (tile_n / columns);  // of a tile
  static constexpr int shared_bytes = Ring::bytes + consumers * buffers * Chunk::bytes;
  static constexpr gemm::RegisterBudget registers{producer, consumer};
  static_assert(gemm::is_possible(registers, consumers, 1));
  static_assert(chunks % buffers == 0, "each tile starts with the first buffer");
};

// Where there is room, a buffer for each chunk of a tile: then all of C is there when the epilogue
// begins. 184 columns are 23 units of 16 bytes and don't divide: there the chunk is wide, and there
// is room for one.
using Config64x128 = Config<64, 128, 8, 64, 2, 40, 232>;
using Config64x256 = Config<64, 256, 4, 64, 4, 40, 232>;
using Config128x128 = Config<128, 128, 5, 64, 4, 40, 232>;
using Config128x184 = Config<128, 184, 4, 184, 1, 40, 232>;
using Config128x200 = Config<128, 200, 5, 40, 2, 24, 240>;

/// What the roles of a CTA share, beside the dynamic shared memory.
template <class Config>
struct Barriers {
  ptx::Mbarrier full[Config::Ring::stages];
  ptx::Mbarrier empty[Config::Ring::stages];
  ptx::Mbarrier c_full[consumers][Config::buffers];   // a chunk of C has landed
  ptx::Mbarrier c_empty[consumers][Config::buffers];  // the chunk that lay there is stored
  gemm::OrderedBarrierGrid order;
  gemm::TileQueue queue;
};

/// The chunks of a consumer.
template <class Config>
__device__ unsigned char* chunk_at(unsigned char* shared, int consumer, int buffer) {
  return shared + Config::Ring::bytes +
         (consumer * Config::buffers + buffer) * Config::Chunk::bytes;
}

// ---- The producer's warps; one thread of each runs these.

/// Hands this CTA's tiles to the other roles: every gridDim.x-th of rows x columns, then the end,
/// once for each consumer.
__device__ void schedule_tiles(gemm::TileQueue& queue, int rows, int columns, int band) {
  gemm::RingState write;
  for (int tile = blockIdx.x; tile < rows * columns; tile += gridDim.x) {
    queue.push(write, gemm::tile_position(tile, rows, columns, band));
  }
  for (int consumer = 0; consumer < consumers; ++consumer) queue.push(write, {gemm::no_row, 0});
}

/// Loads A and B of all tiles: the ring does not know whose they are.
template <class Config, bool traced>
__device__ void load_operands(const CUtensorMap& map_a, const CUtensorMap& map_b,
                              const typename Config::Ring& ring, gemm::TileQueue& queue,
                              int k_tiles, gemm::Track<traced>& track) {
  gemm::RingState next;
  gemm::RingState write;
  for (;;) {
    const gemm::TilePosition tile = queue.pop<1>(next);
    if (tile.row == gemm::no_row) return;
    const auto begin = track.now();
    gemm::load_k_tiles(ring, write, map_a, map_b, tile.row * Config::tile_m,
                       tile.column * Config::tile_n, {0, k_tiles});
    track.record(Span::load, next.count - 1, begin);
  }
}

/// Loads C of all tiles, chunk by chunk, each as soon as its buffer is free.
template <class Config>
__device__ void load_c(const CUtensorMap& map_c, unsigned char* shared, Barriers<Config>& barriers,
                       bool is_needed) {
  constexpr int across = Config::tile_n / Config::columns;
  gemm::RingState next;
  gemm::RingState at;        // in the buffers of the consumer whose tile is next,
  gemm::RingState at_other;  // and in the other's
  for (;;) {
    const int consumer = next.count % consumers;
    const gemm::TilePosition tile = barriers.queue.template pop<1>(next);
    if (tile.row == gemm::no_row) return;
    for (int chunk = 0; is_needed && chunk < Config::chunks; ++chunk) {
      ptx::mbarrier_wait(barriers.c_empty[consumer][at.index], at.phase ^ 1);
      ptx::Mbarrier& full = barriers.c_full[consumer][at.index];
      ptx::mbarrier_arrive_expect_tx(full, Config::Chunk::bytes);
      ptx::tma_load_2d(chunk_at<Config>(shared, consumer, at.index), map_c,
                       tile.column * Config::tile_n + chunk % across * Config::columns,
                       tile.row * Config::tile_m + chunk / across * 64, full);
      at.advance(Config::buffers);
    }
    // The next tile is the other one's.
    const gemm::RingState mine = at;
    at = at_other;
    at_other = mine;
  }
}

// ---- A consumer; all its 128 threads run these.

/// D = alpha * accumulator + beta * C for a tile, chunk by chunk: where C lies, D is put. `at` goes
/// on from tile to tile. In the end, all stores have read their chunks.
template <class Config, Break broken>
__device__ void store_tile(const float (&accumulator)[Config::blocks][Config::tile_n / 2],
                           const gemm::Problem& p, const CUtensorMap& map_d, unsigned char* shared,
                           Barriers<Config>& barriers, unsigned& phase, int row, int column) {
  constexpr int columns = Config::columns;
  constexpr int across = Config::tile_n / columns;
  constexpr int pending = Config::buffers - 1;
  const int consumer = threadIdx.x / 128 - 1;
  const bool is_leader = threadIdx.x % 128 == 0;
  // C may come into a buffer again.
  const auto release = [&](int buffer) {
    if (p.beta != 0 && broken != Break::no_c_release && broken != Break::early_c_release) {
      ptx::mbarrier_arrive(barriers.c_empty[consumer][buffer]);
    }
  };

#pragma unroll
  for (int c = 0; c < Config::chunks; ++c) {
    const float* const sums = accumulator[c / across] + c % across * (columns / 2);
    const int chunk_row = row + c / across * 64;
    const int chunk_column = column + c % across * columns;
    const int buffer = c % Config::buffers;
    unsigned char* const chunk = chunk_at<Config>(shared, consumer, buffer);

    if (p.beta != 0) {
      if constexpr (broken != Break::no_c_wait) {
        ptx::mbarrier_wait(barriers.c_full[consumer][buffer], phase);
      }
      gemm::write_chunk<columns>(chunk, sums, p.alpha, p.beta);
      if (broken == Break::early_c_release && is_leader) {
        ptx::mbarrier_arrive(barriers.c_empty[consumer][buffer]);
      }
    } else {
      // What lay there has been stored: the leader has waited.
      ptx::named_barrier_sync(1 + consumer, 128);
      gemm::write_chunk<columns>(chunk, sums, p.alpha);
    }
    const bool overhangs = gemm::overhangs_a_unit<columns>(p, chunk_column);
    if (overhangs) gemm::store_chunk<columns>(chunk, p, chunk_row, chunk_column);
    ptx::fence_proxy_async();
    // All have written D.
    ptx::named_barrier_sync(1 + consumer, 128);
    if (is_leader) {
      if (!overhangs) ptx::tma_store_2d(map_d, chunk_column, chunk_row, chunk);
      ptx::bulk_commit();  // a group a chunk, if only an empty one
      ptx::bulk_wait_read<pending>();
      if (c >= pending) release((c - pending) % Config::buffers);
    }
    if (buffer == Config::buffers - 1) phase ^= 1;
  }
  if (is_leader) {
    ptx::bulk_wait_read<0>();
    for (int c = Config::chunks - pending; c < Config::chunks; ++c) release(c % Config::buffers);
  }
}

/// Every second tile of this CTA, in turns with the other consumer.
template <class Config, Break broken, bool traced>
__device__ void consume(const gemm::Problem& p, const CUtensorMap& map_d, unsigned char* shared,
                        const typename Config::Ring& ring, Barriers<Config>& barriers, int k_tiles,
                        gemm::Track<traced>& track) {
  const int consumer = threadIdx.x / 128 - 1;
  gemm::OrderedBarrier order(barriers.order, broken == Break::both_first ? 0 : consumer);
  gemm::RingState next;  // in the queue of tiles
  gemm::RingState read;  // in the ring of stages
  unsigned c_phase = 0;
  float accumulator[Config::blocks][Config::tile_n / 2] = {};

  // The other's tile and its k-tiles pass this consumer by.
  const auto skip_tile = [&] {
    next.advance(gemm::TileQueue::slots);
    if constexpr (broken != Break::no_skip) read.skip(Config::Ring::stages, k_tiles);
  };
  if (consumer == 1) skip_tile();

  for (;;) {
    const gemm::TilePosition tile = barriers.queue.template pop<32>(next);
    if (tile.row == gemm::no_row) break;
    const int step = next.count - 1;

    // The notes' ten steps. 1: my turn to multiply.
    auto begin = track.now();
    if constexpr (broken != Break::no_order) order.wait();
    track.record(Span::wait_turn, step, begin);
    // 2: the main loop.
    begin = track.now();
    gemm::multiply_k_tiles(accumulator, ring, read, 0, k_tiles);
    // 3: all my products are started; the other's may follow.
    if constexpr (broken != Break::no_order) order.arrive();
    // 4: wait for the last one, give its stage back.
    gemm::finish_k_tiles(accumulator, ring, read, k_tiles);
    track.record(Span::multiply, step, begin);
    // 5: my turn to store.
    begin = track.now();
    if constexpr (broken != Break::no_order) order.wait();
    track.record(Span::wait_turn, step, begin);
    // 6 and 7: the epilogue and its TMA stores, until they have read their chunks.
    begin = track.now();
    store_tile<Config, broken>(accumulator, p, map_d, shared, barriers, c_phase,
                               tile.row * Config::tile_m, tile.column * Config::tile_n);
    track.record(Span::epilogue, step, begin);
    // 8: past the other's tile.
    skip_tile();
    // 9: the other may store.
    if constexpr (broken != Break::no_order) order.arrive();
    // 10: the next tile.
  }
}

template <class Config, Break broken, bool traced>
__global__ void __launch_bounds__(threads, 1)
    gemm_ping_pong(const __grid_constant__ CUtensorMap map_a,
                   const __grid_constant__ CUtensorMap map_b,
                   const __grid_constant__ CUtensorMap map_c,
                   const __grid_constant__ CUtensorMap map_d, const gemm::Problem p, int band,
                   const gemm::Timeline timeline) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ Barriers<Config> barriers;

  const typename Config::Ring ring{shared, barriers.full, barriers.empty};
  const int k_tiles = (p.k + tile_k - 1) / tile_k;

  if (threadIdx.x == 0) {
    // The first copies need not wait for their maps.
    ptx::tma_prefetch_map(map_a);
    ptx::tma_prefetch_map(map_b);
    ptx::tma_prefetch_map(map_d);
    ring.init(4);  // the warps of one consumer: a stage belongs to one tile
    for (int consumer = 0; consumer < consumers; ++consumer) {
      for (int buffer = 0; buffer < Config::buffers; ++buffer) {
        ptx::mbarrier_init(barriers.c_full[consumer][buffer], 1);   // the loader, with expect_tx
        ptx::mbarrier_init(barriers.c_empty[consumer][buffer], 1);  // the thread that stores
      }
    }
    barriers.order.init();
    // Of each tile: both loaders, and the warps of one consumer.
    barriers.queue.init(broken == Break::reader_not_counted ? 5 : 6);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < 128) {
    ptx::registers_decrease<Config::registers.producer>();
    const int role = threadIdx.x / 32;
    if (!ptx::elect_one()) return;
    if (role == 0) {
      gemm::Track<traced> track(timeline, 0, true);
      load_operands<Config>(map_a, map_b, ring, barriers.queue, k_tiles, track);
    } else if (role == 1) {
      schedule_tiles(barriers.queue, (p.m + Config::tile_m - 1) / Config::tile_m,
                     (p.n + Config::tile_n - 1) / Config::tile_n, band);
    } else if (role == 2) {
      load_c(map_c, shared, barriers, p.beta != 0);
    }  // role 3 is spare: lessons to come find work for it
  } else {
    ptx::registers_increase<Config::registers.consumer>();
    gemm::Track<traced> track(timeline, threadIdx.x / 128, threadIdx.x % 128 == 0);
    consume<Config, broken>(p, map_d, shared, ring, barriers, k_tiles, track);
  }
}

template <class Config, Break broken = Break::none, bool traced = false>
harness::Launch prepare(device::Device& device, const gemm::Problem& problem,
                        const harness::Selection& selection) {
  const unsigned tiles_m = (problem.m + Config::tile_m - 1) / Config::tile_m;
  const unsigned tiles_n = (problem.n + Config::tile_n - 1) / Config::tile_n;
  const unsigned sms = device.properties().sm_count;
  const device::LaunchShape shape{.grid = {std::min(tiles_m * tiles_n, sms)},
                                  .block = {threads},
                                  .shared_bytes = Config::shared_bytes};

  const CUtensorMap map_a = gemm::map_of_a(device, problem, Config::tile_m);
  const CUtensorMap map_b = gemm::map_of_b(device, problem, Config::tile_n);
  const auto chunk_map = gemm::chunk_map<Config::columns>;
  const CUtensorMap map_d = chunk_map(device, "D", problem.d, problem, problem.ldd);
  // Where beta = 0, there need not be a C; nobody uses the map.
  const CUtensorMap map_c =
      problem.beta == 0 ? map_d : chunk_map(device, "C", problem.c, problem, problem.ldc);
  const auto kernel = gemm_ping_pong<Config, broken, traced>;
  const int band = selection.number("band");
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] {
    device.launch(shape, kernel, map_a, map_b, map_c, map_d, problem, band, timeline);
  };
}

}  // namespace

int main(int argc, char** argv) {
  using Default = Config128x128;
  const harness::Variants variants{
      {"--tile 128x128", prepare<Default>},
      {"--tile 64x128", prepare<Config64x128>},
      {"--tile 64x256", prepare<Config64x256>},
      {"--tile 128x184", prepare<Config128x184>},
      {"--tile 128x200", prepare<Config128x200>},
      {"--trace", prepare<Default, Break::none, true>},
      {"--break no-order", prepare<Default, Break::no_order>,
       "the consumers take no turns: with more k-tiles than stages, a wrong result or a hang"},
      {"--break both-first", prepare<Default, Break::both_first>,
       "both consumers take the first turn"},
      {"--break no-skip", prepare<Default, Break::no_skip>,
       "a consumer does not step over the other's k-tiles"},
      {"--break no-c-wait", prepare<Default, Break::no_c_wait>,
       "with --beta 1: adds C without waiting for it to land"},
      {"--break no-c-release", prepare<Default, Break::no_c_release>,
       "with --beta 1: never gives the buffers of C back, a hang"},
      {"--break early-c-release", prepare<Default, Break::early_c_release>,
       "with --beta 1: lets the next C in before D has left"},
      {"--break reader-not-counted", prepare<Default, Break::reader_not_counted>,
       "the queue's EMPTY counts one reader too few: a tile is lost"}};
  const harness::Lesson lesson{
      .number = 8,
      .name = "ping_pong",
      .trick = "two consumers take turns: while one stores its tile, the other multiplies the next",
      .likely_wait =
          "its turn in gemm::OrderedBarrier, or `full` and `empty` of the ring, if the "
          "consumers' places in it no longer fit its k-tiles",
      .knobs = {{"tile",
                 "rows x columns of D that a consumer computes alone; 128x184 and 128x200 are the "
                 "widest that fit its registers",
                 {"64x128", "64x256", "128x128", "128x184", "128x200"},
                 "128x128"},
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

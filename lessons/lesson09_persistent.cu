// Lesson 09 - persistent: in which order the tiles are taken, and by whom.
//
//   make lesson09 && ./lesson09
//
// The kernel is the cooperative one of lesson 07. A static scheduler gives each CTA its tiles:
// every gridDim.x-th of a list. What is in the list is the lesson: consecutive tiles are computed
// at the same time, and what they share of A and B comes from the L2 once. A line of tiles shares
// its row of A and nothing of B; a block shares both. The raster says along which dimension the
// list runs, the swizzle how thick it is.
//
// `--persistent off` launches a CTA for each tile instead: its prologue and its epilogue then
// overlap with nothing. `--serpentine on` lets every other tile of a CTA run through K backwards:
// what the last one read at its end may still be in the L2.
//
// And a CTA that stays has a next tile to hide the epilogue under. With `--epilogue deferred` a
// consumer only packs its sums, goes on, and stores them while the tensor cores are busy with the
// next tile's first k-tiles.
//
// The note: docs/lesson09_persistent.md
#include <cuda_bf16.h>

#include <algorithm>
#include <vector>

#include "common/gemm/choose_order.h"
#include "common/gemm/deferred_tile.cuh"
#include "common/gemm/mainloop.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/problem.h"
#include "common/gemm/register_budget.h"
#include "common/gemm/store_tile.cuh"
#include "common/gemm/tile_order.h"
#include "common/gemm/timeline.cuh"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"
#include "common/ptx/fence.cuh"
#include "common/ptx/registers.cuh"

namespace {

using gemm::KTiles;
using gemm::Span;
using gemm::tile_k;
using gemm::TileOrder;
using gemm::TilePosition;

constexpr int consumers = 2;
constexpr int threads = 128 * (1 + consumers);  // warpgroup 0 is the producer
constexpr int stages = 4;
constexpr gemm::RegisterBudget registers{40, 232};
static_assert(gemm::is_possible(registers, consumers, 1));

template <int tile_m, int tile_n>
using Ring = gemm::Ring<tile_m, tile_n, stages>;

template <int tile_m, int tile_n>
constexpr int shared_bytes = Ring<tile_m, tile_n>::bytes + consumers* gemm::Staging::bytes;

/// Plain: a tile is stored before the next one begins. Deferred: it is packed, and stored under the
/// next one's products.
enum class Epilogue { plain, deferred };

enum class Break {
  none,
  lost_tiles,
  ragged_band,
  ring_restart,
  early_issue,
  no_final_wait,
  pack_late,
  last_tile_kept
};

/// The static scheduler: this CTA's tiles are every gridDim.x-th of the order. Nothing is stored
/// and nobody is asked; each role walks the list by itself.
template <Break broken, class Function>
__device__ void for_each_tile(const TileOrder& order, Function function) {
  const int step = broken == Break::lost_tiles ? gridDim.x + 1 : gridDim.x;
  for (int index = blockIdx.x; index < order.tiles(); index += step) {
    if constexpr (broken == Break::ragged_band) {
      // As if the last band were as thick as the others.
      const int within = index % (order.swizzle * order.columns);
      function(TilePosition{index / (order.swizzle * order.columns) * order.swizzle +
                                within % order.swizzle,
                            within / order.swizzle},
               index);
    } else {
      function(order.at(index), index);
    }
  }
}

template <int tile_m, int tile_n, Epilogue epilogue, Break broken, bool traced>
__global__ void __launch_bounds__(threads, 1)
    gemm_persistent(const __grid_constant__ CUtensorMap map_a,
                    const __grid_constant__ CUtensorMap map_b,
                    const __grid_constant__ CUtensorMap map_d, const gemm::Problem p,
                    const TileOrder order, bool serpentine, const gemm::Timeline timeline) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ ptx::Mbarrier full[stages];
  __shared__ ptx::Mbarrier empty[stages];

  const Ring<tile_m, tile_n> ring{shared, full, empty};
  const int k_tiles = (p.k + tile_k - 1) / tile_k;
  gemm::RingState write;  // the producer's; thread 0 is the producer
  const int early = min(stages, k_tiles);

  const auto load = [&](TilePosition at, KTiles which) {
    gemm::load_k_tiles(ring, write, map_a, map_b, at.row * tile_m, at.column * tile_n, which);
  };
  if (threadIdx.x == 0) {
    ring.init(4 * consumers);
    if (broken != Break::early_issue) ptx::fence_mbarrier_init();
    // The ring is empty, and this thread has made it: the first lap need not wait for the others.
    load(order.at(blockIdx.x), {0, early});
    if (broken == Break::early_issue) ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < 128) {
    ptx::registers_decrease<registers.producer>();
    if (threadIdx.x != 0) return;
    gemm::Track<traced> track(timeline, 0, true);
    for_each_tile<broken>(order, [&](TilePosition at, int index) {
      if (broken == Break::ring_restart) write = {};
      const auto begin = track.now();
      const bool is_first = index == static_cast<int>(blockIdx.x);
      const bool backwards = serpentine && index / gridDim.x % 2 == 1;
      load(at, is_first    ? KTiles{early, k_tiles - early}
               : backwards ? KTiles{k_tiles - 1, k_tiles, -1}
                           : KTiles{0, k_tiles});
      track.record(Span::load, index, begin);
    });
  } else {
    ptx::registers_increase<registers.consumer>();
    constexpr int blocks = tile_m / (64 * consumers);  // of 64 rows, a consumer
    const int consumer = threadIdx.x / 128 - 1;
    const int own_rows = 64 * blocks * consumer;  // the tile's rows above this consumer's
    const gemm::Staging staging{
        shared + Ring<tile_m, tile_n>::bytes + consumer * gemm::Staging::bytes, 1 + consumer};
    gemm::Track<traced> track(timeline, 1 + consumer, threadIdx.x % 128 == 0);
    gemm::Track<traced && epilogue == Epilogue::deferred> stores(timeline, 1 + consumers + consumer,
                                                                 threadIdx.x % 128 == 0);
    gemm::RingState read;
    float accumulator[blocks][tile_n / 2] = {};

    gemm::DeferredTile<blocks, tile_n> deferred;  // empty for ever with Epilogue::plain
    int deferred_index = 0;
    const auto pack = [&](TilePosition at) {
      deferred.pack(accumulator, p, at.row * tile_m + own_rows, at.column * tile_n);
    };
    const auto store_next = [&] {
      const auto begin = stores.now();
      deferred.store_next(p, map_d, staging);
      stores.record(Span::store, deferred_index, begin);
    };
    TilePosition unpacked{-1, -1};  // for Break::pack_late

    for_each_tile<broken>(order, [&](TilePosition at, int index) {
      auto begin = track.now();
      gemm::multiply_k_tiles(accumulator, ring, read, own_rows, k_tiles, [&] {
        if (broken == Break::pack_late && unpacked.row >= 0) {
          pack(unpacked);
          unpacked.row = -1;
        }
        if (deferred.waits()) store_next();
      });
      gemm::finish_k_tiles(accumulator, ring, read, k_tiles);
      track.record(Span::multiply, index, begin);

      begin = track.now();
      if constexpr (epilogue == Epilogue::plain) {
        gemm::store_tile(accumulator, p, map_d, staging, at.row * tile_m + own_rows,
                         at.column * tile_n);
      } else {
        while (deferred.waits()) store_next();  // K has fewer k-tiles than a tile has chunks
        if constexpr (broken == Break::pack_late) {
          unpacked = at;
        } else {
          pack(at);
        }
        deferred_index = index;
      }
      track.record(Span::epilogue, index, begin);
    });
    if (broken == Break::pack_late && unpacked.row >= 0) pack(unpacked);
    if constexpr (broken != Break::last_tile_kept) {
      while (deferred.waits()) store_next();  // there is no next tile
    }
    if constexpr (broken != Break::no_final_wait) gemm::finish_stores();
  }
}

/// The order that the knobs ask for; `auto` leaves it to gemm::choose_order().
TileOrder order_for(int m, int n, int ctas, const harness::Selection& selection) {
  const auto [tile_m, tile_n] = harness::chosen_tile(selection);
  const int rows = (m + tile_m - 1) / tile_m;
  const int columns = (n + tile_n - 1) / tile_n;
  TileOrder order = gemm::choose_order(rows, columns, tile_m, tile_n, ctas);
  const std::string& raster = selection.text("raster");
  if (raster != "auto") {
    order.raster = raster == "m" ? gemm::Raster::along_m : gemm::Raster::along_n;
  }
  if (selection.text("swizzle") != "auto") order.swizzle = selection.number("swizzle");
  return order;
}

/// CTAs of a launch that `resident` fit into at a time.
int grid_for(const TileOrder& order, int resident, const harness::Selection& selection) {
  const bool persistent = selection.text("persistent") == "on";
  return persistent ? std::min(order.tiles(), resident) : order.tiles();
}

/// What the CTAs compute, for --print-schedule.
std::vector<harness::Work> list_work(const gemm::Problem& problem,
                                     const harness::Selection& selection, int ctas) {
  const TileOrder order = order_for(problem.m, problem.n, ctas, selection);
  const int grid = grid_for(order, ctas, selection);
  const int k_tiles = (problem.k + tile_k - 1) / tile_k;
  const bool serpentine = selection.text("serpentine") == "on";
  std::vector<harness::Work> list;
  for (int cta = 0; cta < grid; ++cta) {
    for (int index = cta, number = 0; index < order.tiles(); index += grid, ++number) {
      const TilePosition at = order.at(index);
      const bool backwards = serpentine && number % 2 == 1;
      list.push_back({cta, number, at.row, at.column, backwards ? k_tiles - 1 : 0, k_tiles,
                      backwards ? -1 : 1});
    }
  }
  return list;
}

template <int tile_m, int tile_n, Epilogue epilogue, Break broken = Break::none,
          bool traced = false>
harness::Launch prepare(device::Device& device, const gemm::Problem& problem,
                        const harness::Selection& selection) {
  const int sms = device.properties().sm_count;
  const TileOrder order = order_for(problem.m, problem.n, sms, selection);
  const device::LaunchShape shape{.grid = {static_cast<unsigned>(grid_for(order, sms, selection))},
                                  .block = {threads},
                                  .shared_bytes = shared_bytes<tile_m, tile_n>};

  const CUtensorMap map_a = gemm::map_of_a(device, problem, tile_m);
  const CUtensorMap map_b = gemm::map_of_b(device, problem, tile_n);
  const CUtensorMap map_d = gemm::chunk_map<64>(device, "D", problem.d, problem, problem.ldd);
  const auto kernel = gemm_persistent<tile_m, tile_n, epilogue, broken, traced>;
  const bool serpentine = selection.text("serpentine") == "on";
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] {
    device.launch(shape, kernel, map_a, map_b, map_d, problem, order, serpentine, timeline);
  };
}

}  // namespace

int main(int argc, char** argv) {
  constexpr Epilogue deferred = Epilogue::deferred;
  const harness::Variants variants{
      {"--tile 128x256 --epilogue deferred", prepare<128, 256, deferred>},
      {"--tile 256x128", prepare<256, 128, deferred>},
      {"--epilogue plain", prepare<128, 256, Epilogue::plain>},
      {"--tile 256x128 --epilogue plain", prepare<256, 128, Epilogue::plain>},
      {"--trace", prepare<128, 256, deferred, Break::none, true>},
      {"--epilogue plain --trace", prepare<128, 256, Epilogue::plain, Break::none, true>},
      {"--break lost-tiles", prepare<128, 256, deferred, Break::lost_tiles>,
       "strides by one tile more than there are CTAs: some are left out"},
      {"--break ragged-band", prepare<128, 256, deferred, Break::ragged_band>,
       "takes the last band for as thick as the others: tiles are lost where the rows are not a "
       "multiple of the swizzle"},
      {"--break ring-restart", prepare<128, 256, deferred, Break::ring_restart>,
       "the producer starts each tile at the ring's beginning, the consumers go on"},
      {"--break early-issue", prepare<128, 256, deferred, Break::early_issue>,
       "issues the first copies before the fence of the barriers' inits"},
      {"--break no-final-wait", prepare<128, 256, deferred, Break::no_final_wait>,
       "exits while stores still read shared memory"},
      {"--break pack-late", prepare<128, 256, deferred, Break::pack_late>,
       "starts the next tile's first products, and packs the sums after that"},
      {"--break last-tile-kept", prepare<128, 256, deferred, Break::last_tile_kept>,
       "has nothing to hide a CTA's last tile under, and forgets it"}};
  const harness::Lesson lesson{
      .number = 9,
      .name = "persistent",
      .trick = "a static scheduler: which CTA takes which tile, and in which order",
      .likely_wait = "`full` or `empty` of the ring, if a role walks another list of tiles",
      .knobs =
          {{"raster",
            "n: the list of tiles runs along N, in bands of rows; m: along M, in bands of "
            "columns; auto: whichever reads A and B less",
            {"auto", "m", "n"},
            "auto"},
           {"swizzle",
            "tiles across a band: 1 is a line, more make a block of what runs at once",
            {"auto", "1", "2", "4", "8", "16"},
            "auto"},
           {"persistent",
            "off: a CTA for each tile, which the hardware starts when another one ends",
            {"on", "off"},
            "on"},
           {"serpentine",
            "on: every other tile of a CTA runs through K backwards: what the last one read at its "
            "end may still be in the L2",
            {"off", "on"},
            "off"},
           {"epilogue",
            "deferred: a tile is stored while the next one is multiplied; plain: before it",
            {"deferred", "plain"},
            "deferred"},
           {"tile",
            "rows x columns of D that a CTA computes at a time",
            {"128x256", "256x128"},
            "128x256"}},
      .breaks = variants.breaks(),
      .tracks = {"producer", "consumer 0", "consumer 1", "stores 0", "stores 1"},
      .tile = harness::chosen_tile,
      .prepare = variants,
      .list_work = list_work,
  };
  return harness::run(lesson, argc, argv);
}

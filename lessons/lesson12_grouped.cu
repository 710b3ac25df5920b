// Lesson 12 - grouped: many problems of different M, N and K in one launch.
//
//   make lesson12 && ./lesson12
//
// A mixture of experts multiplies 64 small matrices, and a launch for each leaves most SMs idle.
// Here the tiles of all groups, laid end to end, are one list for one persistent kernel, the
// ping-pong one of lesson 08. Two things are new, and a warp of its own does both of them:
//
//   whose tile   a warp looks at 32 groups at a time (gemm::GroupSearch), and goes on where it was
//   which maps   the copy engine needs maps of the group's A, B and D: the warp makes them, by
//                changing a copy of other maps and publishing it
//
// The scheduler puts a tile and its maps into a slot of a queue. Who has used up what is in it
// gives the slot back: only then are the maps made anew.
//
// The note: docs/lesson12_grouped.md
#include <cuda_bf16.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "common/gemm/group_order.h"
#include "common/gemm/group_search.cuh"
#include "common/gemm/mainloop.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/ordered_barrier.cuh"
#include "common/gemm/problem.h"
#include "common/gemm/register_budget.h"
#include "common/gemm/store_tile.cuh"
#include "common/gemm/tile_order.h"
#include "common/gemm/timeline.cuh"
#include "common/harness/grouped_experiment.h"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"
#include "common/ptx/elect.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/registers.cuh"
#include "common/ptx/tensormap.cuh"
#include "common/ptx/tma.cuh"

namespace {

using gemm::Span;
using gemm::tile_k;

constexpr int consumers = 2;
constexpr int threads = 128 * (1 + consumers);  // warpgroup 0 is the producer
constexpr gemm::RegisterBudget registers{40, 232};
static_assert(gemm::is_possible(registers, consumers, 1));

enum class Break {
  none,
  start_lost,
  plain_copy,
  no_acquire,
  early_release,
  no_store_wait,
  same_k,
  stale_sums
};

/// A tile of D, which a consumer computes alone, and the stages of the ring.
template <int tile_m_, int tile_n_, int stages>
struct Config {
  static constexpr int tile_m = tile_m_, tile_n = tile_n_;
  static constexpr int blocks = tile_m / 64;
  static constexpr gemm::TileShape tile{tile_m, tile_n};
  using Ring = gemm::Ring<tile_m, tile_n, stages>;
  static constexpr int shared_bytes = Ring::bytes + consumers * gemm::Staging::bytes;
};

using Config128x128 = Config<128, 128, 6>;
using Config64x256 = Config<64, 256, 4>;

/// What the copy engine must know of a group.
struct alignas(128) Maps {
  CUtensorMap a, b, d;
};

/// A tile, and the problem that it is a part of; m = 0 stands behind the last tile.
struct Work {
  gemm::Problem group;
  gemm::TilePosition tile;

  __device__ int k_tiles() const { return group.k / tile_k + (group.k % tile_k != 0); }
};

/// From the scheduler to the other roles: slot i has a tile in shared memory, and its maps in
/// global memory, a CTA's own.
struct Queue {
  static constexpr int slots = 4;  // in the epilogue, multiplied, loaded, made ready

  Work work[slots];
  ptx::Mbarrier full[slots];
  ptx::Mbarrier empty[slots];

  /// One thread runs this, before a fence and a barrier.
  __device__ void init() {
    for (int slot = 0; slot < slots; ++slot) {
      ptx::mbarrier_init(full[slot], 1);
      ptx::mbarrier_init(empty[slot], 1 + 4 * consumers);  // the loader, the consumers' warps
    }
  }

  /// The tile at `read`, once it is there.
  __device__ const Work& wait(const gemm::RingState& read) {
    ptx::mbarrier_wait(full[read.index], read.phase);
    return work[read.index];
  }
};

/// What the roles of a CTA share, beside the dynamic shared memory.
template <class Config>
struct Shared {
  Maps draft;
  Queue queue;
  ptx::Mbarrier full[Config::Ring::stages];
  ptx::Mbarrier empty[Config::Ring::stages];
  gemm::OrderedBarrierGrid order;
};

// ---- The scheduler: a warp.

/// The 32 lanes copy an object.
template <class Object>
__device__ void copy_object(Object& to, const Object& from) {
  static_assert(sizeof(Object) % 4 == 0);
  for (int i = threadIdx.x % 32; i < static_cast<int>(sizeof(Object) / 4); i += 32) {
    reinterpret_cast<unsigned*>(&to)[i] = reinterpret_cast<const unsigned*>(&from)[i];
  }
}

/// Makes `map` that of a row-major matrix; the box and its layout stay.
__device__ void set_matrix(CUtensorMap& map, const __nv_bfloat16* matrix, int rows, int columns,
                           std::int64_t pitch) {
  ptx::tensormap_set_address(map, matrix);
  ptx::tensormap_set_extent<0>(map, columns);
  ptx::tensormap_set_extent<1>(map, rows);
  ptx::tensormap_set_pitch<0>(map, pitch * sizeof(*matrix));
}

/// Changes the maps to those of a group, a lane each. No map can describe an empty matrix: where k
/// is 0, those of A and B stay as they are, and nobody loads.
__device__ void set_group(Maps& maps, const gemm::Problem& p) {
  const int lane = threadIdx.x % 32;
  if (lane == 0 && p.k > 0) set_matrix(maps.a, p.a, p.m, p.k, p.lda);
  if (lane == 1 && p.k > 0) set_matrix(maps.b, p.b, p.n, p.k, p.ldb);
  if (lane == 2) set_matrix(maps.d, p.d, p.m, p.n, p.ldd);
}

/// Makes the maps of a slot those of `draft`.
template <Break broken>
__device__ void publish(Maps& maps, const Maps& draft) {
  if constexpr (broken == Break::plain_copy) {
    copy_object(maps, draft);
  } else {
    ptx::tensormap_publish(maps.a, draft.a);
    ptx::tensormap_publish(maps.b, draft.b);
    ptx::tensormap_publish(maps.d, draft.d);
  }
}

/// From now on this SM's copies go by what was published in the maps of a slot, and the copy engine
/// fetches it ahead of them: the loader need not wait for it at the start of each tile.
template <Break broken>
__device__ void make_ready(const Maps& maps) {
  const int lane = threadIdx.x % 32;
  if (lane > 2) return;
  const CUtensorMap& map = lane == 0 ? maps.a : lane == 1 ? maps.b : maps.d;
  if constexpr (broken != Break::no_acquire) ptx::tensormap_acquire(map);
  ptx::tma_prefetch_map(map);
}

/// Hands this CTA's tiles to the other roles, with their maps: every gridDim.x-th of all groups'.
template <class Config, Break broken, bool traced>
__device__ void schedule_tiles(const Maps& any_maps, const gemm::Problem* groups, int count,
                               Maps* maps, Shared<Config>& shared, gemm::Track<traced>& track) {
  constexpr gemm::TileShape tile = Config::tile;
  constexpr int band = 8;
  Queue& queue = shared.queue;
  copy_object(shared.draft, any_maps);
  gemm::GroupSearch search(groups, count, tile);
  gemm::RingState write;
  for (int index = blockIdx.x;; index += gridDim.x) {
    const bool is_tile = search.find(index);
    // What lay in the slot is used up: no copy uses its maps any more.
    ptx::mbarrier_wait(queue.empty[write.index], write.phase ^ 1);
    const auto begin = track.now();
    Work& work = queue.work[write.index];
    if (is_tile) {
      copy_object(work.group, groups[search.group()]);
      __syncwarp();
      const int rows = tile.rows(work.group), columns = tile.columns(work.group);
      work.tile = gemm::tile_position(index - search.first_tile(), rows, columns, band);
      set_group(shared.draft, work.group);
      __syncwarp();
      publish<broken>(maps[write.index], shared.draft);
      make_ready<broken>(maps[write.index]);
    } else {
      work.group.m = 0;
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(queue.full[write.index]);
    track.record(Span::schedule, index, begin);
    if (!is_tile) return;
    write.advance(Queue::slots);
    if constexpr (broken == Break::start_lost) {
      groups += search.group();
      count -= search.group();
      search = gemm::GroupSearch(groups, count, tile);
    }
  }
}

// ---- The loader: a thread.

/// Loads A and B of all tiles.
template <class Config, Break broken, bool traced>
__device__ void load_operands(const Maps* maps, const typename Config::Ring& ring, Queue& queue,
                              gemm::Track<traced>& track) {
  gemm::RingState next;   // in the queue of tiles
  gemm::RingState write;  // in the ring of stages
  for (;;) {
    const Work& work = queue.wait(next);
    if (work.group.m == 0) return;
    const auto begin = track.now();
    const Maps& own = maps[next.index];
    gemm::load_k_tiles(ring, write, own.a, own.b, work.tile.row * Config::tile_m,
                       work.tile.column * Config::tile_n, {0, work.k_tiles()});
    track.record(Span::load, next.count, begin);
    // The loads may not have landed. But the consumer holds the slot until it has their bytes.
    ptx::mbarrier_arrive(queue.empty[next.index]);
    next.advance(Queue::slots);
  }
}

// ---- A consumer; all its 128 threads run these.

/// Says that this warp does not need the slot any more.
__device__ void release_slot(Queue& queue, int slot) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(queue.empty[slot]);
}

/// Every second tile of this CTA, in turns with the other consumer.
template <class Config, Break broken, bool traced>
__device__ void consume(const Maps* maps, const typename Config::Ring& ring,
                        const gemm::Staging& staging, Shared<Config>& shared,
                        gemm::Track<traced>& track) {
  const int consumer = threadIdx.x / 128 - 1;
  Queue& queue = shared.queue;
  gemm::OrderedBarrier order(shared.order, consumer);
  gemm::RingState next;  // in the queue of tiles
  gemm::RingState read;  // in the ring of stages
  int last_k_tiles = 0;  // of this consumer's last tile
  float accumulator[Config::blocks][Config::tile_n / 2] = {};

  for (;; next.advance(Queue::slots)) {
    const Work& work = queue.wait(next);
    if (work.group.m == 0) break;
    const int k_tiles = work.k_tiles();
    if (next.count % consumers != consumer) {
      // The other's tile and its k-tiles pass this consumer by: as many as its group has.
      read.skip(Config::Ring::stages, broken == Break::same_k ? last_k_tiles : k_tiles);
      release_slot(queue, next.index);
      continue;
    }
    last_k_tiles = k_tiles;
    if constexpr (broken == Break::early_release) release_slot(queue, next.index);

    auto begin = track.now();
    order.wait();
    track.record(Span::wait_turn, next.count, begin);
    begin = track.now();
    gemm::multiply_k_tiles(accumulator, ring, read, 0, k_tiles);
    order.arrive();
    gemm::finish_k_tiles(accumulator, ring, read, k_tiles);
    if (k_tiles == 0 && broken != Break::stale_sums) {
      // No product has overwritten the sums of the last tile.
      for (auto& block : accumulator) {
        for (float& sum : block) sum = 0;
      }
    }
    track.record(Span::multiply, next.count, begin);

    begin = track.now();
    order.wait();
    track.record(Span::wait_turn, next.count, begin);
    begin = track.now();
    gemm::store_tile(accumulator, work.group, maps[next.index].d, staging,
                     work.tile.row * Config::tile_m, work.tile.column * Config::tile_n);
    order.arrive();
    if constexpr (broken != Break::no_store_wait) gemm::finish_stores();
    track.record(Span::epilogue, next.count, begin);
    // The loads of this tile have landed, its stores have read: its maps are free.
    if constexpr (broken != Break::early_release) release_slot(queue, next.index);
  }
  if constexpr (broken == Break::no_store_wait) gemm::finish_stores();
}

/// `any_maps` are those of any group: their boxes are those of all groups. `maps` are the CTAs',
/// Queue::slots of each.
template <class Config, Break broken, bool traced>
__global__ void __launch_bounds__(threads, 1)
    gemm_grouped(const __grid_constant__ Maps any_maps, const gemm::Problem* groups, int count,
                 Maps* maps, const gemm::Timeline timeline) {
  extern __shared__ __align__(1024) unsigned char dynamic[];
  __shared__ Shared<Config> shared;

  const typename Config::Ring ring{dynamic, shared.full, shared.empty};
  maps += blockIdx.x * Queue::slots;
  if (threadIdx.x == 0) {
    ring.init(4);  // the warps of one consumer: a stage belongs to one tile
    shared.order.init();
    shared.queue.init();
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < 128) {
    ptx::registers_decrease<registers.producer>();
    const int role = threadIdx.x / 32;
    if (role == 0) {
      if (!ptx::elect_one()) return;
      gemm::Track<traced> track(timeline, 0, true);
      load_operands<Config, broken>(maps, ring, shared.queue, track);
    } else if (role == 1) {
      gemm::Track<traced> track(timeline, 1, threadIdx.x % 32 == 0);
      schedule_tiles<Config, broken>(any_maps, groups, count, maps, shared, track);
    }
  } else {
    ptx::registers_increase<registers.consumer>();
    const int consumer = threadIdx.x / 128 - 1;
    gemm::Track<traced> track(timeline, 2 + consumer, threadIdx.x % 128 == 0);
    const gemm::Staging staging{dynamic + Config::Ring::bytes + consumer * gemm::Staging::bytes,
                                1 + consumer};
    consume<Config, broken>(maps, ring, staging, shared, track);
  }
}

/// Maps whose boxes are those of all groups, made for the first one that has elements.
Maps any_maps(device::Device& device, std::span<const gemm::Problem> groups, gemm::TileShape tile) {
  const gemm::Problem& p = *std::find_if(groups.begin(), groups.end(),
                                         [&](const gemm::Problem& q) { return tile.count(q) > 0; });
  return {gemm::map_of_a(device, p, tile.m), gemm::map_of_b(device, p, tile.n),
          gemm::chunk_map<64>(device, "D", p.d, p, p.ldd)};
}

template <class Config, Break broken = Break::none, bool traced = false>
harness::Launch prepare(device::Device& device, std::span<const gemm::Problem> groups,
                        const harness::Selection& selection) {
  std::vector<gemm::Problem> list(groups.begin(), groups.end());
  if (selection.text("order") == "weights") gemm::sort_by_weights(list);
  const std::int64_t tiles =
      std::accumulate(list.begin(), list.end(), std::int64_t{0},
                      [&](std::int64_t sum, const auto& p) { return sum + Config::tile.count(p); });
  const auto ctas = std::min<std::int64_t>(tiles, device.properties().sm_count);
  const device::LaunchShape shape{.grid = {static_cast<unsigned>(ctas)},
                                  .block = {threads},
                                  .shared_bytes = Config::shared_bytes};

  struct Memory {
    device::Buffer groups, maps;
  };
  const auto memory = std::make_shared<Memory>();
  memory->groups = device::Buffer(device, list.size() * sizeof(gemm::Problem));
  memory->maps = device::Buffer(device, ctas * Queue::slots * sizeof(Maps));
  device.copy_to_device(memory->groups.address(), list.data(), memory->groups.bytes());
  const int count = static_cast<int>(list.size());
  const Maps maps = any_maps(device, list, Config::tile);
  const auto kernel = gemm_grouped<Config, broken, traced>;
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] {
    device.launch(shape, kernel, maps, static_cast<const gemm::Problem*>(memory->groups.address()),
                  count, static_cast<Maps*>(memory->maps.address()), timeline);
  };
}

}  // namespace

int main(int argc, char** argv) {
  using Default = Config64x256;
  const harness::VariantsOf<std::span<const gemm::Problem>> variants{
      {"--tile 64x256", prepare<Default>},
      {"--tile 128x128", prepare<Config128x128>},
      {"--trace", prepare<Default, Break::none, true>},
      {"--tile 128x128 --trace", prepare<Config128x128, Break::none, true>},
      {"--break start-lost", prepare<Default, Break::start_lost>,
       "the search keeps its group, and forgets how many tiles lie before it"},
      {"--break plain-copy", prepare<Default, Break::plain_copy>,
       "copies the maps to global memory by ordinary stores"},
      {"--break no-acquire", prepare<Default, Break::no_acquire>,
       "uses the maps without asking for them anew"},
      {"--break early-release", prepare<Default, Break::early_release>,
       "a consumer gives the slot back when it has read it: the maps change while copies use them"},
      {"--break no-store-wait", prepare<Default, Break::no_store_wait>,
       "the same before its stores have read: the map of D changes"},
      {"--break same-k", prepare<Default, Break::same_k>,
       "steps over the other consumer's tile as if its K were that of the own"},
      {"--break stale-sums", prepare<Default, Break::stale_sums>,
       "a group with K = 0 gets the sums of the tile before"}};
  std::vector<harness::Knob> knobs = harness::grouped_knobs();
  knobs.push_back({"tile",
                   "rows x columns of D that a consumer computes alone: with 64 rows, fewer are "
                   "computed for nothing where M is small",
                   {"128x128", "64x256"},
                   "64x256"});
  knobs.push_back({"order",
                   "weights: groups that multiply the same B stand side by side in the list of "
                   "tiles; list: as they were given",
                   {"weights", "list"},
                   "weights"});
  const harness::Lesson lesson{
      .number = 12,
      .name = "grouped",
      .trick = "many problems in one launch: whose tile, and by which tensor maps",
      .likely_wait =
          "a slot of the queue of tiles, or `full` and `empty` of the ring, if the roles count "
          "a group's k-tiles differently",
      .knobs = knobs,
      .breaks = variants.breaks(),
      .tracks = {"loader", "scheduler", "consumer 0", "consumer 1"},
      .tile = harness::chosen_tile,
      .experiment =
          [&](device::Device& device, const harness::Options& options) {
            constexpr int pitch_multiple = 8;
            return harness::grouped_experiment(device, options, pitch_multiple, variants);
          },
      .omitted = harness::flags_without_groups(),
  };
  return harness::run(lesson, argc, argv);
}

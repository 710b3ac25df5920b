// The roles of a CTA with a fused epilogue, from lesson 13 on: what never varies. Warps of the
// producer's warpgroup load operands, hand out tiles, load what the epilogue reads, and store what
// it writes. Two consumers take turns at multiplying, as in lesson 08, each with tiles of its own;
// what they do to their sums before these leave is the chain of operations that they are given
// (epilogue_chain.cuh).
#pragma once

#include <cuda.h>

#include "common/gemm/chunk.cuh"
#include "common/gemm/epilogue_chain.cuh"
#include "common/gemm/mainloop.cuh"
#include "common/gemm/ordered_barrier.cuh"
#include "common/gemm/register_budget.h"
#include "common/gemm/ring_state.h"
#include "common/gemm/tile_order.h"
#include "common/gemm/tile_queue.cuh"
#include "common/gemm/timeline.cuh"
#include "common/ptx/elect.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/registers.cuh"
#include "common/ptx/tma.cuh"

namespace gemm::fused {

constexpr int consumers = 2;
constexpr int threads = 128 * (1 + consumers);  // warpgroup 0 is the producer
constexpr int tile_m = 128, tile_n = 128;
constexpr RegisterBudget registers{40, 232};
static_assert(is_possible(registers, consumers, 1));

using Ring = gemm::Ring<tile_m, tile_n, 5, UniformOperands<Bf16Operands>>;

// A tile leaves in chunks of 64 x 64. Each consumer has four places of a bf16 chunk's size.
using Chunk = gemm::Chunk<64>;
constexpr int blocks = tile_m / 64, strips = tile_n / 64;
constexpr int chunks = blocks * strips;
constexpr int places = 4;
constexpr int shared_bytes = Ring::bytes + consumers * places * Chunk::bytes;

/// What a lesson may leave out, to show what it is for.
enum class Break { none, no_input_wait, early_release, no_store_fence, no_store_wait, stale_begin };

/// How many places an epilogue reads of each chunk, and how many it writes; they may be the same
/// ones. One or two places are a buffer.
struct Copies {
  int loads, stores;  ///< at most two each, one store at least

  __device__ int buffer_size() const { return max(loads, stores); }  ///< in places
  __device__ int buffers() const { return places / buffer_size(); }  ///< of a consumer

  __device__ Places at(unsigned char* shared, int consumer, int buffer) const {
    return {shared + Ring::bytes + (consumer * places + buffer * buffer_size()) * Chunk::bytes};
  }
};

/// What the roles of a CTA share, beside the dynamic shared memory. A buffer's barriers follow each
/// other: it is free, its inputs have landed, its outputs are written, it is free again.
struct Barriers {
  ptx::Mbarrier full[Ring::stages];
  ptx::Mbarrier empty[Ring::stages];
  ptx::Mbarrier landed[consumers][places];
  ptx::Mbarrier written[consumers][places];
  ptx::Mbarrier free[consumers][places];
  OrderedBarrierGrid order;
  TileQueue queue;

  /// One thread runs this, before a fence and a barrier.
  __device__ void init() {
    for (int consumer = 0; consumer < consumers; ++consumer) {
      for (int buffer = 0; buffer < places; ++buffer) {
        ptx::mbarrier_init(landed[consumer][buffer], 1);   // the loader, with expect_tx
        ptx::mbarrier_init(written[consumer][buffer], 4);  // the consumer's warps
        ptx::mbarrier_init(free[consumer][buffer], 1);     // the thread that stores
      }
    }
    order.init();
    queue.init(7);  // of each tile: both loaders, the storer, the warps of one consumer
  }
};

// ---- The producer's warps; one thread of each runs these.

/// Calls function(consumer, at, row, column) for each chunk of the CTA's tiles: `at` counts the
/// buffers of that consumer, (row, column) is the chunk's first element in D. Then end_tile().
template <class Function, class EndTile>
__device__ void for_each_chunk(TileQueue& queue, int buffers, Function function, EndTile end_tile) {
  RingState next;
  RingState at;        // in the buffers of the consumer whose tile is next,
  RingState at_other;  // and in the other's
  for (;;) {
    const int consumer = next.count % consumers;
    const TilePosition tile = queue.pop<1>(next);
    if (tile.row == no_row) return;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      function(consumer, at, tile.row * tile_m + chunk / strips * 64,
               tile.column * tile_n + chunk % strips * 64);
      at.advance(buffers);
    }
    end_tile();
    // The next tile is the other one's.
    const RingState mine = at;
    at = at_other;
    at_other = mine;
  }
}

/// Hands this CTA's tiles to the other roles: every gridDim.x-th of the order, then the end, once
/// for each consumer.
__device__ inline void schedule_tiles(TileQueue& queue, const TileOrder& order) {
  RingState write;
  for (int index = blockIdx.x; index < order.tiles(); index += gridDim.x) {
    queue.push(write, order.at(index));
  }
  for (int consumer = 0; consumer < consumers; ++consumer) queue.push(write, {no_row, 0});
}

/// Loads A and B of all tiles.
template <bool traced>
__device__ void load_operands(const CUtensorMap& map_a, const CUtensorMap& map_b, const Ring& ring,
                              TileQueue& queue, int k_tiles, Track<traced>& track) {
  RingState next;
  RingState write;
  for (;;) {
    const TilePosition tile = queue.pop<1>(next);
    if (tile.row == no_row) return;
    const auto begin = track.now();
    load_k_tiles(ring, write, map_a, map_b, tile.row * tile_m, tile.column * tile_n, {0, k_tiles});
    track.record(Span::load, next.count - 1, begin);
  }
}

/// Loads what the epilogue reads, chunk by chunk, each as soon as its buffer is free: by
/// load(places, row, column, landed), a TMA load into each of the first `copies.loads` places.
template <class Load>
__device__ void load_inputs(const Copies& copies, unsigned char* shared, Barriers& barriers,
                            Load load) {
  const auto load_chunk = [&](int consumer, const RingState& at, int row, int column) {
    if (copies.loads == 0) return;
    ptx::mbarrier_wait(barriers.free[consumer][at.index], at.phase ^ 1);
    ptx::Mbarrier& landed = barriers.landed[consumer][at.index];
    ptx::mbarrier_arrive_expect_tx(landed, copies.loads * Chunk::bytes);
    load(copies.at(shared, consumer, at.index), row, column, landed);
  };
  for_each_chunk(barriers.queue, copies.buffers(), load_chunk, [] {});
}

/// Stores what the epilogue writes, chunk by chunk, by store(places, row, column), and frees each
/// buffer once the stores have read it.
template <Break broken, bool traced, class Store>
__device__ void store_outputs(const Copies& copies, unsigned char* shared, Barriers& barriers,
                              Store store, Track<traced>& track) {
  ptx::Mbarrier* reading = nullptr;  // `free` of the chunk before this one
  auto begin = track.now();
  int tile = 0;

  const auto store_chunk = [&](int consumer, const RingState& at, int row, int column) {
    ptx::mbarrier_wait(barriers.written[consumer][at.index], at.phase);
    if (reading == nullptr) begin = track.now();
    store(copies.at(shared, consumer, at.index), row, column);
    ptx::bulk_commit();  // a group a chunk, if only an empty one
    if (reading != nullptr) {
      if constexpr (broken != Break::no_store_wait) ptx::bulk_wait_read<1>();
      if constexpr (broken != Break::early_release) ptx::mbarrier_arrive(*reading);
    }
    reading = &barriers.free[consumer][at.index];
  };
  // The next chunk may be far away.
  const auto finish_tile = [&] {
    ptx::bulk_wait_read<0>();
    if constexpr (broken != Break::early_release) ptx::mbarrier_arrive(*reading);
    reading = nullptr;
    track.record(Span::store, tile++, begin);
  };
  for_each_chunk(barriers.queue, copies.buffers(), store_chunk, finish_tile);
}

// ---- A consumer; all its 128 threads run these.

/// The epilogue of a tile, chunk by chunk. `at` counts this consumer's buffers from tile to tile.
///
/// One piece of code goes through all chunks. Unrolled, it would be four times as long, and the
/// warps would wait for instructions most of the time: these pass by once a tile, from beyond the
/// nearest caches.
template <Break broken, class Epilogue>
__device__ void write_tile(const float (&accumulator)[blocks][tile_n / 2], Epilogue& epilogue,
                           const Copies& copies, unsigned char* shared, Barriers& barriers,
                           RingState& at, int row, int column) {
  const int consumer = threadIdx.x / 128 - 1;

#pragma unroll 1
  for (int c = 0; c < chunks; ++c) {
    Fragment fragment{.row = row + c / strips * 64 + Fragment::own_row(),
                      .column = column + c % strips * 64 + Fragment::own_column(),
                      .block = c / strips,
                      .strip = c % strips};
    fragment.take_sums(accumulator, c);

    const Places buffer = copies.at(shared, consumer, at.index);
    if (copies.loads == 0) {
      ptx::mbarrier_wait(barriers.free[consumer][at.index], at.phase ^ 1);
    } else if constexpr (broken != Break::no_input_wait) {
      ptx::mbarrier_wait(barriers.landed[consumer][at.index], at.phase);
    }
    epilogue.visit(fragment, buffer);
    epilogue.reduce(fragment);
    if constexpr (broken == Break::early_release) {
      if (threadIdx.x % 128 == 0) ptx::mbarrier_arrive(barriers.free[consumer][at.index]);
    }
    __syncwarp();  // all lanes have read the warp's rows, which are now written over
    epilogue.store(fragment, buffer);
    if constexpr (broken != Break::no_store_fence) ptx::fence_proxy_async();
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(barriers.written[consumer][at.index]);
    at.advance(copies.buffers());
  }
}

/// Every second tile of this CTA, in turns with the other consumer.
template <class Epilogue, Break broken, bool traced, class Problem>
__device__ void consume(const Problem& p, const Copies& copies, unsigned char* shared,
                        const Ring& ring, Barriers& barriers, int k_tiles, Track<traced>& track) {
  const int consumer = threadIdx.x / 128 - 1;
  OrderedBarrier<1> order(barriers.order, consumer);  // for multiplying only: epilogues may overlap
  Epilogue epilogue(p);
  RingState next;  // in the queue of tiles
  RingState read;  // in the ring of stages
  RingState at;    // in this consumer's buffers

  // The other's tile and its k-tiles pass this consumer by.
  const auto skip_tile = [&] {
    next.advance(TileQueue::slots);
    read.skip(Ring::stages, k_tiles);
  };
  if (consumer == 1) skip_tile();

  for (bool is_first = true;; is_first = false) {
    const TilePosition tile = barriers.queue.pop<32>(next);
    if (tile.row == no_row) break;
    const int step = next.count - 1;
    const int row = tile.row * tile_m, column = tile.column * tile_n;
    if (broken != Break::stale_begin || is_first) epilogue.begin(row, column);

    // Zeros for each tile, for K = 0. Declared outside the loop, the sums would have to last from
    // tile to tile.
    float accumulator[blocks][tile_n / 2] = {};
    auto begin = track.now();
    order.wait();
    track.record(Span::wait_turn, step, begin);
    begin = track.now();
    multiply_k_tiles(accumulator, ring, read, 0, k_tiles);
    order.arrive();
    finish_k_tiles(accumulator, ring, read, k_tiles);
    track.record(Span::multiply, step, begin);

    begin = track.now();
    write_tile<broken>(accumulator, epilogue, copies, shared, barriers, at, row, column);
    epilogue.end(row, column);
    track.record(Span::epilogue, step, begin);
    skip_tile();
  }
  Epilogue::finish(p);
}

// ---- The CTA.

/// The tracks of its timeline, for harness::Lesson::tracks.
inline constexpr const char* tracks[] = {"producer", "consumer 0", "consumer 1", "storer"};

/// All of a kernel with a fused epilogue. `load` and `store` are as load_inputs() and
/// store_outputs() want them; Epilogue is a Chain, of operations of the problem `p`.
template <class Epilogue, Break broken, bool traced, class Problem, class Load, class Store>
__device__ void run(const CUtensorMap& map_a, const CUtensorMap& map_b, const Problem& p,
                    const TileOrder& order, const Timeline& timeline, const Copies& copies,
                    Load load, Store store) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ Barriers barriers;

  const Ring ring{shared, barriers.full, barriers.empty};
  const int k_tiles = (p.product.k + tile_k - 1) / tile_k;

  if (threadIdx.x == 0) {
    ring.init(4);  // the warps of one consumer: a stage belongs to one tile
    barriers.init();
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < 128) {
    ptx::registers_decrease<registers.producer>();
    const int role = threadIdx.x / 32;
    if (!ptx::elect_one()) return;
    if (role == 0) {
      Track<traced> track(timeline, 0, true);
      load_operands(map_a, map_b, ring, barriers.queue, k_tiles, track);
    } else if (role == 1) {
      schedule_tiles(barriers.queue, order);
    } else if (role == 2) {
      load_inputs(copies, shared, barriers, load);
    } else {
      Track<traced> track(timeline, 3, true);
      store_outputs<broken>(copies, shared, barriers, store, track);
    }
  } else {
    ptx::registers_increase<registers.consumer>();
    Track<traced> track(timeline, threadIdx.x / 128, threadIdx.x % 128 == 0);
    consume<Epilogue, broken>(p, copies, shared, ring, barriers, k_tiles, track);
  }
}

}  // namespace gemm::fused

// Lesson 13 - fused_epilogue: bias, activation and residual on the way out, for nothing.
//
//   make lesson13 && ./lesson13 --bias column --activation gelu
//
// D = activation(alpha * A B^T + beta * C + bias) + residual
//
// A kernel of its own for bias and GELU reads and writes all of D once more. Here the values are
// changed while they are in registers, and the kernel of lesson 08 hides that: one consumer changes
// and stores its tile while the other multiplies. What can be hidden is as long as a main loop, so
// the epilogue is made shorter, too:
//
//   - the fourth warp of the producer's warpgroup stores: a consumer writes a chunk to shared
//   memory,
//     says so, and goes on. It waits for no store;
//   - the consumers take turns at multiplying only. Their epilogues may overlap;
//   - the bias comes into registers while the other one multiplies.
//
// What is done to the values is a chain of operations: common/gemm/epilogue_chain.cuh. The
// activation is a template argument; the bias, C, the residual and the type of D are choices of the
// launch, each one branch a chunk.
//
// The note: docs/lesson13_fused_epilogue.md
#include <cuda_bf16.h>

#include <algorithm>

#include "common/gemm/activation.h"
#include "common/gemm/choose_order.h"
#include "common/gemm/epilogue_chain.cuh"
#include "common/gemm/fused_problem.h"
#include "common/gemm/mainloop.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/ordered_barrier.cuh"
#include "common/gemm/register_budget.h"
#include "common/gemm/separate_epilogue.cuh"
#include "common/gemm/tile_order.h"
#include "common/gemm/tile_queue.cuh"
#include "common/gemm/timeline.cuh"
#include "common/harness/fused_experiment.h"
#include "common/harness/lesson.h"
#include "common/ptx/elect.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/registers.cuh"

namespace {

using gemm::Activation;
using gemm::FusedProblem;
using gemm::Span;
using gemm::tile_k;

constexpr int consumers = 2;
constexpr int threads = 128 * (1 + consumers);  // warpgroup 0 is the producer
constexpr int tile_m = 128, tile_n = 128;
constexpr gemm::RegisterBudget registers{40, 232};
static_assert(gemm::is_possible(registers, consumers, 1));

using Ring = gemm::Ring<tile_m, tile_n, 5>;

// A tile leaves in chunks of 64 x 64. Each consumer has four places of a bf16 chunk's size.
using Chunk = gemm::Chunk<64>;
constexpr int blocks = tile_m / 64, strips = tile_n / 64;
constexpr int chunks = blocks * strips;
constexpr int places = 4;
constexpr int shared_bytes = Ring::bytes + consumers * places * Chunk::bytes;

enum class Break {
  none,
  no_c_wait,
  early_c_release,
  no_store_fence,
  no_store_wait,
  stale_bias,
  bias_after_activation
};

/// The chain of operations: the order of the course notes.
template <Activation activation, Break broken>
struct EpilogueOf {
  using Type = gemm::Chain<gemm::Scale, gemm::AddC, gemm::AddBias, gemm::Activate<activation>,
                           gemm::AddResidual, gemm::StoreD>;
};
template <Activation activation>
struct EpilogueOf<activation, Break::bias_after_activation> {
  using Type = gemm::Chain<gemm::Scale, gemm::AddC, gemm::Activate<activation>, gemm::AddBias,
                           gemm::AddResidual, gemm::StoreD>;
};

/// A buffer is one or two places of a consumer, for what a chunk reads and what it writes: C, the
/// residual; D, of which fp32 takes two.
struct Buffers {
  int size;   ///< places of a buffer
  int count;  ///< buffers of a consumer

  __device__ explicit Buffers(const FusedProblem& p)
      : size(max(max(p.inputs(), element_bytes(p.output) / 2), 1)), count(places / size) {}

  __device__ gemm::Places at(unsigned char* shared, int consumer, int buffer) const {
    return {shared + Ring::bytes + (consumer * places + buffer * size) * Chunk::bytes};
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
  gemm::OrderedBarrierGrid order;
  gemm::TileQueue queue;

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
__device__ void for_each_chunk(gemm::TileQueue& queue, const Buffers& buffers, Function function,
                               EndTile end_tile) {
  gemm::RingState next;
  gemm::RingState at;        // in the buffers of the consumer whose tile is next,
  gemm::RingState at_other;  // and in the other's
  for (;;) {
    const int consumer = next.count % consumers;
    const gemm::TilePosition tile = queue.pop<1>(next);
    if (tile.row == gemm::no_row) return;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      function(consumer, at, tile.row * tile_m + chunk / strips * 64,
               tile.column * tile_n + chunk % strips * 64);
      at.advance(buffers.count);
    }
    end_tile();
    // The next tile is the other one's.
    const gemm::RingState mine = at;
    at = at_other;
    at_other = mine;
  }
}

/// Hands this CTA's tiles to the other roles: every gridDim.x-th of the order, then the end, once
/// for each consumer.
__device__ void schedule_tiles(gemm::TileQueue& queue, const gemm::TileOrder& order) {
  gemm::RingState write;
  for (int index = blockIdx.x; index < order.tiles(); index += gridDim.x) {
    queue.push(write, order.at(index));
  }
  for (int consumer = 0; consumer < consumers; ++consumer) queue.push(write, {gemm::no_row, 0});
}

/// Loads A and B of all tiles.
template <bool traced>
__device__ void load_operands(const CUtensorMap& map_a, const CUtensorMap& map_b, const Ring& ring,
                              gemm::TileQueue& queue, int k_tiles, gemm::Track<traced>& track) {
  gemm::RingState next;
  gemm::RingState write;
  for (;;) {
    const gemm::TilePosition tile = queue.pop<1>(next);
    if (tile.row == gemm::no_row) return;
    const auto begin = track.now();
    gemm::load_k_tiles(ring, write, map_a, map_b, tile.row * tile_m, tile.column * tile_n,
                       {0, k_tiles});
    track.record(Span::load, next.count - 1, begin);
  }
}

/// Loads C and the residual, chunk by chunk, each as soon as its buffer is free.
__device__ void load_inputs(const CUtensorMap& map_c, const CUtensorMap& map_residual,
                            const FusedProblem& p, unsigned char* shared, Barriers& barriers) {
  const Buffers buffers(p);
  const auto load = [&](int consumer, const gemm::RingState& at, int row, int column) {
    if (p.inputs() == 0) return;
    ptx::mbarrier_wait(barriers.free[consumer][at.index], at.phase ^ 1);
    ptx::Mbarrier& landed = barriers.landed[consumer][at.index];
    ptx::mbarrier_arrive_expect_tx(landed, p.inputs() * Chunk::bytes);
    const gemm::Places to = buffers.at(shared, consumer, at.index);
    if (p.has_c()) ptx::tma_load_2d(to.at(0), map_c, column, row, landed);
    if (p.has_residual()) {
      ptx::tma_load_2d(to.at(p.inputs() - 1), map_residual, column, row, landed);
    }
  };
  for_each_chunk(barriers.queue, buffers, load, [] {});
}

/// Stores D, chunk by chunk, and frees each buffer once its store has read it.
template <Break broken, bool traced>
__device__ void store_outputs(const CUtensorMap& map_d, const FusedProblem& p,
                              unsigned char* shared, Barriers& barriers,
                              gemm::Track<traced>& track) {
  const Buffers buffers(p);
  const int parts = element_bytes(p.output) / 2;  // of a chunk, 128 bytes wide
  ptx::Mbarrier* reading = nullptr;               // `free` of the chunk before this one
  auto begin = track.now();
  int tile = 0;

  const auto store = [&](int consumer, const gemm::RingState& at, int row, int column) {
    ptx::mbarrier_wait(barriers.written[consumer][at.index], at.phase);
    if (reading == nullptr) begin = track.now();
    const gemm::Places from = buffers.at(shared, consumer, at.index);
    for (int part = 0; part < parts && !p.overhangs_a_unit(column, 64); ++part) {
      ptx::tma_store_2d(map_d, column + 64 / parts * part, row, from.at(part));
    }
    ptx::bulk_commit();  // a group a chunk, if only an empty one
    if (reading != nullptr) {
      if constexpr (broken != Break::no_store_wait) ptx::bulk_wait_read<1>();
      if constexpr (broken != Break::early_c_release) ptx::mbarrier_arrive(*reading);
    }
    reading = &barriers.free[consumer][at.index];
  };
  // The next chunk may be far away.
  const auto finish_tile = [&] {
    ptx::bulk_wait_read<0>();
    if constexpr (broken != Break::early_c_release) ptx::mbarrier_arrive(*reading);
    reading = nullptr;
    track.record(Span::store, tile++, begin);
  };
  for_each_chunk(barriers.queue, buffers, store, finish_tile);
}

// ---- A consumer; all its 128 threads run these.

/// The epilogue of a tile, chunk by chunk. `at` counts this consumer's buffers from tile to tile.
template <Break broken, class Epilogue>
__device__ void write_tile(const float (&accumulator)[blocks][tile_n / 2], Epilogue& epilogue,
                           const FusedProblem& p, unsigned char* shared, Barriers& barriers,
                           const Buffers& buffers, gemm::RingState& at, int row, int column) {
  const int consumer = threadIdx.x / 128 - 1;

#pragma unroll
  for (int c = 0; c < chunks; ++c) {
    gemm::Fragment fragment{.row = row + c / strips * 64 + gemm::Fragment::own_row(),
                            .column = column + c % strips * 64 + gemm::Fragment::own_column(),
                            .block = c / strips,
                            .strip = c % strips};
#pragma unroll
    for (int i = 0; i < 32; ++i) fragment.value[i] = accumulator[c / strips][c % strips * 32 + i];

    const gemm::Places buffer = buffers.at(shared, consumer, at.index);
    if (p.inputs() == 0) {
      ptx::mbarrier_wait(barriers.free[consumer][at.index], at.phase ^ 1);
    } else if constexpr (broken != Break::no_c_wait) {
      ptx::mbarrier_wait(barriers.landed[consumer][at.index], at.phase);
    }
    epilogue.visit(fragment, buffer);
    if constexpr (broken == Break::early_c_release) {
      if (threadIdx.x % 128 == 0) ptx::mbarrier_arrive(barriers.free[consumer][at.index]);
    }
    __syncwarp();  // all lanes have read the warp's rows, which are now written over
    epilogue.store(fragment, buffer);
    if constexpr (broken != Break::no_store_fence) ptx::fence_proxy_async();
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(barriers.written[consumer][at.index]);
    at.advance(buffers.count);
  }
}

/// Every second tile of this CTA, in turns with the other consumer.
template <class Epilogue, Break broken, bool traced>
__device__ void consume(const FusedProblem& p, unsigned char* shared, const Ring& ring,
                        Barriers& barriers, int k_tiles, gemm::Track<traced>& track) {
  const int consumer = threadIdx.x / 128 - 1;
  gemm::OrderedBarrier<1> order(barriers.order, consumer);  // for multiplying only
  const Buffers buffers(p);
  Epilogue epilogue(p);
  gemm::RingState next;  // in the queue of tiles
  gemm::RingState read;  // in the ring of stages
  gemm::RingState at;    // in this consumer's buffers
  float accumulator[blocks][tile_n / 2] = {};

  // The other's tile and its k-tiles pass this consumer by.
  const auto skip_tile = [&] {
    next.advance(gemm::TileQueue::slots);
    read.skip(Ring::stages, k_tiles);
  };
  if (consumer == 1) skip_tile();

  for (bool is_first = true;; is_first = false) {
    const gemm::TilePosition tile = barriers.queue.template pop<32>(next);
    if (tile.row == gemm::no_row) break;
    const int step = next.count - 1;
    const int row = tile.row * tile_m, column = tile.column * tile_n;
    if (broken != Break::stale_bias || is_first) epilogue.begin(row, column);

    auto begin = track.now();
    order.wait();
    track.record(Span::wait_turn, step, begin);
    begin = track.now();
    gemm::multiply_k_tiles(accumulator, ring, read, 0, k_tiles);
    order.arrive();
    gemm::finish_k_tiles(accumulator, ring, read, k_tiles);
    track.record(Span::multiply, step, begin);

    begin = track.now();
    write_tile<broken>(accumulator, epilogue, p, shared, barriers, buffers, at, row, column);
    track.record(Span::epilogue, step, begin);
    skip_tile();
  }
}

template <Activation activation, Break broken, bool traced>
__global__ void __launch_bounds__(threads, 1)
    gemm_fused(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
               const __grid_constant__ CUtensorMap map_c,
               const __grid_constant__ CUtensorMap map_residual,
               const __grid_constant__ CUtensorMap map_d, const __grid_constant__ FusedProblem p,
               const gemm::TileOrder order, const gemm::Timeline timeline) {
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
      gemm::Track<traced> track(timeline, 0, true);
      load_operands(map_a, map_b, ring, barriers.queue, k_tiles, track);
    } else if (role == 1) {
      schedule_tiles(barriers.queue, order);
    } else if (role == 2) {
      load_inputs(map_c, map_residual, p, shared, barriers);
    } else {
      gemm::Track<traced> track(timeline, 3, true);
      store_outputs<broken>(map_d, p, shared, barriers, track);
    }
  } else {
    ptx::registers_increase<registers.consumer>();
    gemm::Track<traced> track(timeline, threadIdx.x / 128, threadIdx.x % 128 == 0);
    using Epilogue = typename EpilogueOf<activation, broken>::Type;
    consume<Epilogue, broken>(p, shared, ring, barriers, k_tiles, track);
  }
}

// ---- The host.

/// Calls function.operator()<activation>() for the activation of that name.
template <class Function>
auto with_activation(Activation activation, Function function) {
  switch (activation) {
    case Activation::relu:
      return function.template operator()<Activation::relu>();
    case Activation::gelu:
      return function.template operator()<Activation::gelu>();
    case Activation::gelu_tanh:
      return function.template operator()<Activation::gelu_tanh>();
    case Activation::silu:
      return function.template operator()<Activation::silu>();
    case Activation::none:
      break;
  }
  return function.template operator()<Activation::none>();
}

using Kernel = void (*)(CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap,
                        FusedProblem, gemm::TileOrder, gemm::Timeline);

Kernel kernel_for(Activation activation, const harness::Selection& selection) {
  const std::string& broken = selection.broken();
  if (activation != Activation::gelu && (!broken.empty() || selection.traced())) {
    throw harness::UsageError("--break and --trace run with --activation gelu only.");
  }
  constexpr Activation gelu = Activation::gelu;
  if (broken == "no-c-wait") return gemm_fused<gelu, Break::no_c_wait, false>;
  if (broken == "early-c-release") return gemm_fused<gelu, Break::early_c_release, false>;
  if (broken == "no-store-fence") return gemm_fused<gelu, Break::no_store_fence, false>;
  if (broken == "no-store-wait") return gemm_fused<gelu, Break::no_store_wait, false>;
  if (broken == "stale-bias") return gemm_fused<gelu, Break::stale_bias, false>;
  if (broken == "bias-after-activation") {
    return gemm_fused<gelu, Break::bias_after_activation, false>;
  }
  if (selection.traced()) return gemm_fused<gelu, Break::none, true>;
  return with_activation(
      activation, [&]<Activation a>() -> Kernel { return gemm_fused<a, Break::none, false>; });
}

harness::Launch prepare(device::Device& device, const FusedProblem& problem, Activation activation,
                        const harness::Selection& selection) {
  const gemm::Problem& p = problem.product;
  const int sms = device.properties().sm_count;
  const gemm::TileOrder order = gemm::choose_order(
      (p.m + tile_m - 1) / tile_m, (p.n + tile_n - 1) / tile_n, tile_m, tile_n, sms);
  const device::LaunchShape shape{.grid = {static_cast<unsigned>(std::min(order.tiles(), sms))},
                                  .block = {threads},
                                  .shared_bytes = shared_bytes};

  const CUtensorMap map_a = gemm::operand_map(device, "A", p.a, p.m, p.k, p.lda, tile_m, tile_k);
  const CUtensorMap map_b = gemm::operand_map(device, "B", p.b, p.n, p.k, p.ldb, tile_n, tile_k);
  const CUtensorMap map_d = gemm::output_map(device, problem);
  // Nobody uses the map of a matrix that is not there.
  const CUtensorMap map_c =
      problem.has_c() ? gemm::chunk_map<64>(device, "C", p.c, p, p.ldc) : map_d;
  const CUtensorMap map_residual =
      problem.has_residual()
          ? gemm::chunk_map<64>(device, "the residual", problem.residual, p, problem.ldr)
          : map_d;
  const Kernel kernel = kernel_for(activation, selection);
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] {
    device.launch(shape, kernel, map_a, map_b, map_c, map_residual, map_d, problem, order,
                  timeline);
  };
}

/// The second kernel of a pair that fuses nothing.
harness::Launch prepare_separate(device::Device& device, const FusedProblem& problem,
                                 Activation activation, const __nv_bfloat16* z, void* d,
                                 std::int64_t ld) {
  constexpr unsigned block = 256;
  const device::LaunchShape shape{
      .grid = {static_cast<unsigned>(problem.product.m),
               (static_cast<unsigned>(problem.product.n) + 8 * block - 1) / (8 * block)},
      .block = {block}};
  return with_activation(activation, [&]<Activation a>() -> harness::Launch {
    const auto into = [&]<class Element>(Element* to) -> harness::Launch {
      return [=, &device] {
        device.launch(shape, gemm::finish_elements<a, Element>, problem, z, to, ld);
      };
    };
    if (problem.output == gemm::Output::f32) return into(static_cast<float*>(d));
    if (problem.output == gemm::Output::f16) return into(static_cast<__half*>(d));
    return into(static_cast<__nv_bfloat16*>(d));
  });
}

}  // namespace

int main(int argc, char** argv) {
  const harness::Lesson lesson{
      .number = 13,
      .name = "fused_epilogue",
      .trick = "bias, activation and residual while the values are in registers",
      .likely_wait =
          "`landed`, `written` or `free` of a buffer, if a role walks another list of chunks",
      .knobs = harness::fused_knobs(),
      .breaks = {{"no-c-wait", "with --beta 1: adds C without waiting for it to land"},
                 {"early-c-release",
                  "with --beta 1: lets the next C in as soon as this one has been added, before D "
                  "has left"},
                 {"no-store-fence", "does not show what it has written to the copy engine"},
                 {"no-store-wait", "takes a buffer for free while its store still reads it"},
                 {"stale-bias", "with --bias: keeps the bias of its first tile"},
                 {"bias-after-activation", "with --bias: adds it behind the activation"}},
      .tracks = {"producer", "consumer 0", "consumer 1", "storer"},
      .tile =
          [](const harness::Selection&) {
            return harness::Tile{tile_m, tile_n};
          },
      .experiment =
          [](device::Device& device, const harness::Options& options) {
            return harness::fused_experiment(device, options, {prepare, prepare_separate});
          },
  };
  return harness::run(lesson, argc, argv);
}

// Lesson 05 - warp_specialization: one warp loads, one warpgroup multiplies.
//
//   make lesson05 && ./lesson05
//
// In lesson 04 thread 0 had two jobs, and while it waited for a stage to become empty, its
// warpgroup waited with it. Here a fifth warp is the producer: it keeps the ring full and does
// nothing else. The other four are the consumer, and never wait for anything but bytes.
//
// So the consumer may be a k-tile ahead of itself: it starts the next product before the last one
// is complete, and releases stages `--lag` k-tiles behind those that it reads.
//
// The note: docs/lesson05_warp_specialization.md
#include <cuda_bf16.h>

#include "common/gemm/epilogue.cuh"
#include "common/gemm/k_tile.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/problem.h"
#include "common/gemm/ring_state.h"
#include "common/gemm/timeline.cuh"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"
#include "common/ptx/elect.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/wgmma.cuh"

namespace {

using gemm::row_bytes;
using gemm::Span;
using gemm::tile_k;

constexpr int tile_m = 128;
constexpr int tile_n = 128;
constexpr int a_bytes = tile_m * row_bytes;
constexpr int stage_bytes = (tile_m + tile_n) * row_bytes;
constexpr int max_stages = 7;

constexpr int consumer_threads =
    128;  // warps 0-3: wgmma wants a warpgroup, from a multiple of 4 on
constexpr int threads = consumer_threads + 32;  // warp 4: the producer

enum class Break {
  none,
  all_lanes_load,
  lag_ignored,
  producer_parity,
  early_release,
  no_full_wait
};

/// What both roles share. A stage: a tile of A, then a tile of B.
struct Ring {
  unsigned char* buffers;
  ptx::Mbarrier* full;
  ptx::Mbarrier* empty;
  int stages;
};

/// Loads the k-tiles of A from `row` on and of B from `column` on; one thread runs this.
template <Break broken, bool traced>
__device__ void produce(const CUtensorMap& map_a, const CUtensorMap& map_b, const Ring& ring,
                        int row, int column, int k_tiles, gemm::Track<traced>& track) {
  gemm::RingState write;
  const auto load = [&] {
    unsigned char* const stage = ring.buffers + write.index * stage_bytes;
    ptx::Mbarrier& full = ring.full[write.index];
    ptx::mbarrier_arrive_expect_tx(full, stage_bytes);
    ptx::tma_load_2d(stage, map_a, write.count * tile_k, row, full);
    ptx::tma_load_2d(stage + a_bytes, map_b, write.count * tile_k, column, full);
    write.advance(ring.stages);
  };
  const auto wait_empty = [&] {
    const auto begin = track.now();
    // The lap before: the consumer has read what it left here.
    ptx::mbarrier_wait(ring.empty[write.index],
                       broken == Break::producer_parity ? write.phase : write.phase ^ 1);
    track.record(Span::wait_empty, write.count, begin);
  };

  // Prologue: all stages are empty, and nobody has to be asked.
  while (write.count < min(ring.stages, k_tiles)) load();
  // Steady state: one stage at a time, as the consumer releases it.
  while (write.count < k_tiles) {
    wait_empty();
    load();
  }
  // Drain: one more lap, in which every stage becomes empty. Nobody needs it here: this CTA's
  // shared memory stays until its consumer is done too. From lesson 10 on, other CTAs arrive at
  // these barriers, and a producer that left would take them with it.
  for (int i = 0; i < ring.stages; ++i) {
    wait_empty();
    write.advance(ring.stages);
  }
}

/// accumulator = the products of all k-tiles; all threads of the consumer run this. `lag` k-tiles
/// are released later than they are read.
template <int lag, Break broken, bool traced>
__device__ void consume(float (&accumulator)[tile_m / 64][tile_n / 2], const Ring& ring,
                        int k_tiles, gemm::Track<traced>& track,
                        gemm::Track<traced>& tensor_cores) {
  gemm::RingState read;
  gemm::RingState release;
  std::uint64_t started[lag + 1] = {};  // for the trace: the products in flight, the oldest first
  std::uint64_t ended = 0;              // and the end of the last one that is complete

  const auto multiply = [&] {
    const auto begin = track.now();
    if constexpr (broken != Break::no_full_wait) {
      ptx::mbarrier_wait(ring.full[read.index], read.phase);
    }
    track.record(Span::wait_full, read.count, begin);
#pragma unroll
    for (int i = 0; i < lag; ++i) started[i] = started[i + 1];
    started[lag] = track.now();
    const unsigned char* const stage = ring.buffers + read.index * stage_bytes;
    gemm::multiply_k_tile(accumulator, stage, stage + a_bytes, read.count > 0);
    read.advance(ring.stages);
  };
  const auto release_stage = [&] {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(ring.empty[release.index]);
    release.advance(ring.stages);
  };

  // Prologue: the first products start, and none is waited for.
  while (read.count < min(lag, k_tiles)) multiply();
  // Steady state: start one, wait for the one `lag` before it, release that one's stage.
  while (read.count < k_tiles) {
    multiply();
    if constexpr (broken == Break::early_release) release_stage();
    ptx::wgmma_wait<broken == Break::lag_ignored ? lag + 1 : lag>(accumulator);
    // One product at a time: this one ran from its start, or from the end of the one before it.
    tensor_cores.record(Span::multiply, release.count, max(started[0], ended));
    ended = track.now();
    if constexpr (broken != Break::early_release) release_stage();
  }
  // Drain: wait for the last ones.
  ptx::wgmma_wait<0>(accumulator);
  if (lag > 0 && k_tiles > 0) {
    tensor_cores.record(Span::multiply, k_tiles - 1, max(started[lag], ended));
  }
  while (release.count < k_tiles) release_stage();
}

template <int lag, Break broken, bool traced>
__global__ void __launch_bounds__(threads)
    gemm_warp_specialization(const __grid_constant__ CUtensorMap map_a,
                             const __grid_constant__ CUtensorMap map_b, const gemm::Problem p,
                             int stages, const gemm::Timeline timeline) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ ptx::Mbarrier full[max_stages];
  __shared__ ptx::Mbarrier empty[max_stages];

  const int tiles_n = (p.n + tile_n - 1) / tile_n;
  const int first_row = blockIdx.x / tiles_n * tile_m;
  const int first_column = blockIdx.x % tiles_n * tile_n;
  const int k_tiles = (p.k + tile_k - 1) / tile_k;
  const Ring ring{shared, full, empty, stages};

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < stages; ++stage) {
      ptx::mbarrier_init(full[stage], 1);   // the producer's arrival, with expect_tx
      ptx::mbarrier_init(empty[stage], 4);  // one arrival of each of the consumer's warps
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x >= consumer_threads) {
    if (broken == Break::all_lanes_load || ptx::elect_one()) {
      gemm::Track<traced> track(timeline, 0, true);
      produce<broken>(map_a, map_b, ring, first_row, first_column, k_tiles, track);
    }
  } else {
    gemm::Track<traced> track(timeline, 1, threadIdx.x == 0);
    // Zeros, for k = 0; otherwise the first product overwrites them.
    float accumulator[tile_m / 64][tile_n / 2] = {};
    gemm::Track<traced> tensor_cores(timeline, 2, threadIdx.x == 0);
    consume<lag, broken>(accumulator, ring, k_tiles, track, tensor_cores);

    const auto begin = track.now();
#pragma unroll
    for (int i = 0; i < tile_m / 64; ++i) {
      gemm::store_accumulator<tile_n>(accumulator[i], p, first_row + 64 * i, first_column);
    }
    track.record(Span::epilogue, 0, begin);
  }
}

template <int lag, Break broken = Break::none, bool traced = false>
harness::Launch prepare(device::Device& device, const gemm::Problem& problem,
                        const harness::Selection& selection) {
  const unsigned tiles_m = (problem.m + tile_m - 1) / tile_m;
  const unsigned tiles_n = (problem.n + tile_n - 1) / tile_n;
  const int stages = selection.number("stages");
  if (selection.number("lag") >= stages) {
    throw harness::UsageError("--lag " + selection.text("lag") + " needs --stages " +
                              std::to_string(selection.number("lag") + 1) +
                              " or more: stages that are released so late are never refilled.");
  }
  const device::LaunchShape shape{.grid = {tiles_m * tiles_n},
                                  .block = {threads},
                                  .shared_bytes = std::size_t(stages) * stage_bytes};

  const CUtensorMap map_a = gemm::map_of_a(device, problem, tile_m);
  const CUtensorMap map_b = gemm::map_of_b(device, problem, tile_n);
  const auto kernel = gemm_warp_specialization<lag, broken, traced>;
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] { device.launch(shape, kernel, map_a, map_b, problem, stages, timeline); };
}

}  // namespace

int main(int argc, char** argv) {
  const harness::Variants variants{
      {"--lag 1", prepare<1>},
      {"--lag 0", prepare<0>},
      {"--lag 2", prepare<2>},
      {"--lag 3", prepare<3>},
      {"--trace", prepare<1, Break::none, true>},
      {"--break all-lanes-load", prepare<1, Break::all_lanes_load>,
       "32 lanes load instead of one elected"},
      {"--break lag-ignored", prepare<1, Break::lag_ignored>,
       "releases a stage one k-tile earlier than the lag allows: it is still read"},
      {"--break producer-parity", prepare<1, Break::producer_parity>,
       "the producer waits for the consumers' parity: it is always a lap early"},
      {"--break early-release", prepare<1, Break::early_release>,
       "releases a stage before waiting for any product"},
      {"--break no-full-wait", prepare<1, Break::no_full_wait>,
       "multiplies without waiting for the bytes to land"}};
  const harness::Lesson lesson{
      .number = 5,
      .name = "warp_specialization",
      .trick = "one warp loads, one warpgroup multiplies; stages are released behind the products",
      .likely_wait =
          "`empty` in the producer or `full` in the consumer: a role that left, or a "
          "count that is not its partner's",
      .knobs = {{"stages",
                 "k-tiles that a CTA holds at once; up to 3, two CTAs share an SM",
                 {"1", "2", "3", "4", "5", "6", "7"},
                 "3"},
                {"lag",
                 "k-tiles by which releasing a stage lags behind reading it: products in flight",
                 {"0", "1", "2", "3"},
                 "1"}},
      .breaks = variants.breaks(),
      .tracks = {"producer", "consumer", "tensor cores"},
      .tile = harness::fixed_tile(tile_m, tile_n),
      .prepare = variants,
  };
  return harness::run(lesson, argc, argv);
}

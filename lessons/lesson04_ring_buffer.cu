// Lesson 04 - ring_buffer: the next tiles are on their way while this one is multiplied.
//
//   make lesson04 && ./lesson04
//
// Lesson 03 had one buffer: load, wait, compute, wait. Here a CTA has a ring of them, its stages.
// Each stage has two mbarriers: FULL says that its bytes have landed, EMPTY that all warps have
// read them. Thread 0 keeps the ring full, `stages - 1` k-tiles ahead of the products.
//
// Stages are used over and over. A barrier that "is complete" may mean this lap or the last one:
// the phase bit tells them apart. `--break no-phase` shows what happens without it.
//
// The note: docs/lesson04_ring_buffer.md
#include <cuda_bf16.h>

#include "common/gemm/epilogue.cuh"
#include "common/gemm/k_tile.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/problem.h"
#include "common/gemm/ring_state.h"
#include "common/gemm/timeline.cuh"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"
#include "common/ptx/fence.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/wgmma.cuh"

namespace {

using gemm::row_bytes;
using gemm::Span;
using gemm::tile_k;

constexpr int threads = 128;  // one warpgroup
constexpr int max_stages = 8;

enum class Break { none, no_phase, no_empty_wait, early_release, empty_count_1, empty_count_128 };

template <int tile_m, int tile_n, Break broken, bool traced>
__global__ void __launch_bounds__(threads)
    gemm_ring_buffer(const __grid_constant__ CUtensorMap map_a,
                     const __grid_constant__ CUtensorMap map_b, const gemm::Problem p, int stages,
                     const gemm::Timeline timeline) {
  // A stage: a tile of A, then a tile of B.
  constexpr int a_bytes = tile_m * row_bytes;
  constexpr int stage_bytes = (tile_m + tile_n) * row_bytes;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ ptx::Mbarrier full[max_stages];
  __shared__ ptx::Mbarrier empty[max_stages];

  const int tiles_n = (p.n + tile_n - 1) / tile_n;
  const int first_row = blockIdx.x / tiles_n * tile_m;
  const int first_column = blockIdx.x % tiles_n * tile_n;
  const int k_tiles = (p.k + tile_k - 1) / tile_k;

  if (threadIdx.x == 0) {
    constexpr int readers = broken == Break::empty_count_1     ? 1
                            : broken == Break::empty_count_128 ? 128
                                                               : 4;
    for (int stage = 0; stage < stages; ++stage) {
      ptx::mbarrier_init(full[stage], 1);         // an arrival a phase: thread 0's, with expect_tx
      ptx::mbarrier_init(empty[stage], readers);  // an arrival a phase of each warp
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  gemm::Track<traced> track(timeline, 0, threadIdx.x == 0);
  gemm::RingState write;  // the next k-tile to load: thread 0's
  gemm::RingState read;   // the next k-tile to multiply

  const auto load = [&] {
    const auto begin = track.now();
    // The phase before: in the first lap, the one before a fresh barrier's first, which counts as
    // complete. So the ring starts out empty, and nobody has to say so.
    if constexpr (broken != Break::no_empty_wait) {
      ptx::mbarrier_wait(empty[write.index], write.phase ^ 1);
    }
    track.record(Span::wait_empty, write.count, begin);
    unsigned char* const stage = shared + write.index * stage_bytes;
    ptx::Mbarrier& landed = full[write.index];
    ptx::mbarrier_arrive_expect_tx(landed, stage_bytes);
    ptx::tma_load_2d(stage, map_a, write.count * tile_k, first_row, landed);
    ptx::tma_load_2d(stage + a_bytes, map_b, write.count * tile_k, first_column, landed);
    write.advance(stages);
  };
  const auto release = [&] {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(empty[read.index]);
  };

  if (threadIdx.x == 0) {
    while (write.count < min(stages - 1, k_tiles)) load();
  }
  // Zeros, for k = 0; otherwise the first product overwrites them.
  float accumulator[tile_m / 64][tile_n / 2] = {};

  while (read.count < k_tiles) {
    // Into the stage that the last round has read: its other warps may still be at it.
    if (threadIdx.x == 0 && write.count < k_tiles) load();

    auto begin = track.now();
    ptx::mbarrier_wait(full[read.index], broken == Break::no_phase ? 0 : read.phase);
    track.record(Span::wait_full, read.count, begin);

    begin = track.now();
    const unsigned char* const stage = shared + read.index * stage_bytes;
    gemm::multiply_k_tile(accumulator, stage, stage + a_bytes, read.count > 0);
    if constexpr (broken == Break::early_release) release();
    ptx::wgmma_wait<0>(accumulator);
    if constexpr (broken != Break::early_release) release();
    track.record(Span::multiply, read.count, begin);
    read.advance(stages);
  }

  const auto begin = track.now();
#pragma unroll
  for (int i = 0; i < tile_m / 64; ++i) {
    gemm::store_accumulator<tile_n>(accumulator[i], p, first_row + 64 * i, first_column);
  }
  track.record(Span::epilogue, 0, begin);
}

template <int tile_m, int tile_n, Break broken = Break::none, bool traced = false>
harness::Launch prepare(device::Device& device, const gemm::Problem& problem,
                        const harness::Selection& selection) {
  const unsigned tiles_m = (problem.m + tile_m - 1) / tile_m;
  const unsigned tiles_n = (problem.n + tile_n - 1) / tile_n;
  const int stages = selection.number("stages");
  const device::LaunchShape shape{
      .grid = {tiles_m * tiles_n},
      .block = {threads},
      .shared_bytes = std::size_t(stages) * (tile_m + tile_n) * row_bytes};

  const CUtensorMap map_a = gemm::map_of_a(device, problem, tile_m);
  const CUtensorMap map_b = gemm::map_of_b(device, problem, tile_n);
  const auto kernel = gemm_ring_buffer<tile_m, tile_n, broken, traced>;
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] { device.launch(shape, kernel, map_a, map_b, problem, stages, timeline); };
}

}  // namespace

int main(int argc, char** argv) {
  const harness::Variants variants{
      {"--tile 128x128", prepare<128, 128>},
      {"--tile 64x128", prepare<64, 128>},
      {"--trace", prepare<128, 128, Break::none, true>},
      {"--break no-phase", prepare<128, 128, Break::no_phase>,
       "waits for parity 0 in every lap: reads what the last lap left (ABA)"},
      {"--break no-empty-wait", prepare<128, 128, Break::no_empty_wait>,
       "refills stages without waiting until they have been read"},
      {"--break early-release", prepare<128, 128, Break::early_release>,
       "releases a stage before the products that read it are complete"},
      {"--break empty-count-1", prepare<128, 128, Break::empty_count_1>,
       "EMPTY counts one arrival: the first warp speaks for all four"},
      {"--break empty-count-128", prepare<128, 128, Break::empty_count_128>,
       "EMPTY counts 128 arrivals and gets 4: a hang"}};
  const harness::Lesson lesson{
      .number = 4,
      .name = "ring_buffer",
      .trick = "a ring of stages: the next tiles are on their way while this one is multiplied",
      .likely_wait = "`empty`, if a stage is never released, or `full`, if its bytes never come",
      .knobs = {{"stages",
                 "k-tiles that a CTA holds at once: more hide more latency, fewer leave room for "
                 "more CTAs on an SM",
                 {"1", "2", "3", "4", "5", "6", "7", "8"},
                 "2"},
                {"tile",
                 "rows x columns of D that a CTA computes; 8 stages need the smaller one",
                 {"64x128", "128x128"},
                 "128x128"}},
      .breaks = variants.breaks(),
      .tracks = {"thread 0"},
      .tile = harness::chosen_tile,
      .prepare = variants,
  };
  return harness::run(lesson, argc, argv);
}

// Lesson 03 - tma: the copy engine fills the tile.
//
//   make lesson03 && ./lesson03
//
// In lesson 02 every thread computed addresses, loaded 16 bytes at a time into registers and stored
// them swizzled. Here one thread asks the copy engine (TMA) for a whole box: it computes the
// addresses, writes the swizzled tile straight into shared memory, fills what lies outside the
// matrix with zeros, and reports to an mbarrier when the bytes have landed.
//
// One buffer: load, wait, compute, wait. Only other CTAs on the same SM fill the gaps.
//
// The note: docs/lesson03_tma.md
#include <cuda_bf16.h>

#include "common/gemm/epilogue.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/problem.h"
#include "common/gemm/timeline.cuh"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"
#include "common/ptx/address.cuh"
#include "common/ptx/descriptor.h"
#include "common/ptx/fence.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/wgmma.cuh"

namespace {

constexpr int threads = 128;  // one warpgroup
constexpr int tile_k = 64;    // 64 bf16 = 128 bytes, one row of the swizzle pattern
constexpr int row_bytes = 2 * tile_k;

enum class Break { none, no_full_wait, no_phase_flip, no_reuse_barrier, short_expect, long_expect };

template <int tile_m, int tile_n, Break broken, bool traced>
__global__ void __launch_bounds__(threads)
    gemm_tma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             const gemm::Problem p, const gemm::Timeline timeline) {
  // The swizzle works on address bits: both tiles must start on a multiple of 1024 bytes.
  extern __shared__ __align__(1024) unsigned char shared[];
  unsigned char* const tile_a = shared;
  unsigned char* const tile_b = shared + tile_m * row_bytes;
  __shared__ ptx::Mbarrier full;

  constexpr int tile_bytes = (tile_m + tile_n) * row_bytes;
  constexpr int expected_bytes = broken == Break::short_expect  ? tile_m * row_bytes
                                 : broken == Break::long_expect ? tile_bytes + 16
                                                                : tile_bytes;

  const int tiles_n = (p.n + tile_n - 1) / tile_n;
  const int first_row = blockIdx.x / tiles_n * tile_m;
  const int first_column = blockIdx.x % tiles_n * tile_n;

  if (threadIdx.x == 0) {
    ptx::mbarrier_init(full, 1);  // one arrival a phase: thread 0's, with the bytes to come
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  gemm::Track<traced> track(timeline, 0, threadIdx.x == 0);
  float accumulator[tile_m / 64][tile_n / 2] = {};  // a wgmma is 64 rows tall
  unsigned phase = 0;

  for (int k = 0; k < p.k; k += tile_k) {
    const auto load_begin = track.now();
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(full, expected_bytes);
      ptx::tma_load_2d(tile_a, map_a, k, first_row, full);
      ptx::tma_load_2d(tile_b, map_b, k, first_column, full);
    }
    track.record(gemm::Span::load, k / tile_k, load_begin);

    const auto wait_begin = track.now();
    if constexpr (broken != Break::no_full_wait) ptx::mbarrier_wait(full, phase);
    track.record(gemm::Span::wait_full, k / tile_k, wait_begin);
    if constexpr (broken != Break::no_phase_flip) phase ^= 1;

    const auto multiply_begin = track.now();
    ptx::wgmma_fence(accumulator);
#pragma unroll
    for (int slice = 0; slice < tile_k / 16; ++slice) {
      const auto b = ptx::k_major_descriptor(ptx::shared_address(tile_b) + 32 * slice);
#pragma unroll
      for (int i = 0; i < tile_m / 64; ++i) {
        const auto a =
            ptx::k_major_descriptor(ptx::shared_address(tile_a) + 64 * row_bytes * i + 32 * slice);
        ptx::wgmma_m64k16<tile_n>(accumulator[i], a, b, true);
      }
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(accumulator);
    track.record(gemm::Span::multiply, k / tile_k, multiply_begin);
    // The other warps' products may still read the tiles that the next round overwrites.
    if constexpr (broken != Break::no_reuse_barrier) __syncthreads();
  }

  const auto epilogue_begin = track.now();
#pragma unroll
  for (int i = 0; i < tile_m / 64; ++i) {
    gemm::store_accumulator<tile_n>(accumulator[i], p, first_row + 64 * i, first_column);
  }
  track.record(gemm::Span::epilogue, 0, epilogue_begin);
}

template <int tile_m, int tile_n, Break broken = Break::none, bool traced = false>
harness::Launch prepare(device::Device& device, const gemm::Problem& problem,
                        const harness::Selection& selection) {
  const unsigned tiles_m = (problem.m + tile_m - 1) / tile_m;
  const unsigned tiles_n = (problem.n + tile_n - 1) / tile_n;
  const device::LaunchShape shape{.grid = {tiles_m * tiles_n},
                                  .block = {threads},
                                  .shared_bytes = std::size_t(tile_m + tile_n) * row_bytes};

  const CUtensorMap map_a = gemm::map_of_a(device, problem, tile_m);
  const CUtensorMap map_b = gemm::map_of_b(device, problem, tile_n);
  const auto kernel = gemm_tma<tile_m, tile_n, broken, traced>;
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] { device.launch(shape, kernel, map_a, map_b, problem, timeline); };
}

}  // namespace

int main(int argc, char** argv) {
  const harness::Variants variants{
      {"--tile 128x128", prepare<128, 128>},
      {"--tile 64x64", prepare<64, 64>},
      {"--tile 64x128", prepare<64, 128>},
      {"--tile 64x256", prepare<64, 256>},
      {"--trace", prepare<128, 128, Break::none, true>},
      {"--tile 64x64 --trace", prepare<64, 64, Break::none, true>},
      {"--tile 64x128 --trace", prepare<64, 128, Break::none, true>},
      {"--tile 64x256 --trace", prepare<64, 256, Break::none, true>},
      {"--break no-full-wait", prepare<128, 128, Break::no_full_wait>,
       "multiplies without waiting for the bytes to land"},
      {"--break no-phase-flip", prepare<128, 128, Break::no_phase_flip>,
       "waits for parity 0 in every round: from the second on, for the past"},
      {"--break no-reuse-barrier", prepare<128, 128, Break::no_reuse_barrier>,
       "lets thread 0 refill the tiles while other warps' wgmmas read them"},
      {"--break short-expect", prepare<128, 128, Break::short_expect>,
       "announces the bytes of A only: B's count towards the next phase, a hang"},
      {"--break long-expect", prepare<128, 128, Break::long_expect>,
       "announces 16 bytes too many: the phase never completes, a hang"}};
  const harness::Lesson lesson{
      .number = 3,
      .name = "tma",
      .trick = "the copy engine fills the tile; one buffer: load, wait, compute",
      .likely_wait =
          "`full`, the mbarrier that counts the tiles' bytes: a phase completes only when "
          "as many bytes have come as expect_tx announced",
      .knobs = {{"tile",
                 "rows x columns of D that a CTA computes: a larger tile reads A and B less often",
                 {"64x64", "64x128", "64x256", "128x128"},
                 "128x128"}},
      .breaks = variants.breaks(),
      .tracks = {"thread 0"},
      .tile = harness::chosen_tile,
      .prepare = variants,
  };
  return harness::run(lesson, argc, argv);
}

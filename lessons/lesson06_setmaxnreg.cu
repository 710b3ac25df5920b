// Lesson 06 - setmaxnreg: the producer gives its registers to the consumers.
//
//   make lesson06 && ./lesson06
//
// A launch gives every thread the same number of registers: 65,536 shared by all threads of an SM.
// The producer of lesson 05 needs some 24 of them, a consumer its accumulators and some 40 more. So
// the producer becomes a warpgroup, gives back what it does not need, and the consumers take it:
//
//   consumers  tile of the CTA  CTAs an SM  at launch  producer  consumer  accumulators a thread
//   1          128 x 128        2           128        24        232       128
//   2          256 x 192        1           168        24        240       192
//   3          192 x 200        1           128        32        160       100
//
// `--setmaxnreg off` runs the same tile on the launch's allocation: the compiler spills.
//
// The note: docs/lesson06_setmaxnreg.md
#include <cuda_bf16.h>

#include "common/gemm/epilogue.cuh"
#include "common/gemm/k_tile.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/problem.h"
#include "common/gemm/register_budget.h"
#include "common/gemm/ring_state.h"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"
#include "common/ptx/elect.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/registers.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/wgmma.cuh"

namespace {

using gemm::row_bytes;
using gemm::tile_k;

enum class Break { none, greedy_consumer, producer_keeps, one_consumer_counted, early_release };

template <int consumer_count>
struct Config;

template <>
struct Config<1> {
  static constexpr int tile_m = 128, tile_n = 128, stages = 3, ctas = 2;
  static constexpr gemm::RegisterBudget registers{24, 232};
};
template <>
struct Config<2> {
  static constexpr int tile_m = 256, tile_n = 192, stages = 4, ctas = 1;
  static constexpr gemm::RegisterBudget registers{24, 240};
};
template <>
struct Config<3> {
  static constexpr int tile_m = 192, tile_n = 200, stages = 4, ctas = 1;
  static constexpr gemm::RegisterBudget registers{32, 160};
};

/// A stage: a tile of A, then a tile of B.
template <int consumers>
constexpr int stage_bytes = (Config<consumers>::tile_m + Config<consumers>::tile_n) * row_bytes;

/// What all roles share.
struct Ring {
  unsigned char* buffers;
  ptx::Mbarrier* full;
  ptx::Mbarrier* empty;
};

/// Loads the k-tiles of A from `row` on and of B from `column` on; one thread runs this.
template <int consumers>
__device__ void produce(const CUtensorMap& map_a, const CUtensorMap& map_b, const Ring& ring,
                        int row, int column, int k_tiles) {
  using C = Config<consumers>;
  gemm::RingState write;
  while (write.count < k_tiles) {
    ptx::mbarrier_wait(ring.empty[write.index], write.phase ^ 1);
    unsigned char* const stage = ring.buffers + write.index * stage_bytes<consumers>;
    ptx::Mbarrier& full = ring.full[write.index];
    ptx::mbarrier_arrive_expect_tx(full, stage_bytes<consumers>);
    ptx::tma_load_2d(stage, map_a, write.count * tile_k, row, full);
    ptx::tma_load_2d(stage + C::tile_m * row_bytes, map_b, write.count * tile_k, column, full);
    write.advance(C::stages);
  }
}

/// accumulator = this consumer's rows of A times B; all its threads run this.
template <int consumers, Break broken, std::size_t blocks, std::size_t count>
__device__ void consume(float (&accumulator)[blocks][count], const Ring& ring, int k_tiles) {
  using C = Config<consumers>;
  const int consumer = threadIdx.x / 128 - 1;
  gemm::RingState read;
  gemm::RingState release;
  const auto release_stage = [&] {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(ring.empty[release.index]);
    release.advance(C::stages);
  };

  const auto multiply = [&] {
    ptx::mbarrier_wait(ring.full[read.index], read.phase);
    const unsigned char* const stage = ring.buffers + read.index * stage_bytes<consumers>;
    gemm::multiply_k_tile(accumulator, stage + consumer * int(blocks) * 64 * row_bytes,
                          stage + C::tile_m * row_bytes, read.count > 0);
    read.advance(C::stages);
  };

  if (k_tiles > 0) multiply();
  while (read.count < k_tiles) {
    multiply();
    if constexpr (broken == Break::early_release) release_stage();
    ptx::wgmma_wait<1>(accumulator);
    if constexpr (broken != Break::early_release) release_stage();
  }
  // Nobody waits for the last stage: the CTA has one tile.
  ptx::wgmma_wait<0>(accumulator);
}

template <int consumers, bool setmaxnreg, Break broken>
__global__ void __launch_bounds__(128 * (consumers + 1), Config<consumers>::ctas)
    gemm_setmaxnreg(const __grid_constant__ CUtensorMap map_a,
                    const __grid_constant__ CUtensorMap map_b, const gemm::Problem p) {
  using C = Config<consumers>;
  static_assert(gemm::is_possible(C::registers, consumers, C::ctas),
                "The registers that the roles ask for are more than the launch gives the CTA.");
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ ptx::Mbarrier full[C::stages];
  __shared__ ptx::Mbarrier empty[C::stages];

  const int tiles_n = (p.n + C::tile_n - 1) / C::tile_n;
  const int first_row = blockIdx.x / tiles_n * C::tile_m;
  const int first_column = blockIdx.x % tiles_n * C::tile_n;
  const int k_tiles = (p.k + tile_k - 1) / tile_k;
  const Ring ring{shared, full, empty};

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < C::stages; ++stage) {
      ptx::mbarrier_init(full[stage], 1);  // the producer's arrival, with expect_tx
      // One arrival of each warp of each consumer.
      ptx::mbarrier_init(empty[stage], broken == Break::one_consumer_counted ? 4 : 4 * consumers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < 128) {
    if (setmaxnreg && broken != Break::producer_keeps) {
      ptx::registers_decrease<C::registers.producer>();
    }
    if (threadIdx.x < 32 && ptx::elect_one()) {
      produce<consumers>(map_a, map_b, ring, first_row, first_column, k_tiles);
    }
  } else {
    if constexpr (setmaxnreg) {
      ptx::registers_increase<broken == Break::greedy_consumer ? 248 : C::registers.consumer>();
    }
    constexpr int blocks = C::tile_m / (64 * consumers);  // of 64 rows, a consumer
    const int own_row = first_row + (threadIdx.x / 128 - 1) * 64 * blocks;
    // Zeros, for k = 0; otherwise the first product overwrites them.
    float accumulator[blocks][C::tile_n / 2] = {};
    consume<consumers, broken>(accumulator, ring, k_tiles);
#pragma unroll
    for (int i = 0; i < blocks; ++i) {
      gemm::store_accumulator<C::tile_n>(accumulator[i], p, own_row + 64 * i, first_column);
    }
  }
}

template <int consumers, bool setmaxnreg, Break broken = Break::none>
harness::Launch prepare(device::Device& device, const gemm::Problem& problem,
                        const harness::Selection&) {
  using C = Config<consumers>;
  const unsigned tiles_m = (problem.m + C::tile_m - 1) / C::tile_m;
  const unsigned tiles_n = (problem.n + C::tile_n - 1) / C::tile_n;
  const device::LaunchShape shape{.grid = {tiles_m * tiles_n},
                                  .block = {128 * (consumers + 1)},
                                  .shared_bytes = std::size_t(C::stages) * stage_bytes<consumers>};

  const CUtensorMap map_a = gemm::map_of_a(device, problem, C::tile_m);
  const CUtensorMap map_b = gemm::map_of_b(device, problem, C::tile_n);
  const auto kernel = gemm_setmaxnreg<consumers, setmaxnreg, broken>;
  return [=, &device] { device.launch(shape, kernel, map_a, map_b, problem); };
}

template <int consumers>
constexpr harness::Tile tile_of = {Config<consumers>::tile_m, Config<consumers>::tile_n};

}  // namespace

int main(int argc, char** argv) {
  const harness::Variants variants{
      {"--consumers 2 --setmaxnreg on", prepare<2, true>},
      {"--consumers 1", prepare<1, true>},
      {"--consumers 3", prepare<3, true>},
      {"--setmaxnreg off", prepare<2, false>},
      {"--consumers 1 --setmaxnreg off", prepare<1, false>},
      {"--consumers 3 --setmaxnreg off", prepare<3, false>},
      {"--break greedy-consumer", prepare<2, true, Break::greedy_consumer>,
       "asks for 248 registers a consumer thread: a hang"},
      {"--break producer-keeps", prepare<2, true, Break::producer_keeps>,
       "the producer gives nothing back: the consumers wait for ever"},
      {"--break one-consumer-counted", prepare<2, true, Break::one_consumer_counted>,
       "EMPTY counts one consumer's warps, and two arrive"},
      {"--break early-release", prepare<2, true, Break::early_release>,
       "releases a stage before the products that read it are complete"}};
  const harness::Lesson lesson{
      .number = 6,
      .name = "setmaxnreg",
      .trick = "the producer gives its registers to the consumers: larger tiles, or more CTAs",
      .likely_wait =
          "registers that the pool does not have, or `empty`, whose count is not that of "
          "the consumers' warps",
      .knobs = {{"consumers",
                 "warpgroups that multiply; the tile, the stages and the registers go with it",
                 {"1", "2", "3"},
                 "2"},
                {"setmaxnreg",
                 "off: the same tile on the registers of the launch, and spilled accumulators",
                 {"on", "off"},
                 "on"}},
      .breaks = variants.breaks(),
      .tile =
          [](const harness::Selection& selection) {
            const int consumers = selection.number("consumers");
            return consumers == 1 ? tile_of<1> : consumers == 2 ? tile_of<2> : tile_of<3>;
          },
      .prepare = variants,
  };
  return harness::run(lesson, argc, argv);
}

// Lesson 15 - fp8_scaling: twice the FLOP for the same bytes, and what it takes to keep the
// numbers.
//
//   make lesson15 && ./lesson15
//
// An 8-bit float has half the bytes of a bf16, and the tensor cores multiply twice as many a cycle.
// So a k-tile is 128 elements, the same 128 bytes: ring, swizzle and descriptors stay as they were.
// What is lost is precision, in three places, and each has its cure here:
//
//   inputs   2 or 3 bits behind the leading one, a narrow range   scales: a factor for each row of
//   A
//                                                                 and each row of B, or one for all
//   sums     the tensor cores keep 14 bits of a sum               promotion: every few k-tiles the
//                                                                 sums are added up in fp32
//   output   as the inputs, if it is fp8                          one scale from the last step's
//                                                                 amax, or one a block of 32 or 128
//
// The note: docs/lesson15_fp8_scaling.md
#include <cuda_bf16.h>

#include <algorithm>
#include <cfloat>
#include <type_traits>

#include "common/gemm/choose_order.h"
#include "common/gemm/fp8_store.cuh"
#include "common/gemm/mainloop.cuh"
#include "common/gemm/register_budget.h"
#include "common/gemm/scaled_problem.h"
#include "common/gemm/tile_order.h"
#include "common/gemm/timeline.cuh"
#include "common/harness/fp8_experiment.h"
#include "common/harness/lesson.h"
#include "common/ptx/convert.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/math.cuh"
#include "common/ptx/named_barrier.cuh"
#include "common/ptx/registers.cuh"

namespace {

using gemm::BlockScales;
using gemm::KTiles;
using gemm::Output;
using gemm::ScaledProblem;
using gemm::Span;
using gemm::TileOrder;
using gemm::TilePosition;
using ptx::Fp8;

constexpr int consumers = 2;
constexpr int threads = 128 * (1 + consumers);  // warpgroup 0 is the producer
constexpr int tile_m = 64 * consumers;
constexpr gemm::RegisterBudget registers{40, 232};
static_assert(gemm::is_possible(registers, consumers, 1));

/// D leaves in chunks of 64 x 64, two for each consumer: one is filled while the other is stored.
constexpr int chunk_columns = 64;
constexpr int chunk_bytes = 64 * chunk_columns * sizeof(__nv_bfloat16);
constexpr int staging_bytes = 2 * chunk_bytes;

constexpr int stages_of(int tile_n) {
  return tile_n == 128 ? 6 : 4;
}

enum class Break {
  none,
  promote_in_flight,
  added_twice,
  wide_step,
  other_row,
  amax_of_output,
  amax_of_padding,
  lane_blocks
};

/// As if a slice of K were 32 elements of two bytes: it starts 64 bytes after the last one.
template <class Operands>
struct WideStep : Operands {
  template <int N>
  __device__ static void multiply(float (&d)[N / 2], std::uint64_t a, std::uint64_t b,
                                  bool accumulate) {
    const std::uint64_t step = a & 6;  // in units of 16 bytes; the tiles start on 1024
    Operands::template multiply<N>(d, a + step, b + step, accumulate);
  }
};

template <Fp8 A, Fp8 B, int tile_n, Break broken>
using Ring =
    gemm::Ring<tile_m, tile_n, stages_of(tile_n),
               std::conditional_t<broken == Break::wide_step, WideStep<gemm::Fp8Operands<A, B>>,
                                  gemm::Fp8Operands<A, B>>>;

constexpr int shared_bytes(int tile_n) {
  return stages_of(tile_n) * (tile_m + tile_n) * gemm::row_bytes + consumers * staging_bytes;
}

/// The main loop with promotion: the tensor cores never add up more than `interval` k-tiles. Then
/// their sums are added to `sum` in fp32, which starts as zeros, and they start again from nothing.
/// While this consumer waits and adds, the other one's products run.
template <Break broken, class Ring, std::size_t count>
__device__ void multiply_promoted(float (&sum)[1][count], const Ring& ring, gemm::RingState& read,
                                  int rows, int k_tiles, int interval) {
  float part[1][count] = {};
  for (int begin = 0; begin < k_tiles; begin += interval) {
    const int length = min(interval, k_tiles - begin);
    gemm::multiply_k_tiles(part, ring, read, rows, length);
    if constexpr (broken != Break::promote_in_flight) {
      gemm::finish_k_tiles(part, ring, read, length);
    } else {
      gemm::release_stage(ring, read.previous(Ring::stages));
    }
#pragma unroll
    for (std::size_t i = 0; i < count; ++i) {
      sum[0][i] += (broken == Break::added_twice && begin > 0 ? 2 : 1) * part[0][i];
    }
  }
}

// ---- The epilogue. Where a thread's elements lie: gemm::accumulator_row().

/// Z of some columns of the sums, 0 outside D, and the larger of `amax` and all |Z|.
template <Break broken, std::size_t count>
__device__ float scale_sums(float (&z)[count], const float* sum, const ScaledProblem& p, int row,
                            int column, float amax) {
  const auto row_scale = [&](int half) {
    const int own = row + gemm::accumulator_row() + 8 * half;
    if (broken == Break::amax_of_padding) return p.alpha * p.scale_a.at(own);
    return own < p.m ? p.alpha * p.scale_a.at(own) : 0;
  };
  const bool swapped = broken == Break::other_row;
  const float scale_a[2] = {row_scale(swapped), row_scale(!swapped)};
#pragma unroll
  for (int i = 0; i < static_cast<int>(count / 2); ++i) {
    const int own = column + gemm::accumulator_column() + i / 2 * 8 + i % 2;
    const float scale_b = own < p.n ? p.scale_b.at(own) : 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = i / 2 * 4 + half * 2 + i % 2;
      z[at] = scale_a[half] * scale_b * sum[at];
    }
  }
  if (p.beta != 0) gemm::add_c(z, p, row, column);
  // The copy engine filled in zeros; but times an infinity of B, a zero is NaN.
  const bool overhangs = row + 64 > p.m || column + static_cast<int>(2 * count) > p.n;
  if (overhangs && broken != Break::amax_of_padding) gemm::clear_outside(z, p, row, column);
#pragma unroll
  for (const float value : z) amax = ptx::max_or_nan(amax, fabsf(value));
  return amax;
}

/// The largest |z| of a row, `width` columns from z on; four lanes hold it, and all get the answer.
/// NaN is left out: it stays in D, and shall not take its neighbours with it.
template <Break broken, int width>
__device__ float block_amax(const float* z, int half) {
  float amax = 0;
#pragma unroll
  for (int i = 0; i < width / 4; ++i) {
    amax = fmaxf(amax, fabsf(z[i / 2 * 4 + half * 2 + i % 2]));
  }
  if constexpr (broken != Break::lane_blocks) {
    amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, 1));
    amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, 2));
  }
  return fminf(amax, FLT_MAX);
}

/// The factor of a block; the least normal number is its least, so that it can be divided by.
__device__ inline float block_factor(float amax, float largest, BlockScales blocks) {
  const float factor = fmaxf(amax * (1 / largest), FLT_MIN);
  if (blocks == BlockScales::fp32_128) return factor;
  return __uint_as_float((__float_as_uint(factor) + 0x7FFFFF) & 0x7F800000);  // rounded up
}

/// Stores the factor of the block of D at (row, column), if it lies in D.
__device__ inline void store_factor(const ScaledProblem& p, int row, int column, float factor) {
  if (row >= p.m || column >= p.n) return;
  if (p.blocks == BlockScales::ue8m0_32) {
    static_cast<std::uint8_t*>(p.block_factors)[row * p.block_pitch + column / 32] =
        __float_as_uint(factor) >> 23;
  } else {
    static_cast<float*>(p.block_factors)[row * p.block_pitch + column / 128] = factor;
  }
}

/// What z is multiplied by before it is rounded: by row half, and by 32 columns of a chunk.
using Multipliers = float[2][2];

/// Computes and stores the factors of the blocks in a chunk, or in this one and the next.
template <Break broken, BlockScales blocks>
__device__ void scale_blocks(Multipliers& multiplier, const float* z, const ScaledProblem& p,
                             int row, int column, float largest) {
  constexpr int width = gemm::block_width(blocks);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      if (part == 1 && width > 32) {
        multiplier[half][1] = multiplier[half][0];
        continue;
      }
      const float factor =
          block_factor(block_amax<broken, width>(z + 16 * part, half), largest, blocks);
      multiplier[half][part] = __fdividef(1, factor);
      if (threadIdx.x % 4 == 0) {
        store_factor(p, row + gemm::accumulator_row() + 8 * half, column + 32 * part, factor);
      }
    }
  }
}

/// Rounds and stores some columns of Z, chunk by chunk. `turn` counts those that went through
/// `staging`.
template <Break broken, Output output, std::size_t count>
__device__ void store_z(const float (&z)[count], const ScaledProblem& p, const CUtensorMap& map_d,
                        unsigned char* staging, int barrier, unsigned& turn, int row, int column) {
  constexpr float largest = output == Output::e4m3 ? 448 : 57344;
  const bool is_leader = threadIdx.x % 128 == 0;
  Multipliers multiplier = {{p.scale_d, p.scale_d}, {p.scale_d, p.scale_d}};
#pragma unroll
  for (int c = 0; c < static_cast<int>(count / 32); ++c) {
    const float* const own = z + 32 * c;
    const int chunk_column = column + chunk_columns * c;
    if constexpr (output != Output::bf16) {
      if (p.blocks == BlockScales::ue8m0_32) {
        scale_blocks<broken, BlockScales::ue8m0_32>(multiplier, own, p, row, chunk_column, largest);
      } else if (p.blocks == BlockScales::fp32_128 && c % 2 == 0 && count % 64 == 0) {
        scale_blocks<broken, BlockScales::fp32_128>(multiplier, own, p, row, chunk_column, largest);
      }
    }
    std::uint32_t pair[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float factor = output == Output::bf16 ? 1 : multiplier[i % 2][i / 8];
      pair[i] = gemm::pack<output>(factor * own[2 * i], factor * own[2 * i + 1]);
    }
    // The copy engine would write up to 15 bytes behind a row of D (gemm::overhangs_a_unit).
    if (p.n % (16 / gemm::output_bytes(output)) != 0 && chunk_column + chunk_columns > p.n) {
      gemm::store_chunk_pairs<output>(pair, p, row, chunk_column);
      continue;
    }
    unsigned char* const chunk = staging + turn++ % 2 * chunk_bytes;
    if (is_leader) ptx::bulk_wait_read<1>();  // the store before the last one has read this chunk
    ptx::named_barrier_sync(barrier, 128);
    gemm::write_chunk_pairs<output>(chunk, pair);
    ptx::fence_proxy_async();
    ptx::named_barrier_sync(barrier, 128);
    if (is_leader) {
      ptx::tma_store_2d(map_d, chunk_column, row, chunk);
      ptx::bulk_commit();
    }
  }
}

template <Fp8 A, Fp8 B, int tile_n, bool promoted, Break broken, bool traced>
__global__ void __launch_bounds__(threads, 1)
    gemm_fp8(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
             const __grid_constant__ CUtensorMap map_d, const __grid_constant__ ScaledProblem p,
             const TileOrder order, int interval, const gemm::Timeline timeline) {
  using Ring = Ring<A, B, tile_n, broken>;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ ptx::Mbarrier full[Ring::stages];
  __shared__ ptx::Mbarrier empty[Ring::stages];

  const Ring ring{shared, full, empty};
  const int k_tiles = (p.k + Ring::Operands::tile_k - 1) / Ring::Operands::tile_k;
  if (threadIdx.x == 0) {
    ring.init(4 * consumers);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  const auto for_each_tile = [&](auto function) {
    for (int index = blockIdx.x; index < order.tiles(); index += gridDim.x) {
      const TilePosition at = order.at(index);
      function(at.row * tile_m, at.column * tile_n, index);
    }
  };

  if (threadIdx.x < 128) {
    ptx::registers_decrease<registers.producer>();
    if (threadIdx.x != 0) return;
    gemm::Track<traced> track(timeline, 0, true);
    gemm::RingState write;
    for_each_tile([&](int row, int column, int index) {
      const auto begin = track.now();
      gemm::load_k_tiles(ring, write, map_a, map_b, row, column, KTiles{0, k_tiles});
      track.record(Span::load, index, begin);
    });
  } else {
    ptx::registers_increase<registers.consumer>();
    constexpr int columns = tile_n % 128 == 0 ? 128 : 64;  // whose Z is held at a time
    const int consumer = threadIdx.x / 128 - 1;
    unsigned char* const staging = shared + Ring::bytes + consumer * staging_bytes;
    gemm::Track<traced> track(timeline, 1 + consumer, threadIdx.x % 128 == 0);
    gemm::RingState read;
    unsigned turn = 0;
    float amax = 0;

    for_each_tile([&](int row, int column, int index) {
      auto begin = track.now();
      float sum[1][tile_n / 2] = {};
      if constexpr (promoted) {
        multiply_promoted<broken>(sum, ring, read, 64 * consumer, k_tiles, interval);
      } else {
        gemm::multiply_k_tiles(sum, ring, read, 64 * consumer, k_tiles);
        gemm::finish_k_tiles(sum, ring, read, k_tiles);
      }
      track.record(Span::multiply, index, begin);

      begin = track.now();
      const int own = row + 64 * consumer;
#pragma unroll
      for (int first = 0; first < tile_n; first += columns) {
        float z[columns / 2];
        amax = scale_sums<broken>(z, sum[0] + first / 2, p, own, column + first, amax);
        const auto store = [&]<Output output>() {
          store_z<broken, output>(z, p, map_d, staging, 1 + consumer, turn, own, column + first);
        };
        if (p.output == Output::bf16) store.template operator()<Output::bf16>();
        if (p.output == Output::e4m3) store.template operator()<Output::e4m3>();
        if (p.output == Output::e5m2) store.template operator()<Output::e5m2>();
      }
      track.record(Span::epilogue, index, begin);
    });
    if (broken == Break::amax_of_output) amax *= p.scale_d;
    // As integers, magnitudes order like floats, and NaN is above them all.
    const std::uint32_t bits = __reduce_max_sync(~0u, __float_as_uint(amax));
    if (threadIdx.x % 32 == 0) atomicMax(p.amax, bits);
    if (threadIdx.x % 128 == 0) ptx::bulk_wait_read<0>();
  }
}

using Kernel = void (*)(CUtensorMap, CUtensorMap, CUtensorMap, ScaledProblem, TileOrder, int,
                        gemm::Timeline);

/// Columns of a tile: as many as the registers hold, once the sums or twice.
int tile_n_of(const harness::Selection& selection) {
  const std::string& tile = selection.text("tile");
  if (tile != "auto") return std::stoi(tile.substr(tile.find('x') + 1));
  if (selection.text("promote") == "never") return 256;
  return selection.text("blocks") == "1x128" ? 128 : 192;
}

template <Fp8 A, Fp8 B, int tile_n, bool promoted>
constexpr Kernel right_kernel = gemm_fp8<A, B, tile_n, promoted, Break::none, false>;

/// The kernels of --tile auto.
template <Fp8 A, Fp8 B>
Kernel kernel_of(int tile_n, bool promoted) {
  if (!promoted) return right_kernel<A, B, 256, false>;
  return tile_n == 128 ? right_kernel<A, B, 128, true> : right_kernel<A, B, 192, true>;
}

/// The others, of e4m3 times e4m3.
Kernel e4m3_kernel_of(int tile_n, bool promoted) {
  constexpr Fp8 e4m3 = Fp8::e4m3;
  if (promoted && tile_n == 256) return right_kernel<e4m3, e4m3, 256, true>;
  if (!promoted && tile_n == 192) return right_kernel<e4m3, e4m3, 192, false>;
  if (!promoted && tile_n == 128) return right_kernel<e4m3, e4m3, 128, false>;
  return kernel_of<e4m3, e4m3>(tile_n, promoted);
}

template <Break broken, bool promoted, bool traced = false>
constexpr Kernel e4m3_kernel =
    gemm_fp8<Fp8::e4m3, Fp8::e4m3, promoted ? 192 : 256, promoted, broken, traced>;

/// A broken or the traced kernel; null if neither is asked for.
Kernel special_kernel(const harness::Selection& selection, bool promoted) {
  const std::string& broken = selection.broken();
  if (broken == "promote-in-flight") return e4m3_kernel<Break::promote_in_flight, true>;
  if (broken == "added-twice") return e4m3_kernel<Break::added_twice, true>;
  if (broken == "wide-step") return e4m3_kernel<Break::wide_step, false>;
  if (broken == "other-row") return e4m3_kernel<Break::other_row, false>;
  if (broken == "amax-of-output") return e4m3_kernel<Break::amax_of_output, false>;
  if (broken == "amax-of-padding") return e4m3_kernel<Break::amax_of_padding, false>;
  if (broken == "lane-blocks") return e4m3_kernel<Break::lane_blocks, false>;
  if (!selection.traced()) return nullptr;
  return promoted ? e4m3_kernel<Break::none, true, true> : e4m3_kernel<Break::none, false, true>;
}

Kernel kernel_for(const ScaledProblem& p, const harness::Selection& selection) {
  const int tile_n = tile_n_of(selection);
  const bool promoted = selection.text("promote") != "never";
  const bool both_e4m3 = p.type_a == Fp8::e4m3 && p.type_b == Fp8::e4m3;
  if (p.blocks == BlockScales::fp32_128 && tile_n == 192) {
    throw harness::UsageError(
        "--blocks 1x128 needs tiles of whole blocks: take --tile 128x128 or 128x256.");
  }
  if (const Kernel special = special_kernel(selection, promoted)) {
    if (!both_e4m3 || selection.text("tile") != "auto") {
      throw harness::UsageError("--break and --trace run with e4m3 times e4m3 and --tile auto.");
    }
    return special;
  }
  if (both_e4m3) return e4m3_kernel_of(tile_n, promoted);
  if (selection.text("tile") != "auto") {
    throw harness::UsageError("--tile is for e4m3 times e4m3; other types take auto.");
  }
  if (p.type_a == Fp8::e4m3) return kernel_of<Fp8::e4m3, Fp8::e5m2>(tile_n, promoted);
  if (p.type_b == Fp8::e4m3) return kernel_of<Fp8::e5m2, Fp8::e4m3>(tile_n, promoted);
  return kernel_of<Fp8::e5m2, Fp8::e5m2>(tile_n, promoted);
}

/// The tensor map of A or B, in k-tiles; for k = 0 it shows a column that nobody reads.
CUtensorMap operand_map(device::Device& device, const char* name, const std::uint8_t* matrix,
                        int rows, int k, std::int64_t pitch, int box_rows) {
  return device.encode(device::matrix_map(name, device::ElementType::u8, matrix, rows,
                                          std::max(k, 1), pitch, box_rows, gemm::row_bytes,
                                          device::Swizzle::b128));
}

CUtensorMap output_map(device::Device& device, const ScaledProblem& p) {
  const bool is_bf16 = p.output == Output::bf16;
  return device.encode(device::matrix_map(
      "D", is_bf16 ? device::ElementType::bf16 : device::ElementType::u8, p.d, p.m, p.n, p.ldd, 64,
      chunk_columns, is_bf16 ? device::Swizzle::b128 : device::Swizzle::b64));
}

harness::Launch prepare(device::Device& device, const ScaledProblem& p,
                        const harness::Selection& selection) {
  const int tile_n = tile_n_of(selection);
  const int sms = device.properties().sm_count;
  const TileOrder order = gemm::choose_order((p.m + tile_m - 1) / tile_m,
                                             (p.n + tile_n - 1) / tile_n, tile_m, tile_n, sms);
  const device::LaunchShape shape{.grid = {static_cast<unsigned>(std::min(order.tiles(), sms))},
                                  .block = {threads},
                                  .shared_bytes = static_cast<std::size_t>(shared_bytes(tile_n))};
  const Kernel kernel = kernel_for(p, selection);
  const CUtensorMap map_a = operand_map(device, "A", p.a, p.m, p.k, p.lda, tile_m);
  const CUtensorMap map_b = operand_map(device, "B", p.b, p.n, p.k, p.ldb, tile_n);
  const CUtensorMap map_d = output_map(device, p);
  const std::string& promote = selection.text("promote");
  const int interval = promote == "never" ? 0 : selection.number("promote");
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] {
    device.launch(shape, kernel, map_a, map_b, map_d, p, order, interval, timeline);
  };
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<harness::Knob> knobs = harness::fp8_knobs();
  knobs.push_back(
      {"tile",
       "rows x columns of D that a CTA computes at a time; auto: 128x256, and promoted, "
       "with twice the sums, 128x192, or 128x128 for blocks of 128",
       {"auto", "128x256", "128x192", "128x128"},
       "auto"});
  const harness::Lesson lesson{
      .number = 15,
      .name = "fp8_scaling",
      .trick = "8-bit floats: twice the FLOP for the same bytes; scales, promotion, fp8 output",
      .pitch_multiple = harness::fp8_pitch_multiple,
      .likely_wait = "`full` or `empty` of the ring",
      .knobs = knobs,
      .breaks = {{"promote-in-flight",
                  "adds the sums of the tensor cores without having waited for them"},
                 {"added-twice", "adds twice the sums of all intervals but the first"},
                 {"wide-step",
                  "goes through a k-tile in steps of 64 bytes, as if 32 elements of "
                  "fp8 were as long as of bf16"},
                 {"other-row", "scales each row by the factor of the one 8 above or below"},
                 {"amax-of-output", "takes the amax of what is stored, scale_d included"},
                 {"amax-of-padding", "takes what lies outside D into the amax"},
                 {"lane-blocks", "takes a lane's own eighth of a block for the block"}},
      .tracks = {"producer", "consumer 0", "consumer 1"},
      .tile =
          [](const harness::Selection& selection) {
            return harness::Tile{tile_m, tile_n_of(selection)};
          },
      .experiment =
          [](device::Device& device, const harness::Options& options) {
            return harness::fp8_experiment(device, options, prepare);
          },
  };
  return harness::run(lesson, argc, argv);
}

// Lesson 15 - fp8_scaling: twice the FLOP for the same bytes, and what it takes to keep the
// numbers.
//
//   make lesson15 && ./lesson15
//
// An 8-bit float has half the bytes of a bf16, and the tensor cores multiply twice as many a cycle.
// So a k-tile is 128 elements, the same 128 bytes: ring, swizzle and descriptors stay as they were.
// What is lost is precision, in three places, and each has its cure here:
//
//   inputs: 2 or 3 bits behind the leading one, a narrow range
//           scales: a factor for each row of A and each row of B, or one for all
//   sums:   the tensor cores keep 14 bits of a sum
//           promotion: every few k-tiles the sums are added up in fp32
//   output: as the inputs, if it is fp8
//           one scale from the last step's amax, or one a block of 32 or 128
//
// The tensor cores are busy for half as long as with bf16, so all that is not hidden weighs twice.
// The epilogue is the deferred one of lesson 09; the scales are loaded while the products run.
//
// The note: docs/lesson15_fp8_scaling.md
#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "common/gemm/choose_order.h"
#include "common/gemm/fp8_map.h"
#include "common/gemm/fp8_scale.cuh"
#include "common/gemm/fp8_store.cuh"
#include "common/gemm/mainloop.cuh"
#include "common/gemm/register_budget.h"
#include "common/gemm/scaled_problem.h"
#include "common/gemm/tile_order.h"
#include "common/gemm/timeline.cuh"
#include "common/harness/fp8_experiment.h"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"
#include "common/ptx/fence.cuh"
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
constexpr gemm::RegisterBudget registers{24, 240};  // the producer is one thread that counts
static_assert(gemm::is_possible(registers, consumers, 1));

constexpr int stages_of(int tile_n) {
  return tile_n == 128 ? 6 : 4;
}

/// What a consumer has put aside to be stored, in chunks of 64 x 64.
template <int tile_n>
using Tile = gemm::RoundedTile<tile_n, tile_n == 192 ? 3 : 2>;

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
  return stages_of(tile_n) * (tile_m + tile_n) * gemm::row_bytes +
         consumers * (tile_n == 192 ? Tile<192>::staging_bytes : Tile<256>::staging_bytes);
}

/// The main loop with promotion: the tensor cores never add up more than `interval` k-tiles. Then
/// their sums are added to `sum` in fp32, and they start again from nothing. While this consumer
/// waits and adds, the other one's products run.
template <Break broken, class Ring, std::size_t count, class Meanwhile>
__device__ void multiply_promoted(float (&sum)[1][count], const Ring& ring, gemm::RingState& read,
                                  int rows, int k_tiles, int interval, Meanwhile meanwhile) {
#pragma unroll
  for (float& each : sum[0]) each = 0;
  for (int begin = 0; begin < k_tiles; begin += interval) {
    const int length = min(interval, k_tiles - begin);
    __builtin_assume(length > 0);
    float part[1][count];
    ptx::leave_accumulators_undefined(part);
    gemm::multiply_k_tiles(part, ring, read, rows, length, meanwhile);
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

/// A thread's factors for a tile, loaded beside its first products and used behind the last.
template <int tile_n>
struct Factors {
  float row[2];  ///< A's, of the thread's two rows
  /// B's of two columns a chunk, which a lane keeps for all lanes of its warp. If all columns have
  /// the same, these are it.
  float column[tile_n / 64][2];
};

/// The factors of a tile's rows from `row` on and its columns from `column` on; outside D, any.
template <Break broken, int tile_n>
__device__ Factors<tile_n> load_factors(const ScaledProblem& p, int row, int column) {
  Factors<tile_n> factors;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int own =
        row + gemm::accumulator_row() + 8 * (broken == Break::other_row ? 1 - half : half);
    factors.row[half] = p.scale_a.at(broken == Break::amax_of_padding ? own : min(own, p.m - 1));
  }
#pragma unroll
  for (int i = 0; i < tile_n / 32; ++i) {
    const int own = column + i / 2 * 64 + threadIdx.x % 32 * 2 + i % 2;
    factors.column[i / 2][i % 2] = p.scale_b.at(min(own, p.n - 1));
  }
  return factors;
}

/// Makes Z of the sums, for D from (row, column) on, 0 outside D. Returns the larger of `amax` and
/// all |Z|.
template <Break broken, int tile_n>
__device__ float make_z(float (&z)[tile_n / 2], const Factors<tile_n>& factors,
                        const ScaledProblem& p, int row, int column, float amax) {
  const bool by_column = p.scale_b.step != 0;
  float row_factor[2] = {p.alpha * factors.row[0], p.alpha * factors.row[1]};
  if (!by_column) {
    for (float& factor : row_factor) factor *= factors.column[0][0];
  }
  // The copy engine filled in zeros; but times an infinity of B, a zero is NaN.
  const bool overhangs =
      broken != Break::amax_of_padding && (row + 64 > p.m || column + tile_n > p.n);
  if (!by_column && p.beta == 0 && !overhangs) {  // straight on: there is little to do
    gemm::scale_rows(z, row_factor);
    return gemm::max_magnitude(z, amax);
  }
  gemm::for_each_chunk(z, [&](float(&chunk)[32], int c) {
    if (by_column) {
      float own[2] = {};
#pragma unroll
      for (int candidate = 0; candidate < tile_n / 64; ++candidate) {
        for (int i = 0; i < 2; ++i) own[i] = c == candidate ? factors.column[candidate][i] : own[i];
      }
      gemm::scale_chunk(chunk, row_factor, own);
    } else {
      gemm::scale_rows(chunk, row_factor);
    }
    if (p.beta != 0) gemm::add_c(chunk, p, row, column + 64 * c);
    if (overhangs) gemm::clear_outside(chunk, p, row, column + 64 * c);
    amax = gemm::max_magnitude(chunk, amax);
  });
  return amax;
}

/// Rounds Z into `tile`, chunk by chunk.
template <Break broken, int tile_n>
__device__ void round_z(Tile<tile_n>& tile, const float (&z)[tile_n / 2], const ScaledProblem& p,
                        int row, int column) {
  if (p.output == Output::bf16) {
#pragma unroll
    for (int c = 0; c < tile_n / 64; ++c) gemm::pack_chunk_bf16(tile.chunk(c), z + 32 * c);
    return;
  }
  constexpr bool whole = broken != Break::lane_blocks;
  const float largest = p.output == Output::e4m3 ? 448 : 57344;
  gemm::Multipliers multiplier = {{p.scale_d, p.scale_d}, {p.scale_d, p.scale_d}};
#pragma unroll
  for (int c = 0; c < tile_n / 64; ++c) {
    const float* const own = z + 32 * c;
    if (p.blocks == BlockScales::ue8m0_32) {
      gemm::scale_blocks<whole, BlockScales::ue8m0_32>(multiplier, own, p, row, column + 64 * c,
                                                       largest);
    } else if (p.blocks == BlockScales::fp32_128 && c % 2 == 0 && tile_n % 128 == 0) {
      gemm::scale_blocks<whole, BlockScales::fp32_128>(multiplier, own, p, row, column + 64 * c,
                                                       largest);
    }
    if (p.output == Output::e4m3) {
      gemm::pack_chunk_fp8<Fp8::e4m3>(tile.chunk(c), own, multiplier);
    } else {
      gemm::pack_chunk_fp8<Fp8::e5m2>(tile.chunk(c), own, multiplier);
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
  // Of K = 0 there is one k-tile, behind the last column: the copy engine fills in zeros.
  const int k_tiles = max(1, (p.k + Ring::Operands::tile_k - 1) / Ring::Operands::tile_k);
  __builtin_assume(k_tiles > 0);
  if (threadIdx.x == 0) {
    ring.init(4 * consumers);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  const auto for_each_tile = [&](auto function) {
    for (int index = blockIdx.x; index < order.tiles(); index += gridDim.x) function(index);
  };

  // A shuffle tells the compiler that all lanes have the same: what follows from it, descriptors
  // and addresses, is then computed once a warp.
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    ptx::registers_decrease<registers.producer>();
    if (threadIdx.x != 0) return;
    gemm::Track<traced> track(timeline, 0, true);
    gemm::RingState write;
    for_each_tile([&](int index) {
      const auto begin = track.now();
      const TilePosition at = order.at(index);
      gemm::load_k_tiles(ring, write, map_a, map_b, at.row * tile_m, at.column * tile_n,
                         KTiles{p.k == 0, k_tiles});
      track.record(Span::load, index, begin);
    });
  } else {
    ptx::registers_increase<registers.consumer>();
    // Twice the sums leave no registers for a tile that waits.
    constexpr bool deferred = !promoted || tile_n == 128;
    const int consumer = warpgroup - 1;
    unsigned char* const staging = shared + Ring::bytes + consumer * Tile<tile_n>::staging_bytes;
    gemm::Track<traced> track(timeline, 1 + consumer, threadIdx.x % 128 == 0);
    gemm::RingState read;
    Tile<tile_n> tile;
    float amax = 0;
    const auto store_next = [&] { tile.store_next(p, map_d, staging); };

    for_each_tile([&](int index) {
      auto begin = track.now();
      // What runs beside the products. Where a tile lies need not be known before they begin.
      int row = 0, column = 0;
      Factors<tile_n> factors;
      bool is_placed = false;
      const auto meanwhile = [&] {
        const bool is_first = !is_placed;
        is_placed = true;
        if (is_first) {
          const TilePosition at = order.at(index);
          row = at.row * tile_m + 64 * consumer;
          column = at.column * tile_n;
          factors = load_factors<broken, tile_n>(p, row, column);
        } else if (deferred && tile.waits()) {
          store_next();
        }
      };
      float sum[1][tile_n / 2];
      if constexpr (promoted) {
        multiply_promoted<broken>(sum, ring, read, 64 * consumer, k_tiles, interval, meanwhile);
      } else {
        ptx::leave_accumulators_undefined(sum);
        gemm::multiply_k_tiles(sum, ring, read, 64 * consumer, k_tiles, meanwhile);
        gemm::finish_k_tiles(sum, ring, read, k_tiles);
      }
      track.record(Span::multiply, index, begin);

      begin = track.now();
      while (deferred && tile.waits()) store_next();  // K has fewer k-tiles than a tile has chunks
      tile.begin(row, column);
      amax = make_z<broken>(sum[0], factors, p, row, column, amax);
      round_z<broken>(tile, sum[0], p, row, column);
      if constexpr (!deferred) tile.store_all(p, map_d, staging);
      track.record(Span::epilogue, index, begin);
    });
    while (deferred && tile.waits()) store_next();  // there is no next tile
    if (broken == Break::amax_of_output) amax *= p.scale_d;
    // As integers, magnitudes order like floats, and NaN is above them all.
    const std::uint32_t bits = __reduce_max_sync(~0u, __float_as_uint(amax));
    if (threadIdx.x % 32 == 0) atomicMax(p.amax, bits);
    gemm::finish_warp_stores();
  }
}

// ---- The host.

bool promotes(const harness::Selection& selection) {
  return selection.text("promote") != "never";
}

template <Fp8 A, Fp8 B, int tile_n, bool promoted, Break broken = Break::none, bool traced = false>
harness::Launch prepare(device::Device& device, const ScaledProblem& p,
                        const harness::Selection& selection) {
  if (promoted != promotes(selection)) {
    throw harness::UsageError(promoted ? "This variant promotes: take --promote 1, 2, 4 or 8."
                                       : "This variant does not promote: take --promote never.");
  }
  if (p.blocks == BlockScales::fp32_128 && tile_n == 192) {
    throw harness::UsageError(
        "--blocks 1x128 needs tiles of whole blocks: take --tile 128x128 or 128x256.");
  }
  const int sms = device.properties().sm_count;
  const TileOrder order = gemm::choose_order((p.m + tile_m - 1) / tile_m,
                                             (p.n + tile_n - 1) / tile_n, tile_m, tile_n, sms);
  const device::LaunchShape shape{.grid = {static_cast<unsigned>(std::min(order.tiles(), sms))},
                                  .block = {threads},
                                  .shared_bytes = shared_bytes(tile_n)};
  const CUtensorMap map_a = gemm::operand_map(device, "A", p.a, p.m, p.k, p.lda, tile_m);
  const CUtensorMap map_b = gemm::operand_map(device, "B", p.b, p.n, p.k, p.ldb, tile_n);
  const CUtensorMap map_d = gemm::output_map(device, p);
  const int interval = promoted ? selection.number("promote") : 0;
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] {
    device.launch(shape, gemm_fp8<A, B, tile_n, promoted, broken, traced>, map_a, map_b, map_d, p,
                  order, interval, timeline);
  };
}

/// Columns of a tile: as many as the registers hold, once the sums or twice.
int tile_n_of(const harness::Selection& selection) {
  const std::string& tile = selection.text("tile");
  if (tile != "auto") return std::stoi(tile.substr(tile.find('x') + 1));
  if (!promotes(selection)) return 256;
  return selection.text("blocks") == "1x128" ? 128 : 192;
}

/// --tile auto.
template <Fp8 A, Fp8 B>
harness::Launch prepare_auto(device::Device& device, const ScaledProblem& p,
                             const harness::Selection& selection) {
  const int tile_n = tile_n_of(selection);
  const auto prepare_it = tile_n == 256   ? prepare<A, B, 256, false>
                          : tile_n == 192 ? prepare<A, B, 192, true>
                                          : prepare<A, B, 128, true>;
  return prepare_it(device, p, selection);
}

/// e4m3 times e4m3, promoted or not.
template <int tile_n, int promoted_tile_n = tile_n, bool traced = false>
harness::Launch prepare_e4m3(device::Device& device, const ScaledProblem& p,
                             const harness::Selection& selection) {
  constexpr Fp8 e4m3 = Fp8::e4m3;
  const auto prepare_it = promotes(selection)
                              ? prepare<e4m3, e4m3, promoted_tile_n, true, Break::none, traced>
                              : prepare<e4m3, e4m3, tile_n, false, Break::none, traced>;
  return prepare_it(device, p, selection);
}

template <Break broken, bool promoted>
constexpr auto prepare_broken =
    prepare<Fp8::e4m3, Fp8::e4m3, promoted ? 192 : 256, promoted, broken>;

}  // namespace

int main(int argc, char** argv) {
  constexpr Fp8 e4m3 = Fp8::e4m3, e5m2 = Fp8::e5m2;
  const harness::VariantsOf<const ScaledProblem&> variants{
      {"--type-a e4m3 --type-b e4m3 --tile auto", prepare_auto<e4m3, e4m3>},
      {"--type-b e5m2", prepare_auto<e4m3, e5m2>},
      {"--type-a e5m2", prepare_auto<e5m2, e4m3>},
      {"--type-a e5m2 --type-b e5m2", prepare_auto<e5m2, e5m2>},
      {"--tile 128x256", prepare_e4m3<256>},
      {"--tile 128x192", prepare_e4m3<192>},
      {"--tile 128x128", prepare_e4m3<128>},
      {"--trace", prepare_e4m3<256, 192, true>},
      {"--break promote-in-flight", prepare_broken<Break::promote_in_flight, true>,
       "adds the sums of the tensor cores without having waited for them"},
      {"--break added-twice", prepare_broken<Break::added_twice, true>,
       "adds twice the sums of all intervals but the first"},
      {"--break wide-step", prepare_broken<Break::wide_step, false>,
       "goes through a k-tile in steps of 64 bytes, as if 32 elements of fp8 were as long as of "
       "bf16"},
      {"--break other-row", prepare_broken<Break::other_row, false>,
       "scales each row by the factor of the one 8 above or below"},
      {"--break amax-of-output", prepare_broken<Break::amax_of_output, false>,
       "takes the amax of what is stored, scale_d included"},
      {"--break amax-of-padding", prepare_broken<Break::amax_of_padding, false>,
       "takes what lies outside D into the amax"},
      {"--break lane-blocks", prepare_broken<Break::lane_blocks, false>,
       "takes a lane's own eighth of a block for the block"}};
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
      .breaks = variants.breaks(),
      .tracks = {"producer", "consumer 0", "consumer 1"},
      .tile =
          [](const harness::Selection& selection) {
            return harness::Tile{tile_m, tile_n_of(selection)};
          },
      .experiment =
          [&](device::Device& device, const harness::Options& options) {
            return harness::fp8_experiment(device, options, variants);
          },
  };
  return harness::run(lesson, argc, argv);
}

// Lesson 11 - stream_k: the last wave is cut along K, and everybody gets the same.
//
//   make lesson11 && ./lesson11 --m 2176 --n 2176
//
// 150 tiles on 132 SMs take two waves, and in the second one 114 SMs have nothing to do. Stream-K
// (common/gemm/stream_k.h) lays the k-tiles of the tiles end to end on a tape and cuts it into
// equal stretches. A cut may fall inside a tile: then one CTA computes the tile's first k-tiles and
// gives its sums away, in fp32 through global memory; the CTA that computes the last ones owns the
// tile, waits for the sums, adds them to its own, and stores D.
//
// It costs a round trip of 128 KiB a piece. So it is for the tail only, or for problems with fewer
// tiles than SMs: see --split.
//
// The note: docs/lesson11_stream_k.md
#include <cuda_bf16.h>

#include <memory>
#include <vector>

#include "common/gemm/choose_order.h"
#include "common/gemm/mainloop.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/problem.h"
#include "common/gemm/register_budget.h"
#include "common/gemm/store_tile.cuh"
#include "common/gemm/stream_k.h"
#include "common/gemm/tile_order.h"
#include "common/gemm/timeline.cuh"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"
#include "common/ptx/fence.cuh"
#include "common/ptx/flag.cuh"
#include "common/ptx/registers.cuh"

namespace {

using gemm::Piece;
using gemm::Span;
using gemm::StreamKPlan;
using gemm::tile_k;
using gemm::TileOrder;
using gemm::TilePosition;

constexpr int consumers = 2;
constexpr int threads = 128 * (1 + consumers);  // warpgroup 0 is the producer
constexpr int stages = 4;
constexpr int tile_m = 128;
constexpr int tile_n = 256;
constexpr gemm::RegisterBudget registers{56, 224};
static_assert(gemm::is_possible(registers, consumers, 1));

using Ring = gemm::Ring<tile_m, tile_n, stages>;
constexpr int shared_bytes = Ring::bytes + consumers * gemm::Staging::bytes;

constexpr int sums = tile_n / 2;  // of a thread: a consumer has 64 rows of the tile
using Accumulator = float[1][sums];

enum class Break {
  none,
  flag_not_reset,
  relaxed_flag,
  early_flag,
  no_barrier_behind_flag,
  contributor_forgotten
};

/// How the pieces of a tile come together. Ordered: the owner adds them in the order of K, and the
/// bits of D are the same in each run. Atomic: each contributor adds to one place, in any order.
enum class Fixup { ordered, atomic };

/// From which end a CTA walks its stretch of the tape.
enum class Walk { backwards, forwards };

/// In global memory. A unit has one place for sums: it gives away one piece at the most. Flags are
/// 0 before a launch, and after it again.
struct Workspace {
  float4* sums;          ///< [unit][consumer][sums / 4][128 threads]; with Fixup::atomic all zero
  std::uint32_t* flags;  ///< [unit][consumer]

  __device__ float4* sums_of(int unit) const {
    const int consumer = threadIdx.x / 128 - 1;
    return sums + (unit * consumers + consumer) * (sums_per_thread / 4 * 128) + threadIdx.x % 128;
  }
  __device__ std::uint32_t* flag_of(int unit) const {
    return flags + unit * consumers + threadIdx.x / 128 - 1;
  }
  static constexpr int sums_per_thread = tile_n / 2;
};

/// Gives this consumer's sums of a piece to the tile's owner; all 128 threads.
template <Fixup fixup, Break broken>
__device__ void give_away(const Accumulator& accumulator, const StreamKPlan& plan, int tile,
                          const Workspace& workspace, int barrier) {
  const int unit = blockIdx.x;
  const int place = fixup == Fixup::ordered ? unit : gemm::owner_of(plan, unit, tile);
  float4* const to = workspace.sums_of(place);
  if (broken == Break::early_flag && threadIdx.x % 128 == 0) {
    ptx::add_release(workspace.flag_of(place), 1);
  }
#pragma unroll
  for (int i = 0; i < sums / 4; ++i) {
    const float* const four = accumulator[0] + 4 * i;
    const float4 value{four[0], four[1], four[2], four[3]};
    if constexpr (fixup == Fixup::ordered) {
      to[i * 128] = value;
    } else {
      ptx::add_float4(to + i * 128, value);
    }
  }
  // All have written; one tells.
  ptx::named_barrier_sync(barrier, 128);
  if (broken != Break::early_flag && threadIdx.x % 128 == 0) {
    ptx::add_release(workspace.flag_of(place), 1);
  }
}

/// Waits until `flag` counts `expected`, and sets it back.
template <Break broken>
__device__ void await_flag(std::uint32_t* flag, std::uint32_t expected, int barrier) {
  if (threadIdx.x % 128 == 0) {
    if constexpr (broken == Break::relaxed_flag) {
      while (ptx::load_relaxed(flag) != expected) {
      }
    } else {
      while (ptx::load_acquire(flag) != expected) {
      }
    }
    // Nobody else looks at it before the next launch.
    if constexpr (broken != Break::flag_not_reset) ptx::store_relaxed(flag, 0);
  }
  if constexpr (broken != Break::no_barrier_behind_flag) ptx::named_barrier_sync(barrier, 128);
}

/// Adds what the others have computed of this tile to this consumer's accumulators.
template <Fixup fixup, Break broken>
__device__ void take_over(Accumulator& accumulator, const StreamKPlan& plan, int tile,
                          const Workspace& workspace, int barrier) {
  const int unit = blockIdx.x;
  const auto add = [&](float4* from) {
#pragma unroll
    for (int i = 0; i < sums / 4; ++i) {
      const float4 four = from[i * 128];
      accumulator[0][4 * i] += four.x;
      accumulator[0][4 * i + 1] += four.y;
      accumulator[0][4 * i + 2] += four.z;
      accumulator[0][4 * i + 3] += four.w;
    }
  };
  std::uint32_t contributors = 0;
  gemm::ContributorWalk walk(plan, unit, tile);
  for (int other = 0; walk.next(other);) {
    ++contributors;
    if (broken == Break::contributor_forgotten && contributors > 1) break;
    if constexpr (fixup == Fixup::ordered) {
      await_flag<broken>(workspace.flag_of(other), 1, barrier);
      add(workspace.sums_of(other));
    }
  }
  if constexpr (fixup == Fixup::atomic) {
    await_flag<broken>(workspace.flag_of(unit), contributors, barrier);
    float4* const from = workspace.sums_of(unit);
    add(from);
#pragma unroll
    for (int i = 0; i < sums / 4; ++i) from[i * 128] = {};  // for the next launch
  }
}

template <Fixup fixup, Break broken, Walk direction, bool traced>
__global__ void __launch_bounds__(threads, 1)
    gemm_stream_k(const __grid_constant__ CUtensorMap map_a,
                  const __grid_constant__ CUtensorMap map_b,
                  const __grid_constant__ CUtensorMap map_d, const gemm::Problem p,
                  const StreamKPlan plan, const TileOrder order, const Workspace workspace,
                  const gemm::Timeline timeline) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ ptx::Mbarrier full[stages];
  __shared__ ptx::Mbarrier empty[stages];

  const Ring ring{shared, full, empty};
  constexpr bool forwards = direction == Walk::forwards;

  if (threadIdx.x == 0) {
    ring.init(4 * consumers);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < 128) {
    ptx::registers_decrease<registers.producer>();
    if (threadIdx.x != 0) return;
    gemm::Track<traced> track(timeline, 0, true);
    gemm::RingState write;
    // Each role has a walk of its own: one for both would live across setmaxnreg, and be spilled.
    gemm::PieceWalk walk(plan, blockIdx.x, forwards);
    for (Piece piece; walk.next(piece);) {
      const TilePosition at = order.at(piece.tile);
      const auto begin = track.now();
      gemm::load_k_tiles(ring, write, map_a, map_b, at.row * tile_m, at.column * tile_n,
                         {piece.k_begin, piece.k_count});
      track.record(Span::load, piece.tile, begin);
    }
  } else {
    ptx::registers_increase<registers.consumer>();
    const int consumer = threadIdx.x / 128 - 1;
    const int own_rows = 64 * consumer;  // the tile's rows above this consumer's
    const gemm::Staging staging{shared + Ring::bytes + consumer * gemm::Staging::bytes,
                                1 + consumer};
    gemm::Track<traced> track(timeline, 1 + consumer, threadIdx.x % 128 == 0);
    gemm::RingState read;
    Accumulator accumulator = {};

    gemm::PieceWalk walk(plan, blockIdx.x, forwards);
    for (Piece piece; walk.next(piece);) {
      auto begin = track.now();
      gemm::multiply_k_tiles(accumulator, ring, read, own_rows, piece.k_count);
      gemm::finish_k_tiles(accumulator, ring, read, piece.k_count);
      track.record(Span::multiply, piece.tile, begin);

      begin = track.now();
      if (!piece.is_last(plan.k_tiles)) {
        give_away<fixup, broken>(accumulator, plan, piece.tile, workspace, staging.barrier);
        track.record(Span::store, piece.tile, begin);
        continue;
      }
      if (!piece.is_first()) {
        take_over<fixup, broken>(accumulator, plan, piece.tile, workspace, staging.barrier);
        track.record(Span::wait_turn, piece.tile, begin);
        begin = track.now();
      }
      const TilePosition at = order.at(piece.tile);
      gemm::store_tile(accumulator, p, map_d, staging, at.row * tile_m + own_rows,
                       at.column * tile_n);
      track.record(Span::epilogue, piece.tile, begin);
    }
    gemm::finish_stores();
  }
}

/// Which place of D a tile has, and which CTA computes what of it.
struct Schedule {
  TileOrder order;
  StreamKPlan plan;
};

Schedule schedule_for(const gemm::Problem& problem, const harness::Selection& selection, int ctas) {
  using gemm::Split;
  const std::string& split = selection.text("split");
  const Split how = split == "data-parallel" ? Split::data_parallel
                    : split == "half-rule"   ? Split::half_rule
                    : split == "stream-k"    ? Split::stream_k
                    : split == "hybrid"      ? Split::hybrid
                    : split == "split-k"     ? Split::split_k
                                             : Split::automatic;
  const int rows = (problem.m + tile_m - 1) / tile_m;
  const int columns = (problem.n + tile_n - 1) / tile_n;
  const int k_tiles = (problem.k + tile_k - 1) / tile_k;
  return {gemm::choose_order(rows, columns, tile_m, tile_n, ctas),
          gemm::make_plan(how, rows * columns, k_tiles, ctas, selection.number("groups"))};
}

/// What the CTAs compute, for --print-schedule.
std::vector<harness::Work> list_work(const gemm::Problem& problem,
                                     const harness::Selection& selection, int ctas) {
  const auto [order, plan] = schedule_for(problem, selection, ctas);
  std::vector<harness::Work> list;
  for (int cta = 0; cta < plan.grid(); ++cta) {
    gemm::PieceWalk walk(plan, cta, selection.text("walk") == "forwards");
    Piece piece;
    for (int number = 0; walk.next(piece); ++number) {
      const TilePosition at = order.at(piece.tile);
      list.push_back({cta, number, at.row, at.column, piece.k_begin, piece.k_count});
    }
  }
  return list;
}

template <Fixup fixup, Walk direction, Break broken = Break::none, bool traced = false>
harness::Launch prepare(device::Device& device, const gemm::Problem& problem,
                        const harness::Selection& selection) {
  // An owner waits for CTAs that must be running: no more of them than fit at a time.
  const int ctas = device.properties().sm_count;
  const auto [order, plan] = schedule_for(problem, selection, ctas);
  const device::LaunchShape shape{.grid = {static_cast<unsigned>(plan.grid())},
                                  .block = {threads},
                                  .shared_bytes = shared_bytes};

  struct Memory {
    device::Buffer sums, flags;
  };
  const auto memory = std::make_shared<Memory>();
  memory->sums = device::Buffer(device, std::size_t(ctas) * tile_m * tile_n * sizeof(float));
  memory->flags = device::Buffer(device, std::size_t(ctas) * consumers * sizeof(std::uint32_t));
  device.fill(memory->sums.address(), 0, memory->sums.bytes());
  device.fill(memory->flags.address(), 0, memory->flags.bytes());
  const Workspace workspace{static_cast<float4*>(memory->sums.address()),
                            static_cast<std::uint32_t*>(memory->flags.address())};

  const CUtensorMap map_a = gemm::map_of_a(device, problem, tile_m);
  const CUtensorMap map_b = gemm::map_of_b(device, problem, tile_n);
  const CUtensorMap map_d = gemm::chunk_map<64>(device, "D", problem.d, problem, problem.ldd);
  const auto kernel = gemm_stream_k<fixup, broken, direction, traced>;
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] {
    (void)memory;  // lives as long as the launch
    device.launch(shape, kernel, map_a, map_b, map_d, problem, plan, order, workspace, timeline);
  };
}

}  // namespace

int main(int argc, char** argv) {
  constexpr Fixup ordered = Fixup::ordered;
  constexpr Walk backwards = Walk::backwards;
  const harness::Variants variants{
      {"--fixup ordered --walk backwards", prepare<ordered, backwards>},
      {"--fixup atomic", prepare<Fixup::atomic, backwards>},
      {"--walk forwards", prepare<ordered, Walk::forwards>},
      {"--walk forwards --trace", prepare<ordered, Walk::forwards, Break::none, true>},
      {"--trace", prepare<ordered, backwards, Break::none, true>},
      {"--break flag-not-reset", prepare<ordered, backwards, Break::flag_not_reset>,
       "leaves the flags set: the next launch does not wait"},
      {"--break relaxed-flag", prepare<ordered, backwards, Break::relaxed_flag>,
       "reads the flag without acquiring what it stands for"},
      {"--break early-flag", prepare<ordered, backwards, Break::early_flag>,
       "sets the flag before the sums are written"},
      {"--break no-barrier-behind-flag", prepare<ordered, backwards, Break::no_barrier_behind_flag>,
       "one thread waits, and the others do not wait for it"},
      {"--break contributor-forgotten", prepare<ordered, backwards, Break::contributor_forgotten>,
       "takes over from one CTA where there are several"}};
  const harness::Lesson lesson{
      .number = 11,
      .name = "stream_k",
      .trick = "the last wave is cut along K, and every SM gets the same",
      .likely_wait = "a flag of another CTA's sums, if it was left set or is never set, or `full`",
      .knobs =
          {{"split",
            "what is cut: nothing, everything, the tail and a wave, each tile into equal "
            "pieces; auto: what should take least; half-rule: the tail and a wave, if the last "
            "wave is at most half full",
            {"auto", "half-rule", "data-parallel", "stream-k", "hybrid", "split-k"},
            "auto"},
           {"groups",
            "tapes: CTAs of different groups are at the same k-tiles of neighbouring tiles",
            {"1", "2", "4"},
            "1"},
           {"fixup",
            "ordered: the same bits in each run; atomic: sums are added in any order",
            {"ordered", "atomic"},
            "ordered"},
           {"walk",
            "from which end a CTA walks its stretch of the tape: forwards is right, but a chain, "
            "in which each waits for the one before it",
            {"backwards", "forwards"},
            "backwards"}},
      .breaks = variants.breaks(),
      .tracks = {"producer", "consumer 0", "consumer 1"},
      .tile = harness::fixed_tile(tile_m, tile_n),
      .prepare = variants,
      .list_work = list_work,
  };
  return harness::run(lesson, argc, argv);
}

// Lesson 16 - topk_softmax: an epilogue that needs the whole row.
//
//   make lesson16 && ./lesson16
//
// D = softmax of each row of alpha * A * B^T; or, with --mode topk, of each row the largest
// elements and their columns. Every epilogue so far needed what a tile has. This one needs the
// largest element of a row and a sum over it, and a row is wider than a tile.
//
// So all tiles of a row of tiles (a panel) are computed at the same time, by a team of CTAs. Each
// reduces its tile to a few numbers a row, writes them to global memory and waits until the others
// have written theirs. Its tile stays in the accumulators meanwhile: the logits never leave the
// registers, and D is written once.
//
// The note: docs/lesson16_topk_softmax.md
#include <cuda_bf16.h>

#include <algorithm>
#include <memory>
#include <string>

#include "common/device/concat.h"
#include "common/gemm/mainloop.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/problem.h"
#include "common/gemm/register_budget.h"
#include "common/gemm/row_statistics.h"
#include "common/gemm/row_teams.h"
#include "common/gemm/separate_softmax.cuh"
#include "common/gemm/store_tile.cuh"
#include "common/gemm/timeline.cuh"
#include "common/gemm/top_list.cuh"
#include "common/harness/lesson.h"
#include "common/harness/softmax_experiment.h"
#include "common/harness/variants.h"
#include "common/ptx/fence.cuh"
#include "common/ptx/flag.cuh"
#include "common/ptx/registers.cuh"

namespace {

using gemm::RowStatistics;
using gemm::RowTeams;
using gemm::Span;
using gemm::tile_k;
using gemm::TopKey;
using gemm::TopRows;

constexpr int consumers = 2;
constexpr int threads = 128 * (1 + consumers);  // warpgroup 0 is the producer
constexpr int stages = 4;
constexpr int tile_m = 128;
constexpr int tile_n = 256;
constexpr gemm::RegisterBudget registers{40, 232};
static_assert(gemm::is_possible(registers, consumers, 1));

using Ring = gemm::Ring<tile_m, tile_n, stages>;
constexpr int shared_bytes = Ring::bytes + consumers * gemm::Staging::bytes;

constexpr int sums = tile_n / 2;  // of a thread: a consumer has 64 rows of the tile
using Accumulator = float[1][sums];

enum class Break {
  none,
  padding_counted,
  no_max,
  counter_not_reset,
  relaxed_counter,
  early_read,
  no_barrier_behind_counter,
  one_place,
  no_final_wait,
  last_of_equals
};

/// In global memory. A CTA writes to its two places in turn: when it comes to the first one again,
/// all others have arrived with their second, and so have read the first.
struct Workspace {
  RowStatistics* statistics;  ///< [CTA][place][tile_m]
  TopKey* keys;               ///< [CTA][place][tile_m][count of the top-k]
  std::uint32_t* arrivals;    ///< [team][consumer], 0 before a launch, and after it again

  __device__ std::int64_t row(int cta, int place, int row_of_tile) const {
    return (2 * cta + place) * tile_m + row_of_tile;
  }
};

/// Calls function(round, panel, step, column) for each tile that this CTA multiplies: the tiles of
/// its first panel are round 0, and so on. Behind the last one of a panel come the others once
/// more, if `again`: a CTA keeps one tile in its registers, and computes the others a second time.
template <class Function>
__device__ void for_each_tile(const RowTeams& teams, bool again, Function function) {
  const int member = blockIdx.x % teams.members;
  const int tiles = teams.tiles_of(member);
  const int steps = again ? 2 * tiles - 1 : tiles;
  int round = 0;
  for (int panel = blockIdx.x / teams.members; panel < teams.panels; panel += teams.teams) {
    for (int step = 0; step < steps; ++step) {
      const int tile = step < tiles ? step : steps - 1 - step;
      function(round, panel, step, member + tile * teams.members);
    }
    ++round;
  }
}

/// This thread's row of the consumer's 64, for half 0 or 1: it has half the accumulators of two
/// rows, in pairs of columns (ptx::wgmma_m64k16).
__device__ int own_row(int half) {
  return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * half;
}

/// Calls function(half, column of the tile, sum) for each of this thread's sums, columns upwards.
template <class Function>
__device__ void for_each_sum(Accumulator& accumulator, Function function) {
#pragma unroll
  for (int i = 0; i < sums; ++i) {
    function(i / 2 % 2, i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2, accumulator[0][i]);
  }
}

/// Replaces the sums by e^(logit - the row's largest in this tile), and returns the statistics of
/// this thread's two rows. A column that D does not have is -inf: it is never the largest, and
/// adds 0.
template <Break broken>
__device__ void take_exponentials(Accumulator& accumulator, float alpha, int columns,
                                  RowStatistics (&own)[2]) {
  float max[2] = {-INFINITY, -INFINITY};
  for_each_sum(accumulator, [&](int half, int column, float& sum) {
    const bool exists = broken == Break::padding_counted || column < columns;
    sum = exists ? alpha * sum : -INFINITY;
    max[half] = fmaxf(max[half], sum);
  });
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    for (int lanes = 1; lanes < 4; lanes *= 2) {  // the four lanes of a row
      max[half] = fmaxf(max[half], __shfl_xor_sync(~0U, max[half], lanes));
    }
    own[half] = {broken == Break::no_max ? 0 : max[half], 0};
  }
  for_each_sum(accumulator, [&](int half, int, float& sum) {
    sum = gemm::exp_of(sum - gemm::reference(own[half].max));
    own[half].sum += sum;
  });
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    for (int lanes = 1; lanes < 4; lanes *= 2) {
      own[half].sum += __shfl_xor_sync(~0U, own[half].sum, lanes);
    }
  }
}

/// Puts the tile's logits into the lists of this thread's two rows.
template <Break broken, int capacity>
__device__ void take_largest(Accumulator& accumulator, const gemm::Problem& p, int first_column,
                             gemm::TopList<capacity> (&lists)[2]) {
  for_each_sum(accumulator, [&](int half, int column, float& sum) {
    column += first_column;
    const int name = broken == Break::last_of_equals ? p.n - 1 - column : column;
    if (column < p.n) lists[half].insert(gemm::make_key(p.alpha * sum, name));
  });
}

/// Says that this consumer has written what it has of the team's panel number `round`, and waits
/// until all members have.
template <Break broken>
__device__ void await_team(const RowTeams& teams, std::uint32_t* arrivals, int round, int barrier) {
  const int team = blockIdx.x / teams.members;
  // Once for each panel, and once more behind the last: that sets the counter back.
  const std::uint32_t all = (teams.panels_of(team) + 1) * teams.members;
  ptx::named_barrier_sync(barrier, 128);
  if (threadIdx.x % 128 == 0) {
    ptx::count_release(arrivals, all - 1);
    const std::uint32_t expected = (round + 1) * teams.members;
    if constexpr (broken == Break::relaxed_counter) {
      while (ptx::load_relaxed(arrivals) < expected) {
      }
    } else if constexpr (broken != Break::early_read) {
      while (ptx::load_acquire(arrivals) < expected) {
      }
    }
  }
  if constexpr (broken != Break::no_barrier_behind_counter) ptx::named_barrier_sync(barrier, 128);
}

/// Behind a team's last panel. Whoever comes last has seen that nobody waits any more, and sets the
/// counter back by counting.
__device__ void leave_team(const RowTeams& teams, std::uint32_t* arrivals) {
  const int team = blockIdx.x / teams.members;
  const std::uint32_t all = (teams.panels_of(team) + 1) * teams.members;
  if (threadIdx.x % 128 == 0) ptx::count_release(arrivals, all - 1);
}

/// The statistics of a row from those of all members, always in the same order: four lanes share
/// the members.
__device__ RowStatistics gather(const RowTeams& teams, const Workspace& workspace, int place,
                                int row_of_tile) {
  const int first = blockIdx.x / teams.members * teams.members;
  RowStatistics row;
  for (int member = threadIdx.x % 4; member < teams.members; member += 4) {
    row = merge(row, workspace.statistics[workspace.row(first + member, place, row_of_tile)]);
  }
#pragma unroll
  for (int lanes = 1; lanes < 4; lanes *= 2) {
    row = merge(row, {__shfl_xor_sync(~0U, row.max, lanes), __shfl_xor_sync(~0U, row.sum, lanes)});
  }
  return row;
}

/// Merges the members' lists and writes the outputs. The consumer's 64 rows are dealt out to the
/// warps of all members; lane i reads the lists of the members i, i + 32, ...
template <Break broken, int capacity>
__device__ void finish_top_rows(const RowTeams& teams, const Workspace& workspace, int place,
                                int panel, int own_rows, const gemm::Problem& p,
                                const TopRows& top) {
  const int member = blockIdx.x % teams.members;
  const int first = blockIdx.x - member;
  const int warp = threadIdx.x % 128 / 32;
  for (int row = 4 * member + warp; row < 64; row += 4 * teams.members) {
    const int row_of_tile = own_rows + row;
    if (panel * tile_m + row_of_tile >= p.m) break;
    gemm::TopList<capacity> list;
    for (int other = threadIdx.x % 32; other < teams.members; other += 32) {
      const TopKey* const keys =
          workspace.keys + workspace.row(first + other, place, row_of_tile) * top.count;
      for (int i = 0; i < top.count; ++i) list.insert(keys[i]);
    }
    list = gemm::merge_lanes<32>(list);
    if constexpr (broken == Break::last_of_equals) {
      for (TopKey& key : list.keys) {
        key = gemm::make_key(gemm::value_of(key), p.n - 1 - gemm::column_of(key));
      }
    }
    gemm::write_top_row(top, panel * tile_m + row_of_tile, list);
  }
}

/// `capacity` of the top-k's lists; 0: softmax.
template <int capacity, Break broken, bool traced>
__global__ void __launch_bounds__(threads, 1)
    gemm_softmax(const __grid_constant__ CUtensorMap map_a,
                 const __grid_constant__ CUtensorMap map_b,
                 const __grid_constant__ CUtensorMap map_d, const gemm::Problem p,
                 const RowTeams teams, const TopRows top, const Workspace workspace,
                 const gemm::Timeline timeline) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ ptx::Mbarrier full[stages];
  __shared__ ptx::Mbarrier empty[stages];

  const Ring ring{shared, full, empty};
  const int k_tiles = (p.k + tile_k - 1) / tile_k;
  constexpr bool is_softmax = capacity == 0;

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
    for_each_tile(teams, is_softmax, [&](int, int panel, int, int column) {
      const auto begin = track.now();
      gemm::load_k_tiles(ring, write, map_a, map_b, panel * tile_m, column * tile_n, {0, k_tiles});
      track.record(Span::load, panel * teams.columns + column, begin);
    });
  } else {
    ptx::registers_increase<registers.consumer>();
    const int consumer = threadIdx.x / 128 - 1;
    const int own_rows = 64 * consumer;  // the tile's rows above this consumer's
    const int last_step = teams.tiles_of(blockIdx.x % teams.members) - 1;  // that sees a new tile
    const gemm::Staging staging{shared + Ring::bytes + consumer * gemm::Staging::bytes,
                                1 + consumer};
    std::uint32_t* const arrivals =
        workspace.arrivals + blockIdx.x / teams.members * consumers + consumer;
    gemm::Problem plain = p;  // what is stored is finished
    plain.alpha = 1;
    plain.beta = 0;
    gemm::Track<traced> track(timeline, 1 + consumer, threadIdx.x % 128 == 0);
    gemm::RingState read;
    Accumulator accumulator;
    RowStatistics row[2];                               // of a softmax, of what was seen so far
    gemm::TopList<is_softmax ? 1 : capacity> lists[2];  // of a top-k, likewise

    for_each_tile(teams, is_softmax, [&](int round, int panel, int step, int column) {
      const int tile = panel * teams.columns + column;
      const int place = broken == Break::one_place ? 0 : round % 2;
      const auto own_place = [&](int half) {
        return workspace.row(blockIdx.x, place, own_rows + own_row(half));
      };
      auto begin = track.now();
      if (k_tiles == 0) for_each_sum(accumulator, [](int, int, float& sum) { sum = 0; });
      gemm::multiply_k_tiles(accumulator, ring, read, own_rows, k_tiles);
      gemm::finish_k_tiles(accumulator, ring, read, k_tiles);
      track.record(Span::multiply, tile, begin);

      begin = track.now();
      if constexpr (is_softmax) {
        RowStatistics own[2];
        take_exponentials<broken>(accumulator, p.alpha, p.n - column * tile_n, own);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (step <= last_step) row[half] = step == 0 ? own[half] : merge(row[half], own[half]);
          const bool writes = step == last_step && threadIdx.x % 4 == 0;
          if (writes) workspace.statistics[own_place(half)] = row[half];
        }
        track.record(Span::epilogue, tile, begin);
        if (step < last_step) return;

        if (step == last_step) {
          begin = track.now();
          await_team<broken>(teams, arrivals, round, staging.barrier);
          for (int half = 0; half < 2; ++half) {
            row[half] = gather(teams, workspace, place, own_rows + own_row(half));
          }
          track.record(Span::wait_turn, tile, begin);
        }
        begin = track.now();
        float factor[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          factor[half] = gemm::exp_of(own[half].max - gemm::reference(row[half].max)) *
                         ptx::reciprocal_approx_ftz(row[half].sum);
        }
        for_each_sum(accumulator, [&](int half, int, float& sum) { sum *= factor[half]; });
        gemm::store_tile(accumulator, plain, map_d, staging, panel * tile_m + own_rows,
                         column * tile_n);
        track.record(Span::store, tile, begin);
      } else {
        if (step == 0) lists[0] = lists[1] = {};
        take_largest<broken>(accumulator, p, column * tile_n, lists);
        track.record(Span::epilogue, tile, begin);
        if (step < last_step) return;

#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const gemm::TopList<capacity> list = gemm::merge_lanes<4>(lists[half]);
          TopKey* const to = workspace.keys + own_place(half) * top.count;
#pragma unroll
          for (int i = 0; i < capacity; ++i) {
            if (i < top.count && threadIdx.x % 4 == 0) to[i] = list.keys[i];
          }
        }
        begin = track.now();
        await_team<broken>(teams, arrivals, round, staging.barrier);
        track.record(Span::wait_turn, tile, begin);
        begin = track.now();
        finish_top_rows<broken, capacity>(teams, workspace, place, panel, own_rows, p, top);
        track.record(Span::store, tile, begin);
      }
    });
    if constexpr (broken != Break::counter_not_reset) leave_team(teams, arrivals);
    if constexpr (is_softmax && broken != Break::no_final_wait) gemm::finish_stores();
  }
}

// ---- The host.

template <int capacity, Break broken = Break::none, bool traced = false>
harness::Launch prepare(device::Device& device, const gemm::Problem& problem, const TopRows& top,
                        const harness::Selection& selection) {
  if (capacity > 0 && top.count > capacity) {
    throw harness::UsageError(device::concat("This variant keeps ", capacity,
                                             " elements of a row at the most: take --top ",
                                             capacity, " or less."));
  }
  // A member waits for CTAs that must be running: no more of them than fit at a time.
  const RowTeams teams =
      gemm::make_row_teams((problem.m + tile_m - 1) / tile_m, (problem.n + tile_n - 1) / tile_n,
                           device.properties().sm_count);
  const device::LaunchShape shape{.grid = {static_cast<unsigned>(teams.ctas())},
                                  .block = {threads},
                                  .shared_bytes = shared_bytes};

  struct Memory {
    device::Buffer rows, arrivals;
  };
  const auto memory = std::make_shared<Memory>();
  const std::size_t row_bytes = top.count == 0 ? sizeof(RowStatistics) : top.count * sizeof(TopKey);
  memory->rows = device::Buffer(device, 2 * tile_m * row_bytes * teams.ctas());
  memory->arrivals = device::Buffer(device, sizeof(std::uint32_t) * consumers * teams.teams);
  device.fill(memory->arrivals.address(), 0, memory->arrivals.bytes());
  const Workspace workspace{static_cast<RowStatistics*>(memory->rows.address()),
                            static_cast<TopKey*>(memory->rows.address()),
                            static_cast<std::uint32_t*>(memory->arrivals.address())};

  const CUtensorMap map_a = gemm::map_of_a(device, problem, tile_m);
  const CUtensorMap map_b = gemm::map_of_b(device, problem, tile_n);
  const CUtensorMap map_d = gemm::chunk_map<64>(device, "D", problem.d, problem, problem.ldd);
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] {
    (void)memory;  // lives as long as the launch
    device.launch(shape, gemm_softmax<capacity, broken, traced>, map_a, map_b, map_d, problem,
                  teams, top, workspace, timeline);
  };
}

/// A top-k by the kernel with the shortest lists that hold it.
harness::Launch prepare_top(device::Device& device, const gemm::Problem& problem,
                            const TopRows& top, const harness::Selection& selection) {
  const auto prepare_it = top.count == 1   ? prepare<1>
                          : top.count == 2 ? prepare<2>
                          : top.count <= 4 ? prepare<4>
                                           : prepare<8>;
  return prepare_it(device, problem, top, selection);
}

/// The second of two kernels, for a comparison: its logits come as bf16 from global memory.
harness::Launch prepare_separate(device::Device& device, const gemm::Problem& problem,
                                 const TopRows& top, const __nv_bfloat16* logits) {
  const device::LaunchShape shape{.grid = {static_cast<unsigned>(problem.m)},
                                  .block = {gemm::separate_threads}};
  return [=, &device] {
    if (top.count == 0) {
      device.launch(shape, gemm::softmax_row, problem, logits);
    } else {
      device.launch(shape, gemm::top_of_row, problem, logits, top);
    }
  };
}

}  // namespace

int main(int argc, char** argv) {
  const harness::VariantsOf<const gemm::Problem&, const TopRows&> variants{
      {"--mode softmax", prepare<0>},
      {"--mode topk", prepare_top},
      {"--trace", prepare<0, Break::none, true>},
      {"--mode topk --trace", prepare<8, Break::none, true>},
      {"--break padding-counted", prepare<0, Break::padding_counted>,
       "takes columns beyond N for logits of 0"},
      {"--break no-max", prepare<0, Break::no_max>, "does not subtract the largest: e^x overflows"},
      {"--break counter-not-reset", prepare<0, Break::counter_not_reset>,
       "leaves the counters set: the next launch does not wait"},
      {"--break relaxed-counter", prepare<0, Break::relaxed_counter>,
       "reads the counter without acquiring what it stands for"},
      {"--break early-read", prepare<0, Break::early_read>,
       "reads the others' statistics without waiting for them"},
      {"--break no-barrier-behind-counter", prepare<0, Break::no_barrier_behind_counter>,
       "one thread waits, and the others do not wait for it"},
      {"--break one-place", prepare<0, Break::one_place>,
       "writes a panel's statistics where the others may still read the last"},
      {"--break no-final-wait", prepare<0, Break::no_final_wait>,
       "exits while stores still read shared memory"},
      {"--mode topk --break last-of-equals", prepare<4, Break::last_of_equals>,
       "of equal elements takes the one in the highest column"}};
  const harness::Lesson lesson{
      .number = 16,
      .name = "topk_softmax",
      .trick = "softmax or top-k over whole rows: teams of CTAs agree on a row, tiles stay put",
      .likely_wait =
          "the counter of a team, if it was left set or a member never arrives, or `full`",
      .knobs =
          {{"mode",
            "softmax: D is the softmax of each row; topk: of each row the largest elements, as "
            "their softmax, and their columns",
            {"softmax", "topk"},
            "softmax"},
           {"top",
            "how many elements of a row --mode topk keeps",
            {"1", "2", "3", "4", "5", "6", "7", "8"},
            "8"}},
      .breaks = variants.breaks(),
      .tracks = {"producer", "consumer 0", "consumer 1"},
      .tile = harness::fixed_tile(tile_m, tile_n),
      .experiment =
          [&](device::Device& device, const harness::Options& options) {
            const bool is_top = options.selection.text("mode") == "topk";
            const int top = is_top ? options.selection.number("top") : 0;
            return harness::softmax_experiment(device, options, top, {variants, prepare_separate});
          },
      .omitted = {"--beta", "--ldc"},
  };
  return harness::run(lesson, argc, argv);
}

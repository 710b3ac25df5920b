// Two warpgroups go through the sections of a gemm::OrderedBarrier many times, and write down whom
// they meet there. Broken variants each take one of its guarantees away.
#include "common/gemm/ordered_barrier.cuh"
#include "common/ptx/fence.cuh"
#include "tests/kernels/ordered.h"

namespace kernels {

enum class Break { none, no_first_wait, no_second_wait, both_first, second_first, early_arrive };

/// Who is where, in shared memory.
struct Rooms {
  unsigned inside[2][2];  ///< warps in a section, of a warpgroup
  unsigned entered[2];    ///< entries so far
};

/// What a warp's lane 0 does in a section.
__device__ void visit(Rooms& rooms, Seen& seen, int section, int round, int warpgroup) {
  const int other = 1 - warpgroup;
  const unsigned number = atomicAdd(&rooms.entered[section], 1u);
  seen.entries[section][number] = {round, warpgroup};
  atomicAdd(&rooms.inside[section][warpgroup], 1u);
  if (section == 0 && atomicAdd(&rooms.inside[1][other], 0u) != 0) atomicAdd(&seen.overlaps, 1u);
  // Some time passes; more of it in section 1, where the other one then finds it if it comes early.
  const int looks = section == 0 ? 8 : 24;
  bool is_crowded = false;
  for (int i = 0; i < looks; ++i) is_crowded |= atomicAdd(&rooms.inside[section][other], 0u) != 0;
  if (is_crowded) atomicAdd(&seen.crowded[section], 1u);
  // Without atomics: only turns that are ordered by the barrier may do this.
  if (threadIdx.x % 128 == 0) seen.turns[section] = seen.turns[section] + 1;
  atomicSub(&rooms.inside[section][warpgroup], 1u);
}

template <Break broken>
__device__ void take_turns(Seen& seen) {
  __shared__ gemm::OrderedBarrierGrid grid;
  __shared__ Rooms rooms;
  const int warpgroup = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    grid.init();
    ptx::fence_mbarrier_init();
    rooms = {};
  }
  __syncthreads();

  const int column = broken == Break::both_first     ? 0
                     : broken == Break::second_first ? 1 - warpgroup
                                                     : warpgroup;
  gemm::OrderedBarrier order(grid, column);
  for (int round = 0; round < ordered_rounds; ++round) {
    for (int section = 0; section < 2; ++section) {
      const bool waits = broken != (section == 0 ? Break::no_first_wait : Break::no_second_wait);
      if (waits) order.wait();
      if (broken == Break::early_arrive) order.arrive();
      if (threadIdx.x % 32 == 0) visit(rooms, seen, section, round, warpgroup);
      if (broken != Break::early_arrive) order.arrive();
    }
  }
}

}  // namespace kernels

#define ORDERED(variant)                                                                     \
  extern "C" __global__ void __launch_bounds__(256) ordered_##variant(kernels::Seen* seen) { \
    kernels::take_turns<kernels::Break::variant>(*seen);                                     \
  }

ORDERED(none)
ORDERED(no_first_wait)
ORDERED(no_second_wait)
ORDERED(both_first)
ORDERED(second_first)
ORDERED(early_arrive)

// A warp looks up tiles with gemm::GroupSearch, as the scheduler of a grouped kernel does, and each
// lane writes down what it was told.
#include "common/gemm/group_search.cuh"
#include "tests/kernels/group_search.h"

/// Looks up tiles begin, begin + step, ..., `times` of them; found[i][lane] is what a lane was told
/// of the i-th.
extern "C" __global__ void __launch_bounds__(32)
    group_search(const gemm::Problem* groups, int count, gemm::TileShape tile, int begin, int step,
                 int times, kernels::Found (*found)[32]) {
  gemm::GroupSearch search(groups, count, tile);
  for (int i = 0; i < times; ++i) {
    const bool is_tile = search.find(begin + i * step);
    found[i][threadIdx.x] =
        is_tile ? kernels::Found{1, search.group(), search.first_tile()} : kernels::Found{};
  }
}

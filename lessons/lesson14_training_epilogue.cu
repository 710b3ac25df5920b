// Lesson 14 - training_epilogue: what a training step needs of a layer, on the same way out.
//
//   make lesson14 && ./lesson14 --pass backward --activation gelu
//
//   forward    Z = alpha * A B^T + beta * C + bias;  aux = Z;  D = activation(Z)
//   backward   D = (alpha * A B^T + beta * C) * activation'(aux);  gradient of the bias = D summed
//
// Backward, the slope of the activation is that at Z. So forward keeps Z: the aux store, a second
// matrix that leaves with D. Backward reads it as C is read.
//
// The bias' gradient is a sum over all rows of D, and no CTA has them all. Added up by atomics it
// would come out in another order, and in other bits, with every launch. Here each tile's sums go
// to a place of their own; behind its last tile each CTA waits for all others, and adds up its
// share of the columns in the order of the places: gemm::Reduce. The bits are the same each time,
// and nothing has to be set back between launches.
//
// The roles are those of lesson 13: common/gemm/fused_roles.cuh.
//
// The note: docs/lesson14_training_epilogue.md
#include <cuda_bf16.h>

#include <algorithm>
#include <iterator>

#include "common/gemm/activation.h"
#include "common/gemm/choose_order.h"
#include "common/gemm/epilogue_chain.cuh"
#include "common/gemm/fused_roles.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/tile_order.h"
#include "common/gemm/timeline.cuh"
#include "common/gemm/training_operations.cuh"
#include "common/gemm/training_problem.h"
#include "common/harness/lesson.h"
#include "common/harness/training_experiment.h"
#include "common/harness/variants.h"
#include "common/ptx/tma.cuh"

namespace {

using gemm::Activation;
using gemm::ReduceBreak;
using gemm::TrainingProblem;
namespace fused = gemm::fused;

// The chains of operations. Reduce rounds the values as StoreBf16D does, and comes before it.

template <Activation activation, ReduceBreak broken = ReduceBreak::none>
using Forward = gemm::Chain<gemm::Scale, gemm::AddC, gemm::AddBias, gemm::StoreAux,
                            gemm::Activate<activation>, gemm::Reduce<broken>, gemm::StoreBf16D>;

template <Activation activation, ReduceBreak broken = ReduceBreak::none>
using Backward = gemm::Chain<gemm::Scale, gemm::AddC, gemm::TimesSlope<activation>,
                             gemm::Reduce<broken>, gemm::StoreBf16D>;

/// Forward with two operations exchanged: a broken one.
template <Activation activation>
using AuxLast = gemm::Chain<gemm::Scale, gemm::AddC, gemm::AddBias, gemm::Activate<activation>,
                            gemm::StoreAux, gemm::Reduce<ReduceBreak::none>, gemm::StoreBf16D>;

template <class Epilogue, fused::Break broken, bool traced>
__global__ void __launch_bounds__(fused::threads, 1)
    gemm_training(const __grid_constant__ CUtensorMap map_a,
                  const __grid_constant__ CUtensorMap map_b,
                  const __grid_constant__ CUtensorMap map_c,
                  const __grid_constant__ CUtensorMap map_d,
                  const __grid_constant__ CUtensorMap map_aux,
                  const __grid_constant__ TrainingProblem p, const fused::Copies copies,
                  const gemm::TileOrder order, const gemm::Timeline timeline) {
  const bool reads_aux = p.pass == gemm::Pass::backward;
  const auto load = [&](gemm::Places to, int row, int column, ptx::Mbarrier& landed) {
    if (p.has_c()) ptx::tma_load_2d(to.at(0), map_c, column, row, landed);
    if (reads_aux) ptx::tma_load_2d(to.at(p.loads() - 1), map_aux, column, row, landed);
  };
  const auto store = [&](gemm::Places from, int row, int column) {
    if (p.overhangs_a_unit(column, 64)) return;  // the consumers have stored it themselves
    ptx::tma_store_2d(map_d, column, row, from.at(0));
    if (!reads_aux) ptx::tma_store_2d(map_aux, column, row, from.at(1));
  };
  fused::run<Epilogue, broken, traced>(map_a, map_b, p, order, timeline, copies, load, store);
}

// ---- The host.

template <class Epilogue, fused::Break broken = fused::Break::none, bool traced = false>
harness::Launch prepare(device::Device& device, const TrainingProblem& problem, Activation,
                        const harness::Selection& selection) {
  constexpr int tile_m = fused::tile_m, tile_n = fused::tile_n;
  const gemm::Problem& p = problem.product;
  const int sms = device.properties().sm_count;
  const gemm::TileOrder order = gemm::choose_order(
      (p.m + tile_m - 1) / tile_m, (p.n + tile_n - 1) / tile_n, tile_m, tile_n, sms);
  const device::LaunchShape shape{.grid = {static_cast<unsigned>(std::min(order.tiles(), sms))},
                                  .block = {fused::threads},
                                  .shared_bytes = fused::shared_bytes};

  const CUtensorMap map_a = gemm::map_of_a(device, p, tile_m);
  const CUtensorMap map_b = gemm::map_of_b(device, p, tile_n);
  const CUtensorMap map_d = gemm::output_map(device, problem);
  const CUtensorMap map_aux = gemm::chunk_map<64>(device, "aux", problem.aux, p, problem.ld_aux);
  // Nobody uses the map of a matrix that is not there.
  const CUtensorMap map_c =
      problem.has_c() ? gemm::chunk_map<64>(device, "C", p.c, p, p.ldc) : map_d;
  // Computed here: the kernel finds it in constant memory, and needs no register for it.
  const fused::Copies copies{problem.loads(), problem.stores()};
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] {
    device.launch(shape, gemm_training<Epilogue, broken, traced>, map_a, map_b, map_c, map_d,
                  map_aux, problem, copies, order, timeline);
  };
}

}  // namespace

int main(int argc, char** argv) {
  constexpr Activation relu = Activation::relu, gelu = Activation::gelu,
                       gelu_tanh = Activation::gelu_tanh, silu = Activation::silu;
  using fused::Break;
  const harness::VariantsOf<const TrainingProblem&, Activation> variants{
      {"--pass backward --activation gelu", prepare<Backward<gelu>>},
      {"--activation relu", prepare<Backward<relu>>},
      {"--activation gelu-tanh", prepare<Backward<gelu_tanh>>},
      {"--activation silu", prepare<Backward<silu>>},
      {"--pass forward", prepare<Forward<gelu>>},
      {"--pass forward --activation relu", prepare<Forward<relu>>},
      {"--pass forward --activation gelu-tanh", prepare<Forward<gelu_tanh>>},
      {"--pass forward --activation silu", prepare<Forward<silu>>},
      {"--trace", prepare<Backward<gelu>, Break::none, true>},
      {"--pass forward --trace", prepare<Forward<gelu>, Break::none, true>},
      {"--pass forward --break padded-rows", prepare<Forward<gelu, ReduceBreak::padded_rows>>,
       "with --pass forward --scalar sum: adds up the rows of the last tiles that lie outside D"},
      {"--pass forward --break aux-after-activation", prepare<AuxLast<gelu>>,
       "with --pass forward: keeps what the activation gives, in place of what it gets"},
      {"--break early-count", prepare<Backward<gelu, ReduceBreak::early_count>>,
       "counts a CTA before all its warps have written their sums"},
      {"--break relaxed-count", prepare<Backward<gelu, ReduceBreak::relaxed_count>>,
       "waits for the count of all CTAs without acquiring what they have released"}};
  const harness::Lesson lesson{
      .number = 14,
      .name = "training_epilogue",
      .trick = "aux kept forward; its slope taken and the bias' gradient summed backward",
      .likely_wait =
          "`landed`, `written` or `free` of a buffer, if a role walks another list of chunks",
      .knobs = harness::training_knobs(),
      .breaks = variants.breaks(),
      .tracks = {std::begin(fused::tracks), std::end(fused::tracks)},
      .tile = harness::fixed_tile(fused::tile_m, fused::tile_n),
      .experiment =
          [&](device::Device& device, const harness::Options& options) {
            return harness::training_experiment(device, options, variants);
          },
  };
  return harness::run(lesson, argc, argv);
}

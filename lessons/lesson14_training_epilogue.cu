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
// to a place of their own, and whoever writes the last ones adds all up in the order of their
// places: gemm::Reduce. Whoever is last, the bits are the same, and nothing has to be set back
// between launches.
//
// The roles are those of lesson 13: common/gemm/fused_roles.cuh.
//
// The note: docs/lesson14_training_epilogue.md
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <memory>

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
#include "common/ptx/elect.cuh"
#include "common/ptx/fence.cuh"
#include "common/ptx/registers.cuh"

namespace {

using gemm::Activation;
using gemm::Pass;
using gemm::ReduceBreak;
using gemm::tile_k;
using gemm::TrainingProblem;
namespace fused = gemm::fused;

enum class Break { none, padded_rows, early_count, relaxed_count, aux_after_activation };

constexpr ReduceBreak reduce_break(Break broken) {
  return broken == Break::padded_rows     ? ReduceBreak::padded_rows
         : broken == Break::early_count   ? ReduceBreak::early_count
         : broken == Break::relaxed_count ? ReduceBreak::relaxed_count
                                          : ReduceBreak::none;
}

/// The chains of operations. Reduce rounds the values as StoreBf16D does, and comes before it.
template <Pass pass, Activation activation, Break broken>
struct EpilogueOf {
  using Type =
      gemm::Chain<gemm::Scale, gemm::AddC, gemm::AddBias, gemm::StoreAux,
                  gemm::Activate<activation>, gemm::Reduce<reduce_break(broken)>, gemm::StoreBf16D>;
};
template <Activation activation>
struct EpilogueOf<Pass::forward, activation, Break::aux_after_activation> {
  using Type = gemm::Chain<gemm::Scale, gemm::AddC, gemm::AddBias, gemm::Activate<activation>,
                           gemm::StoreAux, gemm::Reduce<ReduceBreak::none>, gemm::StoreBf16D>;
};
template <Activation activation, Break broken>
struct EpilogueOf<Pass::backward, activation, broken> {
  using Type = gemm::Chain<gemm::Scale, gemm::AddC, gemm::TimesSlope<activation>,
                           gemm::Reduce<reduce_break(broken)>, gemm::StoreBf16D>;
};

/// `map_c` and `map_aux` are those of the first and second matrix that are loaded, if C is.
template <Pass pass, Activation activation, Break broken, bool traced>
__global__ void __launch_bounds__(fused::threads, 1)
    gemm_training(const __grid_constant__ CUtensorMap map_a,
                  const __grid_constant__ CUtensorMap map_b,
                  const __grid_constant__ CUtensorMap map_c,
                  const __grid_constant__ CUtensorMap map_d,
                  const __grid_constant__ CUtensorMap map_aux,
                  const __grid_constant__ TrainingProblem p, const gemm::TileOrder order,
                  const gemm::Timeline timeline) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ fused::Barriers barriers;

  const fused::Ring ring{shared, barriers.full, barriers.empty};
  const fused::Copies copies{p.loads(), p.stores()};
  const int k_tiles = (p.product.k + tile_k - 1) / tile_k;

  if (threadIdx.x == 0) {
    ring.init(4);  // the warps of one consumer: a stage belongs to one tile
    barriers.init();
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < 128) {
    ptx::registers_decrease<fused::registers.producer>();
    const int role = threadIdx.x / 32;
    if (!ptx::elect_one()) return;
    if (role == 0) {
      gemm::Track<traced> track(timeline, 0, true);
      fused::load_operands(map_a, map_b, ring, barriers.queue, k_tiles, track);
    } else if (role == 1) {
      fused::schedule_tiles(barriers.queue, order);
    } else if (role == 2) {
      fused::load_inputs(p.has_c() ? map_c : map_aux, map_aux, copies, shared, barriers);
    } else {
      gemm::Track<traced> track(timeline, 3, true);
      const auto is_direct = [&](int column) { return p.overhangs_a_unit(column, 64); };
      fused::store_outputs(map_d, map_aux, copies, shared, barriers, is_direct, track);
    }
  } else {
    ptx::registers_increase<fused::registers.consumer>();
    gemm::Track<traced> track(timeline, threadIdx.x / 128, threadIdx.x % 128 == 0);
    using Epilogue = typename EpilogueOf<pass, activation, broken>::Type;
    fused::consume<Epilogue>(p, copies, shared, ring, barriers, k_tiles, track);
  }
}

// ---- The host.

using Kernel = void (*)(CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap,
                        TrainingProblem, gemm::TileOrder, gemm::Timeline);

template <Pass pass>
Kernel kernel_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return gemm_training<pass, Activation::relu, Break::none, false>;
    case Activation::gelu_tanh:
      return gemm_training<pass, Activation::gelu_tanh, Break::none, false>;
    case Activation::silu:
      return gemm_training<pass, Activation::silu, Break::none, false>;
    case Activation::gelu:
    case Activation::none:
      break;
  }
  return gemm_training<pass, Activation::gelu, Break::none, false>;
}

Kernel kernel_for(Pass pass, Activation activation, const harness::Selection& selection) {
  const std::string& broken = selection.broken();
  constexpr Activation gelu = Activation::gelu;
  if (activation != gelu && (!broken.empty() || selection.traced())) {
    throw harness::UsageError("--break and --trace run with --activation gelu only.");
  }
  const bool needs_forward = broken == "padded-rows" || broken == "aux-after-activation";
  if (!broken.empty() && needs_forward != (pass == Pass::forward)) {
    throw harness::UsageError("--break " + broken + " runs with --pass " +
                              (needs_forward ? "forward" : "backward") + " only.");
  }
  if (broken == "padded-rows") {
    return gemm_training<Pass::forward, gelu, Break::padded_rows, false>;
  }
  if (broken == "aux-after-activation") {
    return gemm_training<Pass::forward, gelu, Break::aux_after_activation, false>;
  }
  if (broken == "early-count") {
    return gemm_training<Pass::backward, gelu, Break::early_count, false>;
  }
  if (broken == "relaxed-count") {
    return gemm_training<Pass::backward, gelu, Break::relaxed_count, false>;
  }
  if (pass == Pass::forward) {
    return selection.traced() ? gemm_training<Pass::forward, gelu, Break::none, true>
                              : kernel_of<Pass::forward>(activation);
  }
  return selection.traced() ? gemm_training<Pass::backward, gelu, Break::none, true>
                            : kernel_of<Pass::backward>(activation);
}

harness::Launch prepare(device::Device& device, const TrainingProblem& problem,
                        Activation activation, const harness::Selection& selection) {
  constexpr int tile_m = fused::tile_m, tile_n = fused::tile_n;
  const gemm::Problem& p = problem.product;
  const int sms = device.properties().sm_count;
  const gemm::TileOrder order = gemm::choose_order(
      (p.m + tile_m - 1) / tile_m, (p.n + tile_n - 1) / tile_n, tile_m, tile_n, sms);
  const device::LaunchShape shape{.grid = {static_cast<unsigned>(std::min(order.tiles(), sms))},
                                  .block = {fused::threads},
                                  .shared_bytes = fused::shared_bytes};

  const CUtensorMap map_a = gemm::operand_map(device, "A", p.a, p.m, p.k, p.lda, tile_m, tile_k);
  const CUtensorMap map_b = gemm::operand_map(device, "B", p.b, p.n, p.k, p.ldb, tile_n, tile_k);
  const CUtensorMap map_d = gemm::output_map(device, problem);
  const CUtensorMap map_aux = gemm::chunk_map<64>(device, "aux", problem.aux, p, problem.ld_aux);
  // Nobody uses the map of a matrix that is not there.
  const CUtensorMap map_c =
      problem.has_c() ? gemm::chunk_map<64>(device, "C", p.c, p, p.ldc) : map_d;
  const Kernel kernel = kernel_for(problem.pass, activation, selection);
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] {
    device.launch(shape, kernel, map_a, map_b, map_c, map_d, map_aux, problem, order, timeline);
  };
}

}  // namespace

int main(int argc, char** argv) {
  const harness::Lesson lesson{
      .number = 14,
      .name = "training_epilogue",
      .trick = "aux kept forward; its slope taken and the bias' gradient summed backward",
      .likely_wait =
          "`landed`, `written` or `free` of a buffer, if a role walks another list of chunks",
      .knobs = harness::training_knobs(),
      .breaks = {{"padded-rows",
                  "with --pass forward --scalar sum: adds up the rows of the last tiles that lie "
                  "outside D"},
                 {"aux-after-activation",
                  "with --pass forward: keeps what the activation gives, in place of what it gets"},
                 {"early-count", "counts a tile before all warps have written their sums of it"},
                 {"relaxed-count",
                  "counts a tile without releasing its sums, or acquiring those of others"}},
      .tracks = {"producer", "consumer 0", "consumer 1", "storer"},
      .tile =
          [](const harness::Selection&) {
            return harness::Tile{fused::tile_m, fused::tile_n};
          },
      .experiment =
          [](device::Device& device, const harness::Options& options) {
            return harness::training_experiment(device, options, prepare);
          },
  };
  return harness::run(lesson, argc, argv);
}

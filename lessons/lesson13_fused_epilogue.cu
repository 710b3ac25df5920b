// Lesson 13 - fused_epilogue: bias, activation and residual on the way out.
//
//   make lesson13 && ./lesson13 --bias column --activation gelu
//
// D = activation(alpha * A B^T + beta * C + bias) + residual
//
// A kernel of its own for bias and GELU reads and writes all of D once more. Here the values are
// changed while they are in registers, and the kernel of lesson 08 hides that: one tile is changed
// and stored while the next one is multiplied. What can be hidden is as long as a main loop, and an
// epilogue with a GELU takes longer than lesson 08's. So common/gemm/fused_roles.cuh shortens it:
//
//   - a warp of the producer's warpgroup stores: a consumer writes a chunk to shared memory, says
//     so, and waits for no store;
//   - the consumers take turns at multiplying only, and their epilogues may overlap;
//   - the bias comes into registers while the other one multiplies;
//   - all chunks of a tile go through the same code, so that it stays in the instruction caches.
//
// What is done to the values is a chain of operations: common/gemm/epilogue_chain.cuh. The
// activation is a template argument; the bias, C, the residual and the type of D are choices of the
// launch, each one branch a chunk.
//
// The note: docs/lesson13_fused_epilogue.md
#include <cuda_bf16.h>

#include <algorithm>
#include <iterator>

#include "common/gemm/activation.h"
#include "common/gemm/choose_order.h"
#include "common/gemm/epilogue_chain.cuh"
#include "common/gemm/fused_problem.h"
#include "common/gemm/fused_roles.cuh"
#include "common/gemm/operand_map.h"
#include "common/gemm/separate_epilogue.cuh"
#include "common/gemm/tile_order.h"
#include "common/gemm/timeline.cuh"
#include "common/harness/fused_experiment.h"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"
#include "common/ptx/tma.cuh"

namespace {

using gemm::Activation;
using gemm::FusedProblem;
namespace fused = gemm::fused;

/// The chain of operations: the order of the course notes.
template <Activation activation>
using Forward = gemm::Chain<gemm::Scale, gemm::AddC, gemm::AddBias, gemm::Activate<activation>,
                            gemm::AddResidual, gemm::StoreD>;

/// The same with two of them exchanged: a broken one.
template <Activation activation>
using BiasLast = gemm::Chain<gemm::Scale, gemm::AddC, gemm::Activate<activation>, gemm::AddBias,
                             gemm::AddResidual, gemm::StoreD>;

template <class Epilogue, fused::Break broken, bool traced>
__global__ void __launch_bounds__(fused::threads, 1)
    gemm_fused(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
               const __grid_constant__ CUtensorMap map_c,
               const __grid_constant__ CUtensorMap map_residual,
               const __grid_constant__ CUtensorMap map_d, const __grid_constant__ FusedProblem p,
               const gemm::TileOrder order, const gemm::Timeline timeline) {
  // A chunk is 64 columns wide, and a place 128 bytes: fp32 takes two of them.
  const int parts = element_bytes(p.output) / 2;
  const auto load = [&](gemm::Places to, int row, int column, ptx::Mbarrier& landed) {
    if (p.has_c()) ptx::tma_load_2d(to.at(0), map_c, column, row, landed);
    if (p.has_residual()) {
      ptx::tma_load_2d(to.at(p.inputs() - 1), map_residual, column, row, landed);
    }
  };
  const auto store = [&](gemm::Places from, int row, int column) {
    if (p.overhangs_a_unit(column, 64)) return;  // the consumers have stored it themselves
    for (int part = 0; part < parts; ++part) {
      ptx::tma_store_2d(map_d, column + 64 / parts * part, row, from.at(part));
    }
  };
  fused::run<Epilogue, broken, traced>(map_a, map_b, p, order, timeline,
                                       fused::Copies{p.inputs(), parts}, load, store);
}

// ---- The host.

template <class Epilogue, fused::Break broken = fused::Break::none, bool traced = false>
harness::Launch prepare(device::Device& device, const FusedProblem& problem, Activation,
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
  // Nobody uses the map of a matrix that is not there.
  const CUtensorMap map_c =
      problem.has_c() ? gemm::chunk_map<64>(device, "C", p.c, p, p.ldc) : map_d;
  const CUtensorMap map_residual =
      problem.has_residual()
          ? gemm::chunk_map<64>(device, "the residual", problem.residual, p, problem.ldr)
          : map_d;
  const gemm::Timeline timeline = selection.timeline();
  return [=, &device] {
    device.launch(shape, gemm_fused<Epilogue, broken, traced>, map_a, map_b, map_c, map_residual,
                  map_d, problem, order, timeline);
  };
}

/// Calls function.operator()<activation>() for the activation of that name.
template <class Function>
auto with_activation(Activation activation, Function function) {
  switch (activation) {
    case Activation::relu:
      return function.template operator()<Activation::relu>();
    case Activation::gelu:
      return function.template operator()<Activation::gelu>();
    case Activation::gelu_tanh:
      return function.template operator()<Activation::gelu_tanh>();
    case Activation::silu:
      return function.template operator()<Activation::silu>();
    case Activation::none:
      break;
  }
  return function.template operator()<Activation::none>();
}

/// The second kernel of a pair that fuses nothing.
harness::Launch prepare_separate(device::Device& device, const FusedProblem& problem,
                                 Activation activation, const __nv_bfloat16* z, void* d,
                                 std::int64_t ld) {
  constexpr unsigned block = 256;
  const device::LaunchShape shape{
      .grid = {static_cast<unsigned>(problem.product.m),
               (static_cast<unsigned>(problem.product.n) + 8 * block - 1) / (8 * block)},
      .block = {block}};
  return with_activation(activation, [&]<Activation a>() -> harness::Launch {
    const auto into = [&]<class Element>(Element* to) -> harness::Launch {
      return [=, &device] {
        device.launch(shape, gemm::finish_elements<a, Element>, problem, z, to, ld);
      };
    };
    if (problem.output == gemm::Output::f32) return into(static_cast<float*>(d));
    if (problem.output == gemm::Output::f16) return into(static_cast<__half*>(d));
    return into(static_cast<__nv_bfloat16*>(d));
  });
}

}  // namespace

int main(int argc, char** argv) {
  using Gelu = Forward<Activation::gelu>;
  using fused::Break;
  const harness::VariantsOf<const FusedProblem&, Activation> variants{
      {"--activation gelu", prepare<Gelu>},
      {"--activation none", prepare<Forward<Activation::none>>},
      {"--activation relu", prepare<Forward<Activation::relu>>},
      {"--activation gelu-tanh", prepare<Forward<Activation::gelu_tanh>>},
      {"--activation silu", prepare<Forward<Activation::silu>>},
      {"--trace", prepare<Gelu, Break::none, true>},
      {"--break no-c-wait", prepare<Gelu, Break::no_input_wait>,
       "with --beta 1: adds C without waiting for it to land"},
      {"--break early-c-release", prepare<Gelu, Break::early_release>,
       "with --beta 1: lets the next C in as soon as this one has been added, before D has left"},
      {"--break no-store-fence", prepare<Gelu, Break::no_store_fence>,
       "does not show what it has written to the copy engine"},
      {"--break no-store-wait", prepare<Gelu, Break::no_store_wait>,
       "takes a buffer for free while its store still reads it"},
      {"--break stale-bias", prepare<Gelu, Break::stale_begin>,
       "with --bias: keeps the bias of its first tile"},
      {"--break bias-after-activation", prepare<BiasLast<Activation::gelu>>,
       "with --bias: adds it behind the activation"}};
  const harness::Lesson lesson{
      .number = 13,
      .name = "fused_epilogue",
      .trick = "bias, activation and residual while the values are in registers",
      .likely_wait =
          "`landed`, `written` or `free` of a buffer, if a role walks another list of chunks",
      .knobs = harness::fused_knobs(),
      .breaks = variants.breaks(),
      .tracks = {std::begin(fused::tracks), std::end(fused::tracks)},
      .tile = harness::fixed_tile(fused::tile_m, fused::tile_n),
      .experiment =
          [&](device::Device& device, const harness::Options& options) {
            return harness::fused_experiment(device, options, {variants, prepare_separate});
          },
  };
  return harness::run(lesson, argc, argv);
}

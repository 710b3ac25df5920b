// Verifying and timing a lesson that fuses an epilogue: gemm::FusedProblem in place of a
// gemm::Problem.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/device/device.h"
#include "common/gemm/activation.h"
#include "common/gemm/fused_problem.h"
#include "common/harness/experiment.h"
#include "common/harness/lesson.h"
#include "common/harness/options.h"

namespace harness {

/// What such a lesson brings.
struct FusedLesson {
  /// In place of Lesson::prepare.
  std::function<Launch(device::Device&, const gemm::FusedProblem&, gemm::Activation,
                       const Selection&)>
      prepare;
  /// The launch of a kernel that fuses nothing: d = activation(z + bias) + residual, where z =
  /// alpha
  /// * A B^T + beta * C in bf16. Rows of z and d are `ld` elements apart, a multiple of 8; what
  /// lies between them may be read and written.
  std::function<Launch(device::Device&, const gemm::FusedProblem&, gemm::Activation,
                       const __nv_bfloat16* z, void* d, std::int64_t ld)>
      separate;
};

/// The knobs that choose the epilogue: --activation, --bias, --residual, --output, --values.
std::vector<Knob> fused_knobs();

/// The problem that `options` ask for by fused_knobs(). Its oracle computes the sums as that of a
/// gemm::Problem does, and the rest in double precision.
///
/// The library's standard is cublasLtMatmul with an epilogue of its own, where it has this one: no
/// bias or one for each column, no activation, ReLU or the tanh form of GELU, no residual, output
/// in bf16. Elsewhere it is cublasLtMatmul and then a separate kernel; where the standard is fused,
/// that pair is a candidate.
std::unique_ptr<Experiment> fused_experiment(device::Device& device, const Options& options,
                                             FusedLesson lesson);

}  // namespace harness

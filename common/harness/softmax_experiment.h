// The softmax of a product's rows, or their largest elements.
#pragma once

#include <cuda_bf16.h>

#include <functional>
#include <memory>

#include "common/device/device.h"
#include "common/gemm/problem.h"
#include "common/gemm/top_list.h"
#include "common/harness/experiment.h"
#include "common/harness/lesson.h"
#include "common/harness/options.h"

namespace harness {

/// What a lesson computes it with.
struct SoftmaxKernels {
  /// Does once what every launch shares and returns the launch itself: problem.d becomes the
  /// softmax of the rows of alpha * A * B^T, or, with top.count > 0, `top` is written and problem.d
  /// is not. beta is 0.
  std::function<Launch(device::Device&, const gemm::Problem&, const gemm::TopRows&,
                       const Selection&)>
      fused;
  /// The same from logits in global memory, m x n with the pitch of D.
  std::function<Launch(device::Device&, const gemm::Problem&, const gemm::TopRows&,
                       const __nv_bfloat16* logits)>
      separate;
};

/// The problem of the options and its softmax, or its `top` largest elements of each row if that is
/// not 0; judged by softmax_verdict.h. The library's way is its product in bf16, and behind it the
/// kernel `separate`, which must be right, too. UsageError where a row has fewer than `top`
/// elements.
std::unique_ptr<Experiment> softmax_experiment(device::Device& device, const Options& options,
                                               int top, SoftmaxKernels kernels);

}  // namespace harness

// What lesson 15 is timed beside: cuBLASLt's product of 8-bit floats.
#pragma once

#include <vector>

#include "common/device/device.h"
#include "common/gemm/scaled_problem.h"
#include "common/harness/options.h"
#include "common/harness/timing.h"

namespace harness {

/// cublasLtMatmul on the same A, B, C and scales into a D of its own, k > 0. It has a fast way to
/// add, which leaves the sums to the tensor cores, and a precise one. The one that `precise` asks
/// for comes first, then the other; with Baseline::best there are up to eight algorithms of the
/// former instead.
///
/// The library has either one scale for A and one for B, or, with a D in bf16, one for each row of
/// both; elsewhere it gets the first of each. Of e4m3 times e4m3 it has no e5m2 D, and computes one
/// in bf16. It computes no block scales: an fp8 D of it is rounded with scale_d. Where it computes
/// something else than the lesson, the contender's name says so.
/// Throws device::Failure for e5m2 times e5m2, which it doesn't have. CUDA back end only.
std::vector<Contender> fp8_library_contenders(device::Device& device,
                                              const gemm::ScaledProblem& problem, bool precise,
                                              Baseline baseline);

}  // namespace harness

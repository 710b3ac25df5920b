// cuBLAS held against double precision.
#pragma once

#include <cstdint>

#include "common/device/device.h"
#include "common/harness/verdict.h"

namespace harness {

/// Lets cublasGemmEx compute D in bf16 for N(0, 1) operands and judges it as a lesson would be,
/// against the product in double precision: cuBLAS must pass. Needs a CUDA device.
Verdict check_cublas_against_double(device::Device& device, int m, int n, int k,
                                    std::uint64_t seed);

}  // namespace harness

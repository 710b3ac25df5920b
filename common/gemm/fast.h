// Fast instructions of the GPU, in functions that the host can call too.
#pragma once

#include <cmath>

#include "common/host_device.h"
#ifdef __CUDACC__
#include "common/ptx/math.cuh"
#endif

namespace gemm {

/// Instructions of the GPU, and what stands for them on the host.
struct Fast {
#ifdef __CUDA_ARCH__
  __device__ static float exp2_ftz(float x) {
    return ptx::exp2_approx_ftz(x);
  }
  __device__ static float reciprocal(float x) {
    return ptx::reciprocal_approx_ftz(x);
  }
  __device__ static float max_or_nan(float a, float b) {
    return ptx::max_or_nan(a, b);
  }
  __device__ static float min_or_nan(float a, float b) {
    return ptx::min_or_nan(a, b);
  }
#else
  HOST_DEVICE static float exp2_ftz(float x) {
    return x < -126 ? 0 : std::exp2(x);
  }
  HOST_DEVICE static float reciprocal(float x) {
    return 1 / x;
  }
  HOST_DEVICE static float max_or_nan(float a, float b) {
    return a > b || std::isnan(a) ? a : b;
  }
  HOST_DEVICE static float min_or_nan(float a, float b) {
    return a < b || std::isnan(a) ? a : b;
  }
#endif
};

}  // namespace gemm

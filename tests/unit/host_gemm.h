// A GEMM on the host, which stands in for a kernel's.
#pragma once

#include <cuda_bf16.h>

#include "common/gemm/problem.h"

namespace tests {

/// Computes D where the operands are in host memory, as those of a HostDevice are.
inline void multiply(const gemm::Problem& problem) {
  for (int row = 0; row < problem.m; ++row) {
    for (int column = 0; column < problem.n; ++column) {
      float sum = 0;
      for (int k = 0; k < problem.k; ++k) {
        sum += __bfloat162float(problem.a[row * problem.lda + k]) *
               __bfloat162float(problem.b[column * problem.ldb + k]);
      }
      float value = problem.alpha * sum;
      if (problem.beta != 0) {
        value += problem.beta * __bfloat162float(problem.c[row * problem.ldc + column]);
      }
      problem.d[row * problem.ldd + column] = __float2bfloat16_rn(value);
    }
  }
}

}  // namespace tests

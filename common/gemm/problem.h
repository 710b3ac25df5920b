// The problem every lesson solves: D = alpha * A * B^T + beta * C.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace gemm {

/// D = alpha * A * B^T + beta * C on a device ("TN" in BLAS terms).
///
/// A is m x k, B is n x k, C and D are m x n, all row-major: K is the contiguous dimension of both
/// inputs. Rows are `ld` elements apart. Inputs and output are bf16, sums are fp32.
/// k = 0 means D = beta * C; the harness also sets k = 0 when alpha = 0, because BLAS then leaves
/// A and B unread. beta = 0 means that C is never read (it may hold NaN).
struct Problem {
  int m, n, k;
  float alpha, beta;
  const __nv_bfloat16 *a, *b, *c;
  __nv_bfloat16* d;
  std::int64_t lda, ldb, ldc, ldd;
};

}  // namespace gemm

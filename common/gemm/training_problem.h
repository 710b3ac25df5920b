// A layer's forward and backward pass, as one product each with what its epilogue keeps or adds up.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "common/gemm/fused_problem.h"

namespace gemm {

enum class Pass { forward, backward };
/// What all elements of D are added up to: the largest magnitude, or the sum.
enum class Scalar { none, amax, sum };

/// forward: aux = Z = alpha * A B^T + beta * C + bias, in bf16; D = activation(Z).
/// backward: D = (alpha * A B^T + beta * C) * activation'(aux), and the gradient of the bias, which
/// is D summed over the rows (of a column bias) or the columns (of a row bias). D is in bf16, and
/// what is added up is D as it is stored.
struct TrainingProblem : FusedProblem {
  Pass pass;
  __nv_bfloat16* aux;  ///< m x n; written forward, read backward
  std::int64_t ld_aux;
  float* bias_gradient;  ///< backward, n or m elements; null if it is not asked for
  Scalar scalar;
  /// Adds each warp's sums to the results as they come: in another order, and other bits, with each
  /// launch. The results must be 0 before.
  bool is_atomic;
  float* scalar_result;  ///< one element

  /// If not atomic: sums of single tiles, and how many CTAs have written all of theirs, 0 before
  /// and after each launch.
  float* gradient_parts;  ///< [row or column of tiles][element of the gradient]
  float* scalar_parts;    ///< [tile][warp]
  std::uint32_t* ended;

  /// Matrices that the epilogue reads: C, then aux in the backward pass.
  HOST_DEVICE constexpr int loads() const { return has_c() + (pass == Pass::backward); }
  /// Matrices that it writes: D, then aux in the forward pass.
  HOST_DEVICE constexpr int stores() const { return 1 + (pass == Pass::forward); }
};

}  // namespace gemm

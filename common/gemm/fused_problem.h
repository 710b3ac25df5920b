// A product with what an epilogue may do to it on its way out.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "common/gemm/problem.h"
#include "common/host_device.h"

namespace gemm {

enum class Output { bf16, f16, f32 };

HOST_DEVICE constexpr int element_bytes(Output output) {
  return output == Output::f32 ? 4 : 2;
}

/// Which elements of D share an element of the bias: those of a row (a bias of m elements), or
/// those of a column (of n elements).
enum class Bias { none, row, column };

/// D = activation(alpha * A B^T + beta * C + bias) + residual; the activation is the kernel's.
struct FusedProblem {
  Problem product;  ///< its d points to elements of type `output`, ldd of them from row to row
  Output output;
  Bias bias_kind;
  const __nv_bfloat16* bias;      ///< m or n elements; null if there is none
  const __nv_bfloat16* residual;  ///< m x n; null if there is none
  std::int64_t ldr;               ///< elements from row to row of the residual

  HOST_DEVICE constexpr bool has_c() const { return product.beta != 0; }
  HOST_DEVICE constexpr bool has_residual() const { return residual != nullptr; }
  /// Matrices that the epilogue reads: C, then the residual.
  HOST_DEVICE constexpr int inputs() const { return has_c() + has_residual(); }

  /// Whether a TMA store of the `columns` columns of D from `first` on would write beyond them. It
  /// leaves out what lies outside D in units of 16 bytes only (gemm::overhangs_a_unit).
  HOST_DEVICE constexpr bool overhangs_a_unit(int first, int columns) const {
    return product.n * element_bytes(output) % 16 != 0 && first + columns > product.n;
  }
};

}  // namespace gemm

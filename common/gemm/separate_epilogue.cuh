// What a fused epilogue saves: the same in a kernel of its own, behind a product in bf16.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "common/gemm/activation.h"
#include "common/gemm/eight.h"
#include "common/gemm/fused_problem.h"

namespace gemm {

/// d = activation(z + bias) + residual; rows of z and d are `ld` elements apart, a multiple of 8.
template <Activation activation, class Element>
__global__ void finish_elements(FusedProblem p, const __nv_bfloat16* z, Element* d,
                                std::int64_t ld) {
  using Inputs = Eight<__nv_bfloat16>;
  const int row = blockIdx.x;
  const int column = 8 * (blockIdx.y * blockDim.x + threadIdx.x);
  if (column >= p.product.n) return;

  const Inputs in = *reinterpret_cast<const Inputs*>(z + row * ld + column);
  Inputs bias{}, residual{};
  if (p.bias_kind == Bias::column) {
    bias = *reinterpret_cast<const Inputs*>(p.bias + column);
  } else if (p.bias_kind == Bias::row) {
    for (__nv_bfloat16& element : bias.value) element = p.bias[row];
  }
  if (p.has_residual()) {
    residual = *reinterpret_cast<const Inputs*>(p.residual + row * p.ldr + column);
  }
  Eight<Element> out;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float value = __bfloat162float(in.value[i]) + __bfloat162float(bias.value[i]);
    out.value[i] =
        static_cast<Element>(activate<activation>(value) + __bfloat162float(residual.value[i]));
  }
  *reinterpret_cast<Eight<Element>*>(d + row * ld + column) = out;
}

}  // namespace gemm

// The problem of lesson 15: a product of 8-bit floats, whose range scales make up for.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "common/host_device.h"
#include "common/ptx/fp8.h"

namespace gemm {

/// fp32 factors: one for each row or column, or one for all of them (step 0).
struct Scales {
  const float* values;
  int step;

  HOST_DEVICE float at(int index) const { return values[index * step]; }
};

/// What D is rounded to.
enum class Output { bf16, e4m3, e5m2 };

/// Which neighbours in a row of D share a factor that the kernel computes from them, and how the
/// factor is stored: 32 elements and the exponent of a power of two in 8 bits (ue8m0: 2^(bits -
/// 127)), or 128 elements and an fp32 number.
enum class BlockScales { none, ue8m0_32, fp32_128 };

HOST_DEVICE constexpr int block_width(BlockScales scales) {
  return scales == BlockScales::ue8m0_32 ? 32 : 128;
}

/// Z = alpha * scale_a[row] * scale_b[column] * A * B^T + beta * C on a device, in fp32; A is m x
/// k, B is n x k, all row-major, so that K is contiguous. Pitches are in elements.
///
/// D is Z rounded to bf16, or scale_d * Z rounded and saturated to an 8-bit float. With block
/// scales, D * factor stands for Z: an element of D is Z / factor, rounded and saturated. The
/// factor is the largest |Z| of the block, clamped to the largest finite fp32 and NaN left out,
/// over the largest finite number of D's type; for ue8m0 rounded up to a power of two; and 2^-126
/// at the least. Factors are row-major, a row ceil(n / width) of them, `block_pitch` from row to
/// row.
///
/// *amax becomes the maximum of itself and all |Z| as the bits of an fp32 number, which order like
/// the numbers; NaN is larger than all of them and stays. A new maximum starts where *amax is 0.
///
/// k = 0 means Z = beta * C; beta = 0 means that C is never read.
struct ScaledProblem {
  int m, n, k;
  float alpha, beta;
  ptx::Fp8 type_a, type_b;
  const std::uint8_t *a, *b;
  const __nv_bfloat16* c;
  void* d;
  std::int64_t lda, ldb, ldc, ldd;
  Scales scale_a, scale_b;
  Output output;
  float scale_d;  ///< 1 for bf16 and with block scales
  std::uint32_t* amax;
  BlockScales blocks;   ///< none for bf16
  void* block_factors;  ///< of std::uint8_t or float
  std::int64_t block_pitch;
};

}  // namespace gemm

// Conversions to types that C++ does not have. PTX ISA 9.7.9.21 (cvt).
#pragma once

#include <cstdint>

#include "common/ptx/fp8.h"

namespace ptx {

/// Two fp32 values as 8-bit floats, the first in the lower byte: rounded to nearest, ties to even.
/// What is too large, infinities too, becomes the largest finite number: the instruction has no
/// other way. NaN stays NaN.
template <Fp8 type>
__device__ inline std::uint16_t pack_fp8(float first, float second) {
  std::uint16_t pair;
  if constexpr (type == Fp8::e4m3) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  }
  return pair;
}

}  // namespace ptx

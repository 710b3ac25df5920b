// Functions of one instruction that C++ has no operator for. PTX ISA 9.7.3 (floating point).
#pragma once

namespace ptx {

/// 2^x, off by 2 units in the last place at the most; results below 2^-126 are 0. To keep those
/// would cost ptxas three more instructions. ex2.approx.ftz
__device__ inline float exp2_approx_ftz(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// 1 / x, off by 1 unit in the last place at the most; neither is subnormal. rcp.approx.ftz
__device__ inline float reciprocal_approx_ftz(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// The larger of two; NaN if one of them is NaN, which fmaxf would leave out. max.NaN
__device__ inline float max_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

/// The smaller of two; NaN if one of them is NaN. min.NaN
__device__ inline float min_or_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

}  // namespace ptx

// The .approx instructions. The hardware interpolates tables; the emulator computes in double and
// rounds once. The ISA bounds the error of the hardware, and the golden files are held to that
// bound. Special values are those of the ISA's tables. PTX ISA 9.7.3 (f32) and 9.7.4 (f16, bf16).
#pragma once

#include <cstdint>

namespace emulator {

// `ftz` flushes subnormal inputs and results to zero of their sign.

/// 2^a. Error: 2 ulp.
float ex2_approx(float a, bool ftz = false);
/// log2(a). Error: 2^-22 relative, 2^-22 absolute for a in (0.5, 2). Negative: NaN; +-0: -inf.
float lg2_approx(float a, bool ftz = false);
/// 1/a. Error: 1 ulp. +-0: +-inf; +-inf: +-0.
float rcp_approx(float a, bool ftz = false);
/// a^-1/2. Error: 2^-22.9 relative. +-0: +-inf; negative: NaN; +inf: +0.
float rsqrt_approx(float a, bool ftz = false);
/// a^1/2. Error: 2^-23 relative. -0: -0; negative: NaN.
float sqrt_approx(float a, bool ftz = false);
/// sin(a), a in radians. Error: 2^-20.5 absolute in [-2 pi, 2 pi], 2^-14.7 in [-100 pi, 100 pi],
/// none promised beyond. +-inf: NaN.
float sin_approx(float a, bool ftz = false);
/// cos(a), likewise; 2^-20.4 in [-2 pi, 2 pi].
float cos_approx(float a, bool ftz = false);
/// tanh(a). Error: 2^-11 relative. No .ftz: subnormals are kept.
float tanh_approx(float a);
/// a / b. Error: 2 ulp for |b| in [2^-126, 2^126]; beyond 2^126 the result is 0 (NaN if a is
/// infinite).
float div_approx(float a, float b, bool ftz = false);
/// div.full, a / b. Error: 2 ulp.
float div_full(float a, float b, bool ftz = false);

/// ex2.approx.f16. Error: 2^-9.9 relative.
std::uint16_t ex2_approx_f16(std::uint16_t a);
/// ex2.approx.ftz.bf16: subnormals are flushed. Error: 2^-7 relative.
std::uint16_t ex2_approx_ftz_bf16(std::uint16_t a);
/// tanh.approx.f16. Error: 2^-10.987 absolute.
std::uint16_t tanh_approx_f16(std::uint16_t a);
/// tanh.approx.bf16. Error: 2^-8 absolute.
std::uint16_t tanh_approx_bf16(std::uint16_t a);

}  // namespace emulator

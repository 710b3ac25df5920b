// Number formats: what cvt and the arithmetic instructions make of bits. PTX ISA 9.7.9.21 (cvt),
// 5.2.3 (alternate floating-point formats).
//
// Every value of f16, bf16, tf32, e4m3, e5m2 and f32 is a double, so conversions go through double:
// exact on the way in, rounded once on the way out.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace emulator {

/// .rn ties to even, .rz towards zero, .rm towards -inf, .rp towards +inf, .rna ties away from
/// zero. For integers and integral values: .rni, .rzi, .rmi, .rpi.
enum class Rounding : std::uint8_t { rn, rz, rm, rp, rna };

/// A binary floating-point format: sign, exponent, mantissa, from the top bit down.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  ///< false for e4m3: its largest exponent holds numbers up to 448, then NaN
  std::uint64_t nan;  ///< the canonical NaN, what conversions and arithmetic return for any NaN

  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr std::uint64_t sign_bit() const { return std::uint64_t{1} << (bits() - 1); }
  constexpr std::uint64_t infinity() const {
    return ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  }
  /// The largest finite number (MAX_NORM in the ISA).
  constexpr std::uint64_t largest() const { return (has_infinity ? infinity() : nan) - 1; }
};

/// tf32 is kept in 32 bits with the low 13 clear: f32_to_tf32 shifts what this format encodes.
namespace format {
inline constexpr FloatFormat f64{11, 52, true, 0x7FFF'FFFF'FFFF'FFFF};
inline constexpr FloatFormat f32{8, 23, true, 0x7FFF'FFFF};
inline constexpr FloatFormat tf32{8, 10, true, 0x3'FFFF};
inline constexpr FloatFormat bf16{8, 7, true, 0x7FFF};
inline constexpr FloatFormat f16{5, 10, true, 0x7FFF};
inline constexpr FloatFormat e5m2{5, 2, true, 0x7F};
inline constexpr FloatFormat e4m3{4, 3, false, 0x7F};
}  // namespace format

/// How cvt narrows a value.
struct Narrowing {
  Rounding rounding = Rounding::rn;
  bool satfinite = false;  ///< overflow and infinities become the largest finite number
  bool relu = false;       ///< negative results become +0 (NaN stays NaN)
};

/// `value` in `format`. NaN becomes the canonical NaN; overflow without .satfinite becomes infinity
/// or the largest finite number, as the rounding asks (NaN where the format has no infinity).
std::uint64_t narrow(const FloatFormat& format, double value, Narrowing how = {});
/// The value of `bits`; exact for every format here. NaN of any payload becomes a quiet NaN.
double widen(const FloatFormat& format, std::uint64_t bits);

// ---- The conversions that kernels use, on registers.

inline std::uint16_t f32_to_f16(float value, Narrowing how = {}) {
  return static_cast<std::uint16_t>(narrow(format::f16, value, how));
}
inline std::uint16_t f32_to_bf16(float value, Narrowing how = {}) {
  return static_cast<std::uint16_t>(narrow(format::bf16, value, how));
}
/// The 32-bit register that holds the tf32 number. NaN becomes 0x7FFFE000, but .rna only cuts its
/// payload off, which can leave an infinity, as golden files of an H200 show.
std::uint32_t f32_to_tf32(float value, Narrowing how = {});
/// cvt to the 8-bit formats is always .rn.satfinite: 500 becomes 448, NaN 0x7F.
std::uint8_t f32_to_e4m3(float value, bool relu = false);
std::uint8_t f32_to_e5m2(float value, bool relu = false);

/// cvt.f32.f16: NaN becomes 0x7FFFFFFF.
inline float f16_to_f32(std::uint16_t bits) {
  constexpr float bias_difference = 0x1p112f;
  const std::uint32_t magnitude = bits & 0x7FFFu;
  const float finite = std::bit_cast<float>(magnitude << 13) * bias_difference;
  const std::uint32_t special = magnitude == 0x7C00 ? 0x7F80'0000u : 0x7FFF'FFFFu;
  const bool negative = bits != magnitude && magnitude <= 0x7C00;
  const std::uint32_t value = magnitude < 0x7C00 ? std::bit_cast<std::uint32_t>(finite) : special;
  return std::bit_cast<float>(negative ? value | 0x8000'0000u : value);
}
/// cvt.f32.bf16: the upper half of an f32. The ISA leaves the NaN open; here it keeps its payload.
inline float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}
float e4m3_to_f32(std::uint8_t bits);
float e5m2_to_f32(std::uint8_t bits);
/// What wgmma reads of an f32 register or word: the low 13 bits are dropped (PTX ISA 9.7.15.5.2).
inline float truncate_to_tf32(std::uint32_t bits) {
  return std::bit_cast<float>(bits & 0xFFFF'E000u);
}

/// Pairs: as in `cvt.rn.bf16x2.f32 d, a, b`, the first operand goes to the upper half.
inline std::uint32_t f32_to_f16x2(float upper, float lower, Narrowing how = {}) {
  return std::uint32_t{f32_to_f16(upper, how)} << 16 | f32_to_f16(lower, how);
}
inline std::uint32_t f32_to_bf16x2(float upper, float lower, Narrowing how = {}) {
  return std::uint32_t{f32_to_bf16(upper, how)} << 16 | f32_to_bf16(lower, how);
}
inline std::uint16_t f32_to_e4m3x2(float upper, float lower, bool relu = false) {
  return static_cast<std::uint16_t>(f32_to_e4m3(upper, relu) << 8 | f32_to_e4m3(lower, relu));
}
inline std::uint16_t f32_to_e5m2x2(float upper, float lower, bool relu = false) {
  return static_cast<std::uint16_t>(f32_to_e5m2(upper, relu) << 8 | f32_to_e5m2(lower, relu));
}
std::uint16_t f16x2_to_e4m3x2(std::uint32_t pair, bool relu = false);
std::uint16_t f16x2_to_e5m2x2(std::uint32_t pair, bool relu = false);
std::uint32_t e4m3x2_to_f16x2(std::uint16_t pair, bool relu = false);
std::uint32_t e5m2x2_to_f16x2(std::uint16_t pair, bool relu = false);

// ---- Integers.

struct IntegerFormat {
  int bits;  ///< 8, 16, 32 or 64
  bool is_signed;
};

/// cvt.{rni,rzi,rmi,rpi}: rounds, then clamps to the range of `to`; the result is sign- or
/// zero-extended to 64 bits. NaN gives 0, except that a source of f64 or a 64-bit destination gives
/// the top bit alone (PTX ISA 9.7.9.21, "Floating Point Notes").
std::uint64_t float_to_integer(double value, IntegerFormat to, Rounding rounding, bool from_f64);
/// The integer in the low bits of `value` as a float of `to`, rounded once. f16 can overflow.
std::uint64_t integer_to_float(std::uint64_t value, IntegerFormat from, const FloatFormat& to,
                               Rounding rounding);
/// cvt.sat between integers: clamps to the range of `to`, sign- or zero-extended to 64 bits.
std::uint64_t saturate(std::uint64_t value, IntegerFormat from, IntegerFormat to);
/// Sign- or zero-extends the low bits of `value` to 64.
std::uint64_t extend(std::uint64_t value, IntegerFormat from);
/// cvt.{rni,rzi,rmi,rpi} between floats of one type: the nearest integral value.
double round_to_integral(double value, Rounding rounding);

// ---- Arithmetic.
//
// A sum in double is not exact, and rounding it twice can go wrong. Rounding to odd first (an
// inexact result takes the neighbour whose last bit is 1) makes the second rounding right, whatever
// its mode, for every format of at most 50 bits of precision.

double add_to_odd(double a, double b);
/// `a` and `b` must have at most 26 significant bits each, as all formats up to f32 have.
double fma_to_odd(double a, double b, double c);
double divide_to_odd(double a, double b);
double sqrt_to_odd(double a);

/// Modifiers of the f32 instructions.
struct F32Mode {
  Rounding rounding = Rounding::rn;
  bool ftz = false;  ///< subnormal inputs and results become zero of their sign
  bool sat = false;  ///< the result is clamped to [0, 1]; NaN becomes +0
};

/// A subnormal becomes zero of its sign.
inline float flush_subnormal(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}
/// Any NaN becomes 0x7FFFFFFF, as results of f32 instructions do.
inline float canonical(float value) {
  return std::isnan(value) ? std::bit_cast<float>(0x7FFF'FFFFu) : value;
}
/// .sat: [0, 1]; NaN becomes +0.
inline double clamp_to_unit(double value) {
  return value > 0.0 ? std::fmin(value, 1.0) : 0.0;
}

float add_f32(float a, float b, F32Mode mode = {});
float mul_f32(float a, float b, F32Mode mode = {});
float fma_f32(float a, float b, float c, F32Mode mode = {});
float div_f32(float a, float b, F32Mode mode = {});
float sqrt_f32(float a, F32Mode mode = {});
float rcp_f32(float a, F32Mode mode = {});

/// add, mul and fma of f16 and bf16 (always .rn): `format` is format::f16 or format::bf16.
struct HalfMode {
  bool ftz = false;   ///< f16 only
  bool sat = false;   ///< f16 only: [0, 1], NaN becomes +0
  bool relu = false;  ///< fma only
};
std::uint16_t add_half(const FloatFormat& format, std::uint16_t a, std::uint16_t b,
                       HalfMode mode = {});
std::uint16_t mul_half(const FloatFormat& format, std::uint16_t a, std::uint16_t b,
                       HalfMode mode = {});
std::uint16_t fma_half(const FloatFormat& format, std::uint16_t a, std::uint16_t b, std::uint16_t c,
                       HalfMode mode = {});

/// min and max of every float type, after widening: -0 < +0; of a NaN and a number the number is
/// taken, or NaN with `propagate_nan` (min.NaN).
double minimum(double a, double b, bool propagate_nan = false);
double maximum(double a, double b, bool propagate_nan = false);

}  // namespace emulator

#include "common/emulator/formats.h"

#include <algorithm>
#include <bit>
#include <array>
#include <limits>

namespace emulator {
namespace {

/// What rounding drops, compared with half a unit of what it keeps.
enum class Dropped { nothing, less_than_half, half, more_than_half };

struct Shifted {
  std::uint64_t kept;
  Dropped dropped;
};

/// significand / 2^bits, bits >= 1.
Shifted drop_bits(std::uint64_t significand, int bits) {
  if (bits > 64) return {0, Dropped::less_than_half};
  const std::uint64_t kept = bits == 64 ? 0 : significand >> bits;
  const std::uint64_t half = std::uint64_t{1} << (bits - 1);
  const std::uint64_t rest = significand & (half | (half - 1));
  if (rest == 0) return {kept, Dropped::nothing};
  if (rest < half) return {kept, Dropped::less_than_half};
  return {kept, rest == half ? Dropped::half : Dropped::more_than_half};
}

bool rounds_away_from_zero(Rounding rounding, bool negative, Shifted shifted) {
  switch (rounding) {
    case Rounding::rn:
      return shifted.dropped == Dropped::more_than_half ||
             (shifted.dropped == Dropped::half && shifted.kept % 2 == 1);
    case Rounding::rz:
      return false;
    case Rounding::rm:
      return negative && shifted.dropped != Dropped::nothing;
    case Rounding::rp:
      return !negative && shifted.dropped != Dropped::nothing;
    case Rounding::rna:
      return shifted.dropped >= Dropped::half;
  }
  return false;
}

std::uint64_t overflow(const FloatFormat& format, bool negative, Narrowing how) {
  if (how.satfinite || how.rounding == Rounding::rz ||
      how.rounding == (negative ? Rounding::rp : Rounding::rm)) {
    return format.largest();
  }
  return format.has_infinity ? format.infinity() : format.nan;
}

/// The magnitude of significand * 2^exponent, which is not zero, in `format`.
std::uint64_t encode(const FloatFormat& format, bool negative, std::uint64_t significand,
                     int exponent, Narrowing how) {
  const int zeros = std::countl_zero(significand);
  significand <<= zeros;
  const int leading_exponent = exponent - zeros + 63;
  const int smallest_exponent = 1 - format.bias();
  const int subnormal_bits = std::max(0, smallest_exponent - leading_exponent);
  Shifted shifted = drop_bits(significand, 63 - format.mantissa_bits + subnormal_bits);
  if (rounds_away_from_zero(how.rounding, negative, shifted)) ++shifted.kept;
  // The implicit bit of a normal number, and a carry out of the mantissa, add to the exponent.
  const std::uint64_t exponent_field = std::max(0, leading_exponent - smallest_exponent);
  const std::uint64_t magnitude = (exponent_field << format.mantissa_bits) + shifted.kept;
  return magnitude > format.largest() ? overflow(format, negative, how) : magnitude;
}

/// The last bit of `rounded` set if `error`, what rounding lost, is not zero.
double to_odd(double rounded, double error) {
  const auto bits = std::bit_cast<std::uint64_t>(rounded);
  if (error == 0 || !std::isfinite(rounded) || bits % 2 == 1) return rounded;
  return std::bit_cast<double>((error > 0) == (rounded > 0) ? bits + 1 : bits - 1);
}

float flush_if(bool ftz, float value) {
  return ftz ? flush_subnormal(value) : value;
}

/// An exact or rounded-to-odd result, as the instruction's modifiers want it.
float finish(double result, F32Mode mode) {
  const float rounded = mode.rounding == Rounding::rn
                            ? canonical(static_cast<float>(result))
                            : std::bit_cast<float>(static_cast<std::uint32_t>(
                                  narrow(format::f32, result, {.rounding = mode.rounding})));
  const float value = flush_if(mode.ftz, rounded);
  return mode.sat ? static_cast<float>(clamp_to_unit(value)) : value;
}

/// x + -x and +0 + -0 are -0 when rounding down, else +0 (IEEE 754-2008, 6.3).
double sum_to_odd(double a, double b, Rounding rounding) {
  const double sum = add_to_odd(a, b);
  const bool cancelled = sum == 0 && std::signbit(a) != std::signbit(b);
  return cancelled && rounding == Rounding::rm ? -0.0 : sum;
}

double half_operand(const FloatFormat& format, std::uint16_t bits, bool ftz) {
  const bool subnormal = (bits & format.infinity()) == 0;
  return widen(format, ftz && subnormal ? bits & format.sign_bit() : bits);
}

std::uint16_t finish_half(const FloatFormat& format, double result, HalfMode mode) {
  if (mode.sat) result = clamp_to_unit(result);
  const auto bits = static_cast<std::uint16_t>(narrow(format, result, {.relu = mode.relu}));
  const bool subnormal = (bits & format.infinity()) == 0;
  return mode.ftz && subnormal ? static_cast<std::uint16_t>(bits & format.sign_bit()) : bits;
}

/// What the 256 numbers of an 8-bit format are.
std::array<float, 256> all_values(const FloatFormat& format) {
  std::array<float, 256> values;
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    values[bits] = canonical(static_cast<float>(widen(format, bits)));
  }
  return values;
}

std::uint64_t all_ones(int bits) {
  return ~std::uint64_t{0} >> (64 - bits);
}

}  // namespace

std::uint64_t narrow(const FloatFormat& format, double value, Narrowing how) {
  if (std::isnan(value)) return format.nan;
  const bool negative = std::signbit(value);
  if (how.relu && negative) return 0;
  const std::uint64_t sign = negative ? format.sign_bit() : 0;
  if (value == 0) return sign;
  if (std::isinf(value)) {
    const bool infinite = format.has_infinity && !how.satfinite;
    if (infinite) return sign | format.infinity();
    return how.satfinite ? sign | format.largest() : format.nan;
  }
  const auto bits = std::bit_cast<std::uint64_t>(value);
  constexpr std::uint64_t implicit_bit = std::uint64_t{1} << 52;
  const std::uint64_t mantissa = bits & (implicit_bit - 1);
  const int exponent_field = static_cast<int>(bits >> 52 & 0x7FF);
  const std::uint64_t significand = exponent_field == 0 ? mantissa : mantissa | implicit_bit;
  const int exponent = std::max(exponent_field, 1) - 1023 - 52;
  const std::uint64_t magnitude = encode(format, negative, significand, exponent, how);
  return magnitude == format.nan ? magnitude : sign | magnitude;
}

double widen(const FloatFormat& format, std::uint64_t bits) {
  const bool negative = (bits & format.sign_bit()) != 0;
  const std::uint64_t magnitude = bits & (format.sign_bit() - 1);
  double value = 0;
  if (format.has_infinity ? magnitude > format.infinity() : magnitude == format.nan) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (format.has_infinity && magnitude == format.infinity()) {
    value = std::numeric_limits<double>::infinity();
  } else {
    // Read with the bias of double, the number is too small by 2^(1023 - bias), also if subnormal.
    const auto scale = static_cast<std::uint64_t>(1023 + 1023 - format.bias());
    value = std::bit_cast<double>(magnitude << (52 - format.mantissa_bits)) *
            std::bit_cast<double>(scale << 52);
  }
  return negative ? -value : value;
}

std::uint32_t f32_to_tf32(float value, Narrowing how) {
  if (!std::isnan(value)) {
    return static_cast<std::uint32_t>(narrow(format::tf32, value, how)) << 13;
  }
  // As an H200 does it: .rna cuts the payload off, and .satfinite then takes one unit away.
  if (how.rounding != Rounding::rna) return 0x7FFF'E000;
  const std::uint32_t cut = std::bit_cast<std::uint32_t>(value) & ~0x1FFFu;
  return how.satfinite ? cut - 0x2000 : cut;
}

std::uint8_t f32_to_e4m3(float value, bool relu) {
  return static_cast<std::uint8_t>(narrow(format::e4m3, value, {.satfinite = true, .relu = relu}));
}

std::uint8_t f32_to_e5m2(float value, bool relu) {
  return static_cast<std::uint8_t>(narrow(format::e5m2, value, {.satfinite = true, .relu = relu}));
}

float e4m3_to_f32(std::uint8_t bits) {
  static const std::array<float, 256> values = all_values(format::e4m3);
  return values[bits];
}

float e5m2_to_f32(std::uint8_t bits) {
  static const std::array<float, 256> values = all_values(format::e5m2);
  return values[bits];
}

std::uint16_t f16x2_to_e4m3x2(std::uint32_t pair, bool relu) {
  return f32_to_e4m3x2(f16_to_f32(static_cast<std::uint16_t>(pair >> 16)),
                       f16_to_f32(static_cast<std::uint16_t>(pair)), relu);
}

std::uint16_t f16x2_to_e5m2x2(std::uint32_t pair, bool relu) {
  return f32_to_e5m2x2(f16_to_f32(static_cast<std::uint16_t>(pair >> 16)),
                       f16_to_f32(static_cast<std::uint16_t>(pair)), relu);
}

std::uint32_t e4m3x2_to_f16x2(std::uint16_t pair, bool relu) {
  return f32_to_f16x2(e4m3_to_f32(static_cast<std::uint8_t>(pair >> 8)),
                      e4m3_to_f32(static_cast<std::uint8_t>(pair)), {.relu = relu});
}

std::uint32_t e5m2x2_to_f16x2(std::uint16_t pair, bool relu) {
  return f32_to_f16x2(e5m2_to_f32(static_cast<std::uint8_t>(pair >> 8)),
                      e5m2_to_f32(static_cast<std::uint8_t>(pair)), {.relu = relu});
}

std::uint64_t float_to_integer(double value, IntegerFormat to, Rounding rounding, bool from_f64) {
  const std::uint64_t top_bit = std::uint64_t{1} << (to.bits - 1);
  if (std::isnan(value)) return from_f64 || to.bits == 64 ? extend(top_bit, to) : 0;
  const double rounded = round_to_integral(value, rounding);
  const double beyond = std::ldexp(1.0, to.is_signed ? to.bits - 1 : to.bits);
  if (rounded >= beyond) return to.is_signed ? top_bit - 1 : all_ones(to.bits);
  if (!to.is_signed) return rounded <= 0 ? 0 : static_cast<std::uint64_t>(rounded);
  if (rounded <= -beyond) return extend(top_bit, to);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(rounded));
}

std::uint64_t integer_to_float(std::uint64_t value, IntegerFormat from, const FloatFormat& to,
                               Rounding rounding) {
  const std::uint64_t extended = extend(value, from);
  if (extended == 0) return 0;
  const bool negative = from.is_signed && extended >> 63 == 1;
  const std::uint64_t magnitude = negative ? 0 - extended : extended;
  const std::uint64_t sign = negative ? to.sign_bit() : 0;
  return sign | encode(to, negative, magnitude, 0, {.rounding = rounding});
}

std::uint64_t saturate(std::uint64_t value, IntegerFormat from, IntegerFormat to) {
  const std::uint64_t extended = extend(value, from);
  const bool negative = from.is_signed && extended >> 63 == 1;
  if (negative) {
    if (!to.is_signed) return 0;
    const std::uint64_t smallest = extend(std::uint64_t{1} << (to.bits - 1), to);
    return static_cast<std::int64_t>(extended) < static_cast<std::int64_t>(smallest) ? smallest
                                                                                     : extended;
  }
  return std::min(extended, all_ones(to.is_signed ? to.bits - 1 : to.bits));
}

std::uint64_t extend(std::uint64_t value, IntegerFormat from) {
  const int unused = 64 - from.bits;
  if (!from.is_signed) return value << unused >> unused;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
}

double round_to_integral(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::rn:
      return std::nearbyint(value);
    case Rounding::rz:
      return std::trunc(value);
    case Rounding::rm:
      return std::floor(value);
    case Rounding::rp:
      return std::ceil(value);
    case Rounding::rna:
      return std::round(value);
  }
  return value;
}

double add_to_odd(double a, double b) {
  // Knuth's TwoSum: sum + error is a + b exactly.
  const double sum = a + b;
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);
  return to_odd(sum, error);
}

double fma_to_odd(double a, double b, double c) {
  return add_to_odd(a * b, c);
}

double divide_to_odd(double a, double b) {
  const double quotient = a / b;
  if (!std::isfinite(b) || b == 0) return quotient;
  const double remainder = std::fma(-quotient, b, a);
  return to_odd(quotient, b > 0 ? remainder : -remainder);
}

double sqrt_to_odd(double a) {
  const double root = std::sqrt(a);
  return to_odd(root, std::fma(-root, root, a));
}

float add_f32(float a, float b, F32Mode mode) {
  a = flush_if(mode.ftz, a);
  b = flush_if(mode.ftz, b);
  return finish(sum_to_odd(a, b, mode.rounding), mode);
}

float mul_f32(float a, float b, F32Mode mode) {
  a = flush_if(mode.ftz, a);
  b = flush_if(mode.ftz, b);
  return finish(double{a} * double{b}, mode);
}

float fma_f32(float a, float b, float c, F32Mode mode) {
  a = flush_if(mode.ftz, a);
  b = flush_if(mode.ftz, b);
  c = flush_if(mode.ftz, c);
  return finish(sum_to_odd(double{a} * double{b}, c, mode.rounding), mode);
}

float div_f32(float a, float b, F32Mode mode) {
  a = flush_if(mode.ftz, a);
  b = flush_if(mode.ftz, b);
  return finish(divide_to_odd(a, b), mode);
}

float sqrt_f32(float a, F32Mode mode) {
  return finish(sqrt_to_odd(flush_if(mode.ftz, a)), mode);
}

float rcp_f32(float a, F32Mode mode) {
  return div_f32(1.0f, a, mode);
}

std::uint16_t add_half(const FloatFormat& format, std::uint16_t a, std::uint16_t b, HalfMode mode) {
  return finish_half(
      format, add_to_odd(half_operand(format, a, mode.ftz), half_operand(format, b, mode.ftz)),
      mode);
}

std::uint16_t mul_half(const FloatFormat& format, std::uint16_t a, std::uint16_t b, HalfMode mode) {
  return finish_half(format, half_operand(format, a, mode.ftz) * half_operand(format, b, mode.ftz),
                     mode);
}

std::uint16_t fma_half(const FloatFormat& format, std::uint16_t a, std::uint16_t b, std::uint16_t c,
                       HalfMode mode) {
  return finish_half(
      format,
      fma_to_odd(half_operand(format, a, mode.ftz), half_operand(format, b, mode.ftz),
                 half_operand(format, c, mode.ftz)),
      mode);
}

double minimum(double a, double b, bool propagate_nan) {
  if (std::isnan(a) || std::isnan(b)) return propagate_nan ? a + b : std::isnan(a) ? b : a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

double maximum(double a, double b, bool propagate_nan) {
  return -minimum(-a, -b, propagate_nan);
}

}  // namespace emulator

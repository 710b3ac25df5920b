// The types that results are rounded to, and how far a rounded result may lie from the exact one.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace harness {

/// A binary floating-point type with infinities and subnormals.
struct Format {
  double half_step;  ///< half the distance of its values between 1 and 2
  double normal;     ///< its smallest normal value
  double largest;    ///< its largest finite value
  double beyond;     ///< the power of two above that
};

constexpr Format bf16_format{0x1p-8, 0x1p-126, 0x1.FEp127, 0x1p128};
constexpr Format f16_format{0x1p-11, 0x1p-14, 0x1.FFCp15, 0x1p16};
constexpr Format f32_format{0x1p-24, 0x1p-126, 0x1.FFFFFEp127, 0x1p128};

/// Half the distance between the values around `x` >= 0. Below the smallest normal value the
/// distance stays that of the subnormals.
inline double half_ulp(const Format& format, double x) {
  // 2^floor(log2 x): the exponent without the fraction.
  const double at_least = std::max(x, format.normal);
  return format.half_step *
         std::bit_cast<double>(std::bit_cast<std::uint64_t>(at_least) & 0x7FF0000000000000U);
}

/// How far the rounding of a value may lie from `expected`, if the value does not lie farther from
/// it than `error`: it moves by at most half an ulp of its own.
inline double rounded_bound(const Format& format, double expected, double error) {
  return half_ulp(format, std::min(std::abs(expected) + error, format.largest)) + error;
}

/// How far `got` lies from `expected`. A type rounds to infinity whatever it would round to
/// `beyond` if its exponent had one more bit, so infinity stands for that and all that is beyond.
inline double distance(const Format& format, double got, double expected) {
  if (!std::isinf(got)) return std::abs(got - expected);
  const double reached =
      std::abs(expected) > format.beyond ? std::copysign(format.beyond, expected) : expected;
  return std::abs(std::copysign(format.beyond, got) - reached);
}

}  // namespace harness

// How far rounding to a format may move a number.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace harness {

/// A binary floating-point format, as far as rounding goes.
struct Rounding {
  int fraction_bits;    ///< behind the leading one
  double least_normal;  ///< below it, the distance between neighbours stays the same
  double largest;       ///< finite number
  bool saturates;       ///< what is beyond becomes `largest`, else infinity
};

constexpr Rounding bf16_rounding{7, 0x1p-126, 0x1.FEp127, false};
constexpr Rounding f16_rounding{10, 0x1p-14, 0x1.FFCp15, false};
constexpr Rounding f32_rounding{23, 0x1p-126, 0x1.FFFFFEp127, false};
constexpr Rounding e4m3_rounding{3, 0x1p-6, 448, true};
constexpr Rounding e5m2_rounding{2, 0x1p-14, 57344, true};

/// 2^floor(log2 x) for a normal x > 0: its exponent without its fraction.
inline double binade(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0x7FF0000000000000U);
}

/// Half the distance between the format's numbers around `x` >= 0.
inline double half_ulp(const Rounding& format, double x) {
  const double ulps = std::ldexp(1.0, -format.fraction_bits - 1);
  return ulps * binade(std::clamp(x, format.least_normal, format.largest));
}

/// How far the rounding of a number may lie from `expected`, if the number itself does not lie
/// farther from it than `error`: it moves by at most half an ulp of its own.
inline double rounded_bound(const Rounding& format, double expected, double error) {
  return half_ulp(format, std::abs(expected) + error) + error;
}

/// How far `got` lies from `expected`. A format that saturates is to hold its largest number where
/// more is expected. Others round to infinity whatever they would round to the next power of two if
/// their exponent had one more bit, so infinity stands for that, and for all that is beyond.
inline double distance(const Rounding& format, double got, double expected) {
  if (format.saturates) {
    return std::abs(got - std::clamp(expected, -format.largest, format.largest));
  }
  if (!std::isinf(got)) return std::abs(got - expected);
  const double beyond = 2 * binade(format.largest);
  return std::abs(std::copysign(beyond, got) - std::clamp(expected, -beyond, beyond));
}

}  // namespace harness

// Number formats against references that work another way: neighbours found in the sorted list of
// all numbers of a format, the host's own rounding modes, and 128-bit arithmetic.
#include "common/emulator/formats.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/catch.h"

using emulator::FloatFormat;
using emulator::IntegerFormat;
using emulator::Narrowing;
using emulator::Rounding;

namespace format = emulator::format;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();
constexpr float f32_nan = std::numeric_limits<float>::quiet_NaN();
constexpr Rounding all_roundings[] = {Rounding::rn, Rounding::rz, Rounding::rm, Rounding::rp,
                                      Rounding::rna};

/// Counts what goes wrong in a long loop, and keeps what was first.
class Mismatches {
 public:
  template <class Describe>
  void expect(bool right, Describe describe) {
    if (!right && count_++ == 0) first_ = describe();
  }
  /// "7, the first: 0x1p-3"; empty if all was right.
  std::string words() const {
    return count_ == 0 ? "" : std::to_string(count_) + ", the first: " + first_;
  }

 private:
  std::size_t count_ = 0;
  std::string first_;
};

std::string hexadecimal(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%a", value);
  return text;
}

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

/// The i-th of a fixed sequence of numbers that look random.
std::uint64_t hashed(std::uint64_t i) {
  i = (i + 0x9E37'79B9'7F4A'7C15) * 0xBF58'476D'1CE4'E5B9;
  i = (i ^ (i >> 27)) * 0x94D0'49BB'1331'11EB;
  return i ^ (i >> 31);
}

/// Values that f32 conversions must get right: hashed ones of every exponent, and those next to
/// numbers of 8 and 16 bits and next to the points halfway between them.
std::vector<float> interesting_floats() {
  std::vector<float> values{0.0f,
                            -0.0f,
                            float_of(1),
                            float_of(0x7F'FFFF),
                            float_of(0x7F7F'FFFF),
                            float_of(0x7F80'0000),
                            float_of(0xFF80'0000)};
  for (std::uint64_t i = 0; i < 50000; ++i) {
    values.push_back(float_of(static_cast<std::uint32_t>(hashed(i))));
  }
  for (std::uint32_t upper = 0; upper < 0x1'0000; upper += 7) {
    for (std::uint32_t lower : {0u, 1u, 0x0FFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u}) {
      values.push_back(float_of(upper << 16 | lower));
    }
  }
  std::erase_if(values, [](float value) { return std::isnan(value); });
  return values;
}

/// Reads a format digit by digit.
double decoded(const FloatFormat& format, std::uint64_t bits) {
  const auto mantissa_end = std::uint64_t{1} << format.mantissa_bits;
  const auto mantissa = static_cast<double>(bits % mantissa_end);
  const int exponent = static_cast<int>(bits / mantissa_end % (1u << format.exponent_bits));
  const double sign = bits >> (format.bits() - 1) == 0 ? 1 : -1;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double fraction = mantissa / static_cast<double>(mantissa_end);
  if (exponent == 0) return sign * std::pow(2.0, 1 - bias) * fraction;
  return sign * std::pow(2.0, exponent - bias) * (1 + fraction);
}

/// The positive finite numbers of a format in order: numbers[i] has the bits i.
class NumberList {
 public:
  NumberList(const FloatFormat& format, std::uint64_t largest) {
    for (std::uint64_t bits = 0; bits <= largest; ++bits) {
      numbers_.push_back(decoded(format, bits));
    }
    // Where the next number would be, if the format had one.
    beyond_ = 2 * numbers_[largest] - numbers_[largest - 1];
  }

  /// The bits of the neighbour of magnitude |value| that the rounding takes; size() if it is beyond
  /// the largest number.
  std::uint64_t round(double value, Rounding rounding) const {
    const double magnitude = std::fabs(value);
    const auto above = std::upper_bound(numbers_.begin(), numbers_.end(), magnitude);
    const auto lower = static_cast<std::uint64_t>(above - numbers_.begin()) - 1;
    if (numbers_[lower] == magnitude) return lower;
    const double upper_value = lower + 1 < size() ? numbers_[lower + 1] : beyond_;
    const bool negative = std::signbit(value);
    // All numbers here have at most 24 bits, so the middle is exact in double.
    const double middle = numbers_[lower] + (upper_value - numbers_[lower]) / 2;
    bool up = false;
    switch (rounding) {
      case Rounding::rn:
        up = magnitude > middle || (magnitude == middle && lower % 2 == 1);
        break;
      case Rounding::rz:
        break;
      case Rounding::rm:
        up = negative;
        break;
      case Rounding::rp:
        up = !negative;
        break;
      case Rounding::rna:
        up = magnitude >= middle;
        break;
    }
    return lower + (up ? 1 : 0);
  }

  std::uint64_t size() const { return numbers_.size(); }

 private:
  std::vector<double> numbers_;
  double beyond_;
};

struct NamedFormat {
  std::string name;
  FloatFormat format;
  std::uint64_t largest;
};

const std::vector<NamedFormat>& small_formats() {
  static const std::vector<NamedFormat> formats{{"f16", format::f16, 0x7BFF},
                                                {"bf16", format::bf16, 0x7F7F},
                                                {"e5m2", format::e5m2, 0x7B},
                                                {"e4m3", format::e4m3, 0x7E},
                                                {"tf32", format::tf32, 0x3'FBFF}};
  return formats;
}

std::uint64_t expected_narrowing(const NamedFormat& named, const NumberList& numbers, double value,
                                 Narrowing how) {
  if (how.relu && std::signbit(value)) return 0;
  const std::uint64_t sign = std::signbit(value) ? named.format.sign_bit() : 0;
  const std::uint64_t rounded =
      std::isinf(value) ? numbers.size() : numbers.round(value, how.rounding);
  if (rounded < numbers.size()) return sign | rounded;
  const bool towards_zero = how.rounding == Rounding::rz ||
                            how.rounding == (std::signbit(value) ? Rounding::rp : Rounding::rm);
  if (how.satfinite || (towards_zero && std::isfinite(value))) return sign | named.largest;
  return named.name == "e4m3" ? 0x7F : sign | (named.largest + 1);
}

}  // namespace

TEST_CASE("every number of a format widens to its value", "[formats]") {
  for (const NamedFormat& named : small_formats()) {
    INFO(named.name);
    Mismatches mismatches;
    for (std::uint64_t bits = 0; bits <= named.largest; ++bits) {
      const double positive = emulator::widen(named.format, bits);
      const double negative = emulator::widen(named.format, named.format.sign_bit() | bits);
      const double expected = decoded(named.format, bits);
      const bool right = positive == expected && negative == -expected && std::signbit(negative);
      mismatches.expect(right, [&] { return std::to_string(bits); });
    }
    CHECK(mismatches.words() == "");
  }
}

TEST_CASE("infinities and NaN widen", "[formats]") {
  for (const FloatFormat& format : {format::f16, format::bf16, format::e5m2, format::tf32}) {
    CHECK(emulator::widen(format, format.infinity()) == infinity);
    CHECK(emulator::widen(format, format.infinity() | format.sign_bit()) == -infinity);
    CHECK(std::isnan(emulator::widen(format, format.infinity() + 1)));
    CHECK(std::isnan(emulator::widen(format, format.nan)));
  }
  CHECK(std::isnan(emulator::widen(format::e4m3, 0x7F)));
  CHECK(std::isnan(emulator::widen(format::e4m3, 0xFF)));
  CHECK(emulator::widen(format::e4m3, 0x7E) == 448);
  CHECK(bits_of(emulator::f16_to_f32(0xFE01)) == 0x7FFF'FFFF);
  CHECK(bits_of(emulator::bf16_to_f32(0xFF81)) == 0xFF81'0000);
  CHECK(bits_of(emulator::e4m3_to_f32(0xFF)) == 0x7FFF'FFFF);
  CHECK(bits_of(emulator::e5m2_to_f32(0x7D)) == 0x7FFF'FFFF);
}

TEST_CASE("conversions to f32 agree with widening for all bits", "[formats]") {
  const auto same = [](float converted, double widened) {
    if (std::isnan(widened)) return std::isnan(converted);
    return converted == widened && std::signbit(converted) == std::signbit(widened);
  };
  Mismatches mismatches;
  for (std::uint32_t bits = 0; bits < 0x1'0000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const auto byte = static_cast<std::uint8_t>(bits);
    const bool right = same(emulator::f16_to_f32(half), emulator::widen(format::f16, half)) &&
                       same(emulator::bf16_to_f32(half), emulator::widen(format::bf16, half)) &&
                       same(emulator::e4m3_to_f32(byte), emulator::widen(format::e4m3, byte)) &&
                       same(emulator::e5m2_to_f32(byte), emulator::widen(format::e5m2, byte));
    mismatches.expect(right, [&] { return std::to_string(bits); });
  }
  CHECK(mismatches.words() == "");
}

TEST_CASE("narrowing takes the right neighbour in every format and rounding", "[formats]") {
  const std::vector<float> values = interesting_floats();
  for (const NamedFormat& named : small_formats()) {
    const NumberList numbers(named.format, named.largest);
    for (Rounding rounding : all_roundings) {
      for (bool satfinite : {false, true}) {
        const Narrowing how{.rounding = rounding, .satfinite = satfinite};
        INFO(named.name << ", rounding " << static_cast<int>(rounding) << ", satfinite "
                        << satfinite);
        Mismatches mismatches;
        for (float value : values) {
          const std::uint64_t expected = expected_narrowing(named, numbers, value, how);
          mismatches.expect(emulator::narrow(named.format, value, how) == expected,
                            [&] { return hexadecimal(value); });
        }
        CHECK(mismatches.words() == "");
      }
    }
  }
}

TEST_CASE("f16, bf16 and the fp8 formats convert into each other for all bits", "[formats]") {
  for (const NamedFormat& to : small_formats()) {
    const NumberList numbers(to.format, to.largest);
    for (const FloatFormat& from : {format::f16, format::bf16, format::e4m3, format::e5m2}) {
      INFO("to " << to.name << " from " << from.bits() << " bits");
      Mismatches mismatches;
      for (std::uint64_t bits = 0; bits < std::uint64_t{1} << from.bits(); ++bits) {
        const double value = emulator::widen(from, bits);
        const std::uint64_t expected =
            std::isnan(value) ? to.format.nan
                              : expected_narrowing(to, numbers, value, {.satfinite = true});
        mismatches.expect(emulator::narrow(to.format, value, {.satfinite = true}) == expected,
                          [&] { return hexadecimal(value); });
      }
      CHECK(mismatches.words() == "");
    }
  }
}

TEST_CASE("e4m3 saturates at 448 and rounds to nearest even", "[formats]") {
  const auto e4m3 = [](float value) { return emulator::e4m3_to_f32(emulator::f32_to_e4m3(value)); };
  CHECK(e4m3(448) == 448);
  CHECK(e4m3(464) == 448);
  CHECK(e4m3(465) == 448);
  CHECK(e4m3(500) == 448);
  CHECK(e4m3(1000) == 448);
  CHECK(e4m3(-1000) == -448);
  CHECK(e4m3(248) == 256);
  CHECK(e4m3(432) == 448);
  CHECK(e4m3(0x1p-10f) == 0);
  CHECK(emulator::f32_to_e4m3(f32_nan) == 0x7F);
  CHECK(emulator::f32_to_e4m3(-f32_nan) == 0x7F);
  CHECK(emulator::f32_to_e4m3(static_cast<float>(infinity)) == 0x7E);
  CHECK(emulator::f32_to_e5m2(static_cast<float>(-infinity)) == 0xFB);
  CHECK(emulator::f32_to_e5m2(f32_nan) == 0x7F);
  // Overflow without .satfinite has nowhere to go but NaN.
  CHECK(emulator::narrow(format::e4m3, 465) == 0x7F);
  CHECK(emulator::narrow(format::e4m3, -465) == 0x7F);
  CHECK(emulator::narrow(format::e4m3, 464) == 0x7E);
}

TEST_CASE("bf16 rounds to nearest even, and NaN does not turn into infinity", "[formats]") {
  const auto bf16 = [](float value) { return emulator::bf16_to_f32(emulator::f32_to_bf16(value)); };
  CHECK(bf16(1.01171875f) == 1.015625f);
  CHECK(bf16(3.14f) == 3.140625f);
  CHECK(bf16(1.00390625f) == 1.0f);
  CHECK(bf16(std::numeric_limits<float>::max()) == infinity);
  CHECK(emulator::f32_to_bf16(float_of(0x7F80'0001)) == 0x7FFF);
  CHECK(emulator::f32_to_bf16(float_of(0x7FFF'FFFF)) == 0x7FFF);
  CHECK(emulator::f32_to_bf16(float_of(0xFFFF'FFFF)) == 0x7FFF);
  CHECK(emulator::f32_to_f16(float_of(0xFF80'0001)) == 0x7FFF);
  CHECK(emulator::f32_to_tf32(f32_nan) == 0x7FFF'E000);
  CHECK(emulator::f32_to_tf32(std::bit_cast<float>(0x7FC1'2345u), {.rounding = Rounding::rna}) ==
        0x7FC1'2000);
  CHECK(emulator::f32_to_tf32(1.0f + 0x1p-11f, {.rounding = Rounding::rna}) ==
        bits_of(1.0f + 0x1p-10f));
  CHECK(emulator::f32_to_tf32(1.0f + 0x1p-11f) == bits_of(1.0f));
  CHECK(emulator::truncate_to_tf32(0x3F80'1FFF) == 1.0f);
}

TEST_CASE(".relu makes negative results zero and keeps NaN", "[formats]") {
  const Narrowing relu{.relu = true};
  CHECK(emulator::f32_to_bf16(-1.0f, relu) == 0);
  CHECK(emulator::f32_to_bf16(-0.0f, relu) == 0);
  CHECK(emulator::f32_to_bf16(static_cast<float>(-infinity), relu) == 0);
  CHECK(emulator::f32_to_bf16(1.0f, relu) == 0x3F80);
  CHECK(emulator::f32_to_bf16(-f32_nan, relu) == 0x7FFF);
  CHECK(emulator::f32_to_e4m3(-3.0f, true) == 0);
  CHECK(emulator::f32_to_e5m2(3.0f, true) == emulator::f32_to_e5m2(3.0f));
}

TEST_CASE("the first operand of a pair goes to the upper half", "[formats]") {
  CHECK(emulator::f32_to_bf16x2(1.0f, 2.0f) == 0x3F80'4000);
  CHECK(emulator::f32_to_f16x2(1.0f, 2.0f) == 0x3C00'4000);
  CHECK(emulator::f32_to_e4m3x2(1.0f, 2.0f) == 0x3840);
  CHECK(emulator::f32_to_e5m2x2(1.0f, 2.0f) == 0x3C40);
  CHECK(emulator::f16x2_to_e4m3x2(0x3C00'4000) == 0x3840);
  CHECK(emulator::f16x2_to_e5m2x2(0x3C00'7C00) == 0x3C7B);
  CHECK(emulator::e4m3x2_to_f16x2(0x3840) == 0x3C00'4000);
  CHECK(emulator::e4m3x2_to_f16x2(0xFFB8) == 0x7FFF'BC00);
  CHECK(emulator::e4m3x2_to_f16x2(0xFFB8, true) == 0x7FFF'0000);
  CHECK(emulator::e5m2x2_to_f16x2(0xFD7C) == 0x7FFF'7C00);
}

TEST_CASE("floats become integers, rounded and clamped", "[formats]") {
  const std::vector<IntegerFormat> formats{{8, true},  {8, false},  {16, true}, {16, false},
                                           {32, true}, {32, false}, {64, true}, {64, false}};
  std::vector<double> values{0.5, -0.5, 1.5, 2.5, -2.5, 0x1p62, 0x1p63, 0x1p64, -0x1p63, -0x1p70};
  for (double power : {7.0, 8.0, 15.0, 16.0, 31.0, 32.0}) {
    for (double delta : {-1.0, -0.5, -0.25, 0.0, 0.25, 0.5}) {
      values.push_back(std::exp2(power) + delta);
      values.push_back(-std::exp2(power) + delta);
    }
  }
  values.push_back(infinity);
  values.push_back(-infinity);
  for (IntegerFormat to : formats) {
    const __int128 one = 1;
    const __int128 largest = (one << (to.is_signed ? to.bits - 1 : to.bits)) - 1;
    const __int128 smallest = to.is_signed ? -largest - 1 : 0;
    for (double value : values) {
      const double rounded[] = {std::nearbyint(value), std::trunc(value), std::floor(value),
                                std::ceil(value)};
      for (int mode = 0; mode < 4; ++mode) {
        __int128 expected = value > 0 ? largest : smallest;
        if (std::fabs(value) < 0x1p100) {
          expected = std::clamp(static_cast<__int128>(rounded[mode]), smallest, largest);
        }
        INFO(to.bits << (to.is_signed ? " signed, " : " unsigned, ") << value << ", " << mode);
        CHECK(emulator::float_to_integer(value, to, all_roundings[mode], false) ==
              static_cast<std::uint64_t>(expected));
      }
    }
  }
}

TEST_CASE("NaN becomes 0, or the top bit for f64 and 64-bit integers", "[formats]") {
  const auto from_nan = [](IntegerFormat to, bool from_f64) {
    return emulator::float_to_integer(quiet_nan, to, Rounding::rz, from_f64);
  };
  CHECK(from_nan({32, true}, false) == 0);
  CHECK(from_nan({8, false}, false) == 0);
  CHECK(from_nan({64, true}, false) == 0x8000'0000'0000'0000);
  CHECK(from_nan({64, false}, false) == 0x8000'0000'0000'0000);
  CHECK(from_nan({32, true}, true) == 0xFFFF'FFFF'8000'0000);
  CHECK(from_nan({32, false}, true) == 0x8000'0000);
}

TEST_CASE("integers become floats with one rounding", "[formats]") {
  const int host_modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  Mismatches mismatches;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    volatile auto as_signed = static_cast<std::int64_t>(hashed(i)) >> (i % 64);
    // The host converts unsigned 64-bit integers in two steps, so only what has 63 bits.
    volatile auto as_unsigned = static_cast<std::int64_t>(hashed(i) >> (1 + i % 63));
    for (int mode = 0; mode < 4; ++mode) {
      std::fesetround(host_modes[mode]);
      volatile float f32 = static_cast<float>(as_signed);
      volatile double f64 = static_cast<double>(as_signed);
      volatile float f32_unsigned = static_cast<float>(as_unsigned);
      std::fesetround(FE_TONEAREST);
      const auto converted = [&](std::int64_t value, bool is_signed, const FloatFormat& to) {
        return emulator::integer_to_float(static_cast<std::uint64_t>(value), {64, is_signed}, to,
                                          all_roundings[mode]);
      };
      const double f64_value = f64;
      const bool right =
          converted(as_signed, true, format::f32) == bits_of(f32) &&
          converted(as_signed, true, format::f64) == std::bit_cast<std::uint64_t>(f64_value) &&
          converted(as_unsigned, false, format::f32) == bits_of(f32_unsigned);
      mismatches.expect(right, [&] { return std::to_string(as_signed); });
    }
  }
  CHECK(mismatches.words() == "");
  CHECK(emulator::integer_to_float(~0ull, {64, false}, format::f32, Rounding::rn) ==
        bits_of(0x1p64f));
  CHECK(emulator::integer_to_float(~0ull, {64, true}, format::f32, Rounding::rn) == bits_of(-1.0f));
  CHECK(emulator::integer_to_float(65520, {32, true}, format::f16, Rounding::rn) == 0x7C00);
  CHECK(emulator::integer_to_float(65519, {32, true}, format::f16, Rounding::rn) == 0x7BFF);
  CHECK(emulator::integer_to_float(0xFF, {8, true}, format::bf16, Rounding::rn) == 0xBF80);
}

TEST_CASE("integers saturate", "[formats]") {
  CHECK(emulator::saturate(200, {32, true}, {8, true}) == 127);
  CHECK(emulator::saturate(static_cast<std::uint64_t>(-200), {32, true}, {8, true}) ==
        static_cast<std::uint64_t>(-128));
  CHECK(emulator::saturate(static_cast<std::uint64_t>(-1), {32, true}, {8, false}) == 0);
  CHECK(emulator::saturate(0xFFFF'FFFF, {32, false}, {32, true}) == 0x7FFF'FFFF);
  CHECK(emulator::saturate(~0ull, {64, false}, {64, true}) == 0x7FFF'FFFF'FFFF'FFFF);
  CHECK(emulator::saturate(5, {64, true}, {16, true}) == 5);
  CHECK(emulator::extend(0x80, {8, true}) == 0xFFFF'FFFF'FFFF'FF80);
  CHECK(emulator::extend(0x180, {8, false}) == 0x80);
}

TEST_CASE("f32 arithmetic rounds as the host does in each mode", "[formats]") {
  const int host_modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  const auto same = [](float x, float y) {
    return bits_of(x) == bits_of(y) || (std::isnan(x) && std::isnan(y));
  };
  Mismatches mismatches;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    volatile float a = float_of(static_cast<std::uint32_t>(hashed(3 * i)));
    volatile float b = float_of(static_cast<std::uint32_t>(hashed(3 * i + 1)));
    volatile float c = float_of(static_cast<std::uint32_t>(hashed(3 * i + 2)));
    // Half of them with exponents close to each other, and some that cancel.
    if (i % 2 == 1) b = float_of((bits_of(a) & 0xFF00'0000) | (bits_of(b) & 0x80FF'FFFF));
    if (i % 8 == 1) c = -a * b;
    if (i % 16 == 5) b = -a;
    for (int mode = 0; mode < 4; ++mode) {
      std::fesetround(host_modes[mode]);
      volatile float sum = a + b;
      volatile float product = a * b;
      volatile float fused = std::fma(a, b, c);
      volatile float ratio = a / b;
      volatile float root = std::sqrt(a);
      std::fesetround(FE_TONEAREST);
      const emulator::F32Mode f32_mode{.rounding = all_roundings[mode]};
      const bool right = same(emulator::add_f32(a, b, f32_mode), sum) &&
                         same(emulator::mul_f32(a, b, f32_mode), product) &&
                         same(emulator::fma_f32(a, b, c, f32_mode), fused) &&
                         same(emulator::div_f32(a, b, f32_mode), ratio) &&
                         same(emulator::sqrt_f32(a, f32_mode), root);
      mismatches.expect(right, [&] {
        return hexadecimal(a) + " " + hexadecimal(b) + " " + hexadecimal(c) + ", mode " +
               std::to_string(mode);
      });
    }
  }
  CHECK(mismatches.words() == "");
}

TEST_CASE("f32 modifiers flush, clamp and canonicalize", "[formats]") {
  const float subnormal = float_of(0x0040'0000);
  CHECK(bits_of(emulator::add_f32(-subnormal, 0.0f, {.ftz = true})) == 0);
  CHECK(bits_of(emulator::mul_f32(-subnormal, 1.0f, {.ftz = true})) == 0x8000'0000);
  CHECK(bits_of(emulator::mul_f32(-0x1p-126f, 0.5f, {.ftz = true})) == 0x8000'0000);
  CHECK(emulator::mul_f32(0x1p-126f, 0.5f) == subnormal);
  CHECK(emulator::rcp_f32(subnormal, {.ftz = true}) == infinity);
  CHECK(emulator::add_f32(3.0f, 1.0f, {.sat = true}) == 1.0f);
  CHECK(emulator::add_f32(-3.0f, 1.0f, {.sat = true}) == 0.0f);
  CHECK(bits_of(emulator::fma_f32(f32_nan, 1.0f, 1.0f, {.sat = true})) == 0);
  const auto f32_infinity = static_cast<float>(infinity);
  CHECK(bits_of(emulator::add_f32(f32_infinity, -f32_infinity)) == 0x7FFF'FFFF);
  CHECK(bits_of(emulator::add_f32(float_of(0xFFC0'1234), 1.0f)) == 0x7FFF'FFFF);
}

TEST_CASE("half arithmetic rounds once", "[formats]") {
  // An f16 is an integer times 2^-24, so a product and a sum are integers times 2^-48.
  using Wide = __int128;
  const auto scaled = [](std::uint64_t bits) {
    return static_cast<Wide>(decoded(format::f16, bits) * 0x1p24);
  };
  Mismatches mismatches;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const std::uint64_t bits = hashed(i);
    const auto a = static_cast<std::uint16_t>(bits & 0xBBFF);
    const auto b = static_cast<std::uint16_t>(bits >> 16 & 0xBBFF);
    const auto c = static_cast<std::uint16_t>(bits >> 32 & 0xBBFF);
    constexpr Wide unit = 1 << 24;
    const Wide exact = scaled(a) * scaled(b) + scaled(c) * unit;
    const auto distance = [&](std::uint64_t candidate) {
      const Wide difference = scaled(candidate) * unit - exact;
      return difference < 0 ? -difference : difference;
    };
    // No neighbour is closer, and one that is as close is odd.
    const std::uint16_t result = emulator::fma_half(format::f16, a, b, c);
    const std::uint64_t magnitude = result & 0x7FFF;
    const std::uint64_t sign = result & 0x8000;
    bool right = magnitude < 0x7C00 && (exact == 0 || (exact < 0) == (sign != 0));
    for (std::uint64_t neighbour : {magnitude - 1, magnitude + 1}) {
      if (neighbour >= 0x7C00) continue;
      const Wide margin = distance(sign | neighbour) - distance(result);
      right = right && (margin > 0 || (margin == 0 && magnitude % 2 == 0));
    }
    mismatches.expect(right, [&] { return std::to_string(bits); });
  }
  CHECK(mismatches.words() == "");
  // The product is a tie between two numbers, which the tiny addend breaks.
  CHECK(emulator::fma_half(format::bf16, 0x3F81, 0x3FC0, 0x0001) ==
        emulator::f32_to_bf16(std::nextafter(1.5f * 0x1.02p0f, 2.0f)));
  CHECK(emulator::fma_half(format::bf16, 0x3F81, 0x3FC0, 0x8001) ==
        emulator::f32_to_bf16(std::nextafter(1.5f * 0x1.02p0f, 0.0f)));
  CHECK(emulator::add_half(format::f16, 0x7BFF, 0x7BFF) == 0x7C00);
  CHECK(emulator::mul_half(format::f16, 0x0001, 0x3C00, {.ftz = true}) == 0);
  CHECK(emulator::add_half(format::f16, 0x4000, 0x4000, {.sat = true}) == 0x3C00);
  CHECK(emulator::fma_half(format::bf16, 0xBF80, 0x3F80, 0, {.relu = true}) == 0);
  CHECK(emulator::add_half(format::f16, 0x7C00, 0xFC00) == 0x7FFF);
}

TEST_CASE("min and max order zeros and pass numbers by NaN", "[formats]") {
  CHECK(std::signbit(emulator::minimum(0.0, -0.0)));
  CHECK(std::signbit(emulator::minimum(-0.0, 0.0)));
  CHECK_FALSE(std::signbit(emulator::maximum(0.0, -0.0)));
  CHECK_FALSE(std::signbit(emulator::maximum(-0.0, 0.0)));
  CHECK(emulator::minimum(quiet_nan, 2.0) == 2.0);
  CHECK(emulator::maximum(2.0, quiet_nan) == 2.0);
  CHECK(std::isnan(emulator::minimum(quiet_nan, quiet_nan)));
  CHECK(std::isnan(emulator::maximum(2.0, quiet_nan, true)));
  CHECK(emulator::maximum(-infinity, 3.0) == 3.0);
}

// The .approx functions: the special values of the ISA's tables, and the values between them within
// its error bounds of what the host's long double functions give.
#include "common/emulator/approximations.h"

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "common/emulator/formats.h"
#include "tests/catch.h"

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float subnormal = 0x1p-140f;

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

/// Half a unit in the last place of `value`.
long double half_ulp(long double value) {
  const int exponent = value == 0 ? -149 : std::max(std::ilogb(value) - 23, -149);
  return std::ldexp(0.5L, exponent);
}

void check_rounded(const std::function<float(float)>& function,
                   const std::function<long double(long double)>& exact,
                   const std::vector<float>& values) {
  for (float value : values) {
    const long double expected = exact(value);
    INFO(std::hexfloat << value);
    // The double in between adds a little to half a unit.
    CHECK(std::fabs(function(value) - expected) <= half_ulp(expected) * 1.000001L);
  }
}

}  // namespace

TEST_CASE("approximations of f32 are rounded results", "[approximations]") {
  std::vector<float> positive;
  for (float value = 0x1p-100f; value < 0x1p100f; value *= 1.37f) positive.push_back(value);
  std::vector<float> moderate;
  for (float value = -20.0f; value < 20.0f; value += 0.1379f) moderate.push_back(value);
  check_rounded([](float x) { return emulator::ex2_approx(x); },
                [](long double x) { return std::exp2(x); }, moderate);
  check_rounded([](float x) { return emulator::lg2_approx(x); },
                [](long double x) { return std::log2(x); }, positive);
  check_rounded([](float x) { return emulator::rcp_approx(x); },
                [](long double x) { return 1 / x; }, positive);
  check_rounded([](float x) { return emulator::rsqrt_approx(x); },
                [](long double x) { return 1 / std::sqrt(x); }, positive);
  check_rounded([](float x) { return emulator::sqrt_approx(x); },
                [](long double x) { return std::sqrt(x); }, positive);
  check_rounded([](float x) { return emulator::sin_approx(x); },
                [](long double x) { return std::sin(x); }, moderate);
  check_rounded([](float x) { return emulator::cos_approx(x); },
                [](long double x) { return std::cos(x); }, moderate);
  check_rounded([](float x) { return emulator::tanh_approx(x); },
                [](long double x) { return std::tanh(x); }, moderate);
}

TEST_CASE("approximations have the ISA's special values", "[approximations]") {
  CHECK(bits_of(emulator::ex2_approx(-infinity)) == 0);
  CHECK(emulator::ex2_approx(-0.0f) == 1.0f);
  CHECK(emulator::ex2_approx(infinity) == infinity);
  CHECK(emulator::ex2_approx(128.0f) == infinity);
  CHECK(emulator::lg2_approx(-0.0f) == -infinity);
  CHECK(emulator::lg2_approx(0.0f) == -infinity);
  CHECK(emulator::lg2_approx(infinity) == infinity);
  CHECK(bits_of(emulator::lg2_approx(1.0f)) == 0);
  CHECK(bits_of(emulator::rcp_approx(-infinity)) == 0x8000'0000);
  CHECK(emulator::rcp_approx(-0.0f) == -infinity);
  CHECK(emulator::rsqrt_approx(-0.0f) == -infinity);
  CHECK(bits_of(emulator::rsqrt_approx(infinity)) == 0);
  CHECK(bits_of(emulator::sqrt_approx(-0.0f)) == 0x8000'0000);
  CHECK(emulator::sqrt_approx(infinity) == infinity);
  CHECK(bits_of(emulator::sin_approx(-0.0f)) == 0x8000'0000);
  CHECK(emulator::cos_approx(-0.0f) == 1.0f);
  CHECK(emulator::tanh_approx(-infinity) == -1.0f);
  CHECK(bits_of(emulator::tanh_approx(-0.0f)) == 0x8000'0000);
  for (float value : {emulator::lg2_approx(-1.0f), emulator::lg2_approx(-infinity),
                      emulator::rsqrt_approx(-1.0f), emulator::sqrt_approx(-1.0f),
                      emulator::sin_approx(infinity), emulator::cos_approx(-infinity),
                      emulator::ex2_approx(not_a_number), emulator::tanh_approx(-not_a_number)}) {
    CHECK(bits_of(value) == 0x7FFF'FFFF);
  }
}

TEST_CASE(".ftz flushes subnormal inputs and results", "[approximations]") {
  CHECK(emulator::rcp_approx(-subnormal, true) == -infinity);
  CHECK(bits_of(emulator::ex2_approx(-130.0f, true)) == 0);
  CHECK(emulator::ex2_approx(-130.0f) == 0x1p-130f);
  CHECK(emulator::lg2_approx(subnormal, true) == -infinity);
  CHECK(emulator::lg2_approx(subnormal) == -140.0f);
  CHECK(bits_of(emulator::sin_approx(-subnormal, true)) == 0x8000'0000);
  CHECK(bits_of(emulator::sqrt_approx(-subnormal, true)) == 0x8000'0000);
}

TEST_CASE("div.approx gives up beyond 2^126", "[approximations]") {
  CHECK(emulator::div_approx(1.0f, 3.0f) == 1.0f / 3.0f);
  CHECK(bits_of(emulator::div_approx(-0x1p127f, 0x1p127f)) == 0x8000'0000);
  CHECK(std::isnan(emulator::div_approx(infinity, 0x1p127f)));
  CHECK(emulator::div_approx(infinity, 0x1p126f) == infinity);
  CHECK(emulator::div_full(0x1p127f, 0x1p127f) == 1.0f);
  CHECK(bits_of(emulator::div_full(0.0f, 0.0f)) == 0x7FFF'FFFF);
}

TEST_CASE("approximations of f16 and bf16", "[approximations]") {
  CHECK(emulator::ex2_approx_f16(0xFC00) == 0);
  CHECK(emulator::ex2_approx_f16(0x8000) == 0x3C00);
  CHECK(emulator::ex2_approx_f16(0x7C00) == 0x7C00);
  CHECK(emulator::ex2_approx_f16(0xFE00) == 0x7FFF);
  CHECK(emulator::ex2_approx_f16(0x4C00) == 0x7C00);
  CHECK(emulator::ex2_approx_f16(0xCB80) == 0x0200);
  CHECK(emulator::ex2_approx_ftz_bf16(0x8001) == 0x3F80);
  CHECK(emulator::ex2_approx_ftz_bf16(0xC300) == 0);
  CHECK(emulator::ex2_approx_ftz_bf16(0x3F80) == 0x4000);
  CHECK(emulator::tanh_approx_f16(0x8000) == 0x8000);
  CHECK(emulator::tanh_approx_f16(0x7C00) == 0x3C00);
  CHECK(emulator::tanh_approx_f16(0x0001) == 0x0001);
  CHECK(emulator::tanh_approx_bf16(0xFF80) == 0xBF80);
  CHECK(emulator::tanh_approx_bf16(0x7FC1) == 0x7FFF);
}

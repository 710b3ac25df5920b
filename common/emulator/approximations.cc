#include "common/emulator/approximations.h"

#include <cmath>

#include "common/emulator/formats.h"

namespace emulator {
namespace {

/// function(a), computed in double and rounded once.
template <class Function>
float approximate(float a, bool ftz, Function function) {
  const auto result = static_cast<float>(function(double{ftz ? flush_subnormal(a) : a}));
  return canonical(ftz ? flush_subnormal(result) : result);
}

float quotient(float a, float b, bool ftz) {
  return div_f32(a, b, {.ftz = ftz});
}

}  // namespace

float ex2_approx(float a, bool ftz) {
  return approximate(a, ftz, [](double x) { return std::exp2(x); });
}

float lg2_approx(float a, bool ftz) {
  return approximate(a, ftz, [](double x) { return std::log2(x); });
}

float rcp_approx(float a, bool ftz) {
  return approximate(a, ftz, [](double x) { return 1 / x; });
}

float rsqrt_approx(float a, bool ftz) {
  return approximate(a, ftz, [](double x) { return 1 / std::sqrt(x); });
}

float sqrt_approx(float a, bool ftz) {
  return approximate(a, ftz, [](double x) { return std::sqrt(x); });
}

float sin_approx(float a, bool ftz) {
  return approximate(a, ftz, [](double x) { return std::sin(x); });
}

float cos_approx(float a, bool ftz) {
  return approximate(a, ftz, [](double x) { return std::cos(x); });
}

float tanh_approx(float a) {
  return approximate(a, false, [](double x) { return std::tanh(x); });
}

float div_approx(float a, float b, bool ftz) {
  // a * (1 / b), and 1 / b is too small for the hardware there.
  if (std::isfinite(b) && std::fabs(b) > 0x1p126f) return mul_f32(a, std::copysign(0.0f, b));
  return quotient(a, b, ftz);
}

float div_full(float a, float b, bool ftz) {
  return quotient(a, b, ftz);
}

std::uint16_t ex2_approx_f16(std::uint16_t a) {
  return f32_to_f16(ex2_approx(f16_to_f32(a)));
}

std::uint16_t ex2_approx_ftz_bf16(std::uint16_t a) {
  const std::uint16_t result = f32_to_bf16(ex2_approx(bf16_to_f32(a), true));
  return f32_to_bf16(flush_subnormal(bf16_to_f32(result)));
}

std::uint16_t tanh_approx_f16(std::uint16_t a) {
  return f32_to_f16(tanh_approx(f16_to_f32(a)));
}

std::uint16_t tanh_approx_bf16(std::uint16_t a) {
  return f32_to_bf16(tanh_approx(bf16_to_f32(a)));
}

}  // namespace emulator

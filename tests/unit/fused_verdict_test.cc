// What the verdict on a fused epilogue lets pass, and what it does not.
#include "common/harness/fused_verdict.h"

#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "common/harness/rounding.h"
#include "tests/catch.h"

namespace {

using gemm::Activation;
using harness::Expected;
using harness::FusedElement;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t k = 512;

bool passes(const harness::Rounding& format, double got, const Expected& expected) {
  return (std::isnan(got) && std::isnan(expected.value)) ||
         harness::distance(format, got, expected.value) <= harness::fused_bound(format, expected);
}

/// Elements as a product of N(0, 1) operands gives them.
template <class Function>
void for_some_elements(Function function) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 2000; ++i) {
    function(FusedElement{.alpha = 0.05,
                          .sum = std::sqrt(k) * normal(random),
                          .magnitude = 0.64 * k,
                          .beta = 0.5,
                          .c = normal(random),
                          .bias = normal(random),
                          .residual = normal(random)});
  }
}

/// The element as a kernel computes it, with its operations in fp32.
template <Activation activation>
float computed(const FusedElement& e) {
  const auto f = [](double x) { return static_cast<float>(x); };
  float value = f(e.alpha) * f(e.sum);
  value += f(e.beta) * f(e.c);
  value += f(e.bias);
  return gemm::activate<activation>(value) + f(e.residual);
}

TEST_CASE("an element computed in fp32 passes") {
  for_some_elements([](const FusedElement& e) {
    const auto check = [&]<Activation activation>() {
      const Expected expected = harness::expected_element(k, activation, e);
      CHECK(passes(harness::f32_rounding, computed<activation>(e), expected));
    };
    check.template operator()<Activation::none>();
    check.template operator()<Activation::relu>();
    check.template operator()<Activation::gelu>();
    check.template operator()<Activation::gelu_tanh>();
    check.template operator()<Activation::silu>();
  });
}

TEST_CASE("of two kernels, the first rounds to bf16") {
  int strict = 0, count = 0;
  for_some_elements([&](FusedElement e) {
    const auto in_bf16 = [](float x) { return __bfloat162float(__float2bfloat16_rn(x)); };
    const float z = in_bf16(static_cast<float>(e.alpha * e.sum + e.beta * e.c));
    const float got = gemm::activate<Activation::silu>(z + static_cast<float>(e.bias)) +
                      static_cast<float>(e.residual);
    const auto expected = [&] { return harness::expected_element(k, Activation::silu, e); };
    ++count;
    strict += passes(harness::f32_rounding, got, expected());
    e.in_two_kernels = true;
    CHECK(passes(harness::f32_rounding, got, expected()));
  });
  CHECK(strict < 0.5 * count);
}

// Each must be seen in most elements: a few lie where it makes no difference.
TEST_CASE("an operation forgotten, doubled or out of its turn fails") {
  int residual_early = 0, no_bias = 0, c_twice = 0, no_residual = 0, other_gelu = 0, count = 0;
  for_some_elements([&](const FusedElement& e) {
    const Expected expected = harness::expected_element(k, Activation::gelu, e);
    const auto fails = [&](double got) {
      return !passes(harness::bf16_rounding, got, expected) ? 1 : 0;
    };
    const auto with = [&](auto change) {
      FusedElement other = e;
      change(other);
      return harness::expected_element(k, Activation::gelu, other).value;
    };
    ++count;
    no_bias += fails(with([](FusedElement& o) { o.bias = 0; }));
    c_twice += fails(with([](FusedElement& o) { o.c *= 2; }));
    no_residual += fails(with([](FusedElement& o) { o.residual = 0; }));
    residual_early += fails(with([](FusedElement& o) {
      o.bias += o.residual;
      o.residual = 0;
    }));
    other_gelu += !passes(harness::f32_rounding,
                          harness::expected_element(k, Activation::gelu_tanh, e).value, expected);
  });
  CHECK(no_bias > 0.8 * count);
  CHECK(c_twice > 0.8 * count);
  CHECK(no_residual > 0.9 * count);
  CHECK(residual_early > 0.6 * count);
  CHECK(other_gelu > 0.1 * count);  // they differ by 4.7e-4 at the most
}

TEST_CASE("infinities and NaN are expected exactly") {
  FusedElement e{.alpha = 1, .sum = 1, .magnitude = 1, .beta = 0, .c = 0, .bias = 0, .residual = 0};
  const auto of = [&](double bias, double residual) {
    e.bias = bias;
    e.residual = residual;
    return harness::expected_element(k, Activation::gelu, e);
  };
  const harness::Rounding& bf16 = harness::bf16_rounding;
  CHECK(passes(bf16, nan, of(nan, 0)));
  CHECK(!passes(bf16, 0, of(nan, 0)));
  CHECK(!passes(bf16, inf, of(nan, 0)));
  CHECK(passes(bf16, inf, of(inf, 0)));
  CHECK(!passes(bf16, -inf, of(inf, 0)));
  CHECK(!passes(bf16, 3e38, of(inf, 0)));
  CHECK(!passes(bf16, nan, of(inf, 0)));
  CHECK(passes(bf16, 0, of(-inf, 0)));  // the limit
  CHECK(!passes(bf16, nan, of(-inf, 0)));
  CHECK(passes(bf16, 2, of(-inf, 2)));
  CHECK(passes(bf16, nan, of(inf, -inf)));
  CHECK(!passes(bf16, nan, of(1, 1)));
}

TEST_CASE("half an ulp, and what infinity stands for") {
  CHECK(harness::half_ulp(harness::bf16_rounding, 1) == 0x1p-8);
  CHECK(harness::half_ulp(harness::bf16_rounding, 1.99) == 0x1p-8);
  CHECK(harness::half_ulp(harness::f16_rounding, 2) == 0x1p-10);
  CHECK(harness::half_ulp(harness::f32_rounding, 0.5) == 0x1p-25);
  CHECK(harness::half_ulp(harness::f16_rounding, 0) == 0x1p-25);  // subnormals: 2^-24 apart
  CHECK(harness::half_ulp(harness::bf16_rounding, 0) == 0x1p-134);

  const harness::Rounding& f16 = harness::f16_rounding;
  CHECK(passes(f16, inf, {65520, 0}));
  CHECK(passes(f16, inf, {1e9, 0}));
  CHECK(!passes(f16, 65504, {1e9, 0}));
  CHECK(passes(f16, 65504, {65519, 0}));
  CHECK(!passes(f16, inf, {65500, 0}));
}

}  // namespace

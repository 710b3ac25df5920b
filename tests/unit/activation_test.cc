// Activations in fp32 against double precision, over ordinary values and those that formulas trip
// over.
#include "common/gemm/activation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "common/harness/fused_verdict.h"
#include "tests/catch.h"

namespace {

using gemm::Activation;

constexpr float inf = std::numeric_limits<float>::infinity();

/// Calls function.operator()<activation>() for each activation.
template <class Function>
void for_each_activation(Function function) {
  function.template operator()<Activation::none>();
  function.template operator()<Activation::relu>();
  function.template operator()<Activation::gelu>();
  function.template operator()<Activation::gelu_tanh>();
  function.template operator()<Activation::silu>();
}

/// How far activate() may be off at x, by its own docstring.
double promised_error(double x, double exact) {
  const double bump = std::max(x, 0.0) - exact;
  return 0x1p-24 * std::abs(exact) + 0x1p-16 * std::abs(bump) + 0x1p-31;
}

TEST_CASE("activations keep what they promise") {
  for_each_activation([]<Activation activation>() {
    CAPTURE(static_cast<int>(activation));
    double worst = 0;
    for (int i = -400'000; i <= 400'000; ++i) {
      const float x = static_cast<float>(i) * 1e-4F;
      const double exact = harness::exact_activation(activation, x);
      const double error = std::abs(gemm::activate<activation>(x) - exact);
      worst = std::max(worst, error / promised_error(x, exact));
    }
    CHECK(worst <= 1);
  });
}

TEST_CASE("slopes keep what they promise") {
  for_each_activation([]<Activation activation>() {
    CAPTURE(static_cast<int>(activation));
    double worst = 0;
    for (int i = -400'000; i <= 400'000; ++i) {
      const float x = static_cast<float>(i) * 1e-4F;
      const double error =
          std::abs(gemm::slope<activation>(x) - harness::exact_slope(activation, x));
      worst = std::max(worst, error);
    }
    CHECK(worst <= 0x1p-18);
    CHECK(std::isnan(gemm::slope<activation>(std::numeric_limits<float>::quiet_NaN())) ==
          (activation != Activation::none));
    for (const float x : {inf, 3e38F, -inf, -3e38F, 0.0F, -0.0F, 0x1p-130F}) {
      CAPTURE(x);
      CHECK(std::abs(gemm::slope<activation>(x) - harness::exact_slope(activation, x)) <= 0x1p-18);
    }
  });
}

// The exact slope itself, by differences of the exact function.
TEST_CASE("the exact slope is that of the exact activation") {
  for_each_activation([]<Activation activation>() {
    CAPTURE(static_cast<int>(activation));
    for (double x = -9.0005; x < 9; x += 0.01) {
      constexpr double h = 1e-4;
      const double difference = harness::exact_activation(activation, x + h) -
                                harness::exact_activation(activation, x - h);
      CHECK(std::abs(difference / (2 * h) - harness::exact_slope(activation, x)) < 1e-7);
    }
  });
}

TEST_CASE("activations at the ends of fp32") {
  for_each_activation([]<Activation activation>() {
    CAPTURE(static_cast<int>(activation));
    const auto f = gemm::activate<activation>;
    CHECK(std::isnan(f(std::numeric_limits<float>::quiet_NaN())));
    CHECK(f(inf) == inf);
    CHECK(f(-inf) == (activation == Activation::none ? -inf : 0));
    CHECK(f(3e38F) == 3e38F);
    CHECK(f(-3e38F) == (activation == Activation::none ? -3e38F : 0));
    CHECK(f(0.0F) == 0);
    CHECK(f(-0.0F) == 0);
    const float subnormal = 0x1p-130F;
    const double slope_at_0 =
        activation == Activation::none || activation == Activation::relu ? 1 : 0.5;
    CHECK(f(subnormal) == Approx(slope_at_0 * subnormal).epsilon(1e-4));
  });
}

TEST_CASE("gelu and its tanh form are two functions") {
  CHECK(gemm::activate<Activation::gelu>(-2.7F) == Approx(-0.00936082927).epsilon(1e-5));
  CHECK(gemm::activate<Activation::gelu_tanh>(-2.7F) == Approx(-0.00888759464).epsilon(1e-5));
  CHECK(harness::exact_activation(Activation::gelu, -2.7F) == Approx(-0.00936082927));
  CHECK(harness::exact_activation(Activation::gelu_tanh, -2.7F) == Approx(-0.00888759464));
}

TEST_CASE("gelu where exponentials overflow") {
  for (const float x : {10.0F, 10.5F, 11.0F, 16.0F, 100.0F}) {
    CHECK(gemm::activate<Activation::gelu>(x) == x);
    CHECK(gemm::activate<Activation::gelu_tanh>(x) == x);
  }
  for (const float x : {-13.24F, -100.0F}) {
    CHECK(std::abs(gemm::activate<Activation::gelu>(x)) < 1e-30);
    CHECK(std::abs(gemm::activate<Activation::gelu_tanh>(x)) < 1e-30);
  }
}

TEST_CASE("silu where its exponential overflows") {
  CHECK(gemm::activate<Activation::silu>(-20) == Approx(-4.12230724e-8).epsilon(1e-5));
  CHECK(gemm::activate<Activation::silu>(-87) == Approx(-1.43184e-36).epsilon(1e-4));
  // e^-88 is below 2^-126, and taken for 0.
  CHECK(gemm::activate<Activation::silu>(-88) == 0);
  CHECK(gemm::activate<Activation::silu>(-100) == 0);
  CHECK(gemm::activate<Activation::silu>(-1e4F) == 0);
}

// The fit ends at 6.5; what lies beyond must fall on.
TEST_CASE("the tail of the normal distribution falls") {
  float last = 1;
  for (float t = 0; t <= 128; t += 0.015625F) {
    const float tail = gemm::normal_tail(t);
    REQUIRE(tail <= last);
    last = tail;
  }
  CHECK(last == 0);
}

}  // namespace

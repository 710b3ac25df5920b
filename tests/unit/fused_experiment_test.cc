// A fused problem with its oracle: the kernels are simulated, the verdict is the real one.
#include "common/harness/fused_experiment.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/catch.h"
#include "tests/unit/host_device.h"

namespace {

using gemm::Activation;
using gemm::FusedProblem;
using gemm::Output;
using harness::Options;
using harness::Verdict;

Options options(const std::string& activation, const std::string& bias, const std::string& residual,
                const std::string& output, const std::string& values = "drawn") {
  Options result;
  result.m = 37;
  result.n = 45;
  result.k = 70;
  result.alpha = 0.5F;
  result.beta = 2;
  result.selection.set("activation", activation);
  result.selection.set("bias", bias);
  result.selection.set("residual", residual);
  result.selection.set("output", output);
  result.selection.set("values", values);
  return result;
}

float activated(Activation activation, float x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return gemm::activate<Activation::relu>(x);
    case Activation::gelu:
      return gemm::activate<Activation::gelu>(x);
    case Activation::gelu_tanh:
      return gemm::activate<Activation::gelu_tanh>(x);
    case Activation::silu:
      return gemm::activate<Activation::silu>(x);
  }
  return x;
}

void write(const FusedProblem& p, std::int64_t row, std::int64_t column, float value) {
  const std::int64_t at = row * p.product.ldd + column;
  if (p.output == Output::f32) {
    reinterpret_cast<float*>(p.product.d)[at] = value;
  } else if (p.output == Output::f16) {
    reinterpret_cast<__half*>(p.product.d)[at] = __float2half_rn(value);
  } else {
    p.product.d[at] = __float2bfloat16_rn(value);
  }
}

/// A right kernel, on the host.
void compute(const FusedProblem& p, Activation activation) {
  const auto at = [](const __nv_bfloat16* from, std::int64_t index) {
    return __bfloat162float(from[index]);
  };
  const gemm::Problem& g = p.product;
  for (std::int64_t row = 0; row < g.m; ++row) {
    for (std::int64_t column = 0; column < g.n; ++column) {
      float sum = 0;
      for (std::int64_t k = 0; k < g.k; ++k)
        sum += at(g.a, row * g.lda + k) * at(g.b, column * g.ldb + k);
      float value = g.alpha * sum;
      if (p.has_c()) value += g.beta * at(g.c, row * g.ldc + column);
      if (p.bias_kind == gemm::Bias::row) value += at(p.bias, row);
      if (p.bias_kind == gemm::Bias::column) value += at(p.bias, column);
      value = activated(activation, value);
      if (p.has_residual()) value += at(p.residual, row * p.ldr + column);
      write(p, row, column, value);
    }
  }
}

/// What is done behind a right kernel.
using Damage = std::function<void(const FusedProblem&)>;

Verdict judge(
    const Options& options, const Damage& damage = [](const FusedProblem&) {}) {
  tests::HostDevice device;
  const auto prepare = [&](device::Device&, const FusedProblem& problem, Activation activation,
                           const harness::Selection&) -> harness::Launch {
    return [=] {
      compute(problem, activation);
      damage(problem);
    };
  };
  const std::unique_ptr<harness::Experiment> experiment =
      harness::fused_experiment(device, options, {prepare, {}});
  const harness::Launch launch = experiment->prepare(options.selection);
  experiment->poison_output();
  launch();
  return experiment->judge();
}

TEST_CASE("a right fused kernel passes, whatever the epilogue") {
  for (const char* const activation : {"none", "relu", "gelu", "gelu-tanh", "silu"}) {
    for (const char* const output : {"bf16", "f16", "f32"}) {
      for (const char* const values : {"drawn", "awkward"}) {
        for (const auto& [bias, residual] :
             {std::pair{"none", "off"}, {"row", "on"}, {"column", "off"}}) {
          CAPTURE(activation, output, values, bias, residual);
          const Verdict verdict = judge(options(activation, bias, residual, output, values));
          CHECK(verdict.passed());
          CHECK(verdict.elements == 37 * 45);
        }
      }
    }
  }
}

TEST_CASE("a wrong element of a fused kernel is found") {
  for (const char* const output : {"bf16", "f16", "f32"}) {
    CAPTURE(output);
    const Options problem = options("gelu", "column", "on", output);
    const Verdict off = judge(problem, [](const FusedProblem& p) { write(p, 5, 7, 100); });
    CHECK(off.wrong == 1);
    REQUIRE(off.first);
    CHECK(off.first->row == 5);
    CHECK(off.first->column == 7);
    CHECK(judge(problem, [](const FusedProblem& p) { write(p, 36, 44, NAN); }).wrong == 1);
  }
}

TEST_CASE("what a fused kernel writes beside D is found") {
  for (const char* const output : {"bf16", "f32"}) {
    CAPTURE(output);
    const Options problem = options("relu", "none", "off", output);
    CHECK(judge(problem, [](const FusedProblem& p) { write(p, 3, 45, 0); }).damaged_padding == 1);
    const auto beyond = [](const FusedProblem& p) { write(p, p.product.m, 0, 0); };
    CHECK(judge(problem, beyond).damaged_guard_bytes > 0);
    const auto before = [](const FusedProblem& p) { write(p, 0, -1, 0); };
    CHECK(judge(problem, before).damaged_guard_bytes > 0);
  }
}

TEST_CASE("the bias and the residual are matrices of their own") {
  for (const bool has_residual : {false, true}) {
    const Options problem =
        options("none", has_residual ? "none" : "column", has_residual ? "on" : "off", "f32");
    const Verdict verdict = judge(problem, [&](const FusedProblem& p) {
      // As if C had been added in their place.
      for (std::int64_t row = 0; row < p.product.m; ++row) {
        const float other =
            has_residual ? __bfloat162float(p.residual[row * p.ldr]) : __bfloat162float(p.bias[0]);
        const float c = __bfloat162float(p.product.c[row * p.product.ldc]);
        write(p, row, 0, reinterpret_cast<float*>(p.product.d)[row * p.product.ldd] - other + c);
      }
    });
    CHECK(verdict.wrong > 30);
  }
}

}  // namespace

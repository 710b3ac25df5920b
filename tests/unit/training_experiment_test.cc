// A training step with its oracle: the kernels are simulated, the verdict is the real one.
#include "common/harness/training_experiment.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tests/catch.h"
#include "tests/unit/host_device.h"

namespace {

using gemm::Activation;
using gemm::Bias;
using gemm::Pass;
using gemm::Scalar;
using gemm::TrainingProblem;
using harness::Options;
using harness::Verdict;

Options options(const std::string& pass, const std::string& bias, const std::string& scalar) {
  Options result;
  result.m = 37;
  result.n = 45;
  result.k = 70;
  result.alpha = 0.5F;
  result.beta = 2;
  result.selection.set("pass", pass);
  result.selection.set("activation", "silu");
  result.selection.set("bias", bias);
  result.selection.set("scalar", scalar);
  result.selection.set("sums", "ordered");
  return result;
}

float value(const __nv_bfloat16& element) {
  return __bfloat162float(element);
}

/// A right kernel for SiLU, on the host.
void compute(const TrainingProblem& p) {
  const gemm::Problem& g = p.product;
  const bool forward = p.pass == Pass::forward;
  float sum_of_d = 0, largest = 0;
  const int length = p.bias_kind == Bias::row ? g.m : g.n;
  if (p.bias_gradient != nullptr) std::fill_n(p.bias_gradient, length, 0.0F);
  for (std::int64_t row = 0; row < g.m; ++row) {
    for (std::int64_t column = 0; column < g.n; ++column) {
      float sum = 0;
      for (std::int64_t k = 0; k < g.k; ++k) {
        sum += value(g.a[row * g.lda + k]) * value(g.b[column * g.ldb + k]);
      }
      const std::int64_t element = p.bias_kind == Bias::row ? row : column;
      float z = g.alpha * sum + g.beta * value(g.c[row * g.ldc + column]);
      if (forward && p.bias_kind != Bias::none) z += value(p.bias[element]);
      __nv_bfloat16& aux = p.aux[row * p.ld_aux + column];
      if (forward) aux = __float2bfloat16_rn(z);
      __nv_bfloat16& d = g.d[row * g.ldd + column];
      d = __float2bfloat16_rn(forward ? gemm::activate<Activation::silu>(z)
                                      : z * gemm::slope<Activation::silu>(value(aux)));
      if (p.bias_gradient != nullptr) p.bias_gradient[element] += value(d);
      sum_of_d += value(d);
      largest = std::max(largest, std::abs(value(d)));
    }
  }
  if (p.scalar != Scalar::none) *p.scalar_result = p.scalar == Scalar::sum ? sum_of_d : largest;
}

/// What is done behind a right kernel.
using Damage = std::function<void(const TrainingProblem&)>;

Verdict judge(
    const Options& options, const Damage& damage = [](const TrainingProblem&) {}) {
  tests::HostDevice device;
  const std::unique_ptr<harness::Experiment> experiment =
      harness::training_experiment(device, options,
                                   [&](device::Device&, const TrainingProblem& problem, Activation,
                                       const harness::Selection&) -> harness::Launch {
                                     return [=] {
                                       compute(problem);
                                       damage(problem);
                                     };
                                   });
  const harness::Launch launch = experiment->prepare(options.selection);
  experiment->poison_output();
  launch();
  return experiment->judge();
}

std::string wrong_matrix(const Verdict& verdict) {
  return verdict.first ? verdict.first->matrix : "";
}

TEST_CASE("a right training step passes") {
  for (const char* const pass : {"forward", "backward"}) {
    for (const char* const bias : {"none", "row", "column"}) {
      for (const char* const scalar : {"none", "amax", "sum"}) {
        CAPTURE(pass, bias, scalar);
        CHECK(judge(options(pass, bias, scalar)).passed());
      }
    }
  }
}

TEST_CASE("each output of a training step is judged") {
  const auto forward = options("forward", "column", "amax");
  const auto backward = options("backward", "row", "sum");
  CHECK(wrong_matrix(judge(forward, [](const TrainingProblem& p) {
          p.product.d[3] = __float2bfloat16_rn(77);
        })) == "D");
  CHECK(wrong_matrix(judge(forward, [](const TrainingProblem& p) {
          p.aux[5] = __float2bfloat16_rn(77);
        })) == "aux");
  CHECK(wrong_matrix(judge(forward, [](const TrainingProblem& p) {
          *p.scalar_result = std::nextafter(*p.scalar_result, 0.0F);
        })) == "the amax of D");
  CHECK(wrong_matrix(judge(backward, [](const TrainingProblem& p) {
          p.bias_gradient[36] += 0.01F;
        })) == "the bias' gradient");
  CHECK(wrong_matrix(judge(backward, [](const TrainingProblem& p) { *p.scalar_result += 0.1F; })) ==
        "the sum of D");
}

TEST_CASE("aux as it is behind the activation is wrong") {
  const Verdict verdict = judge(options("forward", "none", "none"), [](const TrainingProblem& p) {
    for (std::int64_t row = 0; row < p.product.m; ++row) {
      for (std::int64_t column = 0; column < p.product.n; ++column) {
        p.aux[row * p.ld_aux + column] = p.product.d[row * p.product.ldd + column];
      }
    }
  });
  CHECK(verdict.wrong > 37 * 45 / 4);
}

TEST_CASE("what a training step writes beside its outputs is found") {
  const auto forward = options("forward", "column", "none");
  const __nv_bfloat16 one = __float2bfloat16_rn(1);
  CHECK(judge(forward, [&](const TrainingProblem& p) { p.aux[45] = one; }).damaged_padding == 1);
  CHECK(judge(forward, [&](const TrainingProblem& p) { p.product.d[45] = one; }).damaged_padding ==
        1);
  CHECK(judge(forward, [&](const TrainingProblem& p) { p.aux[-1] = one; }).damaged_guard_bytes > 0);
  CHECK(judge(options("backward", "column", "none"), [](const TrainingProblem& p) {
          p.bias_gradient[48] = 1;
        }).damaged_guard_bytes > 0);
}

}  // namespace

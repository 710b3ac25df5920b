#include "common/harness/fused_experiment.h"

#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "common/device/concat.h"
#include "common/harness/baseline.h"
#include "common/harness/drawn_matrix.h"
#include "common/harness/fused_verdict.h"
#include "common/harness/guarded_matrix.h"
#include "common/harness/oracle.h"
#include "common/harness/parallel.h"
#include "common/harness/record.h"
#include "common/harness/rounding.h"
#include "common/harness/throughput.h"
#include "common/harness/verdict.h"
#include "common/harness/workload.h"

namespace harness {
namespace {

using gemm::Activation;
using gemm::Bias;
using gemm::Output;

constexpr int pitch_multiple = 8;  // elements: 16 bytes of bf16

Activation activation_of(const Selection& selection) {
  const std::string& text = selection.text("activation");
  if (text == "relu") return Activation::relu;
  if (text == "gelu") return Activation::gelu;
  if (text == "gelu-tanh") return Activation::gelu_tanh;
  if (text == "silu") return Activation::silu;
  return Activation::none;
}

Bias bias_of(const Selection& selection) {
  const std::string& text = selection.text("bias");
  return text == "row" ? Bias::row : text == "column" ? Bias::column : Bias::none;
}

Output output_of(const Selection& selection) {
  const std::string& text = selection.text("output");
  return text == "f32" ? Output::f32 : text == "f16" ? Output::f16 : Output::bf16;
}

const Rounding& format_of(Output output) {
  return output == Output::f32   ? f32_rounding
         : output == Output::f16 ? f16_rounding
                                 : bf16_rounding;
}

/// Element `index` of a row of D.
double element_at(Output output, const std::byte* row, std::int64_t index) {
  const auto read = [&]<class Element>(Element element) {
    std::memcpy(&element, row + index * static_cast<std::int64_t>(sizeof element), sizeof element);
    return element;
  };
  switch (output) {
    case Output::f32:
      return read(float{});
    case Output::f16:
      return __half2float(read(__half{}));
    case Output::bf16:
      break;
  }
  return __bfloat162float(read(__nv_bfloat16{}));
}

/// What activations trip over: NaN, infinities, zeros of both signs, subnormals, values around
/// their bends, where exponentials overflow and where they vanish, the largest numbers.
__nv_bfloat16 awkward_value(std::int64_t number) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr std::array<float, 31> values = {
      std::numeric_limits<float>::quiet_NaN(),
      inf,
      -inf,
      0.0F,
      -0.0F,
      0x1p-133F,
      -0x1p-133F,
      0x1p-126F,
      -2.7F,
      2.7F,
      -0.75F,
      1.0F,
      -1.0F,
      5.5F,
      -5.5F,
      8.0F,
      -8.0F,
      10.0F,
      10.5F,
      11.0F,
      16.0F,
      100.0F,
      -13.25F,
      -20.0F,
      -88.0F,
      -100.0F,
      1e4F,
      -1e4F,
      70000.0F,
      0x1.FEp127F,
      -0x1.FEp127F,
  };
  return __float2bfloat16_rn(values[static_cast<std::size_t>(number) % values.size()]);
}

DrawnMatrix make_matrix(device::Device& device, const Options& options, int number,
                        std::int64_t rows, std::int64_t columns) {
  DrawnMatrix matrix = draw_matrix(options, number, rows, columns);
  if (options.selection.text("values") == "awkward") {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        matrix.element(row, column) = awkward_value((7 + number) * row + column + number);
      }
    }
  }
  matrix.upload(device);
  return matrix;
}

class FusedExperiment : public Experiment {
 public:
  FusedExperiment(device::Device& device, const Options& options, FusedLesson lesson)
      : lesson_(std::move(lesson)),
        options_(options),
        device_(device),
        activation_(activation_of(options.selection)),
        bias_kind_(bias_of(options.selection)),
        output_(output_of(options.selection)),
        workload_(device, options, pitch_multiple),
        d_(device, options.m, workload_.problem().ldd * element_bytes(output_)),
        oracle_(device.backend() == device::Backend::cuda ? cublas_oracle(device, workload_)
                                                          : cpu_oracle(workload_)) {
    if (!has_output()) return;
    if (bias_kind_ != Bias::none) {
      bias_ = make_matrix(device, options, 0, 1, bias_kind_ == Bias::row ? options.m : options.n);
    }
    if (options.selection.text("residual") == "on") {
      residual_ = make_matrix(device, options, 1, options.m, options.n);
    }
    problem_ = {.product = workload_.problem(),
                .output = output_,
                .bias_kind = bias_kind_,
                .bias = bias_.address(),
                .residual = residual_.address(),
                .ldr = residual_.pitch};
    problem_.product.d = static_cast<__nv_bfloat16*>(d_.address());
  }

  std::string kind() const override { return "fused"; }
  std::string describe() const override {
    const std::string activation =
        activation_ == Activation::none ? "" : options_.selection.text("activation");
    const std::string bias =
        bias_kind_ == Bias::none ? "" : " + " + options_.selection.text("bias") + " bias";
    const std::string residual = options_.selection.text("residual") == "on" ? " + residual" : "";
    return device::concat("D = ", activation, "(", options_.alpha, " * A B^T + ", options_.beta,
                          " * C", bias, ")", residual, " in ", options_.selection.text("output"),
                          ", M ", options_.m, ", N ", options_.n, ", K ", options_.k, ", ",
                          name(options_.init), ", seed ", options_.seed);
  }
  Json problem_json() const override {
    return harness::problem_json(options_, workload_.problem());
  }

  bool has_output() const override { return options_.m > 0 && options_.n > 0; }
  double flops() const override { return gemm_flops(workload_.problem()); }

  Launch prepare(const Selection& selection) override {
    return lesson_.prepare(device_, problem_, activation_, selection);
  }
  void poison_output() override { d_.poison(); }
  Verdict judge() override { return judge(d_, false); }
  std::string oracle() const override { return oracle_->name(); }
  std::vector<std::byte> output() const override { return d_.read(); }

  std::vector<Contender> library(Baseline baseline) override;

 private:
  /// Judges a D that one kernel has written, or two.
  Verdict judge(const GuardedMatrix& written, bool in_two_kernels);
  /// Judges row `row` of such a D, which lies at `d`, by its sums and magnitudes.
  void judge_row(Verdict& verdict, std::int64_t row, const std::byte* d, bool in_two_kernels,
                 const double* sums, const double* magnitudes) const;
  /// The library's epilogue that computes the same; empty if it has none.
  std::optional<LtEpilogue> library_epilogue() const;
  /// The product by the library, and then a separate kernel. It must be right, too.
  Contender two_kernels();

  FusedLesson lesson_;
  const Options& options_;
  device::Device& device_;
  Activation activation_;
  Bias bias_kind_;
  Output output_;
  Workload workload_;  ///< A, B and C; its D is of another type
  GuardedMatrix d_;
  std::unique_ptr<Oracle> oracle_;
  DrawnMatrix bias_, residual_;
  gemm::FusedProblem problem_{};
};

void FusedExperiment::judge_row(Verdict& verdict, std::int64_t row, const std::byte* d,
                                bool in_two_kernels, const double* sums,
                                const double* magnitudes) const {
  const gemm::Problem& p = problem_.product;
  const Rounding& format = format_of(output_);
  for (std::int64_t column = 0; column < p.n; ++column) {
    const FusedElement element{
        .alpha = p.alpha,
        .sum = sums[column],
        .magnitude = magnitudes[column],
        .beta = p.beta,
        .c = problem_.has_c() ? __bfloat162float(workload_.host_c()[row * p.ldc + column]) : 0,
        .bias = bias_kind_ == Bias::none  ? 0
                : bias_kind_ == Bias::row ? bias_.at(0, row)
                                          : bias_.at(0, column),
        .residual = problem_.has_residual() ? residual_.at(row, column) : 0,
        .in_two_kernels = in_two_kernels};
    const Expected expected = expected_element(p.k, activation_, element);
    const double bound = fused_bound(format, expected);
    const double got = element_at(output_, d, column);
    count_element(verdict, {row, column, got, expected.value, bound},
                  distance(format, got, expected.value));
  }
  for (std::int64_t column = p.n; column < p.ldd; ++column) {
    const std::byte* const element = d + column * element_bytes(output_);
    verdict.damaged_padding += std::any_of(element, element + element_bytes(output_),
                                           [](std::byte byte) { return byte != std::byte{0xFF}; });
  }
}

Verdict FusedExperiment::judge(const GuardedMatrix& written, bool in_two_kernels) {
  constexpr std::int64_t block_elements = std::int64_t{1} << 22;
  const gemm::Problem& p = problem_.product;
  const std::int64_t block_rows = std::clamp<std::int64_t>(block_elements / p.ldd, 1, p.m);
  const std::int64_t row_bytes = p.ldd * element_bytes(output_);
  std::vector<double> sums(block_rows * p.n), magnitudes(block_rows * p.n);

  Verdict verdict;
  verdict.damaged_guard_bytes = written.damaged_guard_bytes();
  for (std::int64_t first = 0; first < p.m; first += block_rows) {
    const std::int64_t count = std::min(block_rows, p.m - first);
    const std::vector<std::byte> d = written.read_rows(first, count);
    oracle_->rows(first, count, std::span(sums).first(count * p.n),
                  std::span(magnitudes).first(count * p.n));
    std::mutex mutex;
    parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
      Verdict part;
      for (std::int64_t row = begin; row < end; ++row) {
        judge_row(part, first + row, d.data() + row * row_bytes, in_two_kernels,
                  sums.data() + row * p.n, magnitudes.data() + row * p.n);
      }
      const std::lock_guard lock(mutex);
      merge(verdict, part);
    });
  }
  return verdict;
}

std::optional<LtEpilogue> FusedExperiment::library_epilogue() const {
  const bool has_bias = bias_kind_ == Bias::column;
  if (output_ != Output::bf16 || bias_kind_ == Bias::row || problem_.has_residual()) return {};
  const auto with = [&](cublasLtEpilogue_t without_bias, cublasLtEpilogue_t with_bias) {
    return LtEpilogue{.operation = has_bias ? with_bias : without_bias, .bias = problem_.bias};
  };
  switch (activation_) {
    case Activation::none:
      return with(CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS);
    case Activation::relu:
      return with(CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS);
    case Activation::gelu_tanh:
      return with(CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS);
    case Activation::gelu:
    case Activation::silu:
      break;
  }
  return {};
}

Contender FusedExperiment::two_kernels() {
  const gemm::Problem& p = problem_.product;
  const auto d = std::make_shared<GuardedMatrix>(device_, p.m, p.ldd * element_bytes(output_));
  Contender contender = harness::two_kernels(device_, p, [&](const __nv_bfloat16* z) -> Launch {
    const Launch second = lesson_.separate(device_, problem_, activation_, z, d->address(), p.ldd);
    return [second, d] { second(); };
  });
  require_right(device_, contender, [&] { return judge(*d, true); });
  return contender;
}

std::vector<Contender> FusedExperiment::library(Baseline baseline) {
  const std::optional<LtEpilogue> epilogue = library_epilogue();
  if (!epilogue) return {two_kernels()};
  const bool is_plain = epilogue->operation == CUBLASLT_EPILOGUE_DEFAULT;
  if (is_plain) return library_contenders(device_, problem_.product, baseline);
  std::vector<Contender> contenders = epilogue_contenders(
      device_, problem_.product, *epilogue, "cublasLtMatmul with its epilogue", baseline);
  contenders.push_back(two_kernels());
  return contenders;
}

}  // namespace

std::vector<Knob> fused_knobs() {
  return {
      {"activation",
       "what is done to alpha * A B^T + beta * C + bias; gelu-tanh is another function than gelu",
       {"none", "relu", "gelu", "gelu-tanh", "silu"},
       "gelu"},
      {"bias",
       "one element for each row of D, or one for each column, added before the activation",
       {"none", "row", "column"},
       "column"},
      {"residual",
       "on: a matrix is added behind the activation, brought in as C is",
       {"off", "on"},
       "off"},
      {"output", "the type of D", {"bf16", "f16", "f32"}, "bf16"},
      {"values",
       "awkward: bias and residual hold NaN, infinities, zeros of both signs, subnormals and "
       "huge numbers",
       {"drawn", "awkward"},
       "drawn"}};
}

std::unique_ptr<Experiment> fused_experiment(device::Device& device, const Options& options,
                                             FusedLesson lesson) {
  return std::make_unique<FusedExperiment>(device, options, std::move(lesson));
}

}  // namespace harness

#include "common/harness/training_experiment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
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
using gemm::Pass;
using gemm::Scalar;

constexpr int pitch_multiple = 8;  // elements: 16 bytes of bf16
/// A scalar has a row of its own.
constexpr std::int64_t scalar_bytes = 16;

Activation activation_of(const Selection& selection) {
  const std::string& text = selection.text("activation");
  return text == "relu"        ? Activation::relu
         : text == "gelu-tanh" ? Activation::gelu_tanh
         : text == "silu"      ? Activation::silu
                               : Activation::gelu;
}

double bf16_at(const std::byte* row, std::int64_t column) {
  __nv_bfloat16 element;
  std::memcpy(&element, row + column * std::int64_t{sizeof element}, sizeof element);
  return __bfloat162float(element);
}

std::vector<float> read_floats(const GuardedMatrix& vector, std::int64_t count) {
  const std::vector<std::byte> bytes = vector.read();
  std::vector<float> floats(static_cast<std::size_t>(count));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

/// Adds what is found of element (row, column) of `matrix` to `verdict`.
void compare(Verdict& verdict, const char* matrix, std::int64_t row, std::int64_t column,
             const Rounding& format, double got, double expected, double bound) {
  count_element(verdict, {row, column, got, expected, bound, matrix},
                distance(format, got, expected));
}

/// Elements of a row's padding, `columns` to `pitch`, that are not NaN as they were.
std::int64_t overwritten(const std::byte* row, std::int64_t columns, std::int64_t pitch) {
  const auto* const elements = reinterpret_cast<const __nv_bfloat16*>(row);
  return count_overwritten({elements + columns, elements + pitch});
}

/// Sums of the D that a kernel has stored.
struct Totals {
  std::vector<double> sums, magnitudes;  ///< for each element of the gradient
  double sum = 0, magnitude = 0, largest = 0;

  explicit Totals(std::int64_t length)
      : sums(static_cast<std::size_t>(length)), magnitudes(static_cast<std::size_t>(length)) {}

  void add(std::size_t element, double d) {
    sums[element] += d;
    magnitudes[element] += std::abs(d);
    sum += d;
    magnitude += std::abs(d);
    if (std::isnan(d) || std::abs(d) > largest) largest = std::abs(d);
  }
  void add(const Totals& other) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] += other.sums[i];
      magnitudes[i] += other.magnitudes[i];
    }
    sum += other.sum;
    magnitude += other.magnitude;
    if (std::isnan(other.largest) || other.largest > largest) largest = other.largest;
  }
};

class TrainingExperiment : public Experiment {
 public:
  TrainingExperiment(device::Device& device, const Options& options, PrepareTraining prepare);

  std::string kind() const override { return "fused"; }
  std::string describe() const override;
  Json problem_json() const override {
    return harness::problem_json(options_, workload_.problem());
  }
  bool has_output() const override { return options_.m > 0 && options_.n > 0; }
  double flops() const override { return gemm_flops(workload_.problem()); }

  /// Atomic sums start from 0, and setting them so is part of the launch.
  Launch prepare(const Selection& selection) override {
    const Launch launch = prepare_(device_, problem_, activation_, selection);
    if (!problem_.is_atomic) return launch;
    return [this, launch] {
      if (gradient_) device_.fill(gradient_->address(), 0, gradient_length_ * sizeof(float));
      if (scalar_) device_.fill(scalar_->address(), 0, sizeof(float));
      launch();
    };
  }
  void poison_output() override {
    for (GuardedMatrix* const matrix : outputs()) matrix->poison();
  }
  Verdict judge() override;
  std::string oracle() const override { return oracle_->name(); }
  std::vector<std::byte> output() const override;
  std::vector<Contender> library(Baseline baseline) override;

 private:
  bool is_forward() const { return problem_.pass == Pass::forward; }
  std::vector<GuardedMatrix*> outputs();
  /// Judges a row of D, and of aux where that is written.
  void judge_row(Verdict& verdict, std::int64_t row, const std::byte* d, const std::byte* aux,
                 const double* sums, const double* magnitudes, Totals& totals) const;
  void judge_totals(Verdict& verdict, const Totals& totals) const;

  PrepareTraining prepare_;
  const Options& options_;
  device::Device& device_;
  Activation activation_;
  Workload workload_;  ///< A, B and C
  std::unique_ptr<Oracle> oracle_;
  DrawnMatrix bias_, aux_read_;
  std::unique_ptr<GuardedMatrix> d_, aux_written_, gradient_, scalar_;
  device::Buffer gradient_parts_, scalar_parts_, ended_;
  std::int64_t gradient_length_ = 0;
  gemm::TrainingProblem problem_{};
};

TrainingExperiment::TrainingExperiment(device::Device& device, const Options& options,
                                       PrepareTraining prepare)
    : prepare_(std::move(prepare)),
      options_(options),
      device_(device),
      activation_(activation_of(options.selection)),
      workload_(device, options, pitch_multiple),
      oracle_(device.backend() == device::Backend::cuda ? cublas_oracle(device, workload_)
                                                        : cpu_oracle(workload_)) {
  if (!has_output()) return;
  const Selection& selection = options.selection;
  const gemm::Problem& p = workload_.problem();
  problem_.product = p;
  problem_.output = gemm::Output::bf16;
  problem_.pass = selection.text("pass") == "forward" ? Pass::forward : Pass::backward;
  problem_.bias_kind = selection.text("bias") == "row"      ? Bias::row
                       : selection.text("bias") == "column" ? Bias::column
                                                            : Bias::none;
  problem_.scalar = selection.text("scalar") == "amax"  ? Scalar::amax
                    : selection.text("scalar") == "sum" ? Scalar::sum
                                                        : Scalar::none;
  problem_.is_atomic = selection.text("sums") == "atomic";
  const std::int64_t length = problem_.bias_kind == Bias::row ? p.m : p.n;

  d_ = std::make_unique<GuardedMatrix>(device, p.m, 2 * p.ldd);
  problem_.product.d = static_cast<__nv_bfloat16*>(d_->address());
  if (is_forward()) {
    problem_.ld_aux = (std::int64_t{p.n} + 7) / 8 * 8;
    aux_written_ = std::make_unique<GuardedMatrix>(device, p.m, 2 * problem_.ld_aux);
    problem_.aux = static_cast<__nv_bfloat16*>(aux_written_->address());
    if (problem_.bias_kind != Bias::none) {
      bias_ = draw_matrix(options, 0, 1, length);
      bias_.upload(device);
      problem_.bias = bias_.address();
    }
  } else {
    aux_read_ = draw_matrix(options, 2, p.m, p.n);
    aux_read_.upload(device);
    problem_.aux = aux_read_.address();
    problem_.ld_aux = aux_read_.pitch;
    if (problem_.bias_kind != Bias::none) {
      gradient_length_ = length;
      gradient_ = std::make_unique<GuardedMatrix>(device, 1, (length * 4 + 15) / 16 * 16);
      problem_.bias_gradient = static_cast<float*>(gradient_->address());
    }
  }
  const std::int64_t tiles_m = (p.m + 127) / 128, tiles_n = (p.n + 127) / 128;
  const std::int64_t parts = problem_.bias_kind == Bias::row ? tiles_n : tiles_m;
  gradient_parts_ = device::Buffer(device, static_cast<std::size_t>(parts * length) * 4);
  scalar_parts_ = device::Buffer(device, static_cast<std::size_t>(4 * tiles_m * tiles_n) * 4);
  ended_ = device::Buffer(device, 4);
  device.fill(ended_.address(), 0, ended_.bytes());
  problem_.gradient_parts = static_cast<float*>(gradient_parts_.address());
  problem_.scalar_parts = static_cast<float*>(scalar_parts_.address());
  problem_.ended = static_cast<std::uint32_t*>(ended_.address());
  if (problem_.scalar != Scalar::none) {
    scalar_ = std::make_unique<GuardedMatrix>(device, 1, scalar_bytes);
    problem_.scalar_result = static_cast<float*>(scalar_->address());
  }
}

std::string TrainingExperiment::describe() const {
  const Selection& selection = options_.selection;
  const std::string& bias = selection.text("bias");
  const std::string z = device::concat(options_.alpha, " * A B^T + ", options_.beta, " * C");
  const bool forward = selection.text("pass") == "forward";
  const std::string what =
      forward ? device::concat("aux = ", z, bias == "none" ? "" : " + " + bias + " bias",
                               ", D = ", selection.text("activation"), "(aux)")
              : device::concat("D = (", z, ") * ", selection.text("activation"), "'(aux)",
                               bias == "none" ? "" : ", gradient of the " + bias + " bias");
  const std::string& scalar = selection.text("scalar");
  return device::concat(what, scalar == "none" ? "" : ", " + scalar + " of D", ", M ", options_.m,
                        ", N ", options_.n, ", K ", options_.k, ", ", name(options_.init),
                        ", seed ", options_.seed);
}

std::vector<GuardedMatrix*> TrainingExperiment::outputs() {
  std::vector<GuardedMatrix*> all;
  for (GuardedMatrix* const matrix :
       {d_.get(), aux_written_.get(), gradient_.get(), scalar_.get()}) {
    if (matrix != nullptr) all.push_back(matrix);
  }
  return all;
}

std::vector<std::byte> TrainingExperiment::output() const {
  std::vector<std::byte> bytes;
  for (const GuardedMatrix* const matrix :
       {d_.get(), aux_written_.get(), gradient_.get(), scalar_.get()}) {
    if (matrix == nullptr) continue;
    const std::vector<std::byte> part = matrix->read();
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

void TrainingExperiment::judge_row(Verdict& verdict, std::int64_t row, const std::byte* d,
                                   const std::byte* aux, const double* sums,
                                   const double* magnitudes, Totals& totals) const {
  const gemm::Problem& p = problem_.product;
  for (std::int64_t column = 0; column < p.n; ++column) {
    const bool has_bias = is_forward() && problem_.bias_kind != Bias::none;
    const std::int64_t of_gradient = problem_.bias_kind == Bias::row ? row : column;
    const FusedElement element{
        .alpha = p.alpha,
        .sum = sums[column],
        .magnitude = magnitudes[column],
        .beta = p.beta,
        .c = problem_.has_c() ? __bfloat162float(workload_.host_c()[row * p.ldc + column]) : 0,
        .bias = has_bias ? bias_.at(0, of_gradient) : 0,
        .residual = 0};
    const double got = bf16_at(d, column);
    totals.add(static_cast<std::size_t>(of_gradient), got);
    const Expected expected =
        is_forward() ? expected_element(p.k, activation_, element)
                     : expected_gradient(p.k, activation_, element, aux_read_.at(row, column));
    compare(verdict, "D", row, column, bf16_rounding, got, expected.value,
            fused_bound(bf16_rounding, expected));
    if (is_forward()) {
      const Expected z = expected_sum(p.k, element);
      compare(verdict, "aux", row, column, bf16_rounding, bf16_at(aux, column), z.value,
              fused_bound(bf16_rounding, z));
    }
  }
  verdict.damaged_padding += overwritten(d, p.n, p.ldd);
  if (is_forward()) verdict.damaged_padding += overwritten(aux, p.n, problem_.ld_aux);
}

// An fp32 sum is off by at most 2^-24 of the magnitudes for each addition that a term goes through.
void TrainingExperiment::judge_totals(Verdict& verdict, const Totals& totals) const {
  const gemm::Problem& p = problem_.product;
  const double tiles_m = std::ceil(p.m / 128.0), tiles_n = std::ceil(p.n / 128.0);
  if (gradient_) {
    const std::vector<float> got = read_floats(*gradient_, gradient_length_);
    // In a tile at most 16 of a thread, five of a warp, two of warps and chunks; then the tiles.
    const double additions = 64 + 2 * std::max(tiles_m, tiles_n);
    for (std::int64_t i = 0; i < gradient_length_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      compare(verdict, "the bias' gradient", 0, i, f32_rounding, got[at], totals.sums[at],
              additions * 0x1p-24 * totals.magnitudes[at]);
    }
  }
  if (scalar_) {
    const double got = read_floats(*scalar_, 1)[0];
    const bool is_sum = problem_.scalar == Scalar::sum;
    const double additions = 256 + tiles_m * tiles_n / 32;
    compare(verdict, is_sum ? "the sum of D" : "the amax of D", 0, 0, f32_rounding, got,
            is_sum ? totals.sum : totals.largest,
            is_sum ? additions * 0x1p-24 * totals.magnitude : 0);
  }
}

Verdict TrainingExperiment::judge() {
  constexpr std::int64_t block_elements = std::int64_t{1} << 22;
  const gemm::Problem& p = problem_.product;
  const std::int64_t block_rows = std::clamp<std::int64_t>(block_elements / p.ldd, 1, p.m);
  const std::int64_t length = problem_.bias_kind == Bias::row ? p.m : p.n;
  std::vector<double> sums(block_rows * p.n), magnitudes(block_rows * p.n);

  Verdict verdict;
  Totals totals(length);
  for (const GuardedMatrix* const matrix : outputs()) {
    verdict.damaged_guard_bytes += matrix->damaged_guard_bytes();
  }
  for (std::int64_t first = 0; first < p.m; first += block_rows) {
    const std::int64_t count = std::min(block_rows, p.m - first);
    const std::vector<std::byte> d = d_->read_rows(first, count);
    const std::vector<std::byte> aux =
        is_forward() ? aux_written_->read_rows(first, count) : std::vector<std::byte>{};
    oracle_->rows(first, count, std::span(sums).first(count * p.n),
                  std::span(magnitudes).first(count * p.n));
    std::mutex mutex;
    parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
      Verdict part;
      Totals part_totals(length);
      for (std::int64_t row = begin; row < end; ++row) {
        judge_row(part, first + row, d.data() + row * 2 * p.ldd,
                  aux.data() + row * 2 * problem_.ld_aux, sums.data() + row * p.n,
                  magnitudes.data() + row * p.n, part_totals);
      }
      const std::lock_guard lock(mutex);
      merge(verdict, part);
      totals.add(part_totals);
    });
  }
  judge_totals(verdict, totals);
  return verdict;
}

std::vector<Contender> TrainingExperiment::library(Baseline baseline) {
  const gemm::Problem& p = problem_.product;
  std::vector<Contender> product =
      epilogue_contenders(device_, p, {}, "cublasLtMatmul, the product alone", Baseline::standard);
  if (activation_ != Activation::gelu_tanh || problem_.bias_kind != Bias::column) return product;

  // It writes its aux, or its gradient in bf16, to memory of its own.
  const auto memory = std::make_shared<device::Buffer>(
      device_, static_cast<std::size_t>(is_forward() ? p.m * problem_.ld_aux : p.n) * 2);
  auto* const own = static_cast<__nv_bfloat16*>(memory->address());
  const LtEpilogue epilogue{
      .operation = is_forward() ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_DGELU_BGRAD,
      .bias = is_forward() ? problem_.bias : own,
      .aux = is_forward() ? own : problem_.aux,
      .ld_aux = problem_.ld_aux};
  std::vector<Contender> contenders =
      epilogue_contenders(device_, p, epilogue, "cublasLtMatmul with its epilogue", baseline);
  for (Contender& contender : contenders) {
    contender.launch = [launch = contender.launch, memory] { launch(); };
  }
  contenders.insert(contenders.end(), product.begin(), product.end());
  return contenders;
}

}  // namespace

std::vector<Knob> training_knobs() {
  return {
      {"pass",
       "forward: keeps aux, what the activation is applied to; backward: takes the slope at aux, "
       "and adds up the bias' gradient",
       {"forward", "backward"},
       "backward"},
      {"activation",
       "gelu-tanh is another function than gelu",
       {"relu", "gelu", "gelu-tanh", "silu"},
       "gelu"},
      {"bias",
       "one element for each row of D, or one for each column: added forward, its gradient "
       "summed backward",
       {"none", "row", "column"},
       "column"},
      {"scalar",
       "what all of D is reduced to: the largest magnitude, or the sum",
       {"none", "amax", "sum"},
       "none"},
      {"sums",
       "ordered: the same bits with every launch; atomic: in whatever order the tiles come",
       {"ordered", "atomic"},
       "ordered"}};
}

std::unique_ptr<Experiment> training_experiment(device::Device& device, const Options& options,
                                                PrepareTraining prepare) {
  return std::make_unique<TrainingExperiment>(device, options, std::move(prepare));
}

}  // namespace harness

#include "common/harness/softmax_experiment.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/device/concat.h"
#include "common/harness/baseline.h"
#include "common/harness/guarded_matrix.h"
#include "common/harness/oracle.h"
#include "common/harness/parallel.h"
#include "common/harness/record.h"
#include "common/harness/softmax_verdict.h"
#include "common/harness/throughput.h"
#include "common/harness/workload.h"

namespace harness {
namespace {

using device::concat;

constexpr int pitch_multiple = 8;  // of D too: the separate kernel reads 16 bytes at a time

template <class Element>
std::span<const Element> elements(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Element*>(bytes.data()), bytes.size() / sizeof(Element)};
}

/// What a kernel writes: D, or the values and the columns of a top-k.
struct Outputs {
  int top;
  GuardedMatrix d, values, columns;

  Outputs(device::Device& device, const gemm::Problem& p, int top)
      : top(top),
        d(device, p.m, p.ldd * std::int64_t{sizeof(*p.d)}),
        values(device, p.m, top * std::int64_t{sizeof(float)}),
        columns(device, p.m, top * std::int64_t{sizeof(int)}) {}

  bool is_top() const { return top > 0; }
  gemm::TopRows top_rows() const {
    return {static_cast<float*>(values.address()), static_cast<int*>(columns.address()), top};
  }
  gemm::Problem with_d(gemm::Problem problem) const {
    problem.d = static_cast<__nv_bfloat16*>(d.address());
    return problem;
  }
  void poison() {
    for (GuardedMatrix* const matrix : {&d, &values, &columns}) matrix->poison();
  }
  std::int64_t damaged_guard_bytes() const {
    return d.damaged_guard_bytes() + values.damaged_guard_bytes() + columns.damaged_guard_bytes();
  }
};

class SoftmaxExperiment : public Experiment {
 public:
  SoftmaxExperiment(device::Device& device, const Options& options, int top, SoftmaxKernels kernels)
      : device_(device),
        options_(options),
        kernels_(std::move(kernels)),
        workload_(device, options, pitch_multiple),
        outputs_(device, workload_.problem(), top),
        oracle_(device.backend() == device::Backend::cuda ? cublas_oracle(device, workload_)
                                                          : cpu_oracle(workload_)) {
    if (has_output() && top > options.n) {
      throw UsageError(concat("--top ", top, ": with --n ", options.n, " a row has only ",
                              device::counted(options.n, "element"), "."));
    }
  }

  std::string kind() const override { return "softmax"; }
  std::string describe() const override {
    const std::string what = outputs_.is_top()
                                 ? concat("the ", outputs_.top, " largest of each row of ")
                                 : std::string("D = softmax of each row of ");
    return concat(what, options_.alpha, " * A B^T, M ", options_.m, ", N ", options_.n, ", K ",
                  options_.k, ", ", name(options_.init), ", seed ", options_.seed);
  }
  Json problem_json() const override {
    return harness::problem_json(options_, workload_.problem());
  }

  bool has_output() const override { return options_.m > 0 && options_.n > 0; }
  double flops() const override { return gemm_flops(workload_.problem()); }

  Launch prepare(const Selection& selection) override {
    return kernels_.fused(device_, outputs_.with_d(workload_.problem()), outputs_.top_rows(),
                          selection);
  }
  void poison_output() override { outputs_.poison(); }
  Verdict judge() override { return judge(outputs_, false); }
  std::string oracle() const override { return oracle_->name(); }
  std::vector<std::byte> output() const override {
    if (!outputs_.is_top()) return outputs_.d.read();
    std::vector<std::byte> both = outputs_.values.read();
    const std::vector<std::byte> columns = outputs_.columns.read();
    both.insert(both.end(), columns.begin(), columns.end());
    return both;
  }

  std::vector<Contender> library(Baseline) override;

 private:
  /// Whether all of A and B are whole numbers.
  bool is_exact() const {
    return options_.init == Init::index || options_.init == Init::ones ||
           options_.init == Init::zeros;
  }

  /// Judges what one kernel has written, or two: those have bf16 logits between them.
  Verdict judge(const Outputs& written, bool in_two_kernels);
  /// Judges rows [first, first + count), whose sums the oracle has given.
  void judge_rows(Verdict& verdict, const Outputs& written, bool in_two_kernels, std::int64_t first,
                  std::int64_t count, std::span<const double> sums,
                  std::span<const double> magnitudes) const;

  device::Device& device_;
  const Options& options_;
  SoftmaxKernels kernels_;
  Workload workload_;  ///< A and B; its D is not used
  Outputs outputs_;
  std::unique_ptr<Oracle> oracle_;
};

void SoftmaxExperiment::judge_rows(Verdict& verdict, const Outputs& written, bool in_two_kernels,
                                   std::int64_t first, std::int64_t count,
                                   std::span<const double> sums,
                                   std::span<const double> magnitudes) const {
  const gemm::Problem& problem = workload_.problem();
  const std::int64_t n = problem.n, ldd = problem.ldd, top = written.top;
  const std::vector<std::byte> d_bytes =
      written.is_top() ? std::vector<std::byte>{} : written.d.read_rows(first, count);
  const std::vector<std::byte> value_bytes = written.values.read_rows(first, count);
  const std::vector<std::byte> column_bytes = written.columns.read_rows(first, count);
  const auto d = elements<__nv_bfloat16>(d_bytes);
  const auto values = elements<float>(value_bytes);
  const auto columns = elements<int>(column_bytes);

  std::mutex mutex;
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    Verdict part;
    for (std::int64_t row = begin; row < end; ++row) {
      // The library's product of whole numbers need not be exact.
      std::vector<Logit> logits =
          row_logits(problem, sums.subspan(row * n, n), magnitudes.subspan(row * n, n),
                     is_exact() && !in_two_kernels);
      if (in_two_kernels) logits = through_bf16(logits);
      if (written.is_top()) {
        judge_top_row(part, first + row, values.subspan(row * top, top),
                      columns.subspan(row * top, top), logits);
      } else {
        const auto row_of_d = d.subspan(row * ldd, ldd);
        judge_softmax_row(part, first + row, row_of_d.first(n), logits);
        part.damaged_padding += count_overwritten(row_of_d.subspan(n));
      }
    }
    const std::lock_guard lock(mutex);
    merge(verdict, part);
  });
}

Verdict SoftmaxExperiment::judge(const Outputs& written, bool in_two_kernels) {
  constexpr std::int64_t block_elements = std::int64_t{1} << 22;
  const std::int64_t m = options_.m, n = options_.n;
  const std::int64_t block_rows = std::clamp<std::int64_t>(block_elements / n, 1, m);
  Verdict verdict;
  verdict.damaged_guard_bytes = written.damaged_guard_bytes();
  std::vector<double> sums(block_rows * n), magnitudes(block_rows * n);
  for (std::int64_t first = 0; first < m; first += block_rows) {
    const std::int64_t count = std::min(block_rows, m - first);
    const auto used_sums = std::span(sums).first(count * n);
    const auto used_magnitudes = std::span(magnitudes).first(count * n);
    oracle_->rows(first, count, used_sums, used_magnitudes);
    judge_rows(verdict, written, in_two_kernels, first, count, used_sums, used_magnitudes);
  }
  return verdict;
}

std::vector<Contender> SoftmaxExperiment::library(Baseline) {
  const gemm::Problem& problem = workload_.problem();
  const auto own = std::make_shared<Outputs>(device_, problem, outputs_.top);
  Contender both = two_kernels(device_, problem, [&](const __nv_bfloat16* d) -> Launch {
    const Launch second = kernels_.separate(device_, own->with_d(problem), own->top_rows(), d);
    return [second, own] { second(); };
  });
  both.name += outputs_.is_top() ? " of ours for the top-k" : " of ours for the softmax";
  require_right(device_, both, [&] { return judge(*own, true); });
  return {both};
}

}  // namespace

std::unique_ptr<Experiment> softmax_experiment(device::Device& device, const Options& options,
                                               int top, SoftmaxKernels kernels) {
  return std::make_unique<SoftmaxExperiment>(device, options, top, std::move(kernels));
}

}  // namespace harness

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/device/concat.h"
#include "common/harness/baseline.h"
#include "common/harness/experiment.h"
#include "common/harness/oracle.h"
#include "common/harness/record.h"
#include "common/harness/throughput.h"
#include "common/harness/verdict.h"
#include "common/harness/workload.h"

namespace harness {
namespace {

class GemmExperiment : public Experiment {
 public:
  GemmExperiment(const Lesson& lesson, const Options& options, device::Device& device)
      : lesson_(lesson),
        options_(options),
        device_(device),
        workload_(device, options, lesson.pitch_multiple),
        oracle_(device.backend() == device::Backend::cuda ? cublas_oracle(device, workload_)
                                                          : cpu_oracle(workload_)) {}

  std::string kind() const override { return "gemm"; }
  std::string describe() const override {
    return device::concat("D = ", options_.alpha, " * A B^T + ", options_.beta, " * C, M ",
                          options_.m, ", N ", options_.n, ", K ", options_.k, ", ",
                          name(options_.init), ", seed ", options_.seed);
  }
  Json problem_json() const override {
    return harness::problem_json(options_, workload_.problem());
  }

  bool has_output() const override { return options_.m > 0 && options_.n > 0; }
  double flops() const override { return gemm_flops(workload_.problem()); }

  Launch prepare(const Selection& selection) override {
    return lesson_.prepare(device_, workload_.problem(), selection);
  }
  void poison_output() override { workload_.poison_output(); }
  Verdict judge() override { return harness::judge(workload_, *oracle_); }
  std::string oracle() const override { return oracle_->name(); }
  std::vector<std::byte> output() const override {
    const gemm::Problem& problem = workload_.problem();
    std::vector<std::byte> bytes(static_cast<std::size_t>(problem.m * problem.ldd) *
                                 sizeof(*problem.d));
    device_.copy_to_host(bytes.data(), problem.d, bytes.size());
    return bytes;
  }

  std::vector<Contender> library(Baseline baseline) override {
    return library_contenders(device_, workload_.problem(), baseline);
  }

 private:
  const Lesson& lesson_;
  const Options& options_;
  device::Device& device_;
  Workload workload_;
  std::unique_ptr<Oracle> oracle_;
};

}  // namespace

std::unique_ptr<Experiment> gemm_experiment(const Lesson& lesson, const Options& options,
                                            device::Device& device) {
  return std::make_unique<GemmExperiment>(lesson, options, device);
}

}  // namespace harness

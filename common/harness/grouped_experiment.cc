#include "common/harness/grouped_experiment.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/device/concat.h"
#include "common/harness/baseline.h"
#include "common/harness/group_list.h"
#include "common/harness/oracle.h"
#include "common/harness/throughput.h"
#include "common/harness/workload.h"

namespace harness {
namespace {

using device::concat;

/// How many different B's there are: as --weights says, if it does.
int weights_of(const Selection& selection, const GroupList& list) {
  const std::string& text = selection.text("weights");
  if (text == "auto") return list.weights;
  int weights = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), weights);
  if (error != std::errc{} || rest != text.data() + text.size() || weights < 1) {
    throw UsageError(concat("--weights takes a whole number from 1, or auto, not '", text, "'."));
  }
  return weights;
}

/// A problem with its operands.
std::unique_ptr<Workload> draw(device::Device& device, Options options, int pitch_multiple,
                               const GroupSize& size, int number, const Workload* same_b) {
  options.m = size.m;
  options.n = size.n;
  options.k = size.k;
  return std::make_unique<Workload>(device, options, pitch_multiple, number, same_b);
}

class GroupedExperiment : public Experiment {
 public:
  GroupedExperiment(device::Device& device, const Options& options, int pitch_multiple,
                    PrepareGroups prepare)
      : device_(device), options_(options), prepare_(std::move(prepare)) {
    const bool is_small = device.backend() == device::Backend::emulator;
    list_ = parse_groups(options.selection.text("groups"), options.seed, is_small);
    list_.weights = weights_of(options.selection, list_);
    for (int group = 0; group < count(); ++group) {
      const GroupSize& size = list_.groups[group];
      const bool is_first = group < list_.weights;
      if (!is_first) refuse_other_shape(group, group % list_.weights);
      workloads_.push_back(draw(device, options, pitch_multiple, size, group,
                                is_first ? nullptr : workloads_[group % list_.weights].get()));
      problems_.push_back(workloads_.back()->problem());
    }
  }

  std::string kind() const override { return "grouped"; }
  std::string describe() const override {
    return concat("D = ", options_.alpha, " * A B^T + ", options_.beta, " * C, ",
                  device::counted(count(), "group"), " (", options_.selection.text("groups"),
                  "), sum of M ", sum_m(), ", N up to ", most(&GroupSize::n), ", K up to ",
                  most(&GroupSize::k), ", ", std::min(list_.weights, count()), " different B, ",
                  name(options_.init), ", seed ", options_.seed);
  }
  Json problem_json() const override {
    return Json::Object{{"groups", count()},
                        {"weights", std::min(list_.weights, count())},
                        {"m", sum_m()},
                        {"n", most(&GroupSize::n)},
                        {"k", most(&GroupSize::k)},
                        {"flop", flops()},
                        {"alpha", options_.alpha},
                        {"beta", options_.beta},
                        {"seed", options_.seed},
                        {"init", name(options_.init)}};
  }

  bool has_output() const override {
    return std::any_of(list_.groups.begin(), list_.groups.end(),
                       [](const GroupSize& size) { return size.m > 0 && size.n > 0; });
  }
  double flops() const override {
    double sum = 0;
    for (const gemm::Problem& problem : problems_) sum += gemm_flops(problem);
    return sum;
  }

  Launch prepare(const Selection& selection) override {
    return prepare_(device_, problems_, selection);
  }
  void poison_output() override {
    for (const auto& workload : workloads_) workload->poison_output();
  }
  Verdict judge() override {
    Verdict all;
    for (int group = 0; group < count(); ++group) {
      Verdict own = harness::judge(*workloads_[group], *oracle_of(*workloads_[group]));
      if (own.first) own.first->matrix = concat("D of group ", group);
      merge(all, own);
    }
    return all;
  }
  std::string oracle() const override {
    const auto judged = std::find_if(workloads_.begin(), workloads_.end(),
                                     [](const auto& workload) { return has_elements(*workload); });
    return oracle_of(**judged)->name();
  }
  std::vector<std::byte> output() const override {
    std::vector<std::byte> all;
    for (const gemm::Problem& problem : problems_) {
      const std::size_t bytes = static_cast<std::size_t>(problem.m * problem.ldd) *
                                sizeof(*problem.d);
      all.resize(all.size() + bytes);
      device_.copy_to_host(all.data() + all.size() - bytes, problem.d, bytes);
    }
    return all;
  }

  std::vector<Contender> library(Baseline) override {
    return grouped_library_contenders(device_, problems_);
  }

 private:
  int count() const { return static_cast<int>(list_.groups.size()); }

  std::int64_t sum_m() const {
    std::int64_t sum = 0;
    for (const GroupSize& size : list_.groups) sum += size.m;
    return sum;
  }
  int most(int GroupSize::*extent) const {
    int most = 0;
    for (const GroupSize& size : list_.groups) most = std::max(most, size.*extent);
    return most;
  }

  /// Groups that multiply the same B must agree on its shape.
  void refuse_other_shape(int group, int other) const {
    const GroupSize &own = list_.groups[group], &first = list_.groups[other];
    if (own.n == first.n && own.k == first.k) return;
    throw UsageError(concat("--weights ", list_.weights, ": groups ", other, " and ", group,
                            " would multiply the same B, which is ", first.n, " x ", first.k,
                            " for the one and ", own.n, " x ", own.k, " for the other."));
  }

  static bool has_elements(const Workload& workload) {
    return workload.problem().m > 0 && workload.problem().n > 0;
  }

  /// One at a time: each of cuBLAS' contexts keeps a workspace. An empty group does without, as
  /// there may be tens of thousands of them.
  std::unique_ptr<Oracle> oracle_of(const Workload& workload) const {
    return device_.backend() == device::Backend::cuda && has_elements(workload)
               ? cublas_oracle(device_, workload)
               : cpu_oracle(workload);
  }

  device::Device& device_;
  const Options& options_;
  PrepareGroups prepare_;
  GroupList list_;
  std::vector<std::unique_ptr<Workload>> workloads_;
  std::vector<gemm::Problem> problems_;
};

}  // namespace

std::vector<Knob> grouped_knobs() {
  return {{"groups", group_list_help(), {}, "uniform", "LIST|FILE|NAME"},
          {"weights",
           "different B's: group g multiplies that of group g % N; auto: each group its own, and a "
           "quarter as many as groups for the three named lists",
           {},
           "auto",
           "N"}};
}

std::vector<std::string> flags_without_groups() {
  return {"--m", "--n", "--k", "--lda", "--ldb", "--ldc", "--ldd"};
}

std::unique_ptr<Experiment> grouped_experiment(device::Device& device, const Options& options,
                                               int pitch_multiple, PrepareGroups prepare) {
  return std::make_unique<GroupedExperiment>(device, options, pitch_multiple, std::move(prepare));
}

}  // namespace harness

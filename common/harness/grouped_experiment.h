// Many problems that one launch computes.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "common/device/device.h"
#include "common/gemm/problem.h"
#include "common/harness/experiment.h"
#include "common/harness/lesson.h"
#include "common/harness/options.h"

namespace harness {

/// The knobs that choose the problems, for a lesson whose experiment is a grouped_experiment():
/// --groups (group_list.h) and --weights.
std::vector<Knob> grouped_knobs();

/// The common flags that grouped_knobs() take the place of.
std::vector<std::string> flags_without_groups();

/// Does once what every launch shares and returns the launch itself. All problems have the same
/// alpha and beta; some may have m, n or k of 0, but at least one has elements. What the span
/// shows outlives the launch.
using PrepareGroups = std::function<Launch(device::Device&, std::span<const gemm::Problem>,
                                           const Selection&)>;

/// The problems that the knobs `groups` and `weights` ask for, each with operands between guard
/// bands of its own (Workload), a B that several share excepted. Each is judged by itself. The
/// library's ways are cublasGemmGroupedBatchedEx and a loop of cublasGemmEx; both are given the
/// groups with m, n, k > 0 only. UsageError where the knobs contradict each other.
std::unique_ptr<Experiment> grouped_experiment(device::Device& device, const Options& options,
                                               int pitch_multiple, PrepareGroups prepare);

}  // namespace harness

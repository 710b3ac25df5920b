// Verifying and timing a lesson of a training step: gemm::TrainingProblem.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/device/device.h"
#include "common/gemm/activation.h"
#include "common/gemm/training_problem.h"
#include "common/harness/experiment.h"
#include "common/harness/lesson.h"
#include "common/harness/options.h"

namespace harness {

/// In place of Lesson::prepare.
using PrepareTraining = std::function<Launch(device::Device&, const gemm::TrainingProblem&,
                                             gemm::Activation, const Selection&)>;

/// The knobs that choose the epilogue: --pass, --activation, --bias, --scalar,
/// --sums.
std::vector<Knob> training_knobs();

/// The problem that `options` ask for by training_knobs(). The oracle computes the sums as that of
/// a gemm::Problem does, and the rest in double precision; what was added up is held against the
/// sum of the D that was stored.
///
/// The library's standard is cublasLtMatmul with an epilogue of its own where it has this one (the
/// tanh form of GELU, a bias for each column), elsewhere the product alone; where the standard is
/// fused, the product alone is a candidate.
std::unique_ptr<Experiment> training_experiment(device::Device& device, const Options& options,
                                                PrepareTraining prepare);

}  // namespace harness

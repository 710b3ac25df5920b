// The experiment of lesson 15: a product of 8-bit floats, with its scales.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/device/device.h"
#include "common/gemm/scaled_problem.h"
#include "common/harness/experiment.h"
#include "common/harness/lesson.h"
#include "common/harness/options.h"

namespace harness {

/// Elements that pitches are rounded up to: 16 bytes of fp8, as TMA asks.
constexpr int fp8_pitch_multiple = 16;

/// The knobs that say what is computed; fp8_experiment() reads them.
std::vector<Knob> fp8_knobs();

/// Does once what every launch shares, as Lesson::prepare does.
using Fp8Prepare =
    std::function<Launch(device::Device&, const gemm::ScaledProblem&, const Selection&)>;

/// A gemm::ScaledProblem with the operands and scales that `options` and their knobs ask for, and
/// the lesson's way to compute it.
std::unique_ptr<Experiment> fp8_experiment(device::Device& device, const Options& options,
                                           Fp8Prepare prepare);

}  // namespace harness

// From times to FLOP/s, and what no card can exceed.
#pragma once

#include <string>

#include "common/device/device.h"
#include "common/gemm/problem.h"
#include "common/harness/timing.h"

namespace harness {

/// Multiplications and additions of A * B^T; the epilogue is not counted.
double gemm_flops(const gemm::Problem& problem);

/// FLOP/s that dense bf16 tensor cores of sm_90 reach at the boost clock: 4096 a clock and SM (the
/// H100 data sheet's 989.4 TFLOP/s at 132 SMs and 1.83 GHz). 8-bit floats have twice that.
double peak_flops(const device::Properties& properties);

/// Throws device::Failure if a sample of `timing` would mean more FLOP/s than `peak`, that of the
/// card: then it was not the whole work that was timed, and the figure must not become a row in a
/// table.
void require_plausible(const std::string& name, const Timing& timing, double flops, double peak);

}  // namespace harness

#include "common/harness/throughput.h"

#include "common/device/concat.h"
#include "common/device/errors.h"
#include "common/harness/statistics.h"

namespace harness {

double gemm_flops(const gemm::Problem& problem) {
  // In double from the first factor on: 2 * 1024^3 is past what an int holds.
  return 2.0 * problem.m * problem.n * problem.k;
}

double peak_flops(const device::Properties& properties) {
  constexpr double flops_per_clock_and_sm = 4096;
  return flops_per_clock_and_sm * properties.sm_count * properties.max_clock_mhz * 1e6;
}

void require_plausible(const std::string& name, const Timing& timing, double flops, double peak) {
  const double fastest_ms = summarize(timing.samples_ms).min;
  if (flops <= peak * fastest_ms * 1e-3) return;
  throw device::Failure(device::concat(
      name, " was timed at ", fastest_ms, " ms, which would be ", flops / fastest_ms * 1e-9,
      " TFLOP/s; the peak of this card is ", peak * 1e-12,
      " TFLOP/s. So the timing is wrong, and no figure is reported. Run it again; if it says this "
      "again, the kernel does not do all of the work, or the device's clock is off."));
}

}  // namespace harness

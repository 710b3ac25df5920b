#include "common/harness/clocks.h"

#include "tests/catch.h"

TEST_CASE("a GPU that NVML does not know has empty states, and that is no error", "[clocks]") {
  const harness::GpuMonitor monitor("no such bus");
  const harness::GpuState state = monitor.read();
  CHECK_FALSE(state.sm_clock_mhz.has_value());
  CHECK_FALSE(state.memory_clock_mhz.has_value());
  CHECK_FALSE(state.power_w.has_value());
  CHECK_FALSE(state.temperature_c.has_value());

  harness::GpuSampler sampler(monitor);
  const harness::GpuState medians = sampler.medians();
  CHECK_FALSE(medians.sm_clock_mhz.has_value());
  CHECK_FALSE(medians.power_w.has_value());
}

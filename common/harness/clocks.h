// The clocks and the power a GPU runs at, from NVML, which comes with the driver.
#pragma once

#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace harness {

/// What NVML says of a GPU at one moment. A field is empty where NVML is missing or does not answer
/// (a virtual GPU, say).
struct GpuState {
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> power_w;  ///< of the whole board, at the moment, not averaged
  std::optional<double> temperature_c;
};

/// One GPU as NVML sees it. The library is opened at run time: a machine without it gives empty
/// states, not an error.
class GpuMonitor {
 public:
  /// `pci_bus_id` as in device::Properties; one that NVML does not know gives empty states.
  explicit GpuMonitor(const std::string& pci_bus_id);
  GpuState read() const;

 private:
  void* gpu_ = nullptr;  ///< nvmlDevice_t
};

/// Reads a GpuMonitor many times a second, in a thread of its own, from its construction until
/// medians() is called.
class GpuSampler {
 public:
  explicit GpuSampler(const GpuMonitor& monitor);
  /// Stops, and returns the median of each field over the states that had it.
  GpuState medians();

 private:
  std::vector<GpuState> states_;
  std::jthread thread_;  ///< the last member: it stops before what it writes to goes away
};

}  // namespace harness

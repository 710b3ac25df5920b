#include "common/harness/clocks.h"

#include <dlfcn.h>

#include <chrono>

#include "common/harness/statistics.h"

namespace harness {
namespace {

// The part of nvml.h that is used here (NVML API reference; its ABI is kept from driver to driver).
// The header itself is not in every toolkit.
using Status = int;
constexpr Status success = 0;          // NVML_SUCCESS
constexpr unsigned sm_clock = 1;       // NVML_CLOCK_SM
constexpr unsigned memory_clock = 2;   // NVML_CLOCK_MEM
constexpr unsigned gpu_sensor = 0;     // NVML_TEMPERATURE_GPU
constexpr unsigned power_field = 186;  // NVML_FI_DEV_POWER_INSTANT, in milliwatts

/// nvmlFieldValue_t
struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency_us;
  unsigned value_type;
  Status status;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long long as_unsigned_long_long;
  } value;
};

struct Nvml {
  Status (*init)();
  Status (*handle_by_pci_bus_id)(const char* bus_id, void** gpu);
  Status (*clock_info)(void* gpu, unsigned clock, unsigned* mhz);
  Status (*temperature)(void* gpu, unsigned sensor, unsigned* celsius);
  Status (*field_values)(void* gpu, int count, FieldValue* values);
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::optional<Nvml> open_nvml() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  Nvml nvml{};
  const bool complete =
      library != nullptr && find(library, "nvmlInit_v2", nvml.init) &&
      find(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.handle_by_pci_bus_id) &&
      find(library, "nvmlDeviceGetClockInfo", nvml.clock_info) &&
      find(library, "nvmlDeviceGetTemperature", nvml.temperature) &&
      find(library, "nvmlDeviceGetFieldValues", nvml.field_values);
  if (!complete || nvml.init() != success) return std::nullopt;
  return nvml;
}

/// Opened by the first call, for the life of the process; empty where NVML is missing.
const std::optional<Nvml>& nvml() {
  static const std::optional<Nvml> library = open_nvml();
  return library;
}

std::optional<double> clock_mhz(void* gpu, unsigned clock) {
  unsigned mhz = 0;
  if (nvml()->clock_info(gpu, clock, &mhz) != success) return std::nullopt;
  return mhz;
}

std::optional<double> temperature_c(void* gpu) {
  unsigned celsius = 0;
  if (nvml()->temperature(gpu, gpu_sensor, &celsius) != success) return std::nullopt;
  return celsius;
}

std::optional<double> power_w(void* gpu) {
  FieldValue power{};
  power.field = power_field;
  if (nvml()->field_values(gpu, 1, &power) != success || power.status != success) {
    return std::nullopt;
  }
  return power.value.as_unsigned / 1e3;
}

std::optional<double> median_of(const std::vector<GpuState>& states,
                                std::optional<double> GpuState::*field) {
  std::vector<double> values;
  for (const GpuState& state : states) {
    if (state.*field) values.push_back(*(state.*field));
  }
  if (values.empty()) return std::nullopt;
  return median(values);
}

}  // namespace

GpuMonitor::GpuMonitor(const std::string& pci_bus_id) {
  if (nvml() && nvml()->handle_by_pci_bus_id(pci_bus_id.c_str(), &gpu_) != success) gpu_ = nullptr;
}

GpuState GpuMonitor::read() const {
  if (gpu_ == nullptr) return {};
  return {.sm_clock_mhz = clock_mhz(gpu_, sm_clock),
          .memory_clock_mhz = clock_mhz(gpu_, memory_clock),
          .power_w = power_w(gpu_),
          .temperature_c = temperature_c(gpu_)};
}

GpuSampler::GpuSampler(const GpuMonitor& monitor)
    : thread_([this, monitor](std::stop_token stop) {
        constexpr std::chrono::milliseconds interval{20};
        while (!stop.stop_requested()) {
          states_.push_back(monitor.read());
          std::this_thread::sleep_for(interval);
        }
      }) {}

GpuState GpuSampler::medians() {
  thread_.request_stop();
  thread_.join();
  return {.sm_clock_mhz = median_of(states_, &GpuState::sm_clock_mhz),
          .memory_clock_mhz = median_of(states_, &GpuState::memory_clock_mhz),
          .power_w = median_of(states_, &GpuState::power_w),
          .temperature_c = median_of(states_, &GpuState::temperature_c)};
}

}  // namespace harness

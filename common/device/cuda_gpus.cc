#include "common/device/cuda_gpus.h"

#include <array>
#include <cstdlib>

#include "common/device/concat.h"
#include "common/device/cuda_status.h"

namespace device {
namespace {

cudaDeviceProp device_properties(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return properties;
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, index),
        concat("cudaDeviceGetAttribute of attribute ", static_cast<int>(which)));
  return value;
}

std::string pci_bus_id(int index) {
  std::array<char, 32> id{};
  check(cudaDeviceGetPCIBusId(id.data(), id.size(), index), "cudaDeviceGetPCIBusId");
  return id.data();
}

int driver_version() {
  int version = 0;
  check(cudaDriverGetVersion(&version), "cudaDriverGetVersion");
  return version;
}

int runtime_version() {
  int version = 0;
  check(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
  return version;
}

}  // namespace

Findings find_gpus() {
  Findings findings;
  findings.driver_version = driver_version();
  findings.runtime_version = runtime_version();
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) findings.visible_devices = visible;

  int count = 0;
  findings.status = cudaGetDeviceCount(&count);
  if (findings.status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return findings;
  }
  for (int i = 0; i < count; ++i) {
    const cudaDeviceProp properties = device_properties(i);
    findings.gpus.push_back({properties.name, properties.major, properties.minor});
  }
  return findings;
}

Properties read_properties(int index) {
  const cudaDeviceProp properties = device_properties(index);
  Properties result;
  result.name = properties.name;
  result.sm_count = attribute(cudaDevAttrMultiProcessorCount, index);
  result.l2_bytes = attribute(cudaDevAttrL2CacheSize, index);
  result.memory_bytes = properties.totalGlobalMem;
  result.shared_bytes_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  result.max_clock_mhz = attribute(cudaDevAttrClockRate, index) / 1000.0;  // told in kHz
  result.pci_bus_id = pci_bus_id(index);
  result.driver_version = driver_version();
  result.runtime_version = runtime_version();
  return result;
}

}  // namespace device

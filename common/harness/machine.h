// Which machine and which build a result comes from.
#pragma once

#include <optional>
#include <string>

#include "common/device/device.h"

namespace harness {

struct Machine {
  std::string gpu;  ///< "NVIDIA H200"
  int sm_count = 0;
  double max_sm_clock_mhz = 0;
  std::optional<std::string> driver;  ///< CUDA version, "13.0"; empty on the emulator
  std::string runtime;                ///< CUDA version
  std::optional<std::string> cublas;  ///< "13.1.0"; empty on the emulator
  std::optional<std::string> commit;  ///< of the build; "-dirty" at the end if the tree had changes
};

/// Throws device::Failure when the device is a GPU and cuBLAS can't be opened.
Machine describe_machine(const device::Device& device);

/// "NVIDIA H200, 132 SMs, CUDA 13.0 (driver 13.0), cuBLAS 13.1.0", "PTX emulator, 4 SMs, CUDA 13.0"
std::string banner(const Machine& machine);

}  // namespace harness

// Why there is no GPU to run on, in words. Pure functions, so that every answer is tested without
// a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace device {

/// A GPU as the runtime lists it.
struct Gpu {
  std::string name;  ///< "NVIDIA H200"
  int major = 0;     ///< compute capability: 9.0 is Hopper, sm_90
  int minor = 0;
};

/// What looking for a GPU found.
struct Findings {
  cudaError_t status = cudaSuccess;            ///< of cudaGetDeviceCount
  int driver_version = 0;                      ///< CUDA version of the driver; 0: no driver
  int runtime_version = 0;                     ///< CUDA version this program was built with
  std::optional<std::string> visible_devices;  ///< CUDA_VISIBLE_DEVICES, if it is set
  std::vector<Gpu> gpus;                       ///< in the runtime's order
};

/// The index of the first GPU that is exactly sm_90: code for sm_90a runs on no other, newer ones
/// included. Throws Unavailable with the reason and the way out when there is none.
int choose_gpu(const Findings& findings);

/// Why no context could be made on `gpu`: memory, other processes, or what `status` says.
std::string describe_context_failure(cudaError_t status, const Gpu& gpu);

/// "13.0" for 13000.
std::string version_text(int version);

}  // namespace device

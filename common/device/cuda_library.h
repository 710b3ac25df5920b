// PTX that the driver assembles while the program runs.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/device/ptx_source.h"

namespace device {

/// The kernels of a PTX file, on the GPU of this thread's context. They stay loaded until the
/// process ends. What the driver's assembler does not take is refused with what it said.
class CudaLibrary {
 public:
  /// `source` must outlive the library. Throws Failure where the program's CUDA runtime is older
  /// than 12.8, which can't load PTX.
  explicit CudaLibrary(const PtxSource& source);

  /// The kernel of this name, for the runtime's calls that take the address of a kernel.
  const void* kernel(std::string_view entry) const;

 private:
  void check_load(cudaError_t status, std::string_view call) const;

  const PtxSource& source_;
  std::vector<char> log_;  ///< the driver writes to it as long as it assembles
#if CUDART_VERSION >= 12080
  cudaLibrary_t library_ = nullptr;
#endif
};

}  // namespace device

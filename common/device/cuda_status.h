// The status of CUDA runtime calls, turned into exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

namespace device {

/// "cudaErrorMemoryAllocation (out of memory)"
std::string error_text(cudaError_t status);

/// Throws Failure that names `call` if `status` is an error. Clears the runtime's last error, so
/// that no later call is blamed for it.
void check(cudaError_t status, std::string_view call);

/// Whether `status` says that a kernel failed while it ran. The runtime reports such an error from
/// whatever call comes next, and from every call after it.
bool is_kernel_fault(cudaError_t status);

}  // namespace device

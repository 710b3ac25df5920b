#include "common/device/cuda_status.h"

#include "common/device/concat.h"
#include "common/device/errors.h"

namespace device {

std::string error_text(cudaError_t status) {
  return concat(cudaGetErrorName(status), " (", cudaGetErrorString(status), ")");
}

void check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw Failure(concat(call, " failed: ", error_text(status), "."));
}

bool is_kernel_fault(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchTimeout:
    case cudaErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

}  // namespace device

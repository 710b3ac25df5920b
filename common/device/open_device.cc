#include "common/device/cuda_device.h"
#include "common/device/cuda_gpus.h"
#include "common/device/emulator_device.h"
#include "common/device/errors.h"

namespace device {
namespace {

/// Why there is no GPU to take; empty if there is one.
std::string why_no_gpu() {
  try {
    choose_gpu(find_gpus());
    return {};
  } catch (const Unavailable& reason) {
    return reason.what();
  }
}

}  // namespace

std::unique_ptr<Device> open(const Request& request) {
  if (request.choice == Choice::cuda) return open_cuda_device(request.ptx);
  if (request.choice == Choice::emulator) return std::make_unique<EmulatorDevice>(request);
  const std::string reason = why_no_gpu();
  if (reason.empty()) return open_cuda_device(request.ptx);
  return std::make_unique<EmulatorDevice>(request, reason);
}

}  // namespace device

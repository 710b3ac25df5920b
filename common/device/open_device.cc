#include "common/device/cuda_device.h"
#include "common/device/errors.h"

namespace device {

std::unique_ptr<Device> open(Choice choice) {
  if (choice == Choice::emulator) {
    throw Unavailable(
        "This version has no emulator yet: lessons run on a Hopper GPU (H100, H200) only. Choose "
        "--device cuda on a machine that has one.");
  }
  return open_cuda_device();
}

}  // namespace device

// The CUDA back end.
#pragma once

#include <memory>

#include "common/device/device.h"

namespace device {

/// Opens the first Hopper GPU; all its work goes through the default stream. Throws Unavailable,
/// in words that say what to do, when there is none or no context can be made on it.
std::unique_ptr<Device> open_cuda_device();

}  // namespace device

// The CUDA back end.
#pragma once

#include <memory>
#include <optional>

#include "common/device/device.h"

namespace device {

/// Opens the first Hopper GPU; all its work goes through the default stream. Kernels run from the
/// program's machine code, or from `ptx`, which the driver assembles. Throws Unavailable, in words
/// that say what to do, when there is no such GPU or no context can be made on it.
std::unique_ptr<Device> open_cuda_device(const std::optional<PtxFile>& ptx = {});

}  // namespace device

// The GPUs of this machine, as the CUDA runtime sees them.
#pragma once

#include "common/device/device.h"
#include "common/device/diagnosis.h"

namespace device {

/// Looks for GPUs; creates no context. A runtime that can't list them is a finding, not an error.
Findings find_gpus();

/// The properties of GPU `index`. Throws Failure if the runtime doesn't tell them.
Properties read_properties(int index);

}  // namespace device

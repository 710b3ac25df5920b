// Tensor maps for the GPU.
#pragma once

#include <cuda.h>

#include "common/device/tensor_map.h"

namespace device {

/// Encodes a map that `validate` has passed with the driver's cuTensorMapEncodeTiled, which the
/// runtime finds: no program needs libcuda to link or to start. Throws Failure if the driver has
/// no such function or refuses the map.
CUtensorMap encode_for_gpu(const TensorMap& map);

}  // namespace device

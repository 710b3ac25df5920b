// Variants of the ring kernel that ptxas repairs, and says so (C7517, C7519): a GPU runs other code
// than their PTX. They are compiled to PTX only, for the emulator.
#include "tests/kernels/ring.cuh"

namespace kernels {

INSTANTIATE(2, 2, no_wgmma_fence);
INSTANTIATE(2, 2, one_group_pending);

}  // namespace kernels

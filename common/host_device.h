// HOST_DEVICE marks arithmetic that kernels use and that the tests check on the host.
#pragma once

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif

// Tensor maps that a kernel changes. PTX ISA 9.7.9.26 (tensormap.replace), 9.7.13.16
// (tensormap.cp_fenceproxy), 9.7.13.4 (fence.proxy.tensormap).
//
// The copy engine takes its maps from parameters, constants or global memory, and keeps those that
// it has used. So a map is changed in shared memory, copied to global memory by an instruction that
// also tells the engine, and asked for anew on the SM that uses it:
//
//   tensormap_set_...(draft, ...);       a thread, draft in shared memory
//   __syncwarp();
//   tensormap_publish(map, draft);       the whole warp
//   tensormap_acquire(map);              a thread of each CTA that uses the map
//   tma_prefetch_map(map);               at will: the engine fetches the map ahead of the copy
//   ... a barrier ...
//   tma_load_2d(..., map, ...);          the thread that issues the copy
//
// In another CTA than the publisher's, a barrier or a flag must stand before the acquire too.
//
// Meanwhile nobody may still copy by what the map was before: for loads, their mbarrier must have
// said that they have landed; for stores, bulk_wait_read<0>() must have returned.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/ptx/address.cuh"

namespace ptx {

/// Where the tensor starts: a multiple of 16 bytes, in global memory.
__device__ inline void tensormap_set_address(CUtensorMap& map, const void* address) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(
                   shared_address(&map)),
               "l"(address)
               : "memory");
}

/// How many elements the tensor has in a dimension, at least 1; dimension 0 is the contiguous one.
template <int dimension>
__device__ inline void tensormap_set_extent(CUtensorMap& map, std::uint32_t elements) {
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(
                   shared_address(&map)),
               "n"(dimension), "r"(elements)
               : "memory");
}

/// How many bytes neighbours in dimension `dimension` + 1 are apart: a multiple of 16. (Before CUDA
/// 12.5 the instruction took a sixteenth of it.)
template <int dimension>
__device__ inline void tensormap_set_pitch(CUtensorMap& map, std::uint64_t bytes) {
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], %1, %2;" ::"r"(
                   shared_address(&map)),
               "n"(dimension), "l"(bytes)
               : "memory");
}

/// Copies a map from shared to global memory, and releases it to those who acquire it, anywhere on
/// the GPU. The 32 lanes of a warp run this together, after a __syncwarp(); both maps start on a
/// multiple of 128 bytes.
__device__ inline void tensormap_publish(CUtensorMap& map, const CUtensorMap& draft) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "[%0], [%1], 128;" ::"l"(__cvta_generic_to_global(&map)),
      "r"(shared_address(&draft))
      : "memory");
}

/// The copies of this CTA that come next, of this thread or of those that it tells by a barrier,
/// use what was published in `map`. This thread must have published it, or know that others did.
__device__ inline void tensormap_acquire(const CUtensorMap& map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(&map) : "memory");
}

}  // namespace ptx

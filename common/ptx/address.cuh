// Addresses in the shared-memory window. PTX ISA 5.1.7 (shared state space), 9.7.9.20 (cvta).
#pragma once

#include <cstdint>

namespace ptx {

/// The 32-bit shared-window address of an object in this CTA's shared memory, the form that
/// mbarrier, TMA and wgmma instructions take.
__device__ inline std::uint32_t shared_address(const void* object) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(object));
}

}  // namespace ptx

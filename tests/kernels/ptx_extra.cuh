// PTX instructions that the test kernels need and no lesson uses yet.
#pragma once

#include <cstdint>

namespace ptx {

// ---- Clusters. PTX ISA 9.7.13.3 (barrier.cluster), 9.7.9.8 (ld).

/// As cluster_arrive(), releasing nothing.
__device__ inline void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/// Reads an fp32 at an address that peer_address() has returned.
__device__ inline float load_peer(std::uint32_t address) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

// ---- Flags in global memory. PTX ISA 9.7.9.8 (ld), 9.7.13.6 (red), 9.7.13.5 (atom).

/// As add_release(), but only to the threads of this CTA.
__device__ inline void add_release_cta(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("red.release.cta.global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ inline void red_add_relaxed(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

/// Returns the counter's value and counts it up, from `last` to 0 again; releases and acquires.
__device__ inline std::uint32_t increment_acq_rel(std::uint32_t* counter, std::uint32_t last) {
  std::uint32_t value;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(value)
               : "l"(counter), "r"(last)
               : "memory");
  return value;
}

/// Likewise, and orders nothing.
__device__ inline std::uint32_t increment_relaxed(std::uint32_t* counter, std::uint32_t last) {
  std::uint32_t value;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(value)
               : "l"(counter), "r"(last)
               : "memory");
  return value;
}

}  // namespace ptx

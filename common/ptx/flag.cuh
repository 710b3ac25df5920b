// Flags in global memory, by which CTAs tell each other what is done. PTX ISA 9.7.9.8
// (ld), 9.7.9.11 (st), 9.7.13.6 (red), 8 (memory consistency model).
#pragma once

#include <cstdint>

namespace ptx {

/// Reads a flag. What was released before the value that it finds was written is then visible to
/// this thread, and behind a barrier to the others of the CTA.
__device__ inline std::uint32_t load_acquire(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

/// Reads a flag, and no more.
__device__ inline std::uint32_t load_relaxed(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

/// Writes a flag, and releases nothing.
__device__ inline void store_relaxed(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

/// Adds to a flag, and releases what this thread has written, and what it has seen: behind a
/// barrier also what the others of the CTA have written.
__device__ inline void add_release(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

/// Counts one more in a flag that goes from 0 to `last` and then to 0 again, and releases as
/// add_release() does.
__device__ inline void count_release(std::uint32_t* flag, std::uint32_t last) {
  asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(flag), "r"(last) : "memory");
}

/// Adds four fp32 to 16 bytes of global memory, each atomically, in any order with the additions of
/// others.
__device__ inline void add_float4(float4* sum, float4 value) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(sum), "f"(value.x),
               "f"(value.y), "f"(value.z), "f"(value.w)
               : "memory");
}

}  // namespace ptx

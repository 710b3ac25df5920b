// Fragments: 8 x 8 matrices of 16-bit elements between the registers of a warp and shared memory.
// PTX ISA 9.7.14.5.15 (ldmatrix), 9.7.14.5.16 (stmatrix).
//
// Lane l gives the address of row l % 8 of matrix l / 8: 16 bytes, aligned to 16. It holds in
// value[i] the two elements of matrix i in row l / 4, columns 2 (l % 4) and up: where a wgmma
// leaves them in a thread's accumulators.
#pragma once

#include <cstdint>

#include "common/ptx/address.cuh"

namespace ptx {

/// Stores four matrices.
__device__ inline void stmatrix_x4(void* row, const std::uint32_t (&value)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   shared_address(row)),
               "r"(value[0]), "r"(value[1]), "r"(value[2]), "r"(value[3])
               : "memory");
}

/// Stores two matrices: lanes 0 to 15 give their rows' addresses.
__device__ inline void stmatrix_x2(void* row, std::uint32_t first, std::uint32_t second) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x2.shared::cta.b16 [%0], {%1, %2};" ::"r"(shared_address(row)),
      "r"(first), "r"(second)
      : "memory");
}

/// Loads four matrices.
__device__ inline void ldmatrix_x4(const void* row, std::uint32_t (&value)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
               : "r"(shared_address(row))
               : "memory");
}

/// Loads two matrices: lanes 0 to 15 give their rows' addresses.
__device__ inline void ldmatrix_x2(const void* row, std::uint32_t& first, std::uint32_t& second) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared::cta.b16 {%0, %1}, [%2];"
               : "=r"(first), "=r"(second)
               : "r"(shared_address(row))
               : "memory");
}

}  // namespace ptx

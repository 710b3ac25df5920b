// The tensor maps of A and B, and of C and D in chunks.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/device/device.h"
#include "common/gemm/chunk.cuh"
#include "common/gemm/fused_problem.h"
#include "common/gemm/k_tile.cuh"
#include "common/gemm/problem.h"

namespace gemm {

/// The tensor map of a K-major operand (rows x k, `pitch` elements from row to row), copied in
/// boxes of `box_rows` x `box_k` with the swizzle that fits a 128-byte row.
///
/// A map can't describe an empty tensor, but for k = 0 a kernel copies nothing: the map then shows
/// one column that nobody reads.
inline CUtensorMap operand_map(device::Device& device, std::string name,
                               const __nv_bfloat16* matrix, int rows, int k, std::int64_t pitch,
                               int box_rows, int box_k) {
  return device.encode(device::matrix_map(std::move(name), device::ElementType::bf16, matrix, rows,
                                          std::max(k, 1), pitch, box_rows, box_k,
                                          device::Swizzle::b128));
}

/// The tensor map of the problem's A, copied in boxes of `rows` rows of a k-tile.
inline CUtensorMap map_of_a(device::Device& device, const Problem& p, int rows) {
  return operand_map(device, "A", p.a, p.m, p.k, p.lda, rows, tile_k);
}

/// The same of B.
inline CUtensorMap map_of_b(device::Device& device, const Problem& p, int rows) {
  return operand_map(device, "B", p.b, p.n, p.k, p.ldb, rows, tile_k);
}

/// The tensor map of C or D (the problem's m x n, `pitch` elements from row to row), copied in
/// chunks of 64 rows x `columns`.
template <int columns>
CUtensorMap chunk_map(device::Device& device, std::string name, const __nv_bfloat16* matrix,
                      const Problem& problem, std::int64_t pitch) {
  return device.encode(device::matrix_map(
      std::move(name), device::ElementType::bf16, matrix, problem.m, problem.n, pitch, 64, columns,
      Chunk<columns>::swizzled ? device::Swizzle::b128 : device::Swizzle::none));
}

/// The tensor map of a fused problem's D, copied in boxes of 64 rows x 128 bytes.
inline CUtensorMap output_map(device::Device& device, const FusedProblem& problem) {
  const auto type = problem.output == Output::f32   ? device::ElementType::f32
                    : problem.output == Output::f16 ? device::ElementType::f16
                                                    : device::ElementType::bf16;
  const Problem& p = problem.product;
  return device.encode(device::matrix_map("D", type, p.d, p.m, p.n, p.ldd, 64,
                                          128 / element_bytes(problem.output),
                                          device::Swizzle::b128));
}

}  // namespace gemm

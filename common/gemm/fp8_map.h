// The tensor maps of lesson 15: A and B of 8-bit floats, and D of either kind.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "common/device/device.h"
#include "common/gemm/k_tile.cuh"
#include "common/gemm/scaled_problem.h"

namespace gemm {

/// The tensor map of A or B of 8-bit floats, copied in boxes of `box_rows` rows of a k-tile;
/// for k = 0 it shows a column that nobody reads.
inline CUtensorMap operand_map(device::Device& device, std::string name, const std::uint8_t* matrix,
                               int rows, int k, std::int64_t pitch, int box_rows) {
  return device.encode(device::matrix_map(std::move(name), device::ElementType::u8, matrix, rows,
                                          std::max(k, 1), pitch, box_rows, row_bytes,
                                          device::Swizzle::b128));
}

/// The tensor map of a scaled problem's D, copied in boxes of 16 rows x 64 elements.
inline CUtensorMap output_map(device::Device& device, const ScaledProblem& p) {
  const bool is_bf16 = p.output == Output::bf16;
  return device.encode(device::matrix_map(
      "D", is_bf16 ? device::ElementType::bf16 : device::ElementType::u8, p.d, p.m, p.n, p.ldd, 16,
      64, is_bf16 ? device::Swizzle::b128 : device::Swizzle::b64));
}

}  // namespace gemm

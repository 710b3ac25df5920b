// Tensor maps: what the copy engine (TMA) must know of a tensor in global memory.
//
// One validator serves both back ends. The driver answers a bad map with a bare error code; this
// one answers with the operand, the field, its value and the rule that it breaks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace device {

enum class ElementType { bf16, f16, f32, tf32, u8, s32, u32 };
enum class Swizzle { none, b32, b64, b128 };
enum class Interleave { none, b16, b32 };
enum class OutOfBounds { zeros, nans };
enum class L2Promotion { none, b64, b128, b256 };

/// Bytes of one element.
std::size_t element_bytes(ElementType type);
/// Bytes that one row of a box may span at the most: 32, 64 or 128 (0: no limit).
std::size_t swizzle_span_bytes(Swizzle swizzle);

/// A tensor in global memory and the box that one copy moves. Dimension 0 is the contiguous one.
/// Rules: CUDA driver API, cuTensorMapEncodeTiled; PTX ISA section 5.5 (tensors).
struct TensorMap {
  std::string operand;  ///< the name that error messages use, "A"
  ElementType type = ElementType::bf16;
  int rank = 2;                           ///< 1 to 5
  const void* address = nullptr;          ///< of element (0, 0, ...), in device memory
  std::array<std::uint64_t, 5> extent{};  ///< elements in each dimension
  std::array<std::uint64_t, 4> pitch{};   ///< bytes between neighbours in dimension 1, 2, ...
  std::array<std::uint32_t, 5> box{};     ///< elements of the box in each dimension
  std::array<std::uint32_t, 5> stride{1, 1, 1, 1, 1};  ///< element strides
  Swizzle swizzle = Swizzle::none;
  Interleave interleave = Interleave::none;
  OutOfBounds out_of_bounds = OutOfBounds::zeros;
  L2Promotion l2_promotion = L2Promotion::none;
};

/// A row-major matrix of `rows` x `columns` elements, `pitch` elements from row to row, read in
/// boxes of `box_rows` x `box_columns`.
TensorMap matrix_map(std::string operand, ElementType type, const void* address, std::uint64_t rows,
                     std::uint64_t columns, std::uint64_t pitch, std::uint32_t box_rows,
                     std::uint32_t box_columns, Swizzle swizzle);

/// Throws InvalidTensorMap if the hardware can't take `map`.
void validate(const TensorMap& map);

/// Bytes that one box brings to shared memory, and so what expect_tx must announce: the whole box,
/// also where it overhangs the tensor (PTX ISA 9.7.9.25.5.2).
std::size_t box_bytes(const TensorMap& map);

}  // namespace device

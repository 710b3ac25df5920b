// The boxes that TMA moves, as pieces of contiguous memory. PTX ISA 5.5 (tensors), 9.7.9.25.5
// (tensor copies).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/emulator/tensor_map_record.h"

namespace emulator {

/// Contiguous bytes of a box, in global and in shared memory.
struct BoxPiece {
  std::uint64_t global;  ///< device address; meaningless out of bounds
  std::uint32_t shared;  ///< address, swizzled
  std::uint32_t bytes;   ///< whole elements
  bool in_bounds;        ///< false: loads fill it, stores and reductions skip it
};

/// Coordinates of the box's first element, dimension 0 first; may be negative.
using BoxCoordinates = std::array<std::int32_t, 5>;

/// What the address of a box in shared memory must be a multiple of.
inline constexpr std::uint32_t box_alignment = 128;

/// Replaces `pieces` by those of the box at `coordinates`, which lies at address `shared` of the
/// shared window. Together they cover box_bytes, in the order of the box.
///
/// In shared memory the box is dense, dimension 0 innermost, and then swizzled in 16-byte chunks by
/// the bits of its absolute address. An element stride s takes every s-th element of a dimension
/// (dimension 0: none skipped), so a box of n spans ceil(n / s) elements of shared memory.
void box_pieces(const TensorMapRecord& map, const BoxCoordinates& coordinates, std::uint32_t shared,
                std::vector<BoxPiece>& pieces);

/// Copies whole elements on a load: f32_ftz and tf32_ftz flush subnormals, tf32 and tf32_ftz round
/// to nearest. Stores copy bytes.
void load_elements(TensorType type, std::byte* to, const std::byte* from, std::size_t bytes);
/// What a load writes where the box is out of bounds.
void fill_elements(TensorType type, OutOfBoundsFill fill, std::byte* to, std::size_t bytes);

/// The operations of cp.reduce.async.bulk and its tensor form.
enum class ReduceOperation : std::uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor };

/// Whether the ISA has this reduction (9.7.9.25.4.2): add of u32, s32, u64, f16, bf16, f32, f64;
/// min and max of u32, s32, u64, s64, f16, bf16; inc and dec of u32; the bitwise ones of 32 and 64
/// bits.
bool reduces(ReduceOperation operation, TensorType type);

/// to[i] = to[i] op from[i] for whole elements, where reduces() says so. Sums of floats are rounded
/// to nearest even and keep subnormals. inc: 0 if to >= from, else to + 1. dec: from if to is 0 or
/// larger than from, else to - 1.
void reduce_elements(ReduceOperation operation, TensorType type, std::byte* to,
                     const std::byte* from, std::size_t bytes);

}  // namespace emulator

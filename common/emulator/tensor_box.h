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
/// What the place of a box in a row of the tensor must be a multiple of, in bytes: its coordinate
/// in dimension 0 times the size of an element. An H200 answers others with an illegal instruction.
inline constexpr std::uint32_t box_start_alignment = 16;

/// Bytes of a row: what dimension 0 of the box spans.
std::uint32_t box_row_bytes(const TensorMapRecord& map);
/// Bytes from a row of the box to the next in shared memory. A swizzle of n bytes puts a row into
/// every n bytes, however short it is; what is between the rows is left alone.
std::uint32_t box_row_pitch(const TensorMapRecord& map);

/// Where a box that overhangs the end of a row of its tensor is cut off.
enum class Clip : std::uint8_t {
  elements,  ///< behind the last element: loads
  chunks,  ///< behind the 16 bytes that hold the last element, as an H200 does: stores, reductions
};

/// Replaces `pieces` by those of the box at `coordinates`, which lies at address `shared` of the
/// shared window. Together they cover box_bytes, in the order of the box.
///
/// In shared memory the rows lie box_row_pitch apart, dimension 1 innermost, and are swizzled in
/// 16-byte chunks by the bits of the absolute address. An element stride s takes every s-th element
/// of a dimension (dimension 0: none skipped), so a box of n spans ceil(n / s) elements of shared
/// memory.
void box_pieces(const TensorMapRecord& map, const BoxCoordinates& coordinates, std::uint32_t shared,
                Clip clip, std::vector<BoxPiece>& pieces);

/// Copies whole elements on a load: tf32 and tf32_ftz are rounded to nearest. Subnormals stay, also
/// those of the ftz types. Stores copy bytes.
void load_elements(TensorType type, std::byte* to, const std::byte* from, std::size_t bytes);
/// What a load writes where the box is out of bounds: zeros, or 7FF7 in every 16 bits, which is NaN
/// in all types that may ask for it.
void fill_bytes(OutOfBoundsFill fill, std::byte* to, std::size_t bytes);

/// The operations of cp.reduce.async.bulk and its tensor form.
enum class ReduceOperation : std::uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor };

/// Whether the ISA has this reduction (9.7.9.25.4.2): add of u32, s32, u64, f16, bf16, f32, f64;
/// min and max of u32, s32, u64, s64, f16, bf16; inc and dec of u32; the bitwise ones of u32, s32
/// and u64. An H200 agrees: it stops and, or and xor of s64 with an illegal instruction.
bool reduces(ReduceOperation operation, TensorType type);

/// to[i] = to[i] op from[i] for whole elements, where reduces() says so. Sums of floats are rounded
/// to nearest even and keep subnormals. inc: 0 if to >= from, else to + 1. dec: from if to is 0 or
/// larger than from, else to - 1.
void reduce_elements(ReduceOperation operation, TensorType type, std::byte* to,
                     const std::byte* from, std::size_t bytes);

}  // namespace emulator

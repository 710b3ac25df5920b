// The emulator's tensor map: what its device back end writes into the 128 opaque bytes of a
// CUtensorMap, and what TMA instructions and tensormap.replace find there. The hardware's own
// format is not public; kernels only see the address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/emulator/descriptor.h"

namespace emulator {

/// In the ISA's order (tensormap.replace, .elemtype), so the value is the operand's.
enum class TensorType : std::uint8_t {
  u8,
  u16,
  u32,
  s32,
  u64,
  s64,
  f16,
  f32,
  f32_ftz,  ///< f32; loads and stores copy it as it is
  f64,
  bf16,
  tf32,      ///< f32, rounded to tf32 as it is loaded
  tf32_ftz,  ///< likewise, subnormals kept as well
};
enum class TensorInterleave : std::uint8_t { none, b16, b32 };
enum class OutOfBoundsFill : std::uint8_t { zeros, nans };
enum class L2Promotion : std::uint8_t { none, b64, b128, b256 };

/// Bytes of one element in memory.
std::size_t element_bytes(TensorType type);

/// A tensor in global memory and the box that one copy moves; dimension 0 is the contiguous one.
struct TensorMapRecord {
  TensorType type = TensorType::bf16;
  int rank = 1;                                        ///< 1 to 5
  std::uint64_t address = 0;                           ///< of element (0, 0, ...)
  std::array<std::uint64_t, 5> extent{1, 1, 1, 1, 1};  ///< elements
  std::array<std::uint64_t, 4> stride{};               ///< bytes, of dimensions 1 and up
  std::array<std::uint32_t, 5> box{1, 1, 1, 1, 1};     ///< elements of the tensor that it spans
  std::array<std::uint32_t, 5> element_stride{1, 1, 1, 1, 1};
  SwizzleMode swizzle = SwizzleMode::none;
  TensorInterleave interleave = TensorInterleave::none;
  OutOfBoundsFill fill = OutOfBoundsFill::zeros;
  L2Promotion l2_promotion = L2Promotion::none;

  bool operator==(const TensorMapRecord&) const = default;
};

/// Elements of the box in shared memory, in one dimension: every s-th of the tensor for an element
/// stride of s (dimension 0: every one).
std::uint32_t box_count(const TensorMapRecord& map, int dimension);
/// Bytes of the box in shared memory, and so what a load adds to its mbarrier, overhanging or not.
std::size_t box_bytes(const TensorMapRecord& map);

inline constexpr std::size_t tensor_map_bytes = 128;
using TensorMapBytes = std::array<std::byte, tensor_map_bytes>;

TensorMapBytes encode_tensor_map(const TensorMapRecord& record);

/// Why the 128 bytes can't be used by a copy, as a sentence; nothing if they can: not written by
/// encode_tensor_map (no magic number), or a field out of range (after tensormap.replace), a box
/// larger than shared memory, or a layout that the emulator has no model of (interleave).
std::optional<std::string> tensor_map_error(std::span<const std::byte, tensor_map_bytes> bytes);

/// The record in bytes of which tensor_map_error says nothing.
TensorMapRecord decode_tensor_map(std::span<const std::byte, tensor_map_bytes> bytes);

/// The fields of tensormap.replace.tile. PTX ISA 9.7.9.26.
enum class TensorMapField : std::uint8_t {
  global_address,
  rank,  ///< the operand is the rank minus 1
  box_dim,
  global_dim,
  global_stride,  ///< bytes, of dimension ordinal + 1
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  fill_mode,
};

/// tensormap.replace: sets one field (`ordinal`: of which dimension, for the fields that have
/// several). Returns what is wrong, as a sentence, and then changes nothing: no tensor map, no such
/// dimension, a value outside the ISA's table. Whether the fields go together is checked when the
/// map is used.
std::optional<std::string> replace_field(std::span<std::byte, tensor_map_bytes> bytes,
                                         TensorMapField field, std::uint32_t ordinal,
                                         std::uint64_t value);

}  // namespace emulator

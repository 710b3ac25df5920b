// Shared-memory matrix descriptors of wgmma, and the order in which an operand lies in shared
// memory. PTX ISA 9.7.15.5.1 (matrix descriptor format, canonical layouts).
#pragma once

#include <cstdint>

namespace emulator {

/// The XOR pattern of a tile in shared memory: bits of an address are flipped by higher bits of the
/// same address, so the pattern is fixed to absolute addresses and repeats every 8 rows.
enum class SwizzleMode : std::uint8_t { none, b32, b64, b128 };

/// Bytes of a row of the pattern: 16, 32, 64 or 128.
constexpr std::uint32_t swizzle_span(SwizzleMode mode) {
  return 16u << static_cast<unsigned>(mode);
}

/// `address` with its 16-byte chunk moved as the pattern asks: of the chunk number (bits 4-6), the
/// low 0, 1, 2 or 3 bits are flipped by bits 7 and up. `phase` is subtracted from bits 7-9 first,
/// for patterns that don't start at a multiple of their length (the descriptor's base offset).
constexpr std::uint32_t swizzle(std::uint32_t address, SwizzleMode mode, std::uint32_t phase = 0) {
  const std::uint32_t row = (address >> 7) - phase;
  const std::uint32_t chunk_mask = swizzle_span(mode) / 16 - 1;
  return address ^ ((row & chunk_mask) << 4);
}

struct MatrixDescriptor {
  std::uint32_t address;        ///< bits 0-13, times 16: the low 18 bits of a shared address
  std::uint32_t leading_bytes;  ///< bits 16-29, times 16 (LBO)
  std::uint32_t stride_bytes;   ///< bits 32-45, times 16 (SBO)
  std::uint32_t base_offset;    ///< bits 49-51: bits 7-9 of the address at which the pattern starts
  SwizzleMode swizzle;          ///< bits 62-63
};

constexpr MatrixDescriptor decode_descriptor(std::uint64_t bits) {
  constexpr SwizzleMode modes[] = {SwizzleMode::none, SwizzleMode::b128, SwizzleMode::b64,
                                   SwizzleMode::b32};
  const auto bytes = [bits](int first_bit) {
    return static_cast<std::uint32_t>(bits >> first_bit & 0x3FFF) * 16;
  };
  return {bytes(0), bytes(16), bytes(32), static_cast<std::uint32_t>(bits >> 49 & 7),
          modes[bits >> 62]};
}

/// K-major: 16 bytes hold neighbours in K. MN-major: neighbours in M (of A) or N (of B).
enum class Major : std::uint8_t { k, mn };

/// The shared address of a 16-byte chunk of an operand.
///
/// K-major: chunk `k` (0 or 1: an instruction takes 32 bytes of K) of row `mn`. MN-major: the 8
/// elements of 16 bits from row 8 `mn` on, of column `k`.
constexpr std::uint32_t chunk_address(const MatrixDescriptor& descriptor, Major major,
                                      std::uint32_t mn, std::uint32_t k) {
  const std::uint32_t span = swizzle_span(descriptor.swizzle);
  const std::uint32_t chunks = span / 16;
  const std::uint32_t leading = descriptor.leading_bytes;
  const std::uint32_t stride = descriptor.stride_bytes;
  const bool swizzled = descriptor.swizzle != SwizzleMode::none;
  std::uint32_t offset = 0;
  if (major == Major::k) {
    offset = mn / 8 * stride + mn % 8 * span + k * (swizzled ? 16 : leading);
  } else {
    // Without a swizzle the two offsets change places.
    const std::uint32_t next_block = swizzled ? leading : stride;
    const std::uint32_t next_8_columns = swizzled ? stride : leading;
    offset = mn / chunks * next_block + mn % chunks * 16 + k / 8 * next_8_columns + k % 8 * span;
  }
  return swizzle(descriptor.address + offset, descriptor.swizzle, descriptor.base_offset);
}

}  // namespace emulator

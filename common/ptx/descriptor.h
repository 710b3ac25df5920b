// Shared-memory descriptors: how a wgmma finds its operand tiles. PTX ISA 9.7.15.5.1.
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace ptx {

/// Bits 62-63 of a descriptor. The numbers are not in the order of the widths.
enum class DescriptorSwizzle : std::uint64_t { none = 0, b128 = 1, b64 = 2, b32 = 3 };

/// Packs a descriptor.
///
/// `address` is a shared-window address; addresses and offsets are stored without their low four
/// bits: bits 0-13 the address, 16-29 `leading_bytes` (LBO), 32-45 `stride_bytes` (SBO), 62-63 the
/// swizzle. The base offset (bits 49-51) stays 0: it is for tiles that do not start on a multiple
/// of the swizzle pattern (1024, 512 or 256 bytes), and ours do.
HOST_DEVICE constexpr std::uint64_t make_descriptor(std::uint32_t address,
                                                    std::uint32_t leading_bytes,
                                                    std::uint32_t stride_bytes,
                                                    DescriptorSwizzle swizzle) {
  constexpr auto field = [](std::uint32_t bytes) {
    return static_cast<std::uint64_t>((bytes & 0x3FFFF) >> 4);
  };
  return field(address) | field(leading_bytes) << 16 | field(stride_bytes) << 32 |
         static_cast<std::uint64_t>(swizzle) << 62;
}

/// The descriptor of a K-major bf16 tile whose rows are 128 bytes (64 elements of K), swizzled by
/// 128 bytes. Groups of 8 rows are 1024 bytes apart (SBO); LBO is unused in this layout.
///
/// A wgmma takes 16 elements of K, 32 bytes. Its slice `s` of the tile starts at `address` + 32 s,
/// inside the swizzle pattern: the hardware swizzles the final address bits, so adding plain bytes
/// to the start is right as long as the tile itself starts on a multiple of 1024.
HOST_DEVICE constexpr std::uint64_t k_major_descriptor(std::uint32_t address) {
  return make_descriptor(address, 16, 1024, DescriptorSwizzle::b128);
}

}  // namespace ptx

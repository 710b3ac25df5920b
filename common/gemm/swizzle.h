// The 128-byte swizzle: where a 16-byte chunk of a tile lies in shared memory.
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace gemm {

/// Maps a byte offset in a plain row-major tile with 128-byte rows to its offset in the swizzled
/// tile, which must start on a multiple of 1024 bytes: chunk c of row r moves to chunk c ^ (r % 8).
///
/// Without it, the same 16 bytes of 8 neighbouring rows lie in the same four of the 32 banks, and
/// the tensor cores read a tile in just such columns. TMA (Swizzle::b128) and wgmma
/// (DescriptorSwizzle::b128) both speak this layout. PTX ISA 5.5.7 (swizzling modes)
HOST_DEVICE constexpr std::uint32_t swizzle_128b(std::uint32_t offset) {
  return offset ^ ((offset >> 3) & 0x70);
}

}  // namespace gemm

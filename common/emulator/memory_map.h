// The address space of the machine.
//
// Global memory, constants and kernel parameters lie at their host addresses. Shared and local
// memory have windows in the generic address space that no host address falls into.
#pragma once

#include <cstdint>

namespace emulator {

/// A shared address (32 bits) names the CTA of the cluster in its top byte, as on Hopper, also in
/// the CTA's own addresses; the rest counts from 1024, because the first 1024 bytes of a CTA's
/// shared memory are the system's.
inline constexpr std::uint32_t shared_base = 1024;
inline constexpr int shared_rank_shift = 24;
inline constexpr std::uint32_t shared_offset_mask = (1u << shared_rank_shift) - 1;

/// The most CTAs of a cluster (compute capability 9.0).
inline constexpr std::uint32_t cluster_size_limit = 16;
/// The most shared memory of one CTA, static and dynamic, and of one SM.
inline constexpr std::uint32_t shared_bytes_per_cta = 232448;
inline constexpr std::uint32_t shared_bytes_per_sm = 233472;

constexpr std::uint32_t shared_address(std::uint32_t rank, std::uint32_t offset) {
  return rank << shared_rank_shift | (shared_base + offset);
}
constexpr std::uint32_t rank_of(std::uint32_t address) {
  return address >> shared_rank_shift;
}
/// From the start of the CTA's shared memory; wraps to a huge number below shared_base.
constexpr std::uint32_t offset_of(std::uint32_t address) {
  return (address & shared_offset_mask) - shared_base;
}

/// Generic address = window + shared or local address.
inline constexpr std::uint64_t shared_window = 0x0100'0000'0000'0000;
inline constexpr std::uint64_t local_window = 0x0200'0000'0000'0000;
inline constexpr std::uint64_t window_bytes = std::uint64_t{1} << 32;

constexpr bool in_shared_window(std::uint64_t generic) {
  return generic - shared_window < window_bytes;
}
constexpr bool in_local_window(std::uint64_t generic) {
  return generic - local_window < window_bytes;
}

}  // namespace emulator

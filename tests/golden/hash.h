// Inputs that look random and are the same everywhere.
#pragma once

#include <cstdint>

namespace golden {

/// Word `index` of the sequence `seed` (the finalizer of SplitMix64).
constexpr std::uint32_t hashed(std::uint32_t seed, std::uint32_t index) {
  std::uint64_t z = (std::uint64_t{seed} << 32 | index) * 0x9E37'79B9'7F4A'7C15;
  z = (z ^ z >> 30) * 0xBF58'476D'1CE4'E5B9;
  z = (z ^ z >> 27) * 0x94D0'49BB'1331'11EB;
  return static_cast<std::uint32_t>(z >> 16);
}

}  // namespace golden

// The arithmetic of shared-memory layouts: the 128-byte swizzle and wgmma descriptors.
#include <cstdint>
#include <set>

#include "common/gemm/swizzle.h"
#include "common/ptx/descriptor.h"
#include "tests/catch.h"

TEST_CASE("the 128-byte swizzle exchanges the 16-byte chunks of each row") {
  for (std::uint32_t row = 0; row < 64; ++row) {
    for (std::uint32_t chunk = 0; chunk < 8; ++chunk) {
      const std::uint32_t expected = 128 * row + 16 * (chunk ^ (row % 8));
      REQUIRE(gemm::swizzle_128b(128 * row + 16 * chunk) == expected);
      REQUIRE(gemm::swizzle_128b(128 * row + 16 * chunk + 15) == expected + 15);
    }
  }
}

TEST_CASE("the 128-byte swizzle is its own inverse and stays within 1024 bytes") {
  for (std::uint32_t offset = 0; offset < 4096; ++offset) {
    REQUIRE(gemm::swizzle_128b(gemm::swizzle_128b(offset)) == offset);
    REQUIRE(gemm::swizzle_128b(offset) / 1024 == offset / 1024);
  }
}

TEST_CASE("a column of 8 swizzled rows touches all 32 banks") {
  for (std::uint32_t chunk = 0; chunk < 8; ++chunk) {
    std::set<std::uint32_t> banks;
    for (std::uint32_t row = 0; row < 8; ++row) {
      const std::uint32_t offset = gemm::swizzle_128b(128 * row + 16 * chunk);
      for (std::uint32_t byte = 0; byte < 16; byte += 4) banks.insert((offset + byte) / 4 % 32);
    }
    CHECK(banks.size() == 32);
  }
}

TEST_CASE("descriptor fields lie where the ISA puts them") {
  using ptx::DescriptorSwizzle;
  using ptx::make_descriptor;
  CHECK(make_descriptor(0, 0, 0, DescriptorSwizzle::none) == 0);
  CHECK(make_descriptor(0x400, 0, 0, DescriptorSwizzle::none) == 0x40);
  CHECK(make_descriptor(0, 16, 0, DescriptorSwizzle::none) == std::uint64_t{1} << 16);
  CHECK(make_descriptor(0, 0, 1024, DescriptorSwizzle::none) == std::uint64_t{64} << 32);
  CHECK(make_descriptor(0, 0, 0, DescriptorSwizzle::b128) == std::uint64_t{1} << 62);
  CHECK(make_descriptor(0, 0, 0, DescriptorSwizzle::b64) == std::uint64_t{2} << 62);
  CHECK(make_descriptor(0, 0, 0, DescriptorSwizzle::b32) == std::uint64_t{3} << 62);
  // 18 bits of address, of which the low four are not kept.
  CHECK(make_descriptor(0x3FFFF, 0, 0, DescriptorSwizzle::none) == 0x3FFF);
  CHECK(make_descriptor(0x40000, 0, 0, DescriptorSwizzle::none) == 0);
}

TEST_CASE("the K-major descriptor advances by 2 for each 16 elements of K and by 512 for 64 rows") {
  const std::uint64_t first = ptx::k_major_descriptor(0x2400);
  CHECK(ptx::k_major_descriptor(0x2400 + 32) - first == 2);
  CHECK(ptx::k_major_descriptor(0x2400 + 64 * 128) - first == 512);
  CHECK((first >> 32 & 0x3FFF) == 64);
  CHECK(first >> 62 == 1);
  // Exercise 2 of lesson 02: slice 2 of a tile at 0x2400.
  CHECK(ptx::k_major_descriptor(0x2400 + 2 * 32) == 0x4000004000010244);
}

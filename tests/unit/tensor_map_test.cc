// Every rule of the tensor-map validator, on both sides of its edge.
#include "common/device/tensor_map.h"

#include <cstdint>
#include <string>

#include "common/device/errors.h"
#include "tests/catch.h"
#include "tests/unit/message.h"

using device::ElementType;
using device::Interleave;
using device::OutOfBounds;
using device::Swizzle;
using device::TensorMap;

namespace {

constexpr std::uint64_t two_to_32 = std::uint64_t{1} << 32;
constexpr std::uint64_t two_to_40 = std::uint64_t{1} << 40;

const void* at(std::uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

/// 100 x 64 elements of bf16, 72 from row to row, in boxes of 32 x 64.
TensorMap matrix() {
  return device::matrix_map("A", ElementType::bf16, at(0x1000), 100, 64, 72, 32, 64, Swizzle::b128);
}

/// A valid tensor of the highest rank, for the rules of the outer dimensions.
TensorMap rank_5() {
  TensorMap map;
  map.operand = "T";
  map.rank = 5;
  map.address = at(0x1000);
  map.extent = {64, 8, 4, 3, 2};
  map.pitch = {128, 1024, 4096, 12288};
  map.box = {64, 8, 4, 3, 2};
  return map;
}

/// A valid 32-byte interleaved tensor.
TensorMap interleaved() {
  TensorMap map = rank_5();
  map.interleave = Interleave::b32;
  map.swizzle = Swizzle::b32;
  return map;
}

std::string refusal(const TensorMap& map) {
  return tests::message_of<device::InvalidTensorMap>([&] { device::validate(map); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("elements and swizzle spans have their sizes") {
  CHECK(device::element_bytes(ElementType::u8) == 1);
  CHECK(device::element_bytes(ElementType::bf16) == 2);
  CHECK(device::element_bytes(ElementType::f16) == 2);
  for (const auto type :
       {ElementType::f32, ElementType::tf32, ElementType::s32, ElementType::u32}) {
    CHECK(device::element_bytes(type) == 4);
  }
  CHECK(device::swizzle_span_bytes(Swizzle::none) == 0);
  CHECK(device::swizzle_span_bytes(Swizzle::b32) == 32);
  CHECK(device::swizzle_span_bytes(Swizzle::b64) == 64);
  CHECK(device::swizzle_span_bytes(Swizzle::b128) == 128);
}

TEST_CASE("a matrix map has columns in dimension 0 and its pitch in bytes") {
  const TensorMap map = matrix();
  CHECK(map.operand == "A");
  CHECK(map.rank == 2);
  CHECK(map.address == at(0x1000));
  CHECK(map.extent[0] == 64);
  CHECK(map.extent[1] == 100);
  CHECK(map.pitch[0] == 144);
  CHECK(map.box[0] == 64);
  CHECK(map.box[1] == 32);
  CHECK(map.swizzle == Swizzle::b128);
  CHECK_NOTHROW(device::validate(map));
  CHECK_NOTHROW(device::validate(rank_5()));
  CHECK_NOTHROW(device::validate(interleaved()));
}

TEST_CASE("a box brings all its bytes, and element strides thin it out") {
  CHECK(device::box_bytes(matrix()) == 32 * 64 * 2);
  TensorMap map = rank_5();
  CHECK(device::box_bytes(map) == 64 * 8 * 4 * 3 * 2 * 2);
  map.stride = {1, 3, 1, 1, 1};  // 8 elements, every third: 3 of them
  CHECK(device::box_bytes(map) == 64 * 3 * 4 * 3 * 2 * 2);
  map.stride[0] = 2;  // ignored without interleaving
  CHECK(device::box_bytes(map) == 64 * 3 * 4 * 3 * 2 * 2);
}

TEST_CASE("the rank is 1 to 5, and 3 to 5 with interleaving") {
  TensorMap map = rank_5();
  for (const int rank : {1, 2, 3, 4, 5}) {
    map.rank = rank;
    CHECK(refusal(map).empty());
  }
  for (const int rank : {0, 6, -1}) {
    map.rank = rank;
    CHECK(contains(refusal(map), "Tensor map of T: the rank is " + std::to_string(rank)));
  }
  for (const auto interleave : {Interleave::b16, Interleave::b32}) {
    map = interleaved();
    map.interleave = interleave;
    map.rank = 3;
    CHECK(refusal(map).empty());
    map.rank = 2;
    CHECK(contains(refusal(map), "the rank is 2; an interleaved layout has at least 3"));
  }
}

TEST_CASE("the address is a multiple of 16, and of 32 with 32-byte interleaving") {
  TensorMap map = matrix();
  map.address = at(0x1010);
  CHECK(refusal(map).empty());
  for (const std::uintptr_t address : {0x1001, 0x1008, 0x100f}) {
    map.address = at(address);
    CHECK(contains(refusal(map), "Tensor map of A: the address is 0x10"));
    CHECK(contains(refusal(map), "needs a multiple of 16"));
  }
  map.address = nullptr;
  CHECK(contains(refusal(map), "the address is null"));

  map = interleaved();
  map.address = at(0x1020);
  CHECK(refusal(map).empty());
  map.address = at(0x1010);
  CHECK(contains(refusal(map), "needs a multiple of 32"));
  map.interleave = Interleave::b16;
  CHECK(refusal(map).empty());
}

TEST_CASE("extents are 1 to 2^32") {
  for (int i = 0; i < 5; ++i) {
    const std::string dimension = "the extent of dimension " + std::to_string(i);
    TensorMap map = rank_5();
    map.extent[i] = 1;
    CHECK(refusal(map).empty());
    map.extent[i] = 0;
    CHECK(contains(refusal(map), dimension + " is 0; an empty tensor has no map"));
    if (i == 0) map.pitch[0] = 2 * two_to_32;  // holds the longest row
    map.extent[i] = two_to_32;
    CHECK(refusal(map).empty());
    map.extent[i] = two_to_32 + 1;
    CHECK(contains(refusal(map), dimension + " is 4294967297; the copy engine takes at most"));
  }
}

TEST_CASE("what lies beyond the rank is not looked at") {
  TensorMap map = matrix();
  map.extent[2] = two_to_32 + 1;
  map.pitch[1] = 7;
  map.box[2] = 257;
  map.stride[2] = 9;
  CHECK(refusal(map).empty());
  map.rank = 1;
  map.pitch[0] = 7;  // a vector has no pitch
  CHECK(refusal(map).empty());
}

TEST_CASE("pitches are multiples of 16 bytes, and of 32 with 32-byte interleaving") {
  for (int i = 0; i < 4; ++i) {
    TensorMap map = rank_5();
    map.pitch[i] += 16;
    CHECK(refusal(map).empty());
    for (const std::uint64_t excess : {1, 2, 8, 15}) {
      map.pitch[i] = rank_5().pitch[i] + excess;
      CHECK(contains(refusal(map), "needs a multiple of 16"));
    }
    map = interleaved();
    map.pitch[i] += 32;
    CHECK(refusal(map).empty());
    map.pitch[i] += 16;
    CHECK(contains(refusal(map), "needs a multiple of 32"));
    map.interleave = Interleave::b16;
    CHECK(refusal(map).empty());
  }
}

TEST_CASE("pitches are less than 2^40 bytes") {
  for (int i = 0; i < 4; ++i) {
    TensorMap map = rank_5();
    map.pitch[i] = two_to_40 - 16;
    CHECK(refusal(map).empty());
    map.pitch[i] = two_to_40;
    CHECK(contains(refusal(map), "is 1099511627776 bytes; the copy engine takes less than"));
  }
}

TEST_CASE("rows don't overlap") {
  TensorMap map = matrix();
  map.pitch[0] = 128;
  CHECK(refusal(map).empty());
  map.pitch[0] = 112;
  CHECK(refusal(map) ==
        "Tensor map of A: the pitch between rows is 112 bytes, but a row is 128 bytes (64 elements "
        "of bf16); rows must not overlap. Raise the pitch to 128 bytes (64 elements of bf16).");
  // Outer dimensions may be nearer to each other than rows are: heads within a row, for instance.
  map = rank_5();
  map.pitch = {1024, 128, 4096, 12288};
  CHECK(refusal(map).empty());
}

TEST_CASE("a box has 1 to 256 elements in each dimension") {
  for (int i = 0; i < 5; ++i) {
    const std::string dimension = "in dimension " + std::to_string(i);
    TensorMap map = rank_5();
    map.box[i] = i == 0 ? 8 : 1;  // a row of the box is at least 16 bytes
    CHECK(refusal(map).empty());
    map.box[i] = 0;
    CHECK(contains(refusal(map), "the box has 0 elements " + dimension));
    map.box[i] = 256;
    CHECK(refusal(map).empty());
    map.box[i] = 257;
    CHECK(contains(refusal(map), "the box has 257 elements " + dimension));
  }
}

TEST_CASE("a row of the box is a multiple of 16 bytes") {
  TensorMap map = matrix();
  for (const std::uint32_t columns : {8, 16, 24, 56, 64}) {
    map.box[0] = columns;
    CHECK(refusal(map).empty());
  }
  for (const std::uint32_t columns : {1, 7, 9, 63}) {
    map.box[0] = columns;
    CHECK(contains(refusal(map), "needs a multiple of 16 bytes"));
  }
  CHECK(contains(refusal(map), "Widen the box to 128 bytes (64 elements of bf16)"));
  map = interleaved();
  map.box[0] = 1;  // interleaved layouts copy whole chunks
  CHECK(refusal(map).empty());
}

TEST_CASE("a row of the box fits into the swizzle's span") {
  struct Edge {
    Swizzle swizzle;
    std::uint32_t columns;
  };
  for (const auto [swizzle, columns] :
       {Edge{Swizzle::b32, 16}, Edge{Swizzle::b64, 32}, Edge{Swizzle::b128, 64}}) {
    TensorMap map = matrix();
    map.swizzle = swizzle;
    map.box[0] = columns;
    CHECK(refusal(map).empty());
    map.box[0] = columns + 8;
    CHECK(contains(refusal(map), "-byte swizzle takes at most " + std::to_string(2 * columns)));
    map.swizzle = Swizzle::none;
    CHECK(refusal(map).empty());
  }
}

TEST_CASE("element strides are 1 to 8, and that of dimension 0 counts with interleaving only") {
  for (int i = 0; i < 5; ++i) {
    for (const std::uint32_t stride : {0, 9}) {
      TensorMap map = rank_5();
      map.stride[i] = stride;
      const std::string words =
          "the element stride of dimension " + std::to_string(i) + " is " + std::to_string(stride);
      CHECK(contains(refusal(map), words) == (i > 0));
      map = interleaved();
      map.stride[i] = stride;
      CHECK(contains(refusal(map), words));
    }
    TensorMap map = interleaved();
    map.stride[i] = 8;
    CHECK(refusal(map).empty());
  }
}

TEST_CASE("32-byte interleaving needs the 32-byte swizzle") {
  for (const auto swizzle : {Swizzle::none, Swizzle::b64, Swizzle::b128}) {
    TensorMap map = interleaved();
    map.swizzle = swizzle;
    CHECK(contains(refusal(map), "needs the 32-byte swizzle"));
    map.interleave = Interleave::b16;
    CHECK(refusal(map).empty());
  }
}

TEST_CASE("only floating-point elements are NaN out of bounds") {
  TensorMap map = matrix();
  map.swizzle = Swizzle::none;
  map.pitch[0] = 256;
  map.out_of_bounds = OutOfBounds::nans;
  for (const auto type :
       {ElementType::bf16, ElementType::f16, ElementType::f32, ElementType::tf32}) {
    map.type = type;
    CHECK(refusal(map).empty());
  }
  for (const auto type : {ElementType::u8, ElementType::s32, ElementType::u32}) {
    map.type = type;
    map.out_of_bounds = OutOfBounds::nans;
    CHECK(contains(refusal(map), "has no NaN"));
    map.out_of_bounds = OutOfBounds::zeros;
    CHECK(refusal(map).empty());
  }
}

TEST_CASE("pitches off the 16-byte grid are refused with the next one that is on it") {
  // Reported by users of other libraries: K = 65, N = 1638 in halves, K = 72 in bytes.
  const auto map = [](const char* operand, ElementType type, std::uint64_t columns) {
    return device::matrix_map(operand, type, at(0x1000), 128, columns, columns, 64, 16,
                              Swizzle::none);
  };
  CHECK(refusal(map("A", ElementType::bf16, 65)) ==
        "Tensor map of A: the pitch between rows is 130 bytes; the copy engine needs a multiple of "
        "16. Round the pitch up to 144 bytes (72 elements of bf16).");
  CHECK(contains(refusal(map("D", ElementType::f16, 1638)),
                 "Tensor map of D: the pitch between rows is 3276 bytes"));
  CHECK(contains(refusal(map("B", ElementType::u8, 72)), "80 bytes (80 elements of u8)"));
  CHECK(refusal(map("A", ElementType::bf16, 72)).empty());
}

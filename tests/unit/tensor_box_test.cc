// Boxes of tensors against an element-by-element walk over the box.
#include "common/emulator/tensor_box.h"

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/emulator/formats.h"
#include "tests/catch.h"

using emulator::BoxCoordinates;
using emulator::BoxPiece;
using emulator::Clip;
using emulator::OutOfBoundsFill;
using emulator::ReduceOperation;
using emulator::SwizzleMode;
using emulator::TensorMapRecord;
using emulator::TensorType;

namespace {

constexpr std::uint64_t tensor_address = 0x10'0000;
constexpr std::uint32_t shared_size = 64 * 1024;

/// One element of a box, found by going through its coordinates.
struct Element {
  bool in_bounds;
  std::uint64_t global;  ///< offset in the tensor, if in bounds
  std::uint32_t shared;  ///< address
};

/// The address after the swizzle, from the ISA's picture: rows of eight 16-byte cells, in which row
/// r of the pattern holds cell c at place c ^ (r mod rows), in groups of `rows` cells.
std::uint32_t swizzled(std::uint32_t address, SwizzleMode mode) {
  const std::uint32_t rows = mode == SwizzleMode::none  ? 1
                             : mode == SwizzleMode::b32 ? 2
                             : mode == SwizzleMode::b64 ? 4
                                                        : 8;
  const std::uint32_t row = address / 128;
  const std::uint32_t cell = address % 128 / 16;
  return row * 128 + (cell ^ (row % rows)) * 16 + address % 16;
}

std::vector<Element> walk(const TensorMapRecord& map, const BoxCoordinates& start,
                          std::uint32_t shared) {
  std::vector<Element> elements;
  std::array<int, 5> counts{1, 1, 1, 1, 1};
  for (int i = 0; i < map.rank; ++i) {
    const int stride = i == 0 ? 1 : static_cast<int>(map.element_stride[i]);
    for (counts[i] = 0; counts[i] * stride < static_cast<int>(map.box[i]);) ++counts[i];
  }
  const auto bytes = static_cast<std::uint32_t>(emulator::element_bytes(map.type));
  const std::uint32_t row_pitch =
      map.swizzle == SwizzleMode::none ? map.box[0] * bytes : swizzle_span(map.swizzle);
  std::array<int, 5> at{};
  for (at[4] = 0; at[4] < counts[4]; ++at[4]) {
    for (at[3] = 0; at[3] < counts[3]; ++at[3]) {
      for (at[2] = 0; at[2] < counts[2]; ++at[2]) {
        for (at[1] = 0; at[1] < counts[1]; ++at[1]) {
          for (at[0] = 0; at[0] < counts[0]; ++at[0]) {
            Element element{true, 0, 0};
            for (int i = 0; i < map.rank; ++i) {
              const std::int64_t stride = i == 0 ? 1 : map.element_stride[i];
              const std::int64_t c = start[i] + at[i] * stride;
              if (c < 0 || c >= static_cast<std::int64_t>(map.extent[i])) {
                element.in_bounds = false;
              } else {
                const std::uint64_t pitch = i == 0 ? bytes : map.stride[i - 1];
                element.global += static_cast<std::uint64_t>(c) * pitch;
              }
            }
            const auto row = static_cast<std::uint32_t>(elements.size()) / map.box[0];
            element.shared = swizzled(shared + row * row_pitch + at[0] * bytes, map.swizzle);
            elements.push_back(element);
          }
        }
      }
    }
  }
  return elements;
}

/// The tensor in memory: byte i is a hash of i.
std::vector<std::byte> numbered_bytes(std::size_t count, std::uint32_t seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>((static_cast<std::uint32_t>(i) + seed) * 2654435761u >> 24);
  }
  return bytes;
}

std::size_t tensor_bytes(const TensorMapRecord& map) {
  std::size_t bytes = map.extent[0] * emulator::element_bytes(map.type);
  for (int i = 1; i < map.rank; ++i) bytes += (map.extent[i] - 1) * map.stride[i - 1];
  return bytes;
}

/// Loads a box through its pieces, as the copy engine does.
std::vector<std::byte> load(const TensorMapRecord& map, const BoxCoordinates& start,
                            std::uint32_t shared, const std::vector<std::byte>& tensor) {
  std::vector<std::byte> memory(shared_size, std::byte{0xCD});
  std::vector<BoxPiece> pieces;
  emulator::box_pieces(map, start, shared, Clip::elements, pieces);
  for (const BoxPiece& piece : pieces) {
    std::byte* const to = &memory.at(piece.shared);
    if (piece.in_bounds) {
      const std::size_t offset = piece.global - tensor_address;
      REQUIRE(offset + piece.bytes <= tensor.size());
      emulator::load_elements(map.type, to, &tensor[offset], piece.bytes);
    } else {
      emulator::fill_bytes(map.fill, to, piece.bytes);
    }
  }
  return memory;
}

void check_load(const TensorMapRecord& map, const BoxCoordinates& start, std::uint32_t shared) {
  const std::vector<std::byte> tensor = numbered_bytes(tensor_bytes(map), 1);
  const std::size_t element_bytes = emulator::element_bytes(map.type);
  std::vector<std::byte> expected(shared_size, std::byte{0xCD});
  std::size_t count = 0;
  for (const Element& element : walk(map, start, shared)) {
    ++count;
    if (element.in_bounds) {
      std::memcpy(&expected[element.shared], &tensor[element.global], element_bytes);
    } else {
      std::memset(&expected[element.shared], 0, element_bytes);
      if (map.fill == OutOfBoundsFill::nans) {
        const std::uint64_t nan = 0x7FF7'7FF7'7FF7'7FF7;
        std::memcpy(&expected[element.shared], &nan, element_bytes);
      }
    }
  }
  INFO("rank " << map.rank << " type " << static_cast<int>(map.type) << " swizzle "
               << static_cast<int>(map.swizzle) << " at " << start[0] << ' ' << start[1] << ' '
               << start[2] << ' ' << start[3] << ' ' << start[4] << " shared " << shared);
  CHECK(emulator::box_bytes(map) == count * element_bytes);
  CHECK(load(map, start, shared, tensor) == expected);
}

TensorMapRecord matrix(TensorType type, std::uint32_t columns, std::uint32_t rows,
                       std::uint32_t box_columns, std::uint32_t box_rows, SwizzleMode swizzle) {
  TensorMapRecord map;
  map.type = type;
  map.rank = 2;
  map.address = tensor_address;
  map.extent = {columns, rows, 1, 1, 1};
  map.stride[0] = (columns * emulator::element_bytes(type) + 15) / 16 * 16;
  map.box = {box_columns, box_rows, 1, 1, 1};
  map.swizzle = swizzle;
  return map;
}

constexpr SwizzleMode all_swizzles[] = {SwizzleMode::none, SwizzleMode::b32, SwizzleMode::b64,
                                        SwizzleMode::b128};

}  // namespace

TEST_CASE("a box inside the tensor is copied in every swizzle and type", "[tensor_box]") {
  for (TensorType type : {TensorType::u8, TensorType::bf16, TensorType::f32, TensorType::u64}) {
    const auto bytes = static_cast<std::uint32_t>(emulator::element_bytes(type));
    for (SwizzleMode swizzle : all_swizzles) {
      const std::uint32_t row = swizzle == SwizzleMode::none ? 256 : swizzle_span(swizzle);
      const auto map = matrix(type, 3 * row / bytes, 80, row / bytes, 20, swizzle);
      check_load(map, {static_cast<std::int32_t>(row / bytes), 13}, 1024);
      check_load(map, {5, 13}, 1024);
    }
  }
}

TEST_CASE("a box over each edge of the tensor is filled there", "[tensor_box]") {
  for (SwizzleMode swizzle : all_swizzles) {
    for (OutOfBoundsFill fill : {OutOfBoundsFill::zeros, OutOfBoundsFill::nans}) {
      auto map = matrix(TensorType::bf16, 45, 37, 16, 24, swizzle);
      map.fill = fill;
      for (std::int32_t x : {-100, -16, -15, -3, 0, 20, 29, 30, 44, 45, 100}) {
        for (std::int32_t y : {-30, -24, -23, -1, 0, 13, 14, 36, 37, 1000}) {
          check_load(map, {x, y}, 2048);
        }
      }
      check_load(map, {-2147483647 - 1, 2147483647}, 2048);
    }
  }
}

TEST_CASE("rows shorter than the swizzle lie as far apart as it is wide", "[tensor_box]") {
  for (SwizzleMode swizzle : all_swizzles) {
    for (std::uint32_t box_columns : {8u, 16u, 24u, 32u, 64u}) {
      if (swizzle != SwizzleMode::none && 2 * box_columns > swizzle_span(swizzle)) continue;
      check_load(matrix(TensorType::f16, 100, 50, box_columns, 19, swizzle), {3, 7}, 1024);
    }
  }
}

TEST_CASE("a box off the pattern's boundary is swizzled by its address", "[tensor_box]") {
  for (SwizzleMode swizzle : all_swizzles) {
    const std::uint32_t row = swizzle_span(swizzle) / 2;
    for (std::uint32_t shared : {128u, 256u, 384u, 512u, 896u}) {
      check_load(matrix(TensorType::bf16, 200, 50, row, 16, swizzle), {8, 7}, shared);
    }
  }
}

TEST_CASE("boxes have one to five dimensions", "[tensor_box]") {
  TensorMapRecord map;
  map.address = tensor_address;
  map.type = TensorType::bf16;
  map.extent = {24, 5, 4, 3, 6};
  map.stride = {48, 256, 1040, 3136};
  map.box = {16, 3, 2, 2, 4};
  for (int rank = 1; rank <= 5; ++rank) {
    map.rank = rank;
    for (SwizzleMode swizzle : {SwizzleMode::none, SwizzleMode::b32, SwizzleMode::b128}) {
      map.swizzle = swizzle;
      check_load(map, {0, 0, 0, 0, 0}, 1024);
      check_load(map, {-1, -1, -1, -1, -1}, 1024);
      check_load(map, {10, 3, 3, 2, 4}, 1024);
      check_load(map, {4, 9, 0, 0, 0}, 1024);
    }
  }
}

TEST_CASE("element strides skip rows and planes, not columns", "[tensor_box]") {
  auto map = matrix(TensorType::f32, 20, 40, 8, 9, SwizzleMode::b32);
  map.rank = 3;
  map.extent[2] = 7;
  map.stride[1] = map.stride[0] * 40;
  map.box[2] = 5;
  map.element_stride = {3, 2, 4, 1, 1};
  CHECK(emulator::box_bytes(map) == 8 * 4 * 5 * 2);
  check_load(map, {2, 3, 1}, 1024);
  check_load(map, {-2, -3, -4}, 1024);
  check_load(map, {17, 36, 5}, 1024);
}

TEST_CASE("pieces of the usual tile are whole chunks", "[tensor_box]") {
  std::vector<BoxPiece> pieces;
  emulator::box_pieces(matrix(TensorType::bf16, 4096, 4096, 64, 128, SwizzleMode::b128), {64, 128},
                       1024, Clip::elements, pieces);
  CHECK(pieces.size() == 8 * 128);
  std::set<std::uint32_t> chunks;
  for (const BoxPiece& piece : pieces) {
    CHECK((piece.bytes == 16 && piece.shared % 16 == 0 && piece.in_bounds));
    chunks.insert(piece.shared);
  }
  CHECK(chunks.size() == 8 * 128);
  CHECK(*chunks.begin() == 1024);
  CHECK(*chunks.rbegin() == 1024 + 16384 - 16);
  emulator::box_pieces(matrix(TensorType::bf16, 4096, 4096, 64, 128, SwizzleMode::none), {64, 128},
                       1024, Clip::elements, pieces);
  CHECK(pieces.size() == 128);
}

TEST_CASE("stores are clipped to the chunks of 16 bytes that the tensor reaches", "[tensor_box]") {
  for (SwizzleMode swizzle : all_swizzles) {
    const auto map = matrix(TensorType::bf16, 45, 37, 16, 24, swizzle);
    const std::vector<std::byte> shared = numbered_bytes(shared_size, 99);
    for (std::int32_t x : {0, 16, 32, 48}) {
      for (std::int32_t y : {0, 24, 36}) {
        // 45 elements end in the middle of a chunk of eight: rows are 48 elements apart.
        std::vector<std::byte> expected(37 * 96, std::byte{0xEE});
        std::vector<std::byte> stored = expected;
        auto chunks = map;
        chunks.extent[0] = 48;
        for (const Element& element : walk(chunks, {x, y}, 1024)) {
          if (!element.in_bounds) continue;
          std::memcpy(&expected[element.global], &shared[element.shared], 2);
        }
        std::vector<BoxPiece> pieces;
        emulator::box_pieces(map, {x, y}, 1024, Clip::chunks, pieces);
        for (const BoxPiece& piece : pieces) {
          if (!piece.in_bounds) continue;
          std::memcpy(&stored.at(piece.global - tensor_address), &shared[piece.shared],
                      piece.bytes);
        }
        CHECK(stored == expected);
      }
    }
  }
}

TEST_CASE("loads round what the element type says, and keep subnormals", "[tensor_box]") {
  const std::array<std::uint32_t, 4> from{0x0040'0000, 0x8000'0001, 0x3F80'1001, 0x3F80'0FFF};
  const auto loaded = [&](TensorType type) {
    std::array<std::uint32_t, 4> to{};
    emulator::load_elements(type, reinterpret_cast<std::byte*>(to.data()),
                            reinterpret_cast<const std::byte*>(from.data()), sizeof(from));
    return to;
  };
  using Words = std::array<std::uint32_t, 4>;
  CHECK(loaded(TensorType::f32) == from);
  CHECK(loaded(TensorType::f32_ftz) == from);
  CHECK(loaded(TensorType::tf32) == Words{0x0040'0000, 0x8000'0000, 0x3F80'2000, 0x3F80'0000});
  CHECK(loaded(TensorType::tf32_ftz) == loaded(TensorType::tf32));
}

namespace {

template <class T>
T reduced(ReduceOperation operation, TensorType type, T to, T from) {
  REQUIRE(emulator::reduces(operation, type));
  emulator::reduce_elements(operation, type, reinterpret_cast<std::byte*>(&to),
                            reinterpret_cast<const std::byte*>(&from), sizeof(T));
  return to;
}

}  // namespace

TEST_CASE("reductions of integers", "[tensor_box]") {
  using enum ReduceOperation;
  CHECK(reduced<std::uint32_t>(add, TensorType::u32, 0xFFFF'FFFF, 3) == 2);
  CHECK(reduced<std::int32_t>(add, TensorType::s32, 2147483647, 1) == -2147483647 - 1);
  CHECK(reduced<std::uint64_t>(add, TensorType::u64, ~0ull, 2) == 1);
  CHECK(reduced<std::int32_t>(min, TensorType::s32, -1, 1) == -1);
  CHECK(reduced<std::uint32_t>(min, TensorType::u32, 0xFFFF'FFFF, 1) == 1);
  CHECK(reduced<std::int64_t>(max, TensorType::s64, -5, -7) == -5);
  CHECK(reduced<std::uint32_t>(inc, TensorType::u32, 4, 5) == 5);
  CHECK(reduced<std::uint32_t>(inc, TensorType::u32, 5, 5) == 0);
  CHECK(reduced<std::uint32_t>(dec, TensorType::u32, 0, 5) == 5);
  CHECK(reduced<std::uint32_t>(dec, TensorType::u32, 9, 5) == 5);
  CHECK(reduced<std::uint32_t>(dec, TensorType::u32, 3, 5) == 2);
  CHECK(reduced<std::uint32_t>(bit_and, TensorType::u32, 12, 10) == 8);
  CHECK(reduced<std::uint64_t>(bit_or, TensorType::u64, 12, 10) == 14);
  CHECK(reduced<std::int32_t>(bit_xor, TensorType::s32, 12, 10) == 6);
}

TEST_CASE("reductions of floats round to nearest even and keep subnormals", "[tensor_box]") {
  using enum ReduceOperation;
  CHECK(reduced<float>(add, TensorType::f32, 1.0f, 0x1p-24f) == 1.0f);
  CHECK(reduced<float>(add, TensorType::f32, 0x1p-149f, 0x1p-149f) == 0x1p-148f);
  CHECK(reduced<double>(add, TensorType::f64, 1.0, 0x1p-52) == 1.0 + 0x1p-52);
  CHECK(reduced<std::uint16_t>(add, TensorType::f16, 0x3C00, 0x1000) == 0x3C00);
  CHECK(reduced<std::uint16_t>(add, TensorType::bf16, 0x3F80, 0x3F80) == 0x4000);
  CHECK(reduced<std::uint16_t>(add, TensorType::f16, 0x0001, 0x0001) == 0x0002);
  CHECK(reduced<std::uint16_t>(min, TensorType::f16, 0x3C00, 0xBC00) == 0xBC00);
  CHECK(reduced<std::uint16_t>(max, TensorType::bf16, 0x7FFF, 0x3F80) == 0x3F80);
}

TEST_CASE("the ISA's table says which reductions there are", "[tensor_box]") {
  using enum ReduceOperation;
  const std::map<ReduceOperation, std::set<TensorType>> table{
      {add,
       {TensorType::u32, TensorType::s32, TensorType::u64, TensorType::f32, TensorType::f64,
        TensorType::f16, TensorType::bf16}},
      {min,
       {TensorType::u32, TensorType::s32, TensorType::u64, TensorType::s64, TensorType::f16,
        TensorType::bf16}},
      {inc, {TensorType::u32}},
      {bit_xor, {TensorType::u32, TensorType::s32, TensorType::u64}}};
  for (const auto& [operation, types] : table) {
    for (int type = 0; type <= static_cast<int>(TensorType::tf32_ftz); ++type) {
      const auto tensor_type = static_cast<TensorType>(type);
      INFO(static_cast<int>(operation) << ' ' << type);
      CHECK(emulator::reduces(operation, tensor_type) == (types.count(tensor_type) == 1));
    }
  }
}

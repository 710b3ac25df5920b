#include "tests/golden/tensor_cases.h"

#include <array>
#include <cstring>
#include <utility>

#include "tests/golden/hash.h"

namespace golden {
namespace {

using emulator::BoxCoordinates;
using emulator::OutOfBoundsFill;
using emulator::ReduceOperation;
using emulator::SwizzleMode;
using emulator::TensorMapRecord;
using emulator::TensorType;

constexpr SwizzleMode all_swizzles[] = {SwizzleMode::none, SwizzleMode::b32, SwizzleMode::b64,
                                        SwizzleMode::b128};

std::string name(SwizzleMode mode) {
  constexpr std::array<const char*, 4> names{"none", "b32", "b64", "b128"};
  return names.at(static_cast<std::size_t>(mode));
}

std::string name(TensorType type) {
  constexpr std::array<const char*, 13> names{"u8",   "u16",  "u32",     "s32",     "u64",
                                              "s64",  "f16",  "f32",     "f32.ftz", "f64",
                                              "bf16", "tf32", "tf32.ftz"};
  return names.at(static_cast<std::size_t>(type));
}

std::string name(ReduceOperation operation) {
  constexpr std::array<const char*, 8> names{"add", "min", "max", "inc", "dec", "and", "or", "xor"};
  return names.at(static_cast<std::size_t>(operation));
}

std::string name(const BoxCoordinates& at, int rank) {
  std::string text;
  for (int i = 0; i < rank; ++i) text += (i == 0 ? "" : ",") + std::to_string(at[i]);
  return "(" + text + ")";
}

/// 45 x 37 elements, rows a multiple of 16 bytes apart.
TensorMapRecord matrix(TensorType type, std::uint32_t box_columns, std::uint32_t box_rows,
                       SwizzleMode swizzle) {
  TensorMapRecord map;
  map.type = type;
  map.rank = 2;
  map.extent = {45, 37, 1, 1, 1};
  map.stride[0] = (45 * emulator::element_bytes(type) + 15) / 16 * 16;
  map.box = {box_columns, box_rows, 1, 1, 1};
  map.swizzle = swizzle;
  return map;
}

/// A row of the box as long as the swizzle takes, or 64 bytes.
std::uint32_t full_row(SwizzleMode swizzle, TensorType type) {
  const std::uint32_t bytes = swizzle == SwizzleMode::none ? 64 : emulator::swizzle_span(swizzle);
  return bytes / static_cast<std::uint32_t>(emulator::element_bytes(type));
}

/// The last place at or before `element` where a box may start in dimension 0.
std::int32_t box_start(TensorType type, std::int32_t element) {
  const auto step =
      static_cast<std::int32_t>(emulator::box_start_alignment / emulator::element_bytes(type));
  return element / step * step;
}

/// 24 x 5 x 4 x 3 x 6 elements of bf16 with gaps between planes.
TensorMapRecord five_dimensions(int rank) {
  TensorMapRecord map;
  map.type = TensorType::bf16;
  map.rank = rank;
  map.extent = {24, 5, 4, 3, 6};
  map.stride = {48, 256, 1040, 3136};
  map.box = {16, 3, 2, 2, 4};
  return map;
}

class Cases {
 public:
  std::vector<TensorCase> take() { return std::move(cases_); }

  void add_edges() {
    constexpr BoxCoordinates corners[] = {{8, 5},   {-8, 3},  {16, 3}, {32, 3}, {8, -7},   {8, 30},
                                          {-8, -3}, {40, 35}, {64, 3}, {8, 64}, {-64, -64}};
    for (SwizzleMode swizzle : all_swizzles) {
      TensorMapRecord map =
          matrix(TensorType::bf16, full_row(swizzle, TensorType::bf16), 16, swizzle);
      for (const BoxCoordinates& at : corners) {
        add_load(name(swizzle), map, at);
        map.fill = OutOfBoundsFill::nans;
        add_load(name(swizzle) + " nan", map, at);
        map.fill = OutOfBoundsFill::zeros;
      }
    }
  }

  /// Boxes whose rows are shorter than the swizzle, and boxes off the pattern's boundary.
  void add_shapes() {
    for (SwizzleMode swizzle : all_swizzles) {
      for (std::uint32_t columns : {8u, 16u, 24u, 32u}) {
        if (swizzle != SwizzleMode::none && 2 * columns >= emulator::swizzle_span(swizzle))
          continue;
        const TensorMapRecord map = matrix(TensorType::bf16, columns, 11, swizzle);
        add_load(name(swizzle) + " row of " + std::to_string(columns), map, {8, 2});
      }
      for (std::uint32_t offset : {128u, 256u, 384u, 640u}) {
        const TensorMapRecord map =
            matrix(TensorType::bf16, full_row(swizzle, TensorType::bf16), 12, swizzle);
        add_load(name(swizzle) + " at " + std::to_string(offset), map, {0, 1}, offset);
      }
    }
  }

  void add_ranks() {
    constexpr BoxCoordinates starts[] = {
        {0, 0, 0, 0, 0}, {-8, -1, -1, -1, -1}, {16, 3, 3, 2, 4}, {8, 9, 0, 0, 0}};
    for (int rank = 1; rank <= 5; ++rank) {
      for (SwizzleMode swizzle : {SwizzleMode::none, SwizzleMode::b32, SwizzleMode::b128}) {
        TensorMapRecord map = five_dimensions(rank);
        map.swizzle = swizzle;
        for (const BoxCoordinates& at : starts) {
          add_load("rank " + std::to_string(rank) + " " + name(swizzle), map, at);
        }
      }
    }
  }

  void add_element_strides() {
    for (SwizzleMode swizzle : {SwizzleMode::none, SwizzleMode::b32}) {
      TensorMapRecord map = five_dimensions(3);
      map.swizzle = swizzle;
      map.box = {16, 4, 3, 1, 1};
      map.element_stride = {1, 2, 2, 1, 1};
      for (const BoxCoordinates& at :
           {BoxCoordinates{8, 0, 1}, BoxCoordinates{-8, -1, -1}, BoxCoordinates{16, 3, 2}}) {
        add_load("element strides " + name(swizzle), map, at);
      }
      map.box = {16, 5, 4, 1, 1};
      map.element_stride = {1, 3, 8, 1, 1};
      add_load("element strides with a rest " + name(swizzle), map, {0, 0, 0});
    }
  }

  void add_types() {
    for (int i = 0; i <= static_cast<int>(TensorType::tf32_ftz); ++i) {
      const auto type = static_cast<TensorType>(i);
      TensorMapRecord map = matrix(type, full_row(SwizzleMode::b64, type), 8, SwizzleMode::b64);
      const BoxCoordinates inside{box_start(type, 16), 4};
      const BoxCoordinates overhanging{box_start(type, 42), 4};
      add_load("type " + name(type), map, inside);
      add_load("type " + name(type), map, overhanging);
      add_copy(TensorDirection::store, "type " + name(type), map, inside);
      add_copy(TensorDirection::store, "type " + name(type), map, overhanging);
      if (type < TensorType::f16) continue;
      map.fill = OutOfBoundsFill::nans;
      add_load("type " + name(type) + " nan", map, overhanging);
    }
  }

  void add_stores() {
    for (SwizzleMode swizzle : all_swizzles) {
      const TensorMapRecord map =
          matrix(TensorType::bf16, full_row(swizzle, TensorType::bf16), 16, swizzle);
      for (const BoxCoordinates& at :
           {BoxCoordinates{0, 0}, BoxCoordinates{8, 5}, BoxCoordinates{40, 3},
            BoxCoordinates{8, 30}, BoxCoordinates{40, 35}, BoxCoordinates{64, 3},
            BoxCoordinates{8, 64}}) {
        add_copy(TensorDirection::store, name(swizzle), map, at);
      }
    }
    for (int rank : {1, 3, 4, 5}) {
      const TensorMapRecord map = five_dimensions(rank);
      add_copy(TensorDirection::store, "rank " + std::to_string(rank), map, {8, 1, 1, 0, 0});
      add_copy(TensorDirection::store, "rank " + std::to_string(rank), map, {16, 3, 3, 2, 4});
    }
  }

  void add_reductions() {
    for (int operation = 0; operation <= static_cast<int>(ReduceOperation::bit_xor); ++operation) {
      for (int type = 0; type <= static_cast<int>(TensorType::tf32_ftz); ++type) {
        const auto reduce_operation = static_cast<ReduceOperation>(operation);
        const auto tensor_type = static_cast<TensorType>(type);
        // f64 is in the ISA's table for cp.reduce.async.bulk, but not for tensors.
        if (!emulator::reduces(reduce_operation, tensor_type)) continue;
        if (tensor_type == TensorType::f64) continue;
        const TensorMapRecord map =
            matrix(tensor_type, full_row(SwizzleMode::b32, tensor_type), 6, SwizzleMode::b32);
        for (const BoxCoordinates& at : {BoxCoordinates{box_start(tensor_type, 8), 4},
                                         BoxCoordinates{box_start(tensor_type, 42), 34}}) {
          add_copy(TensorDirection::reduce, name(reduce_operation) + " " + name(tensor_type), map,
                   at);
          cases_.back().operation = reduce_operation;
        }
      }
    }
  }

  /// Boxes that start at a byte of a row that is no multiple of 16, and their like at multiples.
  void add_starts() {
    for (TensorType type : {TensorType::u8, TensorType::bf16, TensorType::u64}) {
      const auto element = static_cast<std::int32_t>(emulator::element_bytes(type));
      const TensorMapRecord map =
          matrix(type, full_row(SwizzleMode::b64, type), 8, SwizzleMode::b64);
      for (std::int32_t at : {-8 / element, 1, 16 / element}) {
        const std::string what = "start " + name(type);
        add_load(what, map, {at, 4});
        if (type != TensorType::bf16) continue;
        add_copy(TensorDirection::store, what, map, {at, 4});
        add_copy(TensorDirection::reduce, what, map, {at, 4});
      }
    }
    const TensorMapRecord plain = matrix(TensorType::bf16, 32, 8, SwizzleMode::none);
    for (std::int32_t at : {4, 44, 100, -100}) add_load("start none", plain, {at, 4});
    for (int rank : {1, 3, 5}) {
      add_load("start rank " + std::to_string(rank), five_dimensions(rank), {1, 1, 1, 1, 1});
    }
  }

  /// Boxes at places of shared memory that are no multiples of 128, and their like at multiples.
  void add_places() {
    for (std::uint32_t offset : {16u, 64u, 128u}) {
      const std::string what = "at " + std::to_string(offset);
      for (SwizzleMode swizzle : {SwizzleMode::none, SwizzleMode::b128}) {
        add_load(name(swizzle) + " " + what,
                 matrix(TensorType::bf16, full_row(swizzle, TensorType::bf16), 8, swizzle), {0, 0},
                 offset);
      }
      add_copy(TensorDirection::store, what, matrix(TensorType::bf16, 32, 8, SwizzleMode::none),
               {0, 0});
      cases_.back().shared_offset = offset;
    }
  }

  /// Stores and reductions that begin before the tensor, or end behind it.
  void add_overhanging_stores() {
    const TensorMapRecord map = matrix(TensorType::bf16, 32, 8, SwizzleMode::none);
    for (const BoxCoordinates& at :
         {BoxCoordinates{-8, 3}, BoxCoordinates{8, -3}, BoxCoordinates{64, -3},
          BoxCoordinates{-64, -64}, BoxCoordinates{64, 64}}) {
      add_copy(TensorDirection::store, "overhanging", map, at);
    }
    add_copy(TensorDirection::reduce, "overhanging", map, {-8, 3});
    add_copy(TensorDirection::reduce, "overhanging", map, {8, -3});
    add_copy(TensorDirection::store, "overhanging rank 1", five_dimensions(1), {-8});
    add_copy(TensorDirection::store, "overhanging rank 3", five_dimensions(3), {8, 1, -1});
  }

  /// Reductions that elements of a type may not have.
  void add_operations() {
    using enum ReduceOperation;
    constexpr std::pair<ReduceOperation, TensorType> pairs[] = {
        {add, TensorType::u8},      {add, TensorType::s64},     {add, TensorType::f64},
        {add, TensorType::f32_ftz}, {add, TensorType::tf32},    {min, TensorType::f32},
        {inc, TensorType::s32},     {dec, TensorType::u64},     {bit_and, TensorType::s64},
        {bit_or, TensorType::s64},  {bit_xor, TensorType::s64}, {bit_and, TensorType::f16}};
    for (const auto& [operation, type] : pairs) {
      add_copy(TensorDirection::reduce, name(operation) + " " + name(type),
               matrix(type, full_row(SwizzleMode::b32, type), 6, SwizzleMode::b32),
               {box_start(type, 16), 4});
      cases_.back().operation = operation;
    }
  }

 private:
  void add_load(const std::string& what, const TensorMapRecord& map, const BoxCoordinates& at,
                std::uint32_t shared_offset = 0) {
    add_copy(TensorDirection::load, what, map, at);
    cases_.back().shared_offset = shared_offset;
  }

  void add_copy(TensorDirection direction, const std::string& what, const TensorMapRecord& map,
                const BoxCoordinates& at) {
    constexpr std::array<const char*, 3> directions{"load ", "store ", "reduce "};
    TensorCase c;
    c.name = directions.at(static_cast<std::size_t>(direction)) + what + " " + name(at, map.rank);
    c.direction = direction;
    c.map = map;
    c.coordinates = at;
    c.seed = static_cast<std::uint32_t>(cases_.size() + 1);
    cases_.push_back(c);
  }

  std::vector<TensorCase> cases_;
};

/// Ties, neighbours of ties, subnormals, NaN, infinity, the largest numbers of either sign.
std::uint32_t interesting_f32(std::uint32_t random) {
  constexpr std::array<std::uint32_t, 12> values{
      0x3F80'1000, 0x3F80'1001, 0x3F80'3000, 0x3F80'0FFF, 0x0000'0001, 0x0040'0000,
      0x007F'FFFF, 0x7F80'0000, 0x7FC1'2345, 0x7F7F'FFFF, 0x7F80'0001, 0x0000'1000};
  const std::uint32_t sign = random & 0x8000'0000;
  return random % 3 == 0 ? random : sign | values[random / 4 % values.size()];
}

/// Two f16 or bf16 numbers whose sums round.
std::uint32_t half_numbers(std::uint32_t random) {
  return (random & 0x87FF'87FF) | 0x3800'3800;
}

std::uint32_t word(const TensorCase& c, std::uint32_t random) {
  switch (c.map.type) {
    case TensorType::f32:
      if (c.direction == TensorDirection::reduce) return (random & 0x80FF'FFFF) | 0x3F00'0000;
      return random;
    case TensorType::f16:
    case TensorType::bf16:
      return c.direction == TensorDirection::reduce ? half_numbers(random) : random;
    case TensorType::f32_ftz:
    case TensorType::tf32:
    case TensorType::tf32_ftz:
      return interesting_f32(random);
    default:
      return random;
  }
}

std::vector<std::byte> memory(const TensorCase& c, std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> result(bytes);
  for (std::size_t i = 0; i < bytes; i += 4) {
    const std::uint32_t value = word(c, hashed(seed, static_cast<std::uint32_t>(i)));
    std::memcpy(&result[i], &value, 4);
  }
  return result;
}

}  // namespace

std::vector<TensorCase> tensor_cases() {
  Cases cases;
  cases.add_edges();
  cases.add_shapes();
  cases.add_ranks();
  cases.add_element_strides();
  cases.add_types();
  cases.add_stores();
  cases.add_reductions();
  return cases.take();
}

std::vector<TensorCase> ending_cases() {
  Cases cases;
  cases.add_starts();
  cases.add_places();
  cases.add_overhanging_stores();
  cases.add_operations();
  return cases.take();
}

std::vector<std::byte> tensor_memory(const TensorCase& c) {
  return memory(c, tensor_memory_bytes, c.seed);
}

std::vector<std::byte> tensor_shared(const TensorCase& c) {
  return memory(c, tensor_shared_bytes, c.seed + 0x10000);
}

std::size_t result_words(const TensorCase& c) {
  if (c.direction == TensorDirection::load) {
    return (emulator::box_bytes(c.map) + 127) / 128 * 128 / 4;
  }
  std::size_t bytes = c.map.extent[0] * emulator::element_bytes(c.map.type);
  for (int i = 1; i < c.map.rank; ++i) bytes += (c.map.extent[i] - 1) * c.map.stride[i - 1];
  return (bytes + 3) / 4;
}

}  // namespace golden

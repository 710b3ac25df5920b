#include "common/emulator/tensor_box.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "common/emulator/formats.h"

namespace emulator {
namespace {

/// A row of the box: what dimension 0 spans at one place of the others.
struct BoxRow {
  std::uint64_t global;  ///< address of its first element, were it in bounds
  std::uint32_t shared;  ///< address, not yet swizzled
};

/// Appends `bytes` of a row from byte `first` on, cut where the swizzle tears them apart.
void append_pieces(const TensorMapRecord& map, BoxRow row, std::uint32_t first, std::uint32_t bytes,
                   bool in_bounds, std::vector<BoxPiece>& pieces) {
  while (bytes > 0) {
    const std::uint32_t shared = row.shared + first;
    const std::uint32_t to_next_chunk = 16 - shared % 16;
    const bool whole = map.swizzle == SwizzleMode::none;
    const std::uint32_t piece = whole ? bytes : std::min(bytes, to_next_chunk);
    pieces.push_back({row.global + first, swizzle(shared, map.swizzle), piece, in_bounds});
    first += piece;
    bytes -= piece;
  }
}

/// Bytes of a row, from its first.
struct RowPart {
  std::uint32_t begin;
  std::uint32_t end;
};

/// The part of the box's rows that is in bounds, as far as dimension 0 tells.
RowPart part_in_bounds(const TensorMapRecord& map, std::int64_t first, Clip clip) {
  const auto element = static_cast<std::uint32_t>(element_bytes(map.type));
  const auto extent = static_cast<std::int64_t>(map.extent[0]);
  const std::int64_t count = map.box[0];
  const auto begin = static_cast<std::uint32_t>(std::clamp<std::int64_t>(-first, 0, count));
  const auto end =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(extent - first, begin, count));
  RowPart part{begin * element, end * element};
  if (clip == Clip::chunks && part.begin < part.end) {
    part.end = std::min((part.end + 15) / 16 * 16, box_row_bytes(map));
  }
  return part;
}

/// Appends a row and says which part of it is in bounds.
void append_row(const TensorMapRecord& map, BoxRow row, RowPart in_bounds,
                std::vector<BoxPiece>& pieces) {
  append_pieces(map, row, 0, in_bounds.begin, false, pieces);
  append_pieces(map, row, in_bounds.begin, in_bounds.end - in_bounds.begin, true, pieces);
  append_pieces(map, row, in_bounds.end, box_row_bytes(map) - in_bounds.end, false, pieces);
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Calls operation(x, y) for each pair of elements of T and stores the result in `to`.
template <class T, class Operation>
void combine(std::byte* to, const std::byte* from, std::size_t bytes, Operation operation) {
  for (std::size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    const T result = operation(load<T>(to + i), load<T>(from + i));
    std::memcpy(to + i, &result, sizeof(T));
  }
}

template <class T>
void reduce_integers(ReduceOperation operation, std::byte* to, const std::byte* from,
                     std::size_t bytes) {
  using Bits = std::make_unsigned_t<T>;
  combine<T>(to, from, bytes, [operation](T x, T y) -> T {
    const auto x_bits = static_cast<Bits>(x);
    const auto y_bits = static_cast<Bits>(y);
    switch (operation) {
      case ReduceOperation::add:
        return static_cast<T>(x_bits + y_bits);
      case ReduceOperation::min:
        return std::min(x, y);
      case ReduceOperation::max:
        return std::max(x, y);
      case ReduceOperation::inc:
        return x >= y ? T{0} : static_cast<T>(x + 1);
      case ReduceOperation::dec:
        return x == 0 || x > y ? y : static_cast<T>(x - 1);
      case ReduceOperation::bit_and:
        return static_cast<T>(x_bits & y_bits);
      case ReduceOperation::bit_or:
        return static_cast<T>(x_bits | y_bits);
      case ReduceOperation::bit_xor:
        return static_cast<T>(x_bits ^ y_bits);
    }
    return x;
  });
}

/// add, min and max of f16 and bf16.
void reduce_halves(ReduceOperation operation, const FloatFormat& format, std::byte* to,
                   const std::byte* from, std::size_t bytes) {
  combine<std::uint16_t>(to, from, bytes, [&](std::uint16_t x, std::uint16_t y) {
    if (operation == ReduceOperation::add) return add_half(format, x, y);
    const double a = widen(format, x);
    const double b = widen(format, y);
    const double chosen = operation == ReduceOperation::min ? minimum(a, b) : maximum(a, b);
    return static_cast<std::uint16_t>(narrow(format, chosen));
  });
}

/// What a load does to tf32 and tf32_ftz.
void round_to_tf32(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 4) {
    const std::uint32_t value = f32_to_tf32(load<float>(from + i));
    std::memcpy(to + i, &value, 4);
  }
}

}  // namespace

std::uint32_t box_row_bytes(const TensorMapRecord& map) {
  return map.box[0] * static_cast<std::uint32_t>(element_bytes(map.type));
}

std::uint32_t box_row_pitch(const TensorMapRecord& map) {
  return map.swizzle == SwizzleMode::none ? box_row_bytes(map) : swizzle_span(map.swizzle);
}

void box_pieces(const TensorMapRecord& map, const BoxCoordinates& coordinates, std::uint32_t shared,
                Clip clip, std::vector<BoxPiece>& pieces) {
  pieces.clear();
  pieces.reserve(box_bytes(map) / 16);
  const std::int64_t first = coordinates[0];
  const RowPart part = part_in_bounds(map, first, clip);
  const std::int64_t first_byte = first * static_cast<std::int64_t>(element_bytes(map.type));
  std::array<std::uint32_t, 5> index{};
  for (;;) {
    BoxRow row{map.address + static_cast<std::uint64_t>(first_byte), shared};
    bool in_bounds = true;
    for (int i = 1; i < map.rank; ++i) {
      const std::int64_t at = coordinates[i] + std::int64_t{index[i]} * map.element_stride[i];
      in_bounds = in_bounds && at >= 0 && at < static_cast<std::int64_t>(map.extent[i]);
      row.global += static_cast<std::uint64_t>(at) * map.stride[i - 1];
    }
    append_row(map, row, in_bounds ? part : RowPart{}, pieces);
    shared += box_row_pitch(map);
    int dimension = 1;
    while (dimension < map.rank && ++index[dimension] == box_count(map, dimension)) {
      index[dimension++] = 0;
    }
    if (dimension >= map.rank) return;
  }
}

void load_elements(TensorType type, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (type == TensorType::tf32 || type == TensorType::tf32_ftz) {
    round_to_tf32(to, from, bytes);
  } else if (bytes == 16) {
    // Most pieces are chunks of a swizzle, and a copy of constant size is not a call.
    std::memcpy(to, from, 16);
  } else {
    std::memcpy(to, from, bytes);
  }
}

void fill_bytes(OutOfBoundsFill fill, std::byte* to, std::size_t bytes) {
  constexpr std::uint16_t nan = 0x7FF7;
  std::memset(to, 0, bytes);
  if (fill == OutOfBoundsFill::zeros) return;
  for (std::size_t i = 0; i + sizeof(nan) <= bytes; i += sizeof(nan)) {
    std::memcpy(to + i, &nan, sizeof(nan));
  }
}

bool reduces(ReduceOperation operation, TensorType type) {
  const bool half = type == TensorType::f16 || type == TensorType::bf16;
  const bool integer = type >= TensorType::u32 && type <= TensorType::s64;
  switch (operation) {
    case ReduceOperation::add:
      return half || (integer && type != TensorType::s64) || type == TensorType::f32 ||
             type == TensorType::f64;
    case ReduceOperation::min:
    case ReduceOperation::max:
      return half || integer;
    case ReduceOperation::inc:
    case ReduceOperation::dec:
      return type == TensorType::u32;
    case ReduceOperation::bit_and:
    case ReduceOperation::bit_or:
    case ReduceOperation::bit_xor:
      return integer && type != TensorType::s64;
  }
  return false;
}

void reduce_elements(ReduceOperation operation, TensorType type, std::byte* to,
                     const std::byte* from, std::size_t bytes) {
  switch (type) {
    case TensorType::u32:
      return reduce_integers<std::uint32_t>(operation, to, from, bytes);
    case TensorType::s32:
      return reduce_integers<std::int32_t>(operation, to, from, bytes);
    case TensorType::u64:
      return reduce_integers<std::uint64_t>(operation, to, from, bytes);
    case TensorType::s64:
      return reduce_integers<std::int64_t>(operation, to, from, bytes);
    case TensorType::f16:
      return reduce_halves(operation, format::f16, to, from, bytes);
    case TensorType::bf16:
      return reduce_halves(operation, format::bf16, to, from, bytes);
    case TensorType::f32:
      return combine<float>(to, from, bytes, [](float x, float y) { return canonical(x + y); });
    case TensorType::f64:
      return combine<double>(to, from, bytes, [](double x, double y) { return x + y; });
    default:
      return;
  }
}

}  // namespace emulator

#include "common/device/tensor_map.h"

#include <utility>

#include "common/device/concat.h"
#include "common/device/errors.h"

namespace device {
namespace {

constexpr std::uint64_t max_extent = std::uint64_t{1} << 32;
constexpr std::uint64_t pitch_limit = std::uint64_t{1} << 40;
constexpr std::uint32_t max_box = 256;
constexpr std::uint32_t max_stride = 8;
constexpr std::uint64_t box_row_multiple = 16;

struct TypeFacts {
  const char* name;
  std::size_t bytes;
  bool floating_point;
};

/// In the order of ElementType.
constexpr std::array<TypeFacts, 7> type_facts{{{"bf16", 2, true},
                                               {"f16", 2, true},
                                               {"f32", 4, true},
                                               {"tf32", 4, true},
                                               {"u8", 1, false},
                                               {"s32", 4, false},
                                               {"u32", 4, false}}};

/// In the order of Swizzle.
constexpr std::array<std::size_t, 4> swizzle_spans{0, 32, 64, 128};

const TypeFacts& facts(ElementType type) {
  return type_facts.at(static_cast<std::size_t>(type));
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// "144 bytes (72 elements of bf16)"
std::string bytes_and_elements(std::uint64_t bytes, ElementType type) {
  return concat(counted(bytes, "byte"), " (", counted(bytes / element_bytes(type), "element"),
                " of ", facts(type).name, ")");
}

template <class... Parts>
[[noreturn]] void refuse(const TensorMap& map, const Parts&... parts) {
  throw InvalidTensorMap(concat("Tensor map of ", map.operand, ": ", parts...));
}

/// Interleaved layouts cut dimension 0 into chunks, so the rules for rows are not theirs.
bool is_interleaved(const TensorMap& map) {
  return map.interleave != Interleave::none;
}

/// What the address and the pitches must be a multiple of, in bytes.
std::uint64_t alignment(const TensorMap& map) {
  return map.interleave == Interleave::b32 ? 32 : 16;
}

void validate_rank(const TensorMap& map) {
  if (map.rank < 1 || map.rank > 5) {
    refuse(map, "the rank is ", map.rank,
           "; the copy engine takes tensors of 1 to 5 dimensions. Fold or drop dimensions.");
  }
  if (is_interleaved(map) && map.rank < 3) {
    refuse(map, "the rank is ", map.rank,
           "; an interleaved layout has at least 3 dimensions. Use Interleave::none, or add "
           "dimensions of extent 1.");
  }
}

void validate_address(const TensorMap& map) {
  if (map.address == nullptr) {
    refuse(map,
           "the address is null; the copy engine needs device memory. Allocate the tensor first.");
  }
  if (reinterpret_cast<std::uintptr_t>(map.address) % alignment(map) != 0) {
    refuse(map, "the address is ", map.address, "; the copy engine needs a multiple of ",
           alignment(map),
           ". Start the map at an aligned address, and select the part with the coordinates of the "
           "copy.");
  }
}

void validate_extent(const TensorMap& map, int dimension) {
  const std::uint64_t extent = map.extent[dimension];
  if (extent == 0) {
    refuse(map, "the extent of dimension ", dimension,
           " is 0; an empty tensor has no map. Launch nothing where there is nothing to copy.");
  }
  if (extent > max_extent) {
    refuse(map, "the extent of dimension ", dimension, " is ", extent,
           "; the copy engine takes at most ", max_extent,
           " (2^32) elements. Split the dimension in two.");
  }
}

/// Pitch `index` lies between neighbours in dimension index + 1.
std::string pitch_name(int index) {
  return index == 0 ? "the pitch between rows"
                    : concat("the pitch between neighbours in dimension ", index + 1);
}

void validate_pitch(const TensorMap& map, int index) {
  const std::uint64_t pitch = map.pitch[index];
  if (pitch >= pitch_limit) {
    refuse(map, pitch_name(index), " is ", counted(pitch, "byte"),
           "; the copy engine takes less than ", pitch_limit,
           " (2^40). Store the tensor more densely.");
  }
  if (pitch % alignment(map) != 0) {
    refuse(map, pitch_name(index), " is ", counted(pitch, "byte"),
           "; the copy engine needs a multiple of ", alignment(map), ". Round the pitch up to ",
           bytes_and_elements(round_up(pitch, alignment(map)), map.type), ".");
  }
}

void validate_rows_apart(const TensorMap& map) {
  const std::uint64_t row = map.extent[0] * element_bytes(map.type);
  if (map.pitch[0] < row) {
    refuse(map, pitch_name(0), " is ", counted(map.pitch[0], "byte"), ", but a row is ",
           bytes_and_elements(row, map.type), "; rows must not overlap. Raise the pitch to ",
           bytes_and_elements(round_up(row, alignment(map)), map.type), ".");
  }
}

void validate_box(const TensorMap& map, int dimension) {
  const std::uint32_t box = map.box[dimension];
  if (box < 1 || box > max_box) {
    refuse(map, "the box has ", counted(box, "element"), " in dimension ", dimension,
           "; the copy engine takes 1 to ", max_box, ". Copy the tile in boxes of that size.");
  }
}

void validate_box_row(const TensorMap& map) {
  const std::uint64_t row = map.box[0] * element_bytes(map.type);
  if (row % box_row_multiple != 0) {
    refuse(map, "a row of the box is ", bytes_and_elements(row, map.type),
           "; the copy engine needs a multiple of ", box_row_multiple, " bytes. Widen the box to ",
           bytes_and_elements(round_up(row, box_row_multiple), map.type), ".");
  }
  const std::size_t span = swizzle_span_bytes(map.swizzle);
  if (span != 0 && row > span) {
    refuse(map, "a row of the box is ", bytes_and_elements(row, map.type), "; the ", span,
           "-byte swizzle takes at most ", bytes_and_elements(span, map.type),
           ". Narrow the box, and copy the tile in several.");
  }
}

void validate_stride(const TensorMap& map, int dimension) {
  const std::uint32_t stride = map.stride[dimension];
  if (stride < 1 || stride > max_stride) {
    refuse(map, "the element stride of dimension ", dimension, " is ", stride,
           "; the copy engine takes 1 to ", max_stride,
           ". Use 1, and let the pitch skip what lies between.");
  }
}

void validate_modes(const TensorMap& map) {
  if (map.interleave == Interleave::b32 && map.swizzle != Swizzle::b32) {
    const std::size_t span = swizzle_span_bytes(map.swizzle);
    refuse(map, "the swizzle is ", span == 0 ? "none" : concat(span, " bytes"),
           "; the 32-byte interleaved layout needs the 32-byte swizzle. Use Swizzle::b32.");
  }
  if (map.out_of_bounds == OutOfBounds::nans && !facts(map.type).floating_point) {
    refuse(map, "elements out of bounds are to be NaN, but ", facts(map.type).name,
           " has no NaN. Use OutOfBounds::zeros.");
  }
}

}  // namespace

std::size_t element_bytes(ElementType type) {
  return facts(type).bytes;
}

std::size_t swizzle_span_bytes(Swizzle swizzle) {
  return swizzle_spans.at(static_cast<std::size_t>(swizzle));
}

TensorMap matrix_map(std::string operand, ElementType type, const void* address, std::uint64_t rows,
                     std::uint64_t columns, std::uint64_t pitch, std::uint32_t box_rows,
                     std::uint32_t box_columns, Swizzle swizzle) {
  TensorMap map;
  map.operand = std::move(operand);
  map.type = type;
  map.address = address;
  map.extent = {columns, rows};
  map.pitch = {pitch * element_bytes(type)};
  map.box = {box_columns, box_rows};
  map.swizzle = swizzle;
  return map;
}

void validate(const TensorMap& map) {
  validate_rank(map);
  validate_address(map);
  for (int i = 0; i < map.rank; ++i) validate_extent(map, i);
  for (int i = 0; i + 1 < map.rank; ++i) validate_pitch(map, i);
  for (int i = 0; i < map.rank; ++i) validate_box(map, i);
  if (!is_interleaved(map)) {
    if (map.rank > 1) validate_rows_apart(map);
    validate_box_row(map);
  }
  // Without interleaving the copy engine ignores the stride of dimension 0.
  for (int i = is_interleaved(map) ? 0 : 1; i < map.rank; ++i) validate_stride(map, i);
  validate_modes(map);
}

std::size_t box_bytes(const TensorMap& map) {
  std::size_t bytes = element_bytes(map.type);
  for (int i = 0; i < map.rank; ++i) {
    const std::uint32_t stride = i == 0 && !is_interleaved(map) ? 1 : map.stride[i];
    bytes *= (map.box[i] + stride - 1) / stride;
  }
  return bytes;
}

}  // namespace device

#include "common/emulator/tensor_map_record.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace emulator {
namespace {

/// "PTXEMTM1": the format of the bytes below. Not a plausible start of a CUtensorMap.
constexpr std::uint64_t magic = 0x314D'544D'4558'5450;

/// The 128 bytes.
struct Encoded {
  std::uint64_t magic;
  std::uint64_t address;
  std::array<std::uint64_t, 5> extent;
  std::array<std::uint64_t, 4> stride;
  std::array<std::uint16_t, 5> box;
  std::array<std::uint8_t, 5> element_stride;
  std::uint8_t rank;
  std::uint8_t type;
  std::uint8_t swizzle;
  std::uint8_t interleave;
  std::uint8_t fill;
  std::uint8_t l2_promotion;
  std::array<std::uint8_t, 19> unused;
};
static_assert(sizeof(Encoded) == tensor_map_bytes);

constexpr std::array<std::uint8_t, 13> type_bytes{1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4};
constexpr std::uint64_t max_extent = std::uint64_t{1} << 32;
constexpr std::uint64_t stride_limit = std::uint64_t{1} << 40;
constexpr std::uint64_t max_box = 256;
constexpr std::uint64_t max_element_stride = 8;
/// What a CTA can have on sm_90.
constexpr std::size_t max_shared_bytes = 227 * 1024;

Encoded load(std::span<const std::byte, tensor_map_bytes> bytes) {
  Encoded encoded;
  std::memcpy(&encoded, bytes.data(), sizeof(encoded));
  return encoded;
}

bool has_nan(std::uint8_t type) {
  return static_cast<TensorType>(type) >= TensorType::f16;
}

/// "dimension 1 of the box is 300; it must be 1 to 256."
std::string out_of_range(const std::string& field, std::uint64_t value, std::uint64_t first,
                         std::uint64_t last) {
  return field + " is " + std::to_string(value) + "; it must be " + std::to_string(first) + " to " +
         std::to_string(last) + ".";
}

std::string in_dimension(const char* field, int dimension) {
  return std::string(field) + " of dimension " + std::to_string(dimension);
}

std::optional<std::string> range_error(const std::string& field, std::uint64_t value,
                                       std::uint64_t first, std::uint64_t last) {
  if (value >= first && value <= last) return std::nullopt;
  return out_of_range(field, value, first, last);
}

std::optional<std::string> dimension_error(const Encoded& map, int dimension) {
  if (auto error = range_error(in_dimension("the extent", dimension), map.extent[dimension], 1,
                               max_extent)) {
    return error;
  }
  if (auto error =
          range_error(in_dimension("the box", dimension), map.box[dimension], 1, max_box)) {
    return error;
  }
  if (auto error = range_error(in_dimension("the element stride", dimension),
                               map.element_stride[dimension], 1, max_element_stride)) {
    return error;
  }
  if (dimension == 0) return std::nullopt;
  const std::uint64_t stride = map.stride[dimension - 1];
  if (stride % 16 == 0 && stride < stride_limit) return std::nullopt;
  return in_dimension("the stride", dimension) + " is " + std::to_string(stride) +
         " bytes; it must be a multiple of 16 below 2^40.";
}

std::optional<std::string> box_error(const TensorMapRecord& map) {
  const std::size_t row = map.box[0] * element_bytes(map.type);
  if (row % 16 != 0) {
    return "a row of the box is " + std::to_string(row) + " bytes; it must be a multiple of 16.";
  }
  if (map.swizzle != SwizzleMode::none && row > swizzle_span(map.swizzle)) {
    return "a row of the box is " + std::to_string(row) + " bytes; the " +
           std::to_string(swizzle_span(map.swizzle)) + "-byte swizzle takes no longer ones.";
  }
  if (box_bytes(map) > max_shared_bytes) {
    return "the box is " + std::to_string(box_bytes(map)) + " bytes; shared memory has at most " +
           std::to_string(max_shared_bytes) + ".";
  }
  return std::nullopt;
}

}  // namespace

std::size_t element_bytes(TensorType type) {
  return type_bytes.at(static_cast<std::size_t>(type));
}

std::uint32_t box_count(const TensorMapRecord& map, int dimension) {
  const std::uint32_t stride = dimension == 0 ? 1 : map.element_stride[dimension];
  return (map.box[dimension] + stride - 1) / stride;
}

std::size_t box_bytes(const TensorMapRecord& map) {
  std::size_t bytes = element_bytes(map.type);
  for (int i = 0; i < map.rank; ++i) bytes *= box_count(map, i);
  return bytes;
}

TensorMapBytes encode_tensor_map(const TensorMapRecord& record) {
  Encoded encoded{};
  encoded.magic = magic;
  encoded.address = record.address;
  encoded.extent = record.extent;
  encoded.stride = record.stride;
  for (int i = 0; i < 5; ++i) {
    encoded.box[i] = static_cast<std::uint16_t>(record.box[i]);
    encoded.element_stride[i] = static_cast<std::uint8_t>(record.element_stride[i]);
  }
  encoded.rank = static_cast<std::uint8_t>(record.rank);
  encoded.type = static_cast<std::uint8_t>(record.type);
  encoded.swizzle = static_cast<std::uint8_t>(record.swizzle);
  encoded.interleave = static_cast<std::uint8_t>(record.interleave);
  encoded.fill = static_cast<std::uint8_t>(record.fill);
  encoded.l2_promotion = static_cast<std::uint8_t>(record.l2_promotion);
  return std::bit_cast<TensorMapBytes>(encoded);
}

std::optional<std::string> tensor_map_error(std::span<const std::byte, tensor_map_bytes> bytes) {
  const Encoded map = load(bytes);
  if (map.magic != magic) {
    return "these 128 bytes are no tensor map of the emulator. Pass the map as a __grid_constant__ "
           "parameter, or copy all of it.";
  }
  if (auto error = range_error("the rank", map.rank, 1, 5)) return error;
  if (auto error = range_error("the element type", map.type, 0, type_bytes.size() - 1)) {
    return error;
  }
  if (auto error = range_error("the swizzle mode", map.swizzle, 0, 3)) return error;
  if (auto error = range_error("the fill mode", map.fill, 0, 1)) return error;
  if (map.interleave != 0) {
    return "the layout is interleaved, which the emulator does not model (the ISA does not say how "
           "the slices lie in memory). Use no interleave.";
  }
  if (map.address % 16 != 0) return "the global address is not a multiple of 16.";
  for (int dimension = 0; dimension < map.rank; ++dimension) {
    if (auto error = dimension_error(map, dimension)) return error;
  }
  if (map.fill == 1 && !has_nan(map.type)) {
    return "elements out of bounds are to be NaN, but the element type has no NaN.";
  }
  return box_error(decode_tensor_map(bytes));
}

TensorMapRecord decode_tensor_map(std::span<const std::byte, tensor_map_bytes> bytes) {
  const Encoded encoded = load(bytes);
  TensorMapRecord record;
  record.type = static_cast<TensorType>(encoded.type);
  record.rank = encoded.rank;
  record.address = encoded.address;
  record.extent = encoded.extent;
  record.stride = encoded.stride;
  for (int i = 0; i < 5; ++i) {
    record.box[i] = encoded.box[i];
    record.element_stride[i] = encoded.element_stride[i];
  }
  record.swizzle = static_cast<SwizzleMode>(encoded.swizzle);
  record.interleave = static_cast<TensorInterleave>(encoded.interleave);
  record.fill = static_cast<OutOfBoundsFill>(encoded.fill);
  record.l2_promotion = static_cast<L2Promotion>(encoded.l2_promotion);
  return record;
}

std::optional<std::string> replace_field(std::span<std::byte, tensor_map_bytes> bytes,
                                         TensorMapField field, std::uint32_t ordinal,
                                         std::uint64_t value) {
  Encoded map = load(bytes);
  if (map.magic != magic) return "these 128 bytes are no tensor map of the emulator.";
  const std::uint32_t last_ordinal = field == TensorMapField::global_stride ? 3 : 4;
  if (auto error = range_error("the ordinal", ordinal, 0, last_ordinal)) return error;
  std::optional<std::string> error;
  const auto set = [&](auto& target, const char* name, std::uint64_t first, std::uint64_t last) {
    error = range_error(name, value, first, last);
    target = static_cast<std::remove_reference_t<decltype(target)>>(value);
  };
  switch (field) {
    case TensorMapField::global_address:
      map.address = value;
      break;
    case TensorMapField::rank:
      set(map.rank, "the rank minus 1", 0, 4);
      ++map.rank;
      break;
    case TensorMapField::box_dim:
      set(map.box[ordinal], "the box", 1, max_box);
      break;
    case TensorMapField::global_dim:
      map.extent[ordinal] = value;
      break;
    case TensorMapField::global_stride:
      map.stride[ordinal] = value;
      break;
    case TensorMapField::element_stride:
      set(map.element_stride[ordinal], "the element stride", 1, max_element_stride);
      break;
    case TensorMapField::elemtype:
      set(map.type, "the element type", 0, 12);
      break;
    case TensorMapField::interleave_layout:
      set(map.interleave, "the interleave", 0, 2);
      break;
    case TensorMapField::swizzle_mode:
      set(map.swizzle, "the swizzle mode", 0, 3);
      break;
    case TensorMapField::fill_mode:
      set(map.fill, "the fill mode", 0, 1);
      break;
  }
  if (!error) std::memcpy(bytes.data(), &map, sizeof(map));
  return error;
}

}  // namespace emulator

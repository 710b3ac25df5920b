// The emulator's 128-byte tensor map: round trips, what it refuses, tensormap.replace.
#include "common/emulator/tensor_map_record.h"

#include <string>

#include "tests/catch.h"

using emulator::TensorMapBytes;
using emulator::TensorMapField;
using emulator::TensorMapRecord;
using emulator::TensorType;

namespace {

/// 4096 x 1000 bf16, boxes of 128 x 64, 128-byte swizzle.
TensorMapRecord matrix() {
  TensorMapRecord record;
  record.rank = 2;
  record.address = 0x7F00'0000'1000;
  record.extent = {1000, 4096, 1, 1, 1};
  record.stride = {2048, 0, 0, 0};
  record.box = {64, 128, 1, 1, 1};
  record.swizzle = emulator::SwizzleMode::b128;
  record.l2_promotion = emulator::L2Promotion::b256;
  return record;
}

std::string error_of(const TensorMapRecord& record) {
  return emulator::tensor_map_error(emulator::encode_tensor_map(record)).value_or("");
}

template <class Change>
std::string error_with(Change change) {
  TensorMapRecord record = matrix();
  change(record);
  return error_of(record);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a tensor map survives its 128 bytes", "[tensor_map_record]") {
  TensorMapRecord record = matrix();
  CHECK(error_of(record).empty());
  CHECK(emulator::decode_tensor_map(emulator::encode_tensor_map(record)) == record);
  record.rank = 5;
  record.type = TensorType::tf32_ftz;
  record.extent = {std::uint64_t{1} << 32, 2, 3, 4, 5};
  record.stride = {16, 32, (std::uint64_t{1} << 40) - 16, 48};
  record.box = {32, 256, 1, 2, 3};
  record.element_stride = {1, 8, 2, 3, 4};
  record.fill = emulator::OutOfBoundsFill::nans;
  CHECK(error_of(record).empty());
  CHECK(emulator::decode_tensor_map(emulator::encode_tensor_map(record)) == record);
}

TEST_CASE("bytes that are no tensor map are refused", "[tensor_map_record]") {
  TensorMapBytes zeros{};
  CHECK(contains(emulator::tensor_map_error(zeros).value_or(""), "no tensor map"));
  CHECK(contains(emulator::replace_field(zeros, TensorMapField::rank, 0, 1).value_or(""),
                 "no tensor map"));
}

TEST_CASE("each field out of range is named with its value", "[tensor_map_record]") {
  CHECK(contains(error_with([](auto& r) { r.rank = 6; }), "the rank is 6"));
  CHECK(contains(error_with([](auto& r) { r.rank = 0; }), "the rank is 0"));
  CHECK(contains(error_with([](auto& r) { r.address += 8; }), "multiple of 16"));
  CHECK(contains(error_with([](auto& r) { r.extent[1] = 0; }), "the extent of dimension 1 is 0"));
  CHECK(contains(error_with([](auto& r) { r.extent[0] = (std::uint64_t{1} << 32) + 1; }),
                 "the extent of dimension 0"));
  CHECK(contains(error_with([](auto& r) { r.stride[0] = 2000 + 8; }), "is 2008 bytes"));
  CHECK(contains(error_with([](auto& r) { r.stride[0] = std::uint64_t{1} << 40; }), "2^40"));
  CHECK(contains(error_with([](auto& r) { r.box[1] = 257; }), "the box of dimension 1 is 257"));
  CHECK(contains(error_with([](auto& r) { r.box[0] = 60; }), "120 bytes"));
  CHECK(contains(error_with([](auto& r) { r.box[0] = 72; }), "128-byte swizzle"));
  CHECK(contains(error_with([](auto& r) { r.element_stride[1] = 9; }), "element stride"));
  CHECK(contains(error_with([](auto& r) {
                   r.rank = 3;
                   r.stride[1] = 4096;
                   r.box = {64, 256, 8, 1, 1};
                 }),
                 "the box is 262144 bytes"));
  CHECK(contains(error_with([](auto& r) { r.interleave = emulator::TensorInterleave::b16; }),
                 "interleaved"));
  CHECK(contains(error_with([](auto& r) {
                   r.type = TensorType::u16;
                   r.fill = emulator::OutOfBoundsFill::nans;
                 }),
                 "no NaN"));
}

TEST_CASE("tensormap.replace sets each field in the ISA's numbering", "[tensor_map_record]") {
  TensorMapBytes bytes = emulator::encode_tensor_map(matrix());
  const auto replace = [&](TensorMapField field, std::uint32_t ordinal, std::uint64_t value) {
    CHECK_FALSE(emulator::replace_field(bytes, field, ordinal, value).has_value());
  };
  replace(TensorMapField::global_address, 0, 0x2000);
  replace(TensorMapField::rank, 0, 2);
  replace(TensorMapField::box_dim, 0, 16);
  replace(TensorMapField::box_dim, 2, 7);
  replace(TensorMapField::global_dim, 2, 77);
  replace(TensorMapField::global_stride, 1, 4096);
  replace(TensorMapField::element_stride, 1, 2);
  replace(TensorMapField::elemtype, 0, 7);
  replace(TensorMapField::swizzle_mode, 0, 2);
  replace(TensorMapField::fill_mode, 0, 1);
  const TensorMapRecord record = emulator::decode_tensor_map(bytes);
  CHECK_FALSE(emulator::tensor_map_error(bytes).has_value());
  CHECK(record.address == 0x2000);
  CHECK(record.rank == 3);
  CHECK(record.box == std::array<std::uint32_t, 5>{16, 128, 7, 1, 1});
  CHECK(record.extent == std::array<std::uint64_t, 5>{1000, 4096, 77, 1, 1});
  CHECK(record.stride == std::array<std::uint64_t, 4>{2048, 4096, 0, 0});
  CHECK(record.element_stride == std::array<std::uint32_t, 5>{1, 2, 1, 1, 1});
  CHECK(record.type == TensorType::f32);
  CHECK(record.swizzle == emulator::SwizzleMode::b64);
  CHECK(record.fill == emulator::OutOfBoundsFill::nans);
  replace(TensorMapField::interleave_layout, 0, 2);
  CHECK(contains(emulator::tensor_map_error(bytes).value_or(""), "interleaved"));
}

TEST_CASE("tensormap.replace refuses what the ISA's table does not have", "[tensor_map_record]") {
  TensorMapBytes bytes = emulator::encode_tensor_map(matrix());
  const TensorMapBytes before = bytes;
  const auto refused = [&](TensorMapField field, std::uint32_t ordinal, std::uint64_t value) {
    return emulator::replace_field(bytes, field, ordinal, value).value_or("");
  };
  CHECK(contains(refused(TensorMapField::rank, 0, 5), "the rank minus 1 is 5"));
  CHECK(contains(refused(TensorMapField::box_dim, 5, 16), "the ordinal is 5"));
  CHECK(contains(refused(TensorMapField::global_stride, 4, 16), "the ordinal is 4"));
  CHECK(contains(refused(TensorMapField::box_dim, 0, 0x1'0040), "the box is 65600"));
  CHECK(contains(refused(TensorMapField::elemtype, 0, 13), "the element type is 13"));
  CHECK(contains(refused(TensorMapField::swizzle_mode, 0, 4), "the swizzle mode is 4"));
  CHECK(contains(refused(TensorMapField::fill_mode, 0, 2), "the fill mode is 2"));
  CHECK(bytes == before);
}

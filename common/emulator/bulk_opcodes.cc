// The forms of the bulk copies. PTX ISA 9.7.9.25.
#include <string>

#include "common/emulator/bulk_copy.h"
#include "common/emulator/decode.h"
#include "common/emulator/opcode.h"

namespace emulator {

namespace {

ReduceOperation reduce_operation(const InstructionDecoder& d) {
  return static_cast<ReduceOperation>(
      d.choose({"add", "min", "max", "inc", "dec", "and", "or", "xor"}));
}

TensorType element_type(InstructionDecoder& d) {
  const std::string_view type = d.part(-1);
  if (type == "u32" || type == "b32") return TensorType::u32;
  if (type == "s32") return TensorType::s32;
  if (type == "u64" || type == "b64") return TensorType::u64;
  if (type == "s64") return TensorType::s64;
  if (type == "f16") return TensorType::f16;
  if (type == "bf16") return TensorType::bf16;
  if (type == "f32") return TensorType::f32;
  if (type == "f64") return TensorType::f64;
  d.fail("has no such element type");
}

/// `[map, {x, y}]`
void set_map(InstructionDecoder& d, BulkCopy& copy, const Operand& operand) {
  copy.rank = d.choose({"1d", "2d", "3d", "4d", "5d"}) + 1;
  copy.global = d.address(operand, Space::global);
  const bool has_coordinates =
      operand.elements.size() == 2 && operand.elements[1].kind == Operand::Kind::vector;
  if (!has_coordinates ||
      operand.elements[1].elements.size() != static_cast<std::size_t>(copy.rank)) {
    d.fail("needs a tensor map with " + std::to_string(copy.rank) +
           " coordinates, `[map, {x, y}]`");
  }
  for (int i = 0; i < copy.rank; ++i) {
    copy.coordinates[i] = d.source(operand.elements[1].elements[i], 32);
  }
}

/// What may follow the fixed operands: a CTA mask, a cache policy.
void set_optional(InstructionDecoder& d, BulkCopy& copy, std::size_t next) {
  const bool multicasts = d.has("multicast::cluster");
  const bool has_policy = d.has("L2::cache_hint");
  const std::size_t count = next + (multicasts ? 1 : 0) + (has_policy ? 1 : 0);
  d.expect_operands(count, count);
  if (multicasts) copy.cta_mask = d.source(d.operand(next++), 16);
  if (has_policy) d.source(d.operand(next), 64);
}

void add(InstructionDecoder& d, const BulkCopy& copy) {
  d.op.target = static_cast<std::uint32_t>(d.program().bulk_copies.size());
  d.op.run = issue_copies;
  d.op.cost = 8;
  d.program().bulk_copies.push_back(copy);
}

/// [destination], [map, coordinates], [mbarrier]
void build_tensor_load(InstructionDecoder& d) {
  BulkCopy copy{.kind = AsyncKind::tma_load};
  copy.shared = d.address(d.operand(0), Space::shared);
  set_map(d, copy, d.operand(1));
  copy.barrier = d.address(d.operand(2), Space::shared);
  set_optional(d, copy, 3);
  add(d, copy);
}

/// [map, coordinates], [source]
void build_tensor_store(InstructionDecoder& d) {
  BulkCopy copy{.kind = AsyncKind::tma_store};
  copy.reduces = d.part(1) == "reduce";
  if (copy.reduces) copy.operation = reduce_operation(d);
  set_map(d, copy, d.operand(0));
  copy.shared = d.address(d.operand(1), Space::shared);
  set_optional(d, copy, 2);
  add(d, copy);
}

void build_tensor_prefetch(InstructionDecoder& d) {
  BulkCopy copy{.prefetches = true};
  set_map(d, copy, d.operand(0));
  set_optional(d, copy, 1);
  add(d, copy);
}

/// [destination], [source], size, [mbarrier]
void build_load(InstructionDecoder& d) {
  BulkCopy copy{.kind = AsyncKind::bulk_load};
  copy.shared = d.address(d.operand(0), Space::shared);
  copy.global = d.address(d.operand(1), Space::global);
  copy.size = d.source(d.operand(2), 32);
  copy.barrier = d.address(d.operand(3), Space::shared);
  set_optional(d, copy, 4);
  add(d, copy);
}

/// From shared memory to that of another CTA.
void build_shared_copy(InstructionDecoder& d) {
  BulkCopy copy{.kind = AsyncKind::bulk_load, .from_shared = true};
  copy.reduces = d.part(1) == "reduce";
  if (copy.reduces) {
    copy.operation = reduce_operation(d);
    copy.type = element_type(d);
    if (!reduces(copy.operation, copy.type)) d.fail("has no such reduction for its type");
  }
  copy.shared = d.address(d.operand(0), Space::shared);
  copy.source = d.address(d.operand(1), Space::shared);
  copy.size = d.source(d.operand(2), 32);
  copy.barrier = d.address(d.operand(3), Space::shared);
  set_optional(d, copy, 4);
  add(d, copy);
}

/// [destination], [source], size
void build_store(InstructionDecoder& d) {
  BulkCopy copy{.kind = AsyncKind::bulk_store};
  copy.reduces = d.part(1) == "reduce";
  if (copy.reduces) {
    copy.operation = reduce_operation(d);
    copy.type = element_type(d);
    if (!reduces(copy.operation, copy.type)) d.fail("has no such reduction for its type");
  }
  copy.global = d.address(d.operand(0), Space::global);
  copy.shared = d.address(d.operand(1), Space::shared);
  copy.size = d.source(d.operand(2), 32);
  set_optional(d, copy, 3);
  add(d, copy);
}

void build_prefetch(InstructionDecoder& d) {
  BulkCopy copy{.prefetches = true};
  copy.global = d.address(d.operand(0), Space::global);
  copy.size = d.source(d.operand(1), 32);
  set_optional(d, copy, 2);
  add(d, copy);
}

void build_wait(InstructionDecoder& d) {
  d.expect_operands(1, 1);
  d.op.immediate = d.integer(d.operand(0));
  if (d.op.immediate < 0) d.fail("needs a number of groups that is not negative");
  d.op.mode = d.has("read") ? 1 : 0;
  d.op.run = wait_for_copies;
}

#define RANK "1d|2d|3d|4d|5d"
#define COMPLETES "mbarrier::complete_tx::bytes"
#define REDUCTION "add|min|max|inc|dec|and|or|xor"
#define TYPE "b32|u32|s32|b64|u64|s64|f16|bf16|f32|f64"

constexpr Opcode table[] = {
    {"cp.async.bulk.tensor." RANK ".shared::cluster|shared::cta.global.?tile." COMPLETES
     ".?multicast::cluster.?L2::cache_hint",
     {},
     nullptr,
     build_tensor_load},
    {"cp.async.bulk.tensor." RANK ".global.shared::cta.?tile.bulk_group.?L2::cache_hint",
     {},
     nullptr,
     build_tensor_store},
    {"cp.reduce.async.bulk.tensor." RANK ".global.shared::cta." REDUCTION
     ".?tile.bulk_group.?L2::cache_hint",
     {},
     nullptr,
     build_tensor_store},
    {"cp.async.bulk.prefetch.tensor." RANK ".L2.global.?tile.?L2::cache_hint",
     {},
     nullptr,
     build_tensor_prefetch},
    {"cp.async.bulk.shared::cluster|shared::cta.global." COMPLETES
     ".?multicast::cluster.?L2::cache_hint",
     {},
     nullptr,
     build_load},
    {"cp.async.bulk.shared::cluster.shared::cta." COMPLETES, {}, nullptr, build_shared_copy},
    {"cp.reduce.async.bulk.shared::cluster.shared::cta." COMPLETES "." REDUCTION "." TYPE,
     {},
     nullptr,
     build_shared_copy},
    {"cp.async.bulk.global.shared::cta.bulk_group.?L2::cache_hint", {}, nullptr, build_store},
    {"cp.reduce.async.bulk.global.shared::cta.bulk_group.?L2::cache_hint." REDUCTION
     ".?noftz." TYPE,
     {},
     nullptr,
     build_store},
    {"cp.async.bulk.prefetch.L2.global.?L2::cache_hint", {}, nullptr, build_prefetch},
    {"cp.async.bulk.commit_group", {}, commit_copies},
    {"cp.async.bulk.wait_group.?read", {}, nullptr, build_wait},
};

#undef RANK
#undef COMPLETES
#undef REDUCTION
#undef TYPE

}  // namespace

std::span<const Opcode> bulk_opcodes() {
  return table;
}

}  // namespace emulator

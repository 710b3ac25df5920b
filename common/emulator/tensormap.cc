// Tensor maps that a kernel changes: tensormap.replace, tensormap.cp_fenceproxy.
// PTX ISA 9.7.9.26, 9.7.13.4.
#include <cstring>
#include <span>

#include "common/emulator/arithmetic.h"
#include "common/emulator/decode.h"
#include "common/emulator/execution.h"
#include "common/emulator/fault.h"
#include "common/emulator/memory.h"
#include "common/emulator/memory_access.h"
#include "common/emulator/opcode.h"
#include "common/emulator/tensor_map_record.h"

namespace emulator {

namespace {

/// Op::mode the field, b the new value (or `immediate`), c the ordinal.
Flow replace(Warp& warp, const Op& op) {
  LanePointers pointers;
  resolve(warp, op, tensor_map_bytes, Access::write, pointers);
  for_each_lane(warp.lanes, [&](int lane) {
    const u64 value = op.wide_value ? warp.row<u64>(op.b)[lane] : warp.row<u32>(op.b)[lane];
    const u32 ordinal = op.c != no_slot ? warp.row<u32>(op.c)[lane] : 0;
    const std::span<std::byte, tensor_map_bytes> map(pointers[lane], tensor_map_bytes);
    if (const auto error =
            replace_field(map, static_cast<TensorMapField>(op.mode), ordinal, value)) {
      fault(warp, op, lane_bit(lane), "bad-tensor-map", "changes a tensor map: " + *error);
    }
  });
  warp.execution().note_progress();
  return Flow::next;
}

/// [map] {, ordinal}, value
void build_replace(InstructionDecoder& d) {
  const int field =
      d.choose({"global_address", "rank", "box_dim", "global_dim", "global_stride",
                "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode"});
  const auto named = static_cast<TensorMapField>(field);
  const bool has_ordinal =
      named == TensorMapField::box_dim || named == TensorMapField::global_dim ||
      named == TensorMapField::global_stride || named == TensorMapField::element_stride;
  const std::size_t operands = has_ordinal ? 3 : 2;
  d.expect_operands(operands, operands);
  set_memory_address(d, d.operand(0));
  if (has_ordinal) d.op.c = d.source(d.operand(1), 32);
  const int bits = d.part(-1) == "b64" ? 64 : 32;
  d.op.b = d.source(d.operand(operands - 1), bits);
  d.op.wide_value = bits == 64;
  d.op.mode = static_cast<u8>(field);
  d.op.run = replace;
}

/// The warp copies a map from shared to global memory and releases it to the users of tensor maps.
/// The source is Op's address, the destination that of Program::bulk_copies[op.target].
Flow copy_and_release(Warp& warp, const Op& op) {
  if (!warp.gather(op, all_lanes)) return Flow::leave;
  const LaneMask all = warp.lanes;
  Execution& execution = warp.execution();
  const AddressOperand& destination = execution.program().bulk_copies[op.target].global;

  Op to = op;
  to.a = destination.base;
  to.wide_address = destination.wide;
  to.immediate = destination.offset;
  to.space = Space::global;
  LanePointers from_pointers, to_pointers;
  // All lanes name the same 128 bytes; one accesses them for all.
  warp.lanes = lane_bit(first_lane(all));
  resolve(warp, op, tensor_map_bytes, Access::read, from_pointers);
  resolve(warp, to, tensor_map_bytes, Access::write, to_pointers);
  const int lane = first_lane(all);
  warp.lanes = all;
  std::memcpy(to_pointers[lane], from_pointers[lane], tensor_map_bytes);
  execution.note_progress();
  if (Observer* const observer = execution.observer()) {
    observer->fence(warp.site(op), FenceKind::tensormap_release, Order::release, op.scope);
  }
  return Flow::next;
}

/// [destination], [source], 128
void build_copy_and_release(InstructionDecoder& d) {
  d.expect_operands(3, 3);
  if (d.integer(d.operand(2)) != tensor_map_bytes) {
    d.fail("needs 128 as its size, that of a tensor map");
  }
  BulkCopy addresses;
  addresses.global = d.address(d.operand(0), Space::global);
  d.op.target = static_cast<u32>(d.program().bulk_copies.size());
  d.program().bulk_copies.push_back(addresses);
  d.set_address(d.operand(1), Space::shared, false);
  set_memory_order(d);
  d.op.order = Order::weak;  // of the copy itself
  d.op.run = copy_and_release;
}

constexpr Opcode table[] = {
    {"tensormap.replace.tile.global_address|rank|box_dim|global_dim|global_stride|element_stride|"
     "elemtype|interleave_layout|swizzle_mode|fill_mode.?global|shared|shared::cta.b1024.b32|b64",
     {},
     nullptr,
     build_replace},
    {"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.cta|cluster|gpu|sys."
     "sync.aligned",
     {},
     nullptr,
     build_copy_and_release},
};

}  // namespace

std::span<const Opcode> tensormap_opcodes() {
  return table;
}

}  // namespace emulator

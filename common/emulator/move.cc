// mov: between registers, and between a register and its parts. PTX ISA 9.7.9.1.
#include <bit>
#include <cstddef>
#include <utility>

#include "common/emulator/arithmetic.h"
#include "common/emulator/decode.h"
#include "common/emulator/execution.h"
#include "common/emulator/opcode.h"

namespace emulator {

namespace {

Flow move_predicate(Warp& warp, const Op& op) {
  const LaneMask a = warp.predicate(op.a);
  warp.set_predicate(op.d, op.negated ? ~a : a);
  return Flow::next;
}

struct Identity {
  template <class T>
  T operator()(T a) const {
    return a;
  }
};

struct Bits128 {
  u64 low, high;
};

/// The whole of a register from its parts, the first the lowest; and the other way round.
template <class Whole, class Part>
Flow pack(Warp& warp, const Op& op) {
  const Slot* const parts = warp.execution().program().slots.data() + op.list;
  const Row<Whole> d = warp.row<Whole>(op.d);
  for_each_lane(warp.lanes, [&](int lane) {
    Part values[sizeof(Whole) / sizeof(Part)];
    for (std::size_t i = 0; i < std::size(values); ++i) values[i] = warp.row<Part>(parts[i])[lane];
    d.set(lane, std::bit_cast<Whole>(values));
  });
  return Flow::next;
}

template <class Part>
Part part_of(u64 whole, int i) {
  return static_cast<Part>(whole >> (8 * sizeof(Part) * static_cast<unsigned>(i)));
}
template <class Part>
Part part_of(const Bits128& whole, int i) {
  const u64 half = 8 * sizeof(Part) * static_cast<unsigned>(i) < 64 ? whole.low : whole.high;
  return part_of<Part>(half, i % static_cast<int>(sizeof(u64) / sizeof(Part)));
}

/// No destination can be the source: they are narrower.
template <class Whole, class Part>
EMULATOR_VECTORIZED Flow unpack(Warp& warp, const Op& op) {
  const Slot* const parts = warp.execution().program().slots.data() + op.list;
  const Row<Whole> a = warp.row<Whole>(op.a);
  for (int i = 0; i < static_cast<int>(sizeof(Whole) / sizeof(Part)); ++i) {
    assign_lanes(warp.lanes, warp.row<Part>(parts[i]),
                 [=](int lane) { return part_of<Part>(a[lane], i); });
  }
  return Flow::next;
}

Handler move_handler(int bits) {
  switch (bits) {
    case 16:
      return unary<Identity, u16, u16>;
    case 32:
      return unary<Identity, u32, u32>;
    case 64:
      return unary<Identity, u64, u64>;
    case 128:
      return unary<Identity, Bits128, Bits128>;
    default:
      return nullptr;
  }
}

/// {in, out} of parts of `part_bits` in `bits`.
std::pair<Handler, Handler> packing_handlers(int bits, int part_bits) {
  if (bits == 32 && part_bits == 16) return {pack<u32, u16>, unpack<u32, u16>};
  if (bits == 64 && part_bits == 32) return {pack<u64, u32>, unpack<u64, u32>};
  if (bits == 64 && part_bits == 16) return {pack<u64, u16>, unpack<u64, u16>};
  if (bits == 128 && part_bits == 64) return {pack<Bits128, u64>, unpack<Bits128, u64>};
  if (bits == 128 && part_bits == 32) return {pack<Bits128, u32>, unpack<Bits128, u32>};
  return {nullptr, nullptr};
}

void build_mov(InstructionDecoder& d) {
  d.expect_operands(2, 2);
  const DataType type = data_type(d.part(-1));
  const Literal literal = Literal::bits;
  const Operand& to = d.operand(0);
  const Operand& from = d.operand(1);
  const bool packs = from.kind == Operand::Kind::vector;
  const bool unpacks = to.kind == Operand::Kind::vector;
  if (packs && unpacks) d.fail("moves between two lists of registers");
  if (!packs && !unpacks) {
    d.op.d = d.destination(to, type.bits);
    d.op.a = d.source(from, type.bits, literal);
    d.op.run = move_handler(type.bits);
    return;
  }
  const auto parts = static_cast<int>((packs ? from : to).elements.size());
  const int part_bits = parts > 0 && type.bits % parts == 0 ? type.bits / parts : 0;
  const auto [in, out] = packing_handlers(type.bits, part_bits);
  d.op.run = packs ? in : out;
  if (d.op.run == nullptr) d.fail("splits a register in a way that is not supported");
  if (packs) {
    d.set_list(d.source_list(from, part_bits));
    d.op.d = d.destination(to, type.bits);
  } else {
    d.set_list(d.destination_list(to, part_bits));
    d.op.a = d.source(from, type.bits, literal);
  }
}

/// A number in place of a predicate is false (0) or true for all lanes.
Slot predicate_of_number(InstructionDecoder& d, Operand number) {
  number.bits = number.bits == 0 ? 0 : ~LaneMask{0};
  return d.source(number, 32);
}

void build_mov_predicate(InstructionDecoder& d) {
  d.expect_operands(2, 2);
  const Operand& from = d.operand(1);
  d.op.d = d.predicate_destination(d.operand(0));
  d.op.a = from.kind == Operand::Kind::special   ? d.source(from, 1)
           : from.kind == Operand::Kind::integer ? predicate_of_number(d, from)
                                                 : d.predicate(from);
  d.op.run = move_predicate;
}

constexpr Opcode table[] = {
    {"mov.b16|b32|b64|b128|u16|u32|u64|s16|s32|s64|f16|bf16|f32|f64", {}, nullptr, build_mov},
    {"mov.pred", {}, nullptr, build_mov_predicate},
};

}  // namespace

std::span<const Opcode> move_opcodes() {
  return table;
}

}  // namespace emulator

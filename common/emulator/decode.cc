#include "common/emulator/decode.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "common/emulator/memory_map.h"
#include "common/emulator/opcode.h"
#include "common/emulator/program_decoder.h"
#include "common/emulator/report.h"
#include "common/emulator/special_registers.h"
#include "common/emulator/warp.h"

namespace emulator {

namespace {

/// d = the address in local memory that lies `immediate` into the current frame.
Flow frame_address(Warp& warp, const Op& op) {
  const std::uint64_t address = warp.frame() + static_cast<std::uint64_t>(op.immediate);
  assign_lanes(warp.lanes, warp.row<std::uint64_t>(op.d), [=](int) { return address; });
  return Flow::next;
}

Flow frame_address_32(Warp& warp, const Op& op) {
  const auto address = static_cast<std::uint32_t>(warp.frame() + op.immediate);
  assign_lanes(warp.lanes, warp.row<std::uint32_t>(op.d), [=](int) { return address; });
  return Flow::next;
}

/// Addresses wrap around, as on a GPU.
std::int64_t wrapped_sum(std::int64_t offset, std::uint64_t address) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(offset) + address);
}

std::string ordinal(std::size_t index) {
  return "operand " + std::to_string(index + 1);
}

}  // namespace

InstructionDecoder::InstructionDecoder(ProgramDecoder& program, const Instruction& instruction)
    : program_(program), instruction_(instruction) {
  op.source = &instruction;
  if (instruction.guard >= 0) {
    op.guard = this->function().registers[instruction.guard];
    op.guard_negated = instruction.guard_negated;
    if (this->function().source->registers[instruction.guard].bits != 1) {
      fail("is guarded by a register that is no predicate");
    }
  }
}

Program& InstructionDecoder::program() {
  return program_.program();
}
const Module& InstructionDecoder::module() const {
  return program_.module();
}
const FunctionCode& InstructionDecoder::function() const {
  return program_.function();
}
std::uint32_t InstructionDecoder::callee(const Function& function) {
  return program_.function_index(function);
}
Slot InstructionDecoder::constant(std::uint64_t value, int bits) {
  return program_.constant(value, bits);
}

void InstructionDecoder::fail(const std::string& what) const {
  throw PtxError(place_in_ptx(program_.module(), instruction_.location) + ": " +
                 std::string(instruction_.text) + " " + what + ".");
}

void InstructionDecoder::decode(const OpcodeMatch& match) {
  const Opcode& opcode = *match.row;
  parts_ = match.parts;
  op.run = opcode.handler;
  if (!opcode.operands.empty()) decode_simple_operands(opcode.operands);
  if (opcode.build != nullptr) opcode.build(*this);
}

void InstructionDecoder::decode_simple_operands(std::string_view shape) {
  Slot* const sources[] = {&op.a, &op.b, &op.c, &op.e};
  std::size_t source_count = 0;
  std::size_t index = 0;
  while (!shape.empty()) {
    const std::size_t end = std::min(shape.find(' '), shape.size());
    const char kind = shape.front();
    int bits = 1;
    std::from_chars(shape.data() + 1, shape.data() + end, bits);
    shape.remove_prefix(std::min(end + 1, shape.size()));

    const Operand& o = operand(index++);
    switch (kind) {
      case 'd':
        op.d = destination(o, bits);
        break;
      case 'p':
        op.d = predicate_destination(o);
        break;
      case 'q':
        *sources[source_count++] = plain_predicate(o);
        break;
      case 'n':
        *sources[source_count++] = predicate(o);
        break;
      case 'f':
        *sources[source_count++] = source(o, bits, Literal::floating);
        break;
      case 'i':
        op.immediate = integer(o);
        break;
      default:
        *sources[source_count++] = source(o, bits);
    }
  }
  expect_operands(index, index);
}

std::string_view InstructionDecoder::part(int index) const {
  const auto size = static_cast<int>(parts_.size());
  const int position = index < 0 ? size + index : index;
  return position >= 0 && position < size ? parts_[position] : std::string_view();
}

bool InstructionDecoder::has(std::string_view part) const {
  return std::find(parts_.begin(), parts_.end(), part) != parts_.end();
}

int InstructionDecoder::choose(std::initializer_list<std::string_view> names, int otherwise) const {
  int position = 0;
  for (const std::string_view name : names) {
    if (has(name)) return position;
    ++position;
  }
  return otherwise;
}

const Operand& InstructionDecoder::operand(std::size_t index) const {
  if (index >= operand_count()) {
    fail("has " + std::to_string(operand_count()) + " operands: " + ordinal(index) + " is missing");
  }
  return instruction_.operands[index];
}

void InstructionDecoder::expect_operands(std::size_t least, std::size_t most) const {
  if (operand_count() >= least && operand_count() <= most) return;
  fail("has " + std::to_string(operand_count()) + " operands instead of " +
       (least == most ? std::to_string(least)
                      : std::to_string(least) + " to " + std::to_string(most)));
}

int InstructionDecoder::register_bits(const Operand& operand) const {
  return operand.kind == Operand::Kind::reg ? function().source->registers[operand.index].bits : 0;
}

Slot InstructionDecoder::register_slot(const Operand& operand, int bits, Access access) {
  const Register& reg = function().source->registers[operand.index];
  if (reg.bits != bits) {
    fail("takes a register of " + std::to_string(bits) + " bits where " + reg.name + " has " +
         std::to_string(reg.bits));
  }
  accesses.push_back({operand.index, access});
  return function().registers[operand.index];
}

Slot InstructionDecoder::destination(const Operand& operand, int bits) {
  if (operand.kind == Operand::Kind::sink) return program_.scratch(bits);
  if (operand.kind != Operand::Kind::reg) fail("needs a register as its destination");
  return register_slot(operand, bits, Access::write);
}

Slot InstructionDecoder::source(const Operand& operand, int bits, Literal literal) {
  switch (operand.kind) {
    case Operand::Kind::reg:
      return register_slot(operand, bits, Access::read);
    case Operand::Kind::integer:
    case Operand::Kind::f32:
    case Operand::Kind::f64:
      return program_.constant(literal_bits(operand, bits, literal), bits);
    case Operand::Kind::special:
      return special_register(operand, bits);
    case Operand::Kind::variable:
      return variable_address(operand, bits);
    default:
      fail("can't take such a source operand; it needs a register or a number");
  }
}

std::uint64_t InstructionDecoder::literal_bits(const Operand& operand, int bits,
                                               Literal literal) const {
  if (operand.kind == Operand::Kind::f32) {
    if (bits != 32)
      fail("has a 32-bit floating-point literal where it needs " + std::to_string(bits) + " bits");
    return operand.bits;
  }
  if (operand.kind == Operand::Kind::f64) {
    if (bits == 64) return operand.bits;
    if (bits != 32)
      fail("has a 64-bit floating-point literal where it needs " + std::to_string(bits) + " bits");
    return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits)));
  }
  if (literal == Literal::floating) fail("has an integer where it needs a floating-point number");
  return operand.bits;
}

Slot InstructionDecoder::computed(Handler handler, int bits, std::int64_t immediate) {
  Op first;
  first.run = handler;
  first.source = &instruction_;
  first.immediate = immediate;
  first.d = program_.scratch(bits);
  before.push_back(first);
  return first.d;
}

Slot InstructionDecoder::special_register(const Operand& operand, int bits) {
  if (operand.name == "WARP_SZ") return program_.constant(warp_size, bits);
  if (const SpecialName* name = find_special(operand.name)) {
    // The lower half of a 32-bit register can be read as 16 bits.
    if (name->bits != bits && !(name->bits == 32 && bits == 16)) {
      fail("reads " + operand.name + ", which has " + std::to_string(name->bits) + " bits, as " +
           std::to_string(bits) + " bits");
    }
    return program_.special(name->special, bits);
  }
  if (const Clock* clock = find_clock(operand.name)) {
    if (clock->bits != bits) {
      fail("reads " + operand.name + ", which has " + std::to_string(clock->bits) + " bits, as " +
           std::to_string(bits) + " bits");
    }
    return computed(clock->read, bits, 0);
  }
  fail("reads " + operand.name + ", a special register that is not supported");
}

Slot InstructionDecoder::variable_address(const Operand& operand, int bits) {
  if (bits != 32 && bits != 64) fail("needs 32 or 64 bits for an address");
  const std::uint64_t where =
      program_.variable_place(operand.index) + static_cast<std::uint64_t>(operand.offset);
  if (program_.variable(operand.index).space == Space::shared) {
    return program_.special(Special::shared_address, bits, static_cast<std::uint32_t>(where));
  }
  if (program_.in_frame(operand.index)) {
    return computed(bits == 64 ? frame_address : frame_address_32, bits,
                    static_cast<std::int64_t>(where));
  }
  if (bits != 64) fail("needs 64 bits for an address in global, constant or parameter memory");
  return program_.constant(where, 64);
}

Slot InstructionDecoder::predicate(const Operand& operand) {
  if (operand.kind != Operand::Kind::reg) fail("needs a predicate register");
  op.negated = operand.negated;
  return register_slot(operand, 1, Access::read);
}

Slot InstructionDecoder::plain_predicate(const Operand& operand) {
  const Slot slot = predicate(operand);
  if (!operand.negated) return slot;
  op.negated = false;
  const Slot negation = computed(negate_predicate, 1, 0);
  before.back().a = slot;
  return negation;
}

Slot InstructionDecoder::predicate_destination(const Operand& operand) {
  return destination(operand, 1);
}

InstructionDecoder::Pair InstructionDecoder::destination_pair(const Operand& operand,
                                                              int first_bits, int second_bits) {
  if (operand.kind != Operand::Kind::pair) return {destination(operand, first_bits), no_slot};
  if (operand.elements.size() != 2) fail("needs two registers, `d|p`");
  return {destination(operand.elements[0], first_bits),
          destination(operand.elements[1], second_bits)};
}

AddressOperand InstructionDecoder::address(const Operand& operand, Space space) {
  if (operand.kind != Operand::Kind::address || operand.elements.empty()) {
    fail("needs an address in brackets, `[register + offset]`");
  }
  const Operand& base = operand.elements[0];
  AddressOperand result;
  result.offset = operand.offset;
  if (base.kind == Operand::Kind::integer) {
    result.offset = wrapped_sum(result.offset, base.bits);
    return result;
  }
  if (base.kind == Operand::Kind::reg) {
    const int bits = register_bits(base);
    result.wide = bits == 64;
    const bool narrow_space = space == Space::shared || space == Space::local;
    if (bits != 64 && !(bits == 32 && narrow_space)) {
      fail("has an address register of " + std::to_string(bits) + " bits; it needs 64" +
           (narrow_space ? " or 32" : ""));
    }
    result.base = source(base, bits);
    return result;
  }
  if (base.kind != Operand::Kind::variable) fail("has an address that is no register or variable");

  const std::uint64_t where =
      program_.variable_place(base.index) + static_cast<std::uint64_t>(base.offset);
  if (program_.variable(base.index).space == Space::shared) {
    result.base = program_.special(Special::shared_address, 32, static_cast<std::uint32_t>(where));
    result.wide = false;
  } else {
    result.offset = wrapped_sum(result.offset, where);
  }
  return result;
}

void InstructionDecoder::set_address(const Operand& operand, Space space, bool generic) {
  const AddressOperand where = address(operand, space);
  op.a = where.base;
  op.wide_address = where.wide;
  op.immediate = where.offset;
  op.space = space;
  op.generic = generic;
  if (operand.elements[0].kind != Operand::Kind::variable) return;

  // A variable says itself where it lies; a generic access may name one.
  const std::uint32_t index = operand.elements[0].index;
  const Space actual = program_.variable(index).space;
  if (!generic && actual != space) {
    fail("names " + program_.variable(index).name + ", which lies in another state space");
  }
  op.generic = false;
  op.space = actual;
  if (program_.in_frame(index)) op.space = Space::local;
  // Frame-relative: the base of the frame is added by the access.
  if (op.space == Space::local) op.frame_relative = true;
}

std::int64_t InstructionDecoder::integer(const Operand& operand) const {
  if (operand.kind != Operand::Kind::integer) fail("needs an integer literal");
  return static_cast<std::int64_t>(operand.bits);
}

std::vector<Slot> InstructionDecoder::destination_list(const Operand& operand, int bits) {
  if (operand.kind != Operand::Kind::vector) return {destination(operand, bits)};
  std::vector<Slot> slots;
  for (const Operand& element : operand.elements) {
    slots.push_back(destination(element, bits));
  }
  return slots;
}

std::vector<Slot> InstructionDecoder::source_list(const Operand& operand, int bits,
                                                  Literal literal) {
  if (operand.kind != Operand::Kind::vector) return {source(operand, bits, literal)};
  std::vector<Slot> slots;
  for (const Operand& element : operand.elements) {
    slots.push_back(source(element, bits, literal));
  }
  return slots;
}

void InstructionDecoder::set_list(const std::vector<Slot>& slots) {
  std::vector<Slot>& all = program().slots;
  op.list = static_cast<std::uint32_t>(all.size());
  op.list_size = static_cast<std::uint16_t>(slots.size());
  all.insert(all.end(), slots.begin(), slots.end());
}

Slot InstructionDecoder::wgmma_register(const Operand& operand) {
  if (operand.kind != Operand::Kind::reg || register_bits(operand) != 32) {
    fail("needs 32-bit registers in its register lists");
  }
  return function().registers[operand.index];
}

DataType data_type(std::string_view part) {
  if (part == "bf16") return {16, false};
  if (part.ends_with("16x2")) return {32, part[0] == 's'};
  if (part.size() < 2 || std::string_view("busf").find(part[0]) == std::string_view::npos)
    return {};
  int bits = 0;
  const char* const end = part.data() + part.size();
  const auto [after, error] = std::from_chars(part.data() + 1, end, bits);
  return error == std::errc() && after == end ? DataType{bits, part[0] == 's'} : DataType{};
}

Literal literal_of(std::string_view type) {
  return type == "f32" || type == "f64" ? Literal::floating : Literal::bits;
}

}  // namespace emulator

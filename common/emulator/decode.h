// From a Function to a Program: operands to rows, opcodes to handlers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/emulator/program.h"

namespace emulator {

/// Decodes `kernel` and the functions that it calls. `variable_addresses` has the device address of
/// each module-scope .global and .const variable (others: unused). Throws PtxError, naming the
/// instruction and its lines, for what the opcode table does not have.
Program decode(const Module& module, const Function& kernel,
               std::span<const std::uint64_t> variable_addresses);

/// How a literal in a source operand is read.
enum class Literal : std::uint8_t { bits, floating };

class ProgramDecoder;
struct OpcodeMatch;

/// One instruction while it is decoded; what the build functions of the opcode table work with.
/// Every member that reads an operand throws PtxError, in words, when it is of the wrong kind.
class InstructionDecoder {
 public:
  InstructionDecoder(ProgramDecoder& program, const Instruction& instruction);

  Op op;
  std::vector<Op> before;             ///< ops that run before this one
  std::vector<WgmmaAccess> accesses;  ///< the registers that it touches

  /// Fills in `op` by a row of the opcode table.
  void decode(const OpcodeMatch& match);

  const Instruction& instruction() const { return instruction_; }
  /// Part `index` of the opcode in the order of its row, 0 the first; negative counts from the end.
  std::string_view part(int index) const;
  bool has(std::string_view part) const;
  /// The position in `names` of the part that is among them, `otherwise` if none is.
  int choose(std::initializer_list<std::string_view> names, int otherwise = -1) const;

  std::size_t operand_count() const { return instruction_.operands.size(); }
  const Operand& operand(std::size_t index) const;
  void expect_operands(std::size_t least, std::size_t most) const;

  /// A register that is written. `_` gives a row that nobody reads.
  Slot destination(const Operand& operand, int bits);
  /// A register, literal, special register or variable's address that is read.
  Slot source(const Operand& operand, int bits, Literal literal = Literal::bits);
  /// A predicate register; sets Op::negated for `!p`.
  Slot predicate(const Operand& operand);
  /// A predicate register for an instruction that can't negate: `!p` becomes an op of its own.
  Slot plain_predicate(const Operand& operand);
  Slot predicate_destination(const Operand& operand);
  /// `d|p` gives both, a single register d and no_slot. `p|q` of setp likewise.
  struct Pair {
    Slot first, second;
  };
  Pair destination_pair(const Operand& operand, int first_bits, int second_bits);

  /// `[base + offset]` of a known state space.
  AddressOperand address(const Operand& operand, Space space);
  /// Sets Op::a, wide_address, immediate and space to those of an access through `operand`; `space`
  /// is that of the opcode. Parameters and locals of functions become Space::local.
  void set_address(const Operand& operand, Space space, bool generic);
  /// An integer literal.
  std::int64_t integer(const Operand& operand) const;
  /// The registers of `{a, b}`, or the one register, each `bits` wide.
  std::vector<Slot> destination_list(const Operand& operand, int bits);
  std::vector<Slot> source_list(const Operand& operand, int bits, Literal literal = Literal::bits);
  /// Appends to Program::slots and sets Op::list and list_size.
  void set_list(const std::vector<Slot>& slots);
  /// The bits of a register operand, 0 for any other.
  int register_bits(const Operand& operand) const;
  /// A row of its own with this number in every lane.
  Slot constant(std::uint64_t value, int bits);

  Program& program();
  const Module& module() const;
  /// The frame of the function that this instruction is in.
  const FunctionCode& function() const;
  /// The index in Program::functions of a callee, which is decoded later.
  std::uint32_t callee(const Function& function);
  /// A wgmma operand: its row, without recording an access.
  Slot wgmma_register(const Operand& operand);

  /// Throws PtxError: "<place>: <opcode>: <what>".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  void decode_simple_operands(std::string_view shape);
  Slot register_slot(const Operand& operand, int bits, Access access);
  Slot variable_address(const Operand& operand, int bits);
  Slot special_register(const Operand& operand, int bits);
  std::uint64_t literal_bits(const Operand& operand, int bits, Literal literal) const;
  /// A row that an op of its own fills before this one runs.
  Slot computed(Handler handler, int bits, std::int64_t immediate);

  ProgramDecoder& program_;
  const Instruction& instruction_;
  std::vector<std::string_view> parts_;  ///< of the opcode
};

/// d = !a, of predicates (bits.cc).
Flow negate_predicate(Warp& warp, const Op& op);

/// What the last part of an opcode says of the values.
struct DataType {
  int bits = 0;
  bool is_signed = false;
};
/// Of b8 to b128, u8 to u64, s8 to s64, f16, bf16, f32, f64 and the pairs; 0 bits for others.
DataType data_type(std::string_view part);
/// Literals of f32 and f64 are floating-point numbers, all others bits.
Literal literal_of(std::string_view type);

}  // namespace emulator

#include "common/emulator/program_decoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <set>

#include "common/emulator/control.h"
#include "common/emulator/memory_map.h"
#include "common/emulator/opcode.h"
#include "common/emulator/report.h"

namespace emulator {

namespace {

/// The most that the registers of a warp may take; nvcc's largest kernels need a tenth.
constexpr std::uint64_t register_bytes_limit = 64 << 20;
constexpr std::uint64_t frame_bytes_limit = 1 << 20;
/// Local memory for the frames of functions that call themselves.
constexpr std::uint32_t recursion_bytes = 64 << 10;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

std::uint32_t row_bytes(int bits) {
  return bits == 1 ? sizeof(LaneMask) : static_cast<std::uint32_t>(warp_size * bits / 8);
}

void for_each_operand(const Operand& operand, const std::function<void(const Operand&)>& visit) {
  visit(operand);
  for (const Operand& element : operand.elements) for_each_operand(element, visit);
}

}  // namespace

ProgramDecoder::ProgramDecoder(const Module& module, const Function& kernel,
                               std::span<const std::uint64_t> variable_addresses)
    : module_(module), kernel_(kernel), variable_addresses_(variable_addresses) {
  program_.module = &module;
  program_.kernel = &kernel;
}

Program ProgramDecoder::decode() {
  place_parameters();
  add_function(kernel_);
  place_shared_variables();
  for (std::uint32_t i = 0; i < program_.functions.size(); ++i) decode_function(i);
  resolve_calls();
  program_.constants = RowStorage(constant_rows_.size());
  std::copy(constant_rows_.begin(), constant_rows_.end(), program_.constants.get());
  return std::move(program_);
}

Slot ProgramDecoder::allocate(int bits) {
  const std::uint64_t bytes = row_bytes(bits);
  const std::uint64_t slot = round_up(program_.register_bytes, std::min<std::uint64_t>(bytes, 64));
  if (slot + bytes > register_bytes_limit) {
    throw PtxError("The kernel " + kernel_.name + " and its functions have too many registers: " +
                   "more than " + std::to_string(register_bytes_limit >> 20) + " MiB a warp.");
  }
  program_.register_bytes = static_cast<std::uint32_t>(slot + bytes);
  return static_cast<Slot>(slot);
}

Slot ProgramDecoder::scratch(int bits) {
  return allocate(bits);
}

Slot ProgramDecoder::constant(std::uint64_t value, int bits) {
  if (bits < 64) value &= (std::uint64_t{1} << bits) - 1;
  const auto [place, is_new] = constants_.try_emplace({value, bits}, no_slot);
  if (!is_new) return place->second;

  const std::size_t offset = constant_rows_.size();
  constant_rows_.resize(offset + row_bytes(bits));
  for (int lane = 0; lane < warp_size; ++lane) {
    std::memcpy(constant_rows_.data() + offset + lane * bits / 8, &value, bits / 8);
  }
  place->second = constant_slot | static_cast<Slot>(offset);
  return place->second;
}

Slot ProgramDecoder::special(Special special, int bits, std::uint32_t offset) {
  for (const SpecialRow& row : program_.specials) {
    if (row.special == special && row.bits == bits && row.offset == offset) return row.slot;
  }
  const Slot slot = allocate(bits);
  program_.specials.push_back({special, bits, slot, offset});
  return slot;
}

void ProgramDecoder::place_parameters() {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < kernel_.parameter_count; ++i) {
    const Variable& parameter = kernel_.variables[i];
    bytes = round_up(bytes, parameter.alignment);
    program_.parameter_offsets.push_back(static_cast<std::uint32_t>(bytes));
    bytes += parameter.size;
  }
  program_.parameters = RowStorage(bytes);
  program_.parameter_bytes = bytes;
}

std::uint32_t ProgramDecoder::function_index(const Function& function) {
  for (std::uint32_t i = 0; i < program_.functions.size(); ++i) {
    if (program_.functions[i].source == &function) return i;
  }
  add_function(function);
  return static_cast<std::uint32_t>(program_.functions.size() - 1);
}

void ProgramDecoder::add_function(const Function& function) {
  if (function.instructions.empty()) {
    throw PtxError(place_in_ptx(module_, function.location) + ": " + function.name +
                   " has no instructions.");
  }
  FunctionCode code;
  code.source = &function;
  code.first_register = program_.register_bytes;
  for (const Register& reg : function.registers) code.registers.push_back(allocate(reg.bits));
  code.register_bytes = program_.register_bytes - code.first_register;

  const bool is_kernel = program_.functions.empty();
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < function.variables.size(); ++i) {
    const Variable& variable = function.variables[i];
    if (variable.space == Space::global || variable.space == Space::constant) {
      throw PtxError(place_in_ptx(module_, function.location) + ": " + function.name +
                     " declares " + variable.name +
                     " in .global or .const memory, which belongs at module scope.");
    }
    std::uint32_t offset = 0;
    const bool is_kernel_parameter = is_kernel && i < function.parameter_count;
    if (!is_kernel_parameter &&
        (variable.space == Space::param || variable.space == Space::local)) {
      bytes = round_up(bytes, std::max<std::size_t>(variable.alignment, 1));
      offset = static_cast<std::uint32_t>(bytes);
      bytes += variable.size;
    }
    code.variable_offsets.push_back(offset);
  }
  if (bytes > frame_bytes_limit) {
    throw PtxError("The function " + function.name + " needs " + std::to_string(bytes) +
                   " bytes of local memory a thread; the limit is " +
                   std::to_string(frame_bytes_limit) + ".");
  }
  // Frames follow each other on the stack: 16 bytes keep vector accesses aligned.
  code.frame_bytes = static_cast<std::uint32_t>(round_up(bytes, 16));
  program_.functions.push_back(std::move(code));
}

namespace {

/// The functions that a kernel may call, itself first, and the variables that they name.
struct Reached {
  std::vector<const Function*> functions;
  std::set<const Variable*> variables;
};

Reached reach(const Module& module, const Function& kernel) {
  Reached reached{{&kernel}, {}};
  std::set<const Function*> known{&kernel};
  for (std::size_t i = 0; i < reached.functions.size(); ++i) {
    const Function& function = *reached.functions[i];
    const auto visit = [&](const Operand& operand) {
      if (operand.kind == Operand::Kind::function && operand.index < module.functions.size()) {
        const Function* const callee = &module.functions[operand.index];
        if (known.insert(callee).second) reached.functions.push_back(callee);
      }
      if (operand.kind != Operand::Kind::variable) return;
      const bool is_local = (operand.index & Operand::function_scope) != 0;
      reached.variables.insert(is_local
                                   ? &function.variables[operand.index & ~Operand::function_scope]
                                   : &module.variables[operand.index]);
    };
    for (const Instruction& instruction : function.instructions) {
      for (const Operand& operand : instruction.operands) for_each_operand(operand, visit);
    }
  }
  return reached;
}

}  // namespace

void ProgramDecoder::place_shared_variables() {
  const Reached reached = reach(module_, kernel_);
  std::vector<const Variable*> fixed;
  std::vector<const Variable*> dynamic;
  const auto add = [&](const std::vector<Variable>& variables) {
    for (const Variable& variable : variables) {
      if (variable.space != Space::shared || !reached.variables.contains(&variable)) continue;
      (variable.external ? dynamic : fixed).push_back(&variable);
    }
  };
  add(module_.variables);
  for (const Function* const function : reached.functions) add(function->variables);

  // Alignments are those of addresses, which start at shared_base.
  std::uint64_t end = shared_base;
  for (const Variable* variable : fixed) {
    end = round_up(end, std::max<std::size_t>(variable->alignment, 1));
    shared_offsets_[variable] = static_cast<std::uint32_t>(end - shared_base);
    end += variable->size;
  }
  program_.static_shared_bytes = static_cast<std::uint32_t>(end - shared_base);
  // Dynamic shared memory starts at a multiple of 16, or of what its declarations ask for.
  std::uint64_t alignment = 16;
  for (const Variable* variable : dynamic) {
    alignment = std::max<std::uint64_t>(alignment, variable->alignment);
  }
  end = round_up(end, alignment);
  if (end - shared_base > shared_bytes_per_cta) {
    throw PtxError("The kernel " + kernel_.name + " declares " + std::to_string(end - shared_base) +
                   " bytes of shared memory; a CTA has at most " +
                   std::to_string(shared_bytes_per_cta) + ".");
  }
  program_.dynamic_shared_offset = static_cast<std::uint32_t>(end - shared_base);
  for (const Variable* variable : dynamic) {
    shared_offsets_[variable] = program_.dynamic_shared_offset;
  }
  for (const std::vector<const Variable*>& variables : {fixed, dynamic}) {
    for (const Variable* variable : variables) {
      program_.shared_variables.push_back({variable, shared_offsets_[variable]});
    }
  }
}

const Variable& ProgramDecoder::variable(std::uint32_t index) const {
  if ((index & Operand::function_scope) == 0) return module_.variables[index];
  return function().source->variables[index & ~Operand::function_scope];
}

bool ProgramDecoder::in_frame(std::uint32_t index) const {
  const Variable& v = variable(index);
  if (v.space == Space::local) return true;
  if (v.space != Space::param) return false;
  return current_ != 0 || (index & ~Operand::function_scope) >= kernel_.parameter_count;
}

std::uint64_t ProgramDecoder::variable_place(std::uint32_t index) const {
  const Variable& v = variable(index);
  const std::uint32_t own_index = index & ~Operand::function_scope;
  if (v.space == Space::shared) return shared_offsets_.at(&v);
  if (in_frame(index)) return function().variable_offsets[own_index];
  if (v.space == Space::param) {
    return reinterpret_cast<std::uint64_t>(program_.parameters.get()) +
           program_.parameter_offsets[own_index];
  }
  return variable_addresses_[index];
}

void ProgramDecoder::decode_function(std::uint32_t index) {
  current_ = index;
  const Function& function = *program_.functions[index].source;
  const std::size_t first_op = program_.ops.size();
  const std::size_t first_wgmma = program_.wgmmas.size();
  program_.functions[index].entry = static_cast<std::uint32_t>(first_op);

  std::vector<Marked> marked;
  std::vector<std::uint32_t> op_of_instruction;
  for (const Instruction& instruction : function.instructions) {
    op_of_instruction.push_back(static_cast<std::uint32_t>(program_.ops.size()));
    decode_instruction(instruction, marked);
  }
  // Falling off the end returns.
  op_of_instruction.push_back(static_cast<std::uint32_t>(program_.ops.size()));
  Op end;
  end.run = index == 0 ? exit_lanes : return_lanes;
  end.source = &function.instructions.back();
  program_.ops.push_back(end);

  for (std::size_t i = first_op; i < program_.ops.size(); ++i) {
    Op& op = program_.ops[i];
    if (op.run == branch) op.target = op_of_instruction[op.target];
  }
  mark_wgmma_accesses(first_wgmma, marked);
}

void ProgramDecoder::decode_instruction(const Instruction& instruction,
                                        std::vector<Marked>& marked) {
  InstructionDecoder decoder(*this, instruction);
  const OpcodeMatch match = find_opcode(instruction.opcode);
  if (match.row == nullptr) {
    decoder.fail(
        "is not supported: no row of the emulator's opcode table matches it (the manual "
        "lists them)");
  }
  decoder.decode(match);

  for (const Op& op : decoder.before) program_.ops.push_back(op);
  if (!decoder.accesses.empty()) {
    marked.push_back({program_.ops.size(), std::move(decoder.accesses)});
  }
  program_.ops.push_back(decoder.op);
}

void ProgramDecoder::mark_wgmma_accesses(std::size_t first_wgmma,
                                         const std::vector<Marked>& marked) {
  std::vector<bool> used(function().registers.size());
  for (std::size_t i = first_wgmma; i < program_.wgmmas.size(); ++i) {
    for (const std::uint32_t reg : program_.wgmmas[i].accumulators) used[reg] = true;
    for (const std::uint32_t reg : program_.wgmmas[i].a_registers) used[reg] = true;
  }
  for (const Marked& m : marked) {
    Op& op = program_.ops[m.op];
    op.first_wgmma_access = static_cast<std::uint32_t>(program_.wgmma_accesses.size());
    std::copy_if(m.accesses.begin(), m.accesses.end(), std::back_inserter(program_.wgmma_accesses),
                 [&](const WgmmaAccess& access) { return used[access.reg]; });
    op.wgmma_access_count =
        static_cast<std::uint16_t>(program_.wgmma_accesses.size() - op.first_wgmma_access);
  }
}

void ProgramDecoder::resolve_calls() {
  const std::size_t count = program_.functions.size();
  // reaches[f]: the functions that f may call, directly or through others.
  std::vector<std::set<std::uint32_t>> reaches(count);
  std::vector<std::vector<std::uint32_t>> callees(count);
  for (std::uint32_t f = 0; f < count; ++f) {
    const std::size_t end = f + 1 < count ? program_.functions[f + 1].entry : program_.ops.size();
    for (std::size_t i = program_.functions[f].entry; i < end; ++i) {
      const Op& op = program_.ops[i];
      if (op.run == call) callees[f].push_back(program_.calls[op.target].function);
    }
  }
  for (std::uint32_t f = 0; f < count; ++f) {
    std::vector<std::uint32_t> open = callees[f];
    while (!open.empty()) {
      const std::uint32_t g = open.back();
      open.pop_back();
      if (reaches[f].insert(g).second) {
        open.insert(open.end(), callees[g].begin(), callees[g].end());
      }
    }
  }

  bool recursive = false;
  for (Call& c : program_.calls) {
    c.recursive = reaches[c.function].contains(c.function);
    recursive |= c.recursive;
  }
  // Without recursion no path calls a function twice, so the sum of the frames is enough.
  std::uint64_t bytes = recursive ? recursion_bytes : 0;
  for (const FunctionCode& code : program_.functions) bytes += code.frame_bytes;
  program_.frame_bytes = static_cast<std::uint32_t>(bytes);
}

Program decode(const Module& module, const Function& kernel,
               std::span<const std::uint64_t> variable_addresses) {
  return ProgramDecoder(module, kernel, variable_addresses).decode();
}

}  // namespace emulator

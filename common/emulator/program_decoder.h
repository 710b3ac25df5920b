// The part of decoding that looks at the whole kernel: layouts of registers, frames, shared memory
// and parameters, and the list of functions to decode.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/emulator/decode.h"
#include "common/emulator/program.h"

namespace emulator {

class ProgramDecoder {
 public:
  ProgramDecoder(const Module& module, const Function& kernel,
                 std::span<const std::uint64_t> variable_addresses);

  Program decode();

  const Module& module() const { return module_; }
  Program& program() { return program_; }
  const FunctionCode& function() const { return program_.functions[current_]; }

  /// A row in which every lane has the low `bits` of `value`.
  Slot constant(std::uint64_t value, int bits);
  /// A row of registers that nobody else uses.
  Slot scratch(int bits);
  /// The row of a special register that does not change.
  Slot special(Special special, int bits, std::uint32_t offset = 0);
  std::uint32_t function_index(const Function& function);
  const Variable& variable(std::uint32_t index) const;
  /// Where a variable lies: a device address, or an offset in the CTA's shared memory or in the
  /// frame of the current function.
  std::uint64_t variable_place(std::uint32_t index) const;
  bool in_frame(std::uint32_t index) const;

 private:
  struct Marked {
    std::size_t op;
    std::vector<WgmmaAccess> accesses;
  };

  Slot allocate(int bits);
  void add_function(const Function& function);
  void place_parameters();
  void place_shared_variables();
  void decode_function(std::uint32_t index);
  void decode_instruction(const Instruction& instruction, std::vector<Marked>& marked);
  void mark_wgmma_accesses(std::size_t first_wgmma, const std::vector<Marked>& marked);
  void resolve_calls();

  const Module& module_;
  const Function& kernel_;
  std::span<const std::uint64_t> variable_addresses_;
  Program program_;
  std::uint32_t current_ = 0;  ///< the function that is decoded
  std::map<std::pair<std::uint64_t, int>, Slot> constants_;
  std::vector<std::byte> constant_rows_;
  std::map<const Variable*, std::uint32_t> shared_offsets_;
};

}  // namespace emulator

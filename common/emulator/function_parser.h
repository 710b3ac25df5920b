// An .entry or .func: signature, directives, scopes, instructions. PTX ISA 4.3, 6 and 11.1 to 11.4.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/emulator/module.h"
#include "common/emulator/module_scope.h"
#include "common/emulator/token_reader.h"
#include "common/emulator/variable_parser.h"

namespace emulator {

/// Parses one function. Operands that name a function have its name; their index is set when the
/// whole module is known. Location::file is the number that .loc gives minus one, and not checked.
class FunctionParser {
 public:
  FunctionParser(TokenReader& reader, ModuleScope& module);

  /// Takes what follows .entry or .func, up to the body or the `;` of a declaration, and returns
  /// the name. Throws PtxError when it is malformed.
  std::string parse_signature(bool is_entry);

  /// Takes the body. Throws PtxError when it is malformed, or a name is unknown or declared twice.
  Function parse_body();

 private:
  /// A bra whose label is still to be found.
  struct Branch {
    std::string_view label;
    std::uint32_t instruction;
  };
  /// A { }: what it declares, and the branches in it whose label may still follow or belong to a
  /// scope around it.
  struct Scope {
    int line;
    Symbols symbols;
    std::vector<Branch> branches;
  };

  std::vector<Declaration> parse_parameters();
  void parse_performance_directives();
  bool accept_extent(std::string_view directive, std::array<int, 3>& extent);
  bool accept_count(std::string_view directive, int& count);

  void open_scope();
  void close_scope();
  void parse_statement();
  void parse_directive();
  void parse_registers();
  void parse_variables(Space space);
  void parse_loc();
  void add_registers(const Token& name, std::uint64_t count, int bits);
  void add_register(std::string name, int bits, int line);
  void add_variable(Declaration declaration);
  void add_label(const Token& name);

  /// `@p` or `@!p`; none: reg is -1.
  struct Guard {
    int reg = -1;
    bool negated = false;
  };
  Guard parse_guard();
  void parse_instruction(const Token& first, Guard guard);
  void parse_opcode(const Token& first, Instruction& instruction);
  void parse_operands(Instruction& instruction);
  void parse_branch_operand(Instruction& instruction);
  void parse_call_operands(Instruction& instruction);
  Operand parse_operand();
  Operand parse_simple_operand();
  Operand parse_name();
  Operand parse_number();
  std::uint64_t parse_magnitude(bool negative);
  Operand parse_address();
  Operand parse_sequence(Operand::Kind kind, char open, char close);
  std::int64_t parse_offset();
  std::uint32_t parse_predicate();
  Operand make_operand(Operand::Kind kind, std::uint32_t index = 0);
  const Symbol* find(std::string_view name) const;

  TokenReader& reader_;
  ModuleScope& module_;
  Function function_;
  std::vector<Scope> scopes_;
  Location location_;  ///< what .loc said last
};

/// Takes `.pragma "...";`, if it is next, and says whether it was. Pragmas are advice to ptxas.
bool accept_pragma(TokenReader& reader);

}  // namespace emulator

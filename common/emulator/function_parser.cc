#include "common/emulator/function_parser.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "common/emulator/parser.h"

namespace emulator {
namespace {

constexpr int most_int = std::numeric_limits<int>::max();

/// Whether `name` is WARP_SZ or a special register of sm_90 (PTX ISA chapter 10) of 32 or 64 bits.
bool is_special(std::string_view name) {
  static constexpr std::string_view vectors[] = {
      "%tid",       "%ntid",       "%ctaid",         "%nctaid",
      "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid",
  };
  static constexpr std::string_view scalars[] = {
      "WARP_SZ",
      "%laneid",
      "%warpid",
      "%nwarpid",
      "%smid",
      "%nsmid",
      "%gridid",
      "%is_explicit_cluster",
      "%cluster_ctarank",
      "%cluster_nctarank",
      "%lanemask_eq",
      "%lanemask_le",
      "%lanemask_lt",
      "%lanemask_ge",
      "%lanemask_gt",
      "%clock",
      "%clock_hi",
      "%clock64",
      "%globaltimer",
      "%globaltimer_lo",
      "%globaltimer_hi",
      "%total_smem_size",
      "%dynamic_smem_size",
      "%aggr_smem_size",
      "%reserved_smem_offset_begin",
      "%reserved_smem_offset_end",
      "%reserved_smem_offset_cap",
      "%reserved_smem_offset_0",
      "%reserved_smem_offset_1",
      "%current_graph_exec",
  };
  std::span<const std::string_view> known = scalars;
  if (name.ends_with(".x") || name.ends_with(".y") || name.ends_with(".z")) {
    name.remove_suffix(2);
    known = vectors;
  }
  return std::find(known.begin(), known.end(), name) != known.end();
}

/// The parts of "ld.global.f32", behind each other.
void split_opcode(std::string_view text, std::vector<std::string_view>& parts) {
  for (;;) {
    const std::size_t dot = text.find('.');
    parts.push_back(text.substr(0, dot));
    if (dot == text.npos) return;
    text.remove_prefix(dot + 1);
  }
}

}  // namespace

FunctionParser::FunctionParser(TokenReader& reader, ModuleScope& module)
    : reader_(reader), module_(module) {}

// ---- Signature

std::string FunctionParser::parse_signature(bool is_entry) {
  function_.is_entry = is_entry;
  open_scope();
  std::vector<Declaration> results;
  if (!is_entry && reader_.at('(')) results = parse_parameters();

  const Token name = reader_.expect_name("the name of a function");
  function_.name = name.text;
  function_.location.ptx_line = name.line;
  if (reader_.at('(')) {
    for (Declaration& parameter : parse_parameters()) add_variable(std::move(parameter));
  }
  function_.parameter_count = function_.variables.size();
  for (Declaration& result : results) {
    function_.return_variables.push_back(static_cast<std::uint32_t>(function_.variables.size()));
    add_variable(std::move(result));
  }
  parse_performance_directives();
  return function_.name;
}

std::vector<Declaration> FunctionParser::parse_parameters() {
  std::vector<Declaration> parameters;
  reader_.expect('(', "before the parameters");
  if (reader_.accept(')')) return parameters;
  do {
    if (reader_.accept(".reg")) reader_.fail("register parameters are not supported; use .param.");
    if (!reader_.accept(".param")) reader_.fail_expected("a .param");
    const VariableType type = parse_variable_type(reader_, Space::param);
    parameters.push_back(parse_declarator(reader_, module_.budget, type, false));
  } while (reader_.accept(','));
  reader_.expect(')', "behind the parameters");
  return parameters;
}

/// PTX ISA 11.4 (performance tuning) and 11.7 (clusters). What only advises ptxas is checked and
/// forgotten.
void FunctionParser::parse_performance_directives() {
  int ignored = 0;
  while (accept_extent(".maxntid", function_.max_threads) ||
         accept_extent(".reqntid", function_.required_threads) ||
         accept_extent(".reqnctapercluster", function_.required_cluster) ||
         accept_count(".minnctapersm", function_.min_ctas_per_sm) ||
         accept_count(".maxnreg", function_.max_registers) ||
         accept_count(".maxnctapersm", ignored) || accept_count(".maxclusterrank", ignored) ||
         accept_count(".abi_preserve", ignored) || accept_count(".abi_preserve_control", ignored) ||
         reader_.accept(".explicitcluster") || reader_.accept(".noreturn") ||
         accept_pragma(reader_)) {
  }
}

/// Takes the directive with its one to three sizes, if it is next; those not given are 1.
bool FunctionParser::accept_extent(std::string_view directive, std::array<int, 3>& extent) {
  if (!reader_.accept(directive)) return false;
  extent = {1, 1, 1};
  for (int& size : extent) {
    size = static_cast<int>(reader_.expect_integer("a size", 1, most_int));
    if (&size == &extent.back() || !reader_.accept(',')) break;
  }
  return true;
}

bool FunctionParser::accept_count(std::string_view directive, int& count) {
  if (!reader_.accept(directive)) return false;
  count = static_cast<int>(reader_.expect_integer("a number", 1, most_int));
  return true;
}

// ---- Scopes and declarations

Function FunctionParser::parse_body() {
  scopes_.front().line = reader_.peek().line;
  reader_.expect('{', "or ';' behind the signature of a function");
  do {
    parse_statement();
  } while (!scopes_.empty());
  return std::move(function_);
}

void FunctionParser::open_scope() {
  if (scopes_.size() == parser_limits.nesting) {
    reader_.fail("scopes are nested deeper than " + std::to_string(parser_limits.nesting) +
                 ", which is the limit of this parser.");
  }
  scopes_.push_back({reader_.peek().line, {}, {}});
}

/// Finds the labels of the scope's branches, or leaves these to the scope around it.
void FunctionParser::close_scope() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  for (const Branch& branch : scope.branches) {
    Instruction& instruction = function_.instructions[branch.instruction];
    const auto symbol = scope.symbols.find(branch.label);
    if (symbol != scope.symbols.end() && symbol->second.kind == Symbol::Kind::label) {
      instruction.operands.front().index = symbol->second.index;
    } else if (!scopes_.empty()) {
      scopes_.back().branches.push_back(branch);
    } else {
      fail_at(instruction.location.ptx_line,
              "unknown label " + quoted(branch.label) + "; expected one of this function.");
    }
  }
}

void FunctionParser::parse_statement() {
  if (reader_.at('{')) {
    open_scope();
    reader_.take();
  } else if (reader_.accept('}')) {
    close_scope();
  } else if (reader_.at(Token::Kind::directive)) {
    parse_directive();
  } else if (reader_.accept('@')) {
    const Guard guard = parse_guard();
    parse_instruction(reader_.expect(Token::Kind::word, "an opcode behind the guard"), guard);
  } else if (reader_.at(Token::Kind::word)) {
    const Token word = reader_.take();
    if (reader_.at(':')) {
      add_label(word);
      reader_.take();
    } else {
      parse_instruction(word, {});
    }
  } else if (reader_.at(Token::Kind::end)) {
    reader_.fail("the { of line " + std::to_string(scopes_.back().line) +
                 " does not end; expected }.");
  } else {
    reader_.fail_expected("an instruction, a label or a directive");
  }
}

void FunctionParser::parse_directive() {
  if (reader_.accept(".reg")) return parse_registers();
  if (reader_.accept(".loc")) return parse_loc();
  if (accept_pragma(reader_)) return;
  if (const auto space = accept_space(reader_)) return parse_variables(*space);
  for (const char* indirect : {".callprototype", ".calltargets", ".branchtargets"}) {
    if (reader_.accept(indirect)) {
      reader_.fail(std::string(indirect) + ": indirect calls and branches are not supported.");
    }
  }
  reader_.fail_expected("a directive of function scope (.reg, .shared, .local, .param, .loc, ...)");
}

/// `.reg .b32 a, %r<100>;`
void FunctionParser::parse_registers() {
  if (reader_.accept(".v2") || reader_.accept(".v4")) {
    reader_.fail("register vectors are not supported; declare their elements one by one.");
  }
  const Type& type = parse_type(reader_);
  const int bits = type.kind == Type::Kind::predicate ? 1 : std::max(type.bits, 16);
  do {
    const Token name = reader_.expect_name("the name of a register");
    if (reader_.accept('<')) {
      const auto most = std::numeric_limits<std::uint64_t>::max();
      add_registers(name, reader_.expect_integer("a number of registers", 0, most), bits);
      reader_.expect('>', "behind the number of registers");
    } else {
      add_register(std::string(name.text), bits, name.line);
    }
  } while (reader_.accept(','));
  reader_.expect(';', "behind the registers");
}

void FunctionParser::add_registers(const Token& name, std::uint64_t count, int bits) {
  if (count > parser_limits.registers_per_function ||
      name.text.size() > parser_limits.range_name_bytes) {
    fail_at(name.line, quoted(name.text) + " is to name " + std::to_string(count) +
                           " registers; this parser allows " +
                           std::to_string(parser_limits.registers_per_function) +
                           " in a function, and " + std::to_string(parser_limits.range_name_bytes) +
                           " characters for their common name.");
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    add_register(std::string(name.text) + std::to_string(i), bits, name.line);
  }
}

void FunctionParser::add_register(std::string name, int bits, int line) {
  const auto index = static_cast<std::uint32_t>(function_.registers.size());
  if (index == parser_limits.registers_per_function) {
    fail_at(line, "the function has more than " + std::to_string(index) +
                      " registers, which is the limit of this parser.");
  }
  spend(module_.budget.registers, 1, parser_limits.registers, "registers", line);
  function_.registers.push_back({name, bits});
  declare(scopes_.back().symbols, std::move(name), {Symbol::Kind::reg, index}, line);
}

void FunctionParser::parse_variables(Space space) {
  const VariableType type = parse_variable_type(reader_, space);
  do {
    add_variable(parse_declarator(reader_, module_.budget, type, false));
  } while (reader_.accept(','));
  reader_.expect(';', "behind the declaration");
}

void FunctionParser::add_variable(Declaration declaration) {
  const auto index = static_cast<std::uint32_t>(function_.variables.size());
  declare(scopes_.back().symbols, declaration.variable.name,
          {Symbol::Kind::function_variable, index}, declaration.line);
  function_.variables.push_back(std::move(declaration.variable));
}

void FunctionParser::add_label(const Token& name) {
  if (!is_identifier(name.text)) fail_at(name.line, quoted(name.text) + " can't be a label.");
  const auto index = static_cast<std::uint32_t>(function_.instructions.size());
  declare(scopes_.back().symbols, std::string(name.text), {Symbol::Kind::label, index}, name.line);
}

/// `.loc 2 23 20, function_name $L__info_string0, inlined_at 1 54 5`: the innermost line, unless it
/// is a wrapper's in another file: then the line that calls it says more.
void FunctionParser::parse_loc() {
  auto file = reader_.expect_integer("a file index", 1, parser_limits.files);
  auto line = reader_.expect_integer("a line", 0, most_int);
  reader_.expect(Token::Kind::integer, "a column");
  if (reader_.accept(',')) {
    reader_.expect_word("function_name");
    reader_.expect(Token::Kind::word, "the label of a function name");
    if (reader_.accept('+')) reader_.expect(Token::Kind::integer, "an offset");
    reader_.expect(',', "before inlined_at");
    reader_.expect_word("inlined_at");
    const auto caller_file = reader_.expect_integer("a file index", 1, parser_limits.files);
    const auto caller_line = reader_.expect_integer("a line", 0, most_int);
    reader_.expect(Token::Kind::integer, "a column");
    if (caller_file != file) {
      file = caller_file;
      line = caller_line;
    }
  }
  if (line == 0) return;  // code of no line of its own: it stays with the one before
  location_.file = static_cast<int>(file) - 1;
  location_.cuda_line = static_cast<int>(line);
  if (function_.location.file < 0) {
    function_.location.file = location_.file;
    function_.location.cuda_line = location_.cuda_line;
  }
}

// ---- Instructions

FunctionParser::Guard FunctionParser::parse_guard() {
  const bool negated = reader_.accept('!');
  return {static_cast<int>(parse_predicate()), negated};
}

void FunctionParser::parse_instruction(const Token& first, Guard guard) {
  spend(module_.budget.instructions, 1, parser_limits.instructions, "instructions", first.line);
  Instruction& instruction = function_.instructions.emplace_back();
  instruction.guard = guard.reg;
  instruction.guard_negated = guard.negated;
  instruction.location = location_;
  instruction.location.ptx_line = first.line;
  parse_opcode(first, instruction);
  parse_operands(instruction);
  if (!reader_.accept(';')) reader_.fail_expected("';' behind " + quoted(instruction.text));
}

/// Blanks may stand before a dot: `ld .global`.
void FunctionParser::parse_opcode(const Token& first, Instruction& instruction) {
  std::string_view last = first.text;
  split_opcode(first.text, instruction.opcode);
  while (reader_.at(Token::Kind::directive)) {
    last = reader_.take().text;
    instruction.opcode.push_back(last.substr(1));
  }
  const char* const end = last.data() + last.size();
  instruction.text = {first.text.data(), static_cast<std::size_t>(end - first.text.data())};
}

void FunctionParser::parse_operands(Instruction& instruction) {
  if (reader_.at(';')) return;
  const std::string_view name = instruction.opcode.front();
  if (name == "bra") return parse_branch_operand(instruction);
  if (name == "call") return parse_call_operands(instruction);
  do {
    instruction.operands.push_back(parse_operand());
  } while (reader_.accept(','));
}

void FunctionParser::parse_branch_operand(Instruction& instruction) {
  const Token label = reader_.expect(Token::Kind::word, "a label");
  instruction.operands.push_back(make_operand(Operand::Kind::label));
  const auto index = static_cast<std::uint32_t>(function_.instructions.size() - 1);
  scopes_.back().branches.push_back({label.text, index});
}

/// `(result), function, (arguments)`; the lists in parentheses may be absent.
void FunctionParser::parse_call_operands(Instruction& instruction) {
  if (reader_.at('(')) {
    instruction.operands.push_back(parse_sequence(Operand::Kind::list, '(', ')'));
    reader_.expect(',', "behind the results of a call");
  }
  const Token name = reader_.expect(Token::Kind::word, "the name of a function");
  const Symbol* const symbol = find(name.text);
  if (symbol == nullptr) {
    fail_at(name.line, "unknown function " + quoted(name.text) +
                           "; expected one that is declared or defined before this line.");
  }
  if (symbol->kind != Symbol::Kind::function) {
    fail_at(name.line, quoted(name.text) + " is no function; indirect calls are not supported.");
  }
  Operand& function = instruction.operands.emplace_back(make_operand(Operand::Kind::function));
  function.name = name.text;
  if (reader_.accept(',')) {
    instruction.operands.push_back(parse_sequence(Operand::Kind::list, '(', ')'));
  }
}

// ---- Operands

Operand FunctionParser::parse_operand() {
  if (reader_.at('{')) return parse_sequence(Operand::Kind::vector, '{', '}');
  if (reader_.at('[')) return parse_address();
  Operand operand = parse_simple_operand();
  if (!reader_.accept('|')) return operand;
  Operand pair = make_operand(Operand::Kind::pair);
  pair.elements.push_back(std::move(operand));
  pair.elements.push_back(parse_simple_operand());
  return pair;
}

/// One that is not made of others.
Operand FunctionParser::parse_simple_operand() {
  if (reader_.at(Token::Kind::word)) {
    Operand operand = parse_name();
    if (operand.kind == Operand::Kind::variable && reader_.accept('+')) {
      operand.offset = parse_offset();
    }
    return operand;
  }
  if (reader_.accept('!')) {
    Operand operand = make_operand(Operand::Kind::reg);
    operand.index = parse_predicate();
    operand.negated = true;
    return operand;
  }
  return parse_number();
}

/// A register, variable or special register, or `_`.
Operand FunctionParser::parse_name() {
  const Token name = reader_.expect(Token::Kind::word, "a register or a variable");
  if (const Symbol* const symbol = find(name.text)) {
    switch (symbol->kind) {
      case Symbol::Kind::reg:
        return make_operand(Operand::Kind::reg, symbol->index);
      case Symbol::Kind::module_variable:
        return make_operand(Operand::Kind::variable, symbol->index);
      case Symbol::Kind::function_variable:
        return make_operand(Operand::Kind::variable, symbol->index | Operand::function_scope);
      case Symbol::Kind::label:
        fail_at(name.line, quoted(name.text) + " is a label; only bra can name one.");
      case Symbol::Kind::function:
        fail_at(name.line, quoted(name.text) +
                               " is a function; only call can name one, because indirect calls "
                               "are not supported.");
    }
  }
  if (name.text == "_") return make_operand(Operand::Kind::sink);
  if (is_special(name.text)) {
    Operand special = make_operand(Operand::Kind::special);
    special.name = name.text;
    return special;
  }
  const bool is_register = name.text.front() == '%';
  fail_at(name.line, "unknown " + std::string(is_register ? "register " : "name ") +
                         quoted(name.text) +
                         "; expected a register or variable that is declared before this line, or "
                         "a special register.");
}

Operand FunctionParser::parse_number() {
  const bool negative = reader_.accept('-');
  if (reader_.at(Token::Kind::integer)) {
    Operand number = make_operand(Operand::Kind::integer);
    number.bits = parse_magnitude(negative);
    return number;
  }
  const bool is_f32 = reader_.at(Token::Kind::f32);
  if (!is_f32 && !reader_.at(Token::Kind::f64)) reader_.fail_expected("an operand");
  Operand number = make_operand(is_f32 ? Operand::Kind::f32 : Operand::Kind::f64);
  const std::uint64_t sign = is_f32 ? 1ull << 31 : 1ull << 63;
  number.bits = reader_.take().bits ^ (negative ? sign : 0);
  return number;
}

/// Takes an integer, as the two's complement of its value or of the negative of its value.
std::uint64_t FunctionParser::parse_magnitude(bool negative) {
  const Token token = reader_.expect(Token::Kind::integer, "an integer");
  if (negative && token.bits > 1ull << 63) {
    fail_at(token.line, "-" + std::string(token.text) + " does not fit 64 bits.");
  }
  return negative ? 0 - token.bits : token.bits;
}

/// What stands behind the + of an address.
std::int64_t FunctionParser::parse_offset() {
  const bool negative = reader_.accept('-');
  const int line = reader_.peek().line;
  const auto offset = static_cast<std::int64_t>(parse_magnitude(negative));
  if (!negative && offset < 0) fail_at(line, "the offset of an address does not fit 64 bits.");
  return offset;
}

/// `[base]`, `[base+offset]`, `[map, {x, y}]`
Operand FunctionParser::parse_address() {
  Operand address = make_operand(Operand::Kind::address);
  reader_.expect('[', "before an address");
  const int line = reader_.peek().line;
  Operand base = reader_.at(Token::Kind::word) ? parse_name() : parse_number();
  if (base.kind != Operand::Kind::reg && base.kind != Operand::Kind::variable &&
      base.kind != Operand::Kind::integer) {
    fail_at(line, "the base of an address must be a register, a variable or an integer.");
  }
  address.elements.push_back(std::move(base));
  if (reader_.accept('+')) address.offset = parse_offset();
  if (reader_.accept(','))
    address.elements.push_back(parse_sequence(Operand::Kind::vector, '{', '}'));
  reader_.expect(']', "behind an address such as [%rd1], [%rd1+16] or [%rd1, {%r1, %r2}]");
  return address;
}

/// Operands between brackets, with commas between them. Only a list may be empty.
Operand FunctionParser::parse_sequence(Operand::Kind kind, char open, char close) {
  Operand sequence = make_operand(kind);
  reader_.expect(open, "before a group of operands");
  if (kind == Operand::Kind::list && reader_.accept(close)) return sequence;
  do {
    sequence.elements.push_back(parse_simple_operand());
  } while (reader_.accept(','));
  reader_.expect(close, "behind a group of operands");
  return sequence;
}

/// The index of a register of type .pred.
std::uint32_t FunctionParser::parse_predicate() {
  const int line = reader_.peek().line;
  const Operand operand = parse_name();
  if (operand.kind != Operand::Kind::reg || function_.registers[operand.index].bits != 1) {
    fail_at(line, "expected a register of type .pred behind @ or !.");
  }
  return operand.index;
}

Operand FunctionParser::make_operand(Operand::Kind kind, std::uint32_t index) {
  spend(module_.budget.operands, 1, parser_limits.operands, "operands", reader_.peek().line);
  Operand operand;
  operand.kind = kind;
  operand.index = index;
  return operand;
}

/// The innermost declaration of a name; nullptr if there is none.
const Symbol* FunctionParser::find(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto symbol = scope->symbols.find(name);
    if (symbol != scope->symbols.end()) return &symbol->second;
  }
  const auto symbol = module_.symbols.find(name);
  return symbol != module_.symbols.end() ? &symbol->second : nullptr;
}

bool accept_pragma(TokenReader& reader) {
  if (!reader.accept(".pragma")) return false;
  do {
    reader.expect(Token::Kind::string, "a string behind .pragma");
  } while (reader.accept(','));
  reader.expect(';', "behind .pragma");
  return true;
}

}  // namespace emulator

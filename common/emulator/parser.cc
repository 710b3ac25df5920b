#include "common/emulator/parser.h"

#include <memory>
#include <string>
#include <utility>

#include "common/emulator/function_parser.h"
#include "common/emulator/module_scope.h"
#include "common/emulator/report.h"
#include "common/emulator/token_reader.h"
#include "common/emulator/variable_parser.h"

namespace emulator {
namespace {

/// Parses one text: what stands outside functions, and functions through FunctionParser.
class ModuleParser {
 public:
  explicit ModuleParser(std::shared_ptr<const std::string> source) : reader_(*source) {
    module_.source = std::move(source);
  }

  Module parse();

 private:
  void parse_header();
  void parse_item();
  void parse_file();
  void skip_section();
  void parse_definition();
  void parse_variables(Space space, bool external);
  void parse_function(bool is_entry);
  void declare_function(const std::string& name, std::uint32_t index, int line);
  void finish(Location& location) const;
  void finish(Instruction& instruction) const;

  Module module_;
  TokenReader reader_;
  ModuleScope scope_;
};

Module ModuleParser::parse() {
  parse_header();
  while (!reader_.at(Token::Kind::end)) parse_item();
  for (Function& function : module_.functions) {
    finish(function.location);
    for (Instruction& instruction : function.instructions) finish(instruction);
  }
  return std::move(module_);
}

void ModuleParser::parse_header() {
  if (!reader_.accept(".version")) reader_.fail_expected(".version at the start of a module");
  module_.version = reader_.expect(Token::Kind::f64, "a version such as 8.7").text;
  if (!reader_.accept(".target")) reader_.fail_expected(".target behind .version");
  module_.target = reader_.expect(Token::Kind::word, "a target such as sm_90a").text;
  while (reader_.accept(',')) reader_.expect(Token::Kind::word, "an option of .target");
}

void ModuleParser::parse_item() {
  if (reader_.accept(".address_size")) {
    reader_.expect_integer("an address size", 64, 64);
  } else if (reader_.accept(".file")) {
    parse_file();
  } else if (reader_.accept(".section")) {
    skip_section();
  } else if (!accept_pragma(reader_)) {
    parse_definition();
  }
}

/// `.file 1 "lesson.cu", timestamp, size`
void ModuleParser::parse_file() {
  const auto index = reader_.expect_integer("a file index", 1, parser_limits.files);
  const Token name = reader_.expect(Token::Kind::string, "a file name in quotes");
  if (name.text.empty()) fail_at(name.line, "the name of a file is empty.");
  if (module_.files.size() < index) module_.files.resize(index);
  module_.files[index - 1] = name.text;
  while (reader_.accept(',')) reader_.expect(Token::Kind::integer, "a timestamp or size");
}

/// Debug information.
void ModuleParser::skip_section() {
  const int line = reader_.peek().line;
  while (!reader_.at('{') && !reader_.at(Token::Kind::end)) reader_.take();
  while (!reader_.at('}') && !reader_.at(Token::Kind::end)) reader_.take();
  if (!reader_.accept('}')) fail_at(line, "the .section does not end; expected { and }.");
}

void ModuleParser::parse_definition() {
  const bool external = reader_.accept(".extern");
  if (!external) {
    for (const char* linkage : {".visible", ".weak", ".common"}) {
      if (reader_.accept(linkage)) break;
    }
  }
  if (reader_.accept(".entry")) {
    parse_function(true);
  } else if (reader_.accept(".func")) {
    parse_function(false);
  } else if (const auto space = accept_space(reader_); space && *space != Space::param) {
    parse_variables(*space, external);
  } else {
    reader_.fail_expected(
        "a directive of module scope (.entry, .func, .global, .const, .shared, .file, .section)");
  }
}

void ModuleParser::parse_variables(Space space, bool external) {
  const VariableType type = parse_variable_type(reader_, space);
  do {
    Declaration declaration = parse_declarator(reader_, scope_.budget, type, external);
    const auto index = static_cast<std::uint32_t>(module_.variables.size());
    declare(scope_.symbols, declaration.variable.name, {Symbol::Kind::module_variable, index},
            declaration.line);
    module_.variables.push_back(std::move(declaration.variable));
  } while (reader_.accept(','));
  reader_.expect(';', "behind the declaration");
}

void ModuleParser::parse_function(bool is_entry) {
  FunctionParser function(reader_, scope_);
  const int line = reader_.peek().line;
  const std::string name = function.parse_signature(is_entry);
  if (reader_.accept(';')) {
    declare_function(name, Symbol::no_body, line);
  } else {
    declare_function(name, static_cast<std::uint32_t>(module_.functions.size()), line);
    module_.functions.push_back(function.parse_body());
  }
}

/// A function may be declared any number of times, and defined once.
void ModuleParser::declare_function(const std::string& name, std::uint32_t index, int line) {
  const auto symbol = scope_.symbols.find(name);
  const bool is_declared =
      symbol != scope_.symbols.end() && symbol->second.kind == Symbol::Kind::function;
  if (is_declared && index == Symbol::no_body) return;
  if (is_declared && symbol->second.index == Symbol::no_body) {
    symbol->second.index = index;
  } else {
    declare(scope_.symbols, name, {Symbol::Kind::function, index}, line);
  }
}

/// Drops a line whose file no .file directive defines, as ptxas does. nvcc puts these last.
void ModuleParser::finish(Location& location) const {
  if (location.file < 0) return;
  const auto file = static_cast<std::size_t>(location.file);
  if (file >= module_.files.size() || module_.files[file].empty()) {
    location = {location.ptx_line, -1, 0};
  }
}

/// Sets the functions of a call, which may be defined behind it.
void ModuleParser::finish(Instruction& instruction) const {
  finish(instruction.location);
  if (instruction.opcode.front() != "call") return;
  for (Operand& operand : instruction.operands) {
    if (operand.kind != Operand::Kind::function) continue;
    operand.index = scope_.symbols.find(operand.name)->second.index;
    if (operand.index != Symbol::no_body && module_.functions[operand.index].is_entry) {
      fail_at(instruction.location.ptx_line,
              quoted(operand.name) + " is an .entry; only a .func can be called.");
    }
  }
}

}  // namespace

Module parse(std::string_view text) {
  if (text.size() > parser_limits.text_bytes) {
    throw PtxError("The PTX has " + std::to_string(text.size()) +
                   " bytes; this parser takes at most " + std::to_string(parser_limits.text_bytes) +
                   ".");
  }
  return ModuleParser(std::make_shared<const std::string>(text)).parse();
}

}  // namespace emulator

// Feeds the PTX parser with damaged PTX: each input must become a sound module or a PtxError that
// names a line, soon and in little memory. Meant for a build with -fsanitize=address,undefined:
//   parser_fuzz SECONDS FIRST FILE...
// mutates the files (valid PTX of some 10 KB is best) for so many seconds. Input number FIRST + i
// depends on its number and the files only, so that a failure can be run again.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/emulator/parser.h"
#include "common/emulator/report.h"

namespace {

using emulator::Function;
using emulator::Instruction;
using emulator::Module;
using emulator::Operand;

constexpr double longest_parse_seconds = 5;  // sanitizers make it some ten times slower
constexpr std::size_t longest_input = 1 << 20;

/// Words that take the parser to rare places.
constexpr const char* dictionary[] = {
    // clang-format off
    "{", "}", "(", ")", "[", "]", ",", ";", ":", "@", "@!", "!", "|", "+", "-", "=", "<", ">", "_",
    "/*", "*/", "//", "\"", "\\", ".", "::", "%", "$", "0x", "0f", "0d", "0b", "1e", "1e999", "08",
    "0xFFFFFFFFFFFFFFFF", "18446744073709551616", "-9223372036854775808", "4294967295", "0", "-1",
    "0f7F800000", "0d7FF0000000000000", "%r1", "%r<4000000000>", "%p1", "%tid.x", "%rd1+-8",
    "WARP_SZ", "L: ", "bra L;", "@%p1 bra L;", "call f;", "call.uni (%r1), f, (%r2, %r3);",
    ".callprototype", ".branchtargets", ".version 9.0", ".target sm_90a", ".address_size 64",
    ".file 1 \"x\"", ".loc 1 2 3", ".loc 1 2 3, function_name L, inlined_at 1 2 3",
    ".section .debug_str {", ".pragma \"x\";", ".visible", ".extern", ".weak", ".common",
    ".entry k", ".func f", ".func (.param .b32 r) f(.param .b8 x[4])", ".param", ".reg",
    ".reg .pred p;", ".reg .b128 q<131072>;", ".shared", ".local", ".const", ".global",
    ".align 4096", ".align 3", ".v4", ".b8", ".f32", ".f64", ".f16x2", ".pred", ".ptr",
    ".attribute(.managed)", ".maxntid 1, 2", ".reqntid", ".noreturn", " x[268435456]",
    " x[2][3] = {{1, 2}, {3}}", " = {", " = 0f3F800000;", ".extern .shared .b8 s[];", "{ret;}",
    "{%r1, _, 7}", "[%rd1, {%r1, %r2}]", "%r1|%p1",
    // clang-format on
};

class Mutator {
 public:
  Mutator(const std::vector<std::string>& seeds, std::uint64_t number)
      : seeds_(seeds), random_(number) {}

  std::string input() {
    std::string text = any_seed();
    for (std::size_t changes = 1 + below(8); changes > 0; --changes) change(text);
    return text.substr(0, longest_input);
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const std::string& any_seed() { return seeds_[below(seeds_.size())]; }
  std::size_t any_place(const std::string& text) { return below(text.size() + 1); }

  /// Some bytes of `text`, mostly few.
  std::string_view any_piece(const std::string& text) {
    return std::string_view(text).substr(any_place(text), below(std::size_t{1} << below(12)));
  }

  void change(std::string& text) {
    const std::size_t place = any_place(text);
    switch (below(9)) {
      case 0:
        if (place < text.size()) text[place] = static_cast<char>(random_());
        break;
      case 1:
        if (place < text.size()) text[place] ^= static_cast<char>(1 << below(8));
        break;
      case 2:
        text.erase(place, any_piece(text).size());
        break;
      case 3:
        text.insert(place, std::string(any_piece(text)));
        break;
      case 4:
        text.insert(place, any_piece(any_seed()));
        break;
      case 5:
      case 6:
        text.insert(place, dictionary[below(std::size(dictionary))]);
        break;
      case 7:
        if (below(8) == 0) text.resize(place);
        break;
      case 8:
        repeat(text, place);
        break;
    }
  }

  void repeat(std::string& text, std::size_t place) {
    const std::string piece = below(2) == 0 ? dictionary[below(std::size(dictionary))]
                                            : std::string(any_piece(text).substr(0, 64));
    std::string pieces;
    for (std::size_t count = std::size_t{1} << below(15); count > 0; --count) pieces += piece;
    text.insert(place, pieces);
  }

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_;
};

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

void check_operand(const Module& module, const Function& function, const Operand& operand) {
  using Kind = Operand::Kind;
  const bool is_local = operand.index & Operand::function_scope;
  const std::uint32_t index = operand.index & ~Operand::function_scope;
  switch (operand.kind) {
    case Kind::reg:
      require(operand.index < function.registers.size(), "a register is out of range");
      require(!operand.negated || function.registers[index].bits == 1, "! without a predicate");
      break;
    case Kind::variable:
      require(index < (is_local ? function.variables : module.variables).size(),
              "a variable is out of range");
      break;
    case Kind::label:
      require(operand.index <= function.instructions.size(), "a label is out of range");
      break;
    case Kind::function:
      require(!operand.name.empty(), "a function has no name");
      require(operand.index == ~0u || operand.index < module.functions.size(),
              "a function is out of range");
      break;
    case Kind::special:
      require(!operand.name.empty(), "a special register has no name");
      break;
    case Kind::address:
      require(operand.elements.size() == 1 || operand.elements.size() == 2, "an odd address");
      break;
    case Kind::pair:
      require(operand.elements.size() == 2, "an odd pair");
      break;
    case Kind::vector:
      require(!operand.elements.empty(), "an empty vector");
      break;
    case Kind::list:
    case Kind::integer:
    case Kind::f32:
    case Kind::f64:
    case Kind::sink:
      break;
  }
  for (const Operand& element : operand.elements) check_operand(module, function, element);
}

void check_instruction(const Module& module, const Function& function,
                       const Instruction& instruction) {
  const std::string_view source = *module.source;
  const auto within_source = [&](std::string_view part) {
    return part.data() >= source.data() &&
           part.data() + part.size() <= source.data() + source.size();
  };
  require(within_source(instruction.text), "an opcode is no view of the source");
  require(!instruction.opcode.empty(), "an instruction has no opcode");
  for (const std::string_view part : instruction.opcode) {
    require(!part.empty() && within_source(part), "a part of an opcode is odd");
  }
  require(instruction.location.ptx_line > 0, "an instruction has no line");
  require(instruction.location.file < static_cast<int>(module.files.size()),
          "a file is out of range");
  if (instruction.guard >= 0) {
    require(function.registers.at(instruction.guard).bits == 1, "a guard is no predicate");
  }
  for (const Operand& operand : instruction.operands) check_operand(module, function, operand);
}

/// Throws std::logic_error unless `module` keeps what module.h promises.
void check_module(const Module& module) {
  for (const emulator::Variable& variable : module.variables) {
    require(variable.initial.empty() || variable.initial.size() == variable.size,
            "an initializer has not the size of its variable");
  }
  for (const Function& function : module.functions) {
    require(function.parameter_count <= function.variables.size(), "a parameter is missing");
    for (const std::uint32_t index : function.return_variables) {
      require(index < function.variables.size(), "a result is out of range");
    }
    for (const Instruction& instruction : function.instructions) {
      check_instruction(module, function, instruction);
    }
  }
}

/// Whether the parser takes `text`. Throws std::logic_error when it breaks a promise.
bool is_accepted(const std::string& text) {
  try {
    check_module(emulator::parse(text));
    return true;
  } catch (const emulator::PtxError& error) {
    const std::string_view message = error.what();
    require(message.starts_with("PTX line ") && message.ends_with('.'), "an odd message");
    require(message.size() < 1000, "a very long message");
    return false;
  }
}

std::vector<std::string> read_files(char** first, char** last) {
  std::vector<std::string> texts;
  for (; first != last; ++first) {
    std::ifstream file(*first, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (!file || !is_accepted(texts.back())) {
      throw std::runtime_error(std::string(*first) + " can't be read, or is no valid PTX.");
    }
  }
  return texts;
}

/// Returns the exit status.
int fuzz(double seconds, std::uint64_t first, const std::vector<std::string>& seeds) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::uint64_t number = first, accepted = 0, bytes = 0;
  double slowest = 0;
  for (; elapsed() < seconds; ++number) {
    if (number % 1000 == 0) std::fprintf(stderr, "input %ju\n", std::uintmax_t{number});
    const std::string text = Mutator(seeds, number).input();
    bytes += text.size();
    const std::clock_t begin = std::clock();
    try {
      accepted += is_accepted(text);
      slowest = std::max(slowest, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
      require(slowest < longest_parse_seconds, "the parser is too slow");
    } catch (const std::exception& error) {
      std::printf("input %ju: %s\n", std::uintmax_t{number}, error.what());
      return 1;
    }
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%ju inputs, %.0f MB, %ju accepted; slowest %.2f s, peak memory %ld MB\n",
              std::uintmax_t{number - first}, static_cast<double>(bytes) / 1e6,
              std::uintmax_t{accepted}, slowest, usage.ru_maxrss / 1024);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s SECONDS FIRST FILE...\n", argv[0]);
    return 2;
  }
  try {
    return fuzz(std::atof(argv[1]), std::strtoull(argv[2], nullptr, 10),
                read_files(argv + 3, argv + argc));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}

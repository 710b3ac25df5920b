// What the parts of the parser share: names, and the budget that keeps odd texts from eating
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace emulator {

/// What a name stands for in its scope.
struct Symbol {
  enum class Kind : std::uint8_t { reg, module_variable, function_variable, label, function };
  static constexpr std::uint32_t no_body = ~0u;

  Kind kind;
  std::uint32_t index;  ///< of a register, variable, instruction or function in its vector; no_body
                        ///< for a function that is only declared
};

struct NameHash : std::hash<std::string_view> {
  using is_transparent = void;  // look-ups by string_view build no string
};
using Symbols = std::unordered_map<std::string, Symbol, NameHash, std::equal_to<>>;

/// How much of parser_limits a module has used.
struct Budget {
  std::size_t instructions = 0;
  std::size_t operands = 0;
  std::size_t registers = 0;
  std::size_t variable_bytes = 0;
};

/// Adds `amount` to `used`. Throws PtxError at `line` when that passes `limit`: "the module has
/// more than <limit> <what>".
void spend(std::size_t& used, std::size_t amount, std::size_t limit, const char* what, int line);

struct ModuleScope {
  Symbols symbols;
  Budget budget;
};

/// Throws PtxError at `line` when the scope has this name already.
void declare(Symbols& symbols, std::string name, Symbol symbol, int line);

}  // namespace emulator

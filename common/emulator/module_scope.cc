#include "common/emulator/module_scope.h"

#include <utility>

#include "common/emulator/lexer.h"

namespace emulator {

void spend(std::size_t& used, std::size_t amount, std::size_t limit, const char* what, int line) {
  if (amount > limit - used) {
    fail_at(line, "the module has more than " + std::to_string(limit) + " " + what +
                      ", which is the limit of this parser.");
  }
  used += amount;
}

void declare(Symbols& symbols, std::string name, Symbol symbol, int line) {
  const auto [place, is_new] = symbols.try_emplace(std::move(name), symbol);
  if (!is_new) fail_at(line, quoted(place->first) + " is declared twice in one scope.");
}

}  // namespace emulator

// Types and variable declarations. PTX ISA 5.2 to 5.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/emulator/module.h"
#include "common/emulator/module_scope.h"
#include "common/emulator/token_reader.h"

namespace emulator {

/// A fundamental type.
struct Type {
  enum class Kind : std::uint8_t { predicate, untyped, integer, floating };
  std::string_view name;  ///< ".f32"
  int bits;               ///< 1 for .pred
  Kind kind;
};

/// Takes a type; throws PtxError when the next token is none.
const Type& parse_type(TokenReader& reader);

/// Takes a state-space directive such as .shared, if one is next.
std::optional<Space> accept_space(TokenReader& reader);

/// What the declarators of one declaration share: `.align 8 .v2 .f32`.
struct VariableType {
  Space space;
  const Type* element;
  std::size_t vector_size;  ///< 1, or 2 or 4 elements side by side
  std::size_t alignment;    ///< bytes; that of the vector when none is given
};

/// Takes what stands between the state space and the first name; what .ptr says of a pointer
/// parameter's target is skipped. Throws PtxError when it is malformed.
VariableType parse_variable_type(TokenReader& reader, Space space);

/// A variable and the line of its name.
struct Declaration {
  Variable variable;
  int line;
};

/// Takes a name with its dimensions and initializer: `table[2][3] = {{1, 2, 3}, {4}}`. Throws
/// PtxError when they are malformed, contradict `type`, or exceed parser_limits.
Declaration parse_declarator(TokenReader& reader, Budget& budget, const VariableType& type,
                             bool external);

}  // namespace emulator

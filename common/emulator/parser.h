// PTX text to a Module. PTX ISA chapters 4, 5, 6 and 11: the dialect that nvcc 12 and 13 emit for
// compute_90a, inline assembly included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/emulator/module.h"

namespace emulator {

/// What parse() refuses beyond, so that no text, however odd, takes gigabytes or minutes. nvcc's
/// output for a lesson stays an order of magnitude below.
struct ParserLimits {
  std::size_t text_bytes = 16 << 20;
  std::size_t instructions = 1 << 20;            ///< of a module
  std::size_t operands = 1 << 22;                ///< of a module, elements of vectors included
  std::size_t registers = 1 << 20;               ///< of a module
  std::size_t registers_per_function = 1 << 17;  ///< `.reg .b32 %r<100>` counts as 100
  std::size_t range_name_bytes = 64;             ///< of the name in `.reg .b32 name<100>`
  std::size_t variable_bytes = 1 << 28;          ///< all variables of a module together
  std::size_t alignment = 1 << 12;               ///< of a variable
  std::size_t dimensions = 8;                    ///< of an array
  std::size_t nesting = 64;                      ///< of { } in a function
  std::size_t files = 1 << 12;                   ///< the largest index of a .file
};
inline constexpr ParserLimits parser_limits;

/// The module that `text` holds, names resolved: registers have ids that are unique in their
/// function whatever scope declares them, labels are instruction indices.
///
/// Knows no opcode but bra and call, whose operands name labels and functions; the opcode table
/// judges the others. Throws PtxError, "PTX line 372: unknown register ...", for text that is
/// malformed, exceeds parser_limits, or uses what the emulator does not support: indirect calls and
/// branches, register parameters and register vectors, textures, initializers that hold addresses,
/// constant expressions.
Module parse(std::string_view text);

}  // namespace emulator

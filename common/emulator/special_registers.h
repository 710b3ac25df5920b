// Special registers. PTX ISA chapter 10.
#pragma once

#include <string_view>

#include "common/emulator/program.h"

namespace emulator {

/// A special register whose value changes while a warp runs, and the handler that reads it into
/// Op::d.
struct Clock {
  std::string_view name;
  int bits;
  Handler read;
};

/// The constant special register of this name ("%tid.x"); bits 0 if there is none.
struct SpecialName {
  std::string_view name;
  Special special;
  int bits;
};
const SpecialName* find_special(std::string_view name);
const Clock* find_clock(std::string_view name);

/// Writes the rows of Program::specials into the registers of a warp that starts.
void write_special_rows(Warp& warp);

}  // namespace emulator

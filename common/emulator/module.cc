#include "common/emulator/module.h"

#include <algorithm>

namespace emulator {

const Function* Module::entry(std::string_view name) const {
  const auto found = std::find_if(
      functions.begin(), functions.end(),
      [&](const Function& function) { return function.is_entry && function.name == name; });
  return found == functions.end() ? nullptr : &*found;
}

}  // namespace emulator

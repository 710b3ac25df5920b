// A fault of the running kernel: the end of a launch.
#pragma once

#include <string>
#include <string_view>

#include "common/emulator/program.h"
#include "common/emulator/report.h"

namespace emulator {

/// Thrown by handlers and engines, caught by Execution::run. Never leaves Machine::launch.
struct Fault {
  Finding finding;
};

/// Throws the fault `rule` (a name in the catalogue) of `lanes` at an instruction.
[[noreturn]] void fault(const Warp& warp, const Op& op, LaneMask lanes, std::string_view rule,
                        std::string sentence);
/// Likewise of all lanes that execute.
[[noreturn]] void fault(const Warp& warp, const Op& op, std::string_view rule,
                        std::string sentence);

/// Likewise of an operation that runs asynchronously, issued at `issuer`.
[[noreturn]] void fault(const Site& issuer, std::string_view rule, std::string sentence);

/// "warp 0 of CTA 3 (lane 0)", "warp 1 of CTA 0 (lanes 0-15)", "warp 2 of CTA 0" for all lanes.
std::string role(const Site& site);

/// "0x3f0"
std::string hex(std::uint64_t value);
/// "1 byte", "3 bytes"
std::string counted(std::uint64_t count, std::string_view noun);

}  // namespace emulator

// What the emulator says of a kernel: findings with stable ids, each a sentence that teaches.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/emulator/module.h"

namespace emulator {

/// The PTX can't be run: malformed, or it uses an instruction outside the opcode table. The message
/// names the PTX line, the CUDA line where known, and the instruction.
struct PtxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A rule of the checker. `id` ("E07") never changes once published.
struct Rule {
  std::string_view id;
  std::string_view name;     ///< "read-before-landed"
  std::string_view explain;  ///< a few paragraphs for --explain: the rule, why, the cure
  std::string_view source;   ///< "PTX ISA 9.7.13.15.16 (mbarrier.try_wait)"
  bool strict_only;          ///< the ISA text leaves a doubt: reported in strict mode only
};

/// All rules in order of id (rules.cc).
const std::vector<Rule>& rules();
/// The rule of this id ("E07", "e07") or name, nullptr if there is none.
const Rule* find_rule(std::string_view id);

/// One thing that a run showed to be wrong. Equal findings (rule, line, role, object) are folded.
struct Finding {
  std::string_view rule;   ///< id
  std::string sentence;    ///< who did what to which object, and what is missing
  Location location;       ///< of the instruction that broke the rule
  std::string role;        ///< "warp 0 of CTA 3 (lane 0)"
  std::uint64_t count = 1; ///< how often it was seen
};

/// A multi-line text of the findings: id, name, CUDA line, role, sentence.
std::string describe(const Module& module, const std::vector<Finding>& findings);

/// "lesson03_tma.cu:74" or "PTX line 372" without line information.
std::string place(const Module& module, const Location& location);
/// For what is wrong with the PTX itself: "lesson03_tma.cu:74 (PTX line 372)".
std::string place_in_ptx(const Module& module, const Location& location);

}  // namespace emulator

// The opcode table: the contract of what the emulator runs.
//
// Each family of instructions has its own part of the table beside its handlers; to add an
// instruction, write its handler there and its row. What no row matches is refused by name.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "common/emulator/program.h"

namespace emulator {

class InstructionDecoder;

/// One row of the table.
struct Opcode {
  /// The parts between the dots. `a|b`: one of these; a leading `?`: may be left out;
  /// `*`: whatever else follows. "add.?ftz.u32|s32".
  std::string_view pattern;
  /// The operands of simple rows, destination first: d = destination, s = source, f = source that
  /// may be a floating-point literal, each with its bits; p = predicate destination, q = predicate
  /// source, n = predicate source that may be negated (Op::negated), i = integer literal. "d32 s32
  /// s32". They go to Op::d, a, b, c, e and immediate.
  std::string_view operands = {};
  Handler handler = nullptr;
  /// Does what `operands` and `handler` can't say; called last.
  void (*build)(InstructionDecoder&) = nullptr;
};

std::span<const Opcode> integer_opcodes();       // integer.cc
std::span<const Opcode> bit_opcodes();           // bits.cc: logic, shifts, bit fields
std::span<const Opcode> comparison_opcodes();    // comparison.cc: setp, set, selp, slct
std::span<const Opcode> move_opcodes();          // move.cc
std::span<const Opcode> float_opcodes();         // float.cc: f32 and f64
std::span<const Opcode> half_opcodes();          // half.cc: f16, bf16 and their pairs
std::span<const Opcode> conversion_opcodes();    // conversion.cc
std::span<const Opcode> control_opcodes();       // control.cc: branches, calls, exit, clocks
std::span<const Opcode> memory_opcodes();        // memory_access.cc: ld, st, cvta and the like
std::span<const Opcode> atomic_opcodes();        // atomics.cc
std::span<const Opcode> collective_opcodes();    // collectives.cc: what lanes of a warp do together
std::span<const Opcode> barrier_opcodes();       // barriers.cc: bar, barrier.cluster, fences
std::span<const Opcode> mbarrier_opcodes();      // mbarrier.cc
std::span<const Opcode> bulk_opcodes();          // bulk_opcodes.cc: TMA and bulk groups
std::span<const Opcode> tensormap_opcodes();     // tensormap.cc: tensormap.replace and its fence
std::span<const Opcode> remote_store_opcodes();  // remote_store.cc: st.async, red.async
std::span<const Opcode> wgmma_opcodes();         // warpgroup.cc: wgmma, setmaxnreg

/// The row for an instruction, and the parts of its opcode in the order of the row's pattern.
struct OpcodeMatch {
  const Opcode* row = nullptr;  ///< nullptr: none matches
  std::vector<std::string_view> parts;
};

/// Finds the row that matches an opcode: of several the first. As ptxas does, takes modifiers in
/// any order behind the name ("red.global.relaxed.gpu.add.s32"); types keep theirs.
OpcodeMatch find_opcode(std::span<const std::string_view> parts);

/// Every pattern, in the order of the table.
std::vector<std::string_view> opcode_patterns();

}  // namespace emulator

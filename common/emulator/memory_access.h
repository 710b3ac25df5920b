// What instructions that access memory have in common when they are decoded.
#pragma once

#include "common/emulator/decode.h"

namespace emulator {

/// Sets the address fields of Op by the state space in the opcode; without one it is generic.
void set_memory_address(InstructionDecoder& decoder, const Operand& operand);
/// Sets Op::order and scope by the opcode; .weak without a word.
void set_memory_order(InstructionDecoder& decoder);

}  // namespace emulator

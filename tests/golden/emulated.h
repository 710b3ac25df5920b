// What the emulator answers to the golden cases.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/golden/operation_cases.h"
#include "tests/golden/tensor_cases.h"
#include "tests/golden/thread_cases.h"
#include "tests/golden/wgmma_cases.h"

namespace golden {

/// The accumulator registers, [register][thread].
std::vector<std::uint32_t> emulated(const WgmmaCase& c);
/// A word for each input. Throws std::logic_error for an operation that it does not know.
std::vector<std::uint32_t> emulated(const OperationCase& c);
/// The words of result_words().
std::vector<std::uint32_t> emulated(const TensorCase& c);
std::vector<std::uint32_t> emulated(const MatrixCase& c);

}  // namespace golden

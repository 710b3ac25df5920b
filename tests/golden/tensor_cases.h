// The TMA cases of the golden files and their inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/emulator/tensor_box.h"

namespace golden {

enum class TensorDirection { load, store, reduce };

/// One copy. The map's address is an offset in the tensor memory.
struct TensorCase {
  std::string name;
  TensorDirection direction = TensorDirection::load;
  emulator::ReduceOperation operation = emulator::ReduceOperation::add;  ///< of a reduction
  emulator::TensorMapRecord map;
  emulator::BoxCoordinates coordinates{};
  std::uint32_t shared_offset = 0;  ///< of the box, from a multiple of 1024
  std::uint32_t seed = 0;
};

/// Bytes of global memory that every case has, and of shared memory.
inline constexpr std::size_t tensor_memory_bytes = 128 * 1024;
inline constexpr std::size_t tensor_shared_bytes = 8 * 1024;

std::vector<TensorCase> tensor_cases();

/// How a copy ends.
enum class TensorEnding : std::uint32_t {
  finished,
  illegal_instruction,
  misaligned_address,
  other
};

/// Copies of which the hardware stops some. Their result is one word, the TensorEnding.
std::vector<TensorCase> ending_cases();

/// What global and shared memory hold before the copy. For reductions the elements are numbers, for
/// types that a load converts they are the interesting ones, else any bits.
std::vector<std::byte> tensor_memory(const TensorCase& c);
std::vector<std::byte> tensor_shared(const TensorCase& c);

/// What a case's result is, in words: of a load, the 128-byte lines from the box on that its bytes
/// would fill if there were no gaps between its rows; else the bytes of the tensor.
std::size_t result_words(const TensorCase& c);

}  // namespace golden

// The scalar operations of the golden files and their inputs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace golden {

/// What an operation is applied to. Inputs that an operation does not take are there all the same.
enum class OperationInputs {
  all_16_bits,       ///< every 16-bit pattern, and other ones for the second and third input
  pairs_of_16_bits,  ///< every 16-bit pattern in the lower half, each once in the upper half too
  floats,            ///< f32: edge cases, then 100,000 hashed patterns
  words,             ///< 32-bit integers of all magnitudes
  triples,           ///< f32: hashed, many of them close to each other or subnormal
  half_triples,      ///< 16 bits: hashed, many of them close to each other
  spread_4,          ///< f32: 4,000 of all exponents, then 16,000 from -4 to 4
  spread_10,
  spread_150,
  spread_angles,  ///< f32: as spread_4, to 2 pi, and beyond to 100 pi
  small,          ///< f32: 4,096 around the subnormals, and of all exponents
  spread_halves,  ///< two 16-bit patterns an input: 16,384 of all exponents
};

struct OperationCase {
  std::string name;  ///< the instruction
  OperationInputs inputs;
};

/// In the order of GOLDEN_OPERATIONS.
const std::vector<OperationCase>& operation_cases();
/// Whether the results are bounded, not bit-exact.
bool is_approximation(const OperationCase& c);

/// The first, second and third inputs, equally many.
using OperationWords = std::array<std::vector<std::uint32_t>, 3>;
OperationWords inputs(OperationInputs inputs);

}  // namespace golden

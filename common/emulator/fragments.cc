#include "common/emulator/fragments.h"

#include <cstring>

namespace emulator {

void load_matrix(const std::byte* const* rows, bool transposed, std::uint32_t* lanes) {
  for (int lane = 0; lane < 32; ++lane) {
    lanes[lane] = 0;
    for (int half = 0; half < 2; ++half) {
      const MatrixPosition at = matrix_element(lane, half, transposed);
      std::uint16_t element = 0;
      std::memcpy(&element, rows[at.row] + 2 * at.column, 2);
      lanes[lane] |= std::uint32_t{element} << (16 * half);
    }
  }
}

void store_matrix(const std::uint32_t* lanes, bool transposed, std::byte* const* rows) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int half = 0; half < 2; ++half) {
      const MatrixPosition at = matrix_element(lane, half, transposed);
      const auto element = static_cast<std::uint16_t>(lanes[lane] >> (16 * half));
      std::memcpy(rows[at.row] + 2 * at.column, &element, 2);
    }
  }
}

}  // namespace emulator

// Which thread holds which element of a matrix in which register: ldmatrix, stmatrix and wgmma.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

struct MatrixPosition {
  int row;
  int column;
  bool operator==(const MatrixPosition&) const = default;
};

// ---- ldmatrix and stmatrix, 8x8 matrices of 16-bit elements. PTX ISA 9.7.14.5.15, 9.7.14.5.16.
//
// .x1, .x2 and .x4 move 1, 2 and 4 matrices; matrix i is in register i of every lane.

/// The lane whose address operand names row `row` (0-7) of matrix `matrix` (0-3): 16 bytes.
constexpr int matrix_row_lane(int matrix, int row) {
  return 8 * matrix + row;
}

/// The element in the lower (half 0) or upper (half 1) 16 bits of a lane's register.
constexpr MatrixPosition matrix_element(int lane, int half, bool transposed) {
  const int along = 2 * (lane % 4) + half;
  return transposed ? MatrixPosition{along, lane / 4} : MatrixPosition{lane / 4, along};
}

/// One matrix of ldmatrix: `rows` are 8 pointers to 16 bytes, `lanes` the 32 lanes of its register.
void load_matrix(const std::byte* const* rows, bool transposed, std::uint32_t* lanes);
/// One matrix of stmatrix.
void store_matrix(const std::uint32_t* lanes, bool transposed, std::byte* const* rows);

// ---- wgmma. PTX ISA 9.7.15.5.1. `thread` is 0-127 in the warpgroup.

/// Element `index` of a thread's part of the 64 x N accumulator. f32 and s32: the register number.
/// f16: two elements a register, the lower half first.
constexpr MatrixPosition accumulator_element(int thread, int index) {
  const int warp = thread / 32;
  const int lane = thread % 32;
  return {16 * warp + lane / 4 + 8 * (index / 2 % 2), 8 * (index / 4) + 2 * (lane % 4) + index % 2};
}

/// Element `index` of a thread's part of A (64 x K) in four registers: elements of `bits` (8, 16 or
/// 32) are packed from the low bits up, so element i is in register i / (32 / bits).
constexpr MatrixPosition a_element(int thread, int index, int bits) {
  const int per_register = 32 / bits;
  const int reg = index / per_register;
  const int warp = thread / 32;
  const int lane = thread % 32;
  return {16 * warp + lane / 4 + 8 * (reg % 2),
          4 * per_register * (reg / 2) + per_register * (lane % 4) + index % per_register};
}

}  // namespace emulator

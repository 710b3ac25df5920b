// Register layouts against the layout functions of the hardware's documentation, written as shapes
// and strides (CUTLASS, cute/atom/mma_traits_sm90_gmma.hpp): an index is taken apart by the shape,
// the first part fastest, and its parts times the strides add up to row + 64 column.
#include "common/emulator/fragments.h"

#include <array>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "tests/catch.h"

using emulator::MatrixPosition;

namespace {

struct Layout {
  std::vector<int> shape;
  std::vector<int> strides;

  int operator()(int index) const {
    int offset = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      offset += index % shape[i] * strides[i];
      index /= shape[i];
    }
    return offset;
  }
};

MatrixPosition position(int offset) {
  return {offset % 64, offset / 64};
}

using Matrix = std::array<std::array<std::uint16_t, 8>, 8>;

/// Element (r, c) is 100 r + c.
Matrix numbered() {
  Matrix matrix;
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 8; ++column) {
      matrix[row][column] = static_cast<std::uint16_t>(100 * row + column);
    }
  }
  return matrix;
}

std::array<std::byte*, 8> rows_of(Matrix& matrix) {
  std::array<std::byte*, 8> rows;
  for (int row = 0; row < 8; ++row) rows[row] = reinterpret_cast<std::byte*>(matrix[row].data());
  return rows;
}

}  // namespace

TEST_CASE("the wgmma accumulator lies in registers as documented", "[fragments]") {
  const Layout thread{{4, 8, 4}, {128, 1, 16}};
  const Layout value{{2, 2, 32}, {64, 8, 512}};
  for (int t = 0; t < 128; ++t) {
    for (int i = 0; i < 128; ++i) {
      REQUIRE(emulator::accumulator_element(t, i) == position(thread(t) + value(i)));
    }
  }
}

TEST_CASE("wgmma's A lies in registers as documented", "[fragments]") {
  struct Case {
    int bits;
    int elements;
    Layout thread;
    Layout value;
  };
  const std::vector<Case> cases{{32, 4, {{4, 8, 4}, {64, 1, 16}}, {{2, 2}, {8, 256}}},
                                {16, 8, {{4, 8, 4}, {128, 1, 16}}, {{2, 2, 2}, {64, 8, 512}}},
                                {8, 16, {{4, 8, 4}, {256, 1, 16}}, {{4, 2, 2}, {64, 8, 1024}}}};
  for (const Case& c : cases) {
    for (int t = 0; t < 128; ++t) {
      for (int i = 0; i < c.elements; ++i) {
        INFO(c.bits << " bits, thread " << t << ", element " << i);
        REQUIRE(emulator::a_element(t, i, c.bits) == position(c.thread(t) + c.value(i)));
      }
    }
  }
}

TEST_CASE("sixteen columns of an accumulator are the A fragment of the next wgmma", "[fragments]") {
  for (int t = 0; t < 128; ++t) {
    for (int i = 0; i < 8; ++i) {
      CHECK(emulator::accumulator_element(t, i) == emulator::a_element(t, i, 16));
    }
  }
}

TEST_CASE("ldmatrix gives lane l two neighbours of row l / 4", "[fragments]") {
  Matrix matrix = numbered();
  std::array<std::uint32_t, 32> lanes;
  emulator::load_matrix(rows_of(matrix).data(), false, lanes.data());
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t lower = 100 * (lane / 4) + 2 * (lane % 4);
    CHECK(lanes[lane] == ((lower + 1) << 16 | lower));
  }
}

TEST_CASE("ldmatrix.trans gives lane l two neighbours of column l / 4", "[fragments]") {
  Matrix matrix = numbered();
  std::array<std::uint32_t, 32> lanes;
  emulator::load_matrix(rows_of(matrix).data(), true, lanes.data());
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t lower = 100 * (2 * (lane % 4)) + lane / 4;
    CHECK(lanes[lane] == ((lower + 100) << 16 | lower));
  }
}

TEST_CASE("stmatrix writes what ldmatrix read, and each transposes the other", "[fragments]") {
  Matrix matrix = numbered();
  for (bool transposed_load : {false, true}) {
    for (bool transposed_store : {false, true}) {
      std::array<std::uint32_t, 32> lanes;
      emulator::load_matrix(rows_of(matrix).data(), transposed_load, lanes.data());
      Matrix stored{};
      emulator::store_matrix(lanes.data(), transposed_store, rows_of(stored).data());
      for (int row = 0; row < 8; ++row) {
        for (int column = 0; column < 8; ++column) {
          const bool transposed = transposed_load != transposed_store;
          CHECK(stored[row][column] == (transposed ? matrix[column][row] : matrix[row][column]));
        }
      }
    }
  }
}

TEST_CASE("the lanes that name rows of ldmatrix are 8 for each matrix", "[fragments]") {
  std::set<int> lanes;
  for (int matrix = 0; matrix < 4; ++matrix) {
    for (int row = 0; row < 8; ++row) lanes.insert(emulator::matrix_row_lane(matrix, row));
  }
  CHECK(lanes.size() == 32);
  CHECK(emulator::matrix_row_lane(2, 3) == 19);
}

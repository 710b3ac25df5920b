// What kernels share, as far as it is arithmetic: the ring's state, the registers of an SM,
// the layout of chunks.
#include <cstdint>
#include <set>
#include <tuple>

#include "common/gemm/chunk.cuh"
#include "common/gemm/register_budget.h"
#include "common/gemm/ring_state.h"
#include "tests/catch.h"

namespace {

using gemm::RingState;

std::tuple<int, unsigned, int> parts(const RingState& state) {
  return {state.index, state.phase, state.count};
}

RingState advanced(RingState state, int stages, int k_tiles) {
  for (int i = 0; i < k_tiles; ++i) state.advance(stages);
  return state;
}

}  // namespace

TEST_CASE("a ring's index and phase follow from the count") {
  for (int stages = 1; stages <= 8; ++stages) {
    RingState state;
    for (int count = 0; count < 5 * stages; ++count) {
      INFO(stages << " stages, " << count << " k-tiles");
      REQUIRE(state.count == count);
      REQUIRE(state.index == count % stages);
      REQUIRE(state.phase == static_cast<unsigned>(count / stages % 2));
      const int before = state.index;
      state.advance(stages);
      REQUIRE(state.previous(stages) == before);
    }
  }
}

TEST_CASE("skipping k-tiles is advancing as often, from wherever a ring stands") {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int start = 0; start < 2 * stages; ++start) {
      const RingState from = advanced({}, stages, start);
      for (int k_tiles = 0; k_tiles <= 4 * stages + 1; ++k_tiles) {
        INFO(stages << " stages, from " << start << " on, " << k_tiles << " k-tiles");
        RingState skipped = from;
        skipped.skip(stages, k_tiles);
        REQUIRE(parts(skipped) == parts(advanced(from, stages, k_tiles)));
      }
    }
  }
}

TEST_CASE("a launch gives each thread an equal share of an SM's registers, in eights") {
  // The table at the head of lesson 06: consumers 1, 2 and 3, and the producer.
  CHECK(gemm::launch_registers(2, 2) == 128);
  CHECK(gemm::launch_registers(3, 1) == 168);
  CHECK(gemm::launch_registers(4, 1) == 128);
  CHECK(gemm::launch_registers(8, 1) == 64);
  CHECK(gemm::launch_registers(3, 2) == 80);
  CHECK(gemm::launch_registers(1, 1) == 255);
  CHECK(gemm::launch_registers(2, 1) == 255);
}

TEST_CASE("the budgets of the lessons are possible") {
  CHECK(gemm::is_possible({24, 232}, 1, 2));
  CHECK(gemm::is_possible({24, 240}, 2, 1));
  CHECK(gemm::is_possible({32, 160}, 3, 1));
  CHECK(gemm::is_possible({40, 232}, 2, 1));
  CHECK(gemm::is_possible({24, 24}, 1, 1));
}

TEST_CASE("a budget beyond the launch, or that setmaxnreg can't name, is impossible") {
  // Eight more than the sum leaves room for.
  CHECK_FALSE(gemm::is_possible({24, 240}, 1, 2));
  CHECK_FALSE(gemm::is_possible({32, 232}, 1, 2));
  CHECK_FALSE(gemm::is_possible({32, 240}, 2, 1));
  CHECK_FALSE(gemm::is_possible({24, 248}, 2, 1));
  CHECK_FALSE(gemm::is_possible({40, 160}, 3, 1));
  CHECK_FALSE(gemm::is_possible({32, 168}, 3, 1));
  // A second CTA on the SM halves what there is.
  CHECK_FALSE(gemm::is_possible({24, 240}, 2, 2));
  // Multiples of 8 from 24 to 256.
  CHECK_FALSE(gemm::is_possible({16, 232}, 2, 1));
  CHECK_FALSE(gemm::is_possible({24, 236}, 2, 1));
  CHECK_FALSE(gemm::is_possible({28, 232}, 2, 1));
  CHECK_FALSE(gemm::is_possible({24, 264}, 1, 1));
  CHECK_FALSE(gemm::is_possible({0, 0}, 1, 1));
  CHECK_FALSE(gemm::is_possible({-24, 240}, 2, 1));
}

namespace {

/// The banks, of 4 bytes, that eight lanes of a stmatrix write: a unit of rows `row` to `row` + 7.
template <int columns>
std::multiset<std::uint32_t> banks(int row, int unit) {
  std::multiset<std::uint32_t> touched;
  for (int i = 0; i < 8; ++i) {
    for (int byte = 0; byte < 16; byte += 4) {
      touched.insert((gemm::Chunk<columns>::offset(row + i, unit) + byte) / 4 % 32);
    }
  }
  return touched;
}

template <int columns>
void check_chunk() {
  using Chunk = gemm::Chunk<columns>;
  std::set<std::uint32_t> offsets;
  for (int unit = 0; unit < columns / 8; ++unit) {
    for (int row = 0; row < 64; ++row) {
      INFO(columns << " columns, row " << row << ", unit " << unit);
      const std::uint32_t offset = Chunk::offset(row, unit);
      CHECK(offset % 16 == 0);
      CHECK(offset < Chunk::bytes);
      CHECK(offset / Chunk::row_bytes == static_cast<std::uint32_t>(row));
      CHECK(offsets.insert(offset).second);
      if (row % 8 != 0) continue;
      const std::multiset<std::uint32_t> touched = banks<columns>(row, unit);
      CHECK(std::set<std::uint32_t>(touched.begin(), touched.end()).size() == 32);
    }
  }
}

}  // namespace

TEST_CASE("eight rows of a chunk's unit lie in different banks") {
  check_chunk<40>();
  check_chunk<64>();
  check_chunk<184>();
}

TEST_CASE("a chunk that is not swizzled lies row by row") {
  CHECK(gemm::Chunk<40>::offset(3, 2) == 3 * 80 + 32);
  CHECK(gemm::Chunk<184>::offset(1, 22) == 368 + 352);
  CHECK(gemm::Chunk<64>::offset(0, 5) == 5 * 16);
  CHECK(gemm::Chunk<64>::offset(9, 5) == 9 * 128 + (5 ^ 1) * 16);
}

#include "tests/golden/thread_cases.h"

#include "tests/golden/hash.h"

namespace golden {

std::vector<MatrixCase> matrix_cases() {
  std::vector<MatrixCase> cases;
  for (bool store : {false, true}) {
    for (int matrices : {1, 2, 4}) {
      for (bool transposed : {false, true}) {
        MatrixCase c;
        c.name = std::string(store ? "stmatrix" : "ldmatrix") + ".x" + std::to_string(matrices) +
                 (transposed ? ".trans" : "");
        c.store = store;
        c.matrices = matrices;
        c.transposed = transposed;
        c.seed = static_cast<std::uint32_t>(cases.size() + 1);
        cases.push_back(c);
      }
    }
  }
  return cases;
}

MatrixInputs inputs(const MatrixCase& c) {
  MatrixInputs inputs;
  for (std::uint32_t i = 0; i < matrix_image_words; ++i) {
    inputs.image.push_back(hashed(c.seed, i));
  }
  // An odd multiple takes every lane to another row; there are 128 of 16 bytes.
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    inputs.addresses[lane] = (lane * 37 + c.seed) % 128 * 16;
  }
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(c.matrices) * 32; ++i) {
    inputs.registers.push_back(hashed(c.seed + 100, i));
  }
  return inputs;
}

std::size_t result_words(const MatrixCase& c) {
  return c.store ? matrix_image_words : static_cast<std::size_t>(c.matrices) * 32;
}

std::vector<BarrierCase> barrier_cases() {
  using enum BarrierOperation;
  return {
      {"fresh barrier",
       {{init, 2}, {test_wait_parity, 0}, {test_wait_parity, 1}, {test_wait_parity, 0}}},
      {"one arrival a phase",
       {{init, 1},
        {arrive, 1},
        {test_wait},
        {pending_count},
        {test_wait_parity, 0},
        {test_wait_parity, 1},
        {arrive, 1},
        {test_wait_parity, 0},
        {test_wait_parity, 1},
        {test_wait},
        {arrive, 1},
        {test_wait_parity, 0}}},
      {"three arrivals",
       {{init, 3},
        {arrive, 1},
        {pending_count},
        {test_wait},
        {arrive, 1},
        {pending_count},
        {test_wait_parity, 0},
        {arrive, 1},
        {pending_count},
        {test_wait_parity, 0},
        {test_wait},
        {arrive, 2},
        {pending_count},
        {test_wait_parity, 1},
        {arrive, 1},
        {test_wait_parity, 1}}},
      {"bytes after the arrival",
       {{init, 1},
        {arrive_expect_tx, 1024},
        {test_wait_parity, 0},
        {complete_tx, 1000},
        {test_wait_parity, 0},
        {complete_tx, 24},
        {test_wait_parity, 0},
        {test_wait},
        {arrive_expect_tx, 16},
        {test_wait_parity, 1},
        {complete_tx, 16},
        {test_wait_parity, 1}}},
      {"bytes before the arrival",
       {{init, 1},
        {complete_tx, 64},
        {test_wait_parity, 0},
        {arrive_expect_tx, 64},
        {test_wait_parity, 0},
        {test_wait_parity, 1}}},
      {"expect_tx apart from the arrival",
       {{init, 2},
        {expect_tx, 32},
        {arrive, 1},
        {arrive, 1},
        {test_wait_parity, 0},
        {expect_tx, 32},
        {complete_tx, 32},
        {test_wait_parity, 0},
        {complete_tx, 32},
        {test_wait_parity, 0}}},
      {"arrive_drop lowers the next phases",
       {{init, 3},
        {arrive_drop},
        {pending_count},
        {arrive, 2},
        {test_wait_parity, 0},
        {arrive, 1},
        {pending_count},
        {test_wait_parity, 1},
        {arrive, 1},
        {test_wait_parity, 1},
        {arrive, 2},
        {test_wait_parity, 0}}},
      {"the largest counts",
       {{init, 1048575},
        {arrive, 1048574},
        {pending_count},
        {test_wait_parity, 0},
        {expect_tx, 1048575},
        {arrive, 1},
        {test_wait_parity, 0},
        {complete_tx, 1048575},
        {test_wait_parity, 0}}},
  };
}

std::vector<ClusterCase> cluster_cases() {
  std::vector<ClusterCase> cases{{"", {4, 4, 2}, {1, 1, 1}}, {"", {4, 4, 2}, {2, 1, 1}},
                                 {"", {4, 4, 2}, {1, 2, 1}}, {"", {4, 4, 2}, {2, 2, 2}},
                                 {"", {4, 4, 2}, {4, 2, 1}}, {"", {8, 2, 1}, {8, 1, 1}},
                                 {"", {3, 6, 2}, {3, 1, 2}}, {"", {2, 4, 2}, {1, 4, 1}}};
  const auto text = [](const std::array<std::uint32_t, 3>& size) {
    return std::to_string(size[0]) + "x" + std::to_string(size[1]) + "x" + std::to_string(size[2]);
  };
  for (ClusterCase& c : cases) c.name = "grid " + text(c.grid) + " cluster " + text(c.cluster);
  return cases;
}

}  // namespace golden

// The golden cases of instructions by which threads exchange data and wait for each other:
// ldmatrix, stmatrix, mbarriers, clusters.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace golden {

// ---- ldmatrix and stmatrix.

/// Shared memory of a case, in words.
inline constexpr std::size_t matrix_image_words = 512;

struct MatrixCase {
  std::string name;
  bool store = false;
  int matrices = 1;  ///< 1, 2 or 4
  bool transposed = false;
  std::uint32_t seed = 0;
};

struct MatrixInputs {
  std::vector<std::uint32_t> image;         ///< matrix_image_words
  std::array<std::uint32_t, 32> addresses;  ///< each lane's row, a byte offset in the image
  std::vector<std::uint32_t> registers;     ///< [matrix][lane]: what stmatrix stores
};

std::vector<MatrixCase> matrix_cases();
MatrixInputs inputs(const MatrixCase& c);
/// Words of the result: the registers after ldmatrix, the image after stmatrix.
std::size_t result_words(const MatrixCase& c);

// ---- mbarriers.

enum class BarrierOperation : std::uint32_t {
  init,              ///< with `value` arrivals
  arrive,            ///< `value` times; keeps the state that it returns
  arrive_drop,       ///< once, and never again; keeps the state that it returns
  arrive_expect_tx,  ///< once, announcing `value` bytes; keeps the state that it returns
  expect_tx,         ///< `value` bytes
  complete_tx,       ///< `value` bytes
  test_wait,         ///< for the kept state; result: 0 or 1
  test_wait_parity,  ///< for parity `value`; result: 0 or 1
  pending_count,     ///< of the kept state; result: the arrivals that it lacked
};

struct BarrierStep {
  BarrierOperation operation;
  std::uint32_t value = 0;
};

/// What one thread does with one mbarrier. The result has a word for each step, 0 for those that
/// have no result.
struct BarrierCase {
  std::string name;
  std::vector<BarrierStep> steps;
};

std::vector<BarrierCase> barrier_cases();

// ---- Clusters.

struct ClusterCase {
  std::string name;
  std::array<std::uint32_t, 3> grid;
  std::array<std::uint32_t, 3> cluster;
};

std::vector<ClusterCase> cluster_cases();

/// Words that each CTA of a cluster case writes, in order of its linear index in the grid:
/// %cluster_ctarank, %cluster_nctarank, %cluster_ctaid.{x,y,z}, %clusterid.{x,y,z}; then for each
/// rank r < 8 of the cluster (0 beyond its size) getctarank of mapa to r, and what the CTA reads at
/// mapa(word, r), where each CTA has put 100 + its rank.
inline constexpr std::size_t cluster_words = 24;

}  // namespace golden

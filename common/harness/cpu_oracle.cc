#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "common/harness/oracle.h"
#include "common/harness/parallel.h"

// Functions marked so are compiled twice and chosen when the program starts: for any x86-64, and
// for one with AVX2.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define VECTORIZED __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define VECTORIZED
#endif

namespace harness {
namespace {

// A block of D is computed from panels of A and B that are converted to double once and stay in a
// core's L2 cache: 128 KiB and 64 KiB.
constexpr std::int64_t block_m = 128;
constexpr std::int64_t block_n = 64;
constexpr std::int64_t block_k = 128;

struct Panels {
  std::array<std::array<double, block_k>, block_m> a;
  std::array<std::array<double, block_n>, block_k> b;  ///< transposed: columns of D are contiguous
};

/// Copies the elements [row, row + rows) x [k, k + depth) of a row-major matrix into `to(i, kk)`.
template <class To>
void convert(const __nv_bfloat16* from, std::int64_t pitch, std::int64_t rows, std::int64_t depth,
             To to) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t kk = 0; kk < depth; ++kk) to(i, kk) = __bfloat162float(from[i * pitch + kk]);
  }
}

/// Adds row `i` of the panel of A times the panel of B. The loop over columns has a constant trip
/// count and independent sums, so it vectorizes without reordering any addition; four products
/// at a time save most of the loads and stores of the sums. Products of bf16 are exact in double,
/// so that a fused multiply-add gives the same sums.
VECTORIZED void add_row(const Panels& panels, std::int64_t i, std::int64_t depth,
                        std::int64_t columns, double* sums, double* magnitudes) {
  std::array<double, block_n> sum{}, magnitude{};
  const auto& a = panels.a[i];
  for (std::int64_t kk = 0; kk < depth; kk += 4) {
    for (std::int64_t j = 0; j < block_n; ++j) {
      const double p0 = a[kk] * panels.b[kk][j], p1 = a[kk + 1] * panels.b[kk + 1][j],
                   p2 = a[kk + 2] * panels.b[kk + 2][j], p3 = a[kk + 3] * panels.b[kk + 3][j];
      sum[j] += (p0 + p1) + (p2 + p3);
      magnitude[j] += (std::abs(p0) + std::abs(p1)) + (std::abs(p2) + std::abs(p3));
    }
  }
  for (std::int64_t j = 0; j < columns; ++j) {
    sums[j] += sum[j];
    magnitudes[j] += magnitude[j];
  }
}

class CpuOracle : public Oracle {
 public:
  explicit CpuOracle(const Workload& workload) : workload_(workload) {}

  std::string name() const override { return "CPU, double precision"; }

  void rows(std::int64_t first, std::int64_t count, std::span<double> sums,
            std::span<double> magnitudes) override {
    std::fill(sums.begin(), sums.end(), 0.0);
    std::fill(magnitudes.begin(), magnitudes.end(), 0.0);
    const std::int64_t n = workload_.problem().n;
    const std::int64_t blocks_m = (count + block_m - 1) / block_m;
    const std::int64_t blocks_n = (n + block_n - 1) / block_n;
    parallel_for(blocks_m * blocks_n, [&](std::int64_t begin, std::int64_t end) {
      const auto panels = std::make_unique<Panels>();
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t row = block / blocks_n * block_m, column = block % blocks_n * block_n;
        multiply_block(*panels, first + row, std::min(block_m, count - row), column,
                       std::min(block_n, n - column), sums.data() + row * n + column,
                       magnitudes.data() + row * n + column);
      }
    });
  }

 private:
  /// Adds the products of rows [row, row + rows) of A and [column, column + columns) of B.
  void multiply_block(Panels& panels, std::int64_t row, std::int64_t rows, std::int64_t column,
                      std::int64_t columns, double* sums, double* magnitudes) const {
    const gemm::Problem& problem = workload_.problem();
    for (std::int64_t k = 0; k < problem.k; k += block_k) {
      const std::int64_t depth = std::min<std::int64_t>(block_k, problem.k - k);
      panels = {};
      convert(workload_.host_a().data() + row * problem.lda + k, problem.lda, rows, depth,
              [&](std::int64_t i, std::int64_t kk) -> double& { return panels.a[i][kk]; });
      convert(workload_.host_b().data() + column * problem.ldb + k, problem.ldb, columns, depth,
              [&](std::int64_t j, std::int64_t kk) -> double& { return panels.b[kk][j]; });
      for (std::int64_t i = 0; i < rows; ++i) {
        add_row(panels, i, depth, columns, sums + i * problem.n, magnitudes + i * problem.n);
      }
    }
  }

  const Workload& workload_;
};

}  // namespace

std::unique_ptr<Oracle> cpu_oracle(const Workload& workload) {
  return std::make_unique<CpuOracle>(workload);
}

}  // namespace harness

#include "common/harness/oracle.h"

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "common/device/errors.h"
#include "common/harness/cublas_library.h"
#include "tests/catch.h"
#include "tests/unit/host_device.h"

namespace {

/// Compares rows [first, first + count) with the three loops of the definition.
void check_rows(const harness::Workload& workload, std::int64_t first, std::int64_t count) {
  const gemm::Problem& problem = workload.problem();
  const std::unique_ptr<harness::Oracle> oracle = harness::cpu_oracle(workload);
  // Filled with what must be overwritten.
  std::vector<double> sums(count * problem.n, 1e30), magnitudes(count * problem.n, 1e30);
  oracle->rows(first, count, sums, magnitudes);
  double worst = 0;
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t column = 0; column < problem.n; ++column) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < problem.k; ++k) {
        const double product = static_cast<double>(__bfloat162float(
                                   workload.host_a()[(first + row) * problem.lda + k])) *
                               __bfloat162float(workload.host_b()[column * problem.ldb + k]);
        sum += product;
        magnitude += std::abs(product);
      }
      const std::int64_t at = row * problem.n + column;
      // Each order makes at most k roundings of 2^-53.
      const double bound = 2 * problem.k * 0x1p-53 * magnitude;
      REQUIRE(std::abs(sums[at] - sum) <= bound);
      REQUIRE(std::abs(magnitudes[at] - magnitude) <= bound);
      worst = std::max(worst, magnitude);
    }
  }
  CHECK((worst > 0 || problem.k == 0 || count == 0));
}

}  // namespace

TEST_CASE("The CPU oracle is the product", "[oracle]") {
  const std::vector<std::array<int, 3>> shapes = {{1, 1, 1},      {7, 9, 65},     {1, 8, 8},
                                                  {128, 64, 128}, {129, 136, 72}, {130, 66, 259},
                                                  {16, 16, 0},    {3, 2, 1000}};
  tests::HostDevice device;
  for (const auto& [m, n, k] : shapes) {
    for (const harness::Init init : {harness::Init::normal, harness::Init::index}) {
      for (const std::uint64_t seed : {1, 7}) {
        INFO(m << " x " << n << " x " << k << ", " << harness::name(init) << ", seed " << seed);
        harness::Options options;
        options.m = m;
        options.n = n;
        options.k = k;
        options.init = init;
        options.seed = seed;
        options.ldb = (k + 15) / 8 * 8;
        check_rows(harness::Workload(device, options, 8), 0, m);
      }
    }
  }
}

TEST_CASE("The CPU oracle computes the rows it is asked for", "[oracle]") {
  tests::HostDevice device;
  harness::Options options;
  options.m = 300;
  options.n = 70;
  options.k = 40;
  const harness::Workload workload(device, options, 8);
  check_rows(workload, 0, 1);
  check_rows(workload, 131, 140);
  check_rows(workload, 299, 1);
  check_rows(workload, 40, 0);
}

TEST_CASE("A cuBLAS status that is not success is a failure in words", "[oracle]") {
  CHECK_NOTHROW(harness::check_cublas(CUBLAS_STATUS_SUCCESS, "cublasGemmEx"));
  try {
    harness::check_cublas(CUBLAS_STATUS_NOT_SUPPORTED, "cublasGemmEx");
    FAIL("no exception");
  } catch (const device::Failure& failure) {
    const std::string message = failure.what();
    INFO(message);
    // The status has a name where cuBLAS is installed; elsewhere the message says what to install.
    CHECK((message.find("cublasGemmEx failed: ") == 0 ||
           message.find("cuBLAS could not be opened") == 0));
  }
}

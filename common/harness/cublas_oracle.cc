#include "common/harness/cublas_oracle.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/device/concat.h"
#include "common/device/errors.h"
#include "common/harness/cublas_library.h"
#include "common/harness/oracle.h"
#include "common/harness/parallel.h"

namespace harness {
namespace {

/// A row-major matrix in device memory, `pitch` elements from row to row.
struct Matrix {
  const void* address;
  std::int64_t pitch;
};

/// out = A * B^T, A m x k, B n x k, bf16, out m x n of `type`; m, n, k > 0.
///
/// cuBLAS thinks in column-major matrices, and a row-major matrix is the column-major transpose of
/// itself: A is a k x m one, B a k x n one, out an n x m one, each with its pitch as leading
/// dimension. What cuBLAS is asked for is therefore out^T = (k x n)^T * (k x m): B comes first and
/// is transposed, A second and is not, and the result has n rows and m columns.
void multiply(const CublasHandle& handle, std::int64_t m, std::int64_t n, std::int64_t k, Matrix a,
              Matrix b, void* out, cudaDataType_t type, std::int64_t out_pitch) {
  const float one = 1, zero = 0;
  check_cublas(
      cublas_library().gemm_ex_64(handle.get(), CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, b.address,
                                  CUDA_R_16BF, b.pitch, a.address, CUDA_R_16BF, a.pitch, &zero, out,
                                  type, out_pitch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      "cublasGemmEx_64");
}

/// A handle whose products are summed in fp32 throughout: default math uses no TF32, and the flag
/// keeps split-K from adding partial sums in the output type.
void require_full_precision(const CublasHandle& handle) {
  constexpr int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  check_cublas(cublas_library().set_math_mode(handle.get(), static_cast<cublasMath_t>(mode)),
               "cublasSetMathMode");
}

/// |matrix| on the device: bf16 keeps the sign in bit 15.
device::Buffer upload_magnitudes(device::Device& device, std::span<const __nv_bfloat16> matrix) {
  std::vector<__nv_bfloat16> magnitudes(matrix.size());
  parallel_for(std::ssize(matrix), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      magnitudes[i] = __ushort_as_bfloat16(__bfloat16_as_ushort(matrix[i]) & 0x7FFF);
    }
  });
  device::Buffer buffer(device, matrix.size_bytes());
  device.copy_to_device(buffer.address(), magnitudes.data(), matrix.size_bytes());
  return buffer;
}

/// One element in double precision.
struct Dot {
  double sum = 0, magnitude = 0;
  bool integers = true;  ///< all factors are whole numbers
};

Dot dot(const Workload& workload, std::int64_t row, std::int64_t column) {
  const gemm::Problem& problem = workload.problem();
  const __nv_bfloat16* const a = workload.host_a().data() + row * problem.lda;
  const __nv_bfloat16* const b = workload.host_b().data() + column * problem.ldb;
  Dot result;
  for (std::int64_t k = 0; k < problem.k; ++k) {
    const double x = __bfloat162float(a[k]), y = __bfloat162float(b[k]);
    result.sum += x * y;
    result.magnitude += std::abs(x * y);
    result.integers = result.integers && x == std::trunc(x) && y == std::trunc(y);
  }
  return result;
}

class CublasOracle : public Oracle {
 public:
  CublasOracle(device::Device& device, const Workload& workload)
      : device_(device), workload_(workload) {
    if (workload.problem().k == 0) return;
    require_full_precision(handle_);
    magnitudes_a_ = upload_magnitudes(device, workload.host_a());
    magnitudes_b_ = upload_magnitudes(device, workload.host_b());
  }

  std::string name() const override { return "cuBLAS " + cublas_version() + ", fp32"; }

  void rows(std::int64_t first, std::int64_t count, std::span<double> sums,
            std::span<double> magnitudes) override {
    const gemm::Problem& problem = workload_.problem();
    if (count == 0 || problem.n == 0) return;
    if (problem.k == 0) {
      std::fill(sums.begin(), sums.end(), 0.0);
      std::fill(magnitudes.begin(), magnitudes.end(), 0.0);
      return;
    }
    product(first, count, problem.a, problem.b, sums);
    product(first, count, static_cast<const __nv_bfloat16*>(magnitudes_a_.address()),
            static_cast<const __nv_bfloat16*>(magnitudes_b_.address()), magnitudes);
    spot_check(first, count, sums, magnitudes);
  }

 private:
  /// Rows [first, first + count) of A * B^T, for A and B with the problem's shapes and pitches.
  void product(std::int64_t first, std::int64_t count, const __nv_bfloat16* a,
               const __nv_bfloat16* b, std::span<double> to) {
    const gemm::Problem& problem = workload_.problem();
    std::vector<float> host(to.size());
    const std::size_t bytes = host.size() * sizeof(float);
    const device::Buffer out(device_, bytes);
    multiply(handle_, count, problem.n, problem.k, {a + first * problem.lda, problem.lda},
             {b, problem.ldb}, out.address(), CUDA_R_32F, problem.n);
    device_.synchronize();
    device_.copy_to_host(host.data(), out.address(), bytes);
    std::copy(host.begin(), host.end(), to.begin());
  }

  /// Compares the corners of a block of rows, and 60 elements in between, with double precision.
  void spot_check(std::int64_t first, std::int64_t count, std::span<const double> sums,
                  std::span<const double> magnitudes) const {
    const std::int64_t last_row = count - 1, last_column = workload_.problem().n - 1;
    for (const std::int64_t row : {std::int64_t{0}, last_row}) {
      for (const std::int64_t column : {std::int64_t{0}, last_column}) {
        check_element(first, row, column, sums, magnitudes);
      }
    }
    std::mt19937_64 random(first);
    for (int i = 0; i < 60; ++i) {
      const std::int64_t row = std::uniform_int_distribution(std::int64_t{0}, last_row)(random);
      const std::int64_t column =
          std::uniform_int_distribution(std::int64_t{0}, last_column)(random);
      check_element(first, row, column, sums, magnitudes);
    }
  }

  void check_element(std::int64_t first, std::int64_t row, std::int64_t column,
                     std::span<const double> sums, std::span<const double> magnitudes) const {
    const gemm::Problem& problem = workload_.problem();
    const Dot exact = dot(workload_, first + row, column);
    // Whole numbers below 2^24 add up exactly in fp32, in whatever order.
    const double bound = exact.integers && exact.magnitude <= 0x1p24
                             ? 0
                             : accumulation_bound(problem.k, exact.magnitude);
    const std::int64_t at = row * problem.n + column;
    // Written so that NaN is off.
    if (std::abs(sums[at] - exact.sum) <= bound &&
        std::abs(magnitudes[at] - exact.magnitude) <= bound) {
      return;
    }
    throw device::Failure(device::concat(
        "The oracle itself is off, and no lesson can be judged by it: for element (", first + row,
        ", ", column, ") of the ", problem.m, " x ", problem.n, " x ", problem.k, " product, ",
        name(), " has the sum ", sums[at], " and the sum of magnitudes ", magnitudes[at],
        ", double precision has ", exact.sum, " and ", exact.magnitude, " (+- ", bound,
        "). Try another version of cuBLAS."));
  }

  device::Device& device_;
  const Workload& workload_;
  CublasHandle handle_;
  device::Buffer magnitudes_a_, magnitudes_b_;
};

}  // namespace

std::unique_ptr<Oracle> cublas_oracle(device::Device& device, const Workload& workload) {
  return std::make_unique<CublasOracle>(device, workload);
}

Verdict check_cublas_against_double(device::Device& device, int m, int n, int k,
                                    std::uint64_t seed) {
  Options options;
  options.m = m;
  options.n = n;
  options.k = k;
  options.seed = seed;
  constexpr int pitch_multiple = 8;
  const Workload workload(device, options, pitch_multiple);
  const gemm::Problem& problem = workload.problem();
  const CublasHandle handle;
  require_full_precision(handle);
  multiply(handle, m, n, k, {problem.a, problem.lda}, {problem.b, problem.ldb}, problem.d,
           CUDA_R_16BF, problem.ldd);
  device.synchronize();
  return judge(workload, *cpu_oracle(workload));
}

}  // namespace harness

#include "common/harness/fp8_library.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/device/errors.h"
#include "common/harness/cublas_library.h"
#include "common/harness/cublas_lt.h"

namespace harness {
namespace {

cudaDataType_t data_type(ptx::Fp8 type) {
  return type == ptx::Fp8::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

cudaDataType_t data_type(gemm::Output output) {
  if (output == gemm::Output::bf16) return CUDA_R_16BF;
  return data_type(output == gemm::Output::e4m3 ? ptx::Fp8::e4m3 : ptx::Fp8::e5m2);
}

/// Tells the library that each row of both operands has a factor.
void set_vector_scales(CublasLtOperation& operation) {
#if CUBLAS_VER_MAJOR * 100 + CUBLAS_VER_MINOR >= 1209
  operation.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
  operation.set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
#else
  throw device::Failure(
      "This program was built with a cuBLAS older than 12.9, which has no factors for rows; verify "
      "the lesson alone with --check-only, or build it with a newer one.");
#endif
}

/// What the library has of `problem`: factors for rows only of both operands, and only if D is
/// bf16; an e5m2 D only if an operand is of that type.
gemm::ScaledProblem nearest_product(gemm::ScaledProblem problem) {
  const bool has_vectors = problem.scale_a.step == 1 && problem.scale_b.step == 1;
  if (!has_vectors || problem.output != gemm::Output::bf16) {
    problem.scale_a.step = 0;
    problem.scale_b.step = 0;
  }
  if (problem.output == gemm::Output::e5m2 && problem.type_a == problem.type_b) {
    problem.output = gemm::Output::bf16;
  }
  return problem;
}

/// As in baseline.cc, B comes first: a row-major matrix is the column-major transpose of itself.
class Fp8Matmul {
 public:
  Fp8Matmul(device::Device& device, const gemm::ScaledProblem& p, bool precise, int most_algorithms)
      : p_(p),
        d_(device,
           static_cast<std::size_t>(p.m * p.ldd) * (p.output == gemm::Output::bf16 ? 2 : 1)),
        scale_d_(device, sizeof(float)),
        workspace_(device, workspace_bytes),
        b_layout_(data_type(p.type_b), p.k, p.n, p.ldb),
        a_layout_(data_type(p.type_a), p.k, p.m, p.lda),
        c_layout_(CUDA_R_16BF, p.n, p.m, p.ldc),
        d_layout_(data_type(p.output), p.n, p.m, p.ldd) {
    operation_.set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{!precise});
    operation_.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.scale_b.values);
    operation_.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.scale_a.values);
    if (p.scale_a.step == 1) set_vector_scales(operation_);
    if (p.output != gemm::Output::bf16) {
      device.copy_to_device(scale_d_.address(), &p.scale_d, sizeof(p.scale_d));
      operation_.set(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, scale_d_.address());
      operation_.set(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, static_cast<void*>(p.amax));
    }
    algorithms_ =
        suggested_algorithms(handle_, operation_, {b_layout_, a_layout_, c_layout_, d_layout_},
                             workspace_bytes, most_algorithms);
  }

  std::size_t algorithms() const { return algorithms_.size(); }

  void launch(std::size_t algorithm) const {
    check_cublas(cublas_library().lt_matmul(handle_.get(), operation_.get(), &p_.alpha, p_.b,
                                            b_layout_.get(), p_.a, a_layout_.get(), &p_.beta, p_.c,
                                            c_layout_.get(), d_.address(), d_layout_.get(),
                                            &algorithms_[algorithm], workspace_.address(),
                                            workspace_.bytes(), nullptr),
                 "cublasLtMatmul");
  }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{256} << 20;

  gemm::ScaledProblem p_;
  device::Buffer d_, scale_d_, workspace_;
  CublasLtHandle handle_;
  CublasLtOperation operation_;
  CublasLtLayout b_layout_, a_layout_, c_layout_, d_layout_;
  std::vector<cublasLtMatmulAlgo_t> algorithms_;
};

std::string contender_name(const gemm::ScaledProblem& problem, bool precise) {
  const gemm::ScaledProblem nearest = nearest_product(problem);
  const bool has_vector = problem.scale_a.step == 1 || problem.scale_b.step == 1;
  std::string name =
      std::string("cublasLtMatmul, ") + (precise ? "precise" : "fast") + " accumulation";
  if (has_vector && nearest.scale_a.step == 0) {
    name += ", one scale for each of A and B";
    if (problem.scale_a.step == problem.scale_b.step) name += " (it has no others for such a D)";
  }
  if (nearest.output != problem.output) name += ", D in bf16 (it has no such D)";
  if (problem.blocks != gemm::BlockScales::none) name += ", no block scales";
  return name;
}

}  // namespace

std::vector<Contender> fp8_library_contenders(device::Device& device,
                                              const gemm::ScaledProblem& problem, bool precise,
                                              Baseline baseline) {
  if (problem.type_a == ptx::Fp8::e5m2 && problem.type_b == ptx::Fp8::e5m2) {
    throw device::Failure(
        "cuBLASLt does not multiply e5m2 by e5m2, so there is nothing to time the lesson beside; "
        "verify it alone with --check-only.");
  }
  const auto add = [&](std::vector<Contender>& contenders, bool is_precise, int most) {
    const auto matmul =
        std::make_shared<Fp8Matmul>(device, nearest_product(problem), is_precise, most);
    for (std::size_t i = 0; i < matmul->algorithms(); ++i) {
      contenders.push_back({contender_name(problem, is_precise) +
                                (most > 1 ? ", heuristic " + std::to_string(i + 1) : ""),
                            [matmul, i] { matmul->launch(i); }});
    }
  };
  std::vector<Contender> contenders;
  if (baseline == Baseline::best) {
    constexpr int best_of = 8;
    add(contenders, precise, best_of);
  } else {
    add(contenders, precise, 1);
    add(contenders, !precise, 1);
  }
  return contenders;
}

}  // namespace harness

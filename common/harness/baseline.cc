#include "common/harness/baseline.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/device/concat.h"
#include "common/device/errors.h"
#include "common/harness/cublas_library.h"
#include "common/harness/cublas_lt.h"

namespace harness {
namespace {

// cuBLAS is column-major, and a row-major matrix is the transpose of a column-major one with the
// same leading dimension. So it computes D^T = alpha * B * A^T + beta * C^T, n x m: its first
// operand is B, stored k x n and transposed back; its second is A, stored k x m.

/// Computes in place (beta = 0), as most programs call the library.
class GemmEx {
 public:
  GemmEx(device::Device& device, const gemm::Problem& problem)
      : problem_(problem),
        d_(device, static_cast<std::size_t>(problem.m * problem.ldd) * sizeof(__nv_bfloat16)) {}

  void launch() const {
    check_cublas(cublas_library().gemm_ex_64(
                     handle_.get(), CUBLAS_OP_T, CUBLAS_OP_N, problem_.n, problem_.m, problem_.k,
                     &problem_.alpha, problem_.b, CUDA_R_16BF, problem_.ldb, problem_.a,
                     CUDA_R_16BF, problem_.lda, &problem_.beta, d_.address(), CUDA_R_16BF,
                     problem_.ldd, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                 "cublasGemmEx");
  }

 private:
  gemm::Problem problem_;
  device::Buffer d_;
  CublasHandle handle_;
};

/// The operation, with an epilogue behind it. cuBLASLt's D is the transpose of ours: its bias has
/// an element for each of its rows, which are our columns.
CublasLtOperation& with_epilogue(CublasLtOperation& operation, const LtEpilogue& epilogue) {
  operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue.operation);
  if (epilogue.bias != nullptr) operation.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
  if (epilogue.aux != nullptr) {
    operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, epilogue.aux);
    operation.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, epilogue.ld_aux);
  }
  return operation;
}

/// cublasLtMatmul with the algorithms that its heuristics suggest, C and D apart.
class LtMatmul {
 public:
  LtMatmul(device::Device& device, const gemm::Problem& problem, int most_algorithms,
           const LtEpilogue& epilogue = {})
      : problem_(problem),
        d_(device, static_cast<std::size_t>(problem.m * problem.ldd) * sizeof(__nv_bfloat16)),
        workspace_(device, workspace_bytes),
        b_layout_(CUDA_R_16BF, problem.k, problem.n, problem.ldb),
        a_layout_(CUDA_R_16BF, problem.k, problem.m, problem.lda),
        c_layout_(CUDA_R_16BF, problem.n, problem.m, problem.ldc),
        d_layout_(CUDA_R_16BF, problem.n, problem.m, problem.ldd),
        algorithms_(suggested_algorithms(handle_, with_epilogue(operation_, epilogue),
                                         {b_layout_, a_layout_, c_layout_, d_layout_},
                                         workspace_bytes, most_algorithms)) {}

  std::size_t algorithms() const { return algorithms_.size(); }
  const __nv_bfloat16* d() const { return static_cast<const __nv_bfloat16*>(d_.address()); }

  void launch(std::size_t algorithm) const {
    check_cublas(cublas_library().lt_matmul(
                     handle_.get(), operation_.get(), &problem_.alpha, problem_.b, b_layout_.get(),
                     problem_.a, a_layout_.get(), &problem_.beta, problem_.c, c_layout_.get(),
                     d_.address(), d_layout_.get(), &algorithms_[algorithm], workspace_.address(),
                     workspace_.bytes(), nullptr),
                 "cublasLtMatmul");
  }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{256} << 20;

  gemm::Problem problem_;
  device::Buffer d_, workspace_;
  CublasLtHandle handle_;
  CublasLtOperation operation_;
  CublasLtLayout b_layout_, a_layout_, c_layout_, d_layout_;
  std::vector<cublasLtMatmulAlgo_t> algorithms_;
};

/// The pointers of a list, in device memory.
template <class Pointer>
device::Buffer upload(device::Device& device, const std::vector<Pointer>& pointers) {
  device::Buffer buffer(device, pointers.size() * sizeof(Pointer));
  device.copy_to_device(buffer.address(), pointers.data(), buffer.bytes());
  return buffer;
}

/// Many problems, all in place, in one call or in a call for each. The arrays are those that
/// cublasGemmGroupedBatchedEx takes, each of its groups being one problem.
class GemmGroups {
 public:
  GemmGroups(device::Device& device, std::span<const gemm::Problem> problems) {
    for (const gemm::Problem& p : problems) {
      if (p.m == 0 || p.n == 0 || p.k == 0) continue;
      m_.push_back(p.m);
      n_.push_back(p.n);
      k_.push_back(p.k);
      alpha_.push_back(p.alpha);
      beta_.push_back(p.beta);
      a_.push_back(p.a);
      b_.push_back(p.b);
      lda_.push_back(p.lda);
      ldb_.push_back(p.ldb);
      ldd_.push_back(p.ldd);
      d_.emplace_back(device, static_cast<std::size_t>(p.m * p.ldd) * sizeof(__nv_bfloat16));
      device.fill(d_.back().address(), 0, d_.back().bytes());
      d_addresses_.push_back(d_.back().address());
    }
    transposed_.assign(m_.size(), CUBLAS_OP_T);
    plain_.assign(m_.size(), CUBLAS_OP_N);
    ones_.assign(m_.size(), 1);
    device_a_ = upload(device, a_);
    device_b_ = upload(device, b_);
    device_d_ = upload(device, d_addresses_);
  }

  void launch_grouped() const {
    check_cublas(cublas_library().gemm_grouped_batched_ex_64(
                     handle_.get(), transposed_.data(), plain_.data(), n_.data(), m_.data(),
                     k_.data(), alpha_.data(), inputs(device_b_), CUDA_R_16BF, ldb_.data(),
                     inputs(device_a_), CUDA_R_16BF, lda_.data(), beta_.data(),
                     static_cast<void* const*>(device_d_.address()), CUDA_R_16BF, ldd_.data(),
                     static_cast<std::int64_t>(m_.size()), ones_.data(), CUBLAS_COMPUTE_32F),
                 "cublasGemmGroupedBatchedEx");
  }

  void launch_one_by_one() const {
    for (std::size_t i = 0; i < m_.size(); ++i) {
      check_cublas(
          cublas_library().gemm_ex_64(handle_.get(), CUBLAS_OP_T, CUBLAS_OP_N, n_[i], m_[i], k_[i],
                                      &alpha_[i], b_[i], CUDA_R_16BF, ldb_[i], a_[i], CUDA_R_16BF,
                                      lda_[i], &beta_[i], d_addresses_[i], CUDA_R_16BF, ldd_[i],
                                      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
    }
  }

 private:
  static const void* const* inputs(const device::Buffer& pointers) {
    return static_cast<const void* const*>(pointers.address());
  }

  std::vector<std::int64_t> m_, n_, k_, lda_, ldb_, ldd_, ones_;
  std::vector<float> alpha_, beta_;
  std::vector<cublasOperation_t> transposed_, plain_;
  std::vector<const void*> a_, b_;
  std::vector<device::Buffer> d_;
  std::vector<void*> d_addresses_;
  device::Buffer device_a_, device_b_, device_d_;
  CublasHandle handle_;
};

}  // namespace

std::vector<Contender> library_contenders(device::Device& device, const gemm::Problem& problem,
                                          Baseline baseline) {
  const bool in_place = problem.beta == 0;
  std::vector<Contender> contenders;
  if (in_place) {
    const auto gemm = std::make_shared<GemmEx>(device, problem);
    contenders.push_back({"cublasGemmEx", [gemm] { gemm->launch(); }});
  }
  if (!in_place || baseline == Baseline::best) {
    for (Contender& contender :
         epilogue_contenders(device, problem, {}, "cublasLtMatmul", baseline)) {
      contenders.push_back(std::move(contender));
    }
  }
  return contenders;
}

std::vector<Contender> grouped_library_contenders(device::Device& device,
                                                  std::span<const gemm::Problem> problems) {
  const auto groups = std::make_shared<GemmGroups>(device, problems);
  return {{"cublasGemmGroupedBatchedEx", [groups] { groups->launch_grouped(); }},
          {"cublasGemmEx, one by one", [groups] { groups->launch_one_by_one(); }}};
}

std::vector<Contender> epilogue_contenders(device::Device& device, const gemm::Problem& problem,
                                           const LtEpilogue& epilogue, const std::string& name,
                                           Baseline baseline) {
  constexpr int best_of = 8;
  const int most_algorithms = baseline == Baseline::best ? best_of : 1;
  const auto matmul = std::make_shared<LtMatmul>(device, problem, most_algorithms, epilogue);
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < matmul->algorithms(); ++i) {
    contenders.push_back(
        {name + ", heuristic " + std::to_string(i + 1), [matmul, i] { matmul->launch(i); }});
  }
  return contenders;
}

Contender two_kernels(device::Device& device, const gemm::Problem& problem,
                      const std::function<std::function<void()>(const __nv_bfloat16* d)>& second) {
  const auto matmul = std::make_shared<LtMatmul>(device, problem, 1);
  const std::function<void()> launch_second = second(matmul->d());
  return {"cublasLtMatmul, then another kernel", [matmul, launch_second] {
            matmul->launch(0);
            launch_second();
          }};
}

void require_right(device::Device& device, const Contender& contender,
                   const std::function<Verdict()>& judge) {
  contender.launch();
  device.synchronize();
  const Verdict verdict = judge();
  if (verdict.wrong == 0 && verdict.damaged_guard_bytes == 0) return;
  throw device::Failure(device::concat(
      contender.name, ": what the lesson would be timed beside computes wrong results (",
      verdict.wrong,
      " elements), so there is nothing to compare with; verify the lesson alone "
      "with --check-only."));
}

}  // namespace harness

// cuBLAS and cuBLASLt, opened at run time: a program that only prints --help, or runs on the
// emulator, needs neither of them installed.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

#include <string>

namespace harness {

/// The entry points of cuBLAS and cuBLASLt that the harness calls. Each member has the type of the
/// function in NVIDIA's header; the cuBLAS library documentation says what it does.
struct CublasLibrary {
  decltype(&cublasGetStatusString) get_status_string;
  decltype(&cublasGetProperty) get_property;
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasSetPointerMode_v2) set_pointer_mode;
  decltype(&cublasGemmEx_64) gemm_ex_64;
  decltype(&cublasGemmGroupedBatchedEx_64) gemm_grouped_batched_ex_64;
  decltype(&cublasSasum_v2_64) sasum_64;

  decltype(&cublasLtCreate) lt_create;
  decltype(&cublasLtDestroy) lt_destroy;
  decltype(&cublasLtMatmulDescCreate) lt_matmul_desc_create;
  decltype(&cublasLtMatmulDescSetAttribute) lt_matmul_desc_set_attribute;
  decltype(&cublasLtMatmulDescDestroy) lt_matmul_desc_destroy;
  decltype(&cublasLtMatrixLayoutCreate) lt_matrix_layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) lt_matrix_layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) lt_matmul_preference_create;
  decltype(&cublasLtMatmulPreferenceSetAttribute) lt_matmul_preference_set_attribute;
  decltype(&cublasLtMatmulPreferenceDestroy) lt_matmul_preference_destroy;
  decltype(&cublasLtMatmulAlgoGetHeuristic) lt_matmul_algo_get_heuristic;
  decltype(&cublasLtMatmul) lt_matmul;
};

/// The libraries, opened by the first call and kept for the life of the process. Throws
/// device::Failure, which says what to install, when they or one of the entry points are missing.
const CublasLibrary& cublas_library();

/// The version of the library that was opened, "13.1.0". Throws what cublas_library() throws.
std::string cublas_version();

/// Throws device::Failure unless `status` is success; the message names `call` ("cublasGemmEx") and
/// the status.
void check_cublas(cublasStatus_t status, const char* call);

/// A cuBLAS context that destroys itself: default stream, scalars from host memory, default math.
class CublasHandle {
 public:
  CublasHandle();
  ~CublasHandle();
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;
  cublasHandle_t get() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

/// A cuBLASLt context that destroys itself.
class CublasLtHandle {
 public:
  CublasLtHandle();
  ~CublasLtHandle();
  CublasLtHandle(const CublasLtHandle&) = delete;
  CublasLtHandle& operator=(const CublasLtHandle&) = delete;
  cublasLtHandle_t get() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace harness

#include "common/harness/cublas_lt.h"

#include "common/device/errors.h"

namespace harness {
namespace {

/// What the heuristics may spend: a workspace of `bytes`.
class Preference {
 public:
  explicit Preference(std::size_t bytes) {
    check_cublas(cublas_library().lt_matmul_preference_create(&preference_),
                 "cublasLtMatmulPreferenceCreate");
    check_cublas(cublas_library().lt_matmul_preference_set_attribute(
                     preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)),
                 "cublasLtMatmulPreferenceSetAttribute");
  }
  ~Preference() { cublas_library().lt_matmul_preference_destroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

CublasLtLayout::CublasLtLayout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                               std::int64_t leading_dimension) {
  check_cublas(
      cublas_library().lt_matrix_layout_create(&layout_, type, rows, columns, leading_dimension),
      "cublasLtMatrixLayoutCreate");
}

CublasLtLayout::~CublasLtLayout() {
  cublas_library().lt_matrix_layout_destroy(layout_);
}

CublasLtOperation::CublasLtOperation() {
  check_cublas(cublas_library().lt_matmul_desc_create(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescCreate");
  set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
}

CublasLtOperation::~CublasLtOperation() {
  cublas_library().lt_matmul_desc_destroy(operation_);
}

void CublasLtOperation::set_bytes(cublasLtMatmulDescAttributes_t attribute, const void* value,
                                  std::size_t bytes) {
  check_cublas(cublas_library().lt_matmul_desc_set_attribute(operation_, attribute, value, bytes),
               "cublasLtMatmulDescSetAttribute");
}

std::vector<cublasLtMatmulAlgo_t> suggested_algorithms(const CublasLtHandle& handle,
                                                       const CublasLtOperation& operation,
                                                       const CublasLtMatrices& matrices,
                                                       std::size_t workspace_bytes, int most) {
  const Preference preference(workspace_bytes);
  std::vector<cublasLtMatmulHeuristicResult_t> suggestions(static_cast<std::size_t>(most));
  int found = 0;
  check_cublas(
      cublas_library().lt_matmul_algo_get_heuristic(
          handle.get(), operation.get(), matrices.first.get(), matrices.second.get(),
          matrices.c.get(), matrices.d.get(), preference.get(), most, suggestions.data(), &found),
      "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& suggestion = suggestions[static_cast<std::size_t>(i)];
    if (suggestion.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(suggestion.algo);
  }
  if (algorithms.empty()) {
    throw device::Failure(
        "cuBLASLt's heuristics know no algorithm for this problem, so there is nothing to time "
        "the lesson beside; verify it alone with --check-only.");
  }
  return algorithms;
}

}  // namespace harness

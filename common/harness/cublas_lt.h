// What a call of cublasLtMatmul is made of, in objects that destroy themselves. Every constructor
// throws device::Failure when the library refuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/harness/cublas_library.h"

namespace harness {

/// A column-major matrix.
class CublasLtLayout {
 public:
  CublasLtLayout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                 std::int64_t leading_dimension);
  ~CublasLtLayout();
  CublasLtLayout(const CublasLtLayout&) = delete;
  CublasLtLayout& operator=(const CublasLtLayout&) = delete;
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

/// The operation: first operand transposed, fp32 accumulation and scalars.
class CublasLtOperation {
 public:
  CublasLtOperation();
  ~CublasLtOperation();
  CublasLtOperation(const CublasLtOperation&) = delete;
  CublasLtOperation& operator=(const CublasLtOperation&) = delete;
  cublasLtMatmulDesc_t get() const { return operation_; }

  /// Sets an attribute to a value of the type that the library's documentation asks for.
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    set_bytes(attribute, &value, sizeof(value));
  }

 private:
  void set_bytes(cublasLtMatmulDescAttributes_t attribute, const void* value, std::size_t bytes);

  cublasLtMatmulDesc_t operation_ = nullptr;
};

/// The four matrices in the order of the call: D = first^T * second + C.
struct CublasLtMatrices {
  const CublasLtLayout &first, &second, &c, &d;
};

/// At most `most` algorithms that the heuristics suggest for a workspace of `workspace_bytes`, the
/// library's own choice first. Throws device::Failure in words when they know none.
std::vector<cublasLtMatmulAlgo_t> suggested_algorithms(const CublasLtHandle& handle,
                                                       const CublasLtOperation& operation,
                                                       const CublasLtMatrices& matrices,
                                                       std::size_t workspace_bytes, int most);

}  // namespace harness

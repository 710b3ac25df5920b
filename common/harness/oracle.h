// Who says what the product should be: cuBLAS with fp32 accumulation and output, or double
// precision on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/device/device.h"
#include "common/harness/workload.h"

namespace harness {

/// For each element, the sum of products and the sum of their magnitudes. The second one scales
/// the error that any order of fp32 accumulation may make (see verdict.h).
class Oracle {
 public:
  virtual ~Oracle() = default;
  /// "cuBLAS 13.1, fp32" or "CPU, double precision".
  virtual std::string name() const = 0;
  /// For rows [first, first + count): sums[i * n + j] = sum_k a b, magnitudes[...] = sum_k |a||b|.
  virtual void rows(std::int64_t first, std::int64_t count, std::span<double> sums,
                    std::span<double> magnitudes) = 0;
};

/// Double precision, blocked, on all cores; 1024^3 takes about a second on two.
std::unique_ptr<Oracle> cpu_oracle(const Workload& workload);

/// cublasGemmEx, bf16 inputs, fp32 accumulation and output, no reduced-precision reduction. Of what
/// a call of rows() computes, 64 elements are compared with double precision: if one differs, the
/// oracle itself is off, and device::Failure says so, so that no lesson is blamed for it.
std::unique_ptr<Oracle> cublas_oracle(device::Device& device, const Workload& workload);

}  // namespace harness

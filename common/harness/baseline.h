// What a lesson is timed beside: the library that it is trying to catch up with.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/device/device.h"
#include "common/gemm/problem.h"
#include "common/harness/cublas_library.h"
#include "common/harness/options.h"
#include "common/harness/timing.h"
#include "common/harness/verdict.h"

namespace harness {

/// The library's ways to compute `problem`, k > 0, on the same A, B and C into a D of their own.
///
/// The first is the library as one calls it: cublasGemmEx; with beta != 0 cublasLtMatmul with its
/// own first choice of algorithm, because cublasGemmEx overwrites C. With Baseline::best there
/// follow up to eight of the algorithms that cuBLASLt's heuristics suggest for a workspace of
/// 256 MiB. CUDA back end only.
std::vector<Contender> library_contenders(device::Device& device, const gemm::Problem& problem,
                                          Baseline baseline);

/// The library's ways to compute many problems of the same alpha and beta, on the same A and B,
/// with C and D in memory of their own: cublasGemmGroupedBatchedEx, and a loop of cublasGemmEx.
/// Problems without elements or with k = 0 are left out; one at least must be left. CUDA back end
/// only.
std::vector<Contender> grouped_library_contenders(device::Device& device,
                                                  std::span<const gemm::Problem> problems);

/// What cublasLtMatmul does to a product on its way out.
struct LtEpilogue {
  cublasLtEpilogue_t operation = CUBLASLT_EPILOGUE_DEFAULT;
  /// n elements, one for each column of D; or where the bias' gradient is put.
  const __nv_bfloat16* bias = nullptr;
  const __nv_bfloat16* aux = nullptr;  ///< m x n, written or read
  std::int64_t ld_aux = 0;
};

/// cublasLtMatmul with this epilogue, under that name: with its own first choice of algorithm,
/// then, with Baseline::best, with the others that its heuristics suggest. CUDA back end only.
std::vector<Contender> epilogue_contenders(device::Device& device, const gemm::Problem& problem,
                                           const LtEpilogue& epilogue, const std::string& name,
                                           Baseline baseline);

/// cublasLtMatmul with its own first choice of algorithm, then the launch that `second` returns for
/// its D (m x n, problem.ldd elements from row to row). CUDA back end only.
Contender two_kernels(device::Device& device, const gemm::Problem& problem,
                      const std::function<std::function<void()>(const __nv_bfloat16* d)>& second);

/// Launches a contender that is not the library's alone, once. device::Failure if `judge` finds
/// that what it computed is wrong: then there is nothing to time a lesson beside. It may write to
/// the padding of rows.
void require_right(device::Device& device, const Contender& contender,
                   const std::function<Verdict()>& judge);

}  // namespace harness

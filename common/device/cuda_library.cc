#include "common/device/cuda_library.h"

#include <array>

#include "common/device/concat.h"
#include "common/device/cuda_status.h"
#include "common/device/errors.h"

namespace device {
namespace {

constexpr std::size_t log_bytes = 16384;

}  // namespace

#if CUDART_VERSION >= 12080

CudaLibrary::CudaLibrary(const PtxSource& source) : source_(source), log_(log_bytes) {
  std::array<cudaJitOption, 2> options{cudaJitErrorLogBuffer, cudaJitErrorLogBufferSizeBytes};
  // The second one is the number itself in place of an address.
  std::array<void*, 2> values{log_.data(), reinterpret_cast<void*>(log_.size())};
  check_load(cudaLibraryLoadData(&library_, std::string(source.text()).c_str(), options.data(),
                                 values.data(), static_cast<unsigned>(options.size()), nullptr,
                                 nullptr, 0),
             "cudaLibraryLoadData");
}

const void* CudaLibrary::kernel(std::string_view entry) const {
  cudaKernel_t kernel = nullptr;
  check_load(cudaLibraryGetKernel(&kernel, library_, std::string(entry).c_str()),
             concat("cudaLibraryGetKernel of ", entry));
  return kernel;
}

#else

CudaLibrary::CudaLibrary(const PtxSource& source) : source_(source) {
  throw Failure(
      "This program was built with a CUDA toolkit older than 12.8, whose runtime can't load PTX. "
      "Build it with a newer one, or run the PTX with --device emulator.");
}

const void* CudaLibrary::kernel(std::string_view) const {
  return nullptr;
}

#endif

void CudaLibrary::check_load(cudaError_t status, std::string_view call) const {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  const std::string log = log_.empty() ? "" : log_.data();
  source_.refuse(concat("the driver does not take this PTX (", call, ": ", error_text(status), ")",
                        log.empty() ? "." : ":\n", log));
}

}  // namespace device

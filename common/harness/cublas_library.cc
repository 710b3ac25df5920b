#include "common/harness/cublas_library.h"

#include <dlfcn.h>

#include <string>

#include "common/device/concat.h"
#include "common/device/errors.h"

namespace harness {
namespace {

/// Opens `library` ("libcublas.so") in the major version this program was compiled against, else in
/// another one whose entry points have the same types.
void* open_library(const std::string& library) {
  std::string reason;
  for (const int major : {CUBLAS_VER_MAJOR, 13, 12}) {
    const std::string file = library + "." + std::to_string(major);
    if (void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    if (reason.empty()) reason = dlerror();
  }
  throw device::Failure(
      device::concat("cuBLAS could not be opened (", reason,
                     "). Install it (libcublas-13-0 from NVIDIA's package repository, or "
                     "nvidia-cublas from PyPI) and put its folder on LD_LIBRARY_PATH."));
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw device::Failure(
        device::concat("cuBLAS has no entry point ", name, ": install cuBLAS 12.5 or newer."));
  }
}

CublasLibrary open_both() {
  CublasLibrary table;
  // First, because libcublas needs it, and takes the one that is open.
  void* const lt = open_library("libcublasLt.so");
  find(lt, "cublasLtCreate", table.lt_create);
  find(lt, "cublasLtDestroy", table.lt_destroy);
  find(lt, "cublasLtMatmulDescCreate", table.lt_matmul_desc_create);
  find(lt, "cublasLtMatmulDescSetAttribute", table.lt_matmul_desc_set_attribute);
  find(lt, "cublasLtMatmulDescDestroy", table.lt_matmul_desc_destroy);
  find(lt, "cublasLtMatrixLayoutCreate", table.lt_matrix_layout_create);
  find(lt, "cublasLtMatrixLayoutDestroy", table.lt_matrix_layout_destroy);
  find(lt, "cublasLtMatmulPreferenceCreate", table.lt_matmul_preference_create);
  find(lt, "cublasLtMatmulPreferenceSetAttribute", table.lt_matmul_preference_set_attribute);
  find(lt, "cublasLtMatmulPreferenceDestroy", table.lt_matmul_preference_destroy);
  find(lt, "cublasLtMatmulAlgoGetHeuristic", table.lt_matmul_algo_get_heuristic);
  find(lt, "cublasLtMatmul", table.lt_matmul);

  void* const cublas = open_library("libcublas.so");
  find(cublas, "cublasGetStatusString", table.get_status_string);
  find(cublas, "cublasGetProperty", table.get_property);
  find(cublas, "cublasCreate_v2", table.create);
  find(cublas, "cublasDestroy_v2", table.destroy);
  find(cublas, "cublasSetMathMode", table.set_math_mode);
  find(cublas, "cublasSetPointerMode_v2", table.set_pointer_mode);
  find(cublas, "cublasGemmEx_64", table.gemm_ex_64);
  find(cublas, "cublasGemmGroupedBatchedEx_64", table.gemm_grouped_batched_ex_64);
  find(cublas, "cublasSasum_v2_64", table.sasum_64);
  return table;
}

int property(libraryPropertyType type) {
  int value = 0;
  check_cublas(cublas_library().get_property(type, &value), "cublasGetProperty");
  return value;
}

}  // namespace

const CublasLibrary& cublas_library() {
  static const CublasLibrary library = open_both();
  return library;
}

std::string cublas_version() {
  return device::concat(property(MAJOR_VERSION), ".", property(MINOR_VERSION), ".",
                        property(PATCH_LEVEL));
}

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw device::Failure(device::concat(call,
                                       " failed: ", cublas_library().get_status_string(status),
                                       " (status ", static_cast<int>(status), ")."));
}

CublasHandle::CublasHandle() {
  check_cublas(cublas_library().create(&handle_), "cublasCreate");
}

// A destructor can't report: a failed launch was reported by the call that waited for it.
CublasHandle::~CublasHandle() {
  cublas_library().destroy(handle_);
}

CublasLtHandle::CublasLtHandle() {
  check_cublas(cublas_library().lt_create(&handle_), "cublasLtCreate");
}

CublasLtHandle::~CublasLtHandle() {
  cublas_library().lt_destroy(handle_);
}

}  // namespace harness

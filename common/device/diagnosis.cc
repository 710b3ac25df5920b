#include "common/device/diagnosis.h"

#include "common/device/concat.h"
#include "common/device/cuda_status.h"
#include "common/device/errors.h"

namespace device {
namespace {

bool is_hopper(const Gpu& gpu) {
  return gpu.major == 9 && gpu.minor == 0;
}

/// "NVIDIA A100 (sm_80)"
std::string gpu_text(const Gpu& gpu) {
  return concat(gpu.name, " (sm_", gpu.major, gpu.minor, ")");
}

std::string gpus_text(const std::vector<Gpu>& gpus) {
  std::string list;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (i > 0) list += i + 1 == gpus.size() ? " and " : ", ";
    list += gpu_text(gpus[i]);
  }
  return list;
}

std::string no_driver() {
  return "There is no NVIDIA driver: the CUDA runtime could not load libcuda.so.1. Install the "
         "driver, or run on a machine that has one. A container needs it passed in (docker run "
         "--gpus all).";
}

std::string stub_driver() {
  return "The libcuda.so.1 that was found is the toolkit's stub, not a driver: a `stubs` folder is "
         "on the library path. Take it out of LD_LIBRARY_PATH; it serves linking only.";
}

std::string old_driver(const Findings& findings) {
  return concat("The NVIDIA driver is too old: it supports CUDA ",
                version_text(findings.driver_version), ", and this program was built with CUDA ",
                version_text(findings.runtime_version),
                ". Update the driver, or build with an older toolkit.");
}

std::string nothing_visible(const Findings& findings) {
  if (findings.visible_devices) {
    return concat("No GPU is visible: CUDA_VISIBLE_DEVICES is \"", *findings.visible_devices,
                  "\". Unset it, or set it to the index of a Hopper GPU (nvidia-smi -L lists "
                  "them).");
  }
  return "The NVIDIA driver sees no GPU. Check that nvidia-smi -L lists one; a container needs it "
         "passed in (docker run --gpus all).";
}

std::string not_hopper(const Findings& findings) {
  std::string sentence = concat("This program needs Hopper (sm_90), found ",
                                gpus_text(findings.gpus), ". Run it on an H100, H200 or GH200.");
  if (findings.visible_devices) {
    sentence +=
        concat(" CUDA_VISIBLE_DEVICES is \"", *findings.visible_devices, "\" and may hide one.");
  }
  return sentence;
}

std::string unusable(const Findings& findings) {
  return concat("cudaGetDeviceCount failed: ", error_text(findings.status),
                ". Run nvidia-smi: if it fails too, the driver needs repair (after an update, a "
                "reboot).");
}

std::string why_unavailable(const Findings& findings) {
  switch (findings.status) {
    case cudaSuccess:
      return findings.gpus.empty() ? nothing_visible(findings) : not_hopper(findings);
    case cudaErrorNoDevice:
      return nothing_visible(findings);
    case cudaErrorStubLibrary:
      return stub_driver();
    case cudaErrorInsufficientDriver:
      // The runtime gives this answer for a missing driver too.
      if (findings.driver_version == 0) return no_driver();
      if (findings.driver_version < findings.runtime_version) return old_driver(findings);
      return unusable(findings);
    default:
      return unusable(findings);
  }
}

}  // namespace

int choose_gpu(const Findings& findings) {
  for (std::size_t i = 0; i < findings.gpus.size(); ++i) {
    if (is_hopper(findings.gpus[i])) return static_cast<int>(i);
  }
  throw Unavailable(why_unavailable(findings));
}

std::string describe_context_failure(cudaError_t status, const Gpu& gpu) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return concat(gpu_text(gpu),
                    " has no memory left for a CUDA context (cudaSetDevice: ", error_text(status),
                    "). nvidia-smi shows who holds it.");
    case cudaErrorDevicesUnavailable:
      return concat(gpu_text(gpu),
                    " is busy or in exclusive mode (cudaSetDevice: ", error_text(status),
                    "). Wait for the other process, or ask for the default compute mode.");
    default:
      return concat("No CUDA context could be made on ", gpu_text(gpu),
                    " (cudaSetDevice: ", error_text(status),
                    "). Run nvidia-smi: it shows the GPU's state.");
  }
}

std::string version_text(int version) {
  return concat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace device

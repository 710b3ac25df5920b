// Each way to have no GPU has its own sentence, and each sentence its way out.
#include "common/device/diagnosis.h"

#include <string>
#include <vector>

#include "common/device/errors.h"
#include "tests/catch.h"
#include "tests/unit/message.h"

using device::Findings;
using device::Gpu;

namespace {

Findings found(std::vector<Gpu> gpus) {
  Findings findings;
  findings.driver_version = 13000;
  findings.runtime_version = 13000;
  findings.gpus = std::move(gpus);
  return findings;
}

Findings failed(cudaError_t status, int driver_version) {
  Findings findings = found({});
  findings.status = status;
  findings.driver_version = driver_version;
  return findings;
}

std::string diagnosis(const Findings& findings) {
  return tests::message_of<device::Unavailable>([&] { device::choose_gpu(findings); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the first GPU that is exactly sm_90 is chosen") {
  CHECK(device::choose_gpu(found({{"NVIDIA H200", 9, 0}})) == 0);
  CHECK(device::choose_gpu(found({{"NVIDIA A100", 8, 0}, {"NVIDIA H100", 9, 0}})) == 1);
  CHECK(device::choose_gpu(found({{"NVIDIA H100", 9, 0}, {"NVIDIA H200", 9, 0}})) == 0);
}

TEST_CASE("GPUs that are not sm_90 are refused, newer ones included") {
  CHECK(diagnosis(found({{"NVIDIA A100", 8, 0}})) ==
        "This program needs Hopper (sm_90), found NVIDIA A100 (sm_80). Run it on an H100, H200 or "
        "GH200.");
  CHECK(contains(diagnosis(found({{"NVIDIA L40", 8, 9}})), "found NVIDIA L40 (sm_89)."));
  CHECK(contains(diagnosis(found({{"NVIDIA B200", 10, 0}})), "found NVIDIA B200 (sm_100)."));
  CHECK(contains(diagnosis(found({{"RTX 5090", 12, 0}})), "found RTX 5090 (sm_120)."));
  CHECK(contains(diagnosis(found({{"A", 8, 0}, {"B", 8, 6}, {"C", 12, 1}})),
                 "found A (sm_80), B (sm_86) and C (sm_121)."));
  Findings hidden = found({{"NVIDIA A100", 8, 0}});
  hidden.visible_devices = "1";
  CHECK(contains(diagnosis(hidden), "CUDA_VISIBLE_DEVICES is \"1\" and may hide one."));
}

TEST_CASE("a missing driver is not called an old one") {
  const std::string missing = diagnosis(failed(cudaErrorInsufficientDriver, 0));
  CHECK(contains(missing, "There is no NVIDIA driver"));
  const std::string old = diagnosis(failed(cudaErrorInsufficientDriver, 12020));
  CHECK(contains(old, "supports CUDA 12.2"));
  CHECK(contains(old, "built with CUDA 13.0"));
  CHECK_FALSE(contains(old, "no NVIDIA driver"));
}

TEST_CASE("a driver that is new enough is not called old") {
  const std::string sentence = diagnosis(failed(cudaErrorInsufficientDriver, 13000));
  CHECK_FALSE(contains(sentence, "too old"));
  CHECK(contains(sentence, "cudaErrorInsufficientDriver"));
}

TEST_CASE("a stub library is called one") {
  const std::string sentence = diagnosis(failed(cudaErrorStubLibrary, 0));
  CHECK(contains(sentence, "stub"));
  CHECK(contains(sentence, "LD_LIBRARY_PATH"));
}

TEST_CASE("no visible GPU: the sentence quotes CUDA_VISIBLE_DEVICES if it is set") {
  for (Findings findings : {failed(cudaErrorNoDevice, 13000), found({})}) {
    CHECK(contains(diagnosis(findings), "The NVIDIA driver sees no GPU"));
    findings.visible_devices = "";
    CHECK(contains(diagnosis(findings), "CUDA_VISIBLE_DEVICES is \"\""));
    findings.visible_devices = "7";
    CHECK(contains(diagnosis(findings), "CUDA_VISIBLE_DEVICES is \"7\""));
  }
}

TEST_CASE("any other error is named with its call") {
  const std::string sentence = diagnosis(failed(cudaErrorSystemDriverMismatch, 13000));
  CHECK(contains(sentence, "cudaGetDeviceCount failed: cudaErrorSystemDriverMismatch"));
}

TEST_CASE("a failed context names the GPU, the call and the way out") {
  const Gpu gpu{"NVIDIA H200", 9, 0};
  const std::string memory = device::describe_context_failure(cudaErrorMemoryAllocation, gpu);
  CHECK(contains(memory, "NVIDIA H200 (sm_90) has no memory left"));
  CHECK(contains(memory, "cudaSetDevice: cudaErrorMemoryAllocation"));
  const std::string busy = device::describe_context_failure(cudaErrorDevicesUnavailable, gpu);
  CHECK(contains(busy, "busy or in exclusive mode"));
  const std::string other = device::describe_context_failure(cudaErrorECCUncorrectable, gpu);
  CHECK(contains(other, "No CUDA context could be made on NVIDIA H200 (sm_90)"));
  CHECK(contains(other, "cudaErrorECCUncorrectable"));
}

TEST_CASE("versions are written as NVIDIA writes them") {
  CHECK(device::version_text(13000) == "13.0");
  CHECK(device::version_text(12080) == "12.8");
  CHECK(device::version_text(12010) == "12.1");
}

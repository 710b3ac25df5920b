// What the device interface does without a GPU: packing, buffers, launch rules, error words.
#include "common/device/device.h"

#include <string>
#include <utility>
#include <vector>

#include "common/device/cuda_status.h"
#include "common/device/errors.h"
#include "common/device/launch_check.h"
#include "tests/catch.h"
#include "tests/unit/host_device.h"
#include "tests/unit/message.h"

using device::Buffer;
using device::Choice;
using device::LaunchLimits;
using device::LaunchShape;

namespace {

/// Keeps what its last launch passed.
class Recorder : public tests::HostDevice {
 public:
  struct Value {
    std::vector<unsigned char> bytes;
    std::size_t alignment;
  };
  LaunchShape shape;
  const void* kernel = nullptr;
  std::vector<Value> values;

 protected:
  void launch_packed(const LaunchShape& launch_shape, const void* address,
                     std::span<const device::Argument> arguments) override {
    shape = launch_shape;
    kernel = address;
    values.clear();
    for (const device::Argument& argument : arguments) {
      const auto* const first = static_cast<const unsigned char*>(argument.address);
      values.push_back({{first, first + argument.size}, argument.alignment});
    }
  }
};

/// Aligned beyond what any scalar is, as a tensor map is.
struct Aligned {
  alignas(16) unsigned char bytes[128];
};

void kernel(Aligned, const float*, int) {}
void no_arguments() {}

std::string refusal(const LaunchShape& shape) {
  return tests::message_of<device::Failure>([&] {
    device::check_launch("k()", shape,
                         LaunchLimits{.threads_per_block = 384,
                                      .static_shared_bytes = 1024,
                                      .shared_bytes_per_block = 232448});
  });
}

/// The name of the machine that `choice` opens, or why there is none.
std::string opened(Choice choice) {
  try {
    return device::open({.choice = choice})->properties().name;
  } catch (const device::Unavailable& error) {
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a launch packs its arguments as the kernel's parameter types") {
  Recorder recorder;
  Aligned first{};
  first.bytes[127] = 0x5A;
  recorder.launch({.grid = {2, 3}, .block = {128}, .shared_bytes = 7}, kernel, first, nullptr, 'A');

  CHECK(recorder.shape.grid.y == 3);
  CHECK(recorder.shape.grid.z == 1);
  CHECK(recorder.shape.block.x == 128);
  CHECK(recorder.shape.cluster.x == 1);
  CHECK(recorder.shape.shared_bytes == 7);
  CHECK(recorder.kernel == reinterpret_cast<const void*>(&kernel));
  REQUIRE(recorder.values.size() == 3);
  CHECK(recorder.values[0].bytes.size() == 128);
  CHECK(recorder.values[0].bytes[127] == 0x5A);
  CHECK(recorder.values[0].alignment == 16);
  CHECK(recorder.values[1].bytes == std::vector<unsigned char>(8, 0));
  CHECK(recorder.values[1].alignment == 8);
  CHECK(recorder.values[2].bytes == std::vector<unsigned char>{'A', 0, 0, 0});  // an int
  CHECK(recorder.values[2].alignment == 4);

  recorder.launch({}, no_arguments);
  CHECK(recorder.values.empty());
}

TEST_CASE("a buffer releases its memory once, whoever holds it last") {
  tests::HostDevice device;
  {
    Buffer first(device, 1000);
    const void* const address = first.address();
    const std::size_t held = device.allocated_bytes();
    CHECK(held >= 1000);
    Buffer second = std::move(first);
    CHECK(second.address() == address);
    CHECK(second.bytes() == 1000);
    CHECK(first.address() == nullptr);
    Buffer third;
    third = std::move(second);
    CHECK(third.address() == address);
    CHECK(device.allocated_bytes() == held);
  }
  CHECK(device.allocated_bytes() == 0);
}

TEST_CASE("automatic takes the GPU, or the emulator with the reason why there is none") {
  CHECK(opened(Choice::emulator) == "PTX emulator");
  CHECK(device::open({.choice = Choice::emulator})->properties().instead_of_gpu.empty());
  const std::string gpu = opened(Choice::cuda);
  CHECK_FALSE(gpu.empty());
  const device::Properties automatic = device::open({})->properties();
  if (automatic.name == "PTX emulator") {
    CHECK(automatic.instead_of_gpu == gpu);
  } else {
    CHECK(automatic.name == gpu);
    CHECK(automatic.instead_of_gpu.empty());
  }
}

TEST_CASE("grids have 1 to 2^31 - 1 CTAs in x and 1 to 65535 in y and z") {
  CHECK(refusal({}).empty());
  CHECK(refusal({.grid = {2147483647, 65535, 65535}}).empty());
  for (const device::Extent grid : {device::Extent{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}) {
    CHECK(contains(refusal({.grid = grid}), "Launch nothing where there is nothing to do."));
  }
  CHECK(contains(refusal({.grid = {2147483648, 1, 1}}), "grid of 2147483648 x 1 x 1 CTAs"));
  CHECK(contains(refusal({.grid = {1, 65536, 1}}), "the most is 2147483647 x 65535 x 65535"));
  CHECK_FALSE(refusal({.grid = {1, 1, 65536}}).empty());
}

TEST_CASE("blocks have no more threads than the kernel allows") {
  CHECK(refusal({.block = {384}}).empty());
  CHECK(refusal({.block = {3, 2, 64}}).empty());
  CHECK(contains(refusal({.block = {385}}), "with 385 threads per CTA"));
  CHECK(contains(refusal({.block = {385}}), "allow 384."));
  CHECK(contains(refusal({.block = {0}}), "blocks of 0 x 1 x 1 threads"));
  CHECK_FALSE(refusal({.block = {1, 1, 65}}).empty());
  CHECK_FALSE(refusal({.block = {1025}}).empty());
}

TEST_CASE("clusters have 1 to 16 CTAs and divide the grid") {
  CHECK(refusal({.grid = {32}, .cluster = {16}}).empty());
  CHECK(refusal({.grid = {4, 32}, .cluster = {4, 2}}).empty());
  CHECK(contains(refusal({.grid = {34}, .cluster = {17}}), "clusters of 17 x 1 x 1 CTAs"));
  CHECK_FALSE(refusal({.grid = {8, 8}, .cluster = {8, 4}}).empty());
  CHECK_FALSE(refusal({.grid = {8}, .cluster = {0}}).empty());
  // Reported by users of another library: 33 rows of CTAs in clusters of 4 x 2.
  CHECK(refusal({.grid = {4, 33}, .cluster = {4, 2}}) ==
        "Kernel k() is launched on a grid of 4 x 33 x 1 CTAs, which clusters of 4 x 2 x 1 don't "
        "divide. Round the grid up.");
}

TEST_CASE("static and dynamic shared memory together fit into the device's") {
  CHECK(refusal({.shared_bytes = 48 * 1024}).empty());
  CHECK(refusal({.shared_bytes = 232448 - 1024}).empty());
  CHECK(refusal({.shared_bytes = 232448 - 1023}) ==
        "Kernel k() asks for 231425 bytes of dynamic and 1024 of static shared memory per CTA; the "
        "device has 232448. Take fewer stages or a smaller tile.");
}

TEST_CASE("a failed status is thrown with its call, its name and its meaning") {
  CHECK_NOTHROW(device::check(cudaSuccess, "cudaMalloc"));
  CHECK(tests::message_of<device::Failure>([] {
          device::check(cudaErrorMemoryAllocation, "cudaMalloc");
        }) == "cudaMalloc failed: cudaErrorMemoryAllocation (out of memory).");
}

TEST_CASE("errors of kernels are told from errors of calls") {
  CHECK(device::is_kernel_fault(cudaErrorIllegalAddress));
  CHECK(device::is_kernel_fault(cudaErrorLaunchFailure));
  CHECK(device::is_kernel_fault(cudaErrorIllegalInstruction));
  CHECK_FALSE(device::is_kernel_fault(cudaSuccess));
  CHECK_FALSE(device::is_kernel_fault(cudaErrorNotReady));
  CHECK_FALSE(device::is_kernel_fault(cudaErrorMemoryAllocation));
  CHECK_FALSE(device::is_kernel_fault(cudaErrorInvalidConfiguration));
}

// The emulator back end: memory, tensor maps, launches, and what becomes of a kernel's mistakes.
#include "common/device/emulator_device.h"

#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "common/device/errors.h"
#include "common/device/kernel_registry.h"
#include "common/emulator/tensor_map_record.h"
#include "tests/catch.h"
#include "tests/unit/message.h"

namespace {

using device::Buffer;
using device::EmulatorDevice;
using device::Hazards;
using device::Request;

// Host functions that stand for kernels of the PTX below: EmulatorDevice knows them by address.
void twice(int*, int) {}
void hang(int*) {}
void spin(int*) {}
void spell(int*) {}
void missing(int*) {}

/// Registers the functions above, as nvcc's start-up code does for kernels.
const bool registered = [] {
  device::register_kernel(reinterpret_cast<const void*>(&twice), "twice");
  device::register_kernel(reinterpret_cast<const void*>(&hang), "hang");
  device::register_kernel(reinterpret_cast<const void*>(&spin), "spin");
  device::register_kernel(reinterpret_cast<const void*>(&spell), "spell");
  device::register_kernel(reinterpret_cast<const void*>(&missing), "missing");
  return true;
}();

const std::string ptx = R"(.version 8.0
.target sm_90a
.address_size 64

// data[i] *= 2 for i < n
.visible .entry twice(.param .u64 data, .param .u32 n)
.maxntid 128, 1, 1
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  .reg .pred %p;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r4, [n];
  setp.ge.s32 %p, %r1, %r4;
  @%p ret;
  ld.param.u64 %rd1, [data];
  mul.wide.s32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.u32 %r5, [%rd1];
  add.u32 %r5, %r5, %r5;
  st.global.u32 [%rd1], %r5;
  ret;
}

// Waits for an arrival that never comes.
.visible .entry hang(.param .u64 data)
{
  .reg .b32 %r<2>;
  .reg .pred %p;
  .shared .align 8 .b8 full[8];
  mov.u32 %r1, full;
  mbarrier.init.shared::cta.b64 [%r1], 1;
again:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%r1], 0;
  @!%p bra again;
  ret;
}

// Counts for ever.
.visible .entry spin(.param .u64 data)
{
  .reg .b32 %r<2>;
  mov.u32 %r1, 0;
again:
  add.u32 %r1, %r1, 1;
  bra again;
}

// An instruction that there is not.
.visible .entry spell(.param .u64 data)
{
  .reg .b32 %r<2>;
  abracadabra.u32 %r1, 0;
  ret;
}
)";

Request request(std::string text = ptx) {
  return {.choice = device::Choice::emulator, .ptx = device::PtxFile{"test.ptx", std::move(text)}};
}

Hazards hazards(const EmulatorDevice& device) {
  REQUIRE(device.hazards().has_value());
  return *device.hazards();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a launch on the emulator computes, and nothing is found", "[emulator device]") {
  REQUIRE(registered);
  for (const auto schedule :
       {device::Schedule::fair, device::Schedule::random, device::Schedule::adversarial}) {
    Request with_schedule = request();
    with_schedule.schedule = schedule;
    EmulatorDevice device(with_schedule);
    std::vector<int> host(300);
    std::iota(host.begin(), host.end(), 0);
    const Buffer buffer(device, host.size() * sizeof(int));
    device.copy_to_device(buffer.address(), host.data(), buffer.bytes());
    device.launch({.grid = {3}, .block = {128}}, twice, static_cast<int*>(buffer.address()), 299);
    device.synchronize();
    device.copy_to_host(host.data(), buffer.address(), buffer.bytes());
    for (int i = 0; i < 299; ++i) REQUIRE(host[static_cast<std::size_t>(i)] == 2 * i);
    CHECK(host[299] == 299);
    CHECK(hazards(device).count == 0);
    CHECK(hazards(device).text.empty());
  }
}

TEST_CASE("hazards name the conditions of the search", "[emulator device]") {
  CHECK(hazards(EmulatorDevice(request())).conditions == "schedule fair, seed 1");
  Request other = request();
  other.schedule = device::Schedule::adversarial;
  other.seed = 7;
  other.strict = true;
  CHECK(hazards(EmulatorDevice(other)).conditions == "schedule adversarial, seed 7, strict");
}

TEST_CASE("a fault is a hazard, folded over launches, and the device goes on",
          "[emulator device]") {
  EmulatorDevice device(request());
  const Buffer buffer(device, 100 * sizeof(int));
  device.fill(buffer.address(), 0, buffer.bytes());
  int* const data = static_cast<int*>(buffer.address());
  const auto overrun = [&] { device.launch({.grid = {1}, .block = {128}}, twice, data, 101); };
  overrun();
  const Hazards once = hazards(device);
  CHECK(once.count == 1);
  CHECK(contains(once.text, "out-of-bounds"));
  CHECK(contains(once.text, "warp 3 of CTA 0 (lane 4)"));
  overrun();
  CHECK(hazards(device).count == 1);
  CHECK(contains(hazards(device).text, "2 times"));
  device.launch({.grid = {1}, .block = {128}}, twice, data, 100);
  CHECK(hazards(device).count == 1);
}

TEST_CASE("a deadlock is a hazard that names the barrier", "[emulator device]") {
  EmulatorDevice device(request());
  device.launch({}, hang, nullptr);
  CHECK(hazards(device).count >= 1);
  CHECK(contains(hazards(device).text, "deadlock"));
  CHECK(contains(hazards(device).text, "full"));
}

TEST_CASE("the end of the time limit is told with the kernel and the limit", "[emulator device]") {
  EmulatorDevice device(request());
  device.set_time_limit(0.05);
  device.launch({}, spin, nullptr);
  CHECK(hazards(device).count >= 1);
  CHECK(contains(hazards(device).text, "Kernel spin did not end within 0.05 s"));
}

TEST_CASE("PTX of the user's that can't be run is refused with its file", "[emulator device]") {
  using tests::message_of;
  const auto refusal = [](const std::string& text, auto kernel) {
    EmulatorDevice device(request(text));
    return message_of<device::InvalidPtx>([&] { device.launch({}, kernel, nullptr); });
  };
  CHECK(contains(refusal(ptx, spell), "test.ptx: "));
  CHECK(contains(refusal(ptx, spell), "abracadabra"));
  CHECK(contains(refusal(ptx, missing), "test.ptx: The PTX has no entry missing."));
  CHECK(contains(refusal("", missing), "test.ptx: "));
  CHECK(contains(
      refusal(".version 8.0\n.target sm_90a\n.visible .entry spin(.param .u64 data) {", spin),
      "test.ptx: PTX line"));
  CHECK(contains(refusal(".version 8.0\n.entry spin(.param .u32 data) { ret; }", spin),
                 "Argument 1 of kernel spin is 8 bytes, aligned to 8, but its PTX has 4 bytes"));
}

TEST_CASE("a program without PTX has nothing for the emulator to run", "[emulator device]") {
  EmulatorDevice device(Request{.choice = device::Choice::emulator});
  CHECK_THROWS_AS(device.launch({}, hang, nullptr), device::Failure);
}

TEST_CASE("launches obey a Hopper GPU's limits and the kernel's bounds", "[emulator device]") {
  EmulatorDevice device(request());
  const auto refusal = [&](const device::LaunchShape& shape) {
    return tests::message_of<device::Failure>([&] { device.launch(shape, twice, nullptr, 0); });
  };
  CHECK(refusal({.block = {128}}).empty());
  CHECK(contains(refusal({.block = {129}}), "allow 128."));
  CHECK(contains(refusal({.grid = {0}}), "Launch nothing"));
  CHECK(contains(refusal({.grid = {3}, .cluster = {2}}), "Round the grid up."));
  CHECK(contains(refusal({.shared_bytes = 232449}), "the device has 232448"));
}

TEST_CASE("entries are launched by name too, and arguments checked by size", "[emulator device]") {
  EmulatorDevice device(request());
  const std::array<device::Argument, 1> none{device::Argument{nullptr, 0, 1}};
  CHECK(contains(tests::message_of<device::InvalidPtx>(
                     [&] { device.launch_entry("twice", {}, std::span(none).first(0)); }),
                 "twice takes 2 arguments, not 0."));
  CHECK(contains(tests::message_of<device::InvalidPtx>(
                     [&] { device.launch_entry("thrice", {}, std::span(none).first(0)); }),
                 "no entry thrice"));
}

TEST_CASE("emulated memory is aligned, unique, and checked at its ends", "[emulator device]") {
  EmulatorDevice device(request());
  const Buffer buffer(device, 1000), empty(device, 0);
  CHECK(reinterpret_cast<std::uintptr_t>(buffer.address()) % 256 == 0);
  CHECK(empty.address() != nullptr);
  CHECK(empty.address() != buffer.address());

  std::vector<unsigned char> host(1001);
  device.fill(buffer.address(), 0x5A, 1000);
  device.copy_to_host(host.data(), buffer.address(), 1000);
  CHECK(host == [] {
    std::vector<unsigned char> expected(1001, 0x5A);
    expected.back() = 0;
    return expected;
  }());
  CHECK_THROWS_AS(device.fill(buffer.address(), 0, 1001), device::Failure);
  CHECK_THROWS_AS(device.copy_to_host(host.data(), buffer.address(), 1001), device::Failure);
  CHECK_THROWS_AS(device.copy_to_device(buffer.address(), host.data(), 1001), device::Failure);
  CHECK_THROWS_AS(device.allocate(std::size_t{1} << 60), device::Failure);
}

TEST_CASE("a tensor map is validated and encoded for the emulator", "[emulator device]") {
  EmulatorDevice device(request());
  const Buffer buffer(device, 64 * 72 * 2);
  device::TensorMap map = device::matrix_map("A", device::ElementType::bf16, buffer.address(), 64,
                                             65, 72, 32, 64, device::Swizzle::b128);
  map.out_of_bounds = device::OutOfBounds::nans;
  map.l2_promotion = device::L2Promotion::b256;
  const CUtensorMap encoded = device.encode(map);
  emulator::TensorMapBytes bytes;
  std::memcpy(bytes.data(), &encoded, sizeof(encoded));
  REQUIRE_FALSE(emulator::tensor_map_error(bytes).has_value());
  const emulator::TensorMapRecord record = emulator::decode_tensor_map(bytes);
  CHECK(record.type == emulator::TensorType::bf16);
  CHECK(record.rank == 2);
  CHECK(record.address == reinterpret_cast<std::uint64_t>(buffer.address()));
  CHECK(record.extent == std::array<std::uint64_t, 5>{65, 64, 1, 1, 1});
  CHECK(record.stride == std::array<std::uint64_t, 4>{144, 0, 0, 0});
  CHECK(record.box == std::array<std::uint32_t, 5>{64, 32, 1, 1, 1});
  CHECK(record.element_stride == std::array<std::uint32_t, 5>{1, 1, 1, 1, 1});
  CHECK(record.swizzle == emulator::SwizzleMode::b128);
  CHECK(record.interleave == emulator::TensorInterleave::none);
  CHECK(record.fill == emulator::OutOfBoundsFill::nans);
  CHECK(record.l2_promotion == emulator::L2Promotion::b256);

  map.box[0] = 65;
  CHECK_THROWS_AS(device.encode(map), device::InvalidTensorMap);
}

TEST_CASE("the emulator says what it is, and why it was taken", "[emulator device]") {
  const EmulatorDevice device(request(), "There is no GPU.");
  CHECK(device.backend() == device::Backend::emulator);
  CHECK(device.properties().name == "PTX emulator");
  CHECK(device.properties().sm_count > 0);
  CHECK(device.properties().shared_bytes_per_block == 232448);
  CHECK(device.properties().instead_of_gpu == "There is no GPU.");
}

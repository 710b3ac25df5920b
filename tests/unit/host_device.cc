#include "tests/unit/host_device.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>

#include "common/device/errors.h"

namespace tests {

HostDevice::HostDevice(std::size_t memory_bytes) {
  properties_.name = "host memory";
  properties_.memory_bytes = memory_bytes;
}

HostDevice::~HostDevice() {
  for (const auto& [address, bytes] : allocations_) std::free(const_cast<char*>(address));
}

void* HostDevice::allocate(std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  const std::size_t rounded =
      std::max((bytes + alignment - 1) / alignment, std::size_t{1}) * alignment;
  if (rounded > properties_.memory_bytes - allocated_bytes_) {
    throw device::Failure("allocate(" + std::to_string(bytes) + ") failed: out of memory.");
  }
  char* const address = static_cast<char*>(std::aligned_alloc(alignment, rounded));
  if (address == nullptr) throw device::Failure("The host is out of memory.");
  allocations_[address] = rounded;
  allocated_bytes_ += rounded;
  return address;
}

void HostDevice::release(void* address) noexcept {
  const auto allocation = allocations_.find(static_cast<const char*>(address));
  if (allocation == allocations_.end()) std::abort();
  allocated_bytes_ -= allocation->second;
  allocations_.erase(allocation);
  std::free(address);
}

void HostDevice::copy_to_device(void* destination, const void* source, std::size_t bytes) {
  require_allocated(destination, bytes);
  std::copy_n(static_cast<const char*>(source), bytes, static_cast<char*>(destination));
}

void HostDevice::copy_to_host(void* destination, const void* source, std::size_t bytes) {
  require_allocated(source, bytes);
  std::copy_n(static_cast<const char*>(source), bytes, static_cast<char*>(destination));
}

void HostDevice::fill(void* destination, unsigned char value, std::size_t bytes) {
  require_allocated(destination, bytes);
  std::fill_n(static_cast<unsigned char*>(destination), bytes, value);
}

CUtensorMap HostDevice::encode(const device::TensorMap& spec) {
  throw device::Failure("Host memory takes no tensor map (of " + spec.operand + ").");
}

void HostDevice::launch_packed(const device::LaunchShape&, const void*,
                               std::span<const device::Argument>) {
  throw device::Failure("Host memory can't launch a kernel.");
}

void HostDevice::require_allocated(const void* address, std::size_t bytes) const {
  const char* const first = static_cast<const char*>(address);
  const auto next = allocations_.upper_bound(first);
  if (next != allocations_.begin()) {
    const auto& [start, length] = *std::prev(next);
    if (first + bytes <= start + length) return;
  }
  throw device::Failure("An access of " + std::to_string(bytes) + " bytes is outside all " +
                        std::to_string(allocations_.size()) + " allocations.");
}

}  // namespace tests

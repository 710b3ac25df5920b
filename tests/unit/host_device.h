// A device made of host memory, for tests of what the harness does around a launch.
#pragma once

#include <cstddef>
#include <map>

#include "common/device/device.h"

namespace tests {

/// Allocates from host memory, so that a test can write D as a kernel would. It launches nothing
/// and encodes no tensor map: both throw device::Failure. So does a copy or a fill that is not
/// inside one allocation, and an allocation beyond `memory_bytes`.
class HostDevice : public device::Device {
 public:
  explicit HostDevice(std::size_t memory_bytes = std::size_t{1} << 30);
  ~HostDevice() override;

  device::Backend backend() const override { return device::Backend::emulator; }
  const device::Properties& properties() const override { return properties_; }

  void* allocate(std::size_t bytes) override;
  void release(void* address) noexcept override;
  void copy_to_device(void* destination, const void* source, std::size_t bytes) override;
  void copy_to_host(void* destination, const void* source, std::size_t bytes) override;
  void fill(void* destination, unsigned char value, std::size_t bytes) override;
  CUtensorMap encode(const device::TensorMap& spec) override;
  void synchronize() override {}
  void set_time_limit(double) override {}

  /// Bytes that are allocated now.
  std::size_t allocated_bytes() const { return allocated_bytes_; }

 protected:
  void launch_packed(const device::LaunchShape& shape, const void* kernel,
                     std::span<const device::Argument> arguments) override;

 private:
  void require_allocated(const void* address, std::size_t bytes) const;

  device::Properties properties_;
  std::map<const char*, std::size_t> allocations_;
  std::size_t allocated_bytes_ = 0;
};

}  // namespace tests

// The emulator back end: runs the PTX of the program's kernels on the CPU, and checks them.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/device/device.h"
#include "common/device/ptx_source.h"
#include "common/emulator/checker.h"
#include "common/emulator/machine.h"

namespace device {

/// A launch runs to its end before it returns. What a kernel does wrong is no exception: a fault, a
/// deadlock and the end of the time limit stop the launch and are among its hazards.
class EmulatorDevice final : public Device {
 public:
  /// `instead_of_gpu` says why no GPU was taken, empty if the emulator was asked for.
  explicit EmulatorDevice(const Request& request, std::string instead_of_gpu = {});

  Backend backend() const override { return Backend::emulator; }
  const Properties& properties() const override { return properties_; }

  void* allocate(std::size_t bytes) override;
  void release(void* address) noexcept override;
  void copy_to_device(void* destination, const void* source, std::size_t bytes) override;
  void copy_to_host(void* destination, const void* source, std::size_t bytes) override;
  void fill(void* destination, unsigned char value, std::size_t bytes) override;
  CUtensorMap encode(const TensorMap& spec) override;
  void synchronize() override {}
  void set_time_limit(double seconds) override { machine_.options().time_limit_s = seconds; }
  std::optional<Hazards> hazards() const override;

  /// The PTX, parsed by the first call.
  const emulator::Module& module();

  /// Launches an entry of the PTX by its name there. Its arguments are held against the .param list
  /// by number and size.
  void launch_entry(std::string_view entry, const LaunchShape& shape,
                    std::span<const Argument> arguments);

 private:
  void launch_packed(const LaunchShape& shape, const void* kernel,
                     std::span<const Argument> arguments) override;
  std::vector<std::byte> pack(const emulator::Function& kernel,
                              std::span<const Argument> arguments) const;
  void require_allocated(const void* address, std::size_t bytes, const char* call) const;
  void add(const emulator::Finding& finding);

  PtxSource ptx_;
  Properties properties_;
  std::string conditions_;  ///< of Hazards
  std::map<void*, std::size_t> allocations_;
  std::size_t allocated_bytes_ = 0;
  std::unique_ptr<const emulator::Module> module_;
  emulator::Machine machine_;
  emulator::Checker checker_;
  std::vector<emulator::Finding> findings_;  ///< of all launches, equal ones folded
  std::vector<std::string> unfinished_;      ///< a sentence for each launch that ran out of time
};

}  // namespace device

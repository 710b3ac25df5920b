// Where a kernel runs. A lesson's host code speaks to this interface only; behind it stands either
// a Hopper GPU (cuda_device.cc) or the PTX emulator.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "common/device/tensor_map.h"

namespace device {

enum class Backend { cuda, emulator };

/// What --device asks for. `automatic` takes a Hopper GPU if there is one, else the emulator.
enum class Choice { automatic, cuda, emulator };

/// In which order the emulator lets events happen; emulator/machine.h says how they differ. All of
/// them are legal on a GPU.
enum class Schedule { fair, random, adversarial };

/// PTX that runs in place of what the program carries.
struct PtxFile {
  std::string path;  ///< for messages
  std::string text;
};

/// What open() is asked for.
struct Request {
  Choice choice = Choice::automatic;
  std::optional<PtxFile> ptx = {};
  Schedule schedule = Schedule::fair;  ///< of the emulator
  std::uint64_t seed = 1;              ///< of the emulator's schedule
  bool strict = false;  ///< the emulator also reports where the ISA's text leaves a doubt
};

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

/// The shape of a launch. `shared_bytes` is dynamic shared memory per CTA; more than 48 KiB is
/// opted into by the back end, more than the device has is refused with both numbers.
struct LaunchShape {
  Extent grid{};
  Extent block{};
  Extent cluster{};
  std::size_t shared_bytes = 0;
};

/// One kernel argument as it lies in host memory: its address, size and alignment in bytes.
struct Argument {
  const void* address;
  std::size_t size;
  std::size_t alignment;
};

struct Properties {
  std::string name;  ///< as the driver reports it, "NVIDIA H200"
  int sm_count = 0;
  std::size_t l2_bytes = 0;
  std::size_t memory_bytes = 0;            ///< total device memory
  std::size_t shared_bytes_per_block = 0;  ///< opt-in maximum, 232448 on Hopper
  double max_clock_mhz = 0;                ///< boost limit of the SM clock
  std::string pci_bus_id;                  ///< empty where there is no such bus
  int driver_version = 0;                  ///< CUDA version the driver supports, 13000 for 13.0
  int runtime_version = 0;                 ///< CUDA runtime this program was built with
  std::string instead_of_gpu;  ///< why Choice::automatic took no GPU; empty if it had no choice
};

/// What a machine that checks kernels found wrong with those that it ran.
struct Hazards {
  std::size_t count = 0;   ///< of different ones
  std::string text;        ///< several lines: rule, CUDA line, role, what is missing
  std::string conditions;  ///< of the search, "schedule fair, seed 1"
};

/// A machine that runs kernels, one at a time, in the order of launch. Every member throws
/// device::Failure when the machine reports an error, naming the call that failed, and
/// device::InvalidPtx when the error is that of Request::ptx.
class Device {
 public:
  virtual ~Device() = default;

  virtual Backend backend() const = 0;
  virtual const Properties& properties() const = 0;

  /// Device memory, at least 256-byte aligned, contents undefined. Zero bytes give a valid,
  /// unique address. Prefer device::Buffer, which releases what it holds.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* address) noexcept = 0;

  /// Copies between host and device; they return when the bytes have arrived.
  virtual void copy_to_device(void* destination, const void* source, std::size_t bytes) = 0;
  virtual void copy_to_host(void* destination, const void* source, std::size_t bytes) = 0;
  virtual void fill(void* destination, unsigned char value, std::size_t bytes) = 0;

  /// Validates `spec` (throws InvalidTensorMap in words) and encodes it for this machine.
  virtual CUtensorMap encode(const TensorMap& spec) = 0;

  /// Returns when all launched work is done. Throws device::Hang when that takes longer than the
  /// time limit, device::Failure when the work failed.
  virtual void synchronize() = 0;
  virtual void set_time_limit(double seconds) = 0;

  /// Of all launches so far. Nothing where nobody checks: on a GPU.
  virtual std::optional<Hazards> hazards() const { return std::nullopt; }

  /// Launches `kernel` asynchronously. The argument types are the kernel's own parameter types, so
  /// a wrong argument does not compile; their packing is checked against the PTX once more.
  template <class... Parameters>
  void launch(const LaunchShape& shape, void (*kernel)(Parameters...),
              std::type_identity_t<Parameters>... arguments) {
    const std::array<Argument, sizeof...(Parameters)> packed{
        Argument{&arguments, sizeof(Parameters), alignof(Parameters)}...};
    launch_packed(shape, reinterpret_cast<const void*>(kernel), packed);
  }

  /// How many clusters of such a launch the machine holds at a time. On a GPU fewer than SMs /
  /// CTAs: a cluster lies within a GPC, and GPCs differ in size.
  template <class... Parameters>
  int resident_clusters(const LaunchShape& shape, void (*kernel)(Parameters...)) {
    return resident_clusters_of(shape, reinterpret_cast<const void*>(kernel));
  }

 protected:
  /// On a machine without GPCs, where a CTA fills an SM.
  virtual int resident_clusters_of(const LaunchShape& shape, const void*) {
    const Extent& cluster = shape.cluster;
    return properties().sm_count / static_cast<int>(cluster.x * cluster.y * cluster.z);
  }
  virtual void launch_packed(const LaunchShape& shape, const void* kernel,
                             std::span<const Argument> arguments) = 0;
};

/// Opens the machine that `request` asks for. Throws device::Unavailable, in words that say what to
/// do, when there is none.
std::unique_ptr<Device> open(const Request& request);

/// Device memory that releases itself. Movable, not copyable.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, std::size_t bytes)
      : device_(&device), address_(device.allocate(bytes)), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (address_ != nullptr) device_->release(address_);
  }

  void* address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }

  Device* device_ = nullptr;
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace device

#include "common/device/emulator_device.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "common/device/concat.h"
#include "common/device/errors.h"
#include "common/device/kernel_registry.h"
#include "common/device/launch_check.h"
#include "common/emulator/parser.h"
#include "common/emulator/tensor_map_record.h"

namespace device {
namespace {

/// Static and dynamic shared memory that a CTA may have on Hopper.
constexpr std::size_t shared_bytes_per_block = 232448;

/// In the order of Schedule.
constexpr std::array<std::pair<const char*, emulator::Schedule>, 3> schedules{
    {{"fair", emulator::Schedule::fair},
     {"random", emulator::Schedule::random},
     {"adversarial", emulator::Schedule::adversarial}}};

/// In the order of ElementType.
constexpr std::array<emulator::TensorType, 7> tensor_types{
    emulator::TensorType::bf16, emulator::TensorType::f16, emulator::TensorType::f32,
    emulator::TensorType::tf32, emulator::TensorType::u8,  emulator::TensorType::s32,
    emulator::TensorType::u32};

/// In the order of Swizzle.
constexpr std::array<emulator::SwizzleMode, 4> swizzles{
    emulator::SwizzleMode::none, emulator::SwizzleMode::b32, emulator::SwizzleMode::b64,
    emulator::SwizzleMode::b128};

/// In the order of Interleave.
constexpr std::array<emulator::TensorInterleave, 3> interleaves{emulator::TensorInterleave::none,
                                                                emulator::TensorInterleave::b16,
                                                                emulator::TensorInterleave::b32};

/// In the order of OutOfBounds.
constexpr std::array<emulator::OutOfBoundsFill, 2> fills{emulator::OutOfBoundsFill::zeros,
                                                         emulator::OutOfBoundsFill::nans};

/// In the order of L2Promotion.
constexpr std::array<emulator::L2Promotion, 4> l2_promotions{
    emulator::L2Promotion::none, emulator::L2Promotion::b64, emulator::L2Promotion::b128,
    emulator::L2Promotion::b256};

template <class Table, class Enum>
auto look_up(const Table& table, Enum value) {
  return table.at(static_cast<std::size_t>(value));
}

emulator::MachineOptions machine_options(const Request& request) {
  emulator::MachineOptions options;
  options.schedule = look_up(schedules, request.schedule).second;
  options.seed = request.seed;
  return options;
}

Properties emulator_properties(int sms, std::string instead_of_gpu) {
  Properties properties;
  properties.name = "PTX emulator";
  properties.sm_count = sms;
  properties.memory_bytes =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(getpagesize());
  properties.shared_bytes_per_block = shared_bytes_per_block;
  properties.runtime_version = CUDART_VERSION;
  properties.instead_of_gpu = std::move(instead_of_gpu);
  return properties;
}

emulator::Dim3 to_dim3(const Extent& extent) {
  return {extent.x, extent.y, extent.z};
}

/// Threads that a CTA of `kernel` may have by its launch bounds.
unsigned threads_per_block(const emulator::Function& kernel) {
  const std::array<int, 3>& bounds =
      kernel.required_threads[0] != 0 ? kernel.required_threads : kernel.max_threads;
  if (bounds[0] == 0) return LaunchLimits{}.threads_per_block;
  unsigned threads = 1;
  for (const int bound : bounds) threads *= static_cast<unsigned>(std::max(bound, 1));
  return threads;
}

/// What makes two findings of different launches the same.
auto identity(const emulator::Finding& finding) {
  const emulator::Location& location = finding.location;
  return std::tie(finding.rule, location.file, location.cuda_line, location.ptx_line,
                  finding.sentence, finding.role);
}

}  // namespace

EmulatorDevice::EmulatorDevice(const Request& request, std::string instead_of_gpu)
    : ptx_(request.ptx),
      properties_(emulator_properties(emulator::MachineOptions{}.sms, std::move(instead_of_gpu))),
      conditions_(concat("schedule ", look_up(schedules, request.schedule).first, ", seed ",
                         request.seed, request.strict ? ", strict" : "")),
      machine_(machine_options(request)),
      checker_({.strict = request.strict}) {}

void* EmulatorDevice::allocate(std::size_t bytes) {
  const std::size_t free = properties_.memory_bytes - allocated_bytes_;
  if (bytes > free) {
    throw Failure(concat("An allocation of ", counted(bytes, "byte"), " failed: ", free,
                         " of this machine's ", properties_.memory_bytes,
                         " bytes of memory are left for it. Take a smaller problem."));
  }
  void* const address = machine_.allocate(bytes);
  allocations_[address] = bytes;
  allocated_bytes_ += bytes;
  return address;
}

void EmulatorDevice::release(void* address) noexcept {
  const auto allocation = allocations_.find(address);
  if (allocation == allocations_.end()) return;
  allocated_bytes_ -= allocation->second;
  allocations_.erase(allocation);
  machine_.release(address);
}

void EmulatorDevice::copy_to_device(void* destination, const void* source, std::size_t bytes) {
  require_allocated(destination, bytes, "A copy to the device");
  if (bytes > 0) std::memcpy(destination, source, bytes);
}

void EmulatorDevice::copy_to_host(void* destination, const void* source, std::size_t bytes) {
  require_allocated(source, bytes, "A copy to the host");
  if (bytes > 0) std::memcpy(destination, source, bytes);
}

void EmulatorDevice::fill(void* destination, unsigned char value, std::size_t bytes) {
  require_allocated(destination, bytes, "A fill");
  std::memset(destination, value, bytes);
}

CUtensorMap EmulatorDevice::encode(const TensorMap& spec) {
  validate(spec);
  emulator::TensorMapRecord record;
  record.type = look_up(tensor_types, spec.type);
  record.rank = spec.rank;
  record.address = reinterpret_cast<std::uint64_t>(spec.address);
  for (std::size_t i = 0; i < static_cast<std::size_t>(spec.rank); ++i) {
    record.extent[i] = spec.extent[i];
    record.box[i] = spec.box[i];
    record.element_stride[i] = spec.stride[i];
    if (i > 0) record.stride[i - 1] = spec.pitch[i - 1];
  }
  record.swizzle = look_up(swizzles, spec.swizzle);
  record.interleave = look_up(interleaves, spec.interleave);
  record.fill = look_up(fills, spec.out_of_bounds);
  record.l2_promotion = look_up(l2_promotions, spec.l2_promotion);

  const emulator::TensorMapBytes bytes = emulator::encode_tensor_map(record);
  CUtensorMap encoded{};
  static_assert(sizeof(encoded) == sizeof(bytes));
  std::memcpy(&encoded, bytes.data(), bytes.size());
  return encoded;
}

std::optional<Hazards> EmulatorDevice::hazards() const {
  Hazards hazards{findings_.size() + unfinished_.size(), {}, conditions_};
  if (!findings_.empty()) hazards.text = emulator::describe(*module_, findings_);
  for (const std::string& sentence : unfinished_) hazards.text += sentence + '\n';
  return hazards;
}

const emulator::Module& EmulatorDevice::module() {
  if (module_ == nullptr) {
    if (ptx_.text().empty()) {
      ptx_.refuse(
          "There is no PTX to run: a program carries that of its kernels when make built "
          "it.");
    }
    try {
      module_ = std::make_unique<const emulator::Module>(emulator::parse(ptx_.text()));
    } catch (const emulator::PtxError& error) {
      ptx_.refuse(error.what());
    }
  }
  return *module_;
}

/// The argument types are the kernel's own, so its .param list must agree in alignments too.
void EmulatorDevice::launch_packed(const LaunchShape& shape, const void* kernel,
                                   std::span<const Argument> arguments) {
  const std::string_view entry = kernel_name(kernel);
  ptx_.check(entry, arguments);
  launch_entry(entry, shape, arguments);
}

void EmulatorDevice::launch_entry(std::string_view entry, const LaunchShape& shape,
                                  std::span<const Argument> arguments) {
  const std::string name = readable_name(entry);
  const emulator::Function* const kernel = module().entry(entry);
  if (kernel == nullptr) ptx_.refuse(concat("The PTX has no entry ", entry, "."));
  check_launch(name, shape,
               {.threads_per_block = threads_per_block(*kernel),
                .shared_bytes_per_block = shared_bytes_per_block});

  const std::vector<std::byte> parameters = pack(*kernel, arguments);
  const emulator::LaunchGeometry geometry{
      .grid = to_dim3(shape.grid),
      .block = to_dim3(shape.block),
      .cluster = to_dim3(shape.cluster),
      .dynamic_shared_bytes = static_cast<std::uint32_t>(shape.shared_bytes)};
  emulator::Outcome outcome;
  try {
    outcome = machine_.launch(*module_, *kernel, geometry, parameters, &checker_);
  } catch (const emulator::PtxError& error) {
    ptx_.refuse(error.what());
  } catch (const std::invalid_argument& error) {
    throw Failure(error.what());
  }

  for (const emulator::Finding& finding : checker_.findings(outcome.findings)) add(finding);
  if (outcome.ending == emulator::Outcome::Ending::out_of_time) {
    unfinished_.push_back(concat("Kernel ", name, " did not end within ",
                                 machine_.options().time_limit_s,
                                 " s on the emulator. If it is merely long, raise the time limit "
                                 "(--timeout) or take a smaller problem."));
  }
}

std::vector<std::byte> EmulatorDevice::pack(const emulator::Function& kernel,
                                            std::span<const Argument> arguments) const {
  std::vector<std::span<const std::byte>> values;
  for (const Argument& argument : arguments) {
    values.emplace_back(static_cast<const std::byte*>(argument.address), argument.size);
  }
  try {
    return emulator::pack_parameters(kernel, values);
  } catch (const std::invalid_argument& error) {
    ptx_.refuse(error.what());
  }
}

void EmulatorDevice::require_allocated(const void* address, std::size_t bytes,
                                       const char* call) const {
  if (machine_.contains(address, bytes)) return;
  throw Failure(concat(call, " of ", counted(bytes, "byte"), " is not inside one allocation."));
}

void EmulatorDevice::add(const emulator::Finding& finding) {
  const auto known = std::find_if(
      findings_.begin(), findings_.end(),
      [&](const emulator::Finding& other) { return identity(other) == identity(finding); });
  if (known == findings_.end()) {
    findings_.push_back(finding);
  } else {
    known->count += finding.count;
  }
}

}  // namespace device

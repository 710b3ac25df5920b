// PTX kernels on an emulated machine, for tests.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "common/emulator/machine.h"
#include "common/emulator/parser.h"

namespace lab {

/// A module with one kernel, "kernel", whose 64-bit parameters are `parameters`: each is in a
/// register %<name> when `body` begins. The body may use the registers %r, %rd, %h (32, 64 and 16
/// bits), %p (predicates), 64 of each; %tid holds %tid.x. `directives` go before the body's brace,
/// `declarations` before the kernel.
std::string kernel_text(const std::vector<std::string>& parameters, const std::string& body,
                        const std::string& directives = "", const std::string& declarations = "");

/// The geometry of `ctas` x `threads`, with `shared_bytes` of dynamic shared memory.
emulator::LaunchGeometry geometry(std::uint32_t ctas, std::uint32_t threads,
                                  std::uint32_t shared_bytes = 0, std::uint32_t cluster = 1);

/// A machine, and the modules that it has run.
class Lab {
 public:
  explicit Lab(const emulator::MachineOptions& options = {}) : machine_(options) {}

  /// Device memory of `count` elements, all `value`.
  template <class T>
  T* array(std::size_t count, T value = {}) {
    T* const address = static_cast<T*>(machine_.allocate(count * sizeof(T)));
    std::fill(address, address + count, value);
    return address;
  }

  /// Runs the kernel "kernel" of `ptx`.
  template <class... Arguments>
  emulator::Outcome launch(const std::string& ptx, const emulator::LaunchGeometry& geometry,
                           const Arguments&... arguments) {
    const std::array<std::span<const std::byte>, sizeof...(Arguments)> bytes{
        std::as_bytes(std::span(&arguments, 1))...};
    return launch_packed(ptx, geometry, bytes);
  }

  emulator::Machine& machine() { return machine_; }
  emulator::Observer* observer = nullptr;  ///< of the launches

 private:
  emulator::Outcome launch_packed(const std::string& ptx, const emulator::LaunchGeometry& geometry,
                                  std::span<const std::span<const std::byte>> arguments);

  std::deque<emulator::Module> modules_;
  emulator::Machine machine_;
};

/// The finding of an outcome that has exactly one, as its rule and sentence; "" for none. The rule
/// is its name, whatever its id.
std::string finding(const emulator::Outcome& outcome);

/// The message of the PtxError that decoding `body` throws; "" if it throws none.
std::string refusal(const std::string& body);

/// Whether `text` has `part` in it.
bool mentions(const std::string& text, const std::string& part);

}  // namespace lab

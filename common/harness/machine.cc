#include "common/harness/machine.h"

#include "common/device/concat.h"
#include "common/device/diagnosis.h"
#include "common/harness/cublas_library.h"

namespace harness {
namespace {

/// The Makefile passes what git says; nothing where the sources are not in a repository.
std::optional<std::string> built_commit() {
  const std::string commit = BUILD_COMMIT;
  return commit.empty() ? std::nullopt : std::optional(commit);
}

}  // namespace

Machine describe_machine(const device::Device& device) {
  const device::Properties& properties = device.properties();
  Machine machine{.gpu = properties.name,
                  .sm_count = properties.sm_count,
                  .max_sm_clock_mhz = properties.max_clock_mhz,
                  .driver = {},
                  .runtime = device::version_text(properties.runtime_version),
                  .cublas = {},
                  .commit = built_commit()};
  if (device.backend() == device::Backend::cuda) {
    machine.driver = device::version_text(properties.driver_version);
    machine.cublas = cublas_version();
  }
  return machine;
}

std::string banner(const Machine& machine) {
  std::string text = device::concat(machine.gpu, ", ", device::counted(machine.sm_count, "SM"),
                                    ", CUDA ", machine.runtime);
  if (machine.driver) text += " (driver " + *machine.driver + ")";
  if (machine.cublas) text += ", cuBLAS " + *machine.cublas;
  return text;
}

}  // namespace harness

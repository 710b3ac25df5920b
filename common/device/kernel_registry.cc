#include "common/device/kernel_registry.h"

#include <cxxabi.h>
#include <vector_types.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "common/device/errors.h"

namespace device {
namespace {

/// Local to a function, because registration runs before this file's own globals may exist.
std::map<const void*, std::string>& names() {
  static std::map<const void*, std::string> names;
  return names;
}

}  // namespace

void register_kernel(const void* address, std::string_view ptx_name) {
  names()[address] = ptx_name;
}

std::string_view kernel_name(const void* address) {
  const auto found = names().find(address);
  if (found == names().end()) {
    throw Failure(
        "A launch names a function that is no kernel of this program. Pass a __global__ function, "
        "and link with -Wl,--wrap=__cudaRegisterFunction.");
  }
  return found->second;
}

std::string readable_name(std::string_view ptx_name) {
  const std::string mangled(ptx_name);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : mangled;
}

}  // namespace device

extern "C" {

/// The runtime's own function, under the name that the linker's --wrap gives it.
void __real___cudaRegisterFunction(void** module, const char* host_function, char* device_function,
                                   const char* device_name, int thread_limit, uint3* thread,
                                   uint3* block, dim3* block_size, dim3* grid_size, int* warp_size);

/// Takes the runtime's place (crt/host_runtime.h declares the arguments).
void __wrap___cudaRegisterFunction(void** module, const char* host_function, char* device_function,
                                   const char* device_name, int thread_limit, uint3* thread,
                                   uint3* block, dim3* block_size, dim3* grid_size,
                                   int* warp_size) {
  device::register_kernel(host_function, device_name);
  __real___cudaRegisterFunction(module, host_function, device_function, device_name, thread_limit,
                                thread, block, block_size, grid_size, warp_size);
}

}  // extern "C"

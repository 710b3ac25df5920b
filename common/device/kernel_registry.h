// From a kernel's address on the host to its name in the PTX.
//
// nvcc's start-up code tells the CUDA runtime about each kernel with a call of
// __cudaRegisterFunction, before main(). Programs are linked with
// -Wl,--wrap=__cudaRegisterFunction, so that the calls pass through this registry on their way.
#pragma once

#include <string>
#include <string_view>

namespace device {

/// Records the kernel that host code knows by `address` and PTX by `ptx_name`.
void register_kernel(const void* address, std::string_view ptx_name);

/// The name of the kernel's entry in the PTX, "_Z8gemm_tmaILi128EEvi". Throws Failure for an
/// address that is no kernel of this program.
std::string_view kernel_name(const void* address);

/// The name as the source spells it, "void gemm_tma<128>(int)". A name that is not mangled comes
/// back as it is.
std::string readable_name(std::string_view ptx_name);

}  // namespace device

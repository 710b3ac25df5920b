// Kernel addresses and their names.
#include "common/device/kernel_registry.h"

#include <string>

#include "common/device/embedded_ptx.h"
#include "common/device/errors.h"
#include "tests/catch.h"
#include "tests/unit/message.h"

namespace {

// Any object has an address of its own, as a kernel does.
const char first = 0;
const char second = 0;
const char unknown = 0;

}  // namespace

TEST_CASE("kernels are found by their address") {
  device::register_kernel(&first, "_Z5firstv");
  device::register_kernel(&second, std::string("_Z6secondi"));
  CHECK(device::kernel_name(&first) == "_Z5firstv");
  CHECK(device::kernel_name(&second) == "_Z6secondi");
}

TEST_CASE("an address that is no kernel is refused in words") {
  const std::string message =
      tests::message_of<device::Failure>([] { device::kernel_name(&unknown); });
  CHECK(message.find("no kernel of this program") != std::string::npos);
  CHECK(message.find("--wrap=__cudaRegisterFunction") != std::string::npos);
}

TEST_CASE("names are shown as the source spells them") {
  CHECK(device::readable_name("_Z8gemm_tmaILi128EEvi") == "void gemm_tma<128>(int)");
  CHECK(device::readable_name(
            "_ZN40_GLOBAL__N__338803ae_8_probe_cu_7274a9805scaleILi64EEEvPfPKfif") ==
        "void (anonymous namespace)::scale<64>(float*, float const*, int, float)");
  CHECK(device::readable_name("plain_c_kernel") == "plain_c_kernel");
}

TEST_CASE("a program without kernels carries no PTX") {
  CHECK(device::embedded_ptx().empty());
}

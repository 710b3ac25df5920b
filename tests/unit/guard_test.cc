#include <functional>
#include <new>
#include <stdexcept>
#include <string>

#include "common/device/errors.h"
#include "common/harness/lesson.h"
#include "common/harness/options.h"
#include "common/harness/watchdog.h"
#include "tests/catch.h"
#include "tests/unit/child.h"
#include "tests/unit/host_device.h"

namespace {

using tests::ChildResult;

/// What guard() makes of a body that throws `error`.
template <class Error>
ChildResult guarded(const Error& error) {
  return tests::run_in_child(
      [&] { return harness::guard("lesson99", [&]() -> int { throw error; }); });
}

/// A device whose work never ends.
class HungDevice : public tests::HostDevice {
 public:
  void synchronize() override { throw device::Hang("The GPU did not finish within 30 s."); }
};

/// Ends its process with a status of its own when it is destroyed.
struct Destructor {
  ~Destructor() { std::_Exit(99); }
};

}  // namespace

TEST_CASE("what a body returns is the exit status", "[guard]") {
  CHECK(harness::guard("lesson99", [] { return 0; }) == 0);
  CHECK(harness::guard("lesson99", [] { return 1; }) == 1);
}

TEST_CASE("what a body throws is one line on stderr and an exit status", "[guard]") {
  const auto check = [](const ChildResult& result, int status, const std::string& message) {
    INFO(result.errors);
    CHECK(result.status == status);
    CHECK(result.errors == "lesson99: " + message + "\n");
  };
  check(guarded(harness::UsageError("--m is given twice.")), 2, "--m is given twice.");
  check(guarded(device::InvalidTensorMap("A is too wide.")), 2, "A is too wide.");
  check(guarded(device::Failure("The launch failed.")), 3, "The launch failed.");
  check(guarded(device::Unavailable("There is no driver.")), 3, "There is no driver.");
  check(guarded(device::Hang("It hangs.")), 3, "It hangs.");
  check(guarded(std::bad_alloc()), 3, "The host is out of memory; take a smaller problem.");
  check(guarded(std::invalid_argument("A sample is not a finite number.")), 3,
        "A sample is not a finite number.");
}

TEST_CASE("a hang ends the process before any destructor runs", "[guard]") {
  const ChildResult result = tests::run_in_child([] {
    return harness::guard("lesson99", [] {
      HungDevice device;
      const harness::Watchdog watchdog(device, "lesson99", "`full`, the mbarrier of its bytes");
      const Destructor destructor;
      watchdog.wait();
      return 0;
    });
  });
  CHECK(result.status == 3);
  CHECK(result.errors ==
        "lesson99: The GPU did not finish within 30 s. The kernel most likely waits for `full`, "
        "the mbarrier of its bytes.\n");
}

TEST_CASE("waiting for work that ends is no event", "[guard]") {
  tests::HostDevice device;
  CHECK_NOTHROW(harness::Watchdog(device, "lesson99", "nothing").wait());
}

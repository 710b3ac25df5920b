#include <csignal>
#include <exception>
#include <iostream>
#include <new>

#include "common/device/errors.h"
#include "common/harness/lesson.h"
#include "common/harness/options.h"
#include "common/harness/watchdog.h"

namespace harness {
namespace {

constexpr int usage_status = 2;
constexpr int device_status = 3;

int report(const std::string& program, const char* message, int status) {
  std::cout << std::flush;  // what was said before comes first
  std::cerr << program << ": " << message << std::endl;
  return status;
}

}  // namespace

int guard(const std::string& program, const std::function<int()>& body) {
  // A reader that has seen enough (`| head -1`) ends the printing, not the run: the verdict is
  // still the exit status, and the record is still written.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return body();
  } catch (const UsageError& error) {
    return report(program, error.what(), usage_status);
  } catch (const device::InvalidTensorMap& error) {
    return report(program, error.what(), usage_status);
  } catch (const device::InvalidPtx& error) {
    return report(program, error.what(), usage_status);
  } catch (const device::Hang& hang) {
    end_hung_process(program, hang.what());
  } catch (const device::Failure& failure) {
    return report(program, failure.what(), device_status);
  } catch (const std::bad_alloc&) {
    return report(program, "The host is out of memory; take a smaller problem.", device_status);
  } catch (const std::exception& error) {
    return report(program, error.what(), device_status);
  }
}

}  // namespace harness

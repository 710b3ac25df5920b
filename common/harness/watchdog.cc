#include "common/harness/watchdog.h"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "common/harness/progress.h"

namespace harness {

Watchdog::Watchdog(device::Device& device, std::string program, std::string likely_wait)
    : device_(device), program_(std::move(program)), likely_wait_(std::move(likely_wait)) {}

void Watchdog::wait() const {
  try {
    device_.synchronize();
  } catch (const device::Hang& hang) {
    end_hung_process(program_, std::string(hang.what()) + " The kernel most likely waits for " +
                                   likely_wait_ + ".");
  }
}

void end_hung_process(const std::string& program, const std::string& message) {
  std::cout << std::flush;
  wipe_progress();
  std::cerr << program << ": " << message << std::endl;
  std::_Exit(3);
}

}  // namespace harness

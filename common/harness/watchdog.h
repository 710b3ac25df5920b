// Waiting for the device, and ending the process when waiting is in vain.
#pragma once

#include <string>

#include "common/device/device.h"
#include "common/device/errors.h"

namespace harness {

/// Waits for launched work on behalf of a lesson.
class Watchdog {
 public:
  /// `likely_wait` ends the sentence "The kernel most likely waits for ...".
  Watchdog(device::Device& device, std::string program, std::string likely_wait);

  /// Returns when all launched work is done. Throws device::Failure when it failed. When it does
  /// not finish in time, ends the process with status 3 from here: an exception would unwind
  /// through destructors that release device memory, and these would wait for the kernel that
  /// hangs.
  void wait() const;

 private:
  device::Device& device_;
  std::string program_;
  std::string likely_wait_;
};

/// Says on stderr that `program` hangs, and ends the process with status 3, without destructors.
[[noreturn]] void end_hung_process(const std::string& program, const std::string& message);

}  // namespace harness

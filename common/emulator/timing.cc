#include "common/emulator/timing.h"

namespace emulator {

std::uint64_t Timing::latency(std::uint64_t typical) {
  switch (schedule_) {
    case Schedule::fair:
      return typical * (90 + below(21)) / 100 + 1;
    case Schedule::random:
      // A factor between 1/8 and 8, as likely small as large.
      return (typical << below(7)) * (100 + below(101)) / 800 + 1;
    case Schedule::adversarial:
      break;
  }
  // Later than anything that warps can still do without it.
  return 1'000'000 + below(100'000);
}

std::uint32_t Timing::pace(bool issues_copies) {
  switch (schedule_) {
    case Schedule::fair:
      return 1;
    case Schedule::random:
      return 1u << below(6);
    case Schedule::adversarial:
      break;
  }
  return issues_copies ? 1 : 16;
}

std::uint64_t Timing::slice() {
  return schedule_ == Schedule::random ? 1 + below(256) : 128;
}

}  // namespace emulator

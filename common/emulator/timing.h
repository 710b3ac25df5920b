// Virtual time: how fast warps go and how long operations take, under each schedule.
//
// Nothing here is a measurement of a GPU. Typical times are of the right order, so that a timeline
// looks like one; what matters is that every order of events that a schedule produces is legal.
#pragma once

#include <cstdint>
#include <random>

#include "common/emulator/machine.h"

namespace emulator {

class Timing {
 public:
  Timing(Schedule schedule, std::uint64_t seed) : schedule_(schedule), random_(seed) {}

  /// How long an asynchronous operation takes that typically takes `typical` model nanoseconds.
  std::uint64_t latency(std::uint64_t typical);
  /// Model nanoseconds a warp takes for an instruction of cost 1 in its next turn.
  std::uint32_t pace(bool issues_copies);
  /// How far ahead of the others a warp may run, in model nanoseconds.
  std::uint64_t slice();
  /// How long after its cluster a CTA begins.
  std::uint64_t start_delay() { return schedule_ == Schedule::fair ? 0 : below(2000); }
  /// Under the adversarial schedule elect.sync elects the last lane: the ISA does not say which.
  bool elects_last_lane() const { return schedule_ == Schedule::adversarial; }

 private:
  /// In [0, bound).
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  Schedule schedule_;
  std::mt19937_64 random_;
};

}  // namespace emulator

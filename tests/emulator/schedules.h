// Which orders of events a test tries.
#pragma once

#include <cstdint>
#include <vector>

#include "common/emulator/machine.h"

namespace workbench {

struct Order {
  emulator::Schedule schedule;
  std::uint64_t seed;
};

/// The fair schedule, the adversarial one, and `random_seeds` random ones.
inline std::vector<Order> orders(int random_seeds) {
  std::vector<Order> all{{emulator::Schedule::fair, 1}, {emulator::Schedule::adversarial, 2}};
  for (int i = 0; i < random_seeds; ++i) {
    all.push_back({emulator::Schedule::random, static_cast<std::uint64_t>(3 + i)});
  }
  return all;
}

inline const char* name_of(emulator::Schedule schedule) {
  switch (schedule) {
    case emulator::Schedule::fair:
      return "fair";
    case emulator::Schedule::random:
      return "random";
    case emulator::Schedule::adversarial:
      break;
  }
  return "adversarial";
}

/// Random seeds in `make test`, and in the whole runs (build/unit_tests "[whole]").
inline constexpr int sample_seeds = 2;
inline constexpr int whole_seeds = 20;

}  // namespace workbench

// How long a launch takes, on the device's own clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/device/device.h"
#include "common/harness/clocks.h"
#include "common/harness/progress.h"
#include "common/harness/watchdog.h"

namespace harness {

/// One of those that are timed against each other.
struct Contender {
  std::string name;              ///< "lesson03"
  std::function<void()> launch;  ///< enqueues one run of it on the default stream
};

/// What one contender took. Times are in milliseconds a launch.
struct Timing {
  double ms = 0;  ///< the figure: the median sample, or in a sustained run total time over launches
  std::vector<double> samples_ms;
  std::int64_t launches = 0;
  std::int64_t late = 0;  ///< samples that may hold the host's cost of launching, see interleave()
  std::optional<double> sm_clock_mhz, power_w;  ///< while it ran, where that was sampled
};

constexpr int warmup_rounds = 3;
constexpr double sustained_seconds = 1;

/// How many bytes are read to flush an L2 of `l2_bytes`: four times its size, at least 256 MiB.
std::size_t flush_bytes(std::size_t l2_bytes);

/// The order in which `count` contenders run in round `round`: each once, in an order that follows
/// from the seed and the round.
std::vector<std::size_t> shuffled_order(std::size_t count, std::uint64_t seed, int round);

/// Runs every contender once a round, in a shuffled order, each after the L2 was flushed by reading
/// a large buffer: a flush that writes would leave dirty lines, whose write-back the next kernel
/// would pay for. `warmup_rounds` more rounds run first and are not counted. Returns one Timing a
/// contender, with one sample a round. CUDA back end only.
///
/// The flush also gives the host time to enqueue the launch before the device is ready for it. A
/// sample for which that may have failed is counted as late.
std::vector<Timing> interleave(device::Device& device, const Watchdog& watchdog,
                               std::span<const Contender> contenders, int rounds,
                               std::uint64_t seed, Progress& progress);

/// Runs one contender alone, back to back and without flushes, until its launches have taken
/// `seconds`. The samples are the means of batches of launches. Clock and power are the medians of
/// what `monitor` said meanwhile. CUDA back end only.
Timing sustain(const Watchdog& watchdog, const Contender& contender, double seconds,
               const GpuMonitor& monitor);

}  // namespace harness

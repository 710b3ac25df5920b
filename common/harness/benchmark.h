// A lesson timed beside the library.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/device/device.h"
#include "common/harness/clocks.h"
#include "common/harness/options.h"
#include "common/harness/timing.h"
#include "common/harness/watchdog.h"

namespace harness {

/// How the contenders were timed. A field that the protocol does not have is empty.
struct Protocol {
  std::string name;  ///< "interleaved" or "sustained"
  std::string text;  ///< for a caption: "interleaved, L2 flushed by reading 256 MiB"
  std::optional<int> rounds, warmup_rounds;
  std::optional<std::size_t> flush_mib;
  std::optional<double> seconds;
};

struct TimedContender {
  std::string name;
  std::string role;  ///< "lesson", "standard" (the library as one calls it) or "candidate"
  Timing timing;
  double tflops;
};

/// Time of the library over time of the lesson: above 1 the lesson is faster.
struct Ratio {
  double standard;
  std::optional<double> best;  ///< against the library's fastest contender, with Baseline::best
  std::optional<std::string> best_contender;
};

struct Benchmark {
  Protocol protocol;
  std::vector<TimedContender> contenders;  ///< the lesson, the standard, the candidates
  Ratio ratio;
  GpuState before, after;
};

/// Compares the first contender, the lesson, with the second, the standard, and, if `with_best`,
/// with the fastest of all but the first. Interleaved contenders are compared round by round,
/// sustained ones by their total times.
Ratio compare(std::span<const TimedContender> contenders, bool interleaved, bool with_best);

/// Times the first contender, the lesson, beside the others, the library's, as `options` ask:
/// interleaved or sustained. All take `flops` > 0. Throws device::Failure when a figure is above
/// `peak`, FLOP/s that the card can't exceed. CUDA back end only.
Benchmark benchmark(device::Device& device, const Watchdog& watchdog,
                    std::span<const Contender> contenders, double flops, double peak,
                    const Options& options);

}  // namespace harness

#include "common/harness/timing.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "common/device/cuda_status.h"
#include "common/harness/cublas_library.h"
#include "common/harness/statistics.h"

namespace harness {
namespace {

constexpr cudaStream_t default_stream = nullptr;

/// A mark in the default stream; the device stamps it with its clock when it gets there.
class Event {
 public:
  Event() { device::check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record() { device::check(cudaEventRecord(event_, default_stream), "cudaEventRecord"); }

  /// Whether the device has got there already.
  bool reached() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // an answer, not an error that a later call may find
      return false;
    }
    device::check(status, "cudaEventQuery");
    return true;
  }

  /// From `earlier` to this one; the device must have got to both.
  double ms_since(const Event& earlier) const {
    float ms = std::numeric_limits<float>::quiet_NaN();
    device::check(cudaEventElapsedTime(&ms, earlier.event_, event_), "cudaEventElapsedTime");
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The marks before and after what is timed.
struct Interval {
  Event start, stop;
  double ms() const { return stop.ms_since(start); }
};

/// Evicts from the L2 what the last launch left there, by reading a buffer of zeros.
class L2Flush {
 public:
  explicit L2Flush(device::Device& device)
      : floats_(
            static_cast<std::int64_t>(flush_bytes(device.properties().l2_bytes) / sizeof(float))),
        zeros_(device, static_cast<std::size_t>(floats_) * sizeof(float)),
        sum_(device, sizeof(float)) {
    device.fill(zeros_.address(), 0, zeros_.bytes());
    check_cublas(cublas_library().set_pointer_mode(cublas_.get(), CUBLAS_POINTER_MODE_DEVICE),
                 "cublasSetPointerMode");
  }

  // The sum of absolute values reads every element and writes one: a read-only sweep without a
  // kernel of our own, which would have to be a lesson's .cu file. With its result in device memory
  // the call returns at once, so that the host runs ahead of the device.
  void enqueue() {
    check_cublas(cublas_library().sasum_64(cublas_.get(), floats_,
                                           static_cast<const float*>(zeros_.address()), 1,
                                           static_cast<float*>(sum_.address())),
                 "cublasSasum");
  }

 private:
  std::int64_t floats_;
  device::Buffer zeros_, sum_;
  CublasHandle cublas_;
};

/// Enqueues one launch between marks. Returns whether the device may have waited for the host: it
/// had reached the first mark before the launch was enqueued.
bool enqueue_timed(const Contender& contender, Interval& interval) {
  interval.start.record();
  contender.launch();
  const bool late = interval.start.reached();
  interval.stop.record();
  return late;
}

}  // namespace

std::size_t flush_bytes(std::size_t l2_bytes) {
  constexpr std::size_t least = std::size_t{256} << 20;
  return std::max(least, 4 * l2_bytes);
}

std::vector<std::size_t> shuffled_order(std::size_t count, std::uint64_t seed, int round) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                         static_cast<std::uint32_t>(round)};
  std::mt19937_64 random(sequence);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

std::vector<Timing> interleave(device::Device& device, const Watchdog& watchdog,
                               std::span<const Contender> contenders, int rounds,
                               std::uint64_t seed, Progress& progress) {
  L2Flush flush(device);
  std::vector<Interval> intervals(contenders.size());
  std::vector<Timing> timings(contenders.size());
  for (int round = -warmup_rounds; round < rounds; ++round) {
    const bool counted = round >= 0;
    flush.enqueue();  // one more: the host has just been waiting, and needs a head start
    for (const std::size_t index : shuffled_order(contenders.size(), seed, round)) {
      flush.enqueue();
      const bool late = enqueue_timed(contenders[index], intervals[index]);
      if (counted && late) ++timings[index].late;
    }
    watchdog.wait();
    if (!counted) continue;
    for (std::size_t index = 0; index < contenders.size(); ++index) {
      timings[index].samples_ms.push_back(intervals[index].ms());
    }
    progress.step();
  }
  for (Timing& timing : timings) {
    timing.launches = static_cast<std::int64_t>(timing.samples_ms.size());
    timing.ms = median(timing.samples_ms);
  }
  return timings;
}

Timing sustain(const Watchdog& watchdog, const Contender& contender, double seconds,
               const GpuMonitor& monitor) {
  Interval interval;
  const auto batch_ms = [&](int launches) {
    interval.start.record();
    for (int i = 0; i < launches; ++i) contender.launch();
    interval.stop.record();
    watchdog.wait();
    return interval.ms();
  };

  // A batch is long enough for the pause after it to cool nothing, and short enough for the launch
  // queue (about a thousand entries): a launch that blocked on a full queue behind a kernel that
  // hangs would never come back to the watchdog.
  constexpr double batch_target_ms = 50;
  constexpr int most_launches = 256;
  batch_ms(1);  // warm-up
  const double estimate_ms = batch_ms(1);
  const int batch = static_cast<int>(
      std::clamp(std::ceil(batch_target_ms / estimate_ms), 1.0, double{most_launches}));

  GpuSampler sampler(monitor);
  Timing timing;
  double total_ms = 0;
  while (total_ms < seconds * 1e3) {
    const double ms = batch_ms(batch);
    total_ms += ms;
    timing.samples_ms.push_back(ms / batch);
    timing.launches += batch;
  }
  const GpuState state = sampler.medians();
  timing.ms = total_ms / static_cast<double>(timing.launches);
  timing.sm_clock_mhz = state.sm_clock_mhz;
  timing.power_w = state.power_w;
  return timing;
}

}  // namespace harness

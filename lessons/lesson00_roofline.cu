// Lesson 00 - roofline: the two ceilings that every other lesson stands under.
//
//   make lesson00 && ./lesson00
//
// A kernel takes at least as long as its bytes take through device memory and at least as long as
// its arithmetic takes on the tensor cores. This lesson measures both rates on the card at hand,
// with one kernel that only copies and one that only multiplies. Where the two floors meet is the
// ridge point; on which side of it a problem (--m --n --k) lies says what will limit its kernel.
//
// How a wgmma is fed is the subject of lesson 02: here it only has to be as fast as it can be.
//
// The note: docs/lesson00_roofline.md
#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <vector>

#include "common/gemm/swizzle.h"
#include "common/harness/json_file.h"
#include "common/harness/lesson.h"
#include "common/harness/oracle.h"
#include "common/harness/progress.h"
#include "common/harness/record.h"
#include "common/harness/report.h"
#include "common/harness/throughput.h"
#include "common/harness/timing.h"
#include "common/harness/verdict.h"
#include "common/harness/watchdog.h"
#include "common/harness/workload.h"
#include "common/ptx/address.cuh"
#include "common/ptx/clock.cuh"
#include "common/ptx/descriptor.h"
#include "common/ptx/fence.cuh"
#include "common/ptx/wgmma.cuh"

namespace {

constexpr int copy_threads = 256;
constexpr int loads_in_flight = 4;  // of 16 bytes, a thread
constexpr int tile_k = 64;          // 64 bf16 = 128 bytes, one row of the swizzle pattern
constexpr int row_bytes = 2 * tile_k;
constexpr int warpgroups = 2;  // on an SM, so that one multiplies while the other is issued

/// Copies `bytes` bytes: each thread four chunks of 16 bytes, all loaded before the first is
/// stored; the last CTA also what is left of a chunk.
__global__ void __launch_bounds__(copy_threads)
    copy_bytes(const unsigned char* source, unsigned char* destination, std::int64_t bytes) {
  const std::int64_t chunks = bytes / 16;
  const std::int64_t first =
      std::int64_t(blockIdx.x) * copy_threads * loads_in_flight + threadIdx.x;
  uint4 value[loads_in_flight];
#pragma unroll
  for (int i = 0; i < loads_in_flight; ++i) {
    const std::int64_t chunk = first + i * copy_threads;
    if (chunk < chunks) value[i] = reinterpret_cast<const uint4*>(source)[chunk];
  }
#pragma unroll
  for (int i = 0; i < loads_in_flight; ++i) {
    const std::int64_t chunk = first + i * copy_threads;
    if (chunk < chunks) reinterpret_cast<uint4*>(destination)[chunk] = value[i];
  }
  const std::int64_t rest = 16 * chunks + threadIdx.x;
  if (blockIdx.x == gridDim.x - 1 && rest < bytes) destination[rest] = source[rest];
}

/// What the first CTA saw of the clocks.
struct Elapsed {
  std::uint64_t cycles, nanoseconds;
};

/// Places `rows` x 64 elements in shared memory, swizzled by 128 bytes.
__device__ void place_tile(unsigned char* tile, const __nv_bfloat16* matrix, int rows) {
  for (int i = threadIdx.x; i < rows * tile_k / 8; i += blockDim.x) {
    *reinterpret_cast<uint4*>(tile + gemm::swizzle_128b(16 * i)) =
        reinterpret_cast<const uint4*>(matrix)[i];
  }
}

/// Each warpgroup multiplies its 64 x 64 tile of A with one width x 64 tile of B, `repeats` times
/// over, and adds it all up: D = repeats * A * B^T. Nothing is loaded while it multiplies. One more
/// group is always in flight than is waited for, so that the tensor cores never run dry.
template <int width>
__global__ void __launch_bounds__(128 * warpgroups, 1)
    multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, float* d, int repeats,
             Elapsed* elapsed) {
  extern __shared__ __align__(1024) unsigned char shared[];
  unsigned char* const tile_b = shared + warpgroups * 64 * row_bytes;
  place_tile(shared, a, warpgroups * 64);
  place_tile(tile_b, b, width);
  ptx::fence_proxy_async();
  __syncthreads();

  const int warpgroup = threadIdx.x / 128;
  const std::uint32_t tile_a = ptx::shared_address(shared + warpgroup * 64 * row_bytes);
  float accumulator[1][width / 2] = {};
  const Elapsed start{ptx::sm_cycles(), ptx::nanoseconds()};

  for (int i = 0; i < repeats; ++i) {
    ptx::wgmma_fence(accumulator);
#pragma unroll
    for (int slice = 0; slice < tile_k / 16; ++slice) {
      ptx::wgmma_m64k16<width>(accumulator[0], ptx::k_major_descriptor(tile_a + 32 * slice),
                               ptx::k_major_descriptor(ptx::shared_address(tile_b) + 32 * slice),
                               true);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>(accumulator);
  }
  ptx::wgmma_wait<0>(accumulator);

  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *elapsed = {ptx::sm_cycles() - start.cycles, ptx::nanoseconds() - start.nanoseconds};
  }
  // Register-major: 128 threads write 512 neighbouring bytes. The host knows the fragment layout.
  float* const out = d + (std::int64_t(blockIdx.x) * warpgroups + warpgroup) * 64 * width;
#pragma unroll
  for (int i = 0; i < width / 2; ++i) out[i * 128 + threadIdx.x % 128] = accumulator[0][i];
}

constexpr std::size_t guard_bytes = 4096;                          // behind a copy; must survive
constexpr std::size_t most_checked_bytes = std::size_t(64) << 20;  // of a copy
constexpr std::size_t timed_bytes = std::size_t(1) << 30;          // read, and as many written
constexpr int checked_repeats = 3;
constexpr int timed_repeats = 20000;  // some 13 ms

void launch_copy(device::Device& device, const device::Buffer& source,
                 const device::Buffer& destination, std::size_t bytes) {
  constexpr std::size_t bytes_per_cta = 16 * copy_threads * loads_in_flight;
  const auto ctas = unsigned((bytes + bytes_per_cta - 1) / bytes_per_cta);
  if (ctas == 0) return;
  device.launch({.grid = {ctas}, .block = {copy_threads}}, copy_bytes,
                static_cast<const unsigned char*>(source.address()),
                static_cast<unsigned char*>(destination.address()), std::int64_t(bytes));
}

/// Copies `bytes` bytes and says what is wrong with the copy, nothing if it is right.
std::string check_copy(device::Device& device, const harness::Watchdog& watchdog,
                       std::size_t bytes) {
  std::vector<unsigned char> expected(bytes + guard_bytes, 0xFF);
  for (std::size_t i = 0; i < bytes; ++i) expected[i] = (i * 2654435761u) >> 13;
  const device::Buffer source(device, bytes), destination(device, bytes + guard_bytes);
  device.copy_to_device(source.address(), expected.data(), bytes);
  device.fill(destination.address(), 0xFF, destination.bytes());
  launch_copy(device, source, destination, bytes);
  watchdog.wait();
  std::vector<unsigned char> got(expected.size());
  device.copy_to_host(got.data(), destination.address(), got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] != expected[i]) return "byte " + std::to_string(i) + " of the copy is wrong";
  }
  return "";
}

using Multiply = void (*)(const __nv_bfloat16*, const __nv_bfloat16*, float*, int, Elapsed*);

/// The multiplying kernel on every SM, with its operands.
class Multiplier {
 public:
  Multiplier(device::Device& device, const harness::Options& options, harness::Init init)
      : device_(device),
        width_(options.selection.number("width")),
        ctas_(device.properties().sm_count),
        operands_(device, tile_options(options.seed, init), 8),
        d_(device, sizeof(float) * tile_elements() * warpgroups * ctas_),
        elapsed_(device, sizeof(Elapsed)) {}

  void launch(int repeats) {
    const gemm::Problem& tile = operands_.problem();
    device_.launch({.grid = {ctas_},
                    .block = {128u * warpgroups},
                    .shared_bytes = std::size_t(64 * warpgroups + width_) * row_bytes},
                   kernel(), tile.a, tile.b, static_cast<float*>(d_.address()), repeats,
                   static_cast<Elapsed*>(elapsed_.address()));
  }

  double flops(int repeats) const {
    return 2.0 * tile_elements() * tile_k * warpgroups * ctas_ * repeats;
  }

  /// The SM clock during the last launch.
  double mhz() const {
    Elapsed elapsed;
    device_.copy_to_host(&elapsed, elapsed_.address(), sizeof(elapsed));
    return 1e3 * double(elapsed.cycles) / double(elapsed.nanoseconds);
  }

  /// Says what is wrong with the product of every CTA, nothing if all are right.
  std::string check(const harness::Watchdog& watchdog) {
    device_.fill(d_.address(), 0xFF, d_.bytes());
    launch(checked_repeats);
    watchdog.wait();
    std::vector<float> d(d_.bytes() / sizeof(float));
    device_.copy_to_host(d.data(), d_.address(), d_.bytes());

    std::vector<double> sums(tile_elements() * warpgroups), magnitudes(sums.size());
    harness::cpu_oracle(operands_)->rows(0, 64 * warpgroups, sums, magnitudes);
    for (std::size_t i = 0; i < d.size(); ++i) {
      const std::size_t element = place(i % sums.size());
      const double error = std::abs(d[i] - checked_repeats * sums[element]);
      const double bound = harness::accumulation_bound(checked_repeats * tile_k,
                                                       checked_repeats * magnitudes[element]);
      if (!(error <= bound)) {
        return "element " + std::to_string(element) + " of CTA " + std::to_string(i / sums.size()) +
               "'s product is off by " + std::to_string(error);
      }
    }
    return "";
  }

 private:
  harness::Options tile_options(std::uint64_t seed, harness::Init init) const {
    harness::Options options;
    options.m = 64 * warpgroups;
    options.n = width_;
    options.k = tile_k;
    options.seed = seed;
    options.init = init;
    return options;
  }

  std::size_t tile_elements() const { return std::size_t(64) * width_; }

  /// The row-major place in the CTA's tile of D of what the kernel stored at `index`: register i of
  /// thread t, whose row and column are those of ptx::wgmma_m64k16.
  std::size_t place(std::size_t index) const {
    const std::size_t warpgroup = index / tile_elements();
    const std::size_t i = index % tile_elements() / 128, t = index % 128;
    const std::size_t row = 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2);
    const std::size_t column = 8 * (i / 4) + 2 * (t % 4) + i % 2;
    return (64 * warpgroup + row) * width_ + column;
  }

  Multiply kernel() const {
    if (width_ == 64) return multiply<64>;
    if (width_ == 128) return multiply<128>;
    return multiply<256>;
  }

  device::Device& device_;
  int width_;
  unsigned ctas_;
  harness::Workload operands_;
  device::Buffer d_, elapsed_;
};

/// Bytes that a kernel can't avoid: A, B and, with beta, C read once, D written once.
double compulsory_bytes(const harness::Options& o) {
  const double c_and_d = (o.beta != 0 ? 2.0 : 1.0) * o.m * o.n;
  return sizeof(__nv_bfloat16) * (double(o.m) * o.k + double(o.n) * o.k + c_and_d);
}

bool verify(device::Device& device, const harness::Watchdog& watchdog,
            const harness::Options& options) {
  const std::size_t bytes = std::min(std::size_t(compulsory_bytes(options)), most_checked_bytes);
  std::string wrong = check_copy(device, watchdog, bytes);
  if (wrong.empty()) wrong = Multiplier(device, options, options.init).check(watchdog);
  harness::report(std::cout, "verify",
                  wrong.empty() ? "PASS: " + std::to_string(bytes) +
                                      " bytes copied, and every SM's product is within its bound"
                                : "FAIL: " + wrong);
  return wrong.empty();
}

harness::Ceiling measure_copy(device::Device& device, const harness::Watchdog& watchdog,
                              const harness::Options& options) {
  const device::Buffer source(device, timed_bytes), destination(device, timed_bytes);
  device.fill(source.address(), 0x5A, timed_bytes);
  const harness::Contender copy{"copy",
                                [&] { launch_copy(device, source, destination, timed_bytes); }};
  harness::Progress progress("copying, round", options.rounds);
  const harness::Timing timing =
      harness::interleave(device, watchdog, {&copy, 1}, options.rounds, options.seed, progress)[0];
  return {.name = "copy",
          .init = {},
          .value = 2.0 * timed_bytes / (1e-3 * timing.ms),
          .unit = "B/s",
          .timing = timing};
}

harness::Ceiling measure_wgmma(device::Device& device, const harness::Watchdog& watchdog,
                               const harness::Options& options, harness::Init init,
                               const harness::GpuMonitor& monitor) {
  Multiplier multiplier(device, options, init);
  const harness::Contender wgmma{"wgmma", [&] { multiplier.launch(timed_repeats); }};
  harness::Timing timing = harness::sustain(watchdog, wgmma, harness::sustained_seconds, monitor);
  timing.sm_clock_mhz = multiplier.mhz();  // the kernel's own count: NVML's is an average over it
  const double flops = multiplier.flops(timed_repeats);
  harness::require_plausible("wgmma", timing, flops, harness::peak_flops(device.properties()));
  return {.name = "wgmma",
          .init = std::string(harness::name(init)),
          .value = flops / (1e-3 * timing.ms),
          .unit = "FLOP/s",
          .timing = timing};
}

std::string format(const char* text, auto... values) {
  char line[200];
  std::snprintf(line, sizeof(line), text, values...);
  return line;
}

/// Where the problem lies under the roof: its intensity, and the shortest time it can take.
void place_problem(const harness::Options& o, double bytes_per_s, double flop_per_s) {
  const double flop = 2.0 * o.m * o.n * o.k, bytes = compulsory_bytes(o);
  if (bytes == 0) return;
  const double memory_ms = 1e3 * bytes / bytes_per_s, compute_ms = 1e3 * flop / flop_per_s;
  harness::report(std::cout, "problem",
                  format("M %d, N %d, K %d: %.4g FLOP over %.4g bytes = %.1f FLOP per byte: "
                         "%s-bound,\nat least %.4g ms (memory %.4g, tensor cores %.4g)",
                         o.m, o.n, o.k, flop, bytes, flop / bytes,
                         memory_ms > compute_ms ? "memory" : "compute",
                         std::max(memory_ms, compute_ms), memory_ms, compute_ms));
}

harness::RooflineRun measure(device::Device& device, const harness::Watchdog& watchdog,
                             const harness::Options& options) {
  const harness::GpuMonitor monitor(device.properties().pci_bus_id);
  harness::RooflineRun run{.lesson = 0,
                           .name = "roofline",
                           .selection = options.selection,
                           .ceilings = {},
                           .machine = harness::describe_machine(device),
                           .before = monitor.read(),
                           .after = {}};
  run.ceilings.push_back(measure_copy(device, watchdog, options));
  for (const harness::Init init : {harness::Init::normal, harness::Init::zeros}) {
    run.ceilings.push_back(measure_wgmma(device, watchdog, options, init, monitor));
  }
  run.after = monitor.read();

  const harness::Ceiling &copy = run.ceilings[0], &random = run.ceilings[1],
                         &zeros = run.ceilings[2];
  run.ridge_flop_per_byte = random.value / copy.value;
  harness::report(std::cout, "copy",
                  format("%.2f TB/s, 1 GiB read and 1 GiB written", 1e-12 * copy.value));
  for (const harness::Ceiling* ceiling : {&random, &zeros}) {
    harness::report(
        std::cout, "wgmma",
        format("%.0f TFLOP/s at %.0f MHz on %s, back to back for a second", 1e-12 * ceiling->value,
               *ceiling->timing.sm_clock_mhz, ceiling == &random ? "random numbers" : "zeros"));
  }
  harness::report(std::cout, "ridge", format("%.0f FLOP per byte", run.ridge_flop_per_byte));
  place_problem(options, copy.value, random.value);
  return run;
}

}  // namespace

int main(int argc, char** argv) {
  const harness::CommandLine line{
      .program = "lesson00",
      .trick = "the two ceilings, the ridge point, and where a problem lies",
      .default_m = 4096,
      .default_n = 4096,
      .default_k = 4096,
      .knobs = {{"width",
                 "columns of D in one wgmma: how often A is read",
                 {"64", "128", "256"},
                 "256"}},
      .breaks = {},
      .omitted = {"--lda", "--ldb", "--ldc", "--ldd", "--soak", "--sustained", "--baseline",
                  "--break", "--list-breaks"}};
  return harness::guard(line.program, [&] {
    harness::Options options = harness::parse(line, {argv + 1, argv + argc});
    if (harness::answer(line, options, std::cout)) return 0;
    const harness::OutputFiles files = harness::output_files(options);
    const auto device = harness::open_device(options);
    const bool has_clock = device->backend() == device::Backend::cuda;
    if (!has_clock) options = harness::parse(harness::on_emulator(line), {argv + 1, argv + argc});
    device->set_time_limit(options.time_limit_s);
    const harness::Watchdog watchdog(*device, line.program, "nothing: raise --timeout");
    std::cout << line.program << " roofline: " << line.trick << '\n'
              << harness::banner(harness::describe_machine(*device)) << std::endl;
    harness::report(std::cout, *device);

    const bool only_bench = options.mode == harness::Mode::bench_only;
    if (only_bench && !has_clock) {
      throw harness::UsageError("--bench needs a GPU: the emulator has no clock.");
    }
    const bool verified = only_bench || verify(*device, watchdog, options);
    const std::optional<device::Hazards> hazards = device->hazards();
    if (hazards) harness::report(std::cout, *hazards);
    if (!verified || (hazards && hazards->count > 0)) return 1;
    if (!has_clock) {
      harness::report(std::cout, "time", "not measured: the emulator has no clock.");
    } else if (options.mode != harness::Mode::check_only) {
      files.record.write(harness::record(measure(*device, watchdog, options)));
    }
    return 0;
  });
}

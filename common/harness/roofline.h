// Measuring the two ceilings of a card, copying and multiplying, and placing a problem under them:
// what lesson 00 does with its kernels.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/device/device.h"
#include "common/harness/options.h"

namespace harness {

/// What the first CTA of a kernel saw of the clocks.
struct Elapsed {
  std::uint64_t cycles, nanoseconds;
};

/// Copying `bytes` bytes.
struct Copy {
  const unsigned char* source;
  unsigned char* destination;
  std::int64_t bytes;
};

/// D = repeats * A * B^T, computed by each warpgroup of each CTA: its own 64 rows of A, the whole
/// of B, `width` x 64.
struct Multiplication {
  int width;
  unsigned ctas;
  const __nv_bfloat16 *a, *b;
  float* d;  ///< [cta][warpgroup][register][128 threads], as ptx::wgmma_m64k16 leaves the sums
  int repeats;
  Elapsed* elapsed;
};

struct RooflineLesson {
  std::string trick;        ///< one line
  std::vector<Knob> knobs;  ///< "width" is among them
  int warpgroups;           ///< of a CTA that multiplies
  /// Each enqueues one launch.
  std::function<void(device::Device&, const Copy&)> copy;
  std::function<void(device::Device&, const Multiplication&)> multiply;
};

/// The body of main(): parses, verifies both kernels, measures them on a GPU, and says where the
/// problem lies. Returns the exit status, as run(const Lesson&, ...) does.
int run(const RooflineLesson& lesson, int argc, char** argv);

}  // namespace harness

// Lesson 00 - roofline: the two ceilings that every other lesson stands under.
//
//   make lesson00 && ./lesson00
//
// A kernel takes at least as long as its bytes take through device memory and at least as long as
// its arithmetic takes on the tensor cores. This lesson measures both rates on the card at hand,
// with one kernel that only copies and one that only multiplies. Where the two floors meet is the
// ridge point; on which side of it a problem (--m --n --k) lies says what will limit its kernel.
//
// They are checked and timed by common/harness/roofline.h.
//
// How a wgmma is fed is the subject of lesson 02: here it only has to be as fast as it can be.
//
// The note: docs/lesson00_roofline.md
#include <cuda_bf16.h>

#include <cstdint>

#include "common/gemm/swizzle.h"
#include "common/harness/roofline.h"
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
             harness::Elapsed* elapsed) {
  extern __shared__ __align__(1024) unsigned char shared[];
  unsigned char* const tile_b = shared + warpgroups * 64 * row_bytes;
  place_tile(shared, a, warpgroups * 64);
  place_tile(tile_b, b, width);
  ptx::fence_proxy_async();
  __syncthreads();

  const int warpgroup = threadIdx.x / 128;
  const std::uint32_t tile_a = ptx::shared_address(shared + warpgroup * 64 * row_bytes);
  float accumulator[1][width / 2] = {};
  const harness::Elapsed start{ptx::sm_cycles(), ptx::nanoseconds()};

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
  // Register-major: 128 threads write 512 neighbouring bytes. The check knows the fragment layout.
  float* const out = d + (std::int64_t(blockIdx.x) * warpgroups + warpgroup) * 64 * width;
#pragma unroll
  for (int i = 0; i < width / 2; ++i) out[i * 128 + threadIdx.x % 128] = accumulator[0][i];
}

void launch_copy(device::Device& device, const harness::Copy& copy) {
  constexpr std::int64_t bytes_per_cta = 16 * copy_threads * loads_in_flight;
  const auto ctas = static_cast<unsigned>((copy.bytes + bytes_per_cta - 1) / bytes_per_cta);
  if (ctas == 0) return;
  device.launch({.grid = {ctas}, .block = {copy_threads}}, copy_bytes, copy.source,
                copy.destination, copy.bytes);
}

void launch_multiply(device::Device& device, const harness::Multiplication& m) {
  const device::LaunchShape shape{
      .grid = {m.ctas},
      .block = {128 * warpgroups},
      .shared_bytes = std::size_t(64 * warpgroups + m.width) * row_bytes};
  const auto kernel = m.width == 64 ? multiply<64> : m.width == 128 ? multiply<128> : multiply<256>;
  device.launch(shape, kernel, m.a, m.b, m.d, m.repeats, m.elapsed);
}

}  // namespace

int main(int argc, char** argv) {
  const harness::RooflineLesson lesson{
      .trick = "the two ceilings, the ridge point, and where a problem lies",
      .knobs = {{"width",
                 "columns of D in one wgmma: how often A is read",
                 {"64", "128", "256"},
                 "256"}},
      .warpgroups = warpgroups,
      .copy = launch_copy,
      .multiply = launch_multiply,
  };
  return harness::run(lesson, argc, argv);
}

// Lesson 02 - wgmma: the tensor cores multiply a tile that the threads filled by hand.
//
//   make lesson02 && ./lesson02
//
// A warpgroup (128 threads) computes one tile of D. For every 64 of K its threads copy a tile of A
// and a tile of B into shared memory, each 16-byte chunk to the place where the 128-byte swizzle
// wants it, and then hand both tiles to wgmma, which reads them by descriptor and adds the product
// to accumulators in the threads' registers.
//
// Load, wait, compute, wait: nothing overlaps yet within a CTA. What is new is who multiplies.
//
// The note: docs/lesson02_wgmma.md
#include <cuda_bf16.h>

#include "common/gemm/epilogue.cuh"
#include "common/gemm/problem.h"
#include "common/gemm/swizzle.h"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"
#include "common/ptx/address.cuh"
#include "common/ptx/descriptor.h"
#include "common/ptx/fence.cuh"
#include "common/ptx/wgmma.cuh"

namespace {

constexpr int threads = 128;  // one warpgroup
constexpr int tile_k = 64;    // 64 bf16 = 128 bytes, one row of the swizzle pattern
constexpr int row_bytes = 2 * tile_k;

enum class Break { none, no_swizzle, no_proxy_fence, no_reuse_barrier };

/// Where the 16-byte chunk `column` (0 to 7) of a row lies in a tile.
template <Break broken>
__device__ unsigned place(int row, int column) {
  const unsigned offset = row * row_bytes + column * 16;
  return broken == Break::no_swizzle ? offset : gemm::swizzle_128b(offset);
}

/// Copies `tile_rows` x 64 elements of a K-major matrix to shared memory; what lies outside the
/// matrix becomes zeros, which add nothing to the product. Eight threads copy a row, 16 bytes each.
template <int tile_rows, Break broken>
__device__ void fill_tile(unsigned char* tile, const __nv_bfloat16* matrix, std::int64_t pitch,
                          int rows, int columns, int first_row, int first_column) {
  constexpr int rows_at_once = threads / 8;
  constexpr int batch = 4;
  static_assert(tile_rows % (batch * rows_at_once) == 0, "a tile is filled by whole batches");
  const int chunk = threadIdx.x % 8;
  const int column = first_column + 8 * chunk;

  if (first_column + tile_k > columns) {  // the tail of K: element by element
#pragma unroll 1
    for (int row = threadIdx.x / 8; row < tile_rows; row += rows_at_once) {
      alignas(16) __nv_bfloat16 element[8] = {};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const bool inside = first_row + row < rows && column + i < columns;
        if (inside) element[i] = matrix[(first_row + row) * pitch + column + i];
      }
      *reinterpret_cast<uint4*>(tile + place<broken>(row, chunk)) =
          *reinterpret_cast<const uint4*>(element);
    }
    return;
  }

#pragma unroll
  for (int base = 0; base < tile_rows; base += batch * rows_at_once) {
    // All loads of a batch are issued before the first store waits for its data: one after the
    // other, each would wait for device memory alone.
    const int top = base + threadIdx.x / 8;
    uint4 value[batch] = {};
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const int row = first_row + top + i * rows_at_once;
      if (row < rows) value[i] = *reinterpret_cast<const uint4*>(matrix + row * pitch + column);
    }
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      *reinterpret_cast<uint4*>(tile + place<broken>(top + i * rows_at_once, chunk)) = value[i];
    }
  }
}

template <int tile_m, int tile_n, Break broken>
__global__ void __launch_bounds__(threads) gemm_wgmma(const gemm::Problem p) {
  // The swizzle works on address bits: both tiles must start on a multiple of 1024 bytes.
  extern __shared__ __align__(1024) unsigned char shared[];
  unsigned char* const tile_a = shared;
  unsigned char* const tile_b = shared + tile_m * row_bytes;

  const int tiles_n = (p.n + tile_n - 1) / tile_n;
  const int first_row = blockIdx.x / tiles_n * tile_m;
  const int first_column = blockIdx.x % tiles_n * tile_n;

  float accumulator[tile_m / 64][tile_n / 2] = {};  // a wgmma is 64 rows tall

  for (int k = 0; k < p.k; k += tile_k) {
    fill_tile<tile_m, broken>(tile_a, p.a, p.lda, p.m, p.k, first_row, k);
    fill_tile<tile_n, broken>(tile_b, p.b, p.ldb, p.n, p.k, first_column, k);
    // wgmma reads shared memory through the async proxy: each writer makes its stores visible
    // there, and the barrier then tells that all have.
    if constexpr (broken != Break::no_proxy_fence) ptx::fence_proxy_async();
    __syncthreads();

    ptx::wgmma_fence(accumulator);
#pragma unroll
    for (int slice = 0; slice < tile_k / 16; ++slice) {
      const auto b = ptx::k_major_descriptor(ptx::shared_address(tile_b) + 32 * slice);
#pragma unroll
      for (int i = 0; i < tile_m / 64; ++i) {
        const auto a =
            ptx::k_major_descriptor(ptx::shared_address(tile_a) + 64 * row_bytes * i + 32 * slice);
        ptx::wgmma_m64k16<tile_n>(accumulator[i], a, b, true);
      }
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(accumulator);
    // The other warps' products may still read the tiles that the next round overwrites.
    if constexpr (broken != Break::no_reuse_barrier) __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < tile_m / 64; ++i) {
    gemm::store_accumulator<tile_n>(accumulator[i], p, first_row + 64 * i, first_column);
  }
}

template <int tile_m, int tile_n, Break broken = Break::none>
harness::Launch prepare(device::Device& device, const gemm::Problem& problem,
                        const harness::Selection&) {
  const unsigned tiles_m = (problem.m + tile_m - 1) / tile_m;
  const unsigned tiles_n = (problem.n + tile_n - 1) / tile_n;
  const device::LaunchShape shape{.grid = {tiles_m * tiles_n},
                                  .block = {threads},
                                  .shared_bytes = std::size_t(tile_m + tile_n) * row_bytes};

  const auto kernel = gemm_wgmma<tile_m, tile_n, broken>;
  return [=, &device] { device.launch(shape, kernel, problem); };
}

}  // namespace

int main(int argc, char** argv) {
  const harness::Variants variants{
      {"--tile 128x128", prepare<128, 128>},
      {"--tile 64x64", prepare<64, 64>},
      {"--tile 64x128", prepare<64, 128>},
      {"--tile 64x256", prepare<64, 256>},
      {"--break no-swizzle", prepare<128, 128, Break::no_swizzle>,
       "fills the tiles row by row, but the descriptor says swizzled"},
      {"--break no-proxy-fence", prepare<128, 128, Break::no_proxy_fence>,
       "does not show its stores to the async proxy before wgmma"},
      {"--break no-reuse-barrier", prepare<128, 128, Break::no_reuse_barrier>,
       "refills the tiles while other warps' wgmmas may read them"}};
  const harness::Lesson lesson{
      .number = 2,
      .name = "wgmma",
      .trick = "tensor cores multiply a hand-filled, hand-swizzled tile",
      .likely_wait = "the other warps of its CTA at a __syncthreads()",
      .knobs = {{"tile",
                 "rows x columns of D that a CTA computes: a larger tile reads A and B less often",
                 {"64x64", "64x128", "64x256", "128x128"},
                 "128x128"}},
      .breaks = variants.breaks(),
      .tile = harness::chosen_tile,
      .prepare = variants,
  };
  return harness::run(lesson, argc, argv);
}

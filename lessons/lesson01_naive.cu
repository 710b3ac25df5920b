// Lesson 01 - naive: one thread computes one output.
//
//   make lesson01 && ./lesson01
//
// Each thread walks along K, multiplies a row of A with a row of B (B is stored by its columns:
// both inputs are K-contiguous) and writes one element of D. No shared memory, no tensor cores:
// this is the floor that the other lessons rise from, and the kernel whose correctness nobody
// doubts.
//
// Two knobs show what there is to win already: how a thread walks along K, and which outputs the 32
// threads of a warp share. The broken variants are not about the kernel but about the check: each
// writes a kind of wrong D that a careless check lets pass.
//
// The note: docs/lesson01_naive.md
#include <cuda_bf16.h>

#include <cstdint>
#include <string>

#include "common/gemm/problem.h"
#include "common/harness/lesson.h"
#include "common/harness/variants.h"

namespace {

constexpr int warps = 8;  // per CTA, stacked along M

enum class Break {
  none,
  nan_element,
  zeros,
  constant,
  drop_last_k_tile,
  first_k_tile_twice,
  swap_row_blocks,
  skip_column,
};

/// How a thread walks along K.
enum class Walk {
  element,  ///< one element after the other, 2 bytes a load
  chunk,    ///< 8 elements after the other, 16 bytes a load
  rotated,  ///< as chunk, but within each 128 bytes every lane begins at another chunk
};

/// A bf16 is the upper half of an fp32: two in a word become two floats by a shift and a mask.
__device__ float dot_pair(std::uint32_t a, std::uint32_t b, float sum) {
  sum += __uint_as_float(a << 16) * __uint_as_float(b << 16);
  return sum + __uint_as_float(a & 0xFFFF0000) * __uint_as_float(b & 0xFFFF0000);
}

__device__ float dot_chunk(const __nv_bfloat16* a, const __nv_bfloat16* b, float sum) {
  const auto chunk_a = *reinterpret_cast<const uint4*>(a);
  const auto chunk_b = *reinterpret_cast<const uint4*>(b);
  sum = dot_pair(chunk_a.x, chunk_b.x, sum);
  sum = dot_pair(chunk_a.y, chunk_b.y, sum);
  sum = dot_pair(chunk_a.z, chunk_b.z, sum);
  return dot_pair(chunk_a.w, chunk_b.w, sum);
}

/// The sum of a[k] * b[k] for k in [0, end). What is left of a chunk is summed element by element:
/// what lies behind the end of a row is not ours to read.
template <Walk walk>
__device__ float dot(const __nv_bfloat16* a, const __nv_bfloat16* b, int end) {
  float sum = 0;
  int k = 0;
  if constexpr (walk == Walk::rotated) {
    // The rows of a matrix often lie a multiple of 128 bytes apart. The same chunk of eight rows is
    // then in the same banks of the L1, and eight lanes get it one after the other. With each lane
    // at another chunk they get theirs at once.
    for (; k + 64 <= end; k += 64) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int chunk = (threadIdx.x + i) % 8;
        sum = dot_chunk(a + k + 8 * chunk, b + k + 8 * chunk, sum);
      }
    }
  }
  if constexpr (walk != Walk::element) {
    for (; k + 8 <= end; k += 8) sum = dot_chunk(a + k, b + k, sum);
  }
  for (; k < end; ++k) sum += __bfloat162float(a[k]) * __bfloat162float(b[k]);
  return sum;
}

/// A warp computes a patch of `patch_rows` x (32 / patch_rows) outputs, a CTA eight patches, one
/// below the other.
template <Walk walk, int patch_rows, Break broken>
__global__ void __launch_bounds__(32 * warps) gemm_naive(const gemm::Problem p) {
  constexpr int patch_columns = 32 / patch_rows;
  constexpr int tile_m = warps * patch_rows;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int tiles_n = (p.n + patch_columns - 1) / patch_columns;

  const int row = blockIdx.x / tiles_n * tile_m + warp * patch_rows + lane / patch_columns;
  const int column = blockIdx.x % tiles_n * patch_columns + lane % patch_columns;
  if (row >= p.m || column >= p.n) return;
  if (broken == Break::skip_column && column == p.n / 2) return;

  int source_row = row;
  if (broken == Break::swap_row_blocks && (row ^ 64) < p.m) source_row = row ^ 64;

  // 64-bit: rows x pitch passes 2^31 for large operands.
  const __nv_bfloat16* const a = p.a + source_row * p.lda;
  const __nv_bfloat16* const b = p.b + column * p.ldb;
  const int k_end = broken == Break::drop_last_k_tile ? p.k - 64 : p.k;
  float sum = dot<walk>(a, b, k_end);

  if (broken == Break::first_k_tile_twice) sum += dot<walk>(a, b, min(p.k, 64));
  if (broken == Break::zeros) sum = 0;
  if (broken == Break::constant) sum = 1;

  float value = p.alpha * sum;
  if (p.beta != 0) value += p.beta * __bfloat162float(p.c[row * p.ldc + column]);
  if (broken == Break::nan_element && row == p.m / 2 && column == p.n / 2) value = NAN;
  p.d[row * p.ldd + column] = __float2bfloat16_rn(value);
}

harness::Tile tile_of(const harness::Selection& selection) {
  const std::string& patch = selection.text("patch");
  const int patch_rows = patch == "1x32" ? 1 : patch == "2x16" ? 2 : 4;
  return {warps * patch_rows, 32 / patch_rows};
}

template <Walk walk, int patch_rows, Break broken = Break::none>
harness::Launch prepare(device::Device& device, const gemm::Problem& problem,
                        const harness::Selection&) {
  constexpr int tile_m = warps * patch_rows, tile_n = 32 / patch_rows;
  const unsigned tiles_m = (problem.m + tile_m - 1) / tile_m;
  const unsigned tiles_n = (problem.n + tile_n - 1) / tile_n;
  const device::LaunchShape shape{.grid = {tiles_m * tiles_n}, .block = {32 * warps}};

  const auto kernel = gemm_naive<walk, patch_rows, broken>;
  return [=, &device] { device.launch(shape, kernel, problem); };
}

}  // namespace

int main(int argc, char** argv) {
  const harness::Variants variants{
      {"--walk rotated --patch 4x8", prepare<Walk::rotated, 4>},
      {"--patch 2x16", prepare<Walk::rotated, 2>},
      {"--patch 1x32", prepare<Walk::rotated, 1>},
      {"--walk chunk", prepare<Walk::chunk, 4>},
      {"--walk chunk --patch 2x16", prepare<Walk::chunk, 2>},
      {"--walk chunk --patch 1x32", prepare<Walk::chunk, 1>},
      {"--walk element", prepare<Walk::element, 4>},
      {"--walk element --patch 2x16", prepare<Walk::element, 2>},
      {"--walk element --patch 1x32", prepare<Walk::element, 1>},
      {"--break nan-element", prepare<Walk::rotated, 4, Break::nan_element>,
       "writes NaN to one element: |NaN - x| > bound is false"},
      {"--break zeros", prepare<Walk::rotated, 4, Break::zeros>,
       "writes zeros: they pass where the tolerance is absolute and D is small"},
      {"--break constant", prepare<Walk::rotated, 4, Break::constant>,
       "writes alpha everywhere: it passes where only a sum is compared"},
      {"--break drop-last-k-tile", prepare<Walk::rotated, 4, Break::drop_last_k_tile>,
       "leaves out the last 64 of K: a K tail that was rounded down"},
      {"--break first-k-tile-twice", prepare<Walk::rotated, 4, Break::first_k_tile_twice>,
       "counts the first 64 of K twice: a stale stage was read"},
      {"--break swap-row-blocks", prepare<Walk::rotated, 4, Break::swap_row_blocks>,
       "swaps blocks of 64 rows: two warpgroups took each other's"},
      {"--break skip-column", prepare<Walk::rotated, 4, Break::skip_column>,
       "does not write one column: old values of D would pass for it"}};
  const harness::Lesson lesson{
      .number = 1,
      .name = "naive",
      .trick = "one thread, one output",
      .likely_wait = "nothing: it has no barriers, so it is only slow; raise --timeout",
      .knobs =
          {{"walk",
            "how a thread walks along K: 2 bytes a load, 16 bytes a load, or 16 with each lane "
            "starting at another chunk",
            {"element", "chunk", "rotated"},
            "rotated"},
           {"patch",
            "rows x columns of outputs that a warp computes: how many rows of A and B its 32 "
            "threads share",
            {"1x32", "2x16", "4x8"},
            "4x8"}},
      .breaks = variants.breaks(),
      .tile = tile_of,
      .prepare = variants,
  };
  return harness::run(lesson, argc, argv);
}

// What divergence costs: `ways` paths of the same length taken by the lanes of one warp, and by as
// many warps. Prints cycles as a multiple of one path.
//
//   nvcc -O3 -gencode arch=compute_90a,code=sm_90a tests/gpu/divergence.cu -o build/divergence
#include <cstdio>
#include <cstdlib>

constexpr int length = 4096;  // of a chain of dependent multiply-adds: all paths take as long

// Each path has a constant of its own, and so code of its own.
template <int path>
__device__ float walk(float x) {
#pragma unroll 8  // short code: the instruction cache is another question
  for (int i = 0; i < length; ++i) {
    asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(0.5f + path / 64.0f));
  }
  return x;
}

template <int path = 0>
__device__ float walk_path(int chosen, float x) {
  if constexpr (path < 32) {
    if (chosen == path) return walk<path>(x);
    return walk_path<path + 1>(chosen, x);
  }
  return x;
}

__global__ void measure(int ways, bool by_lane, long long* cycles, float* out) {
  const int chosen = (by_lane ? threadIdx.x % 32 : threadIdx.x / 32) % ways;
  float x = walk_path(chosen, 1.0f);  // the code is in the cache afterwards
  __syncthreads();
  const long long begin = clock64();
  x += walk_path(chosen, x);
  __syncthreads();
  if (threadIdx.x == 0) *cycles = clock64() - begin;
  out[threadIdx.x] = x;
}

int main() {
  long long* cycles;
  float* out;
  if (cudaMallocManaged(&cycles, sizeof *cycles) || cudaMalloc(&out, 1024 * sizeof *out)) return 3;
  const auto run = [&](int ways, bool by_lane, int threads) {
    measure<<<1, threads>>>(ways, by_lane, cycles, out);
    if (cudaError_t error = cudaDeviceSynchronize()) {
      std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
      std::exit(3);
    }
    return double(*cycles);
  };
  const double warp = run(1, true, 32);
  std::printf("one warp, one path: %.0f cycles\n", warp);
  for (int ways = 2; ways <= 32; ways *= 2) {
    const double lanes = run(ways, true, 32) / warp;
    const double warps = run(ways, false, 32 * ways) / run(1, false, 32 * ways);
    std::printf(
        "%2d paths: by lane %.2f times one path, by warp %.2f times as many warps on one path\n",
        ways, lanes, warps);
  }
}

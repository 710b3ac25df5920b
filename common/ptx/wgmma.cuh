// wgmma: a warpgroup (4 consecutive warps, 128 threads) multiplies tiles in shared memory on the
// tensor cores, asynchronously, into accumulators in its registers. PTX ISA 9.7.15.
//
// The order of a wgmma sequence, run by all 128 threads:
//   wgmma_fence(acc);              registers written so far are ready for the tensor cores
//   wgmma_m64k16<N>(acc, ...);     once per 16 of K; accumulators now belong to the tensor cores
//                                  (of fp8, wgmma_m64k32, once per 32: a wgmma takes 32 bytes of K)
//   wgmma_commit();                closes the group of all wgmmas issued so far
//   wgmma_wait<0>(acc);            at most 0 groups still run: accumulators and tiles are ours
//   again
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ptx/fp8.h"

namespace ptx {

/// Tells the compiler that the accumulators change here; costs no instruction. It then can't move a
/// write of one, such as a zero, to behind what follows, nor a read to before what precedes.
template <std::size_t blocks, std::size_t count>
__device__ inline void hold_accumulators(float (&accumulators)[blocks][count]) {
#pragma unroll
  for (std::size_t i = 0; i < blocks * count; ++i) {
    asm volatile("" : "+f"(accumulators[i / count][i % count])::"memory");
  }
}

/// Leaves the accumulators without a value, for a first wgmma that overwrites them. To C++ it reads
/// what it overwrites, and that would have to be something: so it costs no zeros.
template <std::size_t blocks, std::size_t count>
__device__ inline void leave_accumulators_undefined(float (&accumulators)[blocks][count]) {
#pragma unroll
  for (std::size_t i = 0; i < blocks * count; ++i) {
    asm volatile("" : "=f"(accumulators[i / count][i % count]));
  }
}

/// Orders this warpgroup's accesses to its accumulators (blocks of 64 rows x registers) before the
/// wgmmas that follow. Needed before the first one, and again whenever accumulators were touched by
/// anything but a wgmma. 9.7.15.7.1
template <std::size_t blocks, std::size_t count>
__device__ inline void wgmma_fence(float (&accumulators)[blocks][count]) {
  hold_accumulators(accumulators);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Closes a group: all wgmmas that this warpgroup issued since the last commit. 9.7.15.7.2
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most `pending` of the latest groups still run. Only then may their accumulators
/// be read and their shared-memory tiles be overwritten. 9.7.15.7.3
///
/// `accumulators` are all that this warpgroup holds: blocks of 64 rows x registers.
template <int pending, std::size_t blocks, std::size_t count>
__device__ inline void wgmma_wait(float (&accumulators)[blocks][count]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
  hold_accumulators(accumulators);
}

// The operand lists of a 64 x N accumulator: N / 2 registers a thread, once as PTX text and once as
// C++ operands. After them come descriptor A, descriptor B and the scale-d flag.
// clang-format off
#define WGMMA_TEXT_32                                                                             \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                        \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_TEXT_64                                                                             \
  WGMMA_TEXT_32 ", "                                                                              \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "              \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_TEXT_92                                                                             \
  WGMMA_TEXT_64 ", "                                                                              \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "              \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91"
#define WGMMA_TEXT_96                                                                             \
  WGMMA_TEXT_92 ", "                                                                              \
  "%92, %93, %94, %95"
#define WGMMA_TEXT_100                                                                            \
  WGMMA_TEXT_96 ", "                                                                              \
  "%96, %97, %98, %99"
#define WGMMA_TEXT_128                                                                            \
  WGMMA_TEXT_100 ", "                                                                             \
  "%100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, "\
  "%116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_REGISTERS_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_REGISTERS_16(d, i)                                                                  \
  WGMMA_REGISTERS_4(d, i), WGMMA_REGISTERS_4(d, i + 4),                                           \
  WGMMA_REGISTERS_4(d, i + 8), WGMMA_REGISTERS_4(d, i + 12)
#define WGMMA_REGISTERS_32(d) WGMMA_REGISTERS_16(d, 0), WGMMA_REGISTERS_16(d, 16)
#define WGMMA_REGISTERS_64(d)                                                                     \
  WGMMA_REGISTERS_32(d), WGMMA_REGISTERS_16(d, 32), WGMMA_REGISTERS_16(d, 48)
#define WGMMA_REGISTERS_92(d)                                                                     \
  WGMMA_REGISTERS_64(d), WGMMA_REGISTERS_16(d, 64), WGMMA_REGISTERS_4(d, 80),                     \
  WGMMA_REGISTERS_4(d, 84), WGMMA_REGISTERS_4(d, 88)
#define WGMMA_REGISTERS_96(d) WGMMA_REGISTERS_92(d), WGMMA_REGISTERS_4(d, 92)
#define WGMMA_REGISTERS_100(d) WGMMA_REGISTERS_96(d), WGMMA_REGISTERS_4(d, 96)
#define WGMMA_REGISTERS_128(d)                                                                    \
  WGMMA_REGISTERS_96(d), WGMMA_REGISTERS_16(d, 96), WGMMA_REGISTERS_16(d, 112)

// D = A * B + (accumulate ? D : 0). The last four immediates: A and B are not negated (1, 1) and
// both are K-major (0, 0). 9.7.15.5.2 (wgmma.mma_async)
#define WGMMA_M64K16(n, text, descriptor_a, descriptor_b, scale_d, registers)                     \
  asm volatile(                                                                                   \
      "{\n"                                                                                       \
      ".reg .pred scale_d;\n"                                                                     \
      "setp.ne.b32 scale_d, %" scale_d ", 0;\n"                                                   \
      "wgmma.mma_async.sync.aligned.m64n" n "k16.f32.bf16.bf16 "                                  \
      "{" text "}, %" descriptor_a ", %" descriptor_b ", scale_d, 1, 1, 0, 0;\n"                  \
      "}\n"                                                                                       \
      : registers                                                                                 \
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)))
// clang-format on

/// D (64 x N, fp32, in registers) = A (64 x 16) * B (N x 16)^T + (accumulate ? D : 0), bf16 inputs
/// in shared memory, both K-major, found through descriptors (descriptor.h) that must be the same
/// in all four warps. Starts the product and returns; see the order above.
///
/// With t the thread's rank in the warpgroup, warp w = t / 32 and lane l = t % 32, element
/// d[4 j + 2 h + e] is row 16 w + l / 4 + 8 h, column 8 j + 2 (l % 4) + e. 9.7.15.5.1, figure of D
template <int N>
__device__ inline void wgmma_m64k16(float (&d)[N / 2], std::uint64_t a, std::uint64_t b,
                                    bool accumulate) {
  static_assert(N == 64 || N == 128 || N == 184 || N == 192 || N == 200 || N == 256,
                "the lessons use these widths of N");
  if constexpr (N == 64) {
    WGMMA_M64K16("64", WGMMA_TEXT_32, "32", "33", "34", WGMMA_REGISTERS_32(d));
  } else if constexpr (N == 128) {
    WGMMA_M64K16("128", WGMMA_TEXT_64, "64", "65", "66", WGMMA_REGISTERS_64(d));
  } else if constexpr (N == 184) {
    WGMMA_M64K16("184", WGMMA_TEXT_92, "92", "93", "94", WGMMA_REGISTERS_92(d));
  } else if constexpr (N == 192) {
    WGMMA_M64K16("192", WGMMA_TEXT_96, "96", "97", "98", WGMMA_REGISTERS_96(d));
  } else if constexpr (N == 200) {
    WGMMA_M64K16("200", WGMMA_TEXT_100, "100", "101", "102", WGMMA_REGISTERS_100(d));
  } else if constexpr (N == 256) {
    WGMMA_M64K16("256", WGMMA_TEXT_128, "128", "129", "130", WGMMA_REGISTERS_128(d));
  }
}

// clang-format off
// As above, but there is nothing to transpose: 8-bit operands are K-major.
#define WGMMA_M64K32_OF(types, n, text, descriptor_a, descriptor_b, scale_d, ...)                 \
  asm volatile(                                                                                   \
      "{\n"                                                                                       \
      ".reg .pred scale_d;\n"                                                                     \
      "setp.ne.b32 scale_d, %" scale_d ", 0;\n"                                                   \
      "wgmma.mma_async.sync.aligned.m64n" n "k32.f32." types " "                                  \
      "{" text "}, %" descriptor_a ", %" descriptor_b ", scale_d, 1, 1;\n"                        \
      "}\n"                                                                                       \
      : __VA_ARGS__                                                                               \
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)))
#define WGMMA_M64K32(...)                                                                         \
  if constexpr (A == Fp8::e4m3 && B == Fp8::e4m3) {                                               \
    WGMMA_M64K32_OF("e4m3.e4m3", __VA_ARGS__);                                                    \
  } else if constexpr (A == Fp8::e4m3) {                                                          \
    WGMMA_M64K32_OF("e4m3.e5m2", __VA_ARGS__);                                                    \
  } else if constexpr (B == Fp8::e4m3) {                                                          \
    WGMMA_M64K32_OF("e5m2.e4m3", __VA_ARGS__);                                                    \
  } else {                                                                                        \
    WGMMA_M64K32_OF("e5m2.e5m2", __VA_ARGS__);                                                    \
  }
// clang-format on

/// D (64 x N, fp32, in registers) = A (64 x 32) * B (N x 32)^T + (accumulate ? D : 0), A and B of
/// 8-bit floats, each of its own type. All else is as with wgmma_m64k16, but for the sums: they are
/// less precise than fp32 (9.7.15.5.2), by how much emulator/wgmma.h says.
template <Fp8 A, Fp8 B, int N>
__device__ inline void wgmma_m64k32(float (&d)[N / 2], std::uint64_t a, std::uint64_t b,
                                    bool accumulate) {
  static_assert(N == 128 || N == 192 || N == 256, "the lessons use these widths of N");
  if constexpr (N == 128) {
    WGMMA_M64K32("128", WGMMA_TEXT_64, "64", "65", "66", WGMMA_REGISTERS_64(d))
  } else if constexpr (N == 192) {
    WGMMA_M64K32("192", WGMMA_TEXT_96, "96", "97", "98", WGMMA_REGISTERS_96(d))
  } else if constexpr (N == 256) {
    WGMMA_M64K32("256", WGMMA_TEXT_128, "128", "129", "130", WGMMA_REGISTERS_128(d))
  }
}

#undef WGMMA_M64K32
#undef WGMMA_M64K32_OF
#undef WGMMA_M64K16
#undef WGMMA_REGISTERS_128
#undef WGMMA_REGISTERS_100
#undef WGMMA_REGISTERS_96
#undef WGMMA_REGISTERS_92
#undef WGMMA_REGISTERS_64
#undef WGMMA_REGISTERS_32
#undef WGMMA_REGISTERS_16
#undef WGMMA_REGISTERS_4
#undef WGMMA_TEXT_128
#undef WGMMA_TEXT_100
#undef WGMMA_TEXT_96
#undef WGMMA_TEXT_92
#undef WGMMA_TEXT_64
#undef WGMMA_TEXT_32

}  // namespace ptx

// The kernels of the dump program, and what starts them.
#include <cstdint>
#include <stdexcept>
#include <string>

#include "tests/golden/dump_kernels.h"
#include "tests/golden/operations.h"
#include "tests/golden/wgmma_forms.h"

namespace golden {
namespace {

constexpr std::uint32_t image_bytes = 64 * 1024;
constexpr std::uint32_t image_alignment = 1024;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + " failed: " + cudaGetErrorString(status) + ".");
}

void finish(const char* kernel) {
  check(cudaGetLastError(), kernel);
  check(cudaDeviceSynchronize(), kernel);
}

__device__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// The first multiple of 1024 in the dynamic shared memory.
__device__ std::uint32_t* aligned_shared() {
  extern __shared__ std::uint32_t shared[];
  const std::uint32_t start = shared_address(shared);
  const std::uint32_t aligned = (start + image_alignment - 1) / image_alignment * image_alignment;
  return shared + (aligned - start) / sizeof(std::uint32_t);
}

__device__ void copy_words(std::uint32_t* to, const std::uint32_t* from, std::uint32_t count) {
  for (std::uint32_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

/// What threads have written to shared memory becomes visible to wgmma and TMA.
__device__ void publish_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}

// ---- wgmma. The operands of every form are %0 and %1: descriptors of A and B; %2: scale-d; %3 to
// %6: A in registers; %7 and up: the accumulator.

// Registers of the accumulator: N / 2, or N / 4 for f16.
#define GOLDEN_COUNT_f32_8 4
#define GOLDEN_COUNT_f32_96 48
#define GOLDEN_COUNT_f32_256 128
#define GOLDEN_COUNT_s32_8 4
#define GOLDEN_COUNT_s32_96 48
#define GOLDEN_COUNT_s32_256 128
#define GOLDEN_COUNT_f16_8 2
#define GOLDEN_COUNT_f16_96 24
#define GOLDEN_COUNT_f16_256 64

#define GOLDEN_LIST_2 "%7, %8"
#define GOLDEN_LIST_4 GOLDEN_LIST_2 ", %9, %10"
#define GOLDEN_LIST_24                                                       \
  GOLDEN_LIST_4                                                              \
  ", %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, " \
  "%25, %26, %27, %28, %29, %30"
#define GOLDEN_LIST_48                                                       \
  GOLDEN_LIST_24                                                             \
  ", %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, " \
  "%45, %46, %47, %48, %49, %50, %51, %52, %53, %54"
#define GOLDEN_LIST_64                                                       \
  GOLDEN_LIST_48                                                             \
  ", %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, " \
  "%69, %70"
#define GOLDEN_LIST_128                                                         \
  GOLDEN_LIST_64                                                                \
  ", %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, "    \
  "%85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, " \
  "%100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "    \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, "    \
  "%124, %125, %126, %127, %128, %129, %130, %131, %132, %133, %134"

#define GOLDEN_OPERANDS_AT(i) "+r"(d[i]), "+r"(d[(i) + 1])
#define GOLDEN_OPERANDS_2 GOLDEN_OPERANDS_AT(0)
#define GOLDEN_OPERANDS_4 GOLDEN_OPERANDS_2, GOLDEN_OPERANDS_AT(2)
#define GOLDEN_4_AT(i) GOLDEN_OPERANDS_AT(i), GOLDEN_OPERANDS_AT((i) + 2)
#define GOLDEN_16_AT(i) \
  GOLDEN_4_AT(i), GOLDEN_4_AT((i) + 4), GOLDEN_4_AT((i) + 8), GOLDEN_4_AT((i) + 12)
#define GOLDEN_OPERANDS_24 GOLDEN_16_AT(0), GOLDEN_4_AT(16), GOLDEN_4_AT(20)
#define GOLDEN_OPERANDS_48 GOLDEN_16_AT(0), GOLDEN_16_AT(16), GOLDEN_16_AT(32)
#define GOLDEN_OPERANDS_64 GOLDEN_OPERANDS_48, GOLDEN_16_AT(48)
#define GOLDEN_OPERANDS_128 \
  GOLDEN_OPERANDS_64, GOLDEN_16_AT(64), GOLDEN_16_AT(80), GOLDEN_16_AT(96), GOLDEN_16_AT(112)

#define GOLDEN_K_f16 "16"
#define GOLDEN_K_bf16 "16"
#define GOLDEN_K_tf32 "8"
#define GOLDEN_K_e4m3 "32"
#define GOLDEN_K_e5m2 "32"
#define GOLDEN_K_s8 "32"
#define GOLDEN_K_u8 "32"

#define GOLDEN_A_ss "%0"
#define GOLDEN_A_rs "{%3, %4, %5, %6}"
#define GOLDEN_SIGN_plus "1"
#define GOLDEN_SIGN_minus "-1"
#define GOLDEN_SATURATION_wrap ""
#define GOLDEN_SATURATION_satfinite ".satfinite"

// The immediates: signs for floats, transposes for 16-bit operands in shared memory.
#define GOLDEN_SIGNS_OF(na, nb) ", " GOLDEN_SIGN_##na ", " GOLDEN_SIGN_##nb
#define GOLDEN_TRANSPOSES_ss(ta, tb) ", " #ta ", " #tb
#define GOLDEN_TRANSPOSES_rs(ta, tb) ", " #tb
#define GOLDEN_IMMEDIATES_f16(source, na, nb, ta, tb) \
  GOLDEN_SIGNS_OF(na, nb) GOLDEN_TRANSPOSES_##source(ta, tb)
#define GOLDEN_IMMEDIATES_bf16(source, na, nb, ta, tb) \
  GOLDEN_SIGNS_OF(na, nb) GOLDEN_TRANSPOSES_##source(ta, tb)
#define GOLDEN_IMMEDIATES_tf32(source, na, nb, ta, tb) GOLDEN_SIGNS_OF(na, nb)
#define GOLDEN_IMMEDIATES_e4m3(source, na, nb, ta, tb) GOLDEN_SIGNS_OF(na, nb)
#define GOLDEN_IMMEDIATES_e5m2(source, na, nb, ta, tb) GOLDEN_SIGNS_OF(na, nb)
#define GOLDEN_IMMEDIATES_s8(source, na, nb, ta, tb) ""
#define GOLDEN_IMMEDIATES_u8(source, na, nb, ta, tb) ""

#define GOLDEN_PASTE(x, y) x##y
#define GOLDEN_LIST(count) GOLDEN_PASTE(GOLDEN_LIST_, count)
#define GOLDEN_OPERANDS(count) GOLDEN_PASTE(GOLDEN_OPERANDS_, count)

#define GOLDEN_WGMMA_KERNEL(a_, b_, d_, n_, source, na, nb, ta, tb, sat)                          \
  __global__ __launch_bounds__(128) void                                                          \
      wgmma_##a_##_##b_##_##d_##_##n_##_##source##_##na##_##nb##_##ta##_##tb##_##sat(             \
          const std::uint32_t* image, std::uint64_t descriptor_a, std::uint64_t descriptor_b,     \
          std::uint32_t scale_d, const std::uint32_t* a_words, std::uint32_t* d_words) {          \
    std::uint32_t* const shared = aligned_shared();                                               \
    copy_words(shared, image, image_bytes / sizeof(std::uint32_t));                               \
    publish_shared();                                                                             \
    std::uint32_t a[4];                                                                           \
    std::uint32_t d[GOLDEN_COUNT_##d_##_##n_];                                                    \
    for (int i = 0; i < 4; ++i) a[i] = a_words[i * 128 + threadIdx.x];                            \
    for (int i = 0; i < GOLDEN_COUNT_##d_##_##n_; ++i) d[i] = d_words[i * 128 + threadIdx.x];     \
    descriptor_a += shared_address(shared) >> 4;                                                  \
    descriptor_b += shared_address(shared) >> 4;                                                  \
    asm volatile(                                                                                 \
        "{ .reg .pred p; setp.ne.u32 p, %2, 0; wgmma.fence.sync.aligned; "                        \
        "wgmma.mma_async.sync.aligned.m64n" #n_ "k" GOLDEN_K_##a_ "." #d_ "." #a_                 \
                                                                  "." #b_ GOLDEN_SATURATION_##sat \
        " {" GOLDEN_LIST(GOLDEN_COUNT_##d_##_##n_) "}, " GOLDEN_A_##source                        \
        ", %1, p" GOLDEN_IMMEDIATES_##a_(                                                         \
            source, na, nb, ta,                                                                   \
            tb) "; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }"           \
        : "+l"(descriptor_a), "+l"(descriptor_b), "+r"(scale_d), "+r"(a[0]), "+r"(a[1]),          \
          "+r"(a[2]), "+r"(a[3]), GOLDEN_OPERANDS(GOLDEN_COUNT_##d_##_##n_)                       \
        :                                                                                         \
        : "memory");                                                                              \
    for (int i = 0; i < GOLDEN_COUNT_##d_##_##n_; ++i) d_words[i * 128 + threadIdx.x] = d[i];     \
  }

GOLDEN_WGMMA_FORMS(GOLDEN_WGMMA_KERNEL)

using WgmmaKernel = void (*)(const std::uint32_t*, std::uint64_t, std::uint64_t, std::uint32_t,
                             const std::uint32_t*, std::uint32_t*);

constexpr WgmmaKernel wgmma_kernels[] = {
#define GOLDEN_WGMMA_ADDRESS(a_, b_, d_, n_, source, na, nb, ta, tb, sat) \
  wgmma_##a_##_##b_##_##d_##_##n_##_##source##_##na##_##nb##_##ta##_##tb##_##sat,
    GOLDEN_WGMMA_FORMS(GOLDEN_WGMMA_ADDRESS)};

// ---- Scalar operations.

__global__ void operation_kernel(int index, std::uint32_t count, const std::uint32_t* inputs,
                                 std::uint32_t* results) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const std::uint32_t a = inputs[i];
  const std::uint32_t b = inputs[count + i];
  const std::uint32_t c = inputs[2 * count + i];
  std::uint32_t result = 0;
  int candidate = 0;
#define GOLDEN_APPLY(name, source, body)                                        \
  if (index == candidate++) {                                                   \
    asm volatile("{ .reg .b16 h, i, j; .reg .b32 s, t; .reg .b64 d; " body " }" \
                 : "=r"(result)                                                 \
                 : "r"(a), "r"(b), "r"(c));                                     \
  }
  GOLDEN_OPERATIONS(GOLDEN_APPLY)
  results[i] = result;
}

// ---- Tensor copies, by one thread.

struct Coordinates {
  std::int32_t at[5];
};

__device__ void init_barrier(std::uint32_t barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ void arrive_expecting(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

/// Whether phase 0 completes within about a second.
__device__ bool completes(std::uint32_t barrier) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::uint32_t done = 0;
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0, 1000000; "
        "selp.b32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(barrier)
        : "memory");
    if (done != 0) return true;
  }
  return false;
}

#define GOLDEN_COORDINATES_1 "{%2}"
#define GOLDEN_COORDINATES_2 "{%2, %3}"
#define GOLDEN_COORDINATES_3 "{%2, %3, %4}"
#define GOLDEN_COORDINATES_4 "{%2, %3, %4, %5}"
#define GOLDEN_COORDINATES_5 "{%2, %3, %4, %5, %6}"

#define GOLDEN_LOAD(rank)                                                                      \
  asm volatile("cp.async.bulk.tensor." #rank                                                   \
               "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "             \
               "[%1, " GOLDEN_COORDINATES_##rank "], [%7];" ::"r"(box),                        \
               "l"(map), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(c.at[4]), \
               "r"(barrier)                                                                    \
               : "memory")

#define GOLDEN_STORE(rank)                                                                    \
  asm volatile("cp.async.bulk.tensor." #rank                                                  \
               "d.global.shared::cta.tile.bulk_group [%1, " GOLDEN_COORDINATES_##rank         \
               "], [%0];" ::"r"(box),                                                         \
               "l"(map), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(c.at[4]) \
               : "memory")

#define GOLDEN_REDUCE(operation)                                              \
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta." operation \
               ".tile.bulk_group [%1, {%2, %3}], [%0];" ::"r"(box),           \
               "l"(map), "r"(c.at[0]), "r"(c.at[1])                           \
               : "memory")

__device__ void issue_load(int rank, std::uint32_t box, const CUtensorMap* map, Coordinates c,
                           std::uint32_t barrier) {
  switch (rank) {
    case 1:
      GOLDEN_LOAD(1);
      break;
    case 2:
      GOLDEN_LOAD(2);
      break;
    case 3:
      GOLDEN_LOAD(3);
      break;
    case 4:
      GOLDEN_LOAD(4);
      break;
    case 5:
      GOLDEN_LOAD(5);
      break;
  }
}

__device__ void issue_store(int rank, std::uint32_t box, const CUtensorMap* map, Coordinates c) {
  switch (rank) {
    case 1:
      GOLDEN_STORE(1);
      break;
    case 2:
      GOLDEN_STORE(2);
      break;
    case 3:
      GOLDEN_STORE(3);
      break;
    case 4:
      GOLDEN_STORE(4);
      break;
    case 5:
      GOLDEN_STORE(5);
      break;
  }
}

__device__ void issue_reduction(emulator::ReduceOperation operation, std::uint32_t box,
                                const CUtensorMap* map, Coordinates c) {
  using enum emulator::ReduceOperation;
  switch (operation) {
    case add:
      GOLDEN_REDUCE("add");
      break;
    case min:
      GOLDEN_REDUCE("min");
      break;
    case max:
      GOLDEN_REDUCE("max");
      break;
    case inc:
      GOLDEN_REDUCE("inc");
      break;
    case dec:
      GOLDEN_REDUCE("dec");
      break;
    case bit_and:
      GOLDEN_REDUCE("and");
      break;
    case bit_or:
      GOLDEN_REDUCE("or");
      break;
    case bit_xor:
      GOLDEN_REDUCE("xor");
      break;
  }
}

__device__ void wait_for_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

__global__ void tensor_kernel(TensorDirection direction, emulator::ReduceOperation operation,
                              int rank, const __grid_constant__ CUtensorMap map,
                              Coordinates coordinates, std::uint32_t box_bytes,
                              std::uint32_t shared_offset, std::uint32_t* shared_words,
                              std::uint32_t* landed) {
  __shared__ std::uint64_t barrier_object;
  const std::uint32_t barrier = shared_address(&barrier_object);
  constexpr std::uint32_t word_count = tensor_shared_bytes / sizeof(std::uint32_t);
  std::uint32_t* const shared = aligned_shared();
  copy_words(shared, shared_words, word_count);
  if (threadIdx.x == 0) init_barrier(barrier);
  publish_shared();
  if (threadIdx.x == 0) {
    const std::uint32_t box = shared_address(shared) + shared_offset;
    *landed = 1;
    if (direction == TensorDirection::load) {
      arrive_expecting(barrier, box_bytes);
      issue_load(rank, box, &map, coordinates, barrier);
      *landed = completes(barrier) ? 1 : 0;
    } else if (direction == TensorDirection::store) {
      issue_store(rank, box, &map, coordinates);
      wait_for_stores();
    } else {
      issue_reduction(operation, box, &map, coordinates);
      wait_for_stores();
    }
  }
  __syncthreads();
  copy_words(shared_words, shared, word_count);
}

// ---- ldmatrix and stmatrix.

__global__ void matrix_kernel(bool store, int matrices, bool transposed, std::uint32_t* image,
                              const std::uint32_t* addresses, std::uint32_t* registers) {
  __shared__ alignas(16) std::uint32_t shared[matrix_image_words];
  copy_words(shared, image, matrix_image_words);
  __syncwarp();
  const std::uint32_t lane = threadIdx.x;
  const std::uint32_t row = shared_address(shared) + addresses[lane];
  std::uint32_t r[4] = {};
  for (int i = 0; i < matrices; ++i) r[i] = registers[i * 32 + lane];

#define GOLDEN_MATRIX_1 "{%0}"
#define GOLDEN_MATRIX_2 "{%0, %1}"
#define GOLDEN_MATRIX_4 "{%0, %1, %2, %3}"
#define GOLDEN_MATRIX_OPERANDS \
  : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]) : "r"(row) : "memory"
#define GOLDEN_MATRIX_CASE(count, trans)                                                      \
  if (matrices == count && store) {                                                           \
    asm volatile("stmatrix.sync.aligned.m8n8.x" #count trans                                  \
                 ".shared::cta.b16 [%4], " GOLDEN_MATRIX_##count ";" GOLDEN_MATRIX_OPERANDS); \
  } else if (matrices == count) {                                                             \
    asm volatile("ldmatrix.sync.aligned.m8n8.x" #count trans                                  \
                 ".shared::cta.b16 " GOLDEN_MATRIX_##count ", [%4];" GOLDEN_MATRIX_OPERANDS); \
  }
  if (transposed) {
    GOLDEN_MATRIX_CASE(1, ".trans")
    GOLDEN_MATRIX_CASE(2, ".trans")
    GOLDEN_MATRIX_CASE(4, ".trans")
  } else {
    GOLDEN_MATRIX_CASE(1, "")
    GOLDEN_MATRIX_CASE(2, "")
    GOLDEN_MATRIX_CASE(4, "")
  }
  __syncwarp();
  for (int i = 0; i < matrices; ++i) registers[i * 32 + lane] = r[i];
  copy_words(image, shared, matrix_image_words);
}

// ---- mbarriers.

/// One step of a case; `state` is what the last arrival returned.
__device__ std::uint32_t barrier_step(BarrierOperation operation, std::uint32_t value,
                                      std::uint32_t barrier, std::uint64_t& state) {
  std::uint32_t result = 0;
  switch (operation) {
    case BarrierOperation::init:
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(value) : "memory");
      break;
    case BarrierOperation::arrive:
      asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;"
                   : "=l"(state)
                   : "r"(barrier), "r"(value)
                   : "memory");
      break;
    case BarrierOperation::arrive_drop:
      asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1];"
                   : "=l"(state)
                   : "r"(barrier)
                   : "memory");
      break;
    case BarrierOperation::arrive_expect_tx:
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], %2;"
                   : "=l"(state)
                   : "r"(barrier), "r"(value)
                   : "memory");
      break;
    case BarrierOperation::expect_tx:
      asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier),
                   "r"(value)
                   : "memory");
      break;
    case BarrierOperation::complete_tx:
      asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier),
                   "r"(value)
                   : "memory");
      break;
    case BarrierOperation::test_wait:
      asm volatile(
          "{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
          : "=r"(result)
          : "r"(barrier), "l"(state)
          : "memory");
      break;
    case BarrierOperation::test_wait_parity:
      asm volatile(
          "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; "
          "selp.b32 %0, 1, 0, p; }"
          : "=r"(result)
          : "r"(barrier), "r"(value)
          : "memory");
      break;
    case BarrierOperation::pending_count:
      asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(result) : "l"(state));
      break;
  }
  return result;
}

__global__ void barrier_kernel(std::uint32_t count, const std::uint32_t* steps,
                               std::uint32_t* results) {
  __shared__ std::uint64_t barrier_object;
  std::uint64_t state = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    results[i] = barrier_step(static_cast<BarrierOperation>(steps[2 * i]), steps[2 * i + 1],
                              shared_address(&barrier_object), state);
  }
}

// ---- Clusters.

#define GOLDEN_SPECIAL(name)                               \
  [] {                                                     \
    std::uint32_t value;                                   \
    asm volatile("mov.u32 %0, %%" name ";" : "=r"(value)); \
    return value;                                          \
  }()

__device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

__global__ void cluster_kernel(std::uint32_t* results) {
  __shared__ std::uint32_t word;
  const std::uint32_t rank = GOLDEN_SPECIAL("cluster_ctarank");
  const std::uint32_t size = GOLDEN_SPECIAL("cluster_nctarank");
  const std::uint32_t cta = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  std::uint32_t* const mine = results + cta * cluster_words;
  word = 100 + rank;
  cluster_sync();
  mine[0] = rank;
  mine[1] = size;
  mine[2] = GOLDEN_SPECIAL("cluster_ctaid.x");
  mine[3] = GOLDEN_SPECIAL("cluster_ctaid.y");
  mine[4] = GOLDEN_SPECIAL("cluster_ctaid.z");
  mine[5] = GOLDEN_SPECIAL("clusterid.x");
  mine[6] = GOLDEN_SPECIAL("clusterid.y");
  mine[7] = GOLDEN_SPECIAL("clusterid.z");
  for (std::uint32_t target = 0; target < 8; ++target) {
    std::uint32_t target_rank = 0;
    std::uint32_t value = 0;
    if (target < size) {
      std::uint32_t address;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                   : "=r"(address)
                   : "r"(shared_address(&word)), "r"(target));
      asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(target_rank) : "r"(address));
      asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    }
    mine[8 + target] = target_rank;
    mine[16 + target] = value;
  }
  cluster_sync();
}

}  // namespace

void run_wgmma(int form_index, const void* image, std::uint64_t descriptor_a,
               std::uint64_t descriptor_b, bool scale_d, const std::uint32_t* a, std::uint32_t* d) {
  const WgmmaKernel kernel = wgmma_kernels[form_index];
  constexpr std::uint32_t shared_bytes = image_bytes + image_alignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
        "Setting the shared memory of wgmma_kernel");
  kernel<<<1, 128, shared_bytes>>>(static_cast<const std::uint32_t*>(image), descriptor_a,
                                   descriptor_b, scale_d ? 1 : 0, a, d);
  finish("wgmma_kernel");
}

void run_operation(int index, std::uint32_t count, const std::uint32_t* inputs,
                   std::uint32_t* results) {
  operation_kernel<<<(count + 255) / 256, 256>>>(index, count, inputs, results);
  finish("operation_kernel");
}

bool run_tensor(const TensorCase& c, const CUtensorMap& map, std::uint32_t* shared) {
  Coordinates coordinates;
  for (int i = 0; i < 5; ++i) coordinates.at[i] = c.coordinates[i];
  std::uint32_t* landed = nullptr;
  check(cudaMalloc(&landed, sizeof(*landed)), "cudaMalloc");
  tensor_kernel<<<1, 128, tensor_shared_bytes + image_alignment>>>(
      c.direction, c.operation, c.map.rank, map, coordinates,
      static_cast<std::uint32_t>(emulator::box_bytes(c.map)), c.shared_offset, shared, landed);
  finish("tensor_kernel");
  std::uint32_t result = 0;
  check(cudaMemcpy(&result, landed, sizeof(result), cudaMemcpyDeviceToHost), "cudaMemcpy");
  check(cudaFree(landed), "cudaFree");
  return result == 1;
}

void run_matrix(const MatrixCase& c, std::uint32_t* image, const std::uint32_t* addresses,
                std::uint32_t* registers) {
  matrix_kernel<<<1, 32>>>(c.store, c.matrices, c.transposed, image, addresses, registers);
  finish("matrix_kernel");
}

void run_barrier(std::uint32_t count, const std::uint32_t* steps, std::uint32_t* results) {
  barrier_kernel<<<1, 1>>>(count, steps, results);
  finish("barrier_kernel");
}

void run_cluster(const ClusterCase& c, std::uint32_t* results) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = c.cluster[0];
  attribute.val.clusterDim.y = c.cluster[1];
  attribute.val.clusterDim.z = c.cluster[2];
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(c.grid[0], c.grid[1], c.grid[2]);
  config.blockDim = dim3(1);
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, cluster_kernel, results), "Launching cluster_kernel");
  finish("cluster_kernel");
}

}  // namespace golden

// What the dump program runs on the GPU. Pointers are to device memory; each call waits for its
// kernel and throws std::runtime_error with CUDA's words if it failed.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "tests/golden/tensor_cases.h"
#include "tests/golden/thread_cases.h"

namespace golden {

/// One wgmma. `image` is 64 KB for shared memory; `a` and `d` are [register][thread], and the
/// result replaces `d`.
void run_wgmma(int form_index, const void* image, std::uint64_t descriptor_a,
               std::uint64_t descriptor_b, bool scale_d, const std::uint32_t* a, std::uint32_t* d);

/// results[i] = operation(inputs[i], inputs[count + i], inputs[2 count + i]).
void run_operation(int index, std::uint32_t count, const std::uint32_t* inputs,
                   std::uint32_t* results);

/// One copy through a tensor map. `shared` is what shared memory holds before
/// (tensor_shared_bytes), and after a load what it holds then. Returns false if a load's bytes did
/// not all arrive in time.
bool run_tensor(const TensorCase& c, const CUtensorMap& map, std::uint32_t* shared);

/// ldmatrix or stmatrix by one warp; `image` and `registers` are replaced.
void run_matrix(const MatrixCase& c, std::uint32_t* image, const std::uint32_t* addresses,
                std::uint32_t* registers);

/// One thread's steps; `steps` are pairs of operation and value.
void run_barrier(std::uint32_t count, const std::uint32_t* steps, std::uint32_t* results);

void run_cluster(const ClusterCase& c, std::uint32_t* results);

}  // namespace golden

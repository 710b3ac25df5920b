// A fused epilogue as a chain of operations: what happens to a tile between its sums and D.
//
// What never varies stands in fused_roles.cuh: the walk over the tile's chunks, who waits for whom,
// the copies between global and shared memory. What varies are the operations. Each has a function
// for the stages of the walk in which it has something to do, and does nothing in the others:
//
//   begin   once a tile, before its sums are there: fetches what all chunks need
//   visit   once a chunk: changes its values, in registers
//   reduce  once a chunk: adds its values up, in registers
//   store   once a chunk: writes its outputs to shared memory
//   end     once a tile: passes on what was added up
//   finish  once a CTA, behind its last tile: makes results of what all CTAs have passed on
//
// In each stage the operations come in the order of the chain. An operation is an object of each of
// the 128 threads of a consumer; its members are registers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "common/gemm/activation.h"
#include "common/gemm/chunk.cuh"
#include "common/gemm/fused_problem.h"

namespace gemm {

/// What one thread holds of a chunk, 64 x 64: 16 pairs of neighbours. Pair i is value[2 i] and
/// value[2 i + 1] and lies in the thread's own row, or 8 rows below it if i is odd, and 8 * (i / 2)
/// columns to the right (ptx::wgmma_m64k16).
struct Fragment {
  static constexpr int pairs = 16;

  float value[2 * pairs];
  int row, column;   ///< of pair 0, in D
  int block, strip;  ///< the chunk's place in its tile, in chunks

  __device__ int row_of(int pair) const { return row + pair % 2 * 8; }
  __device__ int column_of(int pair) const { return column + pair / 2 * 8; }

  /// Takes the sums of chunk `chunk` of a tile, counted row by row. Which one it is, is known only
  /// when the kernel runs, and registers have no index: there is a branch for each chunk.
  template <int candidate = 0, int blocks, int count>
  __device__ void take_sums(const float (&accumulator)[blocks][count], int chunk) {
    constexpr int size = 2 * pairs, across = count / size;
    if (chunk == candidate) {
#pragma unroll
      for (int i = 0; i < size; ++i) {
        value[i] = accumulator[candidate / across][candidate % across * size + i];
        asm volatile("" : "+f"(value[i]));  // keeps the branch: no selecting among all chunks
      }
    }
    if constexpr (candidate + 1 < blocks * across) take_sums<candidate + 1>(accumulator, chunk);
  }

  /// This thread's row and column of pair 0, in a chunk.
  __device__ static int own_row() {
    return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  }
  __device__ static int own_column() {
    return threadIdx.x % 4 * 2;
  }
};

/// Where a chunk's inputs lie in shared memory, and where its outputs are put: places of the size
/// of a bf16 chunk, one behind the other. Outputs may lie over inputs, since all inputs of a warp's
/// rows are read before any of its outputs is written.
struct Places {
  unsigned char* first;
  __device__ unsigned char* at(int place) const { return first + place * Chunk<64>::bytes; }
};

/// What an operation does in the stages that it does not mention.
struct Operation {
  __device__ void begin(int /*row*/, int /*column*/) {}
  __device__ void visit(Fragment&, Places) const {}
  __device__ void reduce(Fragment&) {}
  __device__ void store(const Fragment&, Places) const {}
  __device__ void end(int /*row*/, int /*column*/) const {}

  template <class Problem>
  __device__ static void finish(const Problem&) {}
};

/// The operations one after the other. A chain inherits from its operations, and `(Operations::f(),
/// ...)` calls f of each, in their order.
template <class... Operations>
struct Chain : Operations... {
  /// A FusedProblem, or what its operations ask for beyond that.
  template <class Problem>
  __device__ explicit Chain(const Problem& p) : Operations(p)... {}

  /// The tile's first row and column, in D.
  __device__ void begin(int row, int column) { (Operations::begin(row, column), ...); }
  __device__ void visit(Fragment& f, Places places) const { (Operations::visit(f, places), ...); }
  __device__ void reduce(Fragment& f) { (Operations::reduce(f), ...); }
  __device__ void store(const Fragment& f, Places places) const {
    (Operations::store(f, places), ...);
  }
  __device__ void end(int row, int column) const { (Operations::end(row, column), ...); }

  template <class Problem>
  __device__ static void finish(const Problem& p) {
    (Operations::finish(p), ...);
  }
};

// ---- Operations of a forward pass.

/// alpha * sums.
struct Scale : Operation {
  float alpha;

  __device__ explicit Scale(const FusedProblem& p) : alpha(p.product.alpha) {}
  __device__ void visit(Fragment& f, Places) const {
#pragma unroll
    for (float& value : f.value) value *= alpha;
  }
};

/// Adds `factor` times a matrix that has come with the chunk. It is read here, a few elements at a
/// time, and not before: two matrices' elements would take 32 registers that are not there.
__device__ inline void add_input(Fragment& f, unsigned char* matrix, float factor) {
#pragma unroll
  for (int first = 0; first < Fragment::pairs; first += 4) {
    std::uint32_t pair[4];
    read_pairs<64>(matrix, first, pair);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 input = unpack_bf16(pair[i]);
      f.value[2 * (first + i)] += factor * input.x;
      f.value[2 * (first + i) + 1] += factor * input.y;
    }
  }
}

/// + beta * C, which comes in place 0.
struct AddC : Operation {
  const FusedProblem& p;

  __device__ explicit AddC(const FusedProblem& problem) : p(problem) {}
  __device__ void visit(Fragment& f, Places places) const {
    if (p.has_c()) add_input(f, places.at(0), p.product.beta);
  }
};

/// + residual, which comes behind C.
struct AddResidual : Operation {
  const FusedProblem& p;

  __device__ explicit AddResidual(const FusedProblem& problem) : p(problem) {}
  __device__ void visit(Fragment& f, Places places) const {
    if (p.has_residual()) add_input(f, places.at(p.inputs() - 1), 1);
  }
};

/// + bias. Each warp keeps what its rows or columns of a tile of two by two chunks need: 32
/// elements for its rows, one a lane, or 64 pairs for its columns, two a lane. They are fetched
/// while the tile is being multiplied, and handed round by shuffles when they are added. In each
/// thread they would be 16 registers more, and the compiler would rather spill them.
struct AddBias : Operation {
  const FusedProblem& p;
  std::uint32_t held[2] = {};

  __device__ explicit AddBias(const FusedProblem& problem) : p(problem) {}

  __device__ void begin(int first_row, int first_column) {
    const int lane = threadIdx.x % 32;
    if (p.bias_kind == Bias::row) {
      const int row = first_row + lane / 16 * 64 + threadIdx.x % 128 / 32 * 16 + lane % 16;
      if (row < p.product.m) held[0] = __bfloat16_as_ushort(p.bias[row]);
    } else if (p.bias_kind == Bias::column) {
#pragma unroll
      for (int strip = 0; strip < 2; ++strip) {
        const int column = first_column + 64 * strip + 2 * lane;
        if (column + 1 < p.product.n) {
          held[strip] = *reinterpret_cast<const std::uint32_t*>(p.bias + column);
        } else if (column < p.product.n) {
          held[strip] = __bfloat16_as_ushort(p.bias[column]);
        }
      }
    }
  }

  __device__ void visit(Fragment& f, Places) const {
    const int lane = threadIdx.x % 32;
    if (p.bias_kind == Bias::row) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float of_row = unpack_bf16(from_lane(held[0], 16 * f.block + lane / 4 + 8 * half)).x;
#pragma unroll
        for (int i = half; i < Fragment::pairs; i += 2) {
          f.value[2 * i] += of_row;
          f.value[2 * i + 1] += of_row;
        }
      }
    } else if (p.bias_kind == Bias::column) {
      const std::uint32_t of_strip = f.strip == 0 ? held[0] : held[1];
#pragma unroll
      for (int i = 0; i < Fragment::pairs; i += 2) {
        const float2 of_columns = unpack_bf16(from_lane(of_strip, 4 * (i / 2) + lane % 4));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          f.value[2 * (i + half)] += of_columns.x;
          f.value[2 * (i + half) + 1] += of_columns.y;
        }
      }
    }
  }

 private:
  __device__ static std::uint32_t from_lane(std::uint32_t value, int lane) {
    return __shfl_sync(0xFFFFFFFF, value, lane);
  }
};

/// activation(value).
template <Activation activation>
struct Activate : Operation {
  __device__ explicit Activate(const FusedProblem&) {}
  __device__ void visit(Fragment& f, Places) const {
#pragma unroll
    for (float& value : f.value) value = activate<activation>(value);
  }
};

// ---- Storing.

/// Rounds the values to 16 bits each by `round(first, second)` and writes them to a place.
template <class Round>
__device__ inline void stage_16_bit(const Fragment& f, unsigned char* place, Round round) {
#pragma unroll
  for (int first = 0; first < Fragment::pairs; first += 4) {
    std::uint32_t four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto pair = round(f.value[2 * (first + i)], f.value[2 * (first + i) + 1]);
      four[i] = reinterpret_cast<const std::uint32_t&>(pair);
    }
    write_pairs<64>(place, first, four);
  }
}

/// Writes the values to two places, 32 columns each.
__device__ inline void stage_32_bit(const Fragment& f, Places places) {
#pragma unroll
  for (int i = 0; i < Fragment::pairs; ++i) {
    const int row = Fragment::own_row() + i % 2 * 8;
    const int column = Fragment::own_column() + i / 2 % 4 * 8;  // of 32, 128 bytes
    unsigned char* const unit = places.at(i / 8) + Chunk<64>::offset(row, column / 4);
    *reinterpret_cast<float2*>(unit + column % 4 * 4) = {f.value[2 * i], f.value[2 * i + 1]};
  }
}

/// Writes what lies inside a matrix of the problem's shape to it, by ordinary stores.
template <class Pair, class Element, class Round>
__device__ inline void store_directly(const Fragment& f, const Problem& p, Element* matrix,
                                      std::int64_t pitch, Round round) {
#pragma unroll
  for (int i = 0; i < Fragment::pairs; ++i) {
    const int row = f.row_of(i), column = f.column_of(i);
    if (row >= p.m || column >= p.n) continue;
    Element* const to = matrix + row * pitch + column;  // 64-bit offset
    const Pair pair = round(f.value[2 * i], f.value[2 * i + 1]);
    if (column + 1 < p.n) {
      *reinterpret_cast<Pair*>(to) = pair;
    } else {
      *to = pair.x;
    }
  }
}

/// The values, rounded to D's type: into places 0 and up, for a TMA store; or, where that would
/// write beyond D's rows, to D itself. fp32 takes two places, of 32 columns each.
struct StoreD : Operation {
  const FusedProblem& p;

  __device__ explicit StoreD(const FusedProblem& problem) : p(problem) {}

  __device__ void store(const Fragment& f, Places places) const {
    const bool is_direct = p.overhangs_a_unit(f.column - Fragment::own_column(), 64);
    if (p.output == Output::f32) {
      is_direct ? to_d<float, float2>(f, make_float2) : stage_32_bit(f, places);
    } else if (p.output == Output::f16) {
      const auto round = [](float x, float y) { return __floats2half2_rn(x, y); };
      is_direct ? to_d<__half, __half2>(f, round) : stage_16_bit(f, places.at(0), round);
    } else {
      const auto round = [](float x, float y) { return __floats2bfloat162_rn(x, y); };
      is_direct ? to_d<__nv_bfloat16, __nv_bfloat162>(f, round)
                : stage_16_bit(f, places.at(0), round);
    }
  }

 private:
  template <class Element, class Pair, class Round>
  __device__ void to_d(const Fragment& f, Round round) const {
    store_directly<Pair>(f, p.product, reinterpret_cast<Element*>(p.product.d), p.product.ldd,
                         round);
  }
};

}  // namespace gemm

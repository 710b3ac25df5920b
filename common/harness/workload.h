// A problem's operands on the host and on the device: drawn from a seed, poisoned where nothing may
// be read, fenced where nothing may be written.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/device/device.h"
#include "common/gemm/problem.h"
#include "common/harness/options.h"

namespace harness {

/// What becomes of an element of A, B or C that was drawn for (row, column), before it is rounded
/// to bf16: for problems of another type, of which bf16 holds every value.
using Transform =
    std::function<float(char operand, std::int64_t row, std::int64_t column, float drawn)>;

/// The operands of one gemm::Problem.
///
/// Elements are a pure function of (seed, operand, row, column), whatever the pitch and the number
/// of threads: normal N(0, 1); uniform on [-1, 1); ones; zeros; or index, small integers of which a
/// neighbour, or an element a power of two away, is never the same: (row + s * column) mod 17 - 8
/// with s = 3 in A, 5 in B, 7 in C. All are rounded to bf16, the last three exactly.
///
/// Where there are several problems (lesson 12), each has a `number`, 0, 1, 2, ..., of which its
/// elements depend too: ones are then number % 127 + 1 in A, which bf16 holds exactly, and index
/// counts rows from `number` on.
///
/// Everything that is not an element holds NaN (bits 0xFFFF): the padding at the end of each row,
/// the guard bands before and after each matrix, all of D, all of C when beta = 0, and all of A and
/// B when alpha = 0.
class Workload {
 public:
  /// Draws and uploads the operands. `pitch_multiple` (elements) rounds up the pitches that the
  /// user did not give. One that the user gave must hold a row and be such a multiple, else
  /// UsageError. device::Failure where the device has too little memory.
  ///
  /// With `same_b`, B is that of another workload, of the same n, k and pitch.
  Workload(device::Device& device, const Options& options, int pitch_multiple, int number = 0,
           const Workload* same_b = nullptr, const Transform& transform = {});

  /// What a lesson computes. k is 0 here when alpha is 0 (see gemm::Problem).
  const gemm::Problem& problem() const { return problem_; }

  /// Host copies, row-major with the problem's pitches. A and B are empty when alpha = 0, C when
  /// beta = 0.
  std::span<const __nv_bfloat16> host_a() const { return a_; }
  std::span<const __nv_bfloat16> host_b() const { return b_->host; }
  std::span<const __nv_bfloat16> host_c() const { return c_; }

  /// Fills D, its padding and its guard bands with NaN again.
  void poison_output();
  /// Copies rows [first, first + count) of D, padding included, to `rows` (count * ldd elements).
  void copy_output_rows(std::int64_t first, std::int64_t count,
                        std::span<__nv_bfloat16> rows) const;
  /// Those of D.
  std::int64_t damaged_guard_bytes() const;

 private:
  struct SharedMatrix {
    std::vector<__nv_bfloat16> host;
    device::Buffer device;
  };

  device::Device& device_;
  gemm::Problem problem_{};
  std::vector<__nv_bfloat16> a_, c_;
  std::shared_ptr<SharedMatrix> b_;
  device::Buffer device_a_, device_c_, device_d_;
};

/// The elements of a row-major matrix beside those of a Workload (a bias, a residual), drawn as
/// theirs are: another matrix for each `number` from 0 on. Its padding holds NaN.
std::vector<__nv_bfloat16> draw_extra(int number, std::int64_t rows, std::int64_t columns,
                                      std::int64_t pitch, Init init, std::uint64_t seed);

}  // namespace harness

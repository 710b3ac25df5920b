// A matrix that a kernel writes, poisoned before and fenced all around.
#pragma once

#include <cstdint>
#include <vector>

#include "common/device/device.h"

namespace harness {

/// `rows` rows of `pitch_bytes` bytes in device memory, between two guard bands.
class GuardedMatrix {
 public:
  GuardedMatrix(device::Device& device, std::int64_t rows, std::int64_t pitch_bytes);

  /// Of the first row; a multiple of 256.
  void* address() const;
  /// Fills the matrix and its guard bands with bytes 0xFF: NaN in every floating-point type here.
  void poison();
  /// The bytes of rows [first, first + count).
  std::vector<std::byte> read_rows(std::int64_t first, std::int64_t count) const;
  std::vector<std::byte> read() const { return read_rows(0, rows_); }
  /// Bytes of the guard bands that are no longer what poison() put there.
  std::int64_t damaged_guard_bytes() const;

 private:
  device::Device& device_;
  std::int64_t rows_, pitch_bytes_;
  device::Buffer buffer_;
};

}  // namespace harness

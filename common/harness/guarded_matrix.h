// Device memory that is poisoned before a kernel runs, and fenced all around.
#pragma once

#include <cstdint>
#include <vector>

#include "common/device/device.h"

namespace harness {

/// On each side of what a kernel may write: a guard band.
inline constexpr std::int64_t guard_bytes = 4096;
/// NaN in every floating-point type here.
inline constexpr unsigned char poison_byte = 0xFF;

/// Bytes of the guard bands at both ends of `buffer` that no longer hold poison_byte.
std::int64_t damaged_guard_bytes(device::Device& device, const device::Buffer& buffer);

/// `rows` rows of `pitch_bytes` bytes in device memory, between two guard bands.
class GuardedMatrix {
 public:
  GuardedMatrix(device::Device& device, std::int64_t rows, std::int64_t pitch_bytes);

  /// Of the first row; a multiple of 256.
  void* address() const;
  /// Fills the matrix and its guard bands with poison_byte.
  void poison();
  /// Fills the matrix with what lies at `from`.
  void upload(const void* from);
  /// The bytes of rows [first, first + count).
  std::vector<std::byte> read_rows(std::int64_t first, std::int64_t count) const;
  std::vector<std::byte> read() const { return read_rows(0, rows_); }
  std::int64_t damaged_guard_bytes() const;

 private:
  device::Device& device_;
  std::int64_t rows_, pitch_bytes_;
  device::Buffer buffer_;
};

}  // namespace harness

#include "common/harness/guarded_matrix.h"

#include <algorithm>
#include <cstddef>

namespace harness {

std::int64_t damaged_guard_bytes(device::Device& device, const device::Buffer& buffer) {
  std::vector<unsigned char> band(guard_bytes);
  const char* const before = static_cast<const char*>(buffer.address());
  const char* const after = before + buffer.bytes() - guard_bytes;
  std::int64_t damaged = 0;
  for (const char* const from : {before, after}) {
    device.copy_to_host(band.data(), from, band.size());
    damaged += std::count_if(band.begin(), band.end(),
                             [](unsigned char byte) { return byte != poison_byte; });
  }
  return damaged;
}

GuardedMatrix::GuardedMatrix(device::Device& device, std::int64_t rows, std::int64_t pitch_bytes)
    : device_(device),
      rows_(rows),
      pitch_bytes_(pitch_bytes),
      buffer_(device, static_cast<std::size_t>(rows * pitch_bytes + 2 * guard_bytes)) {
  poison();
}

void* GuardedMatrix::address() const {
  return static_cast<char*>(buffer_.address()) + guard_bytes;
}

void GuardedMatrix::poison() {
  device_.fill(buffer_.address(), poison_byte, buffer_.bytes());
}

void GuardedMatrix::upload(const void* from) {
  device_.copy_to_device(address(), from, static_cast<std::size_t>(rows_ * pitch_bytes_));
}

std::vector<std::byte> GuardedMatrix::read_rows(std::int64_t first, std::int64_t count) const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * pitch_bytes_));
  device_.copy_to_host(bytes.data(), static_cast<char*>(address()) + first * pitch_bytes_,
                       bytes.size());
  return bytes;
}

std::int64_t GuardedMatrix::damaged_guard_bytes() const {
  return harness::damaged_guard_bytes(device_, buffer_);
}

}  // namespace harness

// A matrix that an epilogue reads, on the host and on the device.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/device/device.h"
#include "common/harness/options.h"
#include "common/harness/workload.h"

namespace harness {

/// A row-major bf16 matrix beside A, B and C. Without rows it is empty, and has no address.
struct DrawnMatrix {
  std::int64_t pitch = 0;
  std::vector<__nv_bfloat16> host;
  device::Buffer on_device;

  __nv_bfloat16* address() const { return static_cast<__nv_bfloat16*>(on_device.address()); }
  __nv_bfloat16& element(std::int64_t row, std::int64_t column) {
    return host[static_cast<std::size_t>(row * pitch + column)];
  }
  double at(std::int64_t row, std::int64_t column) const {
    return __bfloat162float(host[static_cast<std::size_t>(row * pitch + column)]);
  }
  void upload(device::Device& device) {
    const std::size_t bytes = host.size() * sizeof(__nv_bfloat16);
    on_device = device::Buffer(device, bytes);
    device.copy_to_device(on_device.address(), host.data(), bytes);
  }
};

/// Matrix `number` of draw_extra(), its rows padded to 16 bytes, on the host only.
inline DrawnMatrix draw_matrix(const Options& options, int number, std::int64_t rows,
                               std::int64_t columns) {
  const std::int64_t pitch = (std::max<std::int64_t>(columns, 1) + 7) / 8 * 8;
  return {.pitch = pitch,
          .host = draw_extra(number, rows, columns, pitch, options.init, options.seed),
          .on_device = {}};
}

}  // namespace harness

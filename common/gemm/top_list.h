// The largest elements of a row, with their columns.
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace gemm {

/// An element and its column in one number: the larger one comes first. NaN comes before +inf, -0
/// and +0 are equal, and of equal elements the one in the lower column comes first. No two elements
/// of a row have the same key. 0 is no element, and comes last.
using TopKey = std::uint64_t;

/// `column` is at least 0.
HOST_DEVICE inline TopKey make_key(float value, int column) {
  // The bits of floats are in order as integers, once those of negative ones are turned around.
  const auto bits = __builtin_bit_cast(std::uint32_t, value + 0.0F);  // -0 + 0 is +0
  const std::uint32_t ordered = value != value    ? 0xFFFFFFFFU
                                : bits >> 31 == 1 ? ~bits
                                                  : bits | 0x80000000U;
  return std::uint64_t{ordered} << 32 | ~static_cast<std::uint32_t>(column);
}

HOST_DEVICE inline int column_of(TopKey key) {
  return static_cast<int>(~static_cast<std::uint32_t>(key));
}

HOST_DEVICE inline float value_of(TopKey key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return __builtin_bit_cast(float, ordered >> 31 == 1 ? ordered & 0x7FFFFFFFU : ~ordered);
}

/// The largest `capacity` keys seen, the largest first.
template <int capacity>
struct TopList {
  TopKey keys[capacity] = {};

  HOST_DEVICE void insert(TopKey key) {
    for (TopKey& place : keys) {
      const bool is_larger = key > place;
      const TopKey other = is_larger ? place : key;
      place = is_larger ? key : place;
      key = other;
    }
  }

  HOST_DEVICE void remove_first() {
    for (int i = 1; i < capacity; ++i) keys[i - 1] = keys[i];
    keys[capacity - 1] = 0;
  }
};

/// The outputs of a top-k: of each row the `count` largest elements, the largest first.
struct TopRows {
  float* values;  ///< [rows][count]
  int* columns;   ///< [rows][count]
  int count;      ///< 1 to 8; 0: the lesson computes a softmax, and there are no such outputs
};

}  // namespace gemm

// Rows: a register of a warp is a row of 32 values, one a lane, so that one instruction is one loop
// over a row that the compiler can vectorize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "common/emulator/observer.h"

// Functions marked so are compiled twice and chosen when the program starts: for any x86-64, and
// for one with AVX2 and fused multiply-add.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EMULATOR_VECTORIZED __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define EMULATOR_VECTORIZED
#endif

namespace emulator {

inline constexpr int warp_size = 32;
inline constexpr LaneMask all_lanes = 0xFFFFFFFF;

/// Where a row lies: a byte offset into the registers of a warp or, with constant_slot set, into
/// the constants of the program.
using Slot = std::uint32_t;
inline constexpr Slot constant_slot = 1u << 31;
inline constexpr Slot no_slot = ~0u;

/// A view of one row. Any row can be viewed as any type of its width: registers have no type.
template <class T>
class Row {
 public:
  explicit Row(std::byte* bytes) : bytes_(bytes) {}

  T operator[](int lane) const {
    T value;
    std::memcpy(&value, bytes_ + lane * sizeof(T), sizeof(T));
    return value;
  }
  void set(int lane, T value) const { std::memcpy(bytes_ + lane * sizeof(T), &value, sizeof(T)); }

 private:
  std::byte* bytes_;
};

/// Memory for rows and parameters: uninitialized, aligned to 128 bytes.
class RowStorage {
 public:
  explicit RowStorage(std::size_t bytes = 0)
      : bytes_(static_cast<std::byte*>(::operator new[](bytes + 1, alignment))) {}

  std::byte* get() const { return bytes_.get(); }

 private:
  static constexpr std::align_val_t alignment{128};
  struct Delete {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, alignment); }
  };
  std::unique_ptr<std::byte, Delete> bytes_;
};

/// Calls `function(lane)` for each lane of `lanes`, in order.
template <class Function>
inline void for_each_lane(LaneMask lanes, Function function) {
  for (; lanes != 0; lanes &= lanes - 1) function(__builtin_ctz(lanes));
}

inline int first_lane(LaneMask lanes) {
  return __builtin_ctz(lanes);
}
inline int count_lanes(LaneMask lanes) {
  return __builtin_popcount(lanes);
}
constexpr LaneMask lane_bit(int lane) {
  return 1u << lane;
}

/// d[i] = function(i) for the lanes of `lanes`. `function` must be harmless in every lane.
template <class D, class Function>
inline void assign_lanes(LaneMask lanes, Row<D> d, Function function) {
  if (lanes == all_lanes) [[likely]] {
#pragma GCC ivdep
    for (int i = 0; i < warp_size; ++i) d.set(i, function(i));
    return;
  }
  D result[warp_size];
#pragma GCC ivdep
  for (int i = 0; i < warp_size; ++i) result[i] = function(i);
#pragma GCC ivdep
  for (int i = 0; i < warp_size; ++i) d.set(i, (lanes & lane_bit(i)) != 0 ? result[i] : d[i]);
}

/// The mask of the lanes where `function(lane)` is true.
template <class Function>
inline LaneMask where(Function function) {
  LaneMask mask = 0;
  for (int i = 0; i < warp_size; ++i) mask |= function(i) ? lane_bit(i) : 0;
  return mask;
}

}  // namespace emulator

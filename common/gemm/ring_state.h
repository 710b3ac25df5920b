// Where a thread stands in a ring of stages.
#pragma once

#include "common/host_device.h"

namespace gemm {

/// A ring of `stages` buffers, used over and over: in lap 0, 1, 2, ... each stage once a lap. The
/// index alone says which buffer, not which lap; a barrier can't tell either, but its parity tells
/// one lap from the next. So a thread needs the three of them: index, phase, count.
struct RingState {
  int index = 0;       ///< the stage, 0 to stages - 1
  unsigned phase = 0;  ///< parity of the lap: which phase of this stage's barriers is meant
  int count = 0;       ///< of k-tiles passed since the start

  /// The stage passed last.
  HOST_DEVICE constexpr int previous(int stages) const {
    return index == 0 ? stages - 1 : index - 1;
  }

  HOST_DEVICE constexpr void advance(int stages) {
    ++count;
    if (++index == stages) {
      index = 0;
      phase ^= 1;
    }
  }

  /// As if advance() were called `k_tiles` times.
  HOST_DEVICE constexpr void skip(int stages, int k_tiles) {
    count += k_tiles;
    const int position = index + k_tiles;
    index = position % stages;
    phase ^= position / stages & 1;
  }
};

}  // namespace gemm

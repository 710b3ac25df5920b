// What a thread loads at a time, where each takes its part of a row.
#pragma once

namespace gemm {

/// Eight neighbours, from a multiple of 16 bytes on.
template <class Element>
struct alignas(16) Eight {
  Element value[8];
};

}  // namespace gemm

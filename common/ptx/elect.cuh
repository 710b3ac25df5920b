// One lane that acts for its warp. PTX ISA 9.7.13.14 (elect.sync).
#pragma once

#include <cstdint>

namespace ptx {

/// True in one lane of the warp, which must be converged: all 32 lanes call this. The compiler
/// knows that at most one lane enters what depends on it, which `lane == 0` would not tell it.
__device__ inline bool elect_one() {
  std::uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n"
      "}\n"
      : "=r"(elected));
  return elected != 0;
}

}  // namespace ptx

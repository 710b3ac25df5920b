// The registers of a warpgroup: some give back what they do not need, others take it. PTX ISA
// 9.7.19.5 (setmaxnreg).
//
// A launch gives every thread the same number of registers. Afterwards a warpgroup may change its
// own: all its warps run the same instruction. `count` is a multiple of 8 from 24 to 256. The pool
// is that of the CTA: what one warpgroup takes, others must have given back before.
#pragma once

namespace ptx {

/// Gives registers back, down to `count` a thread.
template <int count>
__device__ inline void registers_decrease() {
  static_assert(count >= 24 && count <= 256 && count % 8 == 0);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

/// Takes registers, up to `count` a thread, and waits until the pool has them.
template <int count>
__device__ inline void registers_increase() {
  static_assert(count >= 24 && count <= 256 && count % 8 == 0);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace ptx

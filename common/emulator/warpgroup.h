// wgmma and setmaxnreg: what four warps do together. PTX ISA 9.7.15, 9.7.19.5.
//
// A wgmma starts when the fourth warp has issued it and runs as a whole: its result is computed at
// once, its completion comes later in virtual time. Those of a warpgroup complete in order.
#pragma once

namespace emulator {

class Warp;

/// Faults if a warp that has exited leaves a wgmma waiting that the others of its group have
/// issued.
void check_wgmmas_at_exit(const Warp& warp);

}  // namespace emulator

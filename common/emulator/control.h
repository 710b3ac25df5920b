// Handlers that the decoder and the barriers name: what moves lanes from one place to another.
#pragma once

#include "common/emulator/program.h"

namespace emulator {

Flow branch(Warp& warp, const Op& op);
Flow call(Warp& warp, const Op& op);
Flow return_lanes(Warp& warp, const Op& op);
Flow exit_lanes(Warp& warp, const Op& op);

}  // namespace emulator

// What to say of a launch that can't go on.
#pragma once

#include "common/emulator/report.h"

namespace emulator {

class Execution;

/// Nothing can run and nothing is under way: who waits for what. Names the rule `deadlock`, or
/// `divergent-aligned` where lanes of a warp wait for each other at different instructions.
Finding deadlock(const Execution& execution);

/// Everything that runs looks at memory that nobody will change.
Finding livelock(const Execution& execution);

}  // namespace emulator

// The copy engine: cp.async.bulk and cp.reduce.async.bulk, with and without tensor maps.
// PTX ISA 9.7.9.25.
//
// A copy is checked when it is issued, and from then on its destination holds garbage. It lands
// later in virtual time, all at once. A store first reads its source, later writes.
#pragma once

#include "common/emulator/program.h"

namespace emulator {

/// Issues the copy Program::bulk_copies[op.target] for each lane that executes.
Flow issue_copies(Warp& warp, const Op& op);

/// cp.async.bulk.commit_group
Flow commit_copies(Warp& warp, const Op& op);
/// cp.async.bulk.wait_group: all but the last op.immediate groups; op.mode: .read.
Flow wait_for_copies(Warp& warp, const Op& op);

}  // namespace emulator

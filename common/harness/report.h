// What a run says on the terminal: a word in the left column, then what it is about.
#pragma once

#include <ostream>
#include <string_view>

#include "common/device/device.h"
#include "common/harness/benchmark.h"
#include "common/harness/record.h"
#include "common/harness/trace_memory.h"

namespace harness {

/// "verify   PASS: ..."; further lines of `text` are indented to the same column.
void report(std::ostream& out, std::string_view head, std::string_view text);

/// That kernels run on the emulator, why, and what that changes. Nothing on a GPU.
void report(std::ostream& out, const device::Device& device);

/// What was found wrong with the kernels, or that nothing was.
void report(std::ostream& out, const device::Hazards& hazards);

/// The verdict, its oracle, the soak and the hazards if they were looked for. A broken variant that
/// passes is said to do so by luck; a right D does not pass where there are hazards.
void report(std::ostream& out, const CheckedVerdict& checked, const Tile& tile,
            const std::string& broken);

/// The lesson's time, the library's, their ratio, the clocks, and which samples are in doubt.
void report(std::ostream& out, const Benchmark& benchmark);

/// What the timeline in the file of --trace is of, and what it lacks.
void report(std::ostream& out, const Trace& trace, const std::string& path);

}  // namespace harness

// What a run says on the terminal: a word in the left column, then what it is about.
#pragma once

#include <ostream>
#include <string_view>

#include "common/harness/benchmark.h"
#include "common/harness/record.h"

namespace harness {

/// "verify   PASS: ..."; further lines of `text` are indented to the same column.
void report(std::ostream& out, std::string_view head, std::string_view text);

/// The verdict, its oracle, and the soak if there was one. A broken variant that passes is said to
/// do so by luck.
void report(std::ostream& out, const CheckedVerdict& checked, const Tile& tile,
            const std::string& broken);

/// The lesson's time, the library's, their ratio, the clocks, and which samples are in doubt.
void report(std::ostream& out, const Benchmark& benchmark);

}  // namespace harness

// What a GEMM lesson's main() does once there is a device.
#pragma once

#include <ostream>

#include "common/device/device.h"
#include "common/harness/json_file.h"
#include "common/harness/lesson.h"
#include "common/harness/options.h"

namespace harness {

/// Verifies `lesson` on `device`, times it beside the library, traces it, reports on `out` and
/// writes the files. Returns 0, or 1 when D is wrong or there are hazards; then there is no trace.
/// Throws what guard() turns into the other exit statuses; then there is no record either.
int run(const Lesson& lesson, const Options& options, device::Device& device,
        const OutputFiles& files, std::ostream& out);

}  // namespace harness

// What a GEMM lesson's main() does once there is a device.
#pragma once

#include <ostream>

#include "common/device/device.h"
#include "common/harness/lesson.h"
#include "common/harness/options.h"
#include "common/harness/record.h"

namespace harness {

/// Verifies `lesson` on `device`, times it beside the library, reports on `out` and writes the
/// record. Returns 0, or 1 when D is wrong or there are hazards. Throws what guard() turns into the
/// other exit statuses; then there is no record.
int run(const Lesson& lesson, const Options& options, device::Device& device,
        const RecordFile& record_file, std::ostream& out);

}  // namespace harness

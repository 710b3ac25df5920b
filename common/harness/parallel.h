// A loop on all cores of the host.
#pragma once

#include <cstdint>
#include <functional>

namespace harness {

/// Calls body(first, last) on disjoint ranges that together cover [0, count), one range a core, at
/// the same time. Returns when all have ended; the first exception that one threw is thrown again.
void parallel_for(std::int64_t count,
                  const std::function<void(std::int64_t first, std::int64_t last)>& body);

}  // namespace harness

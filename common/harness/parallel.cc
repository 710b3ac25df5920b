#include "common/harness/parallel.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace harness {

void parallel_for(std::int64_t count,
                  const std::function<void(std::int64_t first, std::int64_t last)>& body) {
  const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::int64_t workers = std::min(cores, count);
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&](std::int64_t worker) {
    // The first count % workers ranges are one longer than the others.
    const std::int64_t length = count / workers, longer = count % workers;
    const std::int64_t first = worker * length + std::min(worker, longer);
    try {
      body(first, first + length + (worker < longer ? 1 : 0));
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::int64_t worker = 1; worker < workers; ++worker) threads.emplace_back(work, worker);
    if (workers > 0) work(0);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace harness

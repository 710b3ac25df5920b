#include "common/harness/parallel.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include "tests/catch.h"

TEST_CASE("parallel_for covers every index once", "[parallel]") {
  for (const int count : {0, 1, 2, 3, 7, 64, 1001}) {
    std::vector<std::atomic<int>> visits(count);
    harness::parallel_for(count, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) ++visits[i];
    });
    for (const std::atomic<int>& visit : visits) CHECK(visit == 1);
  }
}

TEST_CASE("parallel_for passes on what its body throws", "[parallel]") {
  const auto fail_at = [](std::int64_t bad) {
    harness::parallel_for(100, [bad](std::int64_t first, std::int64_t last) {
      if (first <= bad && bad < last) throw std::runtime_error("bad index");
    });
  };
  CHECK_THROWS_AS(fail_at(0), std::runtime_error);
  CHECK_THROWS_AS(fail_at(99), std::runtime_error);
  CHECK_NOTHROW(fail_at(100));
}

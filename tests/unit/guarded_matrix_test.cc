// A matrix between guard bands.
#include "common/harness/guarded_matrix.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/host_device.h"

namespace {

using harness::guard_bytes;
using harness::GuardedMatrix;

std::byte* bytes_of(const GuardedMatrix& matrix) {
  return static_cast<std::byte*>(matrix.address());
}

}  // namespace

TEST_CASE("each damaged byte of a guard band is counted, on both sides", "[guard]") {
  tests::HostDevice device;
  GuardedMatrix matrix(device, 3, 10);
  CHECK(matrix.damaged_guard_bytes() == 0);
  std::fill_n(bytes_of(matrix), 30, std::byte{0});
  CHECK(matrix.damaged_guard_bytes() == 0);
  bytes_of(matrix)[-1] = std::byte{0};
  bytes_of(matrix)[-guard_bytes] = std::byte{0xFE};
  CHECK(matrix.damaged_guard_bytes() == 2);
  bytes_of(matrix)[30] = std::byte{0};
  bytes_of(matrix)[30 + guard_bytes - 1] = std::byte{0};
  CHECK(matrix.damaged_guard_bytes() == 4);
  matrix.poison();
  CHECK(matrix.damaged_guard_bytes() == 0);
}

TEST_CASE("rows are read and written as a whole, and a matrix may be empty", "[guard]") {
  tests::HostDevice device;
  GuardedMatrix matrix(device, 3, 2);
  CHECK(matrix.read() == std::vector<std::byte>(6, std::byte{harness::poison_byte}));
  const std::vector<std::byte> content{std::byte{1}, std::byte{2}, std::byte{3},
                                       std::byte{4}, std::byte{5}, std::byte{6}};
  matrix.upload(content.data());
  CHECK(matrix.read() == content);
  CHECK(matrix.read_rows(1, 1) == std::vector<std::byte>{std::byte{3}, std::byte{4}});
  CHECK(matrix.damaged_guard_bytes() == 0);

  const GuardedMatrix empty(device, 5, 0);
  CHECK(empty.read().empty());
  CHECK(empty.damaged_guard_bytes() == 0);
}

#include "common/gemm/group_order.h"

#include <vector>

#include "tests/catch.h"

namespace {

/// Groups that multiply B number `weights`, and have m = their place in the list.
std::vector<gemm::Problem> groups(const std::vector<int>& weights) {
  static const __nv_bfloat16 matrices[4] = {};
  std::vector<gemm::Problem> list;
  for (const int number : weights) {
    gemm::Problem p{};
    p.m = static_cast<int>(list.size());
    p.b = &matrices[number];
    list.push_back(p);
  }
  return list;
}

std::vector<int> sorted(const std::vector<int>& weights) {
  std::vector<gemm::Problem> list = groups(weights);
  gemm::sort_by_weights(list);
  std::vector<int> places;
  for (const gemm::Problem& p : list) places.push_back(p.m);
  return places;
}

using Places = std::vector<int>;

}  // namespace

TEST_CASE("groups with the same weights become neighbours, in the order of the list", "[groups]") {
  CHECK(sorted({}).empty());
  CHECK(sorted({3, 1, 2, 0}) == Places{0, 1, 2, 3});
  CHECK(sorted({2, 0, 2, 1, 0, 2}) == Places{0, 2, 5, 1, 4, 3});
  CHECK(sorted({1, 1, 1}) == Places{0, 1, 2});
}

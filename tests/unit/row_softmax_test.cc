// What lesson 16 computes rows with: statistics that are merged, lists of the largest, teams.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "common/gemm/row_statistics.h"
#include "common/gemm/row_teams.h"
#include "common/gemm/top_list.h"
#include "tests/catch.h"

namespace {

using gemm::column_of;
using gemm::make_key;
using gemm::make_row_teams;
using gemm::merge;
using gemm::RowStatistics;
using gemm::RowTeams;
using gemm::TopKey;
using gemm::TopList;
using gemm::value_of;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

RowStatistics of(float element) {
  return {element, gemm::exp_of(element - gemm::reference(element))};
}

RowStatistics of_all(const std::vector<float>& elements) {
  RowStatistics row;
  for (const float element : elements) {
    // A kernel's maximum leaves NaN out.
    row = merge(row, std::isnan(element) ? RowStatistics{-infinity, element} : of(element));
  }
  return row;
}

std::vector<float> draw(int count, float scale, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> elements(count);
  for (float& element : elements) element = normal(random);
  return elements;
}

bool same_bits(RowStatistics a, RowStatistics b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

template <int capacity>
std::vector<std::pair<float, int>> content(const TopList<capacity>& list) {
  std::vector<std::pair<float, int>> elements;
  for (const TopKey key : list.keys) {
    if (key != 0) elements.emplace_back(value_of(key), column_of(key));
  }
  return elements;
}

}  // namespace

TEST_CASE("merged statistics are those of all elements in double precision", "[softmax]") {
  for (const float scale : {0.1F, 1.0F, 30.0F, 3000.0F}) {
    const std::vector<float> elements = draw(1000, scale, 7);
    const float max = *std::max_element(elements.begin(), elements.end());
    double sum = 0;
    for (const float element : elements) sum += std::exp(double{element} - max);
    const RowStatistics row = of_all(elements);
    INFO("scale " << scale);
    CHECK(row.max == max);
    CHECK(row.sum == Approx(sum).epsilon(1e-5));
    // In two halves, as two CTAs see them.
    const std::vector<float> first(elements.begin(), elements.begin() + 300);
    const std::vector<float> second(elements.begin() + 300, elements.end());
    CHECK(merge(of_all(first), of_all(second)).sum == Approx(sum).epsilon(1e-5));
  }
}

TEST_CASE("a merge has the same bits either way round, and nothing changes nothing", "[softmax]") {
  const std::vector<float> elements = draw(200, 4, 9);
  for (std::size_t i = 1; i < elements.size(); ++i) {
    const RowStatistics a{elements[i - 1], 1 + 0.37F * i}, b{elements[i], 1.9F};
    CHECK(same_bits(merge(a, b), merge(b, a)));
    CHECK(same_bits(merge(a, {}), a));
  }
}

TEST_CASE("statistics of elements that are no numbers", "[softmax]") {
  CHECK(of_all({-infinity, -infinity}).sum == 0);
  CHECK(of_all({-infinity, -8000, -infinity}).max == -8000);
  CHECK(of_all({-infinity, -8000, -infinity}).sum == 1);
  CHECK(of_all({8000, -8000}).sum == 1);
  CHECK(std::isnan(of_all({1, not_a_number, 2}).sum));
  CHECK(std::isnan(of_all({not_a_number}).sum));
  CHECK(std::isnan(of_all({1, infinity, 2}).sum));
  CHECK(std::isnan(merge(of_all({1, infinity}), of_all({3, infinity})).sum));
  CHECK(std::isnan(merge(of_all({-infinity}), of_all({not_a_number})).sum));
}

TEST_CASE("keys are in the order of values, ties in that of columns", "[topk]") {
  const std::vector<float> ascending{-infinity, -8000, -1, -1e-40F, 0, 1e-40F, 1, 8000, infinity};
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    CHECK(value_of(make_key(ascending[i], 5)) == ascending[i]);
    CHECK(column_of(make_key(ascending[i], 5)) == 5);
    CHECK(make_key(ascending[i], 4) > make_key(ascending[i], 5));
    CHECK(make_key(ascending[i], 2147483646) > 0);
    CHECK(make_key(not_a_number, 9) > make_key(ascending[i], 0));
    if (i > 0) CHECK(make_key(ascending[i], 9) > make_key(ascending[i - 1], 0));
  }
  CHECK(make_key(-0.0F, 3) == make_key(0.0F, 3));
  CHECK(std::isnan(value_of(make_key(-not_a_number, 3))));
  CHECK(make_key(-not_a_number, 3) == make_key(not_a_number, 3));
}

TEST_CASE("a list has the largest, whatever the order of what is inserted", "[topk]") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<std::pair<float, int>> elements;
    for (int column = 0; column < 100; ++column) {
      elements.emplace_back(static_cast<float>(random() % 7) - 3, column);  // many are equal
    }
    std::vector<std::pair<float, int>> expected = elements;
    std::stable_sort(expected.begin(), expected.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::shuffle(elements.begin(), elements.end(), random);
    TopList<8> eight;
    TopList<1> one;
    for (const auto& [value, column] : elements) {
      eight.insert(make_key(value, column));
      one.insert(make_key(value, column));
    }
    expected.resize(8);
    CHECK(content(eight) == expected);
    eight.remove_first();
    CHECK(content(eight) == decltype(expected)(expected.begin() + 1, expected.end()));
    expected.resize(1);
    CHECK(content(one) == expected);
  }
}

TEST_CASE("a short list ends with nothing", "[topk]") {
  TopList<4> list;
  list.insert(make_key(2, 7));
  list.insert(make_key(-infinity, 1));
  CHECK(content(list) == std::vector<std::pair<float, int>>{{2.0F, 7}, {-infinity, 1}});
}

TEST_CASE("each tile belongs to one member of one team, and all CTAs run at a time", "[softmax]") {
  for (const int ctas : {1, 4, 132}) {
    for (const int columns : {1, 2, 3, 4, 5, 9, 16, 33, 132, 133, 500}) {
      for (const int panels : {1, 2, 7, 40}) {
        const RowTeams teams = make_row_teams(panels, columns, ctas);
        INFO(ctas << " CTAs, " << panels << " x " << columns << " tiles");
        CHECK(teams.ctas() <= ctas);
        std::set<std::pair<int, int>> seen;
        for (int team = 0; team < teams.teams; ++team) {
          int own_panels = 0;
          for (int panel = team; panel < panels; panel += teams.teams, ++own_panels) {
            for (int member = 0; member < teams.members; ++member) {
              REQUIRE(teams.tiles_of(member) > 0);
              for (int tile = 0; tile < teams.tiles_of(member); ++tile) {
                const int column = member + tile * teams.members;
                CHECK(column < columns);
                CHECK(seen.emplace(panel, column).second);
              }
            }
          }
          CHECK(own_panels == teams.panels_of(team));
          CHECK(own_panels > 0);
        }
        CHECK(static_cast<int>(seen.size()) == panels * columns);
        if (columns <= ctas) CHECK(teams.members == columns);  // nothing is computed twice
      }
    }
  }
}

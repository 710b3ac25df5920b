// gemm::GroupSearch against a search that asks one group after the other.
#include "common/gemm/group_search.cuh"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <functional>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/emulator/checker.h"
#include "common/emulator/machine.h"
#include "common/emulator/parser.h"
#include "common/emulator/report.h"
#include "tests/catch.h"
#include "tests/kernels/group_search.h"

namespace {

using gemm::Problem;
using gemm::TileShape;
using kernels::Found;

constexpr TileShape tile{128, 256};

const emulator::Module& module() {
  static const emulator::Module parsed = [] {
    const std::string path = "build/tests/kernels/group_search.ptx";
    std::ifstream file(path);
    if (!file) throw std::runtime_error("Can't read " + path + ": run `make build/unit_tests`.");
    std::ostringstream text;
    text << file.rdbuf();
    return emulator::parse(text.str());
  }();
  return parsed;
}

/// Tiles of all groups.
int tiles_of(const std::vector<Problem>& groups) {
  int tiles = 0;
  for (const Problem& group : groups) tiles += tile.count(group);
  return tiles;
}

/// The oracle: one group after the other, from the first one on, for each tile anew.
Found look_up(const std::vector<Problem>& groups, int index) {
  int first = 0;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const int count = tile.count(groups[group]);
    if (index < first + count) return {1, static_cast<int>(group), first};
    first += count;
  }
  return {};
}

/// What the warp finds at begin, begin + step, ..., beyond the last tile too. Fails where lanes
/// differ or the checker found something.
std::vector<Found> search(const std::vector<Problem>& groups, int begin, int step) {
  const int times = std::max(tiles_of(groups) - begin, 0) / step + 2;
  emulator::Machine machine;
  emulator::Checker checker({.strict = true});
  auto* const list = static_cast<Problem*>(machine.allocate(groups.size() * sizeof(Problem)));
  std::copy(groups.begin(), groups.end(), list);
  using Lanes = Found[32];
  auto* const found = static_cast<Lanes*>(machine.allocate(times * sizeof(Lanes)));

  const int count = static_cast<int>(groups.size());
  const auto bytes = [](const auto& argument) { return std::as_bytes(std::span(&argument, 1)); };
  const std::vector<std::span<const std::byte>> arguments{bytes(list),  bytes(count), bytes(tile),
                                                          bytes(begin), bytes(step),  bytes(times),
                                                          bytes(found)};
  const emulator::Function& kernel = module().functions.at(0);
  const emulator::Outcome outcome = machine.launch(
      module(), kernel, {.grid = {1}, .block = {32}, .cluster = {}, .dynamic_shared_bytes = 0},
      emulator::pack_parameters(kernel, arguments), &checker);
  INFO(emulator::describe(module(), checker.findings(outcome.findings)));
  REQUIRE(outcome.ending == emulator::Outcome::Ending::finished);
  REQUIRE(checker.findings(outcome.findings).empty());

  std::vector<Found> said;
  for (int i = 0; i < times; ++i) {
    for (int lane = 1; lane < 32; ++lane) REQUIRE(found[i][lane] == found[i][0]);
    said.push_back(found[i][0]);
  }
  return said;
}

/// Holds the search to the oracle: for each tile, for every second one, for those of a CTA of 132,
/// and for one that leaps over groups by hundreds.
void check(const std::vector<Problem>& groups) {
  for (const int step : {1, 2, 132, 1000}) {
    for (const int begin : {0, 1, 77}) {
      const std::vector<Found> said = search(groups, begin, step);
      for (std::size_t i = 0; i < said.size(); ++i) {
        const int index = begin + static_cast<int>(i) * step;
        INFO(groups.size() << " groups, tile " << index << " of " << tiles_of(groups));
        const Found right = look_up(groups, index);
        REQUIRE(said[i].is_tile == right.is_tile);
        REQUIRE(said[i].group == right.group);
        REQUIRE(said[i].first_tile == right.first_tile);
      }
    }
  }
}

Problem group(int m, int n) {
  Problem problem{};
  problem.m = m;
  problem.n = n;
  problem.k = 64;
  return problem;
}

/// Groups of 1 to 3 x 1 to 2 tiles with tails, some without rows, some without columns.
std::vector<Problem> random_groups(int count, std::mt19937_64& random) {
  std::vector<Problem> groups;
  for (int i = 0; i < count; ++i) {
    const int m = 1 + static_cast<int>(random() % (3 * tile.m));
    const int n = 1 + static_cast<int>(random() % (2 * tile.n));
    const auto kind = random() % 8;
    groups.push_back(group(kind == 0 ? 0 : m, kind == 1 ? 0 : n));
  }
  return groups;
}

constexpr int counts[] = {1, 31, 32, 33, 64, 65, 257, 1000};

}  // namespace

TEST_CASE("Tiles of a problem are counted with their tails, and an empty one has none",
          "[search]") {
  CHECK(tile.count(group(128, 256)) == 1);
  CHECK(tile.count(group(129, 256)) == 2);
  CHECK(tile.count(group(128, 257)) == 2);
  CHECK(tile.count(group(1, 1)) == 1);
  CHECK(tile.count(group(0, 1000)) == 0);
  CHECK(tile.count(group(1000, 0)) == 0);
  CHECK(tile.count(group(2147483647, 1)) == 16777216);
}

TEST_CASE("A warp finds the groups that a scalar search finds", "[search]") {
  std::mt19937_64 random(1);
  for (const int count : counts) check(random_groups(count, random));
}

TEST_CASE("The search steps over empty groups, wherever 32 of them end", "[search]") {
  std::mt19937_64 random(2);
  for (const int count : counts) {
    std::vector<Problem> groups = random_groups(count, random);
    for (const int i : {0, 31, 32, 33, 63, 64, count - 1}) {
      if (i < count) groups[i] = group(0, 256);
    }
    check(groups);
    // A whole step of empties, and two, before the last group.
    std::fill(groups.begin(), groups.end() - 1, group(0, 256));
    groups.back() = group(300, 300);
    check(groups);
    // Nothing at all.
    groups.back() = group(300, 0);
    check(groups);
  }
}

// Stream-K's plans: who computes what, who gives what to whom, and when a plan cuts at all.
#include "common/gemm/stream_k.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace {

using gemm::ContributorWalk;
using gemm::make_plan;
using gemm::Piece;
using gemm::PieceWalk;
using gemm::Split;
using gemm::StreamKPlan;

/// The pieces of a CTA in its order.
std::vector<Piece> pieces_of(const StreamKPlan& plan, int cta, bool forwards = false) {
  PieceWalk walk(plan, cta, forwards);
  std::vector<Piece> pieces;
  for (Piece piece; walk.next(piece);) pieces.push_back(piece);
  return pieces;
}

/// Calls check(plan) for plans of many problems, of every split and number of groups.
void for_many_plans(const std::function<void(const StreamKPlan&)>& check) {
  for (const int tiles : {1, 2, 3, 5, 9, 11, 18, 67, 150}) {
    for (const int k_tiles : {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 32, 33, 64}) {
      for (const int ctas : {1, 2, 4, 7, 132}) {
        for (const Split split : {Split::automatic, Split::half_rule, Split::data_parallel,
                                  Split::stream_k, Split::hybrid, Split::split_k}) {
          for (const int groups : {1, 2, 4}) {
            INFO(tiles << " tiles of " << k_tiles << " k-tiles, " << ctas << " CTAs, split "
                       << static_cast<int>(split) << ", " << groups << " groups");
            check(make_plan(split, tiles, k_tiles, ctas, groups));
          }
        }
      }
    }
  }
}

/// What is wrong with a plan's pieces, in words; empty if each k-tile of each tile is computed once
/// (a tile without k-tiles: each tile once) and by a CTA of the grid.
std::string not_once(const StreamKPlan& plan, bool forwards) {
  const int slots = std::max(plan.k_tiles, 1);
  std::vector<int> times(static_cast<std::size_t>(plan.tiles) * slots, 0);
  for (int cta = 0; cta < plan.ctas; ++cta) {
    const std::vector<Piece> pieces = pieces_of(plan, cta, forwards);
    std::ostringstream where;
    where << "CTA " << cta << ": ";
    if (cta >= plan.grid() && !pieces.empty()) {
      return where.str() + "is outside the grid, and has work";
    }
    for (const Piece& piece : pieces) {
      where << piece.tile << ' ' << piece.k_begin << '+' << piece.k_count << ' ';
      const bool is_empty = plan.k_tiles == 0;
      if (piece.tile < 0 || piece.tile >= plan.tiles || piece.k_begin < 0 ||
          piece.k_begin + piece.k_count > plan.k_tiles || piece.k_count < (is_empty ? 0 : 1)) {
        return where.str() + "lies outside the problem";
      }
      for (int i = 0; i < std::max(piece.k_count, 1); ++i) {
        ++times[static_cast<std::size_t>(piece.tile) * slots + piece.k_begin + i];
      }
    }
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] != 1) {
      return "k-tile " + std::to_string(i % slots) + " of tile " + std::to_string(i / slots) +
             " is computed " + std::to_string(times[i]) + " times";
    }
  }
  return "";
}

}  // namespace

TEST_CASE("each k-tile of each tile is computed once, backwards and forwards", "[stream_k]") {
  for_many_plans([](const StreamKPlan& plan) {
    REQUIRE(not_once(plan, false).empty());
    REQUIRE(not_once(plan, true).empty());
  });
}

TEST_CASE("no more units than run at a time, and as many in each group", "[stream_k]") {
  for_many_plans([](const StreamKPlan& plan) {
    REQUIRE(plan.grid() >= 1);
    REQUIRE(plan.grid() <= plan.ctas);
    REQUIRE(plan.units <= plan.ctas);
    REQUIRE(plan.units % plan.groups == 0);
    for (int unit = 0; unit < plan.units; ++unit) {
      REQUIRE(plan.unit_at(plan.group_of(unit), plan.position_of(unit)) == unit);
    }
  });
}

TEST_CASE("a unit gives away one piece at the most, and before it waits for anyone", "[stream_k]") {
  for_many_plans([](const StreamKPlan& plan) {
    for (int cta = 0; cta < plan.grid(); ++cta) {
      const std::vector<Piece> pieces = pieces_of(plan, cta);
      for (std::size_t i = 1; i < pieces.size(); ++i) {
        INFO("CTA " << cta << ", piece " << i);
        REQUIRE(pieces[i].is_last(plan.k_tiles));
      }
    }
  });
}

TEST_CASE("owners and contributors agree on who gives what to whom", "[stream_k]") {
  for_many_plans([](const StreamKPlan& plan) {
    // By tile: who computes which part of it, by its first k-tile.
    std::map<int, std::map<int, int>> parts;
    for (int cta = 0; cta < plan.grid(); ++cta) {
      for (const Piece& piece : pieces_of(plan, cta)) parts[piece.tile][piece.k_begin] = cta;
    }
    for (const auto& [tile, part] : parts) {
      INFO("tile " << tile);
      const int owner = part.rbegin()->second;
      std::vector<int> expected;
      for (auto it = std::next(part.rbegin()); it != part.rend(); ++it) {
        expected.push_back(it->second);
      }
      std::vector<int> contributors;
      if (tile < plan.tape_tiles) {
        ContributorWalk walk(plan, owner, tile);
        for (int unit = 0; walk.next(unit);) contributors.push_back(unit);
      }
      REQUIRE(contributors == expected);
      for (const int unit : contributors) REQUIRE(gemm::owner_of(plan, unit, tile) == owner);
    }
  });
}

TEST_CASE("no piece is shorter than it is worth, unless its tile is", "[stream_k]") {
  for_many_plans([](const StreamKPlan& plan) {
    for (int cta = 0; cta < plan.grid(); ++cta) {
      for (const Piece& piece : pieces_of(plan, cta)) {
        INFO("CTA " << cta << ", tile " << piece.tile << ", k-tiles " << piece.k_begin << " + "
                    << piece.k_count);
        REQUIRE(piece.k_count >= std::min(StreamKPlan::shortest_piece, plan.k_tiles));
      }
    }
  });
}

TEST_CASE("units of the same tape have the same to do, but for what cuts move", "[stream_k]") {
  for_many_plans([](const StreamKPlan& plan) {
    if (plan.tape_tiles == 0) return;
    for (int group = 0; group < plan.groups; ++group) {
      const double stretch =
          double(plan.tiles_of_group(group)) * plan.k_tiles / plan.units_in_group();
      for (int position = 0; position < plan.units_in_group(); ++position) {
        const int length = plan.cut(group, position + 1) - plan.cut(group, position);
        INFO("group " << group << ", position " << position << ": " << length << " of " << stretch);
        // Each of its two cuts is rounded, and may move to an edge.
        REQUIRE(std::abs(length - stretch) < 2 * StreamKPlan::shortest_piece);
      }
    }
  });
}

TEST_CASE("a tape is walked from its end, and whole tiles come after it", "[stream_k]") {
  // 5 tiles of 8 k-tiles on 4 CTAs: 10 each.
  const StreamKPlan plan = make_plan(Split::stream_k, 5, 8, 4);
  const auto text = [&](int cta, bool forwards) {
    std::ostringstream out;
    for (const Piece& piece : pieces_of(plan, cta, forwards)) {
      out << piece.tile << ':' << piece.k_begin << '+' << piece.k_count << ' ';
    }
    return out.str();
  };
  // The cut at 10, near the beginning of tile 1, moves there; that at 30, near the end of tile 3,
  // too. The one at 20 stays.
  CHECK(text(0, false) == "0:0+8 ");
  CHECK(text(1, false) == "2:0+4 1:0+8 ");
  CHECK(text(2, false) == "3:0+8 2:4+4 ");
  CHECK(text(3, false) == "4:0+8 ");
  CHECK(text(1, true) == "1:0+8 2:0+4 ");

  const StreamKPlan hybrid = make_plan(Split::hybrid, 13, 8, 4);
  CHECK(hybrid.tape_tiles == 5);
  CHECK(pieces_of(hybrid, 0).back().tile == 9);
  CHECK(pieces_of(hybrid, 0).size() == 3);
}

TEST_CASE("split-K: each tile in as many equal pieces", "[stream_k]") {
  const StreamKPlan plan = make_plan(Split::split_k, 9, 256, 132);
  CHECK(plan.units == 9 * 14);
  for (int cta = 0; cta < plan.units; ++cta) {
    const std::vector<Piece> pieces = pieces_of(plan, cta);
    REQUIRE(pieces.size() == 1);
    CHECK(pieces[0].tile == cta / 14);
    CHECK(std::abs(pieces[0].k_count - 256 / 14) <= 1);
  }
  CHECK(pieces_of(plan, plan.units).empty());
  // No CTAs for two pieces a tile, or no k-tiles for them: whole tiles.
  CHECK(make_plan(Split::split_k, 67, 256, 132).tape_tiles == 0);
  CHECK(make_plan(Split::split_k, 9, 15, 132).tape_tiles == 0);
}

TEST_CASE("the half rule: the tail is cut unless its wave is more than half full", "[stream_k]") {
  constexpr int sms = 132;
  // 18 tiles in the last wave: it and the wave before it.
  CHECK(make_plan(Split::half_rule, 150, 64, sms).tape_tiles == 150);
  CHECK(make_plan(Split::half_rule, 132 + 150, 64, sms).tape_tiles == 150);
  CHECK(make_plan(Split::half_rule, 2 * 132 + 150, 64, sms).tape_tiles == 150);
  // 66 tiles fill half of a wave.
  CHECK(make_plan(Split::half_rule, 132 + 66, 256, sms).tape_tiles == 198);
  CHECK(make_plan(Split::half_rule, 132 + 67, 256, sms).tape_tiles == 0);
  // It is for a wave behind full ones: alone, two thirds of a wave are cut.
  CHECK(make_plan(Split::half_rule, 88, 256, sms).tape_tiles == 88);
  CHECK(make_plan(Split::half_rule, 264, 64, sms).tape_tiles == 0);
}

TEST_CASE("what is cut of its own accord: what costs least", "[stream_k]") {
  constexpr int sms = 132;
  const auto tape_tiles = [](int tiles, int k_tiles) {
    return make_plan(Split::automatic, tiles, k_tiles, sms).tape_tiles;
  };
  CHECK(tape_tiles(150, 64) == 150);
  CHECK(tape_tiles(2 * 132 + 150, 64) == 150);
  // How full the last wave may be depends on K: seen on an H200, at 64, 32 and 16 k-tiles.
  CHECK(tape_tiles(215, 64) == 215);
  CHECK(tape_tiles(248, 64) == 0);
  CHECK(tape_tiles(198, 32) == 198);
  CHECK(tape_tiles(231, 32) == 0);
  CHECK(tape_tiles(141, 16) == 141);
  CHECK(tape_tiles(198, 16) == 0);
  // Full waves, and 62 of 64 k-tiles each.
  CHECK(tape_tiles(132, 64) == 0);
  CHECK(tape_tiles(264, 64) == 0);
  CHECK(tape_tiles(128, 64) == 0);
  CHECK(tape_tiles(512, 64) == 0);
  // No product at all.
  for (const Split split :
       {Split::automatic, Split::half_rule, Split::stream_k, Split::hybrid, Split::split_k}) {
    CHECK(make_plan(split, 150, 0, sms).tape_tiles == 0);
  }
}

TEST_CASE("few tiles are cut into equal pieces, but not into too many", "[stream_k]") {
  constexpr int sms = 132;
  CHECK(make_plan(Split::automatic, 32, 128, sms).units == 4 * 32);
  // 22 pieces would be 12 k-tiles each, and an owner would take over 21 of them.
  const StreamKPlan plan = make_plan(Split::automatic, 6, 256, sms);
  CHECK(plan.units % 6 == 0);
  const int chosen = plan.units / 6;
  for (int pieces = 2; pieces <= 22; ++pieces) {
    CHECK(gemm::cost_of(plan) <= gemm::cost_of(gemm::split_tiles(6, 256, sms, pieces)));
  }
  CHECK(chosen > 4);
  CHECK(chosen < 22);
}

TEST_CASE("what a plan costs", "[stream_k]") {
  using gemm::cost_of;
  using gemm::first_handover;
  using gemm::further_handover;
  CHECK(cost_of(make_plan(Split::data_parallel, 150, 64, 132)) == 2 * 64);
  // 73 k-tiles each, and a tile has two pieces.
  CHECK(cost_of(make_plan(Split::hybrid, 150, 64, 132)) == 73 + first_handover);
  // Four pieces of 32 k-tiles.
  CHECK(cost_of(make_plan(Split::split_k, 32, 128, 132)) ==
        32 + first_handover + 2 * further_handover);
}

TEST_CASE("what is cut when asked for", "[stream_k]") {
  constexpr int sms = 132;
  CHECK(make_plan(Split::data_parallel, 150, 64, sms).tape_tiles == 0);
  CHECK(make_plan(Split::stream_k, 512, 64, sms).tape_tiles == 512);
  CHECK(make_plan(Split::hybrid, 512, 64, sms).tape_tiles == 132 + 116);
  CHECK(make_plan(Split::hybrid, 264, 64, sms).tape_tiles == 0);
  CHECK(make_plan(Split::hybrid, 9, 256, sms).tape_tiles == 9);
  // Too little to do for all: two units of 10 k-tiles, and no CTA beside them.
  CHECK(make_plan(Split::stream_k, 20, 1, 8).units == 2);
  CHECK(make_plan(Split::stream_k, 20, 1, 8).grid() == 2);
  CHECK(make_plan(Split::data_parallel, 20, 1, 8).grid() == 8);
  CHECK(make_plan(Split::data_parallel, 5, 1, 8).grid() == 5);
  // Groups need as many units each, and a tile.
  CHECK(make_plan(Split::stream_k, 9, 256, sms, 4).groups == 4);
  CHECK(make_plan(Split::stream_k, 2, 256, sms, 4).groups == 1);
  CHECK(make_plan(Split::stream_k, 9, 256, 131, 2).groups == 1);
}

// In which order tiles are taken, and which order reads A and B least.
#include "common/gemm/tile_order.h"

#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "common/gemm/choose_order.h"
#include "tests/catch.h"

namespace {

using gemm::choose_order;
using gemm::Raster;
using gemm::rows_read;
using gemm::TileOrder;

using Place = std::tuple<int, int>;

std::vector<Place> walk(const TileOrder& order) {
  std::vector<Place> places;
  for (int index = 0; index < order.tiles(); ++index) {
    const auto [row, column] = order.at(index);
    places.emplace_back(row, column);
  }
  return places;
}

bool is_along_n(const TileOrder& order) {
  return order.raster == Raster::along_n;
}

}  // namespace

TEST_CASE("each tile has one index, whatever the band") {
  for (int rows = 1; rows <= 9; ++rows) {
    for (int columns = 1; columns <= 5; ++columns) {
      for (int band = 1; band <= 10; ++band) {
        std::set<std::tuple<int, int>> seen;
        for (int index = 0; index < rows * columns; ++index) {
          const auto [row, column] = gemm::tile_position(index, rows, columns, band);
          INFO(rows << " x " << columns << ", band " << band << ", index " << index << ": " << row
                    << ", " << column);
          REQUIRE(row >= 0);
          REQUIRE(row < rows);
          REQUIRE(column >= 0);
          REQUIRE(column < columns);
          REQUIRE(seen.emplace(row, column).second);
        }
      }
    }
  }
}

TEST_CASE("a band is walked column by column, and the next one after it") {
  std::vector<std::tuple<int, int>> walk;
  for (int index = 0; index < 10; ++index) {
    const auto [row, column] = gemm::tile_position(index, 5, 2, 3);
    walk.emplace_back(row, column);
  }
  CHECK(walk ==
        std::vector<std::tuple<int, int>>{
            {0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}, {3, 0}, {4, 0}, {3, 1}, {4, 1}});
  // A band of one row is the plain order.
  CHECK(gemm::tile_position(7, 5, 2, 1).row == 3);
  CHECK(gemm::tile_position(7, 5, 2, 1).column == 1);
}

TEST_CASE("each place has one index, for both rasters and any swizzle") {
  for (int rows = 1; rows <= 9; ++rows) {
    for (int columns = 1; columns <= 9; ++columns) {
      for (int swizzle = 1; swizzle <= 8; ++swizzle) {
        for (const Raster raster : {Raster::along_m, Raster::along_n}) {
          INFO(rows << " x " << columns << ", swizzle " << swizzle << ", along "
                    << (raster == Raster::along_m ? "M" : "N"));
          const std::vector<Place> places = walk({rows, columns, raster, swizzle});
          REQUIRE(std::set<Place>(places.begin(), places.end()).size() == places.size());
          for (const auto& [row, column] : places) {
            REQUIRE(row >= 0);
            REQUIRE(row < rows);
            REQUIRE(column >= 0);
            REQUIRE(column < columns);
          }
        }
      }
    }
  }
}

TEST_CASE("a raster says along which dimension a line of tiles lies") {
  CHECK(walk({2, 3, Raster::along_n, 1}) ==
        std::vector<Place>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}});
  CHECK(walk({2, 3, Raster::along_m, 1}) ==
        std::vector<Place>{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}});
}

TEST_CASE("a swizzle makes a line so many tiles thick, and the last band thinner") {
  CHECK(walk({3, 3, Raster::along_n, 2}) ==
        std::vector<Place>{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}, {2, 0}, {2, 1}, {2, 2}});
  CHECK(walk({3, 3, Raster::along_m, 2}) ==
        std::vector<Place>{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {0, 2}, {1, 2}, {2, 2}});
}

TEST_CASE("nine by nine tiles, swizzle 8: eight rows, and one that is left over") {
  const TileOrder along_n{9, 9, Raster::along_n, 8};
  CHECK(walk(along_n)[71] == Place(7, 8));
  CHECK(walk(along_n)[72] == Place(8, 0));
  CHECK(walk(along_n)[80] == Place(8, 8));
  const TileOrder along_m{9, 9, Raster::along_m, 8};
  CHECK(walk(along_m)[71] == Place(8, 7));
  CHECK(walk(along_m)[72] == Place(0, 8));
}

TEST_CASE("rows that are read: those of different tiles, wave by wave") {
  // All at once: 2 rows of tiles of A, 3 columns of B.
  CHECK(rows_read({2, 3, Raster::along_n, 1}, 128, 256, 6) == 2 * 128 + 3 * 256);
  // Two waves, of a row each: A once, B twice.
  CHECK(rows_read({2, 3, Raster::along_n, 1}, 128, 256, 3) == 2 * (128 + 3 * 256));
  // Three waves, of a column each: A three times, B once.
  CHECK(rows_read({2, 3, Raster::along_m, 1}, 128, 256, 2) == 3 * (2 * 128 + 256));
  // One at a time shares nothing; the last wave may have fewer tiles.
  CHECK(rows_read({2, 3, Raster::along_m, 1}, 128, 256, 1) == 6 * (128 + 256));
  CHECK(rows_read({2, 3, Raster::along_n, 1}, 128, 256, 5) == 2 * 128 + 3 * 256 + 128 + 256);
}

TEST_CASE("the raster makes neighbours share the longer side of a tile") {
  for (const int columns : {1, 4, 16, 56}) {
    CHECK(is_along_n(choose_order(32, columns, 128, 256, 132)));
    CHECK(is_along_n(choose_order(32, columns, 128, 128, 132)));
    CHECK_FALSE(is_along_n(choose_order(32, columns, 256, 128, 132)));
  }
  // Along N with a swizzle, the list goes down a band first: the same columns, and so the same B.
  const TileOrder order{32, 16, Raster::along_n, 8};
  CHECK(order.at(0).column == order.at(1).column);
}

TEST_CASE("the swizzle is the one with which least is read") {
  // One wave: nothing to choose.
  CHECK(choose_order(8, 8, 128, 256, 64).swizzle == 1);
  // Square tiles, 16 at a time: 4 x 4, read by 4 + 4; a line of two rows by 2 + 8.
  const TileOrder square = choose_order(8, 8, 128, 128, 16);
  CHECK(square.swizzle == 4);
  CHECK(rows_read(square, 128, 128, 16) == 4 * (4 + 4) * 128);
  // Tiles four times as wide as high: 8 x 2.
  const TileOrder wide = choose_order(8, 8, 128, 512, 16);
  CHECK(wide.swizzle == 8);
  CHECK(rows_read(wide, 128, 512, 16) == 4 * (8 * 128 + 2 * 512));
  // 4096 x 4096 on 132 SMs: a band of 16 rows has 8 columns of a wave, which is a square.
  const TileOrder band = choose_order(32, 16, 128, 256, 132);
  CHECK(band.swizzle == 16);
  CHECK(rows_read(band, 128, 256, 132) < rows_read({32, 16, Raster::along_n, 8}, 128, 256, 132));
  // A row of tiles has one order, whatever it is called.
  CHECK(choose_order(1, 40, 128, 256, 16).swizzle == 1);
}

TEST_CASE("no swizzle reads less than the chosen one") {
  for (const int rows : {1, 3, 9, 17, 32, 64}) {
    for (const int columns : {1, 2, 9, 16, 33}) {
      for (const int ctas : {4, 66, 132}) {
        const TileOrder chosen = choose_order(rows, columns, 128, 256, ctas);
        const std::int64_t least = rows_read(chosen, 128, 256, ctas);
        for (const int swizzle : {1, 2, 4, 8, 16}) {
          INFO(rows << " x " << columns << " tiles, " << ctas << " at a time, swizzle " << swizzle);
          CHECK(least <= rows_read({rows, columns, chosen.raster, swizzle}, 128, 256, ctas));
        }
      }
    }
  }
}

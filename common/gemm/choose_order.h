// In which order tiles share most of what they read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <set>

#include "common/gemm/tile_order.h"

namespace gemm {

/// Rows of A and of B that are read from memory, if `ctas` tiles are computed at a time and tiles
/// of one such wave share what they read: the different rows of tiles times tile_m, and the
/// different columns times tile_n, summed over the waves. Times K and the bytes of an element it is
/// what a cache has to bring that holds one wave's k-tiles and nothing longer.
inline std::int64_t rows_read(const TileOrder& order, int tile_m, int tile_n, int ctas) {
  std::int64_t sum = 0;
  for (int first = 0; first < order.tiles(); first += ctas) {
    std::set<int> rows, columns;
    for (int index = first; index < std::min(first + ctas, order.tiles()); ++index) {
      const TilePosition at = order.at(index);
      rows.insert(at.row);
      columns.insert(at.column);
    }
    sum += static_cast<std::int64_t>(rows.size()) * tile_m +
           static_cast<std::int64_t>(columns.size()) * tile_n;
  }
  return sum;
}

/// The order of the tiles that lessons 09 to 11 choose.
///
/// The raster: such that neighbours in the list share the operand of which a tile has more rows.
/// SMs that ask for the same lines at the same time are served together, and neighbours do;
/// measured in docs/lesson09_persistent.md. So along N, if a tile is at least as wide as high.
///
/// The swizzle: the one with the least rows_read(), the smaller of equals. Beside CUTLASS's, up to
/// 8, there is 16: of 132 tiles that are twice as wide as high, 16 rows and 8 columns are nearest
/// to a square.
inline TileOrder choose_order(int rows, int columns, int tile_m, int tile_n, int ctas) {
  const Raster raster = tile_n >= tile_m ? Raster::along_n : Raster::along_m;
  TileOrder best{rows, columns, raster, 1};
  std::int64_t least = rows_read(best, tile_m, tile_n, ctas);
  for (const int swizzle : {2, 4, 8, 16}) {
    const TileOrder order{rows, columns, raster, swizzle};
    const std::int64_t read = rows_read(order, tile_m, tile_n, ctas);
    if (read < least) {
      least = read;
      best = order;
    }
  }
  return best;
}

}  // namespace gemm

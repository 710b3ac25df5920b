// Which order of the tiles reads A and B least.
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

/// The raster and swizzle, among those of CUTLASS, with the least rows_read(); of equals the
/// smaller swizzle, and along N.
inline TileOrder choose_order(int rows, int columns, int tile_m, int tile_n, int ctas) {
  TileOrder best{rows, columns, Raster::along_n, 1};
  std::int64_t least = rows_read(best, tile_m, tile_n, ctas);
  for (const int swizzle : {1, 2, 4, 8}) {
    for (const Raster raster : {Raster::along_n, Raster::along_m}) {
      const TileOrder order{rows, columns, raster, swizzle};
      const std::int64_t read = rows_read(order, tile_m, tile_n, ctas);
      if (read < least) {
        least = read;
        best = order;
      }
    }
  }
  return best;
}

}  // namespace gemm

// In which order the tiles of D are taken.
#pragma once

#include "common/host_device.h"

namespace gemm {

/// A tile's place in D, in tiles.
struct TilePosition {
  int row, column;
};

/// The place of tile `index` of rows x columns tiles. D is walked in bands of `band` rows of tiles,
/// each column by column: tiles that are computed at the same time then lie in a block rather than
/// in a line, and share more rows of A and B in the L2. Every tile has one index.
HOST_DEVICE constexpr TilePosition tile_position(int index, int rows, int columns, int band) {
  const int first_row = index / (band * columns) * band;
  const int height = rows - first_row < band ? rows - first_row : band;
  const int within = index % (band * columns);
  return {first_row + within % height, within / height};
}

/// Along which dimension of D consecutive tiles lie.
enum class Raster { along_m, along_n };

/// An order of rows x columns tiles, in the terms of the field: along N, bands of `swizzle` rows of
/// tiles are walked column by column; along M, bands of `swizzle` columns row by row. Swizzle 1 is
/// a plain line.
struct TileOrder {
  int rows, columns;
  Raster raster;
  int swizzle;

  HOST_DEVICE constexpr int tiles() const { return rows * columns; }

  /// The place of tile `index` of tiles(): every place has one index.
  HOST_DEVICE constexpr TilePosition at(int index) const {
    if (raster == Raster::along_n) return tile_position(index, rows, columns, swizzle);
    const TilePosition transposed = tile_position(index, columns, rows, swizzle);
    return {transposed.column, transposed.row};
  }
};

}  // namespace gemm

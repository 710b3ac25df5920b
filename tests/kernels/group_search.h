// What tests/kernels/group_search.cu writes down, for the test that reads it.
#pragma once

namespace kernels {

/// What a lane of the searching warp said of a tile.
struct Found {
  int is_tile;     ///< what find() returned
  int group;       ///< only where it is a tile
  int first_tile;  ///< of the group
  bool operator==(const Found&) const = default;
};

}  // namespace kernels

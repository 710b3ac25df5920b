// Which CTAs compute the rows of D together, where a row has to be known as a whole.
#pragma once

#include <algorithm>

#include "common/host_device.h"

namespace gemm {

/// D is cut into panels: all tiles of the same rows. A team of CTAs takes a whole panel at a time,
/// `teams` of them work side by side, and all members of a team walk the same list of panels: team,
/// team + teams, ... So no CTA waits for one that has other things to do first, as long as all CTAs
/// run at the same time.
///
/// Of a panel, member i computes the tiles i, i + members, ... It has more than one only where a
/// panel has more tiles than there are CTAs.
struct RowTeams {
  int panels;   ///< rows of tiles
  int columns;  ///< tiles of a panel
  int members;  ///< CTAs of a team
  int teams;

  HOST_DEVICE constexpr int ctas() const { return teams * members; }
  /// Tiles of `member` in each panel, at least one.
  HOST_DEVICE constexpr int tiles_of(int member) const {
    return (columns - member + members - 1) / members;
  }
  /// Panels of `team`, at least one.
  HOST_DEVICE constexpr int panels_of(int team) const {
    return (panels - team + teams - 1) / teams;
  }
};

/// The teams for `panels` x `columns` tiles, both > 0, on a machine that runs `ctas` CTAs at a
/// time: as few tiles a member as can be, and no more members than that takes.
constexpr RowTeams make_row_teams(int panels, int columns, int ctas) {
  const int tiles = (columns + ctas - 1) / ctas;
  const int members = (columns + tiles - 1) / tiles;
  return {panels, columns, members, std::min(panels, ctas / members)};
}

}  // namespace gemm

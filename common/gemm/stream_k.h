// Stream-K: the work of a GEMM as one tape of k-tiles, cut into equal pieces without regard to
// where a tile of D ends. Osama et al., "Stream-K", PPoPP 2023 (arXiv 2301.03598).
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace gemm {

/// A piece of a tile: some of its k-tiles, which one CTA computes.
struct Piece {
  int tile;
  int k_begin, k_count;

  HOST_DEVICE constexpr bool is_first() const { return k_begin == 0; }
  HOST_DEVICE constexpr bool is_last(int k_tiles) const { return k_begin + k_count == k_tiles; }
};

/// Who computes what. Tiles 0 to tape_tiles - 1 lie on the tape, which `units` CTAs share; the rest
/// are data-parallel: whole tiles, dealt out to all `ctas`.
///
/// The units may form groups. Each group has a tape of its own, of every groups-th tile: units of
/// different groups that run at the same time are then at the same k-tiles of neighbouring tiles,
/// and share them in the L2.
struct StreamKPlan {
  int tiles, k_tiles;
  int tape_tiles;
  int units;  ///< a multiple of groups, at most ctas
  int groups = 1;
  int ctas;

  /// Pieces shorter than this are not worth handing over; a cut so near to a tile's edge moves
  /// there.
  static constexpr int shortest_piece = 4;

  /// CTAs that have something to do: 0 to grid() - 1.
  HOST_DEVICE constexpr int grid() const {
    const int whole_tiles = tiles - tape_tiles;
    const int dealt_to = whole_tiles < ctas ? whole_tiles : ctas;
    return tape_tiles > 0 && units > dealt_to ? units : dealt_to;
  }

  HOST_DEVICE constexpr int units_in_group() const { return units / groups; }

  /// Tiles on the tape of `group`: group, group + groups, ...
  HOST_DEVICE constexpr int tiles_of_group(int group) const {
    return (tape_tiles - group + groups - 1) / groups;
  }

  /// Where on its group's tape the `position`th unit of a group begins.
  HOST_DEVICE constexpr int cut(int group, int position) const {
    const std::int64_t length = std::int64_t{tiles_of_group(group)} * k_tiles;
    const int at = static_cast<int>(length * position / units_in_group());
    const int within = at % k_tiles;
    if (within < shortest_piece) return at - within;
    if (k_tiles - within < shortest_piece) return at + k_tiles - within;
    return at;
  }

  HOST_DEVICE constexpr int group_of(int unit) const { return unit % groups; }
  HOST_DEVICE constexpr int position_of(int unit) const { return unit / groups; }
  HOST_DEVICE constexpr int unit_at(int group, int position) const {
    return position * groups + group;
  }
};

/// Walks through what one CTA computes: first its stretch of the tape, from its end backwards, then
/// its data-parallel tiles.
///
/// Backwards, because the piece at the end of the stretch is one that the CTA gives away: the next
/// unit owns that tile and will wait for it. So it is done first, and the piece at the beginning,
/// which ends a tile and has to wait for the unit before, last.
class PieceWalk {
 public:
  HOST_DEVICE constexpr PieceWalk(const StreamKPlan& plan, int cta, bool forwards = false)
      : plan_(plan), forwards_(forwards), next_tile_(plan.tape_tiles + cta) {
    if (cta >= plan.units || plan.tape_tiles == 0) return;
    group_ = plan.group_of(cta);
    begin_ = plan.cut(group_, plan.position_of(cta));
    end_ = plan.cut(group_, plan.position_of(cta) + 1);
  }

  /// Stores the next piece in `piece`; false if there is none.
  HOST_DEVICE constexpr bool next(Piece& piece) {
    const int k_tiles = plan_.k_tiles;
    if (begin_ < end_) {
      const int at = forwards_ ? begin_ : end_ - 1;
      const int tile_begin = at / k_tiles * k_tiles;
      const int from = tile_begin > begin_ ? tile_begin : begin_;
      const int to = tile_begin + k_tiles < end_ ? tile_begin + k_tiles : end_;
      piece = {at / k_tiles * plan_.groups + group_, from - tile_begin, to - from};
      if (forwards_) {
        begin_ = to;
      } else {
        end_ = from;
      }
      return true;
    }
    if (next_tile_ >= plan_.tiles) return false;
    piece = {next_tile_, 0, k_tiles};
    next_tile_ += plan_.ctas;
    return true;
  }

 private:
  StreamKPlan plan_;
  bool forwards_;
  int group_ = 0;
  int begin_ = 0, end_ = 0;  // what is left of the stretch
  int next_tile_;
};

/// The unit that owns `tile`, of which `unit` gives away a piece: it has the tile's last k-tiles.
HOST_DEVICE constexpr int owner_of(const StreamKPlan& plan, int unit, int tile) {
  const int group = plan.group_of(unit);
  const int tile_end = (tile / plan.groups + 1) * plan.k_tiles;  // on the tape of the group
  int owner = plan.position_of(unit) + 1;
  while (plan.cut(group, owner + 1) < tile_end) ++owner;
  return plan.unit_at(group, owner);
}

/// Walks through the units that give away a piece of `tile` to `owner`, from its end backwards: the
/// unit before the owner first.
class ContributorWalk {
 public:
  HOST_DEVICE constexpr ContributorWalk(const StreamKPlan& plan, int owner, int tile)
      : plan_(plan),
        group_(plan.group_of(owner)),
        position_(plan.position_of(owner)),
        tile_begin_(tile / plan.groups * plan.k_tiles) {}

  /// Stores the next contributor in `unit`; false if there is none.
  HOST_DEVICE constexpr bool next(int& unit) {
    if (position_ == 0 || plan_.cut(group_, position_) <= tile_begin_) return false;
    --position_;
    unit = plan_.unit_at(group_, position_);
    return true;
  }

 private:
  StreamKPlan plan_;
  int group_, position_;
  int tile_begin_;  // on the tape of the group
};

/// How to cut a problem. The names are those of lesson 11's knob.
enum class Split { automatic, half_rule, data_parallel, stream_k, hybrid, split_k };

/// What handing pieces over costs, in k-tiles of the same time, with tiles of 128 x 256 on an H200
/// (docs/lesson11_stream_k.md): the first piece of a tile, and each further one.
constexpr int first_handover = 13;
constexpr int further_handover = 3;

/// All tiles, each in `pieces` equal pieces: a unit a piece.
HOST_DEVICE constexpr StreamKPlan split_tiles(int tiles, int k_tiles, int ctas, int pieces) {
  return {tiles, k_tiles, tiles, pieces * tiles, 1, ctas};
}

/// How long `plan` takes, in k-tiles: its stretches, handing over, and the whole tiles behind.
HOST_DEVICE constexpr int cost_of(const StreamKPlan& plan) {
  const int waves = (plan.tiles - plan.tape_tiles + plan.ctas - 1) / plan.ctas;
  if (plan.tape_tiles == 0) return waves * plan.k_tiles;
  const std::int64_t work = std::int64_t{plan.tape_tiles} * plan.k_tiles;
  const int stretch = static_cast<int>((work + plan.units - 1) / plan.units);
  // Where cuts fall within tiles, a tile may have one more.
  const bool is_even = plan.units % plan.tape_tiles == 0;
  const int pieces = (plan.units + plan.tape_tiles - 1) / plan.tape_tiles + (is_even ? 0 : 1);
  return stretch + first_handover + (pieces - 2) * further_handover + waves * plan.k_tiles;
}

/// The plan for `tiles` tiles of `k_tiles` on `ctas` CTAs.
///
/// hybrid: the tail, and if there are full waves one of them as well, so that the pieces are longer
/// than a tile and each tile has two contributors at the most. stream_k: everything. split_k: as
/// many equal pieces a tile as there are CTAs for. half_rule: hybrid, unless the last wave is more
/// than half full behind full ones. automatic: what costs least, of data_parallel, hybrid and
/// split_k with any number of pieces.
HOST_DEVICE constexpr StreamKPlan make_plan(Split split, int tiles, int k_tiles, int ctas,
                                            int groups = 1) {
  constexpr int least_k_tiles = 8;  // of a unit
  const StreamKPlan data_parallel{tiles, k_tiles, 0, ctas, 1, ctas};
  if (k_tiles == 0 || split == Split::data_parallel) return data_parallel;

  const int by_ctas = ctas / tiles;
  const int by_k_tiles = k_tiles / least_k_tiles;
  const int most_pieces = by_ctas < by_k_tiles ? by_ctas : by_k_tiles;
  if (split == Split::split_k) {
    return most_pieces < 2 ? data_parallel : split_tiles(tiles, k_tiles, ctas, most_pieces);
  }

  const int waves = tiles / ctas;
  const int tail = tiles % ctas;
  if (split == Split::half_rule && waves > 0 && 2 * tail > ctas) return data_parallel;

  StreamKPlan plan = data_parallel;
  plan.tape_tiles = split == Split::stream_k ? tiles
                    : tail == 0              ? 0
                    : waves > 0              ? ctas + tail
                                             : tail;
  const std::int64_t work = std::int64_t{plan.tape_tiles} * k_tiles;
  if (work / least_k_tiles < plan.units) plan.units = static_cast<int>(work / least_k_tiles);
  if (plan.units == 0) return data_parallel;
  if (plan.units % groups == 0 && plan.tape_tiles >= groups) plan.groups = groups;
  if (split != Split::automatic) return plan;

  if (cost_of(data_parallel) <= cost_of(plan)) plan = data_parallel;
  for (int pieces = 2; pieces <= most_pieces; ++pieces) {
    const StreamKPlan pieced = split_tiles(tiles, k_tiles, ctas, pieces);
    if (cost_of(pieced) < cost_of(plan)) plan = pieced;
  }
  return plan;
}

}  // namespace gemm

#include "common/emulator/clocks.h"

#include <algorithm>

#include "common/emulator/lanes.h"

namespace emulator {

namespace {

/// Entries are joined in blocks of this many, which the compiler turns into vector instructions.
constexpr std::size_t block = 8;

EMULATOR_VECTORIZED void raise_all(std::uint32_t* __restrict to,
                                   const std::uint32_t* __restrict from, std::size_t count) {
  for (std::size_t i = 0; i < count; i += block) {
    for (std::size_t k = 0; k < block; ++k) to[i + k] = std::max(to[i + k], from[i + k]);
  }
}

}  // namespace

// ---- Times.

void Times::extend(std::size_t size) {
  if (size > times_.size()) times_.resize((size + block - 1) / block * block);
}

void Times::raise(std::size_t index, std::uint32_t time) {
  extend(index + 1);
  times_[index] = std::max(times_[index], time);
}

void Times::raise_lanes(std::size_t first, LaneMask lanes, std::uint32_t time) {
  extend(first + warp_size);
  for_each_lane(lanes, [&](int lane) {
    std::uint32_t& entry = times_[first + static_cast<std::size_t>(lane)];
    entry = std::max(entry, time);
  });
}

void Times::join(const Times& other) {
  if (&other == this || other.times_.empty()) return;
  extend(other.times_.size());
  raise_all(times_.data(), other.times_.data(), other.times_.size());
}

// ---- VectorClock.

std::uint32_t VectorClock::at(Known kind, std::uint32_t cluster, std::size_t index) const {
  if (cluster == cluster_) return at(kind, index);
  const Vectors* const vectors = find(cluster);
  return vectors == nullptr ? 0 : (*vectors)[slot(kind)][index];
}

const Vectors* VectorClock::find(std::uint32_t cluster) const {
  const auto place = std::lower_bound(
      foreign_.begin(), foreign_.end(), cluster,
      [](const Foreign& entry, std::uint32_t value) { return entry.first < value; });
  return place == foreign_.end() || place->first != cluster ? nullptr : place->second.get();
}

void VectorClock::join(Vectors& to, const Vectors& from, Transfer transfer) {
  to[slot(Known::order)].join(from[slot(Known::order)]);
  if (transfer.order_only) return;
  for (const Known kind : {Known::proxy_shared, Known::proxy_global, Known::released_map}) {
    to[slot(kind)].join(from[slot(kind)]);
  }
  if (!transfer.crosses_ctas) to[slot(Known::tensor_map)].join(from[slot(Known::tensor_map)]);
  to[slot(transfer.to)].join(from[slot(transfer.from)]);
  // Who has only observed can't pass on what others have fenced.
  if (transfer.to != Known::data) return;
  for (std::size_t i = slot(Known::fenced_cta); i < known_kinds; ++i) to[i].join(from[i]);
}

void VectorClock::join_foreign(std::uint32_t cluster, const std::shared_ptr<const Vectors>& from,
                               Transfer transfer) {
  const auto place = std::lower_bound(
      foreign_.begin(), foreign_.end(), cluster,
      [](const Foreign& entry, std::uint32_t value) { return entry.first < value; });
  const bool is_new = place == foreign_.end() || place->first != cluster;
  if (!is_new && place->second == from) return;
  const bool is_everything =
      !transfer.order_only && !transfer.crosses_ctas && transfer.from == transfer.to;
  if (is_new && is_everything) {
    foreign_.insert(place, {cluster, from});
    return;
  }
  auto joined = is_new ? std::make_shared<Vectors>() : std::make_shared<Vectors>(*place->second);
  join(*joined, *from, transfer);
  if (is_new) {
    foreign_.insert(place, {cluster, std::move(joined)});
  } else {
    place->second = std::move(joined);
  }
}

void VectorClock::join(const VectorClock& other, Transfer transfer) {
  if (other.cluster_ == cluster_) {
    join(own_, other.own_, transfer);
  } else {
    join_foreign(other.cluster_, std::make_shared<const Vectors>(other.own_), transfer);
  }
  for (const Foreign& entry : other.foreign_) {
    if (entry.first == cluster_) {
      join(own_, *entry.second, transfer);
    } else {
      join_foreign(entry.first, entry.second, transfer);
    }
  }
}

void VectorClock::add(Known to, const VectorClock& source, Known from) {
  own_[slot(to)].join(source.own_[slot(from)]);
  for (const Foreign& entry : source.foreign_) {
    const Times& times = (*entry.second)[slot(from)];
    if (times.empty()) continue;
    auto added = std::make_shared<Vectors>();
    (*added)[slot(to)] = times;
    join_foreign(entry.first, std::move(added), Transfer::everything());
  }
}

void VectorClock::clear(std::uint32_t cluster) {
  cluster_ = cluster;
  for (Times& times : own_) times.clear();
  foreign_.clear();
}

// ---- Witness.

std::uint32_t Witness::entry(Known kind, std::uint32_t cluster, std::size_t index) const {
  std::uint32_t result = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    result = std::max(result, clocks_[i]->at(kind, cluster, index));
  }
  return result;
}

bool Witness::knows(Known kind, std::uint32_t cluster, std::uint32_t warp, LaneMask lanes,
                    std::uint32_t time) const {
  const bool own = count_ != 0 && warp == warp_ && cluster == clocks_[0]->cluster();
  if (own && time <= time_ && (kind == Known::order || kind == Known::data)) lanes &= ~self_;
  while (lanes != 0) {
    const std::size_t index = std::size_t{warp} * warp_size + first_lane(lanes);
    if (entry(kind, cluster, index) < time) return false;
    lanes &= lanes - 1;
  }
  return true;
}

std::uint32_t Witness::fact(Known kind, std::uint32_t cluster, std::uint32_t index) const {
  return entry(kind, cluster, index);
}

// ---- WarpClocks.

void WarpClocks::reset(std::uint32_t cluster, std::uint32_t warp) {
  warp_ = warp;
  time_ = 1;
  exited_ = 0;
  common_.clear(cluster);
  groups_.clear();
  changed();
}

VectorClock& WarpClocks::clock_of(LaneMask lanes) {
  changed();
  if (whole(lanes)) return common_;
  for (Group& group : groups_) {
    if (group.lanes == lanes) return group.clock;
  }
  if (groups_.size() == most_groups) {
    Group all{lanes, VectorClock(common_.cluster())};
    for (const Group& group : groups_) {
      all.lanes |= group.lanes;
      all.clock.join(group.clock);
    }
    groups_.clear();
    groups_.push_back(std::move(all));
    return groups_.back().clock;
  }
  groups_.push_back({lanes, VectorClock(common_.cluster())});
  return groups_.back().clock;
}

void WarpClocks::acquire(LaneMask lanes, const VectorClock& clock, Transfer transfer) {
  clock_of(lanes).join(clock, transfer);
}

void WarpClocks::learn(LaneMask lanes, std::size_t index, std::uint32_t value) {
  VectorClock& clock = clock_of(lanes);
  clock.own(Known::order).raise(index, value);
  clock.own(Known::data).raise(index, value);
}

void WarpClocks::learn_progress(LaneMask lanes, std::uint32_t warp, std::uint32_t time) {
  clock_of(lanes).own(Known::order).raise_lanes(std::size_t{warp} * warp_size, all_lanes, time);
}

void WarpClocks::release(LaneMask lanes, VectorClock& into, Transfer transfer) {
  into.join(common_, transfer);
  for (const Group& group : groups_) {
    if ((group.lanes & lanes) != 0) into.join(group.clock, transfer);
  }
  const std::size_t first = std::size_t{warp_} * warp_size;
  into.own(Known::order).raise_lanes(first, lanes, time_);
  if (!transfer.order_only && transfer.from == Known::data)
    into.own(Known::data).raise_lanes(first, lanes, time_);
  ++time_;
}

void WarpClocks::meet(LaneMask lanes) {
  changed();
  VectorClock& clock = clock_of(lanes);
  for (const Group& group : groups_) {
    if ((group.lanes & lanes) != 0 && &group.clock != &clock) clock.join(group.clock);
  }
  if (&clock == &common_) groups_.clear();
  clock.own(Known::order).raise_lanes(std::size_t{warp_} * warp_size, lanes, time_);
  clock.own(Known::data).raise_lanes(std::size_t{warp_} * warp_size, lanes, time_);
  ++time_;
}

void WarpClocks::meet_in_order() {
  changed();
  for (const Group& group : groups_) common_.join(group.clock, Transfer::order());
  common_.own(Known::order).raise_lanes(std::size_t{warp_} * warp_size, ~exited_, time_);
  ++time_;
}

void WarpClocks::fence(LaneMask lanes, Known kind) {
  move(lanes, kind, Known::data);
  clock_of(lanes).own(kind).raise_lanes(std::size_t{warp_} * warp_size, lanes, time_);
  ++time_;
}

void WarpClocks::admit(LaneMask lanes, Known kind) {
  move(lanes, Known::data, kind);
}

void WarpClocks::move(LaneMask lanes, Known to, Known from) {
  VectorClock& clock = clock_of(lanes);
  clock.add(to, common_, from);
  for (const Group& group : groups_) {
    if ((group.lanes & lanes) != 0) clock.add(to, group.clock, from);
  }
}

bool WarpClocks::knows_fences() const {
  if (!common_.own(Known::fenced_cta).empty()) return true;
  return std::any_of(groups_.begin(), groups_.end(), [](const Group& group) {
    return !group.clock.own(Known::fenced_cta).empty();
  });
}

Witness WarpClocks::common_witness() const {
  Witness result(warp_, 0, time_);
  result.add(common_);
  return result;
}

Witness WarpClocks::witness(int lane) const {
  Witness result(warp_, lane_bit(lane), time_);
  result.add(common_);
  for (const Group& group : groups_) {
    if ((group.lanes & lane_bit(lane)) != 0) result.add(group.clock);
  }
  return result;
}

Witness WarpClocks::witness() const {
  Witness result(warp_, all_lanes, time_);
  result.add(common_);
  for (const Group& group : groups_) result.add(group.clock);
  return result;
}

std::shared_ptr<const VectorClock> WarpClocks::snapshot() const {
  if (snapshot_ == nullptr) {
    auto clock = std::make_shared<VectorClock>(common_);
    for (const Group& group : groups_) clock->join(group.clock);
    snapshot_ = std::move(clock);
  }
  return snapshot_;
}

}  // namespace emulator

#include "common/emulator/shadow.h"

#include <algorithm>

namespace emulator {

namespace {

ByteMask word_bytes(int word) {
  return static_cast<ByteMask>(0xF << (4 * word));
}

bool same_agent(const Stamp& a, const Stamp& b) {
  if (a.by == By::copy_in_flight && a.time != b.time) return false;
  return a.by == b.by && a.who == b.who && a.cluster == b.cluster && a.strength == b.strength &&
         a.atomic == b.atomic;
}

/// Takes from `older` the words of which `newer`, a later access of the same agent, tells as much.
void strip(Stamp& older, const Stamp& newer) {
  for (int word = 0; word < 4; ++word) {
    const auto bytes = static_cast<ByteMask>(older.bytes & word_bytes(word));
    if ((bytes & ~newer.bytes) != 0) continue;
    if (older.by == By::thread && (older.lanes[word] & ~newer.lanes[word]) != 0) continue;
    older.bytes &= static_cast<ByteMask>(~bytes);
  }
}

/// Whether one stamp can stand for both accesses, which an agent made at one time. Lanes are kept
/// by word: where two lanes accessed different bytes of a word, they need a stamp each.
bool can_merge(const Stamp& a, const Stamp& b) {
  if (a.time != b.time || !same_agent(a, b)) return false;
  if (a.by != By::thread) return true;
  for (int word = 0; word < 4; ++word) {
    const ByteMask in_a = a.bytes & word_bytes(word);
    const ByteMask in_b = b.bytes & word_bytes(word);
    if (in_a == 0 || in_b == 0 || in_a == in_b) continue;
    if (a.lanes[word] != b.lanes[word]) return false;
  }
  return true;
}

void merge(Stamp& into, const Stamp& stamp) {
  for (int word = 0; word < 4; ++word) {
    if ((into.bytes & word_bytes(word)) == 0) into.lanes[word] = 0;
    if ((stamp.bytes & word_bytes(word)) != 0) into.lanes[word] |= stamp.lanes[word];
  }
  into.bytes |= stamp.bytes;
  into.instruction = stamp.instruction;
}

void erase(Stamp& first, std::vector<Stamp>* others, ByteMask bytes) {
  first.bytes &= static_cast<ByteMask>(~bytes);
  if (others == nullptr) return;
  for (Stamp& stamp : *others) stamp.bytes &= static_cast<ByteMask>(~bytes);
  std::erase_if(*others, [](const Stamp& stamp) { return stamp.bytes == 0; });
}

}  // namespace

LaneMask Stamp::lanes_at(ByteMask some) const {
  LaneMask result = 0;
  for (int word = 0; word < 4; ++word) {
    if ((bytes & some & word_bytes(word)) != 0) result |= lanes[word];
  }
  return result;
}

// ---- Granule.

Granule::Others& Granule::others() {
  if (others_ == nullptr) others_ = std::make_unique<Others>();
  return *others_;
}

ByteMask Granule::all_written() const {
  ByteMask result = write_.bytes;
  if (others_ != nullptr) {
    for (const Stamp& stamp : others_->writes) result |= stamp.bytes;
  }
  return result;
}

void Granule::add_write(const Stamp& stamp) {
  // More atomics than this are not kept apart.
  constexpr std::size_t most_writes = 64;
  const auto make_way = [&](Stamp& earlier) {
    if (!stamp.atomic || !earlier.atomic) {
      earlier.bytes &= static_cast<ByteMask>(~stamp.bytes);
    } else if (same_agent(earlier, stamp)) {
      strip(earlier, stamp);
    }
  };
  erase(read_, others_ == nullptr ? nullptr : &others_->reads, stamp.bytes);
  make_way(write_);
  if (others_ == nullptr) {
    if (write_.bytes == 0) {
      write_ = stamp;
      return;
    }
    if (can_merge(write_, stamp)) return merge(write_, stamp);
  }
  std::vector<Stamp>& writes = others().writes;
  std::erase_if(writes, [&](Stamp& earlier) {
    make_way(earlier);
    return earlier.bytes == 0;
  });
  if (write_.bytes == 0) {
    write_ = stamp;
    return;
  }
  if (can_merge(write_, stamp)) return merge(write_, stamp);
  for (Stamp& other : writes) {
    if (can_merge(other, stamp)) return merge(other, stamp);
  }
  if (writes.size() == most_writes) writes.erase(writes.begin());
  writes.push_back(stamp);
}

void Granule::record_read(const Stamp& stamp) {
  if (read_.bytes != 0 && same_agent(read_, stamp)) strip(read_, stamp);
  if (others_ == nullptr && read_.bytes == 0) {
    read_ = stamp;
    return;
  }
  std::vector<Stamp>& reads = others().reads;
  std::erase_if(reads, [&](Stamp& other) {
    if (same_agent(other, stamp)) strip(other, stamp);
    return other.bytes == 0;
  });
  if (read_.bytes == 0) {
    read_ = stamp;
    return;
  }
  if (can_merge(read_, stamp)) return merge(read_, stamp);
  for (Stamp& other : reads) {
    if (can_merge(other, stamp)) return merge(other, stamp);
  }
  reads.push_back(stamp);
}

void Granule::clear() {
  write_.bytes = 0;
  read_.bytes = 0;
  others_ = nullptr;
}

// ---- SharedShadow, GlobalShadow.

void SharedShadow::reset(std::uint32_t bytes) {
  regions_.clear();
  lines_.resize((bytes + line_bytes - 1) / line_bytes);
  for (Line& line : lines_) {
    line.write.bytes = 0;
    if (!line.is_whole()) spare_.push_back(std::move(line.parts));
  }
}

Region* SharedShadow::find_region(std::uint32_t address, std::uint32_t bytes) {
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    if (regions_[i].begin > address || address + bytes > regions_[i].end) continue;
    recent_ = i;
    return &regions_[i];
  }
  return nullptr;
}

void SharedShadow::cover(std::uint32_t address, std::uint32_t bytes, const Stamp& stamp) {
  if (bytes == 0 || (address + bytes) / line_bytes > lines_.size()) return;
  regions_.push_back({address, address + bytes, stamp});
  regions_.back().write.bytes = all_bytes;
}

void SharedShadow::dissolve(std::uint32_t offset) {
  const auto found = std::find_if(regions_.begin(), regions_.end(), [&](const Region& region) {
    return region.begin <= offset && offset < region.end;
  });
  if (found == regions_.end()) return;
  const Region region = *found;
  regions_.erase(found);
  for (std::uint32_t i = region.begin; i < region.end; i += line_bytes) {
    write(lines_[i / line_bytes], region.write);
  }
}

void SharedShadow::write(Line& line, const Stamp& stamp) {
  line.write = stamp;
  line.write.bytes = all_bytes;
  if (!line.is_whole()) spare_.push_back(std::move(line.parts));
}

void SharedShadow::divide(Line& line) {
  if (spare_.empty()) spare_.push_back(std::make_unique<Line::Parts>());
  line.parts = std::move(spare_.back());
  spare_.pop_back();
  for (Granule& granule : *line.parts) {
    granule.clear();
    if (line.write.bytes != 0) granule.record_write(line.write);
  }
}

void GlobalShadow::clear() {
  regions_ = {};
  recent_ = {};
  pages_.clear();
}

GlobalShadow::Page* GlobalShadow::find_page(std::uint64_t number) {
  const auto found = pages_.find(number);
  Recent& recent = recent_[number % recent_.size()];
  recent = {number, found == pages_.end() ? nullptr : found->second.get()};
  return recent.page;
}

GlobalShadow::Page& GlobalShadow::make_page(std::uint64_t address) {
  const std::uint64_t number = address >> page_shift;
  std::unique_ptr<Page>& page = pages_[number];
  page = std::make_unique<Page>();
  recent_[number % recent_.size()] = {number, page.get()};
  regions_[region(address) / 64] |= std::uint64_t{1} << (region(address) % 64);
  return *page;
}

}  // namespace emulator

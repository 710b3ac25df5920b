// Shadow memory: for each granule of 16 bytes, who wrote it last and who has read it since.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/emulator/module.h"
#include "common/emulator/observer.h"

namespace emulator {

inline constexpr std::uint32_t granule_bytes = 16;
using ByteMask = std::uint16_t;  ///< bytes of a granule
inline constexpr ByteMask all_bytes = 0xFFFF;

/// Whose access it was; decides what Stamp::who and Stamp::time mean.
enum class By : std::uint8_t {
  thread,          ///< who: warp in the cluster; time: of the warp; lanes
  copy_in_flight,  ///< time: low bits of the AsyncId
  copy_landed,     ///< who: the fact that counts phases of its mbarrier; time: phases that cover it
  bulk_store,      ///< who: the first of two facts (read, written) of a thread; time: copy, from 1
};

/// One access to some bytes of a granule.
struct Stamp {
  const Instruction* instruction = nullptr;
  std::uint32_t time = 0;
  std::uint32_t who = 0;
  std::uint32_t cluster = 0;
  ByteMask bytes = 0;  ///< 0: no access
  By by = By::thread;
  std::uint8_t strength : 4 = 0;  ///< 0: weak; else 1 + Scope
  bool atomic : 1 = false;
  std::array<LaneMask, 4> lanes{};  ///< by threads: who of the warp accessed each 4-byte word

  bool is_strong() const { return strength != 0; }
  Scope scope() const { return static_cast<Scope>(strength - 1); }
  /// The lanes that accessed any of `some` bytes.
  LaneMask lanes_at(ByteMask some) const;
};

/// Remembers accesses that somebody is known to be ordered after. Knowledge only grows, and of one
/// agent what came earlier is known too: what was once found need not be looked up again.
class KnownAccesses {
 public:
  bool contains(const Stamp& stamp) const {
    const Entry& entry = entries_[slot(stamp)];
    return stamp.time <= entry.time && entry.who == stamp.who && entry.by == stamp.by &&
           entry.cluster == stamp.cluster;
  }
  /// For threads: of all lanes of the warp.
  void add(const Stamp& stamp) {
    entries_[slot(stamp)] = {stamp.time, stamp.who, stamp.cluster, stamp.by};
  }

 private:
  struct Entry {
    std::uint32_t time = 0;  ///< 0: none
    std::uint32_t who = 0;
    std::uint32_t cluster = 0;
    By by = By::copy_in_flight;
  };

  static std::size_t slot(const Stamp& stamp) {
    return (stamp.who + 5 * static_cast<std::size_t>(stamp.by)) % std::tuple_size_v<Entries>;
  }
  using Entries = std::array<Entry, 8>;
  Entries entries_;
};

/// The accesses to one granule that still matter: the last writes of its bytes, and the reads
/// since.
class Granule {
 public:
  /// Calls `function(stamp)` for each write, or read, of any of `bytes`.
  template <class Function>
  void for_each_write(ByteMask bytes, Function function) {
    visit(write_, others_ == nullptr ? nullptr : &others_->writes, bytes, function);
  }
  template <class Function>
  void for_each_read(ByteMask bytes, Function function) {
    visit(read_, others_ == nullptr ? nullptr : &others_->reads, bytes, function);
  }

  /// Whether all its bytes come from one write that `seen` has, and have been read once at most
  /// since: the usual case.
  bool is_plain(const KnownAccesses& seen) const;
  /// Likewise, and `seen_reads` has that read.
  bool is_plain(const KnownAccesses& seen, const KnownAccesses& seen_reads) const;
  /// Which bytes have been written.
  ByteMask written() const {
    return write_.bytes == all_bytes || others_ == nullptr ? write_.bytes : all_written();
  }
  /// What was there before is over: its bytes are only known through `stamp` now.
  /// Atomics of others stay beside an atomic, since they may meet in any order.
  void record_write(const Stamp& stamp) {
    if (stamp.bytes != all_bytes || stamp.atomic) return add_write(stamp);
    write_ = stamp;
    read_.bytes = 0;
    if (others_ != nullptr) others_ = nullptr;
  }
  /// Replaces earlier reads of the same reader that this one implies.
  void record_read(const Stamp& stamp);
  void clear();

 private:
  struct Others {
    std::vector<Stamp> writes, reads;
  };

  template <class Function>
  static void visit(Stamp& first, std::vector<Stamp>* others, ByteMask bytes, Function function) {
    if ((first.bytes & bytes) != 0) function(first);
    if (others == nullptr) return;
    for (Stamp& stamp : *others) {
      if ((stamp.bytes & bytes) != 0) function(stamp);
    }
  }
  ByteMask all_written() const;
  void add_write(const Stamp& stamp);
  Others& others();

  Stamp write_, read_;
  std::unique_ptr<Others> others_;
};

inline bool Granule::is_plain(const KnownAccesses& seen) const {
  return others_ == nullptr && write_.bytes == all_bytes && seen.contains(write_);
}
inline bool Granule::is_plain(const KnownAccesses& seen, const KnownAccesses& seen_reads) const {
  return is_plain(seen) && (read_.bytes == 0 || seen_reads.contains(read_));
}

inline constexpr std::uint32_t line_bytes = 128;

/// A line of shared memory.
struct Line {
  using Parts = std::array<Granule, line_bytes / granule_bytes>;

  Stamp write;  ///< of all its bytes (bytes == 0: nothing has been written), if it is whole
  std::unique_ptr<Parts> parts;  ///< if it is not, or has been read

  bool is_whole() const { return parts == nullptr; }
};

/// Lines that one copy has written, and nobody but wgmmas has accessed since.
struct Region {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  Stamp write;
};

/// A CTA's shared memory. It is told apart only as finely as its use requires: tiles that copies
/// write stay regions, other lines are whole or divided into granules.
class SharedShadow {
 public:
  void reset(std::uint32_t bytes);

  /// The region that has all of these bytes, nullptr if there is none.
  Region* region(std::uint32_t address, std::uint32_t bytes) {
    if (Region* const again = regions_.data() + recent_;
        recent_ < regions_.size() && again->begin <= address && address + bytes <= again->end) {
      return again;
    }
    return find_region(address, bytes);
  }
  /// Makes whole lines, which `stamp` has just written, a region.
  void cover(std::uint32_t address, std::uint32_t bytes, const Stamp& stamp);

  // By offset; nullptr outside. A region that has it ceases to be one.
  Line* line(std::uint32_t offset) {
    if (!regions_.empty()) dissolve(offset);
    const std::size_t index = offset / line_bytes;
    return index < lines_.size() ? &lines_[index] : nullptr;
  }
  /// Divides the line if it is whole.
  Granule* granule(std::uint32_t offset) {
    Line* const found = line(offset);
    if (found == nullptr) return nullptr;
    if (found->is_whole()) divide(*found);
    return &(*found->parts)[offset % line_bytes / granule_bytes];
  }
  /// All bytes are written at once: the line is whole.
  void write(Line& line, const Stamp& stamp);

 private:
  Region* find_region(std::uint32_t address, std::uint32_t bytes);
  void dissolve(std::uint32_t offset);
  void divide(Line& line);

  std::vector<Region> regions_;  ///< apart from each other
  std::size_t recent_ = 0;       ///< the one found last
  std::vector<Line> lines_;      ///< out of date in regions
  std::vector<std::unique_ptr<Line::Parts>> spare_;
};

/// Global memory: pages are made when something writes to them.
class GlobalShadow {
 public:
  void clear();
  /// False if nothing has been written near some addresses: a quick answer for memory that a launch
  /// only reads. `address` is one of them, `differing` has the bits in which any two differ.
  bool may_hold(std::uint64_t address, std::uint64_t differing) const {
    if (differing >> region_shift != 0) return !pages_.empty();
    return (regions_[region(address) / 64] >> (region(address) % 64) & 1) != 0;
  }
  /// nullptr: nothing has been written near.
  Granule* find(std::uint64_t address) {
    const std::uint64_t number = address >> page_shift;
    const Recent& recent = recent_[number % recent_.size()];
    Page* const page = recent.number == number ? recent.page : find_page(number);
    return page == nullptr ? nullptr : &granule_of(*page, address);
  }
  Granule& make(std::uint64_t address) {
    Granule* const granule = find(address);
    return granule != nullptr ? *granule : granule_of(make_page(address), address);
  }

 private:
  static constexpr int page_shift = 12;
  static constexpr int region_shift = 16;
  static constexpr std::size_t region_count = 65536;
  static constexpr std::size_t granules_per_page = (1 << page_shift) / granule_bytes;
  using Page = std::array<Granule, granules_per_page>;
  struct Recent {
    std::uint64_t number = ~std::uint64_t{0};
    Page* page = nullptr;
  };

  /// Regions share a bit with others that are 4 GB away.
  static std::size_t region(std::uint64_t address) {
    return (address >> region_shift) % region_count;
  }
  Page* find_page(std::uint64_t number);
  Page& make_page(std::uint64_t address);
  static Granule& granule_of(Page& page, std::uint64_t address) {
    return page[(address >> 4) % granules_per_page];
  }

  std::array<std::uint64_t, region_count / 64> regions_{};
  std::array<Recent, 256> recent_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
};

/// Calls `function(address of the granule, mask of its bytes)` for what [address, address + bytes)
/// covers.
template <class Function>
void for_each_granule(std::uint64_t address, std::uint64_t bytes, Function function) {
  const std::uint64_t end = address + bytes;
  while (address < end) {
    const std::uint64_t start = address / granule_bytes * granule_bytes;
    const std::uint64_t stop = end - start < granule_bytes ? end - start : granule_bytes;
    const std::uint32_t below_stop = (std::uint32_t{1} << stop) - 1;
    const std::uint32_t below_start = (std::uint32_t{1} << (address - start)) - 1;
    function(start, static_cast<ByteMask>(below_stop & ~below_start));
    address = start + granule_bytes;
  }
}

/// Calls `function(address, bytes)` for each part of [address, address + bytes) in a line.
template <class Function>
void for_each_line(std::uint32_t address, std::uint32_t bytes, Function function) {
  while (bytes != 0) {
    const std::uint32_t part = std::min(bytes, line_bytes - address % line_bytes);
    function(address, part);
    address += part;
    bytes -= part;
  }
}

}  // namespace emulator

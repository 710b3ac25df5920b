// mbarrier objects. PTX ISA 9.7.13.15.
//
// Their state is kept beside shared memory, by address. A phase completes when no arrival is
// pending and the byte count is zero; the next one then expects as many arrivals again.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "common/emulator/program.h"

namespace emulator {

class Execution;
struct Cta;
struct SharedPlace;

/// Bounds of the ISA: arrivals from 1 to this, byte counts from minus this to this.
inline constexpr std::int64_t mbarrier_limit = (1 << 20) - 1;

struct Mbarrier {
  std::uint32_t expected = 0;  ///< arrivals of the next phase
  std::uint32_t pending = 0;   ///< arrivals that this phase still lacks
  std::int64_t bytes = 0;      ///< tx-count: announced minus arrived
  std::uint64_t phase = 0;     ///< phases completed
};

/// The mbarriers of a CTA that are initialized, by offset in its shared memory.
class MbarrierTable {
 public:
  Mbarrier* find(std::uint32_t offset) {
    const auto found = barriers_.find(offset);
    return found == barriers_.end() ? nullptr : &found->second;
  }
  void insert(std::uint32_t offset, const Mbarrier& barrier);
  void erase(std::uint32_t offset) { barriers_.erase(offset); }
  void clear();

  /// The offset of one that [offset, offset + bytes) overlaps, if there is one.
  std::optional<std::uint32_t> overlapped(std::uint32_t offset, std::uint32_t bytes) const;
  /// Bounds of all that overlapped() could find, for a quick no.
  std::uint32_t begin() const { return begin_; }
  std::uint32_t end() const { return end_; }

 private:
  std::unordered_map<std::uint32_t, Mbarrier> barriers_;
  std::uint32_t begin_ = ~0u;
  std::uint32_t end_ = 0;
};

/// complete_tx: `bytes` of an asynchronous operation have arrived, which may complete the phase.
/// Faults, in the name of who issued it, if there is no such barrier.
void complete_bytes(Execution& execution, const Site& issuer, AsyncId operation,
                    const SharedPlace& place, std::uint32_t bytes);

}  // namespace emulator

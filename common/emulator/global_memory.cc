#include "common/emulator/global_memory.h"

#include <algorithm>
#include <new>
#include <utility>

#include "common/emulator/fault.h"
#include "common/emulator/memory_map.h"

namespace emulator {

void* GlobalMemory::allocate(std::size_t bytes) {
  // At least one byte, so that the address is unique.
  auto* const storage = static_cast<std::byte*>(
      ::operator new[](std::max<std::size_t>(bytes, 1), std::align_val_t{256}));
  const auto address = reinterpret_cast<std::uint64_t>(storage);
  Entry entry{{address, address + bytes, false, "an allocation of " + counted(bytes, "byte")},
              std::unique_ptr<std::byte[], Free>(storage)};
  entries_.insert_or_assign(address, std::move(entry));
  return storage;
}

void GlobalMemory::release(void* address) noexcept {
  const auto entry = entries_.find(reinterpret_cast<std::uint64_t>(address));
  if (entry == entries_.end() || entry->second.storage == nullptr) return;
  last_ = nullptr;
  entries_.erase(entry);
}

void GlobalMemory::describe_as(void* address, std::string name, bool read_only) {
  Allocation& allocation = entries_.at(reinterpret_cast<std::uint64_t>(address)).allocation;
  allocation.name = std::move(name);
  allocation.read_only = read_only;
}

void GlobalMemory::add(const void* address, std::size_t bytes, bool read_only, std::string name) {
  const auto begin = reinterpret_cast<std::uint64_t>(address);
  entries_.insert_or_assign(begin,
                            Entry{{begin, begin + bytes, read_only, std::move(name)}, nullptr});
}

void GlobalMemory::forget(const void* address) noexcept {
  last_ = nullptr;
  entries_.erase(reinterpret_cast<std::uint64_t>(address));
}

const Allocation* GlobalMemory::find(std::uint64_t address, std::uint64_t bytes) const {
  const auto holds = [&](const Allocation& a) {
    return address >= a.begin && address <= a.end && bytes <= a.end - address;
  };
  if (last_ != nullptr && holds(*last_)) return last_;
  auto next = entries_.upper_bound(address);
  if (next == entries_.begin()) return nullptr;
  const Allocation& candidate = std::prev(next)->second.allocation;
  if (!holds(candidate)) return nullptr;
  last_ = &candidate;
  return last_;
}

std::string GlobalMemory::describe(std::uint64_t address) const {
  if (address < shared_base) return "next to address 0: a null pointer";
  if (in_shared_window(address)) return "which is the generic address of shared memory";
  if (in_local_window(address)) return "which is the generic address of local memory";
  if (address < shared_address(cluster_size_limit, 0)) {
    return "where nothing is; it looks like an address in shared memory";
  }
  const auto next = entries_.upper_bound(address);
  std::uint64_t behind = UINT64_MAX;
  std::uint64_t ahead = UINT64_MAX;
  if (next != entries_.begin()) {
    const Allocation& before = std::prev(next)->second.allocation;
    if (address < before.end) {
      return counted(address - before.begin, "byte") + " into " + before.name;
    }
    behind = address - before.end;
  }
  if (next != entries_.end()) ahead = next->second.allocation.begin - address;

  constexpr std::uint64_t near = 1 << 20;
  if (behind <= ahead && behind < near) {
    return (behind == 0 ? "right" : counted(behind, "byte")) + " behind the end of " +
           std::prev(next)->second.allocation.name;
  }
  if (ahead < near) {
    return counted(ahead, "byte") + " before the start of " + next->second.allocation.name;
  }
  return "in no allocation, nor near one";
}

}  // namespace emulator

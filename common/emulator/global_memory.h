// Global memory: which host addresses a kernel may access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/emulator/lanes.h"

namespace emulator {

/// Contiguous bytes that a kernel may access.
struct Allocation {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool read_only = false;  ///< constants and kernel parameters
  std::string name;        ///< for messages: "an allocation of 4096 bytes"
};

class GlobalMemory {
 public:
  /// Uninitialized memory, aligned to 256 bytes. Throws std::bad_alloc.
  void* allocate(std::size_t bytes);
  void release(void* address) noexcept;

  /// Gives what allocate() returned a name for messages, and perhaps forbids writes.
  void describe_as(void* address, std::string name, bool read_only);

  /// Makes memory of somebody else accessible, until forget().
  void add(const void* address, std::size_t bytes, bool read_only, std::string name);
  void forget(const void* address) noexcept;

  /// The allocation that holds [address, address + bytes), nullptr if none does.
  const Allocation* find(std::uint64_t address, std::uint64_t bytes) const;
  /// Where an address that find() does not know lies: "16 bytes behind the end of an allocation of
  /// 4096 bytes at 0x7f..."
  std::string describe(std::uint64_t address) const;

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{256}); }
  };
  struct Entry {
    Allocation allocation;
    std::unique_ptr<std::byte[], Free> storage;  ///< nullptr for memory of somebody else
  };
  std::map<std::uint64_t, Entry> entries_;    ///< by address
  mutable const Allocation* last_ = nullptr;  ///< what find() found last
};

}  // namespace emulator

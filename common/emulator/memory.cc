#include "common/emulator/memory.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "common/emulator/cta.h"
#include "common/emulator/execution.h"
#include "common/emulator/fault.h"
#include "common/emulator/memory_map.h"
#include "common/emulator/warp.h"

namespace emulator {

namespace {

/// The smallest and the largest address of some lanes, and which low bits any of them has set.
struct Spread {
  std::uint64_t low = UINT64_MAX;
  std::uint64_t high = 0;
  std::uint64_t bits = 0;
};

EMULATOR_VECTORIZED Spread spread(const LaneAddresses& addresses, LaneMask lanes) {
  Spread s;
  if (lanes == all_lanes) {
    for (int i = 0; i < warp_size; ++i) {
      s.low = std::min(s.low, addresses[i]);
      s.high = std::max(s.high, addresses[i]);
      s.bits |= addresses[i];
    }
    return s;
  }
  for_each_lane(lanes, [&](int lane) {
    s.low = std::min(s.low, addresses[lane]);
    s.high = std::max(s.high, addresses[lane]);
    s.bits |= addresses[lane];
  });
  return s;
}

EMULATOR_VECTORIZED void add_wide(Row<std::uint64_t> base, std::uint64_t offset,
                                  LaneAddresses& addresses) {
  for (int i = 0; i < warp_size; ++i) addresses[i] = base[i] + offset;
}

EMULATOR_VECTORIZED void add_narrow(Row<std::uint32_t> base, std::uint32_t offset,
                                    LaneAddresses& addresses) {
  for (int i = 0; i < warp_size; ++i) addresses[i] = base[i] + offset;
}

const char* verb(Access access) {
  switch (access) {
    case Access::read:
      return "reads";
    case Access::write:
      return "writes";
    case Access::atomic:
      break;
  }
  return "updates";
}

/// The first lane for which `wrong` returns true.
template <class Predicate>
int find_lane(LaneMask lanes, Predicate wrong) {
  while (!wrong(first_lane(lanes))) lanes &= lanes - 1;
  return first_lane(lanes);
}

void check_alignment(const Warp& warp, const Op& op, LaneMask lanes, std::uint32_t bytes,
                     const LaneAddresses& addresses, const Spread& s) {
  if ((s.bits & (bytes - 1)) == 0) return;
  const int lane = find_lane(lanes, [&](int i) { return (addresses[i] & (bytes - 1)) != 0; });
  fault(warp, op, lane_bit(lane), "misaligned",
        "accesses " + counted(bytes, "byte") + " at " + hex(addresses[lane]) +
            ", which is not a multiple of " + std::to_string(bytes) + ".");
}

void resolve_global(Warp& warp, const Op& op, LaneMask lanes, std::uint32_t bytes, Access access,
                    const LaneAddresses& addresses, LanePointers& pointers) {
  const Spread s = spread(addresses, lanes);
  check_alignment(warp, op, lanes, bytes, addresses, s);
  GlobalMemory& memory = warp.execution().memory();
  const Allocation* allocation = memory.find(s.low, s.high - s.low + bytes);
  if (allocation == nullptr) {
    // Several allocations, or a wrong address.
    for_each_lane(lanes, [&](int lane) {
      allocation = memory.find(addresses[lane], bytes);
      if (allocation != nullptr) return;
      fault(warp, op, lane_bit(lane), "out-of-bounds",
            std::string(verb(access)) + " " + counted(bytes, "byte") + " of global memory at " +
                hex(addresses[lane]) + ", " + memory.describe(addresses[lane]) + ".");
    });
  }
  if (allocation->read_only && access != Access::read) {
    fault(warp, op, lanes, "out-of-bounds",
          std::string(verb(access)) + " " + allocation->name + ", which is read-only.");
  }
  for (int i = 0; i < warp_size; ++i) pointers[i] = reinterpret_cast<std::byte*>(addresses[i]);
  Observer* const observer = warp.execution().observer();
  if (observer != nullptr && !allocation->read_only) {
    observer->global_access(warp.site(op, lanes), addresses.data(), bytes, access, op.order,
                            op.scope);
  }
}

/// The CTA whose shared memory the lanes name, all the same one.
Cta& named_cta(Warp& warp, const Op& op, LaneMask lanes, std::uint32_t address) {
  Cta& own = warp.cta();
  const std::uint32_t rank = rank_of(address);
  if (rank == own.rank) return own;
  if (!op.cluster && !op.generic) {
    fault(warp, op, lanes, "out-of-bounds",
          "accesses shared address " + hex(address) + " of the CTA of rank " +
              std::to_string(rank) +
              " through .shared::cta, which names its own memory only; use "
              ".shared::cluster or a generic address.");
  }
  Cta* const peer = Execution::peer(own, rank);
  if (peer == nullptr) {
    fault(warp, op, lanes, "out-of-bounds",
          "accesses shared address " + hex(address) + " of the CTA of rank " +
              std::to_string(rank) + "; its cluster has " +
              counted(own.cluster->ctas.size(), "CTA") + ".");
  }
  if (peer->exited()) {
    fault(warp, op, lanes, "exited-target",
          "accesses the shared memory of CTA " + std::to_string(peer->index) +
              ", all of whose threads have exited: nothing keeps that memory. A barrier of the "
              "cluster must stand between the last access and the exit.");
  }
  return *peer;
}

void resolve_shared_of(Warp& warp, const Op& op, LaneMask lanes, std::uint32_t bytes, Access access,
                       const LaneAddresses& addresses, LanePointers& pointers) {
  Cta& cta = named_cta(warp, op, lanes, static_cast<std::uint32_t>(addresses[first_lane(lanes)]));
  const auto size = static_cast<std::uint32_t>(cta.shared.size());
  std::array<std::uint32_t, warp_size> offsets;
  for (int i = 0; i < warp_size; ++i) {
    offsets[i] = offset_of(static_cast<std::uint32_t>(addresses[i]));
    pointers[i] = cta.shared.data() + offsets[i];
  }
  std::uint32_t low = ~0u;
  std::uint32_t high = 0;
  for_each_lane(lanes, [&](int lane) {
    low = std::min(low, offsets[lane]);
    high = std::max(high, offsets[lane]);
  });
  if (high >= size || size - high < bytes) {
    const int lane =
        find_lane(lanes, [&](int i) { return offsets[i] >= size || size - offsets[i] < bytes; });
    fault(warp, op, lane_bit(lane), "out-of-bounds",
          std::string(verb(access)) + " " + counted(bytes, "byte") + " at shared address " +
              hex(addresses[lane]) + "; the CTA's shared memory is " + counted(size, "byte") +
              " from " + hex(shared_address(cta.rank, 0)) + " on.");
  }
  if (low < cta.mbarriers.end() && high + bytes > cta.mbarriers.begin()) {
    for_each_lane(lanes, [&](int lane) {
      const auto barrier = cta.mbarriers.overlapped(offsets[lane], bytes);
      if (!barrier) return;
      fault(warp, op, lane_bit(lane), "barrier-overwritten",
            std::string(verb(access)) + " the bytes of the live mbarrier " +
                shared_object(warp.execution().program(), *barrier) +
                " as ordinary memory; mbarrier.inval must come first.");
    });
  }
  if (Observer* const observer = warp.execution().observer()) {
    observer->shared_access(warp.site(op, lanes), cta.index, offsets.data(), bytes, access,
                            op.order, op.scope);
  }
}

void resolve_shared(Warp& warp, const Op& op, LaneMask lanes, std::uint32_t bytes, Access access,
                    const LaneAddresses& addresses, LanePointers& pointers) {
  const Spread s = spread(addresses, lanes);
  check_alignment(warp, op, lanes, bytes, addresses, s);
  // One CTA at a time; nearly always there is one.
  while (lanes != 0) {
    const auto rank = addresses[first_lane(lanes)] >> shared_rank_shift;
    LaneMask same = lanes;
    if (s.low >> shared_rank_shift != s.high >> shared_rank_shift) {
      same &= where([&](int i) { return addresses[i] >> shared_rank_shift == rank; });
    }
    resolve_shared_of(warp, op, same, bytes, access, addresses, pointers);
    lanes &= ~same;
  }
}

void resolve_local(Warp& warp, const Op& op, LaneMask lanes, std::uint32_t bytes, Access access,
                   const LaneAddresses& addresses, LanePointers& pointers) {
  check_alignment(warp, op, lanes, bytes, addresses, spread(addresses, lanes));
  const std::uint64_t size = warp.execution().program().frame_bytes;
  for_each_lane(lanes, [&](int lane) {
    if (addresses[lane] >= size || size - addresses[lane] < bytes) {
      fault(warp, op, lane_bit(lane), "out-of-bounds",
            std::string(verb(access)) + " " + counted(bytes, "byte") + " at local address " +
                hex(addresses[lane]) + "; the thread has " + counted(size, "byte") +
                " of local memory.");
    }
    pointers[lane] = warp.local_memory(lane) + addresses[lane];
  });
}

void resolve_generic(Warp& warp, const Op& op, std::uint32_t bytes, Access access,
                     LaneAddresses& addresses, LanePointers& pointers) {
  const LaneMask shared = warp.lanes & where([&](int i) { return in_shared_window(addresses[i]); });
  const LaneMask local = warp.lanes & where([&](int i) { return in_local_window(addresses[i]); });
  const LaneMask global = warp.lanes & ~shared & ~local;
  // Each of the three fills in pointers of its lanes, and perhaps of others: global goes first.
  if (global != 0) resolve_global(warp, op, global, bytes, access, addresses, pointers);
  if ((shared | local) == 0) return;
  LaneAddresses inside = addresses;
  for (int i = 0; i < warp_size; ++i) inside[i] &= window_bytes - 1;
  if (shared != 0) {
    LanePointers own;
    resolve_shared(warp, op, shared, bytes, access, inside, own);
    for_each_lane(shared, [&](int lane) { pointers[lane] = own[lane]; });
  }
  if (local != 0) resolve_local(warp, op, local, bytes, access, inside, pointers);
}

}  // namespace

void lane_addresses(const Warp& warp, Slot base, bool wide, std::int64_t offset,
                    LaneAddresses& addresses) {
  if (base == no_slot) {
    addresses.fill(static_cast<std::uint64_t>(offset));
  } else if (wide) {
    add_wide(warp.row<std::uint64_t>(base), static_cast<std::uint64_t>(offset), addresses);
  } else {
    add_narrow(warp.row<std::uint32_t>(base), static_cast<std::uint32_t>(offset), addresses);
  }
}

void resolve(Warp& warp, const Op& op, std::uint32_t bytes, Access access, LanePointers& pointers) {
  LaneAddresses addresses;
  std::int64_t offset = op.immediate;
  if (op.frame_relative) offset += warp.frame();
  lane_addresses(warp, op.a, op.wide_address, offset, addresses);
  if (op.generic) return resolve_generic(warp, op, bytes, access, addresses, pointers);
  switch (op.space) {
    case Space::shared:
      return resolve_shared(warp, op, warp.lanes, bytes, access, addresses, pointers);
    case Space::local:
      return resolve_local(warp, op, warp.lanes, bytes, access, addresses, pointers);
    default:
      return resolve_global(warp, op, warp.lanes, bytes, access, addresses, pointers);
  }
}

std::byte* SharedPlace::pointer() const {
  return cta->shared.data() + offset;
}

SharedPlace find_shared(const Warp& warp, const Op& op, int lane, std::uint32_t address,
                        std::uint32_t bytes, std::uint32_t alignment, const char* what, bool own) {
  const LaneMask lanes = lane_bit(lane);
  Cta* const cta = Execution::peer(warp.cta(), rank_of(address));
  const std::uint32_t offset = offset_of(address);
  if (cta == nullptr || offset > cta->shared.size() || cta->shared.size() - offset < bytes) {
    fault(warp, op, lanes, "out-of-bounds",
          std::string(what) + " is " + counted(bytes, "byte") + " at shared address " +
              hex(address) + ", outside the " + counted(warp.cta().shared.size(), "byte") +
              " of shared memory of " + (cta == nullptr ? "any CTA of the cluster." : "its CTA."));
  }
  if (address % alignment != 0) {
    fault(warp, op, lanes, "misaligned",
          std::string(what) + " is at shared address " + hex(address) +
              ", which is not a multiple of " + std::to_string(alignment) + ".");
  }
  if (own && cta != &warp.cta()) {
    fault(warp, op, lanes, "out-of-bounds",
          std::string(what) + " is at shared address " + hex(address) +
              ", in another CTA of the cluster; this instruction works on its own CTA's memory.");
  }
  if (cta->exited()) {
    fault(warp, op, lanes, "exited-target",
          std::string(what) + " is in the shared memory of CTA " + std::to_string(cta->index) +
              ", all of whose threads have exited: nothing keeps that memory. A barrier of the "
              "cluster must stand between the last access and the exit.");
  }
  return {cta, offset};
}

std::uint32_t shared_from_generic(const Warp& warp, const Op& op, int lane, std::uint64_t address,
                                  const char* what) {
  if (!in_shared_window(address)) {
    fault(warp, op, lane_bit(lane), "out-of-bounds",
          std::string(what) + " is at generic address " + hex(address) +
              ", which is not in shared memory.");
  }
  return static_cast<std::uint32_t>(address - shared_window);
}

std::byte* find_global(const Warp& warp, const Op& op, int lane, std::uint64_t address,
                       std::uint64_t bytes, std::uint64_t alignment, const char* what,
                       bool writes) {
  const GlobalMemory& memory = warp.execution().memory();
  const LaneMask lanes = lane_bit(lane);
  if (address % alignment != 0) {
    fault(warp, op, lanes, "misaligned",
          std::string(what) + " is at " + hex(address) + ", which is not a multiple of " +
              std::to_string(alignment) + ".");
  }
  const Allocation* const allocation = memory.find(address, bytes);
  if (allocation == nullptr) {
    fault(warp, op, lanes, "out-of-bounds",
          std::string(what) + " is " + counted(bytes, "byte") + " of global memory at " +
              hex(address) + ", " + memory.describe(address) + ".");
  }
  if (writes && allocation->read_only) {
    fault(warp, op, lanes, "out-of-bounds",
          std::string(what) + " is in " + allocation->name + ", which is read-only.");
  }
  return reinterpret_cast<std::byte*>(address);
}

bool read_generic(Warp& warp, int lane, std::uint64_t address, std::size_t bytes, void* to) {
  const std::byte* from = nullptr;
  if (in_local_window(address)) {
    const std::uint64_t offset = address - local_window;
    const std::uint64_t size = warp.execution().program().frame_bytes;
    if (offset > size || size - offset < bytes) return false;
    from = warp.local_memory(lane) + offset;
  } else if (in_shared_window(address)) {
    const auto shared = static_cast<std::uint32_t>(address - shared_window);
    const Cta* const cta = Execution::peer(warp.cta(), rank_of(shared));
    const std::uint32_t offset = offset_of(shared);
    if (cta == nullptr || offset > cta->shared.size() || cta->shared.size() - offset < bytes) {
      return false;
    }
    from = cta->shared.data() + offset;
  } else {
    if (warp.execution().memory().find(address, bytes) == nullptr) return false;
    from = reinterpret_cast<const std::byte*>(address);
  }
  std::memcpy(to, from, bytes);
  return true;
}

std::string source_name(const Variable& variable) {
  // A mangled name ends in <length><name>, perhaps with the E of a scope or a discriminator _0
  // behind: _ZZ4gemmvE4full_0.
  const std::string& name = variable.name;
  if (!name.starts_with("_Z")) return name;
  const auto is_digit = [&](std::size_t i) {
    return std::isdigit(static_cast<unsigned char>(name[i])) != 0;
  };
  for (std::size_t i = name.size() - 1; i > 1; --i) {
    if (!is_digit(i) || is_digit(i - 1)) continue;
    std::size_t length = 0;
    std::size_t begin = i;
    while (begin < name.size() && is_digit(begin) && length < name.size()) {
      length = length * 10 + static_cast<std::size_t>(name[begin++] - '0');
    }
    if (length == 0 || length > name.size() - begin) continue;
    const std::string_view rest = std::string_view(name).substr(begin + length);
    if (rest.empty() || rest == "E" || rest.front() == '_') return name.substr(begin, length);
  }
  return name;
}

std::string shared_object(const Program& program, std::uint32_t offset) {
  const LaunchInfo::Placement* best = nullptr;
  for (const LaunchInfo::Placement& placement : program.shared_variables) {
    if (placement.offset > offset) continue;
    const bool is_dynamic = placement.variable->size == 0;
    if (!is_dynamic && offset >= placement.offset + placement.variable->size) continue;
    if (best == nullptr || placement.offset > best->offset) best = &placement;
  }
  if (best == nullptr) return "shared memory + " + std::to_string(offset);
  const std::string name = source_name(*best->variable);
  const std::uint32_t inside = offset - best->offset;
  if (best->variable->size == 8) return name;
  // Arrays of mbarriers are the usual case; a dynamic buffer has no elements.
  if (best->variable->size != 0 && best->variable->alignment == 8 && inside % 8 == 0) {
    return name + "[" + std::to_string(inside / 8) + "]";
  }
  return inside == 0 ? name : name + " + " + std::to_string(inside);
}

}  // namespace emulator

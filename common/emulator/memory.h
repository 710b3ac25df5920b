// From the addresses of an access to host memory: state spaces, bounds, alignment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/emulator/lanes.h"
#include "common/emulator/program.h"

namespace emulator {

struct Cta;

using LaneAddresses = std::array<std::uint64_t, warp_size>;
/// Where each lane's bytes are; only the lanes that execute count.
using LanePointers = std::array<std::byte*, warp_size>;

/// The address that each lane names: `[base + offset]`.
void lane_addresses(const Warp& warp, Slot base, bool wide, std::int64_t offset,
                    LaneAddresses& addresses);
inline void lane_addresses(const Warp& warp, const AddressOperand& operand,
                           LaneAddresses& addresses) {
  lane_addresses(warp, operand.base, operand.wide, operand.offset, addresses);
}

/// Finds the `bytes` (a power of two) that each lane accesses through op's address operand, and
/// tells the observer. Faults where the address is misaligned, outside every allocation, in the
/// shared memory of a CTA that has exited, or that of a live mbarrier.
void resolve(Warp& warp, const Op& op, std::uint32_t bytes, Access access, LanePointers& pointers);

/// The shared memory that a shared address names, for asynchronous operations and mbarriers.
struct SharedPlace {
  Cta* cta = nullptr;
  std::uint32_t offset = 0;

  std::byte* pointer() const;
};

/// Finds `bytes` at a shared address, which must be a multiple of `alignment`. `what` names the
/// operand in messages: "the destination". `own`: another CTA's memory is refused.
SharedPlace find_shared(const Warp& warp, const Op& op, int lane, std::uint32_t address,
                        std::uint32_t bytes, std::uint32_t alignment, const char* what, bool own);
/// Likewise from a generic address, which must be in the shared window.
std::uint32_t shared_from_generic(const Warp& warp, const Op& op, int lane, std::uint64_t address,
                                  const char* what);

/// Finds `bytes` of global memory, at a multiple of `alignment`; `writes`: not constants.
std::byte* find_global(const Warp& warp, const Op& op, int lane, std::uint64_t address,
                       std::uint64_t bytes, std::uint64_t alignment, const char* what, bool writes);

/// Copies `bytes` at a generic address of a lane to `to`, without telling the observer: for printf.
/// False: the lane can't read there.
bool read_generic(Warp& warp, int lane, std::uint64_t address, std::size_t bytes, void* to);

/// What lies at an offset of a CTA's shared memory, by name: "full[2]", "shared + 4096".
std::string shared_object(const Program& program, std::uint32_t offset);
/// A variable's name as the CUDA source has it: the last part of the mangled one.
std::string source_name(const Variable& variable);

}  // namespace emulator

// A kernel, decoded: what decode.h makes of a Function and of those that it calls, and what warps
// execute.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/emulator/formats.h"
#include "common/emulator/lanes.h"
#include "common/emulator/module.h"
#include "common/emulator/observer.h"
#include "common/emulator/tensor_box.h"
#include "common/emulator/wgmma.h"

namespace emulator {

class Warp;
struct Op;

/// What an instruction says to the loop that executes it.
enum class Flow : std::uint8_t {
  next,   ///< go on at the warp's program counter
  leave,  ///< the lanes that execute have changed, or they wait: choose anew
};

/// Executes one instruction for the lanes in Warp::lanes. The program counter is already past it.
using Handler = Flow (*)(Warp&, const Op&);

/// One decoded instruction. What the operand fields hold is its handler's business.
struct Op {
  Handler run = nullptr;
  const Instruction* source = nullptr;
  Slot d = no_slot;   ///< destination
  Slot d2 = no_slot;  ///< second destination, as in `d|p`
  Slot a = no_slot;
  Slot b = no_slot;
  Slot c = no_slot;
  Slot e = no_slot;
  Slot guard = no_slot;         ///< predicate of `@p`
  std::int64_t immediate = 0;   ///< an address offset or a constant
  std::uint32_t target = 0;     ///< index of an op (branches), or of an entry in a table of Program
  std::uint32_t list = 0;       ///< first of `list_size` entries of Program::slots
  std::uint16_t list_size = 0;  ///< also the number of elements of a vector access
  std::uint16_t cost = 1;       ///< model nanoseconds
  std::uint32_t first_wgmma_access = 0;  ///< in Program::wgmma_accesses
  std::uint16_t wgmma_access_count = 0;
  std::uint8_t mode = 0;  ///< comparison, rounding or the like
  Space space = Space::global;
  bool generic = false;  ///< a memory access without a state space
  bool cluster = false;  ///< .shared::cluster
  Order order = Order::weak;
  Scope scope = Scope::cta;
  bool polls = false;           ///< a load that spin loops use: strong or volatile
  bool frame_relative = false;  ///< a local address that counts from the current frame
  bool wide_address = true;     ///< `a` is a 64-bit row
  bool guard_negated = false;
  bool negated = false;     ///< the predicate source is `!p`
  bool wide_value = false;  ///< `b` is a 64-bit row
};

/// An instruction other than wgmma touches a register that some wgmma uses.
struct WgmmaAccess {
  std::uint32_t reg;  ///< index into Function::registers
  Access access;
};

/// The operands of a wgmma.mma_async; the descriptors and scale-d are in its Op (a, b, c).
struct WgmmaOperands {
  WgmmaForm form;
  std::vector<Slot> accumulator_slots;
  std::vector<Slot> a_slots;                ///< empty when A is in shared memory
  std::vector<std::uint32_t> accumulators;  ///< the same registers as indices
  std::vector<std::uint32_t> a_registers;
};

/// A cvt between numbers. Integers have no format, floats no integer.
struct Conversion {
  const FloatFormat* from_format = nullptr;
  const FloatFormat* to_format = nullptr;
  IntegerFormat from_integer{};
  IntegerFormat to_integer{};
  Rounding rounding = Rounding::rn;
  bool integral = false;  ///< .rni and its kin between floats: to an integral value
  bool ftz = false;
  bool sat = false;
  bool satfinite = false;
  bool relu = false;
};

/// A register or number as an address, and what is added to it.
struct AddressOperand {
  Slot base = no_slot;  ///< no_slot: the address is `offset`
  bool wide = true;     ///< a 64-bit row
  std::int64_t offset = 0;
};

/// The operands of a bulk copy, with or without a tensor map.
struct BulkCopy {
  AsyncKind kind = AsyncKind::tma_load;
  bool prefetches = false;  ///< brings nothing but addresses that are checked
  bool reduces = false;
  bool from_shared = false;  ///< shared::cta to shared::cluster
  ReduceOperation operation = ReduceOperation::add;
  TensorType type = TensorType::u8;  ///< of the elements of a reduction without a tensor map
  int rank = 0;                      ///< 0: no tensor map
  std::array<Slot, 5> coordinates{};
  AddressOperand global{};   ///< the bytes, or the tensor map
  AddressOperand shared{};   ///< the destination of loads, the source of stores
  AddressOperand source{};   ///< with from_shared, the source
  AddressOperand barrier{};  ///< of loads
  Slot size = no_slot;
  Slot cta_mask = no_slot;  ///< of a multicast
};

/// A call of a .func: what is copied between the frames of caller and callee.
struct Call {
  struct Copy {
    std::uint32_t from, to, bytes;  ///< offsets in the frames of caller and callee
  };
  std::uint32_t function = 0;     ///< index into Program::functions
  std::uint32_t frame_bytes = 0;  ///< of the caller
  std::vector<Copy> arguments;
  std::vector<Copy> results;  ///< from: in the callee, to: in the caller
  bool recursive = false;     ///< the callee's registers may be in use already
};

/// Where a called function, or the kernel itself (index 0), lies in the program.
struct FunctionCode {
  const Function* source = nullptr;
  std::uint32_t entry = 0;                      ///< index of its first op
  std::uint32_t frame_bytes = 0;                ///< local memory: parameters and .local variables
  std::vector<std::uint32_t> variable_offsets;  ///< in the frame, of each of Function::variables
  std::vector<Slot> registers;                  ///< of each of Function::registers
  Slot first_register = 0;                      ///< their rows are contiguous
  std::uint32_t register_bytes = 0;
};

/// Special registers that keep their value while a warp lives.
enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  cluster_ctarank,
  cluster_nctarank,
  is_explicit_cluster,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  dynamic_smem_size,
  total_smem_size,
  shared_address,  ///< an address in the CTA's own shared memory, `offset` behind its start
};

/// A row that a warp writes when it starts.
struct SpecialRow {
  Special special;
  int bits;  ///< 1 (a predicate), 16, 32 or 64
  Slot slot;
  std::uint32_t offset = 0;  ///< of shared_address
};

struct Program {
  const Module* module = nullptr;
  const Function* kernel = nullptr;
  std::vector<Op> ops;
  std::vector<Slot> slots;  ///< operand lists
  std::vector<FunctionCode> functions;
  std::vector<WgmmaOperands> wgmmas;
  std::vector<WgmmaAccess> wgmma_accesses;
  std::vector<Conversion> conversions;
  std::vector<BulkCopy> bulk_copies;
  std::vector<Call> calls;
  std::vector<SpecialRow> specials;
  RowStorage constants;              ///< rows that every warp reads
  std::uint32_t register_bytes = 0;  ///< a warp
  std::uint32_t frame_bytes = 0;     ///< local memory a thread
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_offset = 0;  ///< from the start of the CTA's shared memory
  std::vector<LaunchInfo::Placement> shared_variables;
  RowStorage parameters;  ///< what ld.param reads
  std::size_t parameter_bytes = 0;
  std::vector<std::uint32_t> parameter_offsets;  ///< in `parameters`, of each kernel parameter
};

}  // namespace emulator

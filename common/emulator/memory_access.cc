// Loads and stores, and conversions between kinds of addresses. PTX ISA 9.7.9.
#include <cstring>

#include "common/emulator/cta.h"
#include "common/emulator/decode.h"
#include "common/emulator/execution.h"
#include "common/emulator/fault.h"
#include "common/emulator/memory.h"
#include "common/emulator/memory_access.h"
#include "common/emulator/memory_map.h"
#include "common/emulator/opcode.h"
#include "common/emulator/warp.h"

namespace emulator {

namespace {

struct Bits128 {
  std::uint64_t low, high;
};

/// Loads `op.list_size` elements of type T into registers of type R.
template <class T, class R>
Flow load(Warp& warp, const Op& op) {
  LanePointers pointers;
  resolve(warp, op, sizeof(T) * op.list_size, Access::read, pointers);
  const Slot* const slots = warp.execution().program().slots.data() + op.list;
  for (int element = 0; element < op.list_size; ++element) {
    const Row<R> d = warp.row<R>(slots[element]);
    const auto load_lane = [&](int lane) {
      T value;
      std::memcpy(&value, pointers[lane] + element * sizeof(T), sizeof(T));
      d.set(lane, static_cast<R>(value));
    };
    if (warp.lanes == all_lanes) {
      for (int lane = 0; lane < warp_size; ++lane) load_lane(lane);
    } else {
      for_each_lane(warp.lanes, load_lane);
    }
  }
  return op.polls ? warp.poll(op, pointers[first_lane(warp.lanes)]) : Flow::next;
}

template <class T, class R>
Flow store(Warp& warp, const Op& op) {
  LanePointers pointers;
  resolve(warp, op, sizeof(T) * op.list_size, Access::write, pointers);
  const Slot* const slots = warp.execution().program().slots.data() + op.list;
  for (int element = 0; element < op.list_size; ++element) {
    const Row<R> source = warp.row<R>(slots[element]);
    const auto store_lane = [&](int lane) {
      const auto value = static_cast<T>(source[lane]);
      std::memcpy(pointers[lane] + element * sizeof(T), &value, sizeof(T));
    };
    if (warp.lanes == all_lanes) {
      for (int lane = 0; lane < warp_size; ++lane) store_lane(lane);
    } else {
      for_each_lane(warp.lanes, store_lane);
    }
  }
  if (op.space != Space::local) warp.execution().note_progress();
  return Flow::next;
}

// The handlers by bits of the type in memory and of the register.

Handler load_handler(DataType type, int register_bits) {
  switch (type.bits * 1000 + register_bits) {
    case 8016:
      return type.is_signed ? load<std::int8_t, std::uint16_t> : load<std::uint8_t, std::uint16_t>;
    case 8032:
      return type.is_signed ? load<std::int8_t, std::uint32_t> : load<std::uint8_t, std::uint32_t>;
    case 8064:
      return type.is_signed ? load<std::int8_t, std::uint64_t> : load<std::uint8_t, std::uint64_t>;
    case 16016:
      return load<std::uint16_t, std::uint16_t>;
    case 16032:
      return type.is_signed ? load<std::int16_t, std::uint32_t>
                            : load<std::uint16_t, std::uint32_t>;
    case 16064:
      return type.is_signed ? load<std::int16_t, std::uint64_t>
                            : load<std::uint16_t, std::uint64_t>;
    case 32032:
      return load<std::uint32_t, std::uint32_t>;
    case 32064:
      return type.is_signed ? load<std::int32_t, std::uint64_t>
                            : load<std::uint32_t, std::uint64_t>;
    case 64064:
      return load<std::uint64_t, std::uint64_t>;
    case 128128:
      return load<Bits128, Bits128>;
    default:
      return nullptr;
  }
}

Handler store_handler(DataType type, int register_bits) {
  switch (type.bits * 1000 + register_bits) {
    case 8016:
      return store<std::uint8_t, std::uint16_t>;
    case 8032:
      return store<std::uint8_t, std::uint32_t>;
    case 8064:
      return store<std::uint8_t, std::uint64_t>;
    case 16016:
      return store<std::uint16_t, std::uint16_t>;
    case 16032:
      return store<std::uint16_t, std::uint32_t>;
    case 16064:
      return store<std::uint16_t, std::uint64_t>;
    case 32032:
      return store<std::uint32_t, std::uint32_t>;
    case 32064:
      return store<std::uint32_t, std::uint64_t>;
    case 64064:
      return store<std::uint64_t, std::uint64_t>;
    case 128128:
      return store<Bits128, Bits128>;
    default:
      return nullptr;
  }
}

/// Model nanoseconds of an access: nothing like a GPU's, but in that order.
std::uint16_t access_cost(Space space) {
  return space == Space::global ? 20 : 4;
}

/// The bits of the registers in `operand`: of the first that is one.
int list_register_bits(const InstructionDecoder& d, const Operand& operand, int otherwise) {
  if (operand.kind != Operand::Kind::vector) {
    const int bits = d.register_bits(operand);
    return bits != 0 ? bits : otherwise;
  }
  for (const Operand& element : operand.elements) {
    if (const int bits = d.register_bits(element)) return bits;
  }
  return otherwise;
}

void check_vector(InstructionDecoder& d, const Operand& operand, DataType type) {
  const int count = d.has("v2") ? 2 : d.has("v4") ? 4 : d.has("v8") ? 8 : 1;
  const std::size_t given =
      operand.kind == Operand::Kind::vector ? operand.elements.size() : std::size_t{1};
  if (given != static_cast<std::size_t>(count)) {
    d.fail("needs " + std::to_string(count) + " registers, not " + std::to_string(given));
  }
  if (count * type.bits > 256) d.fail("moves more than 32 bytes a thread");
}

void build_load(InstructionDecoder& d) {
  d.expect_operands(2, 3);  // a cache policy may follow
  const DataType type = data_type(d.part(-1));
  if (type.bits == 0) d.fail("has no type that can be loaded");
  const Operand& registers = d.operand(0);
  check_vector(d, registers, type);
  set_memory_address(d, d.operand(1));
  set_memory_order(d);
  const int bits = list_register_bits(d, registers, std::max(type.bits, 16));
  d.op.run = load_handler(type, bits);
  if (d.op.run == nullptr) {
    d.fail("can't load " + std::to_string(type.bits) + " bits into a register of " +
           std::to_string(bits));
  }
  d.set_list(d.destination_list(registers, bits));
  if (d.operand_count() == 3) d.source(d.operand(2), 64);
  d.op.polls = d.op.order != Order::weak || d.has("volatile");
  d.op.cost = access_cost(d.op.space);
}

void build_store(InstructionDecoder& d) {
  d.expect_operands(2, 3);
  const DataType type = data_type(d.part(-1));
  if (type.bits == 0) d.fail("has no type that can be stored");
  const Operand& registers = d.operand(1);
  check_vector(d, registers, type);
  set_memory_address(d, d.operand(0));
  set_memory_order(d);
  const int bits = list_register_bits(d, registers, std::max(type.bits, 16));
  d.op.run = store_handler(type, bits);
  if (d.op.run == nullptr) {
    d.fail("can't store " + std::to_string(type.bits) + " bits from a register of " +
           std::to_string(bits));
  }
  const Literal literal = literal_of(d.part(-1));
  d.set_list(d.source_list(registers, bits, literal));
  if (d.operand_count() == 3) d.source(d.operand(2), 64);
  d.op.cost = access_cost(d.op.space);
}

// ---- Addresses of one kind as addresses of another.

Flow copy_64(Warp& warp, const Op& op) {
  const Row<std::uint64_t> a = warp.row<std::uint64_t>(op.a);
  assign_lanes(warp.lanes, warp.row<std::uint64_t>(op.d), [=](int i) { return a[i]; });
  return Flow::next;
}

/// Adds the start of a window: op.immediate.
Flow to_window(Warp& warp, const Op& op) {
  const Row<std::uint64_t> a = warp.row<std::uint64_t>(op.a);
  const auto window = static_cast<std::uint64_t>(op.immediate);
  assign_lanes(warp.lanes, warp.row<std::uint64_t>(op.d), [=](int i) { return a[i] + window; });
  return Flow::next;
}

Flow from_window(Warp& warp, const Op& op) {
  const Row<std::uint64_t> a = warp.row<std::uint64_t>(op.a);
  const auto window = static_cast<std::uint64_t>(op.immediate);
  assign_lanes(warp.lanes, warp.row<std::uint64_t>(op.d), [=](int i) { return a[i] - window; });
  return Flow::next;
}

std::int64_t window_of(std::string_view space) {
  if (space.starts_with("shared")) return static_cast<std::int64_t>(shared_window);
  if (space == "local") return static_cast<std::int64_t>(local_window);
  return 0;
}

void build_cvta(InstructionDecoder& d) {
  d.expect_operands(2, 2);
  const bool to_space = d.has("to");
  const std::int64_t window = window_of(d.part(to_space ? 2 : 1));
  d.op.immediate = window;
  d.op.d = d.destination(d.operand(0), 64);
  d.op.a = d.source(d.operand(1), 64);
  d.op.run = window == 0 ? copy_64 : to_space ? from_window : to_window;
}

template <bool (*belongs)(std::uint64_t)>
Flow test_space(Warp& warp, const Op& op) {
  const Row<std::uint64_t> a = warp.row<std::uint64_t>(op.a);
  warp.set_predicate(op.d, where([&](int i) { return belongs(a[i]); }));
  return Flow::next;
}

bool in_global(std::uint64_t address) {
  return !in_shared_window(address) && !in_local_window(address);
}

Flow test_own_shared(Warp& warp, const Op& op) {
  const Row<std::uint64_t> a = warp.row<std::uint64_t>(op.a);
  const std::uint32_t rank = warp.cta().rank;
  warp.set_predicate(op.d, where([&](int i) {
                       return in_shared_window(a[i]) &&
                              rank_of(static_cast<std::uint32_t>(a[i] - shared_window)) == rank;
                     }));
  return Flow::next;
}

/// mapa: the address in CTA b of the cluster that corresponds to a.
template <class T>
Flow map_to_rank(Warp& warp, const Op& op) {
  const Row<T> a = warp.row<T>(op.a);
  const Row<std::uint32_t> rank = warp.row<std::uint32_t>(op.b);
  const auto size = static_cast<std::uint32_t>(warp.cta().cluster->ctas.size());
  for_each_lane(warp.lanes, [&](int lane) {
    if (rank[lane] < size) return;
    fault(warp, op, lane_bit(lane), "out-of-bounds",
          "asks for the CTA of rank " + std::to_string(rank[lane]) + "; the cluster has " +
              counted(size, "CTA") + ".");
  });
  assign_lanes(warp.lanes, warp.row<T>(op.d), [=](int i) {
    const T inside_window = a[i] & ~T{0xFF000000};
    return static_cast<T>(inside_window | static_cast<T>(rank[i]) << shared_rank_shift);
  });
  return Flow::next;
}

template <class T>
Flow rank_of_address(Warp& warp, const Op& op) {
  const Row<T> a = warp.row<T>(op.a);
  assign_lanes(warp.lanes, warp.row<std::uint32_t>(op.d),
               [=](int i) { return rank_of(static_cast<std::uint32_t>(a[i])); });
  return Flow::next;
}

/// mapa.u64 takes and gives generic addresses, mapa.shared::cluster shared ones of either width.
void build_mapa(InstructionDecoder& d) {
  d.expect_operands(3, 3);
  const bool wide = d.part(-1) == "u64";
  d.op.d = d.destination(d.operand(0), wide ? 64 : 32);
  d.op.a = d.source(d.operand(1), wide ? 64 : 32);
  d.op.b = d.source(d.operand(2), 32);
  d.op.run = wide ? map_to_rank<std::uint64_t> : map_to_rank<std::uint32_t>;
}

void build_getctarank(InstructionDecoder& d) {
  d.expect_operands(2, 2);
  const bool wide = d.part(-1) == "u64";
  d.op.d = d.destination(d.operand(0), 32);
  d.op.a = d.source(d.operand(1), wide ? 64 : 32);
  d.op.run = wide ? rank_of_address<std::uint64_t> : rank_of_address<std::uint32_t>;
}

// ---- Hints: nothing happens, but the operands must be right.

Flow nothing(Warp&, const Op&) {
  return Flow::next;
}

void build_prefetch(InstructionDecoder& d) {
  d.expect_operands(1, 1);
  d.address(d.operand(0), Space::global);
  d.op.run = nothing;
}

/// Policies are opaque; 1 to 4 operands: the policy, fractions or sizes.
void build_createpolicy(InstructionDecoder& d) {
  d.expect_operands(1, 4);
  d.op.d = d.destination(d.operand(0), 64);
  d.op.a = d.constant(0x1000'0000'0000'0000, 64);
  d.op.run = copy_64;
}

#define CACHE "?L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"
#define L2 \
  "?L2::evict_last|L2::evict_normal|L2::evict_first.?L2::cache_hint.?L2::64B|L2::128B|L2::256B"
#define TYPE "b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"
#define SCOPE "cta|cluster|gpu|sys"
#define SPACE \
  "?const|global|local|param|param::entry|param::func|shared|shared::cta|shared::cluster"

constexpr Opcode table[] = {
    {"ld.?weak." SPACE ".?ca|cg|cs|lu|cv." CACHE "." L2 ".?v2|v4|v8." TYPE,
     {},
     nullptr,
     build_load},
    {"ld.global.?ca|cg|cs.nc." CACHE "." L2 ".?v2|v4|v8." TYPE, {}, nullptr, build_load},
    {"ld.volatile." SPACE ".?v2|v4." TYPE, {}, nullptr, build_load},
    {"ld.relaxed|acquire." SCOPE "." SPACE "." CACHE "." L2 ".?v2|v4|v8." TYPE,
     {},
     nullptr,
     build_load},
    {"st.?weak." SPACE ".?wb|cg|cs|wt." CACHE "." L2 ".?v2|v4|v8." TYPE, {}, nullptr, build_store},
    {"st.volatile." SPACE ".?v2|v4." TYPE, {}, nullptr, build_store},
    {"st.relaxed|release." SCOPE "." SPACE "." CACHE "." L2 ".?v2|v4|v8." TYPE,
     {},
     nullptr,
     build_store},
    {"cvta.?to.const|global|local|param|shared|shared::cta|shared::cluster.u64",
     {},
     nullptr,
     build_cvta},
    {"isspacep.global", "p1 s64", test_space<in_global>},
    {"isspacep.shared|shared::cluster", "p1 s64", test_space<in_shared_window>},
    {"isspacep.shared::cta", "p1 s64", test_own_shared},
    {"isspacep.local", "p1 s64", test_space<in_local_window>},
    {"mapa.?shared::cluster.u32|u64", {}, nullptr, build_mapa},
    {"getctarank.?shared::cluster.u32|u64", {}, nullptr, build_getctarank},
    {"prefetch.?global|local.L1|L2", {}, nullptr, build_prefetch},
    {"prefetch.global.L2::evict_last|L2::evict_normal", {}, nullptr, build_prefetch},
    {"prefetch.?param|const.tensormap", {}, nullptr, build_prefetch},
    {"prefetchu.L1", {}, nullptr, build_prefetch},
    {"createpolicy.fractional.L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged."
     "?L2::evict_first|L2::evict_unchanged.b64",
     {},
     nullptr,
     build_createpolicy},
    {"createpolicy.range.?global.L2::evict_last|L2::evict_normal|L2::evict_first|"
     "L2::evict_unchanged.?L2::evict_first|L2::evict_unchanged.b64",
     {},
     nullptr,
     build_createpolicy},
    {"createpolicy.cvt.L2.b64", {}, nullptr, build_createpolicy},
};

#undef CACHE
#undef L2
#undef TYPE
#undef SCOPE
#undef SPACE

}  // namespace

void set_memory_address(InstructionDecoder& d, const Operand& operand) {
  Space space = Space::global;
  bool generic = false;
  if (d.has("global")) {
    space = Space::global;
  } else if (d.has("shared") || d.has("shared::cta")) {
    space = Space::shared;
  } else if (d.has("shared::cluster")) {
    space = Space::shared;
    d.op.cluster = true;
  } else if (d.has("local")) {
    space = Space::local;
  } else if (d.has("const")) {
    space = Space::constant;
  } else if (d.has("param") || d.has("param::entry") || d.has("param::func")) {
    space = Space::param;
  } else {
    generic = true;
  }
  d.set_address(operand, space, generic);
}

void set_memory_order(InstructionDecoder& d) {
  d.op.order = d.has("acquire")   ? Order::acquire
               : d.has("release") ? Order::release
               : d.has("acq_rel") ? Order::acq_rel
               : d.has("relaxed") ? Order::relaxed
                                  : Order::weak;
  d.op.scope = d.has("sys")       ? Scope::system
               : d.has("gpu")     ? Scope::gpu
               : d.has("cluster") ? Scope::cluster
                                  : Scope::cta;
}

std::span<const Opcode> memory_opcodes() {
  return table;
}

}  // namespace emulator

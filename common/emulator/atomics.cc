// atom and red. PTX ISA 9.7.13.5, 9.7.13.6. The lanes of a warp take their turns in order.
#include <algorithm>
#include <bit>
#include <cstring>

#include "common/emulator/decode.h"
#include "common/emulator/execution.h"
#include "common/emulator/formats.h"
#include "common/emulator/memory.h"
#include "common/emulator/memory_access.h"
#include "common/emulator/opcode.h"
#include "common/emulator/warp.h"

namespace emulator {

namespace {

// What memory holds afterwards, from what it held and the operands.

struct And {
  template <class T>
  T operator()(T old, T b, T) const {
    return old & b;
  }
};
struct Or {
  template <class T>
  T operator()(T old, T b, T) const {
    return old | b;
  }
};
struct Xor {
  template <class T>
  T operator()(T old, T b, T) const {
    return old ^ b;
  }
};
struct Exchange {
  template <class T>
  T operator()(T, T b, T) const {
    return b;
  }
};
struct CompareAndSwap {
  template <class T>
  T operator()(T old, T b, T c) const {
    return old == b ? c : old;
  }
};
struct Add {
  template <class T>
  T operator()(T old, T b, T) const {
    return old + b;
  }
};
struct Increment {
  template <class T>
  T operator()(T old, T b, T) const {
    return old >= b ? T{0} : old + 1;
  }
};
struct Decrement {
  template <class T>
  T operator()(T old, T b, T) const {
    return old == 0 || old > b ? b : old - 1;
  }
};
struct Minimum {
  template <class T>
  T operator()(T old, T b, T) const {
    return std::min(old, b);
  }
};
struct Maximum {
  template <class T>
  T operator()(T old, T b, T) const {
    return std::max(old, b);
  }
};
/// atom.add.f32 on global memory flushes subnormals, on shared memory it does not.
struct AddF32 {
  std::uint32_t operator()(std::uint32_t old, std::uint32_t b, std::uint32_t) const {
    return std::bit_cast<std::uint32_t>(
        add_f32(std::bit_cast<float>(old), std::bit_cast<float>(b)));
  }
};
struct AddF64 {
  std::uint64_t operator()(std::uint64_t old, std::uint64_t b, std::uint64_t) const {
    return std::bit_cast<std::uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(b));
  }
};

template <const FloatFormat& format>
struct AddHalf {
  std::uint16_t operator()(std::uint16_t old, std::uint16_t b, std::uint16_t) const {
    return add_half(format, old, b);
  }
};
template <const FloatFormat& format>
struct MinimumHalf {
  std::uint16_t operator()(std::uint16_t old, std::uint16_t b, std::uint16_t) const {
    return static_cast<std::uint16_t>(
        narrow(format, minimum(widen(format, old), widen(format, b))));
  }
};
template <const FloatFormat& format>
struct MaximumHalf {
  std::uint16_t operator()(std::uint16_t old, std::uint16_t b, std::uint16_t) const {
    return static_cast<std::uint16_t>(
        narrow(format, maximum(widen(format, old), widen(format, b))));
  }
};

/// Both halves of a register.
template <class Function>
struct Both {
  std::uint32_t operator()(std::uint32_t old, std::uint32_t b, std::uint32_t) const {
    const auto half = [&](int shift) {
      return std::uint32_t{Function{}(static_cast<std::uint16_t>(old >> shift),
                                      static_cast<std::uint16_t>(b >> shift), 0)}
             << shift;
    };
    return half(16) | half(0);
  }
};

struct Bits128 {
  std::uint64_t low, high;
  bool operator==(const Bits128&) const = default;
};

/// Operands b: op.list_size registers; the old values: as many more in the list, if there is a
/// destination (op.mode); c for cas.
template <class T, class Function>
Flow atomic(Warp& warp, const Op& op) {
  LanePointers pointers;
  resolve(warp, op, sizeof(T) * op.list_size, Access::atomic, pointers);
  const Slot* const sources = warp.execution().program().slots.data() + op.list;
  const Slot* const destinations = sources + op.list_size;
  const bool returns = op.mode != 0;
  bool changed = false;
  for_each_lane(warp.lanes, [&](int lane) {
    for (int element = 0; element < op.list_size; ++element) {
      std::byte* const memory = pointers[lane] + element * sizeof(T);
      T old;
      std::memcpy(&old, memory, sizeof(T));
      const T b = warp.row<T>(sources[element])[lane];
      const T c = op.c != no_slot ? warp.row<T>(op.c)[lane] : T{};
      const T value = Function{}(old, b, c);
      std::memcpy(memory, &value, sizeof(T));
      changed |= !(value == old);
      if (returns) warp.row<T>(destinations[element]).set(lane, old);
    }
  });
  if (changed) warp.execution().note_progress();
  return changed || !returns ? Flow::next : warp.poll(op, pointers[first_lane(warp.lanes)]);
}

struct Entry {
  std::string_view operation;
  std::string_view type;
  Handler handler;
};

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

constexpr Entry rows[] = {
    {"and", "b32", atomic<u32, And>},
    {"and", "b64", atomic<u64, And>},
    {"or", "b32", atomic<u32, Or>},
    {"or", "b64", atomic<u64, Or>},
    {"xor", "b32", atomic<u32, Xor>},
    {"xor", "b64", atomic<u64, Xor>},
    {"exch", "b32", atomic<u32, Exchange>},
    {"exch", "b64", atomic<u64, Exchange>},
    {"exch", "b128", atomic<Bits128, Exchange>},
    {"cas", "b16", atomic<u16, CompareAndSwap>},
    {"cas", "b32", atomic<u32, CompareAndSwap>},
    {"cas", "b64", atomic<u64, CompareAndSwap>},
    {"cas", "b128", atomic<Bits128, CompareAndSwap>},
    {"add", "u32", atomic<u32, Add>},
    {"add", "s32", atomic<u32, Add>},
    {"add", "u64", atomic<u64, Add>},
    {"add", "s64", atomic<u64, Add>},
    {"add", "f32", atomic<u32, AddF32>},
    {"add", "f64", atomic<u64, AddF64>},
    {"add", "f16", atomic<u16, AddHalf<format::f16>>},
    {"add", "bf16", atomic<u16, AddHalf<format::bf16>>},
    {"add", "f16x2", atomic<u32, Both<AddHalf<format::f16>>>},
    {"add", "bf16x2", atomic<u32, Both<AddHalf<format::bf16>>>},
    {"inc", "u32", atomic<u32, Increment>},
    {"dec", "u32", atomic<u32, Decrement>},
    {"min", "u32", atomic<u32, Minimum>},
    {"min", "s32", atomic<s32, Minimum>},
    {"min", "u64", atomic<u64, Minimum>},
    {"min", "s64", atomic<s64, Minimum>},
    {"min", "f16", atomic<u16, MinimumHalf<format::f16>>},
    {"min", "bf16", atomic<u16, MinimumHalf<format::bf16>>},
    {"min", "f16x2", atomic<u32, Both<MinimumHalf<format::f16>>>},
    {"min", "bf16x2", atomic<u32, Both<MinimumHalf<format::bf16>>>},
    {"max", "u32", atomic<u32, Maximum>},
    {"max", "s32", atomic<s32, Maximum>},
    {"max", "u64", atomic<u64, Maximum>},
    {"max", "s64", atomic<s64, Maximum>},
    {"max", "f16", atomic<u16, MaximumHalf<format::f16>>},
    {"max", "bf16", atomic<u16, MaximumHalf<format::bf16>>},
    {"max", "f16x2", atomic<u32, Both<MaximumHalf<format::f16>>>},
    {"max", "bf16x2", atomic<u32, Both<MaximumHalf<format::bf16>>>},
};

void build(InstructionDecoder& d, bool returns) {
  const std::string_view type_name = d.part(-1);
  const auto* const row = std::find_if(std::begin(rows), std::end(rows), [&](const Entry& r) {
    return r.type == type_name && d.has(r.operation);
  });
  if (row == std::end(rows)) d.fail("has no such operation for ." + std::string(type_name));
  const DataType type = data_type(type_name);
  const Literal literal = literal_of(d.part(-1));
  const bool swaps = row->operation == "cas";
  const std::size_t first = returns ? 1 : 0;
  d.expect_operands(first + (swaps ? 3 : 2), first + (swaps ? 4 : 3));  // a cache policy may follow

  d.op.run = row->handler;
  set_memory_address(d, d.operand(first));
  if (d.op.space == Space::local) d.fail("needs an address in global or shared memory");
  set_memory_order(d);
  // Without a word atomics are relaxed, at the scope of the GPU.
  if (d.op.order == Order::weak) d.op.order = Order::relaxed;
  if (d.choose({"cta", "cluster", "gpu", "sys"}) < 0) d.op.scope = Scope::gpu;

  std::vector<Slot> slots = d.source_list(d.operand(first + 1), type.bits, literal);
  const std::size_t count = d.has("v2") ? 2 : d.has("v4") ? 4 : d.has("v8") ? 8 : 1;
  if (slots.size() != count) d.fail("needs vectors of " + std::to_string(count) + " registers");
  if (count * static_cast<std::size_t>(type.bits) > 128)
    d.fail("moves more than 16 bytes a thread");
  if (swaps) d.op.c = d.source(d.operand(first + 2), type.bits);
  if (returns) {
    const std::vector<Slot> old = d.destination_list(d.operand(0), type.bits);
    if (old.size() != count) d.fail("needs vectors of " + std::to_string(count) + " registers");
    slots.insert(slots.end(), old.begin(), old.end());
  }
  d.set_list(slots);
  d.op.list_size = static_cast<std::uint16_t>(count);
  d.op.mode = returns ? 1 : 0;
  d.op.cost = d.op.space == Space::global ? 40 : 8;
}

void build_atom(InstructionDecoder& d) {
  build(d, true);
}
void build_red(InstructionDecoder& d) {
  build(d, false);
}

#define FORM                                                                  \
  ".?relaxed|acquire|release|acq_rel.?cta|cluster|gpu|sys."                   \
  "?global|shared|shared::cta|shared::cluster."                               \
  "and|or|xor|exch|cas|add|inc|dec|min|max.?noftz.?L2::cache_hint.?v2|v4|v8." \
  "b16|b32|b64|b128|u32|u64|s32|s64|f16|f16x2|bf16|bf16x2|f32|f64"

constexpr Opcode table[] = {
    {"atom" FORM, {}, nullptr, build_atom},
    {"red" FORM, {}, nullptr, build_red},
};

#undef FORM

}  // namespace

std::span<const Opcode> atomic_opcodes() {
  return table;
}

}  // namespace emulator

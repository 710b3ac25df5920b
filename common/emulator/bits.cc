// Bits, shifts and bit fields; logic on predicates. PTX ISA 9.7.1, 9.7.8.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "common/emulator/arithmetic.h"
#include "common/emulator/decode.h"
#include "common/emulator/opcode.h"

namespace emulator {

namespace {

struct And {
  template <class T>
  T operator()(T a, T b) const {
    return T(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return T(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return T(a ^ b);
  }
};
struct Not {
  template <class T>
  T operator()(T a) const {
    return T(~a);
  }
};
struct LogicalNot {
  template <class T>
  T operator()(T a) const {
    return a == 0;
  }
};

/// Predicates: a whole warp is one mask.
template <class Function>
Flow on_predicates(Warp& warp, const Op& op) {
  warp.set_predicate(op.d, Function{}(warp.predicate(op.a), warp.predicate(op.b)));
  return Flow::next;
}

// Amounts beyond the width shift everything out.
struct ShiftLeft {
  template <class T>
  T operator()(T a, u32 b) const {
    return b < 8 * sizeof(T) ? T(u64{a} << (b & 63)) : T{0};
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T a, u32 b) const {
    return T(a >> std::min<u32>(b, 8 * sizeof(T) - 1));
  }
};
struct ShiftRightUnsigned {
  template <class T>
  T operator()(T a, u32 b) const {
    return b < 8 * sizeof(T) ? T(u64{a} >> (b & 63)) : T{0};
  }
};

/// shf: 32 bits out of the 64 of b:a.
template <bool left, bool wraps>
struct Funnel {
  u32 operator()(u32 a, u32 b, u32 c) const {
    const u32 amount = wraps ? c & 31 : std::min<u32>(c, 32);
    const u64 both = u64{b} << 32 | a;
    return left ? u32(both << amount >> 32) : u32(both >> amount);
  }
};

struct PopulationCount {
  template <class T>
  u32 operator()(T a) const {
    return u32(std::popcount(a));
  }
};
struct LeadingZeros {
  template <class T>
  u32 operator()(T a) const {
    return u32(std::countl_zero(a));
  }
};
struct Reverse {
  template <class T>
  T operator()(T a) const {
    T result = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i)
      result |= T((a >> i & 1) << (8 * sizeof(T) - 1 - i));
    return result;
  }
};
/// The highest bit that is not a copy of the sign; all ones if there is none.
template <bool shift_amount>
struct FindHighest {
  template <class T>
  u32 operator()(T a) const {
    using U = std::make_unsigned_t<T>;
    const U bits = std::is_signed_v<T> && a < 0 ? U(~a) : U(a);
    if (bits == 0) return ~0u;
    const auto zeros = u32(std::countl_zero(bits));
    return shift_amount ? zeros : u32(8 * sizeof(T)) - 1 - zeros;
  }
};

struct ExtractField {
  template <class T>
  T operator()(T a, u32 b, u32 c) const {
    constexpr u32 width = 8 * sizeof(T);
    const u32 position = b & 0xFF;
    const u32 length = c & 0xFF;
    if (length == 0) return 0;
    using U = std::make_unsigned_t<T>;
    const U shifted = position < width ? U(U(a) >> position) : U{0};
    const U mask = length < width ? U((U{1} << length) - 1) : U(~U{0});
    // Signed fields that reach past the top bit take copies of it.
    const u32 sign_position = std::min(position + length - 1, width - 1);
    const bool negative = std::is_signed_v<T> && (U(a) >> sign_position & 1) != 0;
    const u32 held = position < width ? std::min(length, width - position) : 0;
    const U held_mask = held < width ? U((U{1} << held) - 1) : U(~U{0});
    const U field = U(shifted & mask & held_mask);
    return T(negative ? U(field | U(~held_mask)) : field);
  }
};
/// bfi f, a, b, c, d: a in the `d` bits of b from c on.
template <class T>
Flow insert_field(Warp& warp, const Op& op) {
  constexpr u32 width = 8 * sizeof(T);
  const Row<T> a = warp.row<T>(op.a);
  const Row<T> b = warp.row<T>(op.b);
  const Row<u32> start = warp.row<u32>(op.c);
  const Row<u32> count = warp.row<u32>(op.e);
  assign_lanes(warp.lanes, warp.row<T>(op.d), [=](int i) {
    const u32 position = start[i] & 0xFF;
    const u32 length = count[i] & 0xFF;
    if (length == 0 || position >= width) return b[i];
    const T field = length < width ? T((T{1} << length) - 1) : T(~T{0});
    const T mask = T(field << position);
    return T((b[i] & ~mask) | (T(a[i] << position) & mask));
  });
  return Flow::next;
}

template <bool wraps>
struct BitMask {
  u32 operator()(u32 a, u32 b) const {
    if (wraps) {
      const u32 position = a & 31;
      const u32 length = b & 31;
      return ((1u << length) - 1) << position;
    }
    const u32 position = std::min<u32>(a, 32);
    const u32 length = std::min<u32>(b, 32);
    return u32(((u64{1} << length) - 1) << position);
  }
};

/// lop3: bit 4a + 2b + c of op.immediate.
EMULATOR_VECTORIZED Flow any_logic(Warp& warp, const Op& op) {
  const Row<u32> a = warp.row<u32>(op.a);
  const Row<u32> b = warp.row<u32>(op.b);
  const Row<u32> c = warp.row<u32>(op.c);
  u32 term[8];
  for (int i = 0; i < 8; ++i) term[i] = (op.immediate >> i & 1) != 0 ? ~0u : 0;
  assign_lanes(warp.lanes, warp.row<u32>(op.d), [&](int i) {
    const u32 x = a[i], y = b[i], z = c[i];
    const u32 low =
        (term[0] & ~y & ~z) | (term[1] & ~y & z) | (term[2] & y & ~z) | (term[3] & y & z);
    const u32 high =
        (term[4] & ~y & ~z) | (term[5] & ~y & z) | (term[6] & y & ~z) | (term[7] & y & z);
    return (~x & low) | (x & high);
  });
  return Flow::next;
}

/// The four selectors of prmt's special modes, from the low two bits of c.
u32 selectors(int mode, u32 c) {
  constexpr u16 table[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543},  // f4e
      {0x5670, 0x6701, 0x7012, 0x0123},  // b4e
      {0x0000, 0x1111, 0x2222, 0x3333},  // rc8
      {0x3210, 0x3211, 0x3222, 0x3333},  // ecl
      {0x0000, 0x1110, 0x2210, 0x3210},  // ecr
      {0x1010, 0x3232, 0x1010, 0x3232},  // rc16
  };
  return table[mode][c & 3];
}

Flow permute_bytes(Warp& warp, const Op& op) {
  const Row<u32> a = warp.row<u32>(op.a);
  const Row<u32> b = warp.row<u32>(op.b);
  const Row<u32> c = warp.row<u32>(op.c);
  const Row<u32> d = warp.row<u32>(op.d);
  for_each_lane(warp.lanes, [&](int i) {
    const u64 bytes = u64{b[i]} << 32 | a[i];
    const u32 select = op.mode == 0 ? c[i] : selectors(op.mode - 1, c[i]);
    u32 result = 0;
    for (int byte = 0; byte < 4; ++byte) {
      const u32 selector = select >> (4 * byte) & 0xF;
      u32 value = u32(bytes >> (8 * (selector & 7))) & 0xFF;
      if ((selector & 8) != 0) value = (value & 0x80) != 0 ? 0xFF : 0;
      result |= value << (8 * byte);
    }
    d.set(i, result);
  });
  return Flow::next;
}

void build_prmt(InstructionDecoder& d) {
  d.op.mode = static_cast<u8>(d.choose({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) + 1);
}

constexpr Opcode table[] = {
    {"and.b16", "d16 s16 s16", binary<And, u16, u16>},
    {"and.b32", "d32 s32 s32", binary<And, u32, u32>},
    {"and.b64", "d64 s64 s64", binary<And, u64, u64>},
    {"and.pred", "p1 q1 q1", on_predicates<And>},
    {"or.b16", "d16 s16 s16", binary<Or, u16, u16>},
    {"or.b32", "d32 s32 s32", binary<Or, u32, u32>},
    {"or.b64", "d64 s64 s64", binary<Or, u64, u64>},
    {"or.pred", "p1 q1 q1", on_predicates<Or>},
    {"xor.b16", "d16 s16 s16", binary<Xor, u16, u16>},
    {"xor.b32", "d32 s32 s32", binary<Xor, u32, u32>},
    {"xor.b64", "d64 s64 s64", binary<Xor, u64, u64>},
    {"xor.pred", "p1 q1 q1", on_predicates<Xor>},
    {"not.b16", "d16 s16", unary<Not, u16, u16>},
    {"not.b32", "d32 s32", unary<Not, u32, u32>},
    {"not.b64", "d64 s64", unary<Not, u64, u64>},
    {"not.pred", "p1 q1", negate_predicate},
    {"cnot.b16", "d16 s16", unary<LogicalNot, u16, u16>},
    {"cnot.b32", "d32 s32", unary<LogicalNot, u32, u32>},
    {"cnot.b64", "d64 s64", unary<LogicalNot, u64, u64>},
    {"lop3.b32", "d32 s32 s32 s32 i", any_logic},

    {"shl.b16", "d16 s16 s32", binary<ShiftLeft, u16, u16, u32>},
    {"shl.b32", "d32 s32 s32", binary<ShiftLeft, u32, u32, u32>},
    {"shl.b64", "d64 s64 s32", binary<ShiftLeft, u64, u64, u32>},
    {"shr.u16|b16", "d16 s16 s32", binary<ShiftRightUnsigned, u16, u16, u32>},
    {"shr.u32|b32", "d32 s32 s32", binary<ShiftRightUnsigned, u32, u32, u32>},
    {"shr.u64|b64", "d64 s64 s32", binary<ShiftRightUnsigned, u64, u64, u32>},
    {"shr.s16", "d16 s16 s32", binary<ShiftRight, s16, s16, u32>},
    {"shr.s32", "d32 s32 s32", binary<ShiftRight, s32, s32, u32>},
    {"shr.s64", "d64 s64 s32", binary<ShiftRight, s64, s64, u32>},
    {"shf.l.wrap.b32", "d32 s32 s32 s32", ternary<Funnel<true, true>, u32, u32>},
    {"shf.l.clamp.b32", "d32 s32 s32 s32", ternary<Funnel<true, false>, u32, u32>},
    {"shf.r.wrap.b32", "d32 s32 s32 s32", ternary<Funnel<false, true>, u32, u32>},
    {"shf.r.clamp.b32", "d32 s32 s32 s32", ternary<Funnel<false, false>, u32, u32>},

    {"popc.b32", "d32 s32", unary<PopulationCount, u32, u32>},
    {"popc.b64", "d32 s64", unary<PopulationCount, u32, u64>},
    {"clz.b32", "d32 s32", unary<LeadingZeros, u32, u32>},
    {"clz.b64", "d32 s64", unary<LeadingZeros, u32, u64>},
    {"brev.b32", "d32 s32", unary<Reverse, u32, u32>},
    {"brev.b64", "d64 s64", unary<Reverse, u64, u64>},
    {"bfind.u32", "d32 s32", unary<FindHighest<false>, u32, u32>},
    {"bfind.s32", "d32 s32", unary<FindHighest<false>, u32, s32>},
    {"bfind.u64", "d32 s64", unary<FindHighest<false>, u32, u64>},
    {"bfind.s64", "d32 s64", unary<FindHighest<false>, u32, s64>},
    {"bfind.shiftamt.u32", "d32 s32", unary<FindHighest<true>, u32, u32>},
    {"bfind.shiftamt.s32", "d32 s32", unary<FindHighest<true>, u32, s32>},
    {"bfind.shiftamt.u64", "d32 s64", unary<FindHighest<true>, u32, u64>},
    {"bfind.shiftamt.s64", "d32 s64", unary<FindHighest<true>, u32, s64>},
    {"bfe.u32", "d32 s32 s32 s32", ternary<ExtractField, u32, u32>},
    {"bfe.s32", "d32 s32 s32 s32", ternary<ExtractField, s32, s32, u32, u32>},
    {"bfe.u64", "d64 s64 s32 s32", ternary<ExtractField, u64, u64, u32, u32>},
    {"bfe.s64", "d64 s64 s32 s32", ternary<ExtractField, s64, s64, u32, u32>},
    {"bfi.b32", "d32 s32 s32 s32 s32", insert_field<u32>},
    {"bfi.b64", "d64 s64 s64 s32 s32", insert_field<u64>},
    {"bmsk.clamp.b32", "d32 s32 s32", binary<BitMask<false>, u32, u32>},
    {"bmsk.wrap.b32", "d32 s32 s32", binary<BitMask<true>, u32, u32>},
    {"prmt.b32.?f4e|b4e|rc8|ecl|ecr|rc16", "d32 s32 s32 s32", permute_bytes, build_prmt},
};

}  // namespace

Flow negate_predicate(Warp& warp, const Op& op) {
  warp.set_predicate(op.d, ~warp.predicate(op.a));
  return Flow::next;
}

std::span<const Opcode> bit_opcodes() {
  return table;
}

}  // namespace emulator

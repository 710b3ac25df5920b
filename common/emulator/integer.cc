// Integer arithmetic. PTX ISA 9.7.1, 9.7.2.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "common/emulator/arithmetic.h"
#include "common/emulator/opcode.h"

namespace emulator {

namespace {

// Sums and products wrap: they are computed unsigned.

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return T(a + b);
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    return T(a - b);
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    return T(u64{a} * b);
  }
};
struct MultiplyAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return T(u64{a} * b + c);
  }
};

template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, s64, u64>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

struct MultiplyHigh {
  template <class T>
  T operator()(T a, T b) const {
    return T(Wide<T>(a) * Wide<T>(b) >> (8 * sizeof(T)));
  }
};
struct MultiplyAddHigh {
  template <class T>
  T operator()(T a, T b, T c) const {
    using U = std::make_unsigned_t<T>;
    return T(U(MultiplyHigh{}(a, b)) + U(c));
  }
};
struct MultiplyWide {
  template <class T>
  Wide<T> operator()(T a, T b) const {
    return Wide<T>(a) * Wide<T>(b);
  }
};
struct MultiplyAddWide {
  template <class T>
  u64 operator()(T a, T b, Wide<T> c) const {
    return u64(Wide<T>(a) * Wide<T>(b)) + u64(c);
  }
};

/// mul24 and mad24: of the low 24 bits, sign- or zero-extended, the low 32 bits of the product.
template <class T>
constexpr s64 low_24(T a) {
  return std::is_signed_v<T> ? s64{s32(u32(a) << 8) >> 8} : s64{u32(a) & 0xFFFFFF};
}
struct Multiply24 {
  template <class T>
  u32 operator()(T a, T b) const {
    return u32(low_24(a) * low_24(b));
  }
};
struct MultiplyAdd24 {
  template <class T>
  u32 operator()(T a, T b, T c) const {
    return u32(low_24(a) * low_24(b)) + u32(c);
  }
};

// The ISA leaves division by zero open. The hardware gives all ones, and the dividend as remainder.
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return T(-1);
    if (std::is_signed_v<T> && b == T(-1)) return T(0 - u64(a));
    return T(a / b);
  }
};
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == T(-1)) return 0;
    return T(a % b);
  }
};

struct Negate {
  template <class T>
  T operator()(T a) const {
    return T(0 - u64(a));
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    return a < 0 ? T(0 - u64(a)) : a;
  }
};
struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct MinimumRelu {
  s32 operator()(s32 a, s32 b) const { return std::max(std::min(a, b), 0); }
};
struct MaximumRelu {
  s32 operator()(s32 a, s32 b) const { return std::max(std::max(a, b), 0); }
};
struct SumOfAbsoluteDifferences {
  template <class T>
  u64 operator()(T a, T b, T c) const {
    return u64(c) + (a < b ? u64(b) - u64(a) : u64(a) - u64(b));
  }
};

constexpr s32 saturated(s64 value) {
  return s32(
      std::clamp<s64>(value, std::numeric_limits<s32>::min(), std::numeric_limits<s32>::max()));
}
struct AddSaturating {
  s32 operator()(s32 a, s32 b) const { return saturated(s64{a} + b); }
};
struct SubtractSaturating {
  s32 operator()(s32 a, s32 b) const { return saturated(s64{a} - b); }
};
struct MultiplyAddHighSaturating {
  s32 operator()(s32 a, s32 b, s32 c) const { return saturated((s64{a} * b >> 32) + c); }
};

/// The two 16-bit halves of 32 bits.
template <class Function, class Half>
struct Halves {
  u32 operator()(u32 a, u32 b) const {
    const u32 high = u16(Function{}(Half(a >> 16), Half(b >> 16)));
    const u32 low = u16(Function{}(Half(a), Half(b)));
    return high << 16 | low;
  }
};

// ---- Extended precision: the carry flag of each lane. PTX ISA 9.7.2.

enum Carry : unsigned { reads_carry = 1, writes_carry = 2 };

template <class T, unsigned carry>
Flow add_carry(Warp& warp, const Op& op) {
  const Row<T> a = warp.row<T>(op.a);
  const Row<T> b = warp.row<T>(op.b);
  const Row<T> d = warp.row<T>(op.d);
  for_each_lane(warp.lanes, [&](int i) {
    const T in = (carry & reads_carry) != 0 ? T(warp.carry >> i & 1) : T{0};
    const T sum = T(a[i] + b[i]);
    const T result = T(sum + in);
    const bool out = sum < a[i] || result < sum;
    d.set(i, result);
    if ((carry & writes_carry) != 0) {
      warp.carry = (warp.carry & ~lane_bit(i)) | LaneMask{out} << i;
    }
  });
  return Flow::next;
}

/// The carry flag holds the borrow.
template <class T, unsigned carry>
Flow subtract_borrow(Warp& warp, const Op& op) {
  const Row<T> a = warp.row<T>(op.a);
  const Row<T> b = warp.row<T>(op.b);
  const Row<T> d = warp.row<T>(op.d);
  for_each_lane(warp.lanes, [&](int i) {
    const T in = (carry & reads_carry) != 0 ? T(warp.carry >> i & 1) : T{0};
    const T difference = T(a[i] - b[i]);
    const bool out = a[i] < b[i] || difference < in;
    d.set(i, T(difference - in));
    if ((carry & writes_carry) != 0) {
      warp.carry = (warp.carry & ~lane_bit(i)) | LaneMask{out} << i;
    }
  });
  return Flow::next;
}

/// The low or high half of a * b, plus c, plus the carry.
template <class T, bool high, unsigned carry>
Flow multiply_add_carry(Warp& warp, const Op& op) {
  using U = std::make_unsigned_t<T>;
  const Row<T> a = warp.row<T>(op.a);
  const Row<T> b = warp.row<T>(op.b);
  const Row<U> c = warp.row<U>(op.c);
  const Row<U> d = warp.row<U>(op.d);
  for_each_lane(warp.lanes, [&](int i) {
    const U product = high ? U(MultiplyHigh{}(a[i], b[i])) : U(U(a[i]) * U(b[i]));
    const U in = (carry & reads_carry) != 0 ? U(warp.carry >> i & 1) : U{0};
    const U sum = U(product + c[i]);
    const U result = U(sum + in);
    const bool out = sum < product || result < sum;
    d.set(i, result);
    if ((carry & writes_carry) != 0) {
      warp.carry = (warp.carry & ~lane_bit(i)) | LaneMask{out} << i;
    }
  });
  return Flow::next;
}

// ---- Dot products of bytes. PTX ISA 9.7.1.23, 9.7.1.24.

template <class A, class B>
struct DotOf4 {
  u32 operator()(u32 a, u32 b, u32 c) const {
    u32 sum = c;
    for (int shift = 0; shift < 32; shift += 8) sum += u32(s32{A(a >> shift)} * s32{B(b >> shift)});
    return sum;
  }
};
/// Two halves of a with the lower or upper two bytes of b.
template <class A, class B, int first_shift>
struct DotOf2 {
  u32 operator()(u32 a, u32 b, u32 c) const {
    return c + u32(s64{A(a)} * B(b >> first_shift)) +
           u32(s64{A(a >> 16)} * B(b >> (first_shift + 8)));
  }
};

constexpr Opcode table[] = {
    {"add.u16|s16", "d16 s16 s16", binary<Add, u16, u16>},
    {"add.u32|s32", "d32 s32 s32", binary<Add, u32, u32>},
    {"add.u64|s64", "d64 s64 s64", binary<Add, u64, u64>},
    {"add.u16x2|s16x2", "d32 s32 s32", binary<Halves<Add, u16>, u32, u32>},
    {"add.sat.s32", "d32 s32 s32", binary<AddSaturating, s32, s32>},
    {"sub.u16|s16", "d16 s16 s16", binary<Subtract, u16, u16>},
    {"sub.u32|s32", "d32 s32 s32", binary<Subtract, u32, u32>},
    {"sub.u64|s64", "d64 s64 s64", binary<Subtract, u64, u64>},
    {"sub.sat.s32", "d32 s32 s32", binary<SubtractSaturating, s32, s32>},

    {"mul.lo.u16|s16", "d16 s16 s16", binary<Multiply, u16, u16>},
    {"mul.lo.u32|s32", "d32 s32 s32", binary<Multiply, u32, u32>},
    {"mul.lo.u64|s64", "d64 s64 s64", binary<Multiply, u64, u64>},
    {"mul.hi.u16", "d16 s16 s16", binary<MultiplyHigh, u16, u16>},
    {"mul.hi.s16", "d16 s16 s16", binary<MultiplyHigh, s16, s16>},
    {"mul.hi.u32", "d32 s32 s32", binary<MultiplyHigh, u32, u32>},
    {"mul.hi.s32", "d32 s32 s32", binary<MultiplyHigh, s32, s32>},
    {"mul.hi.u64", "d64 s64 s64", binary<MultiplyHigh, u64, u64>},
    {"mul.hi.s64", "d64 s64 s64", binary<MultiplyHigh, s64, s64>},
    {"mul.wide.u16", "d32 s16 s16", binary<MultiplyWide, u32, u16>},
    {"mul.wide.s16", "d32 s16 s16", binary<MultiplyWide, s32, s16>},
    {"mul.wide.u32", "d64 s32 s32", binary<MultiplyWide, u64, u32>},
    {"mul.wide.s32", "d64 s32 s32", binary<MultiplyWide, s64, s32>},
    {"mul24.lo.u32", "d32 s32 s32", binary<Multiply24, u32, u32>},
    {"mul24.lo.s32", "d32 s32 s32", binary<Multiply24, u32, s32>},

    {"mad.lo.u16|s16", "d16 s16 s16 s16", ternary<MultiplyAdd, u16, u16>},
    {"mad.lo.u32|s32", "d32 s32 s32 s32", ternary<MultiplyAdd, u32, u32>},
    {"mad.lo.u64|s64", "d64 s64 s64 s64", ternary<MultiplyAdd, u64, u64>},
    {"mad.hi.u32", "d32 s32 s32 s32", ternary<MultiplyAddHigh, u32, u32>},
    {"mad.hi.s32", "d32 s32 s32 s32", ternary<MultiplyAddHigh, s32, s32>},
    {"mad.hi.u64", "d64 s64 s64 s64", ternary<MultiplyAddHigh, u64, u64>},
    {"mad.hi.s64", "d64 s64 s64 s64", ternary<MultiplyAddHigh, s64, s64>},
    {"mad.hi.sat.s32", "d32 s32 s32 s32", ternary<MultiplyAddHighSaturating, s32, s32>},
    {"mad.wide.u16", "d32 s16 s16 s32", ternary<MultiplyAddWide, u32, u16, u16, u32>},
    {"mad.wide.s16", "d32 s16 s16 s32", ternary<MultiplyAddWide, u32, s16, s16, s32>},
    {"mad.wide.u32", "d64 s32 s32 s64", ternary<MultiplyAddWide, u64, u32, u32, u64>},
    {"mad.wide.s32", "d64 s32 s32 s64", ternary<MultiplyAddWide, u64, s32, s32, s64>},
    {"mad24.lo.u32", "d32 s32 s32 s32", ternary<MultiplyAdd24, u32, u32>},
    {"mad24.lo.s32", "d32 s32 s32 s32", ternary<MultiplyAdd24, u32, s32>},

    {"div.u16", "d16 s16 s16", binary_by_lane<Divide, u16, u16>},
    {"div.s16", "d16 s16 s16", binary_by_lane<Divide, s16, s16>},
    {"div.u32", "d32 s32 s32", binary_by_lane<Divide, u32, u32>},
    {"div.s32", "d32 s32 s32", binary_by_lane<Divide, s32, s32>},
    {"div.u64", "d64 s64 s64", binary_by_lane<Divide, u64, u64>},
    {"div.s64", "d64 s64 s64", binary_by_lane<Divide, s64, s64>},
    {"rem.u16", "d16 s16 s16", binary_by_lane<Remainder, u16, u16>},
    {"rem.s16", "d16 s16 s16", binary_by_lane<Remainder, s16, s16>},
    {"rem.u32", "d32 s32 s32", binary_by_lane<Remainder, u32, u32>},
    {"rem.s32", "d32 s32 s32", binary_by_lane<Remainder, s32, s32>},
    {"rem.u64", "d64 s64 s64", binary_by_lane<Remainder, u64, u64>},
    {"rem.s64", "d64 s64 s64", binary_by_lane<Remainder, s64, s64>},

    {"neg.s16", "d16 s16", unary<Negate, s16, s16>},
    {"neg.s32", "d32 s32", unary<Negate, s32, s32>},
    {"neg.s64", "d64 s64", unary<Negate, s64, s64>},
    {"abs.s16", "d16 s16", unary<Absolute, s16, s16>},
    {"abs.s32", "d32 s32", unary<Absolute, s32, s32>},
    {"abs.s64", "d64 s64", unary<Absolute, s64, s64>},
    {"min.u16", "d16 s16 s16", binary<Minimum, u16, u16>},
    {"min.s16", "d16 s16 s16", binary<Minimum, s16, s16>},
    {"min.u32", "d32 s32 s32", binary<Minimum, u32, u32>},
    {"min.s32", "d32 s32 s32", binary<Minimum, s32, s32>},
    {"min.relu.s32", "d32 s32 s32", binary<MinimumRelu, s32, s32>},
    {"min.u64", "d64 s64 s64", binary<Minimum, u64, u64>},
    {"min.s64", "d64 s64 s64", binary<Minimum, s64, s64>},
    {"min.u16x2", "d32 s32 s32", binary<Halves<Minimum, u16>, u32, u32>},
    {"min.s16x2", "d32 s32 s32", binary<Halves<Minimum, s16>, u32, u32>},
    {"max.u16", "d16 s16 s16", binary<Maximum, u16, u16>},
    {"max.s16", "d16 s16 s16", binary<Maximum, s16, s16>},
    {"max.u32", "d32 s32 s32", binary<Maximum, u32, u32>},
    {"max.s32", "d32 s32 s32", binary<Maximum, s32, s32>},
    {"max.relu.s32", "d32 s32 s32", binary<MaximumRelu, s32, s32>},
    {"max.u64", "d64 s64 s64", binary<Maximum, u64, u64>},
    {"max.s64", "d64 s64 s64", binary<Maximum, s64, s64>},
    {"max.u16x2", "d32 s32 s32", binary<Halves<Maximum, u16>, u32, u32>},
    {"max.s16x2", "d32 s32 s32", binary<Halves<Maximum, s16>, u32, u32>},
    {"sad.u16", "d16 s16 s16 s16", ternary<SumOfAbsoluteDifferences, u16, u16>},
    {"sad.s16", "d16 s16 s16 s16", ternary<SumOfAbsoluteDifferences, u16, s16>},
    {"sad.u32", "d32 s32 s32 s32", ternary<SumOfAbsoluteDifferences, u32, u32>},
    {"sad.s32", "d32 s32 s32 s32", ternary<SumOfAbsoluteDifferences, u32, s32>},
    {"sad.u64", "d64 s64 s64 s64", ternary<SumOfAbsoluteDifferences, u64, u64>},
    {"sad.s64", "d64 s64 s64 s64", ternary<SumOfAbsoluteDifferences, u64, s64>},

    {"add.cc.u32|s32", "d32 s32 s32", add_carry<u32, writes_carry>},
    {"add.cc.u64|s64", "d64 s64 s64", add_carry<u64, writes_carry>},
    {"addc.u32|s32", "d32 s32 s32", add_carry<u32, reads_carry>},
    {"addc.u64|s64", "d64 s64 s64", add_carry<u64, reads_carry>},
    {"addc.cc.u32|s32", "d32 s32 s32", add_carry<u32, reads_carry | writes_carry>},
    {"addc.cc.u64|s64", "d64 s64 s64", add_carry<u64, reads_carry | writes_carry>},
    {"sub.cc.u32|s32", "d32 s32 s32", subtract_borrow<u32, writes_carry>},
    {"sub.cc.u64|s64", "d64 s64 s64", subtract_borrow<u64, writes_carry>},
    {"subc.u32|s32", "d32 s32 s32", subtract_borrow<u32, reads_carry>},
    {"subc.u64|s64", "d64 s64 s64", subtract_borrow<u64, reads_carry>},
    {"subc.cc.u32|s32", "d32 s32 s32", subtract_borrow<u32, reads_carry | writes_carry>},
    {"subc.cc.u64|s64", "d64 s64 s64", subtract_borrow<u64, reads_carry | writes_carry>},
    {"mad.lo.cc.u32|s32", "d32 s32 s32 s32", multiply_add_carry<u32, false, writes_carry>},
    {"mad.lo.cc.u64|s64", "d64 s64 s64 s64", multiply_add_carry<u64, false, writes_carry>},
    {"mad.hi.cc.u32", "d32 s32 s32 s32", multiply_add_carry<u32, true, writes_carry>},
    {"mad.hi.cc.s32", "d32 s32 s32 s32", multiply_add_carry<s32, true, writes_carry>},
    {"mad.hi.cc.u64", "d64 s64 s64 s64", multiply_add_carry<u64, true, writes_carry>},
    {"mad.hi.cc.s64", "d64 s64 s64 s64", multiply_add_carry<s64, true, writes_carry>},
    {"madc.lo.u32|s32", "d32 s32 s32 s32", multiply_add_carry<u32, false, reads_carry>},
    {"madc.lo.u64|s64", "d64 s64 s64 s64", multiply_add_carry<u64, false, reads_carry>},
    {"madc.hi.u32", "d32 s32 s32 s32", multiply_add_carry<u32, true, reads_carry>},
    {"madc.hi.s32", "d32 s32 s32 s32", multiply_add_carry<s32, true, reads_carry>},
    {"madc.hi.u64", "d64 s64 s64 s64", multiply_add_carry<u64, true, reads_carry>},
    {"madc.hi.s64", "d64 s64 s64 s64", multiply_add_carry<s64, true, reads_carry>},
    {"madc.lo.cc.u32|s32", "d32 s32 s32 s32",
     multiply_add_carry<u32, false, reads_carry | writes_carry>},
    {"madc.lo.cc.u64|s64", "d64 s64 s64 s64",
     multiply_add_carry<u64, false, reads_carry | writes_carry>},
    {"madc.hi.cc.u32", "d32 s32 s32 s32",
     multiply_add_carry<u32, true, reads_carry | writes_carry>},
    {"madc.hi.cc.u64", "d64 s64 s64 s64",
     multiply_add_carry<u64, true, reads_carry | writes_carry>},

    {"dp4a.u32.u32", "d32 s32 s32 s32", ternary<DotOf4<u8, u8>, u32, u32>},
    {"dp4a.u32.s32", "d32 s32 s32 s32", ternary<DotOf4<u8, s8>, u32, u32>},
    {"dp4a.s32.u32", "d32 s32 s32 s32", ternary<DotOf4<s8, u8>, u32, u32>},
    {"dp4a.s32.s32", "d32 s32 s32 s32", ternary<DotOf4<s8, s8>, u32, u32>},
    {"dp2a.lo.u32.u32", "d32 s32 s32 s32", ternary<DotOf2<u16, u8, 0>, u32, u32>},
    {"dp2a.lo.u32.s32", "d32 s32 s32 s32", ternary<DotOf2<u16, s8, 0>, u32, u32>},
    {"dp2a.lo.s32.u32", "d32 s32 s32 s32", ternary<DotOf2<s16, u8, 0>, u32, u32>},
    {"dp2a.lo.s32.s32", "d32 s32 s32 s32", ternary<DotOf2<s16, s8, 0>, u32, u32>},
    {"dp2a.hi.u32.u32", "d32 s32 s32 s32", ternary<DotOf2<u16, u8, 16>, u32, u32>},
    {"dp2a.hi.u32.s32", "d32 s32 s32 s32", ternary<DotOf2<u16, s8, 16>, u32, u32>},
    {"dp2a.hi.s32.u32", "d32 s32 s32 s32", ternary<DotOf2<s16, u8, 16>, u32, u32>},
    {"dp2a.hi.s32.s32", "d32 s32 s32 s32", ternary<DotOf2<s16, s8, 16>, u32, u32>},
};

}  // namespace

std::span<const Opcode> integer_opcodes() {
  return table;
}

}  // namespace emulator

// f16 and bf16 arithmetic, and the same on pairs. PTX ISA 9.7.4.
#include <cmath>

#include "common/emulator/approximations.h"
#include "common/emulator/arithmetic.h"
#include "common/emulator/decode.h"
#include "common/emulator/formats.h"
#include "common/emulator/opcode.h"

namespace emulator {

namespace {

// Functions of one half. Op::mode: the modifiers below.

constexpr u8 mode_ftz = 1;
constexpr u8 mode_sat = 2;
constexpr u8 mode_relu = 4;
constexpr u8 mode_nan = 8;

HalfMode half_mode(u8 mode) {
  return {(mode & mode_ftz) != 0, (mode & mode_sat) != 0, (mode & mode_relu) != 0};
}

template <const FloatFormat& format>
constexpr u16 sign = static_cast<u16>(format.sign_bit());

template <const FloatFormat& format>
struct Add {
  static u16 of(u8 mode, u16 a, u16 b) { return add_half(format, a, b, half_mode(mode)); }
};
template <const FloatFormat& format>
struct Subtract {
  static u16 of(u8 mode, u16 a, u16 b) {
    return add_half(format, a, b ^ sign<format>, half_mode(mode));
  }
};
template <const FloatFormat& format>
struct Multiply {
  static u16 of(u8 mode, u16 a, u16 b) { return mul_half(format, a, b, half_mode(mode)); }
};
template <const FloatFormat& format>
struct FusedMultiplyAdd {
  static u16 of(u8 mode, u16 a, u16 b, u16 c) { return fma_half(format, a, b, c, half_mode(mode)); }
};

template <const FloatFormat& format>
double operand(u8 mode, u16 bits) {
  const double value = widen(format, bits);
  const bool is_subnormal = (bits & format.infinity()) == 0;
  return (mode & mode_ftz) != 0 && is_subnormal ? std::copysign(0.0, value) : value;
}
template <const FloatFormat& format>
struct Minimum {
  static u16 of(u8 mode, u16 a, u16 b) {
    return static_cast<u16>(narrow(
        format,
        minimum(operand<format>(mode, a), operand<format>(mode, b), (mode & mode_nan) != 0)));
  }
};
template <const FloatFormat& format>
struct Maximum {
  static u16 of(u8 mode, u16 a, u16 b) {
    return static_cast<u16>(narrow(
        format,
        maximum(operand<format>(mode, a), operand<format>(mode, b), (mode & mode_nan) != 0)));
  }
};

template <const FloatFormat& format>
struct Negate {
  static u16 of(u8 mode, u16 a) {
    return static_cast<u16>((mode & mode_ftz) != 0 ? narrow(format, -operand<format>(mode, a))
                                                   : a ^ sign<format>);
  }
};
template <const FloatFormat& format>
struct Absolute {
  static u16 of(u8 mode, u16 a) {
    return static_cast<u16>((mode & mode_ftz) != 0
                                ? narrow(format, std::fabs(operand<format>(mode, a)))
                                : a & ~sign<format>);
  }
};

template <u16 (*function)(u16)>
struct Approximate {
  static u16 of(u8, u16 a) { return function(a); }
};

// ---- Handlers: T is u16 for one half, u32 for a pair.

template <class T, class Function, class... Sources>
T on_halves(u8 mode, Sources... sources) {
  if constexpr (sizeof(T) == 2) {
    return Function::of(mode, sources...);
  } else {
    const u32 high = Function::of(mode, static_cast<u16>(sources >> 16)...);
    const u32 low = Function::of(mode, static_cast<u16>(sources)...);
    return high << 16 | low;
  }
}

template <class Function, class T>
Flow half_unary(Warp& warp, const Op& op) {
  const Row<T> a = warp.row<T>(op.a);
  const Row<T> d = warp.row<T>(op.d);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, on_halves<T, Function>(op.mode, a[i])); });
  return Flow::next;
}
template <class Function, class T>
Flow half_binary(Warp& warp, const Op& op) {
  const Row<T> a = warp.row<T>(op.a);
  const Row<T> b = warp.row<T>(op.b);
  const Row<T> d = warp.row<T>(op.d);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, on_halves<T, Function>(op.mode, a[i], b[i])); });
  return Flow::next;
}
template <class Function, class T>
Flow half_ternary(Warp& warp, const Op& op) {
  const Row<T> a = warp.row<T>(op.a);
  const Row<T> b = warp.row<T>(op.b);
  const Row<T> c = warp.row<T>(op.c);
  const Row<T> d = warp.row<T>(op.d);
  for_each_lane(warp.lanes,
                [&](int i) { d.set(i, on_halves<T, Function>(op.mode, a[i], b[i], c[i])); });
  return Flow::next;
}

void build_mode(InstructionDecoder& d) {
  if (d.has("ftz")) d.op.mode |= mode_ftz;
  if (d.has("sat")) d.op.mode |= mode_sat;
  if (d.has("relu")) d.op.mode |= mode_relu;
  if (d.has("NaN")) d.op.mode |= mode_nan;
}

/// The handler of the format and width that the opcode names.
template <template <const FloatFormat&> class Function, template <class, class> class Handlers>
void build_by_type(InstructionDecoder& d, std::size_t sources) {
  const std::string_view type = d.part(-1);
  const int bits = type.ends_with("x2") ? 32 : 16;
  const bool is_bf16 = type.starts_with("bf16");
  d.expect_operands(sources + 1, sources + 1);
  d.op.d = d.destination(d.operand(0), bits);
  d.op.a = d.source(d.operand(1), bits);
  if (sources > 1) d.op.b = d.source(d.operand(2), bits);
  if (sources > 2) d.op.c = d.source(d.operand(3), bits);
  build_mode(d);
  d.op.run = bits == 16 ? (is_bf16 ? Handlers<Function<format::bf16>, u16>::handler
                                   : Handlers<Function<format::f16>, u16>::handler)
                        : (is_bf16 ? Handlers<Function<format::bf16>, u32>::handler
                                   : Handlers<Function<format::f16>, u32>::handler);
}
template <class Function, class T>
struct Unary {
  static constexpr Handler handler = half_unary<Function, T>;
};
template <class Function, class T>
struct Binary {
  static constexpr Handler handler = half_binary<Function, T>;
};
template <class Function, class T>
struct Ternary {
  static constexpr Handler handler = half_ternary<Function, T>;
};

template <template <const FloatFormat&> class Function>
void build_unary(InstructionDecoder& d) {
  build_by_type<Function, Unary>(d, 1);
}
template <template <const FloatFormat&> class Function>
void build_binary(InstructionDecoder& d) {
  build_by_type<Function, Binary>(d, 2);
}
template <template <const FloatFormat&> class Function>
void build_ternary(InstructionDecoder& d) {
  build_by_type<Function, Ternary>(d, 3);
}

#define TYPE "f16|f16x2|bf16|bf16x2"

constexpr Opcode table[] = {
    {"add.?rn.?ftz.?sat." TYPE, {}, nullptr, build_binary<Add>},
    {"sub.?rn.?ftz.?sat." TYPE, {}, nullptr, build_binary<Subtract>},
    {"mul.?rn.?ftz.?sat." TYPE, {}, nullptr, build_binary<Multiply>},
    {"fma.rn.?ftz.?sat|relu." TYPE, {}, nullptr, build_ternary<FusedMultiplyAdd>},
    {"neg.?ftz." TYPE, {}, nullptr, build_unary<Negate>},
    {"abs.?ftz." TYPE, {}, nullptr, build_unary<Absolute>},
    {"min.?ftz.?NaN." TYPE, {}, nullptr, build_binary<Minimum>},
    {"max.?ftz.?NaN." TYPE, {}, nullptr, build_binary<Maximum>},
    {"ex2.approx.f16", "d16 s16", half_unary<Approximate<ex2_approx_f16>, u16>},
    {"ex2.approx.f16x2", "d32 s32", half_unary<Approximate<ex2_approx_f16>, u32>},
    {"ex2.approx.ftz.bf16", "d16 s16", half_unary<Approximate<ex2_approx_ftz_bf16>, u16>},
    {"ex2.approx.ftz.bf16x2", "d32 s32", half_unary<Approximate<ex2_approx_ftz_bf16>, u32>},
    {"tanh.approx.f16", "d16 s16", half_unary<Approximate<tanh_approx_f16>, u16>},
    {"tanh.approx.f16x2", "d32 s32", half_unary<Approximate<tanh_approx_f16>, u32>},
    {"tanh.approx.bf16", "d16 s16", half_unary<Approximate<tanh_approx_bf16>, u16>},
    {"tanh.approx.bf16x2", "d32 s32", half_unary<Approximate<tanh_approx_bf16>, u32>},
};

#undef TYPE

}  // namespace

std::span<const Opcode> half_opcodes() {
  return table;
}

}  // namespace emulator

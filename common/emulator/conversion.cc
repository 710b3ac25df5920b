// cvt. PTX ISA 9.7.9.21.
#include <algorithm>
#include <bit>
#include <cmath>

#include "common/emulator/arithmetic.h"
#include "common/emulator/decode.h"
#include "common/emulator/execution.h"
#include "common/emulator/formats.h"
#include "common/emulator/opcode.h"

namespace emulator {

namespace {

// ---- The common ones, over whole rows.

struct Identity {
  template <class T>
  T operator()(T a) const {
    return a;
  }
};
struct Bf16ToF32 {
  float operator()(u16 a) const { return bf16_to_f32(a); }
};
/// .rn, as f32_to_bf16 has it, in a form that vectorizes.
inline u32 round_to_bf16(float value) {
  const u32 bits = std::bit_cast<u32>(value);
  const u32 rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return value == value ? rounded : 0x7FFF;
}
struct F32ToBf16 {
  u16 operator()(float a) const { return static_cast<u16>(round_to_bf16(a)); }
};
struct F32ToBf16x2 {
  u32 operator()(float upper, float lower) const {
    return round_to_bf16(upper) << 16 | round_to_bf16(lower);
  }
};
struct SignedToF32 {
  float operator()(s32 a) const { return static_cast<float>(a); }
};
struct UnsignedToF32 {
  float operator()(u32 a) const { return static_cast<float>(a); }
};

// ---- All others between numbers, by Conversion.

double float_value(const Conversion& c, u64 bits) {
  const double value = widen(*c.from_format, bits);
  return c.ftz && c.from_format == &format::f32 ? flush_subnormal(static_cast<float>(value))
                                                : value;
}

u64 to_float(const Conversion& c, double value) {
  if (c.integral) value = round_to_integral(value, c.rounding);
  if (c.sat) value = clamp_to_unit(value);
  const Narrowing how{c.integral ? Rounding::rn : c.rounding, c.satfinite, c.relu};
  const u64 bits = narrow(*c.to_format, value, how);
  if (!c.ftz || c.to_format != &format::f32) return bits;
  return std::bit_cast<u32>(flush_subnormal(std::bit_cast<float>(static_cast<u32>(bits))));
}

u64 convert(const Conversion& c, u64 source) {
  if (c.from_format != nullptr) {
    const double value = float_value(c, source);
    if (c.to_format != nullptr) return to_float(c, value);
    return float_to_integer(value, c.to_integer, c.rounding, c.from_format == &format::f64);
  }
  if (c.to_format != nullptr) {
    const u64 bits = integer_to_float(source, c.from_integer, *c.to_format, c.rounding);
    if (!c.sat) return bits;
    return narrow(*c.to_format, clamp_to_unit(widen(*c.to_format, bits)));
  }
  if (c.sat) return saturate(source, c.from_integer, c.to_integer);
  return extend(extend(source, c.from_integer), c.to_integer);
}

template <class D, class S>
Flow convert_numbers(Warp& warp, const Op& op) {
  const Conversion& conversion = warp.execution().program().conversions[op.target];
  const Row<S> a = warp.row<S>(op.a);
  const Row<D> d = warp.row<D>(op.d);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, static_cast<D>(convert(conversion, a[i]))); });
  return Flow::next;
}

Handler number_handler(int to_bits, int from_bits) {
  switch (to_bits * 100 + from_bits) {
    case 1616:
      return convert_numbers<u16, u16>;
    case 1632:
      return convert_numbers<u16, u32>;
    case 1664:
      return convert_numbers<u16, u64>;
    case 3216:
      return convert_numbers<u32, u16>;
    case 3232:
      return convert_numbers<u32, u32>;
    case 3264:
      return convert_numbers<u32, u64>;
    case 6416:
      return convert_numbers<u64, u16>;
    case 6432:
      return convert_numbers<u64, u32>;
    case 6464:
      return convert_numbers<u64, u64>;
    default:
      return nullptr;
  }
}

/// Between integers that fill their registers: an extension or a truncation. nullptr for others.
Handler whole_register_handler(const Conversion& c, int to_bits, int from_bits) {
  const bool is_plain = c.from_format == nullptr && c.to_format == nullptr && !c.sat &&
                        to_bits == c.to_integer.bits && from_bits == c.from_integer.bits;
  if (!is_plain) return nullptr;
  const bool sign = c.from_integer.is_signed;
  switch (to_bits * 100 + from_bits) {
    case 1632:
      return unary<Identity, u16, u32>;
    case 3216:
      return sign ? unary<Identity, s32, s16> : unary<Identity, u32, u16>;
    case 3264:
      return unary<Identity, u32, u64>;
    case 6432:
      return sign ? unary<Identity, s64, s32> : unary<Identity, u64, u32>;
    default:
      return nullptr;
  }
}

const FloatFormat* float_format(std::string_view type) {
  if (type == "f16") return &format::f16;
  if (type == "bf16") return &format::bf16;
  if (type == "f32") return &format::f32;
  if (type == "f64") return &format::f64;
  return nullptr;
}

IntegerFormat integer_format(std::string_view type) {
  return {data_type(type).bits, type.front() == 's'};
}

/// The bits of a register operand, or what its type asks for.
int operand_bits(const InstructionDecoder& d, const Operand& operand, int type_bits) {
  const int bits = d.register_bits(operand);
  return bits != 0 ? bits : std::max(type_bits, 16);
}

void build_cvt(InstructionDecoder& d) {
  d.expect_operands(2, 2);
  const std::string_view to = d.part(-2);
  const std::string_view from = d.part(-1);
  Conversion c;
  c.from_format = float_format(from);
  c.to_format = float_format(to);
  if (c.from_format == nullptr) c.from_integer = integer_format(from);
  if (c.to_format == nullptr) c.to_integer = integer_format(to);
  const int rounding = d.choose({"rn", "rz", "rm", "rp", "rna"});
  const int integral = d.choose({"rni", "rzi", "rmi", "rpi"});
  c.rounding = static_cast<Rounding>(std::max({rounding, integral, 0}));
  c.integral = integral >= 0;
  c.ftz = d.has("ftz");
  c.sat = d.has("sat");
  c.satfinite = d.has("satfinite");
  c.relu = d.has("relu");

  const int to_type_bits = data_type(to).bits;
  const int from_type_bits = data_type(from).bits;
  const int to_bits = operand_bits(d, d.operand(0), to_type_bits);
  const int from_bits = operand_bits(d, d.operand(1), from_type_bits);
  if (to_bits < to_type_bits || from_bits < from_type_bits) {
    d.fail("has a register that is narrower than its type");
  }
  const Literal literal = literal_of(from);
  d.op.d = d.destination(d.operand(0), to_bits);
  d.op.a = d.source(d.operand(1), from_bits, literal);
  d.op.run = whole_register_handler(c, to_bits, from_bits);
  if (d.op.run != nullptr) return;
  d.op.run = number_handler(to_bits, from_bits);
  if (d.op.run == nullptr) d.fail("has operands of these widths, which is not supported");
  d.op.target = static_cast<u32>(d.program().conversions.size());
  d.program().conversions.push_back(c);
}

// ---- Pairs and tf32. Op::mode: modifiers; the rounding is in the low bits.

constexpr u8 mode_relu = 8;
constexpr u8 mode_satfinite = 16;

Narrowing narrowing(const Op& op) {
  return {static_cast<Rounding>(op.mode & 7), (op.mode & mode_satfinite) != 0,
          (op.mode & mode_relu) != 0};
}

template <const FloatFormat& format>
Flow narrow_pair(Warp& warp, const Op& op) {
  const Row<float> a = warp.row<float>(op.a);
  const Row<float> b = warp.row<float>(op.b);
  const Row<u32> d = warp.row<u32>(op.d);
  const Narrowing how = narrowing(op);
  for_each_lane(warp.lanes, [&](int i) {
    d.set(i, static_cast<u32>(narrow(format, a[i], how) << 16 | narrow(format, b[i], how)));
  });
  return Flow::next;
}

Flow to_tf32(Warp& warp, const Op& op) {
  const Row<float> a = warp.row<float>(op.a);
  const Row<u32> d = warp.row<u32>(op.d);
  const Narrowing how = narrowing(op);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, f32_to_tf32(a[i], how)); });
  return Flow::next;
}

template <u16 (*function)(float, float, bool)>
Flow to_8_bits(Warp& warp, const Op& op) {
  const Row<float> a = warp.row<float>(op.a);
  const Row<float> b = warp.row<float>(op.b);
  const Row<u16> d = warp.row<u16>(op.d);
  for_each_lane(warp.lanes,
                [&](int i) { d.set(i, function(a[i], b[i], (op.mode & mode_relu) != 0)); });
  return Flow::next;
}

template <class D, class S, D (*function)(S, bool)>
Flow repack(Warp& warp, const Op& op) {
  const Row<S> a = warp.row<S>(op.a);
  const Row<D> d = warp.row<D>(op.d);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, function(a[i], (op.mode & mode_relu) != 0)); });
  return Flow::next;
}

void build_narrowing(InstructionDecoder& d) {
  d.op.mode = static_cast<u8>(d.choose({"rn", "rz", "rm", "rp", "rna"}, 0));
  if (d.has("relu")) d.op.mode |= mode_relu;
  if (d.has("satfinite")) d.op.mode |= mode_satfinite;
}

#define INTEGER "u8|u16|u32|u64|s8|s16|s32|s64"
#define FLOAT "f16|bf16|f32|f64"

constexpr Opcode table[] = {
    {"cvt.f32.bf16", "d32 s16", unary<Bf16ToF32, float, u16>},
    {"cvt.rn.bf16.f32", "d16 f32", unary<F32ToBf16, u16, float>},
    {"cvt.rn.bf16x2.f32", "d32 f32 f32", binary<F32ToBf16x2, u32, float>},
    {"cvt.rn.f32.s32", "d32 s32", unary<SignedToF32, float, s32>},
    {"cvt.rn.f32.u32", "d32 s32", unary<UnsignedToF32, float, u32>},

    {"cvt.?sat." INTEGER "." INTEGER, {}, nullptr, build_cvt},
    {"cvt.?rni|rzi|rmi|rpi.?ftz.?sat." INTEGER "." FLOAT, {}, nullptr, build_cvt},
    {"cvt.rn|rz|rm|rp.?ftz.?sat." FLOAT "." INTEGER, {}, nullptr, build_cvt},
    {"cvt.?rn|rz|rm|rp|rna|rni|rzi|rmi|rpi.?ftz.?relu.?satfinite|sat." FLOAT "." FLOAT,
     {},
     nullptr,
     build_cvt},

    {"cvt.rn|rz.?relu.?satfinite.f16x2.f32", "d32 f32 f32", narrow_pair<format::f16>,
     build_narrowing},
    {"cvt.rn|rz.?relu.?satfinite.bf16x2.f32", "d32 f32 f32", narrow_pair<format::bf16>,
     build_narrowing},
    {"cvt.rna|rn|rz.?satfinite.?relu.?satfinite.tf32.f32", "d32 f32", to_tf32, build_narrowing},
    {"cvt.rn.satfinite.?relu.e4m3x2.f32", "d16 f32 f32", to_8_bits<f32_to_e4m3x2>, build_narrowing},
    {"cvt.rn.satfinite.?relu.e5m2x2.f32", "d16 f32 f32", to_8_bits<f32_to_e5m2x2>, build_narrowing},
    {"cvt.rn.satfinite.?relu.e4m3x2.f16x2", "d16 s32", repack<u16, u32, f16x2_to_e4m3x2>,
     build_narrowing},
    {"cvt.rn.satfinite.?relu.e5m2x2.f16x2", "d16 s32", repack<u16, u32, f16x2_to_e5m2x2>,
     build_narrowing},
    {"cvt.rn.?relu.f16x2.e4m3x2", "d32 s16", repack<u32, u16, e4m3x2_to_f16x2>, build_narrowing},
    {"cvt.rn.?relu.f16x2.e5m2x2", "d32 s16", repack<u32, u16, e5m2x2_to_f16x2>, build_narrowing},
};

#undef INTEGER
#undef FLOAT

}  // namespace

std::span<const Opcode> conversion_opcodes() {
  return table;
}

}  // namespace emulator

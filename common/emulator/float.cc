// f32 and f64 arithmetic. PTX ISA 9.7.3.
//
// The common forms (.rn, with and without .ftz) run over whole rows; directed roundings and .sat go
// lane by lane through formats.h.
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>

#include "common/emulator/approximations.h"
#include "common/emulator/arithmetic.h"
#include "common/emulator/decode.h"
#include "common/emulator/formats.h"
#include "common/emulator/opcode.h"

namespace emulator {

namespace {

/// As flush_subnormal, in a form that vectorizes.
inline float flush(float value) {
  return std::fabs(value) < FLT_MIN ? std::copysign(0.0f, value) : value;
}
/// As canonical, likewise.
inline float tidy(float value) {
  return value == value ? value : std::bit_cast<float>(0x7FFFFFFFu);
}

struct Add {
  static float of(float a, float b) { return a + b; }
};
struct Subtract {
  static float of(float a, float b) { return a - b; }
};
struct Multiply {
  static float of(float a, float b) { return a * b; }
};
struct Divide {
  static float of(float a, float b) { return a / b; }
};

template <class Operation, bool ftz>
struct Rounded {
  float operator()(float a, float b) const {
    if (!ftz) return tidy(Operation::of(a, b));
    return flush(tidy(Operation::of(flush(a), flush(b))));
  }
};
template <bool ftz>
struct FusedMultiplyAdd {
  float operator()(float a, float b, float c) const {
    if (!ftz) return tidy(std::fma(a, b, c));
    return flush(tidy(std::fma(flush(a), flush(b), flush(c))));
  }
};

// ---- Other roundings. Op::mode: the Rounding, plus these.

constexpr u8 mode_ftz = 8;
constexpr u8 mode_sat = 16;

F32Mode f32_mode(const Op& op) {
  return {static_cast<Rounding>(op.mode & 7), (op.mode & mode_ftz) != 0, (op.mode & mode_sat) != 0};
}

template <float (*function)(float, F32Mode)>
Flow unary_f32(Warp& warp, const Op& op) {
  const Row<float> a = warp.row<float>(op.a);
  const Row<float> d = warp.row<float>(op.d);
  const F32Mode mode = f32_mode(op);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, function(a[i], mode)); });
  return Flow::next;
}
template <float (*function)(float, float, F32Mode)>
Flow binary_f32(Warp& warp, const Op& op) {
  const Row<float> a = warp.row<float>(op.a);
  const Row<float> b = warp.row<float>(op.b);
  const Row<float> d = warp.row<float>(op.d);
  const F32Mode mode = f32_mode(op);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, function(a[i], b[i], mode)); });
  return Flow::next;
}
template <float (*function)(float, float, float, F32Mode)>
Flow ternary_f32(Warp& warp, const Op& op) {
  const Row<float> a = warp.row<float>(op.a);
  const Row<float> b = warp.row<float>(op.b);
  const Row<float> c = warp.row<float>(op.c);
  const Row<float> d = warp.row<float>(op.d);
  const F32Mode mode = f32_mode(op);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, function(a[i], b[i], c[i], mode)); });
  return Flow::next;
}
float subtract_f32(float a, float b, F32Mode mode) {
  return add_f32(a, -b, mode);
}

void build_mode(InstructionDecoder& d) {
  d.op.mode = static_cast<u8>(d.choose({"rn", "rz", "rm", "rp"}, 0));
  if (d.has("ftz")) d.op.mode |= mode_ftz;
  if (d.has("sat")) d.op.mode |= mode_sat;
}

// ---- Approximations. Op::mode: .ftz.

template <float (*function)(float, bool)>
Flow approximate(Warp& warp, const Op& op) {
  const Row<float> a = warp.row<float>(op.a);
  const Row<float> d = warp.row<float>(op.d);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, function(a[i], op.mode != 0)); });
  return Flow::next;
}
template <float (*function)(float, float, bool)>
Flow approximate(Warp& warp, const Op& op) {
  const Row<float> a = warp.row<float>(op.a);
  const Row<float> b = warp.row<float>(op.b);
  const Row<float> d = warp.row<float>(op.d);
  for_each_lane(warp.lanes, [&](int i) { d.set(i, function(a[i], b[i], op.mode != 0)); });
  return Flow::next;
}
struct Tanh {
  float operator()(float a) const { return tanh_approx(a); }
};

void build_ftz(InstructionDecoder& d) {
  d.op.mode = d.has("ftz") ? 1 : 0;
}

// ---- Signs, minima, maxima.

struct ClearSign {
  template <class T>
  T operator()(T a) const {
    return T(a & T(~T{0}) >> 1);
  }
};
struct FlipSign {
  template <class T>
  T operator()(T a) const {
    return T(a ^ T(T{1} << (8 * sizeof(T) - 1)));
  }
};
template <class Function>
struct OnFlushed {
  u32 operator()(u32 a) const {
    return std::bit_cast<u32>(flush(std::bit_cast<float>(Function{}(a))));
  }
};
/// copysign d, a, b: the sign of a, the magnitude of b.
struct CopySign {
  template <class T>
  T operator()(T a, T b) const {
    constexpr T sign = T{1} << (8 * sizeof(T) - 1);
    return (a & sign) | (b & ~sign);
  }
};

/// -0 < +0. Of a NaN and a number the number, or NaN if `propagates`.
template <bool maximum, bool ftz, bool propagates>
struct Extreme {
  float operator()(float a, float b) const {
    if (ftz) {
      a = flush(a);
      b = flush(b);
    }
    const u32 x = std::bit_cast<u32>(a), y = std::bit_cast<u32>(b);
    // Equal numbers differ in the sign of zero at most.
    const float same = std::bit_cast<float>(maximum ? x & y : x | y);
    const bool a_wins = maximum ? a > b : a < b;
    float result = a == b ? same : a_wins ? a : b;
    const bool a_nan = a != a, b_nan = b != b;
    if (propagates) return a_nan || b_nan ? std::bit_cast<float>(0x7FFFFFFFu) : result;
    result = a_nan ? b : result;
    result = b_nan ? a : result;
    return tidy(result);
  }
};
/// testp: what kind of number. Op::mode is the index below.
template <class T>
Flow test_property(Warp& warp, const Op& op) {
  const Row<T> a = warp.row<T>(op.a);
  warp.set_predicate(op.d, where([&](int i) {
                       const int kind = std::fpclassify(a[i]);
                       switch (op.mode) {
                         case 0:
                           return std::isfinite(a[i]);
                         case 1:
                           return kind == FP_INFINITE;
                         case 2:
                           return kind != FP_NAN;
                         case 3:
                           return kind == FP_NAN;
                         case 4:
                           return kind == FP_NORMAL;
                         default:
                           return kind == FP_SUBNORMAL;
                       }
                     }));
  return Flow::next;
}
void build_testp(InstructionDecoder& d) {
  d.op.mode = static_cast<u8>(
      d.choose({"finite", "infinite", "number", "notanumber", "normal", "subnormal"}));
}

// ---- f64. NaN is whatever the host makes of it: the ISA keeps payloads here.

struct Add64 {
  double operator()(double a, double b) const { return a + b; }
};
struct Subtract64 {
  double operator()(double a, double b) const { return a - b; }
};
struct Multiply64 {
  double operator()(double a, double b) const { return a * b; }
};
struct Divide64 {
  double operator()(double a, double b) const { return a / b; }
};
struct FusedMultiplyAdd64 {
  double operator()(double a, double b, double c) const { return std::fma(a, b, c); }
};
struct Reciprocal64 {
  double operator()(double a) const { return 1 / a; }
};
struct SquareRoot64 {
  double operator()(double a) const { return std::sqrt(a); }
};
/// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 keep the upper 32 bits of the result.
inline double upper_half(double value) {
  return std::bit_cast<double>(std::bit_cast<u64>(value) & 0xFFFFFFFF00000000u);
}
struct ReciprocalApproximate64 {
  double operator()(double a) const { return upper_half(1 / upper_half(a)); }
};
struct ReciprocalSquareRoot64 {
  double operator()(double a) const { return upper_half(1 / std::sqrt(upper_half(a))); }
};
struct Minimum64 {
  double operator()(double a, double b) const { return minimum(a, b); }
};
struct Maximum64 {
  double operator()(double a, double b) const { return maximum(a, b); }
};

template <class Operation, bool ftz>
constexpr Handler rounded = binary<Rounded<Operation, ftz>, float, float>;
template <bool maximum, bool ftz, bool propagates>
constexpr Handler extreme = binary<Extreme<maximum, ftz, propagates>, float, float>;
constexpr Opcode table[] = {
    {"add.?rn.f32", "d32 f32 f32", rounded<Add, false>},
    {"add.?rn.ftz.f32", "d32 f32 f32", rounded<Add, true>},
    {"add.?rn|rz|rm|rp.?ftz.?sat.f32", "d32 f32 f32", binary_f32<add_f32>, build_mode},
    {"sub.?rn.f32", "d32 f32 f32", rounded<Subtract, false>},
    {"sub.?rn.ftz.f32", "d32 f32 f32", rounded<Subtract, true>},
    {"sub.?rn|rz|rm|rp.?ftz.?sat.f32", "d32 f32 f32", binary_f32<subtract_f32>, build_mode},
    {"mul.?rn.f32", "d32 f32 f32", rounded<Multiply, false>},
    {"mul.?rn.ftz.f32", "d32 f32 f32", rounded<Multiply, true>},
    {"mul.?rn|rz|rm|rp.?ftz.?sat.f32", "d32 f32 f32", binary_f32<mul_f32>, build_mode},
    {"fma|mad.rn.f32", "d32 f32 f32 f32", ternary<FusedMultiplyAdd<false>, float, float>},
    {"fma|mad.rn.ftz.f32", "d32 f32 f32 f32", ternary<FusedMultiplyAdd<true>, float, float>},
    {"fma|mad.rn|rz|rm|rp.?ftz.?sat.f32", "d32 f32 f32 f32", ternary_f32<fma_f32>, build_mode},

    {"div.rn.f32", "d32 f32 f32", rounded<Divide, false>},
    {"div.rn.ftz.f32", "d32 f32 f32", rounded<Divide, true>},
    {"div.rz|rm|rp.?ftz.f32", "d32 f32 f32", binary_f32<div_f32>, build_mode},
    {"div.approx.?ftz.f32", "d32 f32 f32", approximate<div_approx>, build_ftz},
    {"div.full.?ftz.f32", "d32 f32 f32", approximate<div_full>, build_ftz},
    {"rcp.rn|rz|rm|rp.?ftz.f32", "d32 f32", unary_f32<rcp_f32>, build_mode},
    {"rcp.approx.?ftz.f32", "d32 f32", approximate<rcp_approx>, build_ftz},
    {"sqrt.rn|rz|rm|rp.?ftz.f32", "d32 f32", unary_f32<sqrt_f32>, build_mode},
    {"sqrt.approx.?ftz.f32", "d32 f32", approximate<sqrt_approx>, build_ftz},
    {"rsqrt.approx.?ftz.f32", "d32 f32", approximate<rsqrt_approx>, build_ftz},
    {"sin.approx.?ftz.f32", "d32 f32", approximate<sin_approx>, build_ftz},
    {"cos.approx.?ftz.f32", "d32 f32", approximate<cos_approx>, build_ftz},
    {"lg2.approx.?ftz.f32", "d32 f32", approximate<lg2_approx>, build_ftz},
    {"ex2.approx.?ftz.f32", "d32 f32", approximate<ex2_approx>, build_ftz},
    {"tanh.approx.f32", "d32 f32", unary_by_lane<Tanh, float, float>},

    {"abs.f32", "d32 f32", unary<ClearSign, u32, u32>},
    {"abs.ftz.f32", "d32 f32", unary<OnFlushed<ClearSign>, u32, u32>},
    {"abs.f64", "d64 f64", unary<ClearSign, u64, u64>},
    {"neg.f32", "d32 f32", unary<FlipSign, u32, u32>},
    {"neg.ftz.f32", "d32 f32", unary<OnFlushed<FlipSign>, u32, u32>},
    {"neg.f64", "d64 f64", unary<FlipSign, u64, u64>},
    {"copysign.f32", "d32 f32 f32", binary<CopySign, u32, u32>},
    {"copysign.f64", "d64 f64 f64", binary<CopySign, u64, u64>},
    {"min.f32", "d32 f32 f32", extreme<false, false, false>},
    {"min.ftz.f32", "d32 f32 f32", extreme<false, true, false>},
    {"min.NaN.f32", "d32 f32 f32", extreme<false, false, true>},
    {"min.ftz.NaN.f32", "d32 f32 f32", extreme<false, true, true>},
    {"max.f32", "d32 f32 f32", extreme<true, false, false>},
    {"max.ftz.f32", "d32 f32 f32", extreme<true, true, false>},
    {"max.NaN.f32", "d32 f32 f32", extreme<true, false, true>},
    {"max.ftz.NaN.f32", "d32 f32 f32", extreme<true, true, true>},
    {"testp.finite|infinite|number|notanumber|normal|subnormal.f32", "p1 f32", test_property<float>,
     build_testp},
    {"testp.finite|infinite|number|notanumber|normal|subnormal.f64", "p1 f64",
     test_property<double>, build_testp},

    {"add.?rn.f64", "d64 f64 f64", binary<Add64, double, double>},
    {"sub.?rn.f64", "d64 f64 f64", binary<Subtract64, double, double>},
    {"mul.?rn.f64", "d64 f64 f64", binary<Multiply64, double, double>},
    {"div.rn.f64", "d64 f64 f64", binary<Divide64, double, double>},
    {"fma|mad.rn.f64", "d64 f64 f64 f64", ternary<FusedMultiplyAdd64, double, double>},
    {"rcp.rn.f64", "d64 f64", unary<Reciprocal64, double, double>},
    {"rcp.approx.ftz.f64", "d64 f64", unary_by_lane<ReciprocalApproximate64, double, double>},
    {"rsqrt.approx.ftz.f64", "d64 f64", unary_by_lane<ReciprocalSquareRoot64, double, double>},
    {"sqrt.rn.f64", "d64 f64", unary_by_lane<SquareRoot64, double, double>},
    {"min.f64", "d64 f64 f64", binary_by_lane<Minimum64, double, double>},
    {"max.f64", "d64 f64 f64", binary_by_lane<Maximum64, double, double>},
};

}  // namespace

std::span<const Opcode> float_opcodes() {
  return table;
}

}  // namespace emulator

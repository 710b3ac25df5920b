// Comparisons and selections. PTX ISA 9.7.6, 9.7.7.
#include <string_view>

#include "common/emulator/arithmetic.h"
#include "common/emulator/decode.h"
#include "common/emulator/formats.h"
#include "common/emulator/opcode.h"

namespace emulator {

namespace {

enum class Comparison : u8 { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

template <class T>
bool unordered(T a, T b) {
  return a != a || b != b;
}

/// Ordered comparisons are false for NaN; those that end in u are true.
template <Comparison comparison>
struct Compare {
  template <class T>
  bool operator()(T a, T b) const {
    switch (comparison) {
      case Comparison::eq:
        return a == b;
      case Comparison::ne:
        return a < b || a > b;
      case Comparison::lt:
        return a < b;
      case Comparison::le:
        return a <= b;
      case Comparison::gt:
        return a > b;
      case Comparison::ge:
        return a >= b;
      case Comparison::equ:
        return !(a < b || a > b);
      case Comparison::neu:
        return a != b;
      case Comparison::ltu:
        return !(a >= b);
      case Comparison::leu:
        return !(a > b);
      case Comparison::gtu:
        return !(a <= b);
      case Comparison::geu:
        return !(a < b);
      case Comparison::num:
        return !unordered(a, b);
      case Comparison::nan:
        return unordered(a, b);
    }
    return false;
  }
};
template <Comparison comparison>
struct CompareFlushed {
  bool operator()(float a, float b) const {
    return Compare<comparison>{}(flush_subnormal(a), flush_subnormal(b));
  }
};
template <Comparison comparison, const FloatFormat& format>
struct CompareHalf {
  bool operator()(u16 a, u16 b) const {
    return Compare<comparison>{}(widen(format, a), widen(format, b));
  }
};

/// Op::mode of setp: how the comparison and the predicate c make the result.
enum Combination : u8 { plain, with_and, with_or, with_xor };

LaneMask combine(u8 mode, LaneMask compared, LaneMask c) {
  switch (mode) {
    case with_and:
      return compared & c;
    case with_or:
      return compared | c;
    case with_xor:
      return compared ^ c;
    default:
      return compared;
  }
}

template <class Function, class T>
EMULATOR_VECTORIZED Flow set_predicate(Warp& warp, const Op& op) {
  const Row<T> a = warp.row<T>(op.a);
  const Row<T> b = warp.row<T>(op.b);
  const LaneMask compared = where([=](int i) { return Function{}(a[i], b[i]); });
  if (op.mode == plain && op.d2 == no_slot) {
    warp.set_predicate(op.d, compared);
    return Flow::next;
  }
  LaneMask c = op.c != no_slot ? warp.predicate(op.c) : 0;
  if (op.negated) c = ~c;
  warp.set_predicate(op.d, combine(op.mode, compared, c));
  if (op.d2 != no_slot) warp.set_predicate(op.d2, combine(op.mode, ~compared, c));
  return Flow::next;
}

/// One handler a comparison, in the order of Comparison.
template <class T>
constexpr Handler integer_handlers[] = {
    set_predicate<Compare<Comparison::eq>, T>, set_predicate<Compare<Comparison::ne>, T>,
    set_predicate<Compare<Comparison::lt>, T>, set_predicate<Compare<Comparison::le>, T>,
    set_predicate<Compare<Comparison::gt>, T>, set_predicate<Compare<Comparison::ge>, T>,
};

template <template <Comparison> class Function, class T>
constexpr Handler float_handlers[] = {
    set_predicate<Function<Comparison::eq>, T>,  set_predicate<Function<Comparison::ne>, T>,
    set_predicate<Function<Comparison::lt>, T>,  set_predicate<Function<Comparison::le>, T>,
    set_predicate<Function<Comparison::gt>, T>,  set_predicate<Function<Comparison::ge>, T>,
    set_predicate<Function<Comparison::equ>, T>, set_predicate<Function<Comparison::neu>, T>,
    set_predicate<Function<Comparison::ltu>, T>, set_predicate<Function<Comparison::leu>, T>,
    set_predicate<Function<Comparison::gtu>, T>, set_predicate<Function<Comparison::geu>, T>,
    set_predicate<Function<Comparison::num>, T>, set_predicate<Function<Comparison::nan>, T>,
};
template <Comparison comparison>
using CompareF16 = CompareHalf<comparison, format::f16>;
template <Comparison comparison>
using CompareBf16 = CompareHalf<comparison, format::bf16>;

/// The unsigned comparisons have names of their own.
int comparison_of(const InstructionDecoder& d) {
  const int unsigned_name = d.choose({"lo", "ls", "hi", "hs"});
  if (unsigned_name >= 0) return static_cast<int>(Comparison::lt) + unsigned_name;
  return d.choose(
      {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
}

Handler comparison_handler(std::string_view type, bool flushes, int comparison) {
  if (type == "f32") {
    return flushes ? float_handlers<CompareFlushed, float>[comparison]
                   : float_handlers<Compare, float>[comparison];
  }
  if (type == "f64") return float_handlers<Compare, double>[comparison];
  if (type == "f16") return float_handlers<CompareF16, u16>[comparison];
  if (type == "bf16") return float_handlers<CompareBf16, u16>[comparison];
  if (comparison > static_cast<int>(Comparison::ge)) return nullptr;
  if (type == "u16") return integer_handlers<u16>[comparison];
  if (type == "s16") return integer_handlers<s16>[comparison];
  if (type == "u32") return integer_handlers<u32>[comparison];
  if (type == "s32") return integer_handlers<s32>[comparison];
  if (type == "u64") return integer_handlers<u64>[comparison];
  if (type == "s64") return integer_handlers<s64>[comparison];
  if (comparison > static_cast<int>(Comparison::ne)) return nullptr;
  if (type == "b16") return integer_handlers<u16>[comparison];
  if (type == "b32") return integer_handlers<u32>[comparison];
  if (type == "b64") return integer_handlers<u64>[comparison];
  return nullptr;
}

void build_setp(InstructionDecoder& d) {
  d.op.mode = static_cast<u8>(d.choose({"and", "or", "xor"}) + 1);
  const std::size_t operands = d.op.mode == plain ? 3 : 4;
  d.expect_operands(operands, operands);
  const DataType type = data_type(d.part(-1));
  const Literal literal = literal_of(d.part(-1));
  const auto pair = d.destination_pair(d.operand(0), 1, 1);
  d.op.d = pair.first;
  d.op.d2 = pair.second;
  d.op.a = d.source(d.operand(1), type.bits, literal);
  d.op.b = d.source(d.operand(2), type.bits, literal);
  if (operands == 4) d.op.c = d.predicate(d.operand(3));
  d.op.run = comparison_handler(d.part(-1), d.has("ftz"), comparison_of(d));
  if (d.op.run == nullptr) d.fail("compares in a way that its type does not have");
}

// ---- set: the comparison as a number. Op::mode is the comparison.

bool compare_by(u8 comparison, double a, double b) {
  switch (static_cast<Comparison>(comparison)) {
    case Comparison::eq:
      return Compare<Comparison::eq>{}(a, b);
    case Comparison::ne:
      return Compare<Comparison::ne>{}(a, b);
    case Comparison::lt:
      return a < b;
    case Comparison::le:
      return a <= b;
    case Comparison::gt:
      return a > b;
    case Comparison::ge:
      return a >= b;
    case Comparison::equ:
      return Compare<Comparison::equ>{}(a, b);
    case Comparison::neu:
      return a != b;
    case Comparison::ltu:
      return !(a >= b);
    case Comparison::leu:
      return !(a > b);
    case Comparison::gtu:
      return !(a <= b);
    case Comparison::geu:
      return !(a < b);
    case Comparison::num:
      return !unordered(a, b);
    case Comparison::nan:
      return unordered(a, b);
  }
  return false;
}

/// `op.immediate` is what true is, of one half or of the whole; false is 0.
template <const FloatFormat& format>
Flow set_pair(Warp& warp, const Op& op) {
  const Row<u32> a = warp.row<u32>(op.a);
  const Row<u32> b = warp.row<u32>(op.b);
  const auto yes = static_cast<u32>(op.immediate);
  assign_lanes(warp.lanes, warp.row<u32>(op.d), [=](int i) {
    const auto half = [=](int shift) {
      const double x = widen(format, u16(a[i] >> shift));
      const double y = widen(format, u16(b[i] >> shift));
      return compare_by(op.mode, x, y) ? yes << shift : 0;
    };
    return half(16) | half(0);
  });
  return Flow::next;
}

template <const FloatFormat& format, class D>
Flow set_half(Warp& warp, const Op& op) {
  const Row<u16> a = warp.row<u16>(op.a);
  const Row<u16> b = warp.row<u16>(op.b);
  const auto yes = static_cast<D>(op.immediate);
  assign_lanes(warp.lanes, warp.row<D>(op.d), [=](int i) {
    return compare_by(op.mode, widen(format, a[i]), widen(format, b[i])) ? yes : D{0};
  });
  return Flow::next;
}

/// 32-bit sources: every value is a double.
template <class S>
Flow set_number(Warp& warp, const Op& op) {
  const Row<S> a = warp.row<S>(op.a);
  const Row<S> b = warp.row<S>(op.b);
  const auto yes = static_cast<u32>(op.immediate);
  assign_lanes(warp.lanes, warp.row<u32>(op.d),
               [=](int i) { return compare_by(op.mode, a[i], b[i]) ? yes : 0u; });
  return Flow::next;
}

void build_set(InstructionDecoder& d) {
  d.expect_operands(3, 3);
  const std::string_view to = d.part(-2);
  const std::string_view from = d.part(-1);
  const int bits = data_type(from).bits;
  d.op.mode = static_cast<u8>(comparison_of(d));
  d.op.a = d.source(d.operand(1), bits);
  d.op.b = d.source(d.operand(2), bits);
  d.op.d = d.destination(d.operand(0), data_type(to).bits);
  const bool by_halves = from.ends_with("x2") || data_type(to).bits == 16;
  d.op.immediate = to == "f32"              ? 0x3F800000
                   : to.starts_with("bf16") ? 0x3F80
                   : to.starts_with("f16")  ? 0x3C00
                   : by_halves              ? 0xFFFF
                                            : 0xFFFFFFFF;
  const bool wide = data_type(to).bits == 32;
  d.op.run = from == "f16x2"    ? set_pair<format::f16>
             : from == "bf16x2" ? set_pair<format::bf16>
             : from == "f16"    ? (wide ? set_half<format::f16, u32> : set_half<format::f16, u16>)
             : from == "bf16"   ? (wide ? set_half<format::bf16, u32> : set_half<format::bf16, u16>)
             : from == "f32"    ? set_number<float>
             : from == "s32"    ? set_number<s32>
                                : set_number<u32>;
}

// ---- Selections.

template <class T>
EMULATOR_VECTORIZED Flow select_by_predicate(Warp& warp, const Op& op) {
  const Row<T> a = warp.row<T>(op.a);
  const Row<T> b = warp.row<T>(op.b);
  const LaneMask c = op.negated ? ~warp.predicate(op.c) : warp.predicate(op.c);
  assign_lanes(warp.lanes, warp.row<T>(op.d),
               [=](int i) { return (c & lane_bit(i)) != 0 ? a[i] : b[i]; });
  return Flow::next;
}

struct SelectBySign {
  template <class T, class C>
  T operator()(T a, T b, C c) const {
    return c >= 0 ? a : b;
  }
};

#define INTEGER_COMPARISON "eq|ne|lt|le|gt|ge|lo|ls|hi|hs"
#define COMPARISON INTEGER_COMPARISON "|equ|neu|ltu|leu|gtu|geu|num|nan"

constexpr Opcode table[] = {
    {"setp." COMPARISON ".?and|or|xor.?ftz.f16|bf16|f32|f64", {}, nullptr, build_setp},
    {"setp." INTEGER_COMPARISON ".?and|or|xor.b16|b32|b64|u16|u32|u64|s16|s32|s64",
     {},
     nullptr,
     build_setp},
    {"set." COMPARISON ".?ftz.u32|s32|f32.f32|f16|bf16|f16x2|bf16x2", {}, nullptr, build_set},
    {"set." COMPARISON ".?ftz.u16|s16|f16.f16", {}, nullptr, build_set},
    {"set." COMPARISON ".u16|s16|bf16.bf16", {}, nullptr, build_set},
    {"set." COMPARISON ".?ftz.f16x2.f16x2", {}, nullptr, build_set},
    {"set." COMPARISON ".bf16x2.bf16x2", {}, nullptr, build_set},
    {"set." INTEGER_COMPARISON ".u32|s32|f32.u32|s32|b32", {}, nullptr, build_set},

    {"selp.b16|u16|s16", "d16 s16 s16 n1", select_by_predicate<u16>},
    {"selp.b32|u32|s32", "d32 s32 s32 n1", select_by_predicate<u32>},
    {"selp.f32", "d32 f32 f32 n1", select_by_predicate<u32>},
    {"selp.b64|u64|s64", "d64 s64 s64 n1", select_by_predicate<u64>},
    {"selp.f64", "d64 f64 f64 n1", select_by_predicate<u64>},
    {"slct.b32|u32|s32.s32", "d32 s32 s32 s32", ternary<SelectBySign, u32, u32, u32, s32>},
    {"slct.f32.s32", "d32 f32 f32 s32", ternary<SelectBySign, u32, u32, u32, s32>},
    {"slct.?ftz.f32.f32", "d32 f32 f32 f32", ternary<SelectBySign, u32, u32, u32, float>},
    {"slct.b64|u64|s64.s32", "d64 s64 s64 s32", ternary<SelectBySign, u64, u64, u64, s32>},
};

#undef INTEGER_COMPARISON
#undef COMPARISON

}  // namespace

std::span<const Opcode> comparison_opcodes() {
  return table;
}

}  // namespace emulator

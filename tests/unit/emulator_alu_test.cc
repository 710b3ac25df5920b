// Every ALU instruction on known values: whole warps, and some lanes of them.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/emulator_lab.h"
#include "tests/unit/message.h"

namespace {

using emulator::Outcome;

/// An instruction, the bits of its operands (destination first; 1: a predicate), what they hold,
/// and what the destination must hold. `tail` is what is written behind the operands.
struct Case {
  std::string opcode;
  std::vector<int> bits;
  std::vector<std::uint64_t> sources;
  std::uint64_t expected;
  std::string tail = "";
};

/// A kernel that runs the instruction in the lanes of `mask`. Every lane stores the destination,
/// which holds `untouched` where the instruction does not run.
std::string text_of(const Case& c, std::uint32_t mask, std::uint64_t untouched) {
  std::string body;
  std::string operands;
  for (std::size_t i = 0; i < c.bits.size(); ++i) {
    const std::string index = std::to_string(i);
    const int bits = c.bits[i];
    const std::uint64_t value = i == 0 ? untouched : c.sources[i - 1];
    body += ".reg .b64 %w" + index + ";\nmov.b64 %w" + index + ", " + std::to_string(value) + ";\n";
    if (bits == 1) {
      body += ".reg .pred %o" + index + ";\nsetp.ne.u64 %o" + index + ", %w" + index + ", 0;\n";
    } else {
      body += ".reg .b" + std::to_string(bits) + " %o" + index + ";\n";
      body += bits == 64
                  ? "mov.b64 %o" + index + ", %w" + index + ";\n"
                  : "cvt.u" + std::to_string(bits) + ".u64 %o" + index + ", %w" + index + ";\n";
    }
    operands += (i == 0 ? " " : ", ") + std::string("%o") + index;
  }
  const int bits = c.bits[0];
  body += "mov.u32 %r0, 1;\nshl.b32 %r0, %r0, %tid;\nand.b32 %r0, %r0, " + std::to_string(mask) +
          ";\nsetp.ne.u32 %p0, %r0, 0;\n";
  body += "@%p0 " + c.opcode + operands + c.tail + ";\n";
  body += bits == 1    ? "selp.u64 %rd0, 1, 0, %o0;\n"
          : bits == 64 ? "mov.b64 %rd0, %o0;\n"
                       : "cvt.u64.u" + std::to_string(bits) + " %rd0, %o0;\n";
  body += "mul.wide.u32 %rd1, %tid, 8;\nadd.s64 %rd1, %rd1, %out;\nst.global.u64 [%rd1], %rd0;";
  return lab::kernel_text({"out"}, body);
}

void check(const Case& c) {
  for (const std::uint32_t mask : {0xFFFFFFFFu, 0x80F0C003u}) {
    const std::uint64_t untouched = 1;
    lab::Lab machine;
    auto* const out = machine.array<std::uint64_t>(32);
    const Outcome outcome = machine.launch(text_of(c, mask, untouched), lab::geometry(1, 32), out);
    INFO(c.opcode << c.tail);
    REQUIRE(lab::finding(outcome) == "");
    for (int lane = 0; lane < 32; ++lane) {
      INFO("lane " << lane << " of mask " << std::hex << mask);
      REQUIRE(out[lane] == ((mask >> lane & 1) != 0 ? c.expected : untouched));
    }
  }
}

std::uint64_t f(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
std::uint64_t d(double value) {
  return std::bit_cast<std::uint64_t>(value);
}
/// The low `bits` of a negative number.
std::uint64_t s32(int value) {
  return static_cast<std::uint32_t>(value);
}
std::uint64_t s16(int value) {
  return static_cast<std::uint16_t>(value);
}

constexpr std::uint64_t nan32 = 0x7FFFFFFF;
constexpr std::uint64_t all64 = ~std::uint64_t{0};
const float inf = std::numeric_limits<float>::infinity();
constexpr float tiny = 0x1p-140f;  // subnormal

const std::vector<int> u16{16, 16, 16}, u32{32, 32, 32}, u64{64, 64, 64};
const std::vector<int> u32x3{32, 32, 32, 32}, u64x3{64, 64, 64, 64};

}  // namespace

TEST_CASE("integer arithmetic", "[emulator]") {
  const std::vector<Case> cases{
      {"add.s32", u32, {0x7FFFFFFF, 1}, 0x80000000},
      {"add.u16", u16, {0xFFFF, 2}, 1},
      {"add.s64", u64, {all64, 2}, 1},
      {"add.sat.s32", u32, {0x7FFFFFFF, 1}, 0x7FFFFFFF},
      {"add.u16x2", u32, {0xFFFF0001, 0x00020003}, 0x00010004},
      {"sub.s32", u32, {3, 5}, s32(-2)},
      {"sub.sat.s32", u32, {0x80000000, 1}, 0x80000000},
      {"sub.s16", u16, {3, 5}, s16(-2)},
      {"mul.lo.s32", u32, {s32(-3), 7}, s32(-21)},
      {"mul.lo.s64", u64, {0x100000001, 0x100000001}, 0x200000001},
      {"mul.lo.u16", u16, {0xFFFF, 0xFFFF}, 1},
      {"mul.hi.s32", u32, {s32(-1), 2}, s32(-1)},
      {"mul.hi.u32", u32, {0xFFFFFFFF, 2}, 1},
      {"mul.hi.u64", u64, {all64, 4}, 3},
      {"mul.hi.s64", u64, {all64, 4}, all64},
      {"mul.wide.s32", {64, 32, 32}, {s32(-3), 5}, static_cast<std::uint64_t>(-15)},
      {"mul.wide.u32", {64, 32, 32}, {0xFFFFFFFF, 0xFFFFFFFF}, 0xFFFFFFFE00000001},
      {"mul.wide.s16", {32, 16, 16}, {s16(-300), 300}, s32(-90000)},
      {"mul.wide.u16", {32, 16, 16}, {0xFFFF, 0xFFFF}, 0xFFFE0001},
      {"mul24.lo.s32", u32, {0x00FFFFFF, 3}, s32(-3)},
      {"mul24.lo.u32", u32, {0x01FFFFFF, 3}, 0x02FFFFFD},
      {"mad.lo.s32", u32x3, {s32(-3), 7, 1}, s32(-20)},
      {"mad.hi.u32", u32x3, {0x80000000, 4, 5}, 7},
      {"mad.wide.s32", {64, 32, 32, 64}, {s32(-3), 5, 20}, 5},
      {"mad.wide.u16", {32, 16, 16, 32}, {1000, 1000, 5}, 1000005},
      {"div.s32", u32, {s32(-7), 2}, s32(-3)},
      {"div.s32", u32, {0x80000000, s32(-1)}, 0x80000000},
      {"div.u32", u32, {s32(-7), 2}, 0x7FFFFFFC},
      {"div.u32", u32, {7, 0}, 0xFFFFFFFF},
      {"div.s64", u64, {static_cast<std::uint64_t>(-7), 2}, static_cast<std::uint64_t>(-3)},
      {"div.u16", u16, {700, 30}, 23},
      {"rem.s32", u32, {s32(-7), 2}, s32(-1)},
      {"rem.u32", u32, {7, 4}, 3},
      {"rem.s64", u64, {static_cast<std::uint64_t>(-7), 4}, static_cast<std::uint64_t>(-3)},
      {"rem.u32", u32, {7, 0}, 7},
      {"neg.s32", {32, 32}, {5}, s32(-5)},
      {"neg.s64", {64, 64}, {5}, static_cast<std::uint64_t>(-5)},
      {"abs.s32", {32, 32}, {s32(-5)}, 5},
      {"abs.s16", {16, 16}, {s16(-5)}, 5},
      {"abs.s64", {64, 64}, {static_cast<std::uint64_t>(-5)}, 5},
      {"min.s32", u32, {s32(-5), 3}, s32(-5)},
      {"min.u32", u32, {s32(-5), 3}, 3},
      {"max.s32", u32, {s32(-5), 3}, 3},
      {"max.u32", u32, {s32(-5), 3}, s32(-5)},
      {"max.s64", u64, {all64, 3}, 3},
      {"max.u16", u16, {65535, 3}, 65535},
      {"min.s16x2", u32, {0xFFFF0005, 0x00010003}, 0xFFFF0003},
      {"max.relu.s32", u32, {s32(-5), s32(-3)}, 0},
      {"sad.s32", u32x3, {s32(-5), 3, 10}, 18},
      {"sad.u32", u32x3, {5, 3, 10}, 12},
      {"dp4a.s32.s32", u32x3, {0xFF020304, 0x01020304, 100}, 128},
      {"dp4a.u32.u32", u32x3, {0xFF020304, 0x01020304, 0}, 255 + 4 + 9 + 16},
      {"dp2a.lo.s32.s32", u32x3, {0xFFFF0003, 0x0000FE02, 0}, 3 * 2 + 2},
      {"dp2a.hi.u32.u32", u32x3, {0x00020003, 0x04050000, 1}, 1 + 3 * 5 + 2 * 4},
  };
  for (const Case& c : cases) check(c);
}

TEST_CASE("extended precision keeps a carry a lane", "[emulator]") {
  lab::Lab machine;
  auto* const out = machine.array<std::uint64_t>(3 * 32);
  // 2^128 - 1 + tid, as 32 + 64 bits; and 0 - tid likewise.
  const Outcome outcome = machine.launch(lab::kernel_text({"out"}, R"(
    mov.b32 %r1, 0xFFFFFFFF;
    mov.b64 %rd1, 0xFFFFFFFFFFFFFFFF;
    add.cc.u32 %r2, %r1, %tid;
    addc.cc.u64 %rd2, %rd1, 0;
    addc.u32 %r3, 0, 0;
    sub.cc.u32 %r4, 0, %tid;
    subc.u64 %rd4, 0, 0;
    mul.wide.u32 %rd5, %tid, 24;
    add.s64 %rd5, %rd5, %out;
    cvt.u64.u32 %rd6, %r3;
    cvt.u64.u32 %rd7, %r2;
    add.s64 %rd2, %rd2, %rd7;
    st.global.u64 [%rd5], %rd2;
    st.global.u64 [%rd5+8], %rd6;
    st.global.u64 [%rd5+16], %rd4;)"),
                                         lab::geometry(1, 32), out);
  REQUIRE(lab::finding(outcome) == "");
  for (std::uint64_t t = 0; t < 32; ++t) {
    // Carry into the 64-bit part for t > 0: all ones become zero and carry on.
    REQUIRE(out[3 * t] == (t == 0 ? all64 + 0xFFFFFFFF : t - 1));
    REQUIRE(out[3 * t + 1] == (t == 0 ? 0 : 1));
    REQUIRE(out[3 * t + 2] == (t == 0 ? 0 : all64));
  }
}

TEST_CASE("bits and shifts", "[emulator]") {
  const std::vector<Case> cases{
      {"and.b32", u32, {0xF0F0, 0xFF00}, 0xF000},
      {"or.b64", u64, {0xF0F0, 0xF00000000}, 0xF0000F0F0},
      {"xor.b16", u16, {0xF0F0, 0xFF00}, 0x0FF0},
      {"not.b32", {32, 32}, {0xF0F0}, 0xFFFF0F0F},
      {"cnot.b32", {32, 32}, {0}, 1},
      {"and.pred", {1, 1, 1}, {1, 0}, 0},
      {"or.pred", {1, 1, 1}, {1, 0}, 1},
      {"xor.pred", {1, 1, 1}, {1, 1}, 0},
      {"not.pred", {1, 1}, {1}, 0},
      {"lop3.b32", u32x3, {0xF0, 0xCC, 0xAA}, 0x96, ", 0x96"},  // a ^ b ^ c: the table itself
      {"shl.b32", u32, {1, 31}, 0x80000000},
      {"shl.b32", u32, {1, 32}, 0},
      {"shl.b64", {64, 64, 32}, {1, 63}, std::uint64_t{1} << 63},
      {"shl.b16", {16, 16, 32}, {1, 15}, 0x8000},
      {"shr.u32", u32, {0x80000000, 31}, 1},
      {"shr.u32", u32, {0x80000000, 99}, 0},
      {"shr.s32", u32, {0x80000000, 99}, 0xFFFFFFFF},
      {"shr.s64", {64, 64, 32}, {std::uint64_t{1} << 63, 63}, all64},
      {"shf.l.wrap.b32", u32x3, {0x80000000, 1, 33}, 3},
      {"shf.l.clamp.b32", u32x3, {0x80000000, 1, 33}, 0x80000000},
      {"shf.r.wrap.b32", u32x3, {0x80000000, 1, 1}, 0xC0000000},
      {"shf.r.clamp.b32", u32x3, {0x80000000, 1, 40}, 1},
      {"popc.b32", {32, 32}, {0xF0F0}, 8},
      {"popc.b64", {32, 64}, {all64}, 64},
      {"clz.b32", {32, 32}, {1}, 31},
      {"clz.b64", {32, 64}, {0}, 64},
      {"brev.b32", {32, 32}, {1}, 0x80000000},
      {"brev.b64", {64, 64}, {2}, std::uint64_t{1} << 62},
      {"bfind.u32", {32, 32}, {0x1234}, 12},
      {"bfind.s32", {32, 32}, {s32(-2)}, 0},
      {"bfind.u32", {32, 32}, {0}, 0xFFFFFFFF},
      {"bfind.shiftamt.u32", {32, 32}, {0x1234}, 19},
      {"bfe.u32", u32x3, {0xABCD1234, 8, 12}, 0xD12},
      {"bfe.s32", u32x3, {0xABCD1234, 20, 12}, 0xFFFFFABC},
      {"bfe.u32", u32x3, {0xABCD1234, 28, 12}, 0xA},
      {"bfe.s32", u32x3, {0xABCD1234, 40, 4}, 0xFFFFFFFF},
      {"bfe.u64", {64, 64, 32, 32}, {0xABCD123400000000, 32, 16}, 0x1234},
      {"bfi.b32", {32, 32, 32, 32, 32}, {0xFF, 0, 4, 6}, 0x3F0},
      {"bfi.b64", {64, 64, 64, 32, 32}, {0x3, all64, 62, 2}, all64},
      {"prmt.b32", u32x3, {0x33221100, 0x77665544, 0x7160}, 0x77116600},
      {"prmt.b32", u32x3, {0x80112233, 0, 0xB333}, 0xFF808080},
      {"prmt.b32.rc16", u32x3, {0xAABBCCDD, 0, 1}, 0xAABBAABB},
      {"bmsk.clamp.b32", u32, {4, 8}, 0xFF0},
  };
  for (const Case& c : cases) check(c);
}

TEST_CASE("comparisons and selections", "[emulator]") {
  const std::vector<int> c32{1, 32, 32};
  const std::vector<Case> cases{
      {"setp.lt.s32", c32, {s32(-1), 1}, 1},
      {"setp.lt.u32", c32, {s32(-1), 1}, 0},
      {"setp.hs.u32", c32, {5, 5}, 1},
      {"setp.ne.b64", {1, 64, 64}, {std::uint64_t{1} << 40, 0}, 1},
      {"setp.ge.s16", {1, 16, 16}, {s16(-1), 0}, 0},
      {"setp.eq.f32", c32, {f(0.0f), f(-0.0f)}, 1},
      {"setp.ne.f32", c32, {nan32, f(1)}, 0},
      {"setp.neu.f32", c32, {nan32, f(1)}, 1},
      {"setp.lt.f32", c32, {nan32, f(1)}, 0},
      {"setp.ltu.f32", c32, {nan32, f(1)}, 1},
      {"setp.num.f32", c32, {f(2), f(1)}, 1},
      {"setp.nan.f32", c32, {f(2), nan32}, 1},
      {"setp.gt.f32", c32, {f(tiny), f(0)}, 1},
      {"setp.gt.ftz.f32", c32, {f(tiny), f(0)}, 0},
      {"setp.le.f64", {1, 64, 64}, {d(1), d(1)}, 1},
      {"setp.lt.f16", {1, 16, 16}, {0x3C00, 0x4000}, 1},
      {"setp.gt.bf16", {1, 16, 16}, {0x3F80, 0x4000}, 0},
      {"setp.lt.and.s32", {1, 32, 32, 1}, {1, 2, 0}, 0},
      {"setp.lt.or.s32", {1, 32, 32, 1}, {3, 2, 1}, 1},
      {"setp.lt.xor.s32", {1, 32, 32, 1}, {1, 2, 1}, 0},
      {"selp.b32", {32, 32, 32, 1}, {5, 6, 1}, 5},
      {"selp.b64", {64, 64, 64, 1}, {5, 6, 0}, 6},
      {"selp.u16", {16, 16, 16, 1}, {5, 6, 0}, 6},
      {"slct.b32.s32", u32x3, {5, 6, s32(-1)}, 6},
      {"set.lt.u32.s32", u32, {1, 2}, 0xFFFFFFFF},
      {"set.lt.f32.f32", u32, {f(1), f(2)}, f(1)},
      {"set.eq.f16.f16", u16, {0x3C00, 0x3C00}, 0x3C00},
      {"set.gt.u32.f16x2", u32, {0x40003C00, 0x3C003C00}, 0xFFFF0000},
      {"set.eq.bf16x2.bf16x2", u32, {0x3F804000, 0x3F803F80}, 0x3F800000},
  };
  for (const Case& c : cases) check(c);
}

TEST_CASE("setp writes both predicates", "[emulator]") {
  lab::Lab machine;
  auto* const out = machine.array<std::uint32_t>(32);
  const Outcome outcome = machine.launch(lab::kernel_text({"out"}, R"(
    setp.lt.u32 %p1, %tid, 20;
    setp.ge.and.u32 %p2|%p3, %tid, 10, !%p1;
    selp.u32 %r1, 1, 0, %p2;
    selp.u32 %r2, 2, 0, %p3;
    add.u32 %r1, %r1, %r2;
    mul.wide.u32 %rd1, %tid, 4;
    add.s64 %rd1, %rd1, %out;
    st.global.u32 [%rd1], %r1;)"),
                                         lab::geometry(1, 32), out);
  REQUIRE(lab::finding(outcome) == "");
  for (int t = 0; t < 32; ++t) {
    const bool c = !(t < 20);
    REQUIRE(out[t] == (t >= 10 && c ? 1u : 0u) + (!(t >= 10) && c ? 2u : 0u));
  }
}

TEST_CASE("f32 arithmetic", "[emulator]") {
  const float one_up = std::nextafter(1.0f, 2.0f);
  const std::vector<Case> cases{
      {"add.f32", u32, {f(1.5f), f(2.25f)}, f(3.75f)},
      {"add.f32", u32, {f(inf), f(-inf)}, nan32},
      {"add.rn.ftz.f32", u32, {f(tiny), f(tiny)}, f(0)},
      {"add.rz.f32", u32, {f(1), f(0x1p-24f)}, f(1)},
      {"add.rp.f32", u32, {f(1), f(0x1p-30f)}, f(one_up)},
      {"add.sat.f32", u32, {f(1), f(1)}, f(1)},
      {"sub.f32", u32, {f(1.5f), f(2.25f)}, f(-0.75f)},
      {"sub.rm.f32", u32, {f(-1), f(0x1p-30f)}, f(-one_up)},
      {"mul.f32", u32, {f(3), f(-4)}, f(-12)},
      {"mul.ftz.f32", u32, {f(tiny), f(1)}, f(0)},
      {"mul.rn.f32", u32, {f(0), f(inf)}, nan32},
      {"mul.sat.f32", u32, {f(-3), f(4)}, f(0)},
      {"fma.rn.f32", u32x3, {f(one_up), f(one_up), f(-1)}, f(std::fma(one_up, one_up, -1.0f))},
      {"mad.rn.f32", u32x3, {f(2), f(3), f(4)}, f(10)},
      {"fma.rz.f32", u32x3, {f(1), f(1), f(0x1p-30f)}, f(1)},
      {"fma.rp.f32", u32x3, {f(1), f(1), f(0x1p-30f)}, f(one_up)},
      {"fma.rn.sat.f32", u32x3, {f(2), f(3), f(4)}, f(1)},
      {"div.rn.f32", u32, {f(1), f(3)}, f(1.0f / 3)},
      {"div.approx.f32", u32, {f(6), f(3)}, f(2)},
      {"div.full.f32", u32, {f(6), f(3)}, f(2)},
      {"rcp.rn.f32", {32, 32}, {f(4)}, f(0.25f)},
      {"rcp.approx.ftz.f32", {32, 32}, {f(4)}, f(0.25f)},
      {"sqrt.rn.f32", {32, 32}, {f(2)}, f(std::sqrt(2.0f))},
      {"sqrt.approx.ftz.f32", {32, 32}, {f(16)}, f(4)},
      {"rsqrt.approx.f32", {32, 32}, {f(16)}, f(0.25f)},
      {"ex2.approx.ftz.f32", {32, 32}, {f(3)}, f(8)},
      {"lg2.approx.f32", {32, 32}, {f(8)}, f(3)},
      {"sin.approx.f32", {32, 32}, {f(0)}, f(0)},
      {"cos.approx.f32", {32, 32}, {f(0)}, f(1)},
      {"tanh.approx.f32", {32, 32}, {f(inf)}, f(1)},
      {"abs.f32", {32, 32}, {f(-2)}, f(2)},
      {"abs.ftz.f32", {32, 32}, {f(-tiny)}, f(0)},
      {"neg.f32", {32, 32}, {f(2)}, f(-2)},
      {"copysign.f32", u32, {f(-1), f(5)}, f(-5)},
      {"min.f32", u32, {f(0.0f), f(-0.0f)}, f(-0.0f)},
      {"max.f32", u32, {f(0.0f), f(-0.0f)}, f(0)},
      {"max.f32", u32, {nan32, f(2)}, f(2)},
      {"max.NaN.f32", u32, {nan32, f(2)}, nan32},
      {"min.f32", u32, {f(3), f(2)}, f(2)},
      {"testp.finite.f32", {1, 32}, {f(inf)}, 0},
      {"testp.subnormal.f32", {1, 32}, {f(tiny)}, 1},
  };
  for (const Case& c : cases) check(c);
}

TEST_CASE("f64 arithmetic", "[emulator]") {
  const std::vector<Case> cases{
      {"add.f64", u64, {d(1.5), d(2.25)}, d(3.75)},
      {"sub.rn.f64", u64, {d(1.5), d(2.25)}, d(-0.75)},
      {"mul.f64", u64, {d(3), d(-4)}, d(-12)},
      {"div.rn.f64", u64, {d(1), d(3)}, d(1.0 / 3)},
      {"fma.rn.f64", u64x3, {d(3), d(4), d(5)}, d(17)},
      {"sqrt.rn.f64", {64, 64}, {d(2)}, d(std::sqrt(2.0))},
      {"rcp.rn.f64", {64, 64}, {d(4)}, d(0.25)},
      {"min.f64", u64, {d(3), d(2)}, d(2)},
      {"max.f64", u64, {d(3), d(2)}, d(3)},
      {"neg.f64", {64, 64}, {d(2)}, d(-2)},
      {"abs.f64", {64, 64}, {d(-2)}, d(2)},
      {"copysign.f64", u64, {d(-1), d(5)}, d(-5)},
  };
  for (const Case& c : cases) check(c);
}

TEST_CASE("f16 and bf16 arithmetic", "[emulator]") {
  // f16: 1 = 3C00, 2 = 4000, 3 = 4200, 0.5 = 3800. bf16: 1 = 3F80, 2 = 4000, 3 = 4040.
  const std::vector<Case> cases{
      {"add.f16", u16, {0x3C00, 0x4000}, 0x4200},
      {"sub.f16", u16, {0x4200, 0x4000}, 0x3C00},
      {"mul.f16", u16, {0x4000, 0x3800}, 0x3C00},
      {"add.bf16", u16, {0x3F80, 0x4000}, 0x4040},
      {"mul.bf16", u16, {0x4040, 0x3F80}, 0x4040},
      {"add.f16x2", u32, {0x3C004000, 0x40003C00}, 0x42004200},
      {"sub.bf16x2", u32, {0x40404040, 0x3F804000}, 0x40003F80},
      {"fma.rn.f16", {16, 16, 16, 16}, {0x4000, 0x3C00, 0x3C00}, 0x4200},
      {"fma.rn.bf16x2", u32x3, {0x40004000, 0x3F803F80, 0x3F803F80}, 0x40404040},
      {"fma.rn.relu.f16x2", u32x3, {0xC0004000, 0x3C003C00, 0}, 0x00004000},
      {"fma.rn.sat.f16", {16, 16, 16, 16}, {0x4000, 0x3C00, 0x3C00}, 0x3C00},
      {"neg.f16x2", {32, 32}, {0x3C00C000}, 0xBC004000},
      {"abs.bf16x2", {32, 32}, {0xBF803F80}, 0x3F803F80},
      {"min.f16x2", u32, {0x3C004000, 0x40003C00}, 0x3C003C00},
      {"max.bf16x2", u32, {0x3F804000, 0x40003F80}, 0x40004000},
      {"max.NaN.f16", u16, {0x7FFF, 0x3C00}, 0x7FFF},
      {"ex2.approx.f16", {16, 16}, {0x4000}, 0x4400},
      {"tanh.approx.bf16x2", {32, 32}, {0}, 0},
  };
  for (const Case& c : cases) check(c);
}

TEST_CASE("conversions", "[emulator]") {
  const std::vector<Case> cases{
      {"cvt.u64.u32", {64, 32}, {0xFFFFFFFF}, 0xFFFFFFFF},
      {"cvt.s64.s32", {64, 32}, {0xFFFFFFFF}, all64},
      {"cvt.u32.u64", {32, 64}, {0x123456789}, 0x23456789},
      {"cvt.s32.s8", {32, 32}, {0x1FF}, 0xFFFFFFFF},
      {"cvt.u16.u32", {16, 32}, {0x12345}, 0x2345},
      {"cvt.s32.s16", {32, 16}, {0x8000}, 0xFFFF8000},
      {"cvt.sat.u8.s32", {32, 32}, {s32(-5)}, 0},
      {"cvt.sat.s8.s32", {32, 32}, {300}, 127},
      {"cvt.rn.f32.s32", {32, 32}, {s32(-3)}, f(-3)},
      {"cvt.rn.f32.u32", {32, 32}, {0xFFFFFFFF}, f(0x1p32f)},
      {"cvt.rz.f32.s32", {32, 32}, {0x7FFFFFFF}, f(std::nextafter(0x1p31f, 0.0f))},
      {"cvt.rn.f32.s64", {32, 64}, {static_cast<std::uint64_t>(-3)}, f(-3)},
      {"cvt.rn.f64.s64", {64, 64}, {static_cast<std::uint64_t>(-3)}, d(-3)},
      {"cvt.rzi.s32.f32", {32, 32}, {f(-2.7f)}, s32(-2)},
      {"cvt.rni.s32.f32", {32, 32}, {f(2.5f)}, 2},
      {"cvt.rmi.s32.f32", {32, 32}, {f(-2.1f)}, s32(-3)},
      {"cvt.rpi.u32.f32", {32, 32}, {f(2.1f)}, 3},
      {"cvt.rzi.s32.f32", {32, 32}, {f(1e20f)}, 0x7FFFFFFF},
      {"cvt.rzi.u32.f32", {32, 32}, {f(-5)}, 0},
      {"cvt.rzi.s64.f64", {64, 64}, {d(-2.7)}, static_cast<std::uint64_t>(-2)},
      {"cvt.f64.f32", {64, 32}, {f(1.5f)}, d(1.5)},
      {"cvt.rn.f32.f64", {32, 64}, {d(1.0 / 3)}, f(1.0f / 3)},
      {"cvt.rni.f32.f32", {32, 32}, {f(3.5f)}, f(4)},
      {"cvt.rzi.f32.f32", {32, 32}, {f(-3.5f)}, f(-3)},
      {"cvt.sat.f32.f32", {32, 32}, {f(3.5f)}, f(1)},
      {"cvt.f32.f16", {32, 16}, {0x3C00}, f(1)},
      {"cvt.rn.f16.f32", {16, 32}, {f(1 + 0x1p-11f)}, 0x3C00},
      {"cvt.rz.f16.f32", {16, 32}, {f(1e6f)}, 0x7BFF},
      {"cvt.f32.bf16", {32, 16}, {0x4049}, f(3.140625f)},
      {"cvt.rn.bf16.f32", {16, 32}, {f(1.01171875f)}, 0x3F82},  // a tie goes to even
      {"cvt.rn.bf16.f32", {16, 32}, {nan32 - 5}, 0x7FFF},
      {"cvt.rz.bf16.f32", {16, 32}, {f(1.01171875f)}, 0x3F81},
      {"cvt.rn.relu.bf16.f32", {16, 32}, {f(-1)}, 0},
      {"cvt.rn.bf16x2.f32", {32, 32, 32}, {f(2), f(1)}, 0x40003F80},
      {"cvt.rn.f16x2.f32", {32, 32, 32}, {f(2), f(1)}, 0x40003C00},
      {"cvt.rna.tf32.f32", {32, 32}, {f(1 + 0x1p-11f)}, f(1 + 0x1p-10f)},
      {"cvt.rn.satfinite.e4m3x2.f32", {16, 32, 32}, {f(500), f(1)}, 0x7E38},
      {"cvt.rn.satfinite.e5m2x2.f32", {16, 32, 32}, {f(-1e9f), f(1)}, 0xFB3C},
      {"cvt.rn.satfinite.relu.e4m3x2.f32", {16, 32, 32}, {f(-1), f(1)}, 0x0038},
      {"cvt.rn.satfinite.e4m3x2.f16x2", {16, 32}, {0x40003C00}, 0x4038},
      {"cvt.rn.f16x2.e4m3x2", {32, 16}, {0x4038}, 0x40003C00},
      {"cvt.rn.f16x2.e5m2x2", {32, 16}, {0x403C}, 0x40003C00},
      {"cvt.rni.f16.f16", {16, 16}, {0x3E00}, 0x4000},
      {"cvt.rn.f16.s32", {16, 32}, {3}, 0x4200},
      {"cvt.rni.s32.f16", {32, 16}, {0x4200}, 3},
  };
  for (const Case& c : cases) check(c);
}

TEST_CASE("moves pack and unpack registers", "[emulator]") {
  lab::Lab machine;
  auto* const out = machine.array<std::uint64_t>(2 * 32);
  const Outcome outcome = machine.launch(lab::kernel_text({"out"}, R"(
    cvt.u16.u32 %h1, %tid;
    mov.b16 %h2, 0x1234;
    mov.b32 %r1, {%h1, %h2};
    mov.b64 %rd1, {%r1, %tid};
    mov.b32 {%h3, %h4}, %r1;
    mov.b64 {%r2, %r3}, %rd1;
    mov.b64 %rd2, {%h4, %h3, %h3, %h4};
    mov.pred %p1, %p2;
    mul.wide.u32 %rd3, %tid, 16;
    add.s64 %rd3, %rd3, %out;
    st.global.v2.u64 [%rd3], {%rd1, %rd2};)"),
                                         lab::geometry(1, 32), out);
  REQUIRE(lab::finding(outcome) == "");
  for (std::uint64_t t = 0; t < 32; ++t) {
    REQUIRE(out[2 * t] == (t << 32 | 0x12340000 | t));
    REQUIRE(out[2 * t + 1] == (0x1234000000001234 | t << 32 | t << 16));
  }
}

TEST_CASE("modifiers may come in any order, types may not", "[emulator]") {
  const std::vector<Case> cases{
      {"add.ftz.rn.f32", u32, {f(1.5f), f(2.25f)}, f(3.75f)},
      {"cvt.f32.rn.s32", {32, 32}, {s32(-3)}, f(-3)},
      {"setp.and.lt.s32", {1, 32, 32, 1}, {1, 2, 1}, 1},
  };
  for (const Case& c : cases) check(c);
  REQUIRE(lab::refusal("red.global.relaxed.gpu.add.s32 [%rd0], 1;") == "");
  REQUIRE(lab::mentions(lab::refusal("cvt.s32.rn.f32 %r0, %r1;"), "cvt.s32.rn.f32"));
}

TEST_CASE("predicates are negated where they are read", "[emulator]") {
  lab::Lab machine;
  auto* const out = machine.array<std::uint32_t>(32);
  const Outcome outcome = machine.launch(lab::kernel_text({"out"}, R"(
    setp.lt.u32 %p1, %tid, 20;
    setp.lt.u32 %p2, %tid, 10;
    and.pred %p3, %p1, !%p2;
    xor.pred %p4, !%p1, !%p2;
    not.pred %p5, !%p2;
    selp.u32 %r1, 1, 0, %p3;
    selp.u32 %r2, 2, 0, %p4;
    selp.u32 %r3, 0, 4, !%p5;
    add.u32 %r1, %r1, %r2;
    add.u32 %r1, %r1, %r3;
    mul.wide.u32 %rd1, %tid, 4;
    add.s64 %rd1, %rd1, %out;
    st.global.u32 [%rd1], %r1;)"),
                                         lab::geometry(1, 32), out);
  REQUIRE(lab::finding(outcome) == "");
  for (int t = 0; t < 32; ++t) {
    const bool middle = t >= 10 && t < 20;
    REQUIRE(out[t] == (middle ? 1u : 0u) + (middle ? 2u : 0u) + (t < 10 ? 4u : 0u));
  }
}

TEST_CASE("what the table does not have is refused by name and line", "[emulator]") {
  REQUIRE(lab::mentions(lab::refusal("frobnicate.u32 %r0, %r1;"), "frobnicate.u32"));
  REQUIRE(lab::mentions(lab::refusal("frobnicate.u32 %r0, %r1;"), "line"));
  REQUIRE(lab::mentions(lab::refusal("add.f16x3 %r0, %r1, %r2;"), "add.f16x3"));
  REQUIRE(lab::mentions(lab::refusal("add.s32 %r0, %r1;"), "operand 3 is missing"));
  REQUIRE(lab::mentions(lab::refusal("add.s32 %r0, %r1, %r2, %r3;"), "4 operands"));
  REQUIRE(lab::mentions(lab::refusal("add.s32 %rd0, %r1, %r2;"), "32 bits"));
  REQUIRE(lab::mentions(lab::refusal("add.f32 %r0, %r1, 7;"), "floating-point"));
  REQUIRE(lab::mentions(lab::refusal("mov.u32 %r0, %envreg3;"), "%envreg3"));
  REQUIRE(lab::mentions(
      lab::refusal("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 %r0, %r1, %r2, %r3;"),
      "wgmma"));
  REQUIRE(lab::mentions(lab::refusal("cp.async.ca.shared.global [%r0], [%rd0], 16;"), "TMA"));
  // Another kernel of the module may use what it likes.
  lab::Lab machine;
  const std::string odd =
      ".visible .entry other()\n{\n.reg .b32 %r<2>;\nfrobnicate.u32 %r0, %r1;\nret;\n}\n";
  REQUIRE(lab::finding(machine.launch(lab::kernel_text({}, "", "", odd), lab::geometry(1, 32))) ==
          "");
}

TEST_CASE("An instruction that can't be decoded is named by its CUDA line and its PTX line",
          "[emulator]") {
  const std::string ptx = lab::kernel_text({}, ".loc 1 9 3\nfrobnicate.u32 %r0, %r1;", "",
                                           ".file 1 \"/course/lessons/a.cu\"\n");
  const std::string message = tests::message_of<emulator::PtxError>([&] {
    lab::Lab machine;
    machine.launch(ptx, lab::geometry(1, 32));
  });
  CHECK(message.find("a.cu:9 (PTX line 15): frobnicate.u32 is not supported") == 0);
}

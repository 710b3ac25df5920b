// What the lanes of a warp do apart and together: branches, collectives, calls, printf.
#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/emulator_lab.h"

namespace {

using emulator::MachineOptions;
using emulator::Outcome;
using lab::finding;
using lab::geometry;
using lab::kernel_text;
using lab::Lab;
using lab::mentions;

const std::string store_r1 =
    "\nmul.wide.u32 %rd0, %tid, 4;\nadd.s64 %rd0, %rd0, %out;\nst.global.u32 [%rd0], %r1;";

/// What each of 32 lanes has in %r1 after `body`.
std::vector<std::uint32_t> lanes_of(const std::string& body, const std::string& declarations = "") {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(32, 0xDEADu);
  const Outcome outcome =
      machine.launch(kernel_text({"out"}, body + store_r1, "", declarations), geometry(1, 32), out);
  REQUIRE(finding(outcome) == "");
  return {out, out + 32};
}

std::string finding_of(const std::string& body, std::uint32_t threads = 32) {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(1024);
  return finding(machine.launch(kernel_text({"out"}, body + store_r1), geometry(1, threads), out));
}

}  // namespace

TEST_CASE("lanes take their own branches and meet again", "[emulator]") {
  const auto result = lanes_of(R"(
    mov.u32 %r1, 0;
    setp.lt.u32 %p1, %tid, 16;
    @%p1 bra LOW;
    setp.lt.u32 %p2, %tid, 24;
    @%p2 bra MIDDLE;
    add.u32 %r1, %r1, 300;
    bra MEET;
  MIDDLE:
    add.u32 %r1, %r1, 200;
    bra MEET;
  LOW:
    add.u32 %r1, %r1, 100;
  MEET:
    activemask.b32 %r2;
    popc.b32 %r2, %r2;
    add.u32 %r1, %r1, %r2;)");
  for (std::uint32_t t = 0; t < 32; ++t) {
    REQUIRE(result[t] == (t < 16 ? 100u : t < 24 ? 200u : 300u) + 32);
  }
}

TEST_CASE("loops of different lengths", "[emulator]") {
  const auto result = lanes_of(R"(
    mov.u32 %r1, 0;
    mov.u32 %r2, %tid;
  AGAIN:
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra DONE;
    add.u32 %r1, %r1, %r2;
    sub.u32 %r2, %r2, 1;
    bra.uni AGAIN;
  DONE:)");
  for (std::uint32_t t = 0; t < 32; ++t) REQUIRE(result[t] == t * (t + 1) / 2);
}

TEST_CASE("a lane that spins does not starve the one it spins for", "[emulator]") {
  // Lane 0 waits in front of the code in which lane 1 sets the flag.
  const auto result = lanes_of(R"(
    .shared .align 4 .b32 flag;
    mov.u32 %r1, 5;
    st.volatile.shared.u32 [flag], 0;
    setp.ne.u32 %p1, %tid, 0;
    @%p1 bra OTHERS;
  SPIN:
    ld.volatile.shared.u32 %r2, [flag];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra SPIN;
    mov.u32 %r1, %r2;
    bra END;
  OTHERS:
    setp.ne.u32 %p3, %tid, 1;
    @%p3 bra END;
    st.volatile.shared.u32 [flag], 77;
  END:)");
  REQUIRE(result[0] == 77);
  REQUIRE(result[1] == 5);
}

TEST_CASE("lanes that exit leave the others alone", "[emulator]") {
  const auto result = lanes_of(R"(
    mov.u32 %r1, 1;
    setp.ge.u32 %p1, %tid, 8;
    @%p1 exit;
    activemask.b32 %r1;)");
  for (int t = 0; t < 32; ++t) REQUIRE(result[t] == (t < 8 ? 0xFFu : 0xDEADu));
}

TEST_CASE("shfl", "[emulator]") {
  const auto shuffled = [](const std::string& mode, const std::string& b, const std::string& c) {
    return lanes_of("add.u32 %r2, %tid, 100;\nshfl.sync." + mode + ".b32 %r1|%p1, %r2, " + b +
                    ", " + c + ", 0xffffffff;\n@!%p1 add.u32 %r1, %r1, 1000;");
  };
  const auto up = shuffled("up", "3", "0");
  const auto down = shuffled("down", "3", "31");
  const auto butterfly = shuffled("bfly", "5", "31");
  const auto index = shuffled("idx", "7", "31");
  // Segments of 8: the mask in bits 8 to 12 is 24.
  const auto segment = shuffled("idx", "2", "0x181f");
  const auto down_in_segment = shuffled("down", "6", "0x1807");
  for (std::uint32_t t = 0; t < 32; ++t) {
    REQUIRE(up[t] == (t >= 3 ? 100 + t - 3 : 1100 + t));
    REQUIRE(down[t] == (t + 3 <= 31 ? 100 + t + 3 : 1100 + t));
    REQUIRE(butterfly[t] == 100 + (t ^ 5));
    REQUIRE(index[t] == 107);
    REQUIRE(segment[t] == 100 + (t & 24) + 2);
    REQUIRE(down_in_segment[t] == (t % 8 + 6 <= 7 ? 100 + t + 6 : 1100 + t));
  }
}

TEST_CASE("vote, match and redux", "[emulator]") {
  const auto ballot =
      lanes_of("setp.lt.u32 %p1, %tid, 5;\nvote.sync.ballot.b32 %r1, %p1, 0xffffffff;");
  const auto not_ballot =
      lanes_of("setp.lt.u32 %p1, %tid, 5;\nvote.sync.ballot.b32 %r1, !%p1, 0xffffffff;");
  const auto any = lanes_of(
      "setp.eq.u32 %p1, %tid, 5;\nvote.sync.any.pred %p2, %p1, 0xffffffff;\nselp.u32 %r1, 1, 0, "
      "%p2;");
  const auto all = lanes_of(
      "setp.ne.u32 %p1, %tid, 5;\nvote.sync.all.pred %p2, %p1, 0xffffffff;\nselp.u32 %r1, 1, 0, "
      "%p2;");
  const auto uniform = lanes_of(
      "setp.lt.u32 %p1, %tid, 99;\nvote.sync.uni.pred %p2, %p1, 0xffffffff;\nselp.u32 %r1, 1, 0, "
      "%p2;");
  const auto match = lanes_of("and.b32 %r2, %tid, 3;\nmatch.any.sync.b32 %r1, %r2, 0xffffffff;");
  const auto match_all = lanes_of(
      "mov.u32 %r2, 3;\nmatch.all.sync.b32 %r1|%p1, %r2, 0xffffffff;\n@!%p1 mov.u32 %r1, 9;");
  const auto sum = lanes_of("redux.sync.add.s32 %r1, %tid, 0xffffffff;");
  const auto maximum = lanes_of("neg.s32 %r2, %tid;\nredux.sync.max.s32 %r1, %r2, 0xffffffff;");
  const auto maximum_unsigned =
      lanes_of("neg.s32 %r2, %tid;\nredux.sync.max.u32 %r1, %r2, 0xffffffff;");
  const auto bits = lanes_of("redux.sync.or.b32 %r1, %tid, 0xffffffff;");
  for (std::uint32_t t = 0; t < 32; ++t) {
    REQUIRE(ballot[t] == 0x1F);
    REQUIRE(not_ballot[t] == ~0x1Fu);
    REQUIRE(any[t] == 1);
    REQUIRE(all[t] == 0);
    REQUIRE(uniform[t] == 1);
    REQUIRE(match[t] == 0x11111111u << (t & 3));
    REQUIRE(match_all[t] == 0xFFFFFFFF);
    REQUIRE(sum[t] == 31 * 32 / 2);
    REQUIRE(maximum[t] == 0);
    REQUIRE(maximum_unsigned[t] == 0xFFFFFFFF);
    REQUIRE(bits[t] == 31);
  }
}

TEST_CASE("collectives of some lanes, reached one after the other", "[emulator]") {
  // Lanes 0 to 7 arrive by another way than 8 to 15; the others go past.
  const auto result = lanes_of(R"(
    mov.u32 %r1, 0;
    setp.ge.u32 %p1, %tid, 16;
    @%p1 bra END;
    setp.ge.u32 %p2, %tid, 8;
    @%p2 bra SECOND;
    add.u32 %r3, %tid, 1;
    bra MEET;
  SECOND:
    add.u32 %r3, %tid, 1;
    mul.lo.u32 %r3, %r3, 2;
  MEET:
    redux.sync.add.u32 %r1, %r3, 0xffff;
  END:)");
  const std::uint32_t expected = 36 + 2 * (136 - 36);
  for (int t = 0; t < 32; ++t) REQUIRE(result[t] == (t < 16 ? expected : 0));
}

TEST_CASE("bar.warp.sync joins lanes at different places", "[emulator]") {
  const auto result = lanes_of(R"(
    .shared .align 4 .b8 words[128];
    shl.b32 %r2, %tid, 2;
    mov.u32 %r3, words;
    add.u32 %r4, %r3, %r2;
    xor.b32 %r5, %r2, 64;
    add.u32 %r5, %r3, %r5;
    setp.lt.u32 %p1, %tid, 16;
    @%p1 bra LOW;
    st.shared.u32 [%r4], %tid;
    bar.warp.sync 0xffffffff;
    ld.shared.u32 %r1, [%r5];
    bra END;
  LOW:
    st.shared.u32 [%r4], %tid;
    bar.warp.sync 0xffffffff;
    ld.shared.u32 %r1, [%r5];
  END:)");
  for (std::uint32_t t = 0; t < 32; ++t) REQUIRE(result[t] == (t ^ 16));
}

TEST_CASE("lanes that never meet are reported", "[emulator]") {
  const std::string said = finding_of(R"(
    setp.lt.u32 %p1, %tid, 16;
    @%p1 bra LOW;
    shfl.sync.idx.b32 %r1, %tid, 0, 31, 0xffffffff;
    bra END;
  LOW:
    redux.sync.add.u32 %r1, %tid, 0xffffffff;
  END:)");
  REQUIRE(mentions(said, "divergent-aligned: "));
  REQUIRE(mentions(said, "shfl.sync.idx.b32"));
  REQUIRE(mentions(said, "redux.sync.add.u32"));
  REQUIRE(mentions(finding_of("redux.sync.add.u32 %r1, %tid, 0xf;"), "does not have its own lane"));
}

TEST_CASE("lanes that exit are not waited for", "[emulator]") {
  const auto result = lanes_of(R"(
    setp.ge.u32 %p1, %tid, 4;
    @%p1 bra OTHERS;
    redux.sync.add.u32 %r1, %tid, 0xffffffff;
    bra END;
  OTHERS:
    exit;
  END:)");
  for (int t = 0; t < 32; ++t) REQUIRE(result[t] == (t < 4 ? 6u : 0xDEADu));
}

TEST_CASE("elect.sync elects one lane, always the same", "[emulator]") {
  const std::string body = R"(
    elect.sync %r2|%p1, 0xffffffff;
    elect.sync %r3|%p2, 0xffffffff;
    selp.u32 %r4, 1, 0, %p1;
    selp.u32 %r5, 2, 0, %p2;
    add.u32 %r1, %r4, %r5;)";
  for (const auto schedule : {emulator::Schedule::fair, emulator::Schedule::adversarial}) {
    Lab machine({.schedule = schedule});
    auto* const out = machine.array<std::uint32_t>(32);
    REQUIRE(finding(machine.launch(kernel_text({"out"}, body + store_r1), geometry(1, 32), out)) ==
            "");
    REQUIRE(std::count(out, out + 32, 3u) == 1);
    REQUIRE(std::count(out, out + 32, 0u) == 31);
  }
}

TEST_CASE("stmatrix and ldmatrix are each other's inverse", "[emulator]") {
  // Four 8x8 matrices of 16-bit elements; lane l names row l of the 32 rows.
  const std::string body = R"(
    .shared .align 16 .b8 tile[512];
    mov.u32 %r10, tile;
    shl.b32 %r11, %tid, 4;
    add.u32 %r10, %r10, %r11;
    mul.lo.u32 %r2, %tid, 4;
    add.u32 %r3, %r2, 1;
    add.u32 %r4, %r2, 2;
    add.u32 %r5, %r2, 3;
    stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%r10], {%r2, %r3, %r4, %r5};
    bar.warp.sync 0xffffffff;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r6, %r7, %r8, %r9}, [%r10];
    mov.u32 %r1, 0;
    setp.eq.and.u32 %p1, %r6, %r2, %p9;
    setp.eq.u32 %p1, %r6, %r2;
    setp.eq.and.u32 %p1, %r7, %r3, %p1;
    setp.eq.and.u32 %p1, %r8, %r4, %p1;
    setp.eq.and.u32 %p1, %r9, %r5, %p1;
    ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r12}, [%r10];
    selp.u32 %r1, %r12, 0xffffffff, %p1;)";
  const auto result = lanes_of(body);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    // Transposed, a lane holds elements (2q, g) and (2q + 1, g) of the matrix: the halves g % 2 of
    // lanes 8q + g / 2 and 8q + 4 + g / 2. The value of lane l is 4 l, in its lower half.
    const std::uint32_t g = lane / 4, q = lane % 4;
    const auto element = [](std::uint32_t row, std::uint32_t column) {
      return column % 2 == 0 ? 4 * (4 * row + column / 2) : 0;
    };
    REQUIRE(result[lane] == (element(2 * q, g) | element(2 * q + 1, g) << 16));
  }
}

TEST_CASE("calls pass arguments and results", "[emulator]") {
  const std::string functions = R"(
.func (.param .b32 result) add_twice(.param .b32 a, .param .align 8 .b8 pair[8])
{
  .reg .b32 %r<8>;
  ld.param.u32 %r1, [a];
  ld.param.v2.u32 {%r2, %r3}, [pair];
  add.u32 %r4, %r1, %r2;
  setp_free:
  add.u32 %r4, %r4, %r3;
  st.param.b32 [result], %r4;
  ret;
}
)";
  const auto result = lanes_of(R"(
    setp.lt.u32 %p1, %tid, 20;
    mov.u32 %r1, 7;
    @!%p1 bra END;
    {
    .param .b32 param0;
    .param .align 8 .b8 param1[8];
    .param .b32 retval0;
    st.param.b32 [param0+0], %tid;
    st.param.v2.b32 [param1+0], {100, 1000};
    call.uni (retval0), add_twice, (param0, param1);
    ld.param.b32 %r1, [retval0+0];
    }
  END:)",
                               functions);
  for (std::uint32_t t = 0; t < 32; ++t) REQUIRE(result[t] == (t < 20 ? t + 1100 : 7));
}

TEST_CASE("functions that call themselves keep their registers", "[emulator]") {
  const std::string functions = R"(
.func (.param .b32 result) fibonacci(.param .b32 n)
{
  .reg .b32 %r<8>;
  .reg .pred %p<2>;
  ld.param.u32 %r1, [n];
  mov.u32 %r4, %r1;
  setp.lt.u32 %p1, %r1, 2;
  @%p1 bra DONE;
  sub.u32 %r2, %r1, 1;
  {
  .param .b32 param0;
  .param .b32 retval0;
  st.param.b32 [param0+0], %r2;
  call.uni (retval0), fibonacci, (param0);
  ld.param.b32 %r3, [retval0+0];
  }
  sub.u32 %r2, %r1, 2;
  {
  .param .b32 param0;
  .param .b32 retval0;
  st.param.b32 [param0+0], %r2;
  call.uni (retval0), fibonacci, (param0);
  ld.param.b32 %r4, [retval0+0];
  }
  add.u32 %r4, %r3, %r4;
DONE:
  st.param.b32 [result], %r4;
  ret;
}
)";
  const auto result = lanes_of(R"(
    and.b32 %r2, %tid, 7;
    {
    .param .b32 param0;
    .param .b32 retval0;
    st.param.b32 [param0+0], %r2;
    call.uni (retval0), fibonacci, (param0);
    ld.param.b32 %r1, [retval0+0];
    })",
                               functions);
  const std::uint32_t expected[] = {0, 1, 1, 2, 3, 5, 8, 13};
  for (int t = 0; t < 32; ++t) REQUIRE(result[t] == expected[t % 8]);
}

TEST_CASE("a recursion without end overflows the stack", "[emulator]") {
  Lab machine;
  const std::string function =
      ".func forever()\n{\n.reg .b32 %r<2>;\ncall.uni forever;\nmov.u32 %r1, 0;\nret;\n}\n";
  const std::string said =
      finding(machine.launch(kernel_text({}, "call.uni forever;", "", function), geometry(1, 32)));
  REQUIRE(mentions(said, "stack-overflow: "));
}

TEST_CASE("printf", "[emulator]") {
  std::ostringstream printed;
  Lab machine({.printf_output = &printed});
  // "%d %5.2f|%s|%llx%%\n" and "text"
  const std::string declarations =
      ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
      ".global .align 1 .b8 format[20] = {37, 100, 32, 37, 53, 46, 50, 102, 124, 37, 115, 124, 37, "
      "108, "
      "108, 120, 37, 37, 10, 0};\n"
      ".global .align 1 .b8 text[5] = {116, 101, 120, 116, 0};\n";
  const std::string body = R"(
    .local .align 8 .b8 depot[32];
    setp.gt.u32 %p1, %tid, 1;
    @%p1 exit;
    mov.u64 %rd1, depot;
    cvta.local.u64 %rd2, %rd1;
    sub.u32 %r1, 0, %tid;
    st.local.u32 [%rd1], %r1;
    mov.f64 %rd3, 0d400921FB54442D18;
    st.local.f64 [%rd1+8], %rd3;
    mov.u64 %rd4, text;
    cvta.global.u64 %rd4, %rd4;
    st.local.u64 [%rd1+16], %rd4;
    mov.u64 %rd5, 0x123456789a;
    st.local.u64 [%rd1+24], %rd5;
    mov.u64 %rd6, format;
    cvta.global.u64 %rd6, %rd6;
    {
    .param .b64 param0;
    .param .b64 param1;
    .param .b32 retval0;
    st.param.b64 [param0+0], %rd6;
    st.param.b64 [param1+0], %rd2;
    call.uni (retval0), vprintf, (param0, param1);
    ld.param.b32 %r1, [retval0+0];
    })";
  REQUIRE(finding(machine.launch(kernel_text({}, body, "", declarations), geometry(1, 32))) == "");
  REQUIRE(printed.str() == "0  3.14|text|123456789a%\n-1  3.14|text|123456789a%\n");
}

TEST_CASE("trap and a failed assertion stop the kernel", "[emulator]") {
  REQUIRE(mentions(finding_of("setp.eq.u32 %p1, %tid, 3;\n@%p1 trap;"), "trap: "));
  Lab machine;
  const std::string declarations =
      ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, "
      ".param .b64 s);\n"
      ".global .align 1 .b8 message[6] = {120, 32, 62, 32, 48, 0};\n"
      ".global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};\n";
  const std::string body = R"(
    mov.u64 %rd1, message;
    mov.u64 %rd2, file;
    {
    .param .b64 param0; .param .b64 param1; .param .b32 param2; .param .b64 param3; .param .b64 param4;
    st.param.b64 [param0+0], %rd1;
    st.param.b64 [param1+0], %rd2;
    st.param.b32 [param2+0], 12;
    st.param.b64 [param3+0], %rd2;
    st.param.b64 [param4+0], 1;
    call.uni __assertfail, (param0, param1, param2, param3, param4);
    })";
  const std::string said =
      finding(machine.launch(kernel_text({}, body, "", declarations), geometry(1, 32)));
  REQUIRE(mentions(said, "assert: "));
  REQUIRE(mentions(said, "a.cu:12"));
  REQUIRE(mentions(said, "x > 0"));
}

TEST_CASE("special registers", "[emulator]") {
  Lab machine({.sms = 2});
  constexpr std::uint32_t fields = 16;
  auto* const out = machine.array<std::uint32_t>(fields * 2 * 48);
  const std::string body = R"(
    .reg .b32 %s<20>;
    mov.u32 %s0, %tid.x; mov.u32 %s1, %tid.y; mov.u32 %s2, %tid.z; mov.u32 %s3, %ntid.y;
    mov.u32 %s4, %ctaid.x; mov.u32 %s5, %nctaid.x; mov.u32 %s6, %laneid; mov.u32 %s7, %warpid;
    mov.u32 %s8, %nwarpid; mov.u32 %s9, %smid; mov.u32 %s10, %nsmid; mov.u32 %s11, %lanemask_lt;
    mov.u32 %s12, %lanemask_ge; mov.u32 %s13, WARP_SZ; mov.u32 %s14, %cluster_ctarank;
    mov.u32 %s15, %cluster_nctarank;
    mad.lo.u32 %r1, %s2, 2, %s1;
    mad.lo.u32 %r1, %r1, 4, %s0;
    mad.lo.u32 %r1, %s4, 48, %r1;
    mul.wide.u32 %rd1, %r1, 64;
    add.s64 %rd1, %rd1, %out;
    st.global.v4.u32 [%rd1], {%s0, %s1, %s2, %s3};
    st.global.v4.u32 [%rd1+16], {%s4, %s5, %s6, %s7};
    st.global.v4.u32 [%rd1+32], {%s8, %s9, %s10, %s11};
    st.global.v4.u32 [%rd1+48], {%s12, %s13, %s14, %s15};)";
  emulator::LaunchGeometry shape = geometry(2, 1);
  shape.block = {4, 2, 6};
  REQUIRE(finding(machine.launch(kernel_text({"out"}, body), shape, out)) == "");
  for (std::uint32_t cta = 0; cta < 2; ++cta) {
    for (std::uint32_t t = 0; t < 48; ++t) {
      const std::uint32_t* const r = out + fields * (48 * cta + t);
      const std::uint32_t lane = t % 32;
      const std::vector<std::uint32_t> expected{t % 4,
                                                t / 4 % 2,
                                                t / 8,
                                                2,
                                                cta,
                                                2,
                                                lane,
                                                t / 32,
                                                2,
                                                cta,
                                                2,
                                                (1u << lane) - 1,
                                                ~((1u << lane) - 1),
                                                32,
                                                0,
                                                1};
      REQUIRE(std::vector<std::uint32_t>(r, r + fields) == expected);
    }
  }
}

TEST_CASE("the clock goes on", "[emulator]") {
  Lab machine;
  auto* const out = machine.array<std::uint64_t>(3);
  const std::string body = R"(
    mov.u64 %rd1, %globaltimer;
    nanosleep.u32 500;
    mov.u64 %rd2, %globaltimer;
    mov.u64 %rd3, %clock64;
    setp.ne.u32 %p1, %tid, 0;
    @%p1 exit;
    st.global.u64 [%out], %rd1;
    st.global.u64 [%out+8], %rd2;
    st.global.u64 [%out+16], %rd3;)";
  REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(1, 32), out)) == "");
  REQUIRE(out[1] - out[0] >= 500);
  REQUIRE(out[1] - out[0] < 5000);
  REQUIRE(out[2] >= out[1]);
}

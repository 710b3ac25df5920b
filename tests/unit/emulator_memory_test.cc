// Loads, stores and atomics in every state space, and what is said of wrong addresses.
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/emulator_lab.h"

namespace {

using emulator::Outcome;
using lab::finding;
using lab::geometry;
using lab::kernel_text;
using lab::Lab;
using lab::mentions;

/// PTX that makes %rd0 the address of element `tid` of the array %out, `bytes` an element.
std::string own_element(int bytes) {
  return "mul.wide.u32 %rd0, %tid, " + std::to_string(bytes) + ";\nadd.s64 %rd0, %rd0, %out;\n";
}

std::string finding_of(const std::string& body, std::uint32_t shared_bytes = 0) {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(64);
  return finding(machine.launch(kernel_text({"out"}, body), geometry(1, 32, shared_bytes), out));
}

}  // namespace

TEST_CASE("loads extend to the width of the register", "[emulator]") {
  Lab machine;
  auto* const in = machine.array<std::uint8_t>(64);
  for (int i = 0; i < 64; ++i) in[i] = static_cast<std::uint8_t>(0x80 + 3 * i);
  auto* const out = machine.array<std::uint64_t>(8 * 32);
  const std::string body = R"(
    cvt.u64.u32 %rd1, %tid;
    add.s64 %rd1, %rd1, %in;
    and.b64 %rd2, %rd1, -2;
    and.b64 %rd3, %rd1, -4;
    ld.global.u8 %r1, [%rd1];
    ld.global.s8 %r2, [%rd1];
    ld.global.s8 %h1, [%rd1];
    ld.global.u16 %rd4, [%rd2];
    ld.global.s16 %r3, [%rd2];
    ld.global.s32 %rd5, [%rd3];
    ld.global.nc.u32 %rd6, [%rd3];
    mul.wide.u32 %rd0, %tid, 64;
    add.s64 %rd0, %rd0, %out;
    cvt.u64.u32 %rd7, %r1; st.global.u64 [%rd0], %rd7;
    cvt.s64.s32 %rd7, %r2; st.global.u64 [%rd0+8], %rd7;
    cvt.s64.s16 %rd7, %h1; st.global.u64 [%rd0+16], %rd7;
    st.global.u64 [%rd0+24], %rd4;
    cvt.s64.s32 %rd7, %r3; st.global.u64 [%rd0+32], %rd7;
    st.global.v2.u64 [%rd0+48], {%rd5, %rd6};)";
  REQUIRE(finding(machine.launch(kernel_text({"in", "out"}, body), geometry(1, 32), in, out)) ==
          "");
  for (int t = 0; t < 32; ++t) {
    const auto word = [&](int at, int bytes) {
      std::uint64_t value = 0;
      for (int i = bytes - 1; i >= 0; --i) value = value << 8 | in[at + i];
      return value;
    };
    const auto sign_extended = [](std::uint64_t value, int bits) {
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << (64 - bits)) >>
                                        (64 - bits));
    };
    REQUIRE(out[8 * t] == word(t, 1));
    REQUIRE(out[8 * t + 1] == sign_extended(word(t, 1), 8));
    REQUIRE(out[8 * t + 2] == sign_extended(word(t, 1), 8));
    REQUIRE(out[8 * t + 3] == word(t & ~1, 2));
    REQUIRE(out[8 * t + 4] == sign_extended(word(t & ~1, 2), 16));
    REQUIRE(out[8 * t + 6] == sign_extended(word(t & ~3, 4), 32));
    REQUIRE(out[8 * t + 7] == word(t & ~3, 4));
  }
}

TEST_CASE("vectors of registers lie one after the other", "[emulator]") {
  Lab machine;
  auto* const in = machine.array<std::uint32_t>(4 * 32);
  for (std::uint32_t i = 0; i < 4 * 32; ++i) in[i] = i * i;
  auto* const out = machine.array<std::uint32_t>(4 * 32);
  const std::string body = own_element(16) + R"(
    mul.wide.u32 %rd1, %tid, 16;
    add.s64 %rd1, %rd1, %in;
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
    st.global.v2.f32 [%rd0], {%r4, %r3};
    st.global.v4.u16 [%rd0+8], {%h1, %h1, %h1, %h1};
    st.global.u32 [%rd0+8], %r2;
    st.global.u8 [%rd0+12], %r1;)";
  REQUIRE(finding(machine.launch(kernel_text({"in", "out"}, body), geometry(1, 32), in, out)) ==
          "");
  for (int t = 0; t < 32; ++t) {
    REQUIRE(out[4 * t] == in[4 * t + 3]);
    REQUIRE(out[4 * t + 1] == in[4 * t + 2]);
    REQUIRE(out[4 * t + 2] == in[4 * t + 1]);
    REQUIRE((out[4 * t + 3] & 0xFF) == (in[4 * t] & 0xFF));
  }
}

TEST_CASE("a guarded access touches its lanes only", "[emulator]") {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(32, 7u);
  // The other lanes hold null.
  const std::string body = own_element(4) + R"(
    setp.lt.u32 %p1, %tid, 5;
    selp.b64 %rd0, %rd0, 0, %p1;
    @%p1 st.global.u32 [%rd0], %tid;
    @!%p1 mov.u32 %r1, 3;)";
  REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(1, 32), out)) == "");
  for (std::uint32_t t = 0; t < 32; ++t) REQUIRE(out[t] == (t < 5 ? t : 7));
}

TEST_CASE("shared memory, by its own addresses and by generic ones", "[emulator]") {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(2 * 64);
  const std::string body = own_element(8) + R"(
    .shared .align 4 .b8 tile[256];
    .shared .align 8 .b64 other;
    mov.u32 %r1, tile;
    shl.b32 %r2, %tid, 2;
    add.u32 %r3, %r1, %r2;
    mad.lo.u32 %r4, %tid, 3, 1;
    st.shared.u32 [%r3], %r4;
    bar.sync 0;
    sub.u32 %r5, %r1, %r2;
    ld.shared.u32 %r6, [%r5+252];
    cvt.u64.u32 %rd1, %r3;
    cvta.shared.u64 %rd2, %rd1;
    ld.u32 %r7, [%rd2];
    isspacep.shared %p1, %rd2;
    isspacep.global %p2, %rd2;
    @!%p1 mov.u32 %r7, 99;
    @%p2 mov.u32 %r7, 98;
    cvta.to.shared.u64 %rd3, %rd2;
    setp.ne.s64 %p3, %rd3, %rd1;
    @%p3 mov.u32 %r7, 97;
    st.global.v2.u32 [%rd0], {%r6, %r7};)";
  REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(1, 64), out)) == "");
  for (std::uint32_t t = 0; t < 64; ++t) {
    REQUIRE(out[2 * t] == (63 - t) * 3 + 1);
    REQUIRE(out[2 * t + 1] == t * 3 + 1);
  }
}

TEST_CASE("dynamic shared memory starts where its alignment allows", "[emulator]") {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(32);
  const std::string declarations = ".extern .shared .align 1024 .b8 dynamic[];\n";
  const std::string body = R"(
    .shared .align 8 .b64 barrier;
    mov.u32 %r1, dynamic;
    mov.u32 %r2, barrier;
    mov.u32 %r3, %dynamic_smem_size;
    mov.u32 %r4, %total_smem_size;
    st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};)";
  REQUIRE(finding(machine.launch(kernel_text({"out"}, body, "", declarations),
                                 geometry(1, 32, 4096), out)) == "");
  REQUIRE(out[0] % 1024 == 0);
  REQUIRE(out[0] != out[1]);
  REQUIRE(out[2] == 4096);
  REQUIRE(out[3] == 1024 + 4096);  // 8 bytes, rounded up
}

TEST_CASE("each thread has local memory of its own", "[emulator]") {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(2 * 32);
  const std::string body = own_element(8) + R"(
    .local .align 16 .b8 depot[64];
    mov.u64 %rd1, depot;
    cvta.local.u64 %rd2, %rd1;
    and.b32 %r1, %tid, 15;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    st.local.u32 [%rd4], %tid;
    st.local.v4.u32 [depot], {%tid, %tid, %tid, %tid};
    ld.u32 %r2, [%rd5];
    ld.local.u32 %r3, [depot+12];
    st.global.v2.u32 [%rd0], {%r2, %r3};)";
  REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(1, 32), out)) == "");
  for (std::uint32_t t = 0; t < 32; ++t) {
    REQUIRE(out[2 * t] == t);
    REQUIRE(out[2 * t + 1] == t);
  }
}

TEST_CASE("module variables keep their initial values, and what launches leave", "[emulator]") {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(2);
  const std::string text = kernel_text({"out"}, R"(
    mov.u64 %rd1, counter;
    ld.global.u32 %r1, [%rd1];
    add.u32 %r2, %r1, 1;
    st.global.u32 [counter], %r2;
    ld.const.u32 %r3, [table+4];
    mov.u64 %rd2, table;
    cvta.const.u64 %rd2, %rd2;
    ld.u32 %r4, [%rd2+4];
    add.u32 %r3, %r3, %r4;
    st.global.v2.u32 [%out], {%r1, %r3};)",
                                       "",
                                       ".global .align 4 .u32 counter = 41;\n.const .align 4 .b8 "
                                       "table[8] = {1, 0, 0, 0, 5, 1, 0, 0};\n");
  const emulator::Module module = emulator::parse(text);
  emulator::Machine device;
  auto* const result = static_cast<std::uint32_t*>(device.allocate(8));
  const std::span<const std::byte> argument = std::as_bytes(std::span(&result, 1));
  for (std::uint32_t run = 0; run < 3; ++run) {
    const Outcome outcome =
        device.launch(module, module.functions[0], geometry(1, 1),
                      emulator::pack_parameters(module.functions[0], std::span(&argument, 1)));
    REQUIRE(finding(outcome) == "");
    REQUIRE(result[0] == 41 + run);
    REQUIRE(result[1] == 2 * 0x105);
  }
  REQUIRE(out[0] == 0);
}

TEST_CASE("parameters are read by name, by address and by generic address", "[emulator]") {
  const emulator::Module module = emulator::parse(R"(
    .version 9.0
    .target sm_90a
    .address_size 64
    .visible .entry kernel(.param .u16 small, .param .align 16 .b8 block[32], .param .u64 out)
    {
      .reg .b16 %h<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
      ld.param.u16 %h1, [small];
      ld.param.v2.u32 {%r1, %r2}, [block+8];
      mov.b64 %rd1, block;
      cvta.param.u64 %rd2, %rd1;
      ld.u32 %r3, [%rd2+28];
      ld.param.u64 %rd3, [out];
      cvt.u32.u16 %r0, %h1;
      st.global.v4.u32 [%rd3], {%r0, %r1, %r2, %r3};
      ret;
    })");
  emulator::Machine device;
  auto* const out = static_cast<std::uint32_t*>(device.allocate(16));
  const std::uint16_t small = 0xABCD;
  std::uint32_t block[8];
  for (std::uint32_t i = 0; i < 8; ++i) block[i] = 100 + i;
  const std::vector<std::span<const std::byte>> arguments{std::as_bytes(std::span(&small, 1)),
                                                          std::as_bytes(std::span(block)),
                                                          std::as_bytes(std::span(&out, 1))};
  const emulator::Function& kernel = module.functions[0];
  const std::vector<std::byte> packed = emulator::pack_parameters(kernel, arguments);
  REQUIRE(packed.size() == 16 + 32 + 8);
  REQUIRE(finding(device.launch(module, kernel, geometry(1, 1), packed)) == "");
  REQUIRE(out[0] == 0xABCD);
  REQUIRE(out[1] == 102);
  REQUIRE(out[2] == 103);
  REQUIRE(out[3] == 107);

  const std::vector<std::span<const std::byte>> wrong{arguments[0], arguments[2], arguments[1]};
  REQUIRE_THROWS_AS(emulator::pack_parameters(kernel, wrong), std::invalid_argument);
  REQUIRE_THROWS_AS(device.launch(module, kernel, geometry(1, 1), {}), std::invalid_argument);
}

TEST_CASE("wrong addresses are explained", "[emulator]") {
  REQUIRE(mentions(finding_of("st.global.u32 [%out+2], %r1;"), "misaligned: "));
  REQUIRE(mentions(finding_of("st.global.u32 [%out+2], %r1;"), "multiple of 4"));
  const std::string behind = finding_of("ld.global.u32 %r1, [%out+256];");
  REQUIRE(mentions(behind, "out-of-bounds: "));
  REQUIRE(mentions(behind, "right behind the end of an allocation of 256 bytes"));
  REQUIRE(
      mentions(finding_of("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%out+256];"), "right behind"));
  REQUIRE(mentions(finding_of("ld.global.u32 %r1, [%out+-16];"), "16 bytes before the start"));
  REQUIRE(mentions(finding_of("mov.u64 %rd1, 16; st.global.u32 [%rd1], %r1;"), "null pointer"));
  REQUIRE(mentions(finding_of("mov.u64 %rd1, 2048; st.global.u32 [%rd1], %r1;"),
                   "looks like an address in shared memory"));
  REQUIRE(mentions(finding_of("mov.u64 %rd1, 1024; cvta.shared.u64 %rd1, %rd1;\n"
                              "st.global.u32 [%rd1], %r1;"),
                   "generic address of shared memory"));
  REQUIRE(
      mentions(finding_of("mov.u32 %r1, 2048; ld.shared.u32 %r2, [%r1];", 64), "out-of-bounds"));
  REQUIRE(mentions(finding_of("mov.u32 %r1, 64; ld.shared.u32 %r2, [%r1];", 64), "out-of-bounds"));
  REQUIRE(mentions(finding_of("mov.u32 %r1, 0x1000400; ld.shared.u32 %r2, [%r1];", 64), "rank 1"));
  REQUIRE(mentions(finding_of("mov.u32 %r1, 0x1000400; ld.shared::cluster.u32 %r2, [%r1];", 64),
                   "cluster has 1 CTA"));
  REQUIRE(
      mentions(finding_of(".local .b8 depot[8]; ld.local.u64 %rd1, [depot+16];"), "local memory"));
  // One lane of many.
  const std::string one = finding_of(own_element(4) +
                                     "setp.eq.u32 %p1, %tid, 3;\n@%p1 add.s64 %rd0, %rd0, 1;\n"
                                     "st.global.u32 [%rd0], %tid;");
  REQUIRE(mentions(one, "misaligned"));
}

TEST_CASE("a finding names the lane and the line", "[emulator]") {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(64);
  const std::string body = own_element(4) +
                           "setp.eq.u32 %p1, %tid, 35;\n@%p1 add.s64 %rd0, %rd0, 1;\n"
                           "st.global.u32 [%rd0], %tid;";
  const Outcome outcome = machine.launch(kernel_text({"out"}, body), geometry(1, 64), out);
  REQUIRE(outcome.ending == Outcome::Ending::fault);
  REQUIRE(outcome.findings.size() == 1);
  REQUIRE(outcome.findings[0].role == "warp 1 of CTA 0 (lane 3)");
  REQUIRE(outcome.findings[0].location.ptx_line > 0);
}

TEST_CASE("constants and parameters can't be written", "[emulator]") {
  Lab machine;
  const std::string text = kernel_text({"out"}, "mov.u64 %rd1, table;\nst.global.u32 [%rd1], 3;",
                                       "", ".const .align 4 .b8 table[8] = {1};\n");
  auto* const out = machine.array<std::uint32_t>(1);
  const std::string said = finding(machine.launch(text, geometry(1, 32), out));
  REQUIRE(mentions(said, "read-only"));
  REQUIRE(mentions(said, "table"));
}

namespace {

/// The old value that lane 0 gets and what is left, of `instruction` on a word that holds `before`.
struct AtomicCase {
  std::string instruction;  ///< with operands behind the address: "add.u32 D, A, 5"
  std::uint64_t before;
  std::uint64_t after;
};

}  // namespace

TEST_CASE("atomics", "[emulator]") {
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  const std::vector<AtomicCase> cases{
      {"and.b32", 0xF0F0, 0xF0F0 & 5},
      {"or.b32", 0xF0F0, 0xF0F5},
      {"xor.b32", 0xF0F0, 0xF0F5},
      {"exch.b32", 7, 5},
      {"add.u32", 7, 12},
      {"inc.u32", 5, 0},
      {"inc.u32", 4, 5},
      {"dec.u32", 0, 5},
      {"dec.u32", 3, 2},
      {"min.s32", 0xFFFFFFFF, 0xFFFFFFFF},
      {"min.u32", 0xFFFFFFFF, 5},
      {"max.s32", 0xFFFFFFFF, 5},
  };
  for (const AtomicCase& c : cases) {
    for (const std::string space : {".global", ".relaxed.gpu.global", ""}) {
      Lab machine;
      auto* const out = machine.array<std::uint32_t>(2);
      out[0] = static_cast<std::uint32_t>(c.before);
      INFO("atom" << space << "." << c.instruction);
      const std::string body =
          "atom" + space + "." + c.instruction + " %r1, [%out], 5;\nst.global.u32 [%out+4], %r1;";
      REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(1, 1), out)) == "");
      REQUIRE(out[0] == c.after);
      REQUIRE(out[1] == c.before);
    }
  }
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(64);
  out[0] = bits(1.5f);
  out[4] = 0x3F803F80;  // bf16: 1, 1
  out[8] = bits(1);
  out[9] = bits(2);
  out[12] = 3;
  const std::string body = R"(
    atom.global.add.f32 %r1, [%out], 0f40000000;
    red.global.add.noftz.bf16x2 [%out+16], 1065369472;
    red.global.add.v2.f32 [%out+32], {0f3F800000, 0f40000000};
    atom.global.cas.b32 %r2, [%out+48], 3, 9;
    atom.global.cas.b32 %r3, [%out+48], 3, 11;
    st.global.v2.u32 [%out+64], {%r2, %r3};
    atom.global.add.u64 %rd1, [%out+80], 4294967296;
    atom.global.exch.b64 %rd2, [%out+80], 5;
    st.global.u64 [%out+88], %rd2;
    red.release.gpu.global.add.s32 [%out+96], -2;
    atom.acquire.sys.global.cas.b16 %h1, [%out+100], 0, 7;)";
  REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(1, 1), out)) == "");
  REQUIRE(out[0] == bits(3.5f));
  REQUIRE(out[4] == 0x40004000);  // 1065369472 is the pair 1, 1
  REQUIRE(out[8] == bits(2));
  REQUIRE(out[9] == bits(4));
  REQUIRE(out[12] == 9);
  REQUIRE(out[16] == 3);
  REQUIRE(out[17] == 9);
  REQUIRE(out[20] == 5);
  REQUIRE(out[23] == 1);
  REQUIRE(out[24] == 0xFFFFFFFE);
  REQUIRE(out[25] == 7);
}

TEST_CASE("every lane of every warp takes its turn at an atomic", "[emulator]") {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(1 + 4 * 256);
  const std::string body = R"(
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %r2, %r1, 256, %tid;
    atom.global.add.u32 %r3, [%out], 1;
    mul.wide.u32 %rd1, %r3, 4;
    add.s64 %rd1, %rd1, %out;
    st.global.u32 [%rd1+4], %r2;)";
  REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(4, 256), out)) == "");
  REQUIRE(out[0] == 4 * 256);
  std::vector<std::uint32_t> threads(out + 1, out + 1 + 4 * 256);
  std::sort(threads.begin(), threads.end());
  for (std::uint32_t i = 0; i < 4 * 256; ++i) REQUIRE(threads[i] == i);
}

TEST_CASE("a live mbarrier is no ordinary memory", "[emulator]") {
  const std::string init = R"(
    .shared .align 8 .b64 full[2];
    mov.u32 %r1, full;
    setp.ne.u32 %p1, %tid, 0;
    @%p1 bra DONE;
    mbarrier.init.shared::cta.b64 [%r1+8], 1;
)";
  const std::string said = finding_of(init + "st.shared.u32 [%r1+12], 3;\nDONE:");
  REQUIRE(mentions(said, "barrier-overwritten: "));
  REQUIRE(mentions(said, "full[1]"));
  REQUIRE(finding_of(init + "st.shared.u64 [%r1], 3;\nDONE:") == "");
  REQUIRE(finding_of(
              init +
              "mbarrier.inval.shared::cta.b64 [%r1+8];\nst.shared.u32 [%r1+12], 3;\nDONE:") == "");
}

// Named barriers, cluster barriers, mbarriers, setmaxnreg, flags in memory - and what is said when
// their threads wait forever.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/emulator_lab.h"

namespace {

using emulator::MachineOptions;
using emulator::Outcome;
using emulator::Schedule;
using lab::finding;
using lab::geometry;
using lab::kernel_text;
using lab::Lab;
using lab::mentions;

const std::string store_r1 =
    "\nmul.wide.u32 %rd0, %tid, 4;\nadd.s64 %rd0, %rd0, %out;\nst.global.u32 [%rd0], %r1;";

std::string finding_of(const std::string& body, std::uint32_t threads,
                       const std::string& directives = "") {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(1024);
  return finding(machine.launch(kernel_text({"out"}, body, directives), geometry(1, threads), out));
}

std::vector<std::uint32_t> threads_of(const std::string& body, std::uint32_t threads) {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(threads, 0xDEADu);
  REQUIRE(finding(machine.launch(kernel_text({"out"}, body + store_r1), geometry(1, threads),
                                 out)) == "");
  return {out, out + threads};
}

/// Code that only thread 0 runs.
std::string thread_0(const std::string& body, const std::string& label) {
  return "setp.ne.u32 %p9, %tid, 0;\n@%p9 bra " + label + ";\n" + body + "\n" + label + ":\n";
}

}  // namespace

// ---- bar, barrier

TEST_CASE("bar.sync holds all warps back", "[emulator]") {
  // Each warp writes a word; after the barrier each reads those of all others.
  const auto result = threads_of(R"(
    .shared .align 4 .b8 words[16];
    shr.u32 %r2, %tid, 5;
    shl.b32 %r3, %r2, 2;
    mov.u32 %r4, words;
    add.u32 %r3, %r3, %r4;
    add.u32 %r2, %r2, 1;
    st.shared.u32 [%r3], %r2;
    bar.sync 0;
    ld.shared.u32 %r5, [words];
    ld.shared.u32 %r6, [words+4];
    ld.shared.u32 %r7, [words+8];
    ld.shared.u32 %r8, [words+12];
    add.u32 %r1, %r5, %r6;
    add.u32 %r1, %r1, %r7;
    add.u32 %r1, %r1, %r8;)",
                                 128);
  for (const std::uint32_t sum : result) REQUIRE(sum == 10);
}

TEST_CASE("bar.sync without a count does not wait for warps that have exited", "[emulator]") {
  const auto result = threads_of(R"(
    setp.lt.u32 %p1, %tid, 64;
    @%p1 exit;
    bar.sync 0;
    mov.u32 %r1, 1;)",
                                 128);
  REQUIRE(result[0] == 0xDEAD);
  REQUIRE(result[127] == 1);
}

TEST_CASE("producers arrive, consumers wait", "[emulator]") {
  // Warps 0 and 1 arrive at barrier 3 and go on; warps 2 and 3 wait for the data.
  const std::string body = R"(
    .shared .align 4 .b32 word;
    mov.u32 %r1, 0;
    setp.ge.u32 %p1, %tid, 64;
    @%p1 bra CONSUMER;
    setp.eq.u32 %p2, %tid, 0;
    @%p2 st.shared.u32 [word], 42;
    bar.arrive 3, 128;
    bra END;
  CONSUMER:
    bar.sync 3, 128;
    ld.shared.u32 %r1, [word];
  END:)";
  const auto result = threads_of(body, 128);
  REQUIRE(result[0] == 0);
  REQUIRE(result[64] == 42);
  REQUIRE(result[127] == 42);
}

TEST_CASE("bar.red gives all threads the result", "[emulator]") {
  const auto result = threads_of(R"(
    setp.lt.u32 %p1, %tid, 70;
    bar.red.popc.u32 %r1, 1, %p1;
    bar.red.and.pred %p2, 1, 128, !%p1;
    bar.red.or.pred %p3, 1, 128, %p1;
    @%p2 add.u32 %r1, %r1, 1000;
    @%p3 add.u32 %r1, %r1, 2000;)",
                                 128);
  for (const std::uint32_t value : result) REQUIRE(value == 2070);
}

TEST_CASE("a barrier that too few threads reach is a deadlock", "[emulator]") {
  const std::string said = finding_of("bar.sync 1, 256;", 128);
  REQUIRE(mentions(said, "deadlock: "));
  REQUIRE(mentions(said, "warps 0, 1, 2, 3 of CTA 0"));
  REQUIRE(mentions(said, "barrier 1, where 128 of 256 threads have arrived"));
}

TEST_CASE("wrong counts of named barriers are reported", "[emulator]") {
  REQUIRE(mentions(finding_of("bar.sync 1, 100;", 128), "multiple of 32"));
  REQUIRE(mentions(finding_of("bar.sync 16;", 128), "barriers 0 to 15"));
  const std::string differing = finding_of(R"(
    setp.lt.u32 %p1, %tid, 64;
    @%p1 bra LOW;
    bar.sync 1, 128;
    bra END;
  LOW:
    bar.sync 1, 96;
  END:)",
                                           128);
  REQUIRE(mentions(differing, "named-barrier-count: "));
  REQUIRE(mentions(differing, "all must name the same count"));
}

// ---- barrier.cluster and distributed shared memory

TEST_CASE("CTAs of a cluster see each other's shared memory", "[emulator]") {
  const std::string body = R"(
    .shared .align 4 .b8 words[128];
    mov.u32 %r2, %cluster_ctarank;
    mov.u32 %r3, words;
    shl.b32 %r4, %tid, 2;
    add.u32 %r5, %r3, %r4;
    mad.lo.u32 %r6, %r2, 1000, %tid;
    st.shared.u32 [%r5], %r6;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    add.u32 %r7, %r2, 1;
    and.b32 %r7, %r7, 3;
    mapa.shared::cluster.u32 %r8, %r5, %r7;
    ld.shared::cluster.u32 %r9, [%r8];
    cvt.u64.u32 %rd1, %r5;
    cvta.shared.u64 %rd2, %rd1;
    mapa.u64 %rd3, %rd2, %r7;
    ld.u32 %r10, [%rd3];
    getctarank.shared::cluster.u32 %r11, %r8;
    atom.shared::cluster.add.u32 %r12, [%r8], 5;
    mov.u32 %r13, %ctaid.x;
    mad.lo.u32 %r13, %r13, 32, %tid;
    mul.wide.u32 %rd4, %r13, 16;
    add.s64 %rd4, %rd4, %out;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    ld.shared.u32 %r14, [%r5];
    st.global.v4.u32 [%rd4], {%r9, %r10, %r11, %r14};)";
  for (const auto schedule : {Schedule::fair, Schedule::random, Schedule::adversarial}) {
    Lab machine({.schedule = schedule});
    auto* const out = machine.array<std::uint32_t>(4 * 8 * 32);
    REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(8, 32, 0, 4), out)) == "");
    for (std::uint32_t cta = 0; cta < 8; ++cta) {
      for (std::uint32_t t = 0; t < 32; ++t) {
        const std::uint32_t* const r = out + 4 * (32 * cta + t);
        const std::uint32_t rank = cta % 4;
        const std::uint32_t peer = (rank + 1) % 4;
        REQUIRE(r[0] == 1000 * peer + t);
        REQUIRE(r[1] == 1000 * peer + t);
        REQUIRE(r[2] == peer);
        REQUIRE(r[3] == 1000 * rank + t + 5);
      }
    }
  }
}

TEST_CASE("the barrier of a cluster does not wait for threads that have exited", "[emulator]") {
  const std::string body = R"(
    mov.u32 %r2, %cluster_ctarank;
    setp.eq.u32 %p1, %r2, 1;
    @%p1 exit;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    setp.eq.u32 %p2, %tid, 0;
    @%p2 st.global.u32 [%out], 1;)";
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(1);
  REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(2, 64, 0, 2), out)) == "");
  REQUIRE(out[0] == 1);
}

TEST_CASE("a cluster barrier that a CTA skips is a deadlock", "[emulator]") {
  const std::string body = R"(
    .shared .align 4 .b32 word;
    mov.u32 %r2, %cluster_ctarank;
    setp.eq.u32 %p1, %r2, 1;
    @%p1 bra WAIT_ONLY;
    barrier.cluster.arrive.aligned;
  WAIT_ONLY:
    barrier.cluster.wait.aligned;)";
  Lab machine;
  const std::string said = finding(machine.launch(kernel_text({}, body), geometry(2, 32, 0, 2)));
  REQUIRE(mentions(said, "deadlock: "));
  REQUIRE(mentions(said, "32 of 64 threads have arrived"));
  REQUIRE(mentions(said, "without having arrived there itself"));
  const std::string twice = finding(Lab().launch(
      kernel_text({}, "barrier.cluster.arrive.aligned;\nbarrier.cluster.arrive.aligned;"),
      geometry(2, 32, 0, 2)));
  REQUIRE(mentions(twice, "over-arrival: "));
}

TEST_CASE("memory of a CTA that has exited is out of reach", "[emulator]") {
  const std::string body = R"(
    .shared .align 4 .b32 word;
    mov.u32 %r2, %cluster_ctarank;
    setp.eq.u32 %p1, %r2, 1;
    @%p1 exit;
    nanosleep.u32 100000;
    mov.u32 %r3, word;
    mapa.shared::cluster.u32 %r4, %r3, 1;
    st.shared::cluster.u32 [%r4], 1;)";
  Lab machine;
  const std::string said = finding(machine.launch(kernel_text({}, body), geometry(2, 32, 0, 2)));
  REQUIRE(mentions(said, "exited-target: "));
  REQUIRE(mentions(said, "CTA 1"));
}

// ---- mbarrier

TEST_CASE("phases of an mbarrier, step by step", "[emulator]") {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(16);
  const auto test = [](int field, const std::string& parity) {
    return "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], " + parity +
           ";\nselp.u32 %r2, 1, 0, %p1;\nst.global.u32 [%out+" + std::to_string(4 * field) +
           "], %r2;\n";
  };
  // Two arrivals and 64 bytes complete the first phase.
  const std::string body =
      ".shared .align 8 .b64 full;\nmov.u32 %r1, full;\n" +
      std::string("mbarrier.init.shared::cta.b64 [%r1], 2;\n") + test(0, "1") + test(1, "0") +
      "mbarrier.arrive.shared::cta.b64 %rd1, [%r1];\n" + test(2, "0") +
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 64;\n"
      "mbarrier.arrive.shared::cta.b64 %rd2, [%r1];\n" +
      test(3, "0") + "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 64;\n" +
      test(4, "0") + test(5, "1") +
      // The state of the first arrival: its phase is complete, one more arrival was pending then.
      "mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd1;\nselp.u32 %r2, 1, 0, %p1;\n"
      "st.global.u32 [%out+24], %r2;\n"
      "mbarrier.pending_count.b64 %r3, %rd1;\nst.global.u32 [%out+28], %r3;\n"
      "mbarrier.pending_count.b64 %r3, %rd2;\nst.global.u32 [%out+32], %r3;\n"
      // One arrival with count 2 completes the second phase; drop leaves one for the fourth.
      "mbarrier.arrive.shared::cta.b64 _, [%r1], 2;\n" +
      test(9, "1") +
      "mbarrier.arrive_drop.shared::cta.b64 _, [%r1];\nmbarrier.arrive.noComplete.shared::cta.b64 "
      "%rd3, [%r1], 0;\n";
  const std::string rest =
      ".shared .align 8 .b64 full;\nmov.u32 %r1, full;\n"
      "mbarrier.init.shared::cta.b64 [%r1], 2;\n"
      "mbarrier.arrive_drop.shared::cta.b64 _, [%r1];\n"
      "mbarrier.arrive.shared::cta.b64 _, [%r1];\n" +
      test(10, "0") + "mbarrier.arrive.shared::cta.b64 _, [%r1];\n" + test(11, "1");

  const Outcome outcome = machine.launch(kernel_text({"out"}, body), geometry(1, 1), out);
  // An arrival of 0 is none.
  REQUIRE(mentions(finding(outcome), "over-arrival: "));
  const std::vector<std::uint32_t> expected{1, 0, 0, 0, 1, 0, 1, 2, 1, 1};
  REQUIRE(std::vector<std::uint32_t>(out, out + 10) == expected);
  REQUIRE(finding(machine.launch(kernel_text({"out"}, rest), geometry(1, 1), out)) == "");
  REQUIRE(out[10] == 1);
  REQUIRE(out[11] == 1);
}

TEST_CASE("try_wait suspends until the phase is complete", "[emulator]") {
  const std::string body =
      R"(
    .shared .align 8 .b64 ready;
    .shared .align 4 .b32 word;
    mov.u32 %r2, ready;
)" +
      thread_0("mbarrier.init.shared::cta.b64 [%r2], 1;\nfence.mbarrier_init.release.cluster;",
               "INIT") +
      R"(
    bar.sync 0;
    setp.ge.u32 %p1, %tid, 32;
    @%p1 bra CONSUMER;
    nanosleep.u32 5000;
    setp.ne.u32 %p2, %tid, 0;
    mov.u32 %r1, 0;
    @%p2 bra END;
    st.shared.u32 [word], 42;
    mbarrier.arrive.shared::cta.b64 _, [%r2];
    bra END;
  CONSUMER:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], 0;
    @!%p3 bra CONSUMER;
    ld.shared.u32 %r1, [word];
  END:)";
  const auto result = threads_of(body, 64);
  REQUIRE(result[32] == 42);
  REQUIRE(result[63] == 42);
}

TEST_CASE("try_wait gives up after its time limit", "[emulator]") {
  const auto result = threads_of(R"(
    .shared .align 8 .b64 ready;
    mov.u32 %r2, ready;
    mov.u32 %r1, 0;
    mov.u32 %r3, 1000;
    setp.eq.u32 %p1, %tid, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 1;
    bar.sync 0;
  AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0, %r3;
    @%p2 bra END;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p3, %r1, 10;
    @%p3 bra AGAIN;
  END:)",
                                 64);
  for (const std::uint32_t tries : result) REQUIRE(tries == 10);
}

TEST_CASE("a phase that never completes is a deadlock with its missing arrivals and bytes",
          "[emulator]") {
  const std::string body = R"(
    .shared .align 8 .b64 full[2];
    mov.u32 %r2, full;
)" +
                           thread_0(
                               "mbarrier.init.shared::cta.b64 [%r2+8], 2;\n"
                               "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+8], 4096;",
                               "INIT") +
                           R"(
    bar.sync 0;
  AGAIN:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+8], 0;
    @!%p2 bra AGAIN;)";
  const std::string said = finding_of(body, 64);
  REQUIRE(mentions(said, "deadlock: "));
  REQUIRE(mentions(said, "warps 0, 1 of CTA 0"));
  REQUIRE(mentions(said, "parity 0 of full[1]"));
  REQUIRE(mentions(said, "1 of 2 arrivals"));
  REQUIRE(mentions(said, "4096 bytes"));
}

TEST_CASE("faults of mbarriers", "[emulator]") {
  const std::string declare = ".shared .align 8 .b64 full;\nmov.u32 %r1, full;\n";
  const std::string init = declare + "mbarrier.init.shared::cta.b64 [%r1], 1;\n";
  const std::string over =
      finding_of(init +
                     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;\n"
                     "mbarrier.arrive.shared::cta.b64 _, [%r1];",
                 1);
  REQUIRE(mentions(over, "over-arrival: "));
  REQUIRE(mentions(over, "16 bytes pending"));
  REQUIRE(mentions(finding_of(declare + "mbarrier.arrive.shared::cta.b64 _, [%r1];", 1),
                   "barrier-not-initialized: "));
  REQUIRE(
      mentions(finding_of(declare + "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;", 1),
               "barrier-not-initialized: "));
  REQUIRE(mentions(finding_of(init + "mbarrier.inval.shared::cta.b64 [%r1];\n"
                                     "mbarrier.arrive.shared::cta.b64 _, [%r1];",
                              1),
                   "barrier-not-initialized: "));
  REQUIRE(mentions(
      finding_of(init + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 1048576;", 1),
      "expect-tx-range: "));
  REQUIRE(mentions(finding_of(declare + "mbarrier.init.shared::cta.b64 [%r1], 0;", 1),
                   "mbarrier-count: "));
  REQUIRE(mentions(finding_of(declare + "mbarrier.init.shared::cta.b64 [%r1+4], 1;", 1),
                   "misaligned: "));
  // All lanes arrive where one is expected: each phase ends with one of them, so nothing is wrong.
  REQUIRE(finding_of(init + "bar.warp.sync 0xffffffff;\nmbarrier.arrive.shared::cta.b64 _, [%r1];",
                     32) == "");
}

TEST_CASE("an mbarrier of another CTA takes arrivals from afar", "[emulator]") {
  const std::string body =
      R"(
    .shared .align 8 .b64 ready;
    mov.u32 %r2, ready;
)" +
      thread_0("mbarrier.init.shared::cta.b64 [%r2], 2;\nfence.mbarrier_init.release.cluster;",
               "INIT") +
      R"(
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    mov.u32 %r3, %cluster_ctarank;
    setp.eq.u32 %p3, %tid, 0;
    mapa.shared::cluster.u32 %r4, %r2, 0;
    @%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra END;
  AGAIN:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra AGAIN;
    @%p3 st.global.u32 [%out], 9;
  END:
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;)";
  for (const auto schedule : {Schedule::fair, Schedule::random, Schedule::adversarial}) {
    Lab machine({.schedule = schedule});
    auto* const out = machine.array<std::uint32_t>(1);
    REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(2, 64, 0, 2), out)) == "");
    REQUIRE(out[0] == 9);
  }
}

// ---- setmaxnreg

TEST_CASE("setmaxnreg moves registers between warpgroups", "[emulator]") {
  const auto body = [](int consumers) {
    return "setp.lt.u32 %p1, %tid, 128;\n@%p1 bra PRODUCER;\nsetmaxnreg.inc.sync.aligned.u32 " +
           std::to_string(consumers) +
           ";\nbra END;\nPRODUCER:\nsetmaxnreg.dec.sync.aligned.u32 40;\nEND:";
  };
  const std::string bounds = ".maxntid 384, 1, 1\n.minnctapersm 1\n";
  // 168 registers a thread at launch: 128 * (168 - 40) = 2 * 128 * (232 - 168).
  REQUIRE(finding_of(body(232), 384, bounds) == "");
  const std::string said = finding_of(body(240), 384, bounds);
  REQUIRE(mentions(said, "deadlock: "));
  REQUIRE(mentions(said, "2304 registers for its 32 threads"));
  // Without launch bounds ptxas drops the instruction.
  REQUIRE(finding_of(body(240), 384) == "");
  REQUIRE(
      mentions(finding_of("setmaxnreg.dec.sync.aligned.u32 240;", 384, bounds), "setmaxnreg: "));
  REQUIRE(mentions(finding_of("setmaxnreg.inc.sync.aligned.u32 40;", 384, bounds), "setmaxnreg: "));
  REQUIRE(mentions(lab::refusal("setmaxnreg.inc.sync.aligned.u32 100;"), "multiple of 8"));
}

// ---- Flags in global memory

TEST_CASE("CTAs wait for each other through flags", "[emulator]") {
  // A chain: CTA i waits until the counter is i.
  const std::string body = R"(
    mov.u32 %r1, %ctaid.x;
    setp.ne.u32 %p1, %tid, 0;
    @%p1 bra END;
  SPIN:
    ld.acquire.gpu.global.u32 %r2, [%out];
    setp.ne.u32 %p2, %r2, %r1;
    @%p2 bra SPIN;
    mul.wide.u32 %rd1, %r1, 4;
    add.s64 %rd1, %rd1, %out;
    st.global.u32 [%rd1+4], %r1;
    red.release.gpu.global.add.u32 [%out], 1;
  END:)";
  for (const auto schedule : {Schedule::fair, Schedule::random, Schedule::adversarial}) {
    Lab machine({.sms = 4, .schedule = schedule});
    auto* const out = machine.array<std::uint32_t>(1 + 8);
    REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(8, 32), out)) == "");
    REQUIRE(out[0] == 8);
    for (std::uint32_t i = 0; i < 8; ++i) REQUIRE(out[1 + i] == i);
  }
}

TEST_CASE("spinning on what nobody changes is a livelock", "[emulator]") {
  const std::string body = R"(
  SPIN:
    ld.acquire.gpu.global.u32 %r2, [%out];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra SPIN;)";
  const std::string said = finding_of(body, 64);
  REQUIRE(mentions(said, "livelock: "));
  REQUIRE(mentions(said, "ld.acquire.gpu.global.u32"));
  // A lock that is never released, too.
  REQUIRE(mentions(finding_of(R"(
    st.global.u32 [%out], 1;
  SPIN:
    atom.global.cas.b32 %r2, [%out], 0, 1;
    setp.ne.u32 %p2, %r2, 0;
    @%p2 bra SPIN;)",
                              32),
                   "livelock: "));
}

TEST_CASE("a CTA that waits for one that is not resident is a livelock", "[emulator]") {
  // CTA 0 waits for the last CTA, which can only start when CTA 0 has finished.
  const std::string body = R"(
    mov.u32 %r1, %ctaid.x;
    setp.eq.u32 %p1, %r1, 7;
    @%p1 st.global.u32 [%out], 1;
    @%p1 bra END;
  SPIN:
    ld.acquire.gpu.global.u32 %r2, [%out];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra SPIN;
  END:)";
  Lab enough({.sms = 4, .ctas_per_sm = 2});
  auto* out = enough.array<std::uint32_t>(1);
  REQUIRE(finding(enough.launch(kernel_text({"out"}, body), geometry(8, 32), out)) == "");
  Lab scarce({.sms = 4, .ctas_per_sm = 1});
  out = scarce.array<std::uint32_t>(1);
  REQUIRE(mentions(finding(scarce.launch(kernel_text({"out"}, body), geometry(8, 32), out)),
                   "livelock: "));
}

// Launches as a whole: geometry, residency, schedules, limits, and what the observer is told.
#include <cstdint>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/emulator/opcode.h"
#include "tests/catch.h"
#include "tests/unit/emulator_lab.h"
#include "tests/unit/message.h"

namespace {

using emulator::LaunchGeometry;
using emulator::MachineOptions;
using emulator::Outcome;
using emulator::Schedule;
using lab::finding;
using lab::geometry;
using lab::kernel_text;
using lab::Lab;
using lab::mentions;

/// What launch() says of a geometry that can't be launched.
std::string refused(const LaunchGeometry& shape, const std::string& directives = "",
                    const std::string& body = "") {
  Lab machine;
  return tests::message_of<std::invalid_argument>(
      [&] { machine.launch(kernel_text({}, body, directives), shape); });
}

}  // namespace

TEST_CASE("geometries that can't be launched are refused in words", "[emulator]") {
  REQUIRE(refused(geometry(1, 1024)) == "");
  REQUIRE(mentions(refused(geometry(1, 1025)), "1024 threads"));
  REQUIRE(mentions(refused(geometry(1, 0)), "1 and 1024"));
  REQUIRE(mentions(refused(geometry(0, 32)), "grid"));
  REQUIRE(mentions(refused(geometry(3, 32, 0, 2)), "does not divide"));
  REQUIRE(mentions(refused(geometry(32, 32, 0, 32)), "16 CTAs"));
  REQUIRE(mentions(refused(geometry(1, 32, 232449)), "232448"));
  REQUIRE(
      mentions(refused(geometry(1, 32, 232448), "", ".shared .align 8 .b64 x;\nmov.u32 %r1, x;"),
               "8 static") == false);  // 8 bytes, rounded up to where dynamic memory starts
  REQUIRE(
      mentions(refused(geometry(1, 32, 232448), "", ".shared .align 8 .b64 x;\nmov.u32 %r1, x;"),
               "16 static"));
  REQUIRE(mentions(refused(geometry(1, 256), ".maxntid 128, 1, 1"), "launch bounds"));
  REQUIRE(mentions(refused(geometry(1, 64), ".reqntid 128, 1, 1"), "compiled for"));
  REQUIRE(mentions(refused(geometry(4, 64, 0, 4), ".reqnctapercluster 2, 1, 1"), "compiled for"));
  REQUIRE(refused(geometry(4, 64), ".reqnctapercluster 2, 1, 1") == "");
}

TEST_CASE("grids larger than the machine run in turns", "[emulator]") {
  const std::string body = R"(
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ctaid.y;
    mov.u32 %r3, %nctaid.x;
    mad.lo.u32 %r1, %r2, %r3, %r1;
    mov.u32 %r4, %smid;
    setp.ne.u32 %p1, %tid, 0;
    @%p1 exit;
    mul.wide.u32 %rd1, %r1, 4;
    add.s64 %rd1, %rd1, %out;
    add.u32 %r4, %r4, 1;
    st.global.u32 [%rd1], %r4;)";
  for (const auto schedule : {Schedule::fair, Schedule::random, Schedule::adversarial}) {
    Lab machine({.sms = 3, .ctas_per_sm = 1, .schedule = schedule});
    LaunchGeometry shape = geometry(50, 64);
    shape.grid.y = 3;
    auto* const out = machine.array<std::uint32_t>(150);
    REQUIRE(finding(machine.launch(kernel_text({"out"}, body), shape, out)) == "");
    for (int i = 0; i < 150; ++i) REQUIRE((out[i] >= 1 && out[i] <= 3));
  }
}

TEST_CASE("a cluster larger than the machine still runs", "[emulator]") {
  const std::string body = R"(
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    setp.eq.u32 %p1, %tid, 0;
    @%p1 red.global.add.u32 [%out], 1;)";
  Lab machine({.sms = 2, .ctas_per_sm = 1});
  auto* const out = machine.array<std::uint32_t>(1);
  REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(16, 32, 0, 8), out)) == "");
  REQUIRE(out[0] == 16);
}

TEST_CASE("a seed fixes the schedule", "[emulator]") {
  // The order in which 32 warps take their number.
  const std::string body = R"(
    mov.u32 %r1, %ctaid.x;
    shr.u32 %r2, %tid, 5;
    mad.lo.u32 %r2, %r1, 4, %r2;
    and.b32 %r3, %tid, 31;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 exit;
    atom.global.add.u32 %r4, [%out], 1;
    mul.wide.u32 %rd1, %r4, 4;
    add.s64 %rd1, %rd1, %out;
    st.global.u32 [%rd1+4], %r2;)";
  const auto order = [&](Schedule schedule, std::uint64_t seed) {
    Lab machine({.schedule = schedule, .seed = seed});
    auto* const out = machine.array<std::uint32_t>(33);
    REQUIRE(finding(machine.launch(kernel_text({"out"}, body), geometry(8, 128), out)) == "");
    return std::vector<std::uint32_t>(out + 1, out + 33);
  };
  std::set<std::vector<std::uint32_t>> orders;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto first = order(Schedule::random, seed);
    REQUIRE(first == order(Schedule::random, seed));
    orders.insert(first);
  }
  REQUIRE(orders.size() >= 8);
  REQUIRE(order(Schedule::fair, 1) == order(Schedule::fair, 1));
}

TEST_CASE("limits end a launch that does not", "[emulator]") {
  // Something changes all the time, so this is no livelock.
  const std::string body = "AGAIN:\nred.global.add.u32 [%out], 1;\nbra.uni AGAIN;";
  Lab steps({.step_limit = 100000});
  auto* out = steps.array<std::uint32_t>(1);
  Outcome outcome = steps.launch(kernel_text({"out"}, body), geometry(1, 32), out);
  REQUIRE(outcome.ending == Outcome::Ending::out_of_time);
  REQUIRE(outcome.findings.empty());
  REQUIRE(outcome.statistics.instructions >= 100000);
  REQUIRE(outcome.statistics.instructions < 2000000);

  Lab seconds({.time_limit_s = 0.05});
  out = seconds.array<std::uint32_t>(1);
  outcome = seconds.launch(kernel_text({"out"}, body), geometry(1, 32), out);
  REQUIRE(outcome.ending == Outcome::Ending::out_of_time);
}

TEST_CASE("a fault stops the launch, and the next one runs", "[emulator]") {
  Lab machine;
  auto* const out = machine.array<std::uint32_t>(1);
  const Outcome fault = machine.launch(kernel_text({"out"}, "trap;"), geometry(64, 128), out);
  REQUIRE(fault.ending == Outcome::Ending::fault);
  const Outcome next =
      machine.launch(kernel_text({"out"}, "st.global.u32 [%out], 5;"), geometry(1, 1), out);
  REQUIRE(next.ending == Outcome::Ending::finished);
  REQUIRE(out[0] == 5);
}

TEST_CASE("allocations know their bounds", "[emulator]") {
  emulator::Machine machine;
  auto* const a = static_cast<std::byte*>(machine.allocate(100));
  REQUIRE(reinterpret_cast<std::uintptr_t>(a) % 256 == 0);
  REQUIRE(machine.contains(a, 100));
  REQUIRE(machine.contains(a + 99, 1));
  REQUIRE_FALSE(machine.contains(a + 99, 2));
  void* const empty = machine.allocate(0);
  REQUIRE(empty != nullptr);
  REQUIRE(empty != a);
  REQUIRE_FALSE(machine.contains(empty, 1));
  machine.release(a);
  REQUIRE_FALSE(machine.contains(a, 1));
  machine.release(nullptr);
  machine.release(empty);
}

namespace {

/// Writes down what it is told.
class Recorder : public emulator::Observer {
 public:
  std::ostringstream log;

  void launch_begins(const emulator::LaunchInfo& info) override {
    log << "launch " << info.ctas << " " << info.warps_per_cta << " " << info.shared_bytes << "\n";
    for (const auto& placement : info.shared_variables) {
      log << "variable " << placement.variable->name << " " << placement.offset << "\n";
    }
  }
  void cta_begins(std::uint32_t cta) override { log << "begin " << cta << "\n"; }
  void cta_ends(std::uint32_t cta) override { log << "end " << cta << "\n"; }
  void launch_ends() override { log << "done\n"; }
  void lanes_exit(const emulator::Site& site) override { log << "exit " << mask(site) << "\n"; }
  void shared_access(const emulator::Site& site, std::uint32_t cta, const std::uint32_t* address,
                     std::uint32_t bytes, emulator::Access access, emulator::Order,
                     emulator::Scope) override {
    log << "shared " << cta << " " << address[__builtin_ctz(site.lanes)] << " " << bytes << " "
        << static_cast<int>(access) << " " << mask(site) << "\n";
  }
  void global_access(const emulator::Site& site, const std::uint64_t* address, std::uint32_t bytes,
                     emulator::Access access, emulator::Order order,
                     emulator::Scope scope) override {
    log << "global " << (address[__builtin_ctz(site.lanes)] - base) << " " << bytes << " "
        << static_cast<int>(access) << static_cast<int>(order) << static_cast<int>(scope) << " "
        << mask(site) << "\n";
  }
  void barrier_arrive(const emulator::Site& site, int id, std::uint64_t generation) override {
    log << "arrive " << site.warp << " " << id << " " << generation << "\n";
  }
  void barrier_leave(const emulator::Site& site, int id, std::uint64_t generation) override {
    log << "leave " << site.warp << " " << id << " " << generation << "\n";
  }
  void fence(const emulator::Site&, emulator::FenceKind kind, emulator::Order,
             emulator::Scope) override {
    log << "fence " << static_cast<int>(kind) << "\n";
  }
  void mbarrier_init(const emulator::Site&, std::uint32_t cta, std::uint32_t address,
                     std::uint32_t count) override {
    log << "init " << cta << " " << address << " " << count << "\n";
  }
  void mbarrier_arrive(const emulator::Site& site, std::uint32_t, std::uint32_t address,
                       std::uint64_t phase, std::uint32_t count, emulator::Order,
                       emulator::Scope) override {
    log << "mbarrier arrive " << address << " " << phase << " " << count << " " << mask(site)
        << "\n";
  }
  void mbarrier_expect(const emulator::Site&, std::uint32_t, std::uint32_t address,
                       std::uint64_t phase, std::int64_t bytes) override {
    log << "expect " << address << " " << phase << " " << bytes << "\n";
  }
  void mbarrier_completes(std::uint32_t, std::uint32_t address, std::uint64_t phase) override {
    log << "completes " << address << " " << phase << "\n";
  }
  void mbarrier_wait(const emulator::Site& site, std::uint32_t address, std::uint64_t passed,
                     std::uint64_t current, emulator::Order, emulator::Scope) override {
    log << "passed " << address << " " << static_cast<std::int64_t>(passed) << " " << current << " "
        << mask(site) << "\n";
  }
  void async_begin(const emulator::Site& site, emulator::AsyncId id,
                   emulator::AsyncKind kind) override {
    log << "async " << id << " " << static_cast<int>(kind) << " " << mask(site) << "\n";
  }
  void async_signals(emulator::AsyncId id, std::uint32_t cta, std::uint32_t address) override {
    log << "signals " << id << " " << cta << " " << address << "\n";
  }
  void async_touch_shared(emulator::AsyncId id, std::uint32_t cta, std::uint32_t address,
                          std::uint32_t bytes, emulator::Access access) override {
    log << "touch " << id << " shared " << cta << " " << address << " " << bytes << " "
        << static_cast<int>(access) << "\n";
  }
  void async_touch_global(emulator::AsyncId id, std::uint64_t address, std::uint64_t bytes,
                          emulator::Access access) override {
    log << "touch " << id << " global " << address - base << " " << bytes << " "
        << static_cast<int>(access) << "\n";
  }
  void async_complete_on_mbarrier(emulator::AsyncId id, std::uint32_t cta, std::uint32_t address,
                                  std::uint64_t phase) override {
    log << "counts " << id << " " << cta << " " << address << " " << phase << "\n";
  }
  void async_complete(emulator::AsyncId id) override { log << "complete " << id << "\n"; }
  void bulk_commit(const emulator::Site& site) override { log << "commit " << mask(site) << "\n"; }
  void bulk_wait(const emulator::Site& site, int pending, bool read_only) override {
    log << "bulk wait " << pending << " " << read_only << " " << mask(site) << "\n";
  }
  void warp_sync(const emulator::Site& site) override { log << "met " << mask(site) << "\n"; }
  void wgmma_register_access(const emulator::Site&, std::uint32_t, emulator::Access) override {
    log << "register\n";
  }

  std::uint64_t base = 0;  ///< global addresses count from here

 private:
  static std::string mask(const emulator::Site& site) {
    std::ostringstream text;
    text << std::hex << site.lanes;
    return text.str();
  }
};

}  // namespace

TEST_CASE("the observer is told everything in order", "[emulator]") {
  const std::string body = R"(
    .shared .align 128 .b8 tile[64];
    .shared .align 8 .b64 full;
    mov.u32 %r1, full;
    mov.u32 %r2, tile;
    setp.ne.u32 %p1, %tid, 0;
    @%p1 bra SKIP;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%memory], 64, [%r1];
  SKIP:
    bar.sync 0;
  WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
    @!%p2 bra WAIT;
    ld.shared.u32 %r3, [%r2+4];
    @%p1 bra END;
    fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [%memory+64], [%r2], 32;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    cp.async.bulk.wait_group 0;
  END:
    bar.warp.sync 0xffffffff;
    setp.eq.u32 %p3, %tid, 3;
    @%p3 st.release.gpu.global.u32 [%memory+96], %r3;)";
  Lab machine;
  Recorder recorder;
  auto* const memory = machine.array<std::uint32_t>(64);
  recorder.base = reinterpret_cast<std::uint64_t>(memory);
  machine.observer = &recorder;
  REQUIRE(finding(machine.launch(kernel_text({"memory"}, body), geometry(1, 32), memory)) == "");
  REQUIRE(recorder.log.str() ==
          "launch 1 1 80\n"
          "variable tile 0\n"
          "variable full 64\n"
          "begin 0\n"
          "init 0 64 1\n"
          "fence 4\n"
          "expect 64 0 64\n"
          "mbarrier arrive 64 0 1 1\n"
          "async 1 2 1\n"
          "signals 1 0 64\n"
          "touch 1 shared 0 0 64 1\n"
          "touch 1 global 0 64 0\n"
          "arrive 0 0 0\n"
          "leave 0 0 0\n"
          "counts 1 0 64 0\n"
          "completes 64 0\n"
          "complete 1\n"
          "passed 64 0 1 ffffffff\n"
          "shared 0 4 4 0 ffffffff\n"
          "fence 2\n"
          "async 2 3 1\n"
          "touch 2 shared 0 0 32 0\n"
          "touch 2 global 64 32 1\n"
          "commit 1\n"
          "bulk wait 0 1 1\n"
          "complete 2\n"
          "bulk wait 0 0 1\n"
          "met ffffffff\n"
          "global 96 4 132 8\n"
          "exit ffffffff\n"
          "end 0\n"
          "done\n");
}

TEST_CASE("every pattern of the opcode table is written once", "[emulator]") {
  const auto patterns = emulator::opcode_patterns();
  REQUIRE(patterns.size() > 300);
  REQUIRE(std::set<std::string_view>(patterns.begin(), patterns.end()).size() == patterns.size());
}

// Broken kernels, and which rule must speak. Those of the lessons: tests/lessons/broken.txt.
//
//   build/unit_tests "[broken]~[whole]"   a sample of the schedules, as in `make test`
//   build/unit_tests "[broken][whole]"    1 fair, 1 adversarial, 20 random
#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>

#include "common/emulator/report.h"
#include "tests/catch.h"
#include "tests/emulator/schedules.h"
#include "tests/emulator/workbench.h"

namespace {

using workbench::Size;

/// How a row is run, if not as the others.
enum Mode {
  usual,
  strict,            ///< the rule is one of those that only the strict checker applies
  by_schedule,       ///< found under some schedules only: the reason stands beside the row
  rule_by_schedule,  ///< found under all, but not by the same rule
  second_launch,     ///< the fault shows when the kernel runs again on what it left; by schedule
  one_cta,           ///< on a machine that runs one CTA at a time
};

struct Row {
  const char* kernel;
  const char* broken;  ///< enumerator of the kernel's enum class Break
  Size size;
  const char* rule;   ///< that must speak, in every schedule
  const char* names;  ///< what its sentence must name
  const char* at;     ///< how the PTX opcode of the instruction that it points to must begin
  const char* also;   ///< other rules that may speak: the consequences
  Mode mode = usual;
};

constexpr Size ring_size{136, 72, 264};
constexpr Size one_k{136, 72, 64};
constexpr Size one_group{64, 72, 264};
constexpr Size cluster_size{130, 64, 264};
constexpr Size no_k{130, 64, 0};
constexpr Size split_size{17, 9, 200};
constexpr Size short_split{17, 9, 64};

constexpr const char* ring = "ring<2, 2>";
constexpr const char* cluster = "multicast<2>";
constexpr const char* flag = "split_k<false>";
constexpr const char* ticket = "split_k<true>";

constexpr const char* try_wait = "mbarrier.try_wait.parity";
constexpr const char* expect = "mbarrier.arrive.expect_tx";
constexpr const char* load = "cp.async.bulk.tensor.2d.shared::cluster.global";
constexpr const char* send = "cp.async.bulk.tensor.2d.global.shared::cta";
constexpr const char* multiply = "wgmma.mma_async";
constexpr const char* fragments = "stmatrix";

// clang-format off
constexpr Row rows[] = {
    // ---- Who may use a barrier.
    {ring, "no_init_barrier", ring_size, "barrier-not-initialized", "full[0]", try_wait, ""},
    {ring, "no_init_fence", ring_size, "missing-init-fence", "`full[0]`", load, ""},
    {cluster, "no_initial_sync", cluster_size, "barrier-not-initialized", "full[", load, ""},
    {cluster, "no_init_fence", cluster_size, "missing-init-fence", "`full[0]`", load, ""},
    {cluster, "relaxed_sync_without_fence", cluster_size, "barrier-not-initialized", "`empty[0]`", "mbarrier", "missing-init-fence"},
    {cluster, "no_sync_at_all", no_k, "peer-not-started", "CTA 1", "ld.shared::cluster", "shared-race unwritten-read"},

    // ---- Phases.
    {ring, "producer_parity", ring_size, "deadlock", "parity 0 of empty[0], whose phase 0", try_wait, ""},
    {ring, "no_phase_flip", ring_size, "read-before-landed", "`shared`", multiply, "over-arrival overwritten-while-wgmma-reads phase-aba exit-in-flight write-while-landing deadlock"},
    {ring, "flip_each_tile", ring_size, "read-before-landed", "`shared`", multiply, "over-arrival overwritten-while-wgmma-reads phase-aba exit-in-flight write-while-landing deadlock"},
    {ring, "wrong_ring_size", ring_size, "over-arrival", "full[0]", expect, "overwritten-while-wgmma-reads write-while-landing"},
    // The phases fly by, eight a round: it depends on the moment which the producer finds.
    {ring, "one_arrival_expected", ring_size, "deadlock", "empty[0], whose phase", try_wait, "over-arrival overwritten-while-wgmma-reads phase-aba read-before-landed", rule_by_schedule},
    {ring, "one_consumer_expected", ring_size, "overwritten-while-wgmma-reads", "`shared`", load, "deadlock over-arrival phase-aba read-before-landed write-while-landing"},
    {ring, "all_lanes_expected", ring_size, "deadlock", "empty[0], whose phase 0 (parity 0) lacks 248 of 256 arrivals", try_wait, ""},
    {ring, "all_lanes_arrive", ring_size, "deadlock", "empty[0]", try_wait, ""},
    {ring, "no_release", ring_size, "deadlock", "empty[0], whose phase 0 (parity 0) lacks 8 of 8 arrivals", try_wait, ""},
    {ring, "idle_group_skips", one_group, "deadlock", "empty[0], whose phase 0 (parity 0) lacks 4 of 8 arrivals", try_wait, ""},
    {ring, "all_lanes_load", ring_size, "over-arrival", "full[0]", expect, ""},
    {ring, "all_lanes_wait", ring_size, "lanes-left-behind", "`empty[0]`", try_wait, "", strict},
    {ring, "short_expect", ring_size, "unbalanced-expect-tx", "fewer bytes for `full[0]`", expect, "deadlock read-before-landed write-while-landing exit-in-flight exited-target"},
    {ring, "long_expect", ring_size, "unbalanced-expect-tx", "more bytes for `full[0]`", expect, "deadlock"},
    {ring, "no_expect_for_one_tile_of_k", one_k, "unbalanced-expect-tx", "`full[0]`", load, "deadlock"},
    {cluster, "empty_parity", cluster_size, "deadlock", "parity 0 of empty[0], whose phase 0", try_wait, ""},
    {cluster, "released_to_own_cta", cluster_size, "deadlock", "empty[0], whose phase 0 (parity 0) lacks 4 of 8 arrivals", try_wait, ""},
    {cluster, "all_lanes_release", cluster_size, "deadlock", "empty[0]", try_wait, ""},
    {cluster, "own_slice_expected", cluster_size, "unbalanced-expect-tx", "fewer bytes for `full[0]`", expect, "deadlock read-before-landed write-while-landing"},
    {cluster, "multicast_to_self", cluster_size, "unbalanced-expect-tx", "more bytes for `full[0]`", expect, "deadlock"},
    {cluster, "sums_arrival_missing", cluster_size, "deadlock", "of ready, whose phase 0 (parity 0) lacks", try_wait, ""},

    // ---- When a stage may be read and filled again.
    {ring, "no_full_wait", ring_size, "read-before-landed", "`full[0]`", multiply, "over-arrival overwritten-while-wgmma-reads phase-aba write-while-landing unwritten-read"},
    {ring, "release_before_wait", ring_size, "overwritten-while-wgmma-reads", "`shared`", load, ""},
    {ring, "release_current", ring_size, "overwritten-while-wgmma-reads", "`shared`", load, ""},
    {cluster, "peers_not_counted", cluster_size, "write-while-landing", " of CTA ", load, "overwritten-while-wgmma-reads deadlock read-before-landed unbalanced-expect-tx"},
    {cluster, "release_before_wait", cluster_size, "overwritten-while-wgmma-reads", "`shared`", load, ""},
    {cluster, "same_slice", cluster_size, "write-while-landing", "`shared` + ", load, "unwritten-read"},

    // ---- wgmma.
    {ring, "no_wgmma_fence", ring_size, "missing-wgmma-fence", "no wgmma.fence", multiply, ""},
    {ring, "no_wgmma_commit", ring_size, "accumulator-in-flight", "ring.cuh", "", "exit-in-flight overwritten-while-wgmma-reads"},
    {ring, "one_group_pending", ring_size, "accumulator-in-flight", "ring.cuh", "", "exit-in-flight overwritten-while-wgmma-reads"},

    // ---- The tile of D on its way out.
    {ring, "no_proxy_fence", ring_size, "missing-proxy-fence", "`shared` + 49152", send, ""},
    {ring, "no_barrier_before_store", ring_size, "shared-race", "`shared` + 49", send, "overwritten-while-store-reads"},
    {ring, "no_store_wait", ring_size, "overwritten-while-store-reads", "`shared` + 49152", fragments, ""},
    {ring, "no_barrier_after_store_wait", ring_size, "overwritten-while-store-reads", "`shared` + 49", fragments, ""},
    {ring, "no_store_commit", ring_size, "exit-in-flight", "this bulk store", send, "overwritten-while-store-reads"},
    {ring, "exit_before_store", ring_size, "exit-in-flight", "this bulk store", send, ""},

    // ---- Barriers and registers of a CTA.
    {ring, "too_many_threads_at_barrier", ring_size, "deadlock", "barrier 1, where 128 of 256 threads", "", ""},
    {ring, "one_lane_at_barrier", ring_size, "divergent-aligned", "bar.sync", "bar.sync", "shared-race"},
    {ring, "shared_barrier", ring_size, "named-barrier-shared", "barrier 1", "bar.sync", "deadlock overwritten-while-store-reads shared-race"},
    {ring, "too_many_registers", ring_size, "deadlock", "registers for its 32 threads", "", ""},
    {ring, "no_registers_given", ring_size, "deadlock", "registers for its 32 threads", "", ""},
    {ring, "wrong_register_direction", ring_size, "setmaxnreg", "asks for 232 registers a thread, but has 168", "setmaxnreg.dec", ""},

    // ---- The memory of other CTAs.
    {cluster, "no_final_sync", cluster_size, "exited-target", "shared memory of CTA", "ld.shared::cluster", ""},
    {cluster, "idle_cta_returns", cluster_size, "exited-target", "CTA 3", load, "exit-in-flight"},
    {cluster, "sums_without_wait", cluster_size, "shared-race", "`partial`", "ld.shared::cluster", "unwritten-read"},
    {cluster, "sums_before_barrier", cluster_size, "shared-race", "`partial` + 256", "ld.shared::cluster", "unwritten-read"},
    {cluster, "sums_with_cta_scope", cluster_size, "insufficient-scope", "`partial` of CTA 1", "ld.shared::cluster", ""},

    // ---- Flags in global memory.
    {flag, "relaxed_flag", split_size, "insufficient-flag", "split_k.cu", "ld.global.f32", ""},
    {flag, "cta_scope_flag", split_size, "insufficient-flag", "split_k.cu", "ld.global.f32", ""},
    {flag, "relaxed_wait", split_size, "insufficient-flag", "split_k.cu", "ld.global.f32", ""},
    {flag, "no_barrier_before_flag", split_size, "global-race", "split_k.cu", "ld.global.f32", ""},
    {flag, "no_barrier_after_wait", split_size, "global-race", "split_k.cu", "ld.global.f32", ""},
    // A read of global memory that comes before the write is not kept.
    {flag, "no_wait", split_size, "global-race", "split_k.cu", "ld.global.f32", "", by_schedule},
    // Who finds the flag of the last launch, before anybody has counted on, goes on with old parts.
    {flag, "no_reset", split_size, "livelock", "spins forever", "ld.acquire", "global-race", second_launch},
    // Who clears the flag before anybody has counted does no harm.
    {flag, "early_reset", split_size, "livelock", "spins forever", "ld.acquire", "", by_schedule},
    {flag, "first_waits", split_size, "livelock", "may not have started", "ld.acquire", "", one_cta},
    {flag, "empty_split_returns", short_split, "livelock", "spins forever", "ld.acquire", ""},
    // Past its workspace may lie another allocation, as on a GPU: that is up to the host's heap.
    {flag, "workspace_by_tile", split_size, "out-of-bounds", "of an allocation of", "st.global.f32", "global-race", by_schedule},
    {flag, "half_warp_shuffle", split_size, "divergent-aligned", "lanes 16-31", "shfl.sync.bfly", ""},
    {flag, "no_barrier_after_sums", split_size, "shared-race", "`part`", "ld.shared.f32", "unwritten-read"},
    {ticket, "no_barrier_after_ticket", split_size, "shared-race", "`ticket`", "", "unwritten-read global-race"},
    {ticket, "relaxed_ticket", split_size, "insufficient-flag", "updates at split_k.cu", "ld.global.f32", ""},
    {ticket, "no_barrier_before_ticket", split_size, "global-race", "updates at split_k.cu", "ld.global.f32", ""},
};
// clang-format on

std::string_view rule_name(const emulator::Finding& finding) {
  const emulator::Rule* const rule = emulator::find_rule(finding.rule);
  return rule != nullptr ? rule->name : finding.rule;
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

bool is_expected(const Row& row, const emulator::Module& module, const emulator::Finding& finding) {
  return rule_name(finding) == row.rule && contains(finding.sentence, row.names) &&
         workbench::opcode_at(module, finding).starts_with(row.at);
}

/// The rules that spoke although the row names them nowhere.
std::set<std::string_view> others(const Row& row, const workbench::Result& result) {
  std::istringstream words(row.also);
  std::set<std::string> allowed{row.rule};
  for (std::string word; words >> word;) allowed.insert(word);
  std::set<std::string_view> rest;
  for (const emulator::Finding& finding : result.findings) {
    const std::string_view name = rule_name(finding);
    if (!allowed.contains(std::string(name))) rest.insert(name);
  }
  return rest;
}

bool depends_on_schedule(const Row& row) {
  return row.mode == by_schedule || row.mode == rule_by_schedule || row.mode == second_launch;
}

workbench::Setup setup_of(const Row& row) {
  workbench::Setup setup{.kernel = row.kernel, .broken = row.broken, .size = row.size};
  setup.strict = row.mode == strict;
  if (row.mode == one_cta) {
    setup.machine.sms = 1;
    setup.machine.ctas_per_sm = 1;
  }
  return setup;
}

/// Checks a row under each order. Those that depend on the schedule must be found under one.
void check(const Row& row, const std::vector<workbench::Order>& orders) {
  int found_under = 0;
  for (const workbench::Order& order : orders) {
    workbench::Workbench bench(setup_of(row));
    if (row.mode == second_launch) bench.launch(emulator::Schedule::fair, 1);
    const workbench::Result result = bench.launch(order.schedule, order.seed);
    INFO(row.kernel << " " << row.broken << ", " << workbench::name_of(order.schedule) << " "
                    << order.seed << ": " << workbench::text(bench.module(), result));
    CHECK(result.ending != emulator::Outcome::Ending::out_of_time);

    const bool found = std::any_of(result.findings.begin(), result.findings.end(),
                                   [&](const emulator::Finding& finding) {
                                     return is_expected(row, bench.module(), finding);
                                   });
    if (found) ++found_under;
    if (!depends_on_schedule(row)) CHECK(found);
    if (row.mode == rule_by_schedule) CHECK(!result.findings.empty());
    CHECK(others(row, result) == std::set<std::string_view>{});
  }
  INFO(row.kernel << " " << row.broken);
  CHECK(found_under > 0);
}

void check_all(const char* kernel, int random_seeds) {
  for (const Row& row : rows) {
    if (std::string_view(row.kernel).starts_with(kernel)) {
      // What some schedules do not show needs more of them.
      check(row,
            workbench::orders(depends_on_schedule(row) ? std::max(random_seeds, 8) : random_seeds));
    }
  }
}

TEST_CASE("There are at least 40 broken kernels, each once", "[broken]") {
  std::set<std::tuple<std::string, std::string>> kernels;
  for (const Row& row : rows) {
    CHECK(kernels.emplace(row.kernel, row.broken).second);
    CHECK(emulator::find_rule(row.rule) != nullptr);
  }
  CHECK(kernels.size() >= 40);
}

TEST_CASE("The named rule speaks of each broken ring", "[broken]") {
  check_all("ring", workbench::sample_seeds);
}
TEST_CASE("The named rule speaks of each broken multicast", "[broken]") {
  check_all("multicast", workbench::sample_seeds);
}
TEST_CASE("The named rule speaks of each broken split-K", "[broken]") {
  check_all("split_k", workbench::sample_seeds);
}
TEST_CASE("The named rule speaks of each broken kernel under 22 schedules", "[.][broken][whole]") {
  check_all("", workbench::whole_seeds);
}

}  // namespace

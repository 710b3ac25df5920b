// mbarriers and clusters on the emulator against what a GPU answered (tests/golden/README.md): the
// cases are written as PTX and run.
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/emulator/machine.h"
#include "common/emulator/parser.h"
#include "tests/catch.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/thread_cases.h"

using golden::BarrierCase;
using golden::BarrierOperation;
using golden::BarrierStep;
using golden::ClusterCase;

namespace {

constexpr const char* path = "tests/golden/data/threads.golden";

std::string in_kernel(const std::string& body) {
  return ".version 8.6\n.target sm_90a\n.address_size 64\n"
         ".visible .entry kernel(.param .u64 results)\n{\n" +
         body + "ret;\n}\n";
}

/// Runs the entry of `ptx`, whose parameter is an array of results.
std::vector<std::uint32_t> run(const std::string& ptx, const emulator::LaunchGeometry& geometry,
                               std::size_t result_words) {
  const emulator::Module module = emulator::parse(ptx);
  const emulator::Function* const kernel = module.entry("kernel");
  REQUIRE(kernel != nullptr);
  emulator::Machine machine;
  std::vector<std::uint32_t> results(result_words);
  void* const memory = machine.allocate(result_words * sizeof(std::uint32_t));
  std::memcpy(memory, results.data(), result_words * sizeof(std::uint32_t));
  const std::span<const std::byte> argument = std::as_bytes(std::span(&memory, 1));
  const std::vector<std::byte> parameters =
      emulator::pack_parameters(*kernel, std::span(&argument, 1));
  const emulator::Outcome outcome = machine.launch(module, *kernel, geometry, parameters);
  for (const emulator::Finding& finding : outcome.findings) UNSCOPED_INFO(finding.sentence);
  CHECK(outcome.ending == emulator::Outcome::Ending::finished);
  std::memcpy(results.data(), memory, result_words * sizeof(std::uint32_t));
  machine.release(memory);
  return results;
}

std::string text(const BarrierStep& step) {
  const std::string value = std::to_string(step.value);
  switch (step.operation) {
    case BarrierOperation::init:
      return "mbarrier.init.shared::cta.b64 [bar], " + value + ";\n";
    case BarrierOperation::arrive:
      return "mbarrier.arrive.shared::cta.b64 state, [bar], " + value + ";\n";
    case BarrierOperation::arrive_drop:
      return "mbarrier.arrive_drop.shared::cta.b64 state, [bar];\n";
    case BarrierOperation::arrive_expect_tx:
      return "mbarrier.arrive.expect_tx.shared::cta.b64 state, [bar], " + value + ";\n";
    case BarrierOperation::expect_tx:
      return "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], " + value + ";\n";
    case BarrierOperation::complete_tx:
      return "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], " + value + ";\n";
    case BarrierOperation::test_wait:
      return "mbarrier.test_wait.shared::cta.b64 p, [bar], state;\nselp.b32 word, 1, 0, p;\n";
    case BarrierOperation::test_wait_parity:
      return "mbarrier.test_wait.parity.shared::cta.b64 p, [bar], " + value +
             ";\nselp.b32 word, 1, 0, p;\n";
    case BarrierOperation::pending_count:
      return "mbarrier.pending_count.b64 word, state;\n";
  }
  return "";
}

std::string ptx(const BarrierCase& c) {
  std::string body =
      ".reg .pred p;\n.reg .b32 word;\n.reg .b64 state, address;\n.shared .align 8 .b64 bar;\n"
      "ld.param.u64 address, [results];\n";
  for (std::size_t i = 0; i < c.steps.size(); ++i) {
    body += "mov.u32 word, 0;\n" + text(c.steps[i]);
    body += "st.global.u32 [address+" + std::to_string(4 * i) + "], word;\n";
  }
  return in_kernel(body);
}

/// What golden::cluster_words says.
std::string cluster_ptx() {
  std::string body =
      ".reg .pred p;\n.reg .b32 rank, size, mine, there, word, x, y, z, width, height;\n"
      ".reg .b64 address, offset;\n.shared .align 4 .b32 own;\n"
      "ld.param.u64 address, [results];\n"
      "mov.u32 x, %ctaid.x;\nmov.u32 y, %ctaid.y;\nmov.u32 z, %ctaid.z;\n"
      "mov.u32 width, %nctaid.x;\nmov.u32 height, %nctaid.y;\n"
      "mad.lo.u32 word, z, height, y;\nmad.lo.u32 word, word, width, x;\n"
      "mul.wide.u32 offset, word, " +
      std::to_string(4 * golden::cluster_words) +
      ";\nadd.u64 address, address, offset;\n"
      "mov.u32 rank, %cluster_ctarank;\nmov.u32 size, %cluster_nctarank;\n"
      "add.u32 word, rank, 100;\nmov.u32 mine, own;\nst.shared.u32 [mine], word;\n"
      "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n";
  const auto store = [&](const std::string& name, std::size_t index) {
    body += "st.global.u32 [address+" + std::to_string(4 * index) + "], " + name + ";\n";
  };
  store("rank", 0);
  store("size", 1);
  const char* const registers[] = {"cluster_ctaid.x", "cluster_ctaid.y", "cluster_ctaid.z",
                                   "clusterid.x",     "clusterid.y",     "clusterid.z"};
  for (std::size_t i = 0; i < 6; ++i) {
    body += std::string("mov.u32 word, %") + registers[i] + ";\n";
    store("word", 2 + i);
  }
  for (std::size_t target = 0; target < 8; ++target) {
    const std::string number = std::to_string(target);
    body += "mov.u32 word, 0;\nmov.u32 x, 0;\nsetp.ge.u32 p, " + number + ", size;\n@p bra SKIP" +
            number + ";\nmapa.shared::cluster.u32 there, mine, " + number +
            ";\ngetctarank.shared::cluster.u32 word, there;\nld.shared::cluster.u32 x, [there];\n"
            "SKIP" +
            number + ":\n";
    store("word", 8 + target);
    store("x", 16 + target);
  }
  body += "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n";
  return in_kernel(body);
}

/// The record of a case; the test fails if the file lacks it.
const golden::Record* record_of(const std::optional<golden::File>& file, const std::string& name) {
  const golden::Record* const record = file->find(name);
  INFO(name << " is not in " << path << ". Run the dump program again.");
  CHECK(record != nullptr);
  return record;
}

bool is_there(const std::optional<golden::File>& file) {
  if (!file) {
    WARN(path << " is not there, so nothing is compared. tests/golden/README.md says how a Hopper "
              << "GPU writes it.");
  }
  return file.has_value();
}

}  // namespace

TEST_CASE("mbarriers agree with the hardware step by step", "[golden]") {
  const std::optional<golden::File> file = golden::read(path);
  const bool compared = is_there(file);
  for (const BarrierCase& c : golden::barrier_cases()) {
    INFO(c.name);
    const std::vector<std::uint32_t> words = run(ptx(c), {}, c.steps.size());
    if (!compared) continue;
    const golden::Record* const record = record_of(file, c.name);
    if (record != nullptr) CHECK(record->words == words);
  }
}

TEST_CASE("cluster ranks and mapa agree with the hardware", "[golden]") {
  const std::optional<golden::File> file = golden::read(path);
  const bool compared = is_there(file);
  for (const ClusterCase& c : golden::cluster_cases()) {
    INFO(c.name);
    const emulator::LaunchGeometry geometry{.grid = {c.grid[0], c.grid[1], c.grid[2]},
                                            .block = {1, 1, 1},
                                            .cluster = {c.cluster[0], c.cluster[1], c.cluster[2]}};
    const std::size_t ctas = geometry.grid.count();
    const std::vector<std::uint32_t> words =
        run(cluster_ptx(), geometry, ctas * golden::cluster_words);
    if (!compared) continue;
    const golden::Record* const record = record_of(file, c.name);
    if (record != nullptr) CHECK_FALSE(golden::difference(*record, words).has_value());
  }
}

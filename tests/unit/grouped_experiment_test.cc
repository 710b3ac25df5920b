#include "common/harness/grouped_experiment.h"

#include <cuda_bf16.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/host_device.h"
#include "tests/unit/host_gemm.h"
#include "tests/unit/message.h"

namespace {

using harness::Experiment;
using harness::Init;
using harness::Options;
using harness::Selection;
using harness::UsageError;
using harness::Verdict;
using tests::HostDevice;

Options options(const std::string& groups, const std::string& weights = "auto") {
  Options result;
  result.selection.set("groups", groups);
  result.selection.set("weights", weights);
  return result;
}

/// An experiment whose launch computes all groups on the host.
struct Bench {
  explicit Bench(Options asked) : options(std::move(asked)) {
    experiment = harness::grouped_experiment(
        device, options, 8,
        [this](device::Device&, std::span<const gemm::Problem> groups, const Selection&) {
          problems = groups;
          return [groups] {
            for (const gemm::Problem& group : groups) tests::multiply(group);
          };
        });
  }

  void launch() {
    experiment->poison_output();
    experiment->prepare(options.selection)();
  }

  HostDevice device;
  Options options;
  std::unique_ptr<Experiment> experiment;
  std::span<const gemm::Problem> problems;  ///< after launch()
};

std::string refusal(const Options& options) {
  return tests::message_of<UsageError>([&] { Bench bench(options); });
}

float value(const gemm::Problem& problem, int row, int column) {
  return __bfloat162float(problem.d[row * problem.ldd + column]);
}

}  // namespace

TEST_CASE("groups that are right pass, empty ones and those with K = 0 among them", "[grouped]") {
  for (const float beta : {0.F, 2.F}) {
    Options asked = options("20x24x40,0x8x8,7x9x5,8x0x8,8x8x0,1x1x1*3");
    asked.beta = beta;
    Bench bench(asked);
    CHECK(bench.experiment->has_output());
    bench.launch();
    REQUIRE(bench.problems.size() == 8);
    const Verdict verdict = bench.experiment->judge();
    CHECK(verdict.passed());
    CHECK(verdict.elements == 20 * 24 + 7 * 9 + 8 * 8 + 3);
    CHECK(bench.experiment->flops() == 2.0 * (20 * 24 * 40 + 7 * 9 * 5 + 3));
    CHECK(bench.experiment->oracle() == "CPU, double precision");
  }
}

TEST_CASE("the verdict names the group of the first wrong element", "[grouped]") {
  Bench bench(options("20x24x40,7x9x5,8x8x8"));
  bench.launch();
  const gemm::Problem &second = bench.problems[1], &third = bench.problems[2];
  third.d[0] = __float2bfloat16_rn(1e9F);
  second.d[2 * second.ldd + 3] = __float2bfloat16_rn(1e9F);
  const Verdict verdict = bench.experiment->judge();
  CHECK(verdict.wrong == 2);
  REQUIRE(verdict.first);
  CHECK(verdict.first->matrix == "D of group 1");
  CHECK(verdict.first->row == 2);
  CHECK(verdict.first->column == 3);
}

TEST_CASE("a group that nobody computes, or whose padding is written, fails", "[grouped]") {
  Bench bench(options("8x8x8,7x9x5"));
  bench.launch();
  bench.experiment->poison_output();
  tests::multiply(bench.problems[0]);
  CHECK(bench.experiment->judge().wrong == 7 * 9);
  tests::multiply(bench.problems[1]);
  CHECK(bench.experiment->judge().passed());
  bench.problems[1].d[9] = __float2bfloat16_rn(0);
  CHECK(bench.experiment->judge().damaged_padding == 1);
}

TEST_CASE("a group with no elements has guard bands too", "[grouped]") {
  Bench bench(options("8x8x8,0x8x8"));
  bench.launch();
  bench.problems[1].d[0] = __float2bfloat16_rn(0);
  CHECK(bench.experiment->judge().damaged_guard_bytes > 0);
}

TEST_CASE("groups have numbers of their own, and B's that they share", "[grouped]") {
  Options asked = options("8x8x64*130", "4");
  asked.init = Init::ones;
  Bench bench(asked);
  bench.launch();
  CHECK(bench.experiment->judge().passed());
  // Exact, so that a tile of another group is wrong whatever the bound.
  for (const int group : {0, 1, 31, 126, 127, 129}) {
    CHECK(value(bench.problems[group], 7, 7) == static_cast<float>(64 * (group % 127 + 1)));
  }
  CHECK(bench.problems[4].b == bench.problems[0].b);
  CHECK(bench.problems[129].b == bench.problems[1].b);
  CHECK(bench.problems[1].b != bench.problems[0].b);
  CHECK(bench.problems[4].a != bench.problems[0].a);
}

TEST_CASE("random groups differ from each other", "[grouped]") {
  Bench bench(options("8x8x8*2"));
  bench.launch();
  CHECK(value(bench.problems[0], 0, 0) != value(bench.problems[1], 0, 0));
  const std::vector<std::byte> output = bench.experiment->output();
  CHECK(output.size() == 2 * 8 * 8 * sizeof(__nv_bfloat16));
}

TEST_CASE("the named problems, as the emulator takes them", "[grouped]") {
  for (const std::string name : {"uniform", "ragged-small", "ragged-large"}) {
    Bench bench(options(name));
    bench.launch();
    CHECK(bench.problems.size() == 8);
    CHECK(bench.problems[2].b == bench.problems[0].b);
    CHECK(bench.experiment->judge().passed());
  }
}

TEST_CASE("what a grouped problem says of itself", "[grouped]") {
  Bench bench(options("20x24x40,7x9x5*2", "9"));
  CHECK(bench.experiment->kind() == "grouped");
  CHECK(bench.experiment->describe() ==
        "D = 1 * A B^T + 0 * C, 3 groups (20x24x40,7x9x5*2), sum of M 34, N up to 24, K up to 40, "
        "3 different B, normal, seed 1");
  CHECK(bench.experiment->problem_json().text() ==
        R"({"groups":3,"weights":3,"m":34,"n":24,"k":40,"flop":39660,"alpha":1,"beta":0,"seed":1,)"
        R"("init":"normal"})");
}

TEST_CASE("a list without an element launches nothing", "[grouped]") {
  Bench bench(options("0x8x8,8x0x8,0x0x0"));
  CHECK_FALSE(bench.experiment->has_output());
  CHECK(bench.experiment->flops() == 0);
}

TEST_CASE("weights that contradict the groups are refused in words", "[grouped]") {
  CHECK(refusal(options("8x8x8,8x16x8,8x8x8", "2")).empty());
  CHECK(refusal(options("8x8x8,8x16x8,8x8x16", "2")) ==
        "--weights 2: groups 0 and 2 would multiply the same B, which is 8 x 8 for the one and "
        "8 x 16 for the other.");
  for (const std::string weights : {"0", "-1", "4x", "", "many"}) {
    CHECK(refusal(options("8x8x8", weights)) ==
          "--weights takes a whole number from 1, or auto, not '" + weights + "'.");
  }
}

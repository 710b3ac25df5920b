// Right kernels: right results and no finding, whatever the schedule.
//
//   build/unit_tests "[right]~[whole]"   each size under one of the schedules, as in `make test`
//   build/unit_tests "[right][whole]"    each size under all: 1 fair, 1 adversarial, 20 random
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "tests/catch.h"
#include "tests/emulator/schedules.h"
#include "tests/emulator/workbench.h"

namespace {

using workbench::Coefficients;
using workbench::Size;

struct Kernel {
  const char* name;
  const char* variant = "none";
};

constexpr Kernel kernels[] = {
    {"gemm_naive<(Walk)0, 1>"},
    {"gemm_naive<(Walk)1, 2>"},
    {"gemm_naive<(Walk)2, 4>"},
    {"gemm_wgmma<64, 64>"},
    {"gemm_wgmma<64, 256>"},
    {"gemm_wgmma<128, 128>"},
    {"gemm_tma<64, 64>"},
    {"gemm_tma<64, 128>"},
    {"gemm_tma<64, 256>"},
    {"gemm_tma<128, 128>"},
    {"ring<1, 2>"},
    {"ring<1, 4>"},
    {"ring<2, 2>"},
    {"ring<2, 3>"},
    {"multicast<2>"},
    {"multicast<4>"},
    {"multicast<2>", "producer_leaves"},
    {"multicast<2>", "relaxed_sync"},
    {"split_k<false>"},
    {"split_k<true>"},
};

// Nothing to sum, less than a tile, whole tiles, one more or less than a tile or a stage, rings
// that go round an odd number of times, more tiles than CTAs.
constexpr Size sizes[] = {{1, 1, 1},      {64, 64, 0},   {1, 8, 8},       {7, 8, 64},
                          {35, 79, 19},   {64, 64, 63},  {65, 72, 65},    {63, 65, 128},
                          {3, 200, 72},   {200, 3, 192}, {128, 128, 256}, {129, 136, 200},
                          {250, 130, 64}, {64, 64, 520}, {385, 64, 136}};
// A CTA of split-K computes 8 x 8.
constexpr Size small_sizes[] = {{1, 1, 1},    {8, 8, 0},     {8, 8, 63},   {7, 9, 64},   {9, 7, 65},
                                {8, 16, 640}, {17, 15, 200}, {33, 8, 321}, {5, 40, 1000}};

bool has_coefficients(const Kernel& kernel) {
  return !std::string_view(kernel.name).starts_with("ring");
}

std::span<const Size> sizes_of(const Kernel& kernel) {
  const bool splits = std::string_view(kernel.name).starts_with("split_k");
  return splits ? std::span<const Size>(small_sizes) : std::span<const Size>(sizes);
}

/// The `index`th variation of how a size is run.
workbench::Setup setup_of(const Kernel& kernel, const Size& size, std::size_t index) {
  constexpr Coefficients coefficients[] = {{1, 0}, {0.5F, 2}, {-2, -1}};
  constexpr int splits[] = {3, 1, 2, 7};
  workbench::Setup setup{.kernel = kernel.name, .broken = kernel.variant, .size = size};
  if (has_coefficients(kernel)) setup.coefficients = coefficients[index % 3];
  setup.splits = splits[index % 4];
  // CTAs of a cluster need room at once; else one CTA after the other is a legal machine too.
  const bool is_cluster = std::string_view(kernel.name).starts_with("multicast");
  if (index % 5 == 1 && !is_cluster) {
    setup.machine.sms = 1;
    setup.machine.ctas_per_sm = 1;
  }
  setup.strict = true;  // finds whatever the usual checker finds, and more
  return setup;
}

void check(workbench::Workbench& bench, const workbench::Setup& setup,
           const workbench::Order& order) {
  const workbench::Result result = bench.launch(order.schedule, order.seed);
  INFO(setup.kernel << " " << setup.broken << ", " << setup.size.m << " x " << setup.size.n << " x "
                    << setup.size.k << ", splits " << setup.splits << ", beta "
                    << setup.coefficients.beta << ", " << workbench::name_of(order.schedule) << " "
                    << order.seed << ": " << workbench::text(bench.module(), result));
  CHECK(result.ending == emulator::Outcome::Ending::finished);
  CHECK(result.findings.empty());
  CHECK(result.wrong == 0);
}

TEST_CASE("Right kernels are right and draw no finding", "[right]") {
  const std::vector<workbench::Order> all = workbench::orders(workbench::whole_seeds);
  std::size_t index = 0;
  for (const Kernel& kernel : kernels) {
    for (const Size& size : sizes_of(kernel)) {
      const workbench::Setup setup = setup_of(kernel, size, index);
      workbench::Workbench bench(setup);
      check(bench, setup, all[index % all.size()]);
      ++index;
    }
  }
}

TEST_CASE("Right kernels are right and draw no finding under 22 schedules", "[.][right][whole]") {
  std::size_t index = 0;
  for (const Kernel& kernel : kernels) {
    for (const Size& size : sizes_of(kernel)) {
      const workbench::Setup setup = setup_of(kernel, size, index++);
      // The same memory for all: what a launch leaves behind must not disturb the next.
      workbench::Workbench bench(setup);
      for (const workbench::Order& order : workbench::orders(workbench::whole_seeds)) {
        check(bench, setup, order);
      }
    }
  }
}

TEST_CASE("Split-K leaves its flags and its workspace as it found them", "[right]") {
  for (const char* const kernel : {"split_k<false>", "split_k<true>"}) {
    const workbench::Setup setup{.kernel = kernel, .size = {17, 15, 200}};
    workbench::Workbench bench(setup);
    for (const workbench::Order& order : workbench::orders(3)) check(bench, setup, order);
  }
}

}  // namespace

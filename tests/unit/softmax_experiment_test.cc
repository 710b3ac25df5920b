// A softmax and a top-k with their oracle: the kernels are simulated, the verdict is the real one.
#include "common/harness/softmax_experiment.h"

#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/gemm/row_statistics.h"
#include "tests/catch.h"
#include "tests/unit/host_device.h"

namespace {

using gemm::TopRows;
using harness::Options;
using harness::Verdict;

constexpr int rows = 37, columns = 45;

Options options(float alpha, harness::Init init = harness::Init::normal) {
  Options result;
  result.m = rows;
  result.n = columns;
  result.k = 70;
  result.alpha = alpha;
  result.init = init;
  return result;
}

/// A right kernel, on the host.
void compute(const gemm::Problem& p, const TopRows& top) {
  for (std::int64_t row = 0; row < p.m; ++row) {
    std::vector<float> logits;
    gemm::RowStatistics all;
    gemm::TopList<8> list;
    for (int column = 0; column < p.n; ++column) {
      float sum = 0;
      for (std::int64_t k = 0; k < p.k; ++k) {
        sum += __bfloat162float(p.a[row * p.lda + k]) * __bfloat162float(p.b[column * p.ldb + k]);
      }
      const float logit = p.alpha * sum;
      logits.push_back(logit);
      all = merge(all, {logit, gemm::exp_of(logit - gemm::reference(logit))});
      list.insert(gemm::make_key(logit, column));
    }
    const float first = gemm::value_of(list.keys[0]);
    const auto exponential = [](float x, float max) { return gemm::exp_of(x - max); };
    float sum_of_kept = 0;
    for (int i = 0; i < top.count; ++i) {
      sum_of_kept += exponential(gemm::value_of(list.keys[i]), first);
    }
    for (int i = 0; i < top.count; ++i) {
      top.values[row * top.count + i] =
          exponential(gemm::value_of(list.keys[i]), first) / sum_of_kept;
      top.columns[row * top.count + i] = gemm::column_of(list.keys[i]);
    }
    for (int column = 0; top.count == 0 && column < p.n; ++column) {
      p.d[row * p.ldd + column] =
          __float2bfloat16_rn(exponential(logits[column], all.max) / all.sum);
    }
  }
}

/// What is done behind a right kernel.
using Damage = std::function<void(const gemm::Problem&, const TopRows&)>;

Verdict judge(
    const Options& options, int top, const Damage& damage = [](const auto&, const auto&) {}) {
  tests::HostDevice device;
  const auto prepare = [&](device::Device&, const gemm::Problem& problem, const TopRows& rows,
                           const harness::Selection&) -> harness::Launch {
    return [=] {
      compute(problem, rows);
      damage(problem, rows);
    };
  };
  const std::unique_ptr<harness::Experiment> experiment =
      harness::softmax_experiment(device, options, top, {prepare, {}});
  const harness::Launch launch = experiment->prepare(options.selection);
  experiment->poison_output();
  launch();
  const Verdict verdict = experiment->judge();
  const std::size_t row_bytes = top == 0 ? 48 * sizeof(__nv_bfloat16) : 8 * top;
  CHECK(experiment->output().size() == rows * row_bytes);
  return verdict;
}

}  // namespace

TEST_CASE("right rows pass", "[softmax]") {
  for (const int top : {0, 1, 3, 8}) {
    for (const float alpha : {1.0F, 250.0F, -0.5F, 0.0F, 3e38F}) {
      for (const harness::Init init : {harness::Init::normal, harness::Init::index}) {
        CAPTURE(top, alpha, harness::name(init));
        const Verdict verdict = judge(options(alpha, init), top);
        CHECK(verdict.passed());
        CHECK(verdict.elements == rows * (top == 0 ? columns : 2 * top));
      }
    }
  }
}

TEST_CASE("a kernel that writes nothing is wrong everywhere", "[softmax]") {
  tests::HostDevice device;
  for (const int top : {0, 4}) {
    const Options problem = options(1);
    const auto nothing = [](device::Device&, const gemm::Problem&, const TopRows&,
                            const harness::Selection&) -> harness::Launch { return [] {}; };
    const auto experiment = harness::softmax_experiment(device, problem, top, {nothing, {}});
    experiment->poison_output();
    const Verdict verdict = experiment->judge();
    CHECK(verdict.wrong == verdict.elements);
    CHECK(verdict.elements == rows * (top == 0 ? columns : 2 * top));
  }
}

TEST_CASE("wrong elements of rows are found", "[softmax]") {
  const Verdict of_d = judge(options(1), 0, [](const gemm::Problem& p, const TopRows&) {
    p.d[5 * p.ldd + 7] = __float2bfloat16_rn(0.9F);
  });
  CHECK(of_d.wrong == 1);
  REQUIRE(of_d.first);
  CHECK(of_d.first->row == 5);
  CHECK(of_d.first->column == 7);
  const Verdict of_values = judge(options(1), 4, [](const gemm::Problem&, const TopRows& top) {
    top.values[36 * 4 + 3] = NAN;
  });
  CHECK(of_values.wrong == 1);
  const Verdict of_columns = judge(options(1), 4, [](const gemm::Problem&, const TopRows& top) {
    top.columns[36 * 4 + 3] = top.columns[36 * 4];
  });
  CHECK(of_columns.wrong >= 2);  // a column that comes twice is wrong at both places
}

TEST_CASE("what is written beside the outputs of rows is found", "[softmax]") {
  const auto one = __float2bfloat16_rn(1);
  const auto damaged = [&](int top, const Damage& damage) {
    return judge(options(1), top, damage).damaged_guard_bytes;
  };
  CHECK(judge(options(1), 0, [&](const gemm::Problem& p, const TopRows&) {
          p.d[3 * p.ldd + columns] = one;
        }).damaged_padding == 1);
  CHECK(damaged(0, [&](const gemm::Problem& p, const TopRows&) { p.d[-1] = one; }) == 2);
  CHECK(damaged(0, [&](const gemm::Problem& p, const TopRows&) { p.d[rows * p.ldd] = one; }) == 2);
  CHECK(damaged(2, [](const auto&, const TopRows& top) { top.values[-1] = 1; }) == 4);
  CHECK(damaged(2, [](const auto&, const TopRows& top) { top.columns[2 * rows] = 1; }) == 4);
}

TEST_CASE("a row has at least as many elements as are kept", "[softmax]") {
  tests::HostDevice device;
  Options problem = options(1);
  problem.n = 3;
  CHECK_THROWS_AS(harness::softmax_experiment(device, problem, 4, {}), harness::UsageError);
  CHECK_NOTHROW(harness::softmax_experiment(device, problem, 3, {}));
}

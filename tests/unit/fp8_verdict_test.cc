// The verdict on lesson 15's outputs: right ones pass, and each kind of wrong one does not.
#include "common/harness/fp8_verdict.h"

#include <cuda_fp8.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/harness/rounding.h"
#include "tests/catch.h"

using gemm::BlockScales;
using gemm::Output;
using gemm::ScaledProblem;
using harness::ScaledRows;
using harness::ScaledVerdict;
using harness::Verdict;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// What a kernel makes of given sums of products of about 1, each with its rounding.
class Trial {
 public:
  ScaledProblem p{};
  std::vector<double> sums;
  std::vector<float> scale_a, scale_b;
  std::int64_t chain;

  Trial(Output output, BlockScales blocks, int m = 8, int n = 72, int k = 512) : chain(k) {
    p.m = m;
    p.n = n;
    p.k = k;
    p.alpha = 1;
    p.output = output;
    p.scale_d = 1;
    p.blocks = blocks;
    p.ldd = n + 8;
    if (blocks != BlockScales::none) p.block_pitch = (n + width() - 1) / width();
    p.scale_a.step = p.scale_b.step = 1;
    std::mt19937 random(1);
    std::normal_distribution<double> normal(0, std::sqrt(k));
    std::uniform_real_distribution<float> scale(0.5F, 2);
    for (int i = 0; i < m; ++i) scale_a.push_back(scale(random));
    for (int i = 0; i < n; ++i) scale_b.push_back(scale(random));
    for (int i = 0; i < m * n; ++i) sums.push_back(normal(random));
    kernel_sums = sums;
  }

  /// The sums that the kernel has.
  std::vector<double> kernel_sums;

  float z(int row, int column) const {
    return scale_a[row] * scale_b[column] * static_cast<float>(kernel_sums[row * p.n + column]);
  }

  /// D, factors and amax of the kernel.
  void run() {
    d.assign(p.m * p.ldd * bytes(), 0xFF);
    factors.assign(p.m * p.block_pitch * factor_bytes(), 0xFF);
    amax = 0;
    for (int row = 0; row < p.m; ++row) {
      for (int first = 0; first < p.n; first += width()) {
        const int end = std::min(first + width(), p.n);
        float largest = 0;
        for (int column = first; column < end; ++column) {
          largest = std::fmax(largest, std::fabs(z(row, column)));
          if (!(std::fabs(z(row, column)) <= amax)) amax = std::fabs(z(row, column));
        }
        float factor = 1 / p.scale_d;
        if (p.blocks != BlockScales::none) {
          factor = std::fmax(std::fmin(largest, FLT_MAX) / format_largest(), FLT_MIN);
          if (p.blocks == BlockScales::ue8m0_32) {
            factor = std::exp2(std::ceil(std::log2(factor)));
          }
          store_factor(row * p.block_pitch + first / width(), factor);
        }
        for (int column = first; column < end; ++column) {
          store(row * p.ldd + column, z(row, column) / factor);
        }
      }
    }
  }

  void store(std::int64_t index, float value) {
    if (p.output == Output::bf16) {
      const __nv_bfloat16 element = __float2bfloat16_rn(value);
      std::memcpy(&d[2 * index], &element, 2);
    } else {
      d[index] = __nv_cvt_float_to_fp8(value, __NV_SATFINITE,
                                       p.output == Output::e4m3 ? __NV_E4M3 : __NV_E5M2);
    }
  }

  void store_factor(std::int64_t index, float factor) {
    if (p.blocks == BlockScales::ue8m0_32) {
      factors[index] = static_cast<std::uint8_t>(std::ilogb(factor) + 127);
    } else {
      std::memcpy(&factors[4 * index], &factor, 4);
    }
  }

  Verdict judge() const {
    std::vector<double> magnitudes(sums.size(), 0.64 * p.k), squares(sums.size(), p.k);
    ScaledVerdict verdict;
    harness::judge_rows(verdict, p, chain,
                        {.first = 0,
                         .d = d,
                         .factors = factors,
                         .scale_a = scale_a,
                         .scale_b = scale_b,
                         .c = {},
                         .sums = sums,
                         .magnitudes = magnitudes,
                         .squares = squares});
    return harness::conclude(verdict, amax);
  }

  std::vector<std::uint8_t> d, factors;
  float amax = 0;

 private:
  int width() const { return p.blocks == BlockScales::none ? p.n : block_width(p.blocks); }
  int bytes() const { return p.output == Output::bf16 ? 2 : 1; }
  int factor_bytes() const { return p.blocks == BlockScales::fp32_128 ? 4 : 1; }
  float format_largest() const { return p.output == Output::e4m3 ? 448 : 57344; }
};

struct Kind {
  Output output;
  BlockScales blocks;
};

constexpr Kind kinds[] = {
    {Output::bf16, BlockScales::none},     {Output::e4m3, BlockScales::none},
    {Output::e5m2, BlockScales::none},     {Output::e4m3, BlockScales::ue8m0_32},
    {Output::e5m2, BlockScales::ue8m0_32}, {Output::e4m3, BlockScales::fp32_128},
    {Output::e5m2, BlockScales::fp32_128}};

}  // namespace

TEST_CASE("right outputs of lesson 15 pass", "[verdict]") {
  for (const Kind& kind : kinds) {
    Trial trial(kind.output, kind.blocks);
    trial.run();
    const Verdict verdict = trial.judge();
    CHECK(verdict.passed());
    CHECK(verdict.worst <= 1);
    CHECK(verdict.elements == 8 * 72 + 8 * trial.p.block_pitch + 1);
  }
}

TEST_CASE("wrong elements of lesson 15 are found", "[verdict]") {
  for (const Kind& kind : kinds) {
    Trial trial(kind.output, kind.blocks);
    trial.run();
    const auto wrong_after = [&](auto damage) {
      Trial damaged = trial;
      damage(damaged);
      return damaged.judge();
    };
    CHECK(wrong_after([](Trial& t) { t.store(3 * t.p.ldd + 5, not_a_number); }).wrong == 1);
    CHECK(wrong_after([](Trial& t) { t.amax = std::nanf(""); }).first->matrix == "the amax");
    CHECK(wrong_after([](Trial& t) { t.amax *= 1.5F; }).wrong == 1);
    CHECK(wrong_after([](Trial& t) { t.amax *= 0.5F; }).wrong == 1);
    CHECK(wrong_after([](Trial& t) {
            t.d[t.p.n * (t.p.output == Output::bf16 ? 2 : 1)] = 0;
          }).damaged_padding == 1);
    // Zeros; the neighbour's scale; the last k-tile of 128 missing, or counted twice.
    const auto most_wrong = [&](auto damage, double share) {
      Trial damaged = trial;
      damage(damaged);
      damaged.run();
      const Verdict verdict = damaged.judge();
      CHECK(verdict.wrong > share * static_cast<double>(verdict.elements));
    };
    most_wrong([](Trial& t) { t.kernel_sums.assign(t.sums.size(), 0); }, 0.6);
    most_wrong([](Trial& t) { std::swap(t.kernel_sums.front(), t.kernel_sums.back()); }, 0);
    for (const double sign : {-1, 1}) {
      most_wrong(
          [&](Trial& t) {
            std::mt19937 random(2);
            std::normal_distribution<double> k_tile(0, std::sqrt(128));
            for (double& sum : t.kernel_sums) sum += sign * k_tile(random);
          },
          0.2);
    }
    if (kind.blocks == BlockScales::none) continue;
    CHECK(wrong_after([](Trial& t) { t.factors[3] = 0xFF; }).wrong > 1);
    Trial doubled = trial;
    doubled.store_factor(2, 2 * std::ldexp(1.0F, doubled.factors[2] - 127));
    CHECK_FALSE(doubled.judge().passed());
  }
}

TEST_CASE("NaN and infinities of lesson 15", "[verdict]") {
  for (const Kind& kind : kinds) {
    Trial trial(kind.output, kind.blocks);
    trial.sums[70] = trial.kernel_sums[70] = infinity;
    trial.run();
    CHECK(trial.judge().passed());
    CHECK(trial.amax == infinity);
    trial.amax = 1e38F;
    CHECK_FALSE(trial.judge().passed());

    trial.sums[5] = trial.kernel_sums[5] = not_a_number;
    trial.run();
    trial.amax = std::nanf("");
    CHECK(trial.judge().passed());
    trial.amax = std::numeric_limits<float>::infinity();
    CHECK_FALSE(trial.judge().passed());
    trial.amax = std::nanf("");
    trial.store(5, 0);
    CHECK(trial.judge().wrong == 1);
  }
}

TEST_CASE("a saturated output is the largest number, not infinity", "[verdict]") {
  Trial trial(Output::e5m2, BlockScales::none);
  trial.p.scale_d = 1e6;
  trial.run();
  CHECK(trial.judge().passed());
  for (std::uint8_t& byte : trial.d) {
    if ((byte & 0x7F) == 0x7B) byte = (byte & 0x80) | 0x7C;
  }
  CHECK(trial.judge().wrong > 0);
}

TEST_CASE("rows of zeros are exact, and their factors finite", "[verdict]") {
  Trial trial(Output::e4m3, BlockScales::ue8m0_32);
  trial.sums.assign(trial.sums.size(), 0);
  trial.kernel_sums = trial.sums;
  trial.run();
  CHECK(trial.factors[0] == 1);
  CHECK(trial.judge().passed());
}

TEST_CASE("promotion makes the bound of fp8 sums independent of K", "[verdict]") {
  const auto relative = [](int k, int chain) {
    return harness::fp8_accumulation_bound(k, chain, std::sqrt(k), std::sqrt(k)) / std::sqrt(k);
  };
  CHECK(relative(1 << 16, 128) < 4 * relative(1 << 10, 128));
  CHECK(relative(1 << 16, 1 << 16) > 8 * relative(1 << 10, 1 << 10));
  CHECK(relative(4096, 128) < relative(4096, 256));
  CHECK(relative(4096, 1024) < relative(4096, 4096));
  CHECK(harness::fp8_accumulation_bound(4096, 4096, 0, 0) == 0);
  CHECK(harness::fp8_accumulation_bound(0, 1, 0, 0) == 0);
}

TEST_CASE("what rounding to a format may move", "[verdict]") {
  using namespace harness;
  CHECK(half_ulp(e4m3_rounding, 1) == 0x1p-4);
  CHECK(half_ulp(e4m3_rounding, 1000) == 16);
  CHECK(half_ulp(e4m3_rounding, 0) == 0x1p-10);
  CHECK(half_ulp(e5m2_rounding, 1) == 0x1p-3);
  CHECK(half_ulp(bf16_rounding, 1) == 0x1p-8);
  CHECK(distance(e4m3_rounding, 448, 1e9) == 0);
  CHECK(distance(e4m3_rounding, -448, -infinity) == 0);
  CHECK(distance(e4m3_rounding, 416, 1e9) == 32);
  CHECK(distance(e5m2_rounding, infinity, 1e9) == infinity);
  CHECK(distance(bf16_rounding, infinity, infinity) == 0);
  CHECK(distance(bf16_rounding, infinity, 0x1p127) == 0x1p127);
  CHECK(std::isnan(distance(e4m3_rounding, not_a_number, 1)));
}

#include "common/harness/fp8_experiment.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <random>
#include <string>
#include <utility>

#include <cuda_fp8.h>

#include "common/device/concat.h"
#include "common/harness/fp8_library.h"
#include "common/harness/fp8_verdict.h"
#include "common/harness/guarded_matrix.h"
#include "common/harness/oracle.h"
#include "common/harness/parallel.h"
#include "common/harness/record.h"
#include "common/harness/rounding.h"
#include "common/harness/throughput.h"
#include "common/harness/workload.h"

namespace harness {
namespace {

using device::concat;
using gemm::BlockScales;
using gemm::Output;
using gemm::ScaledProblem;
using ptx::Fp8;

// ---- What the knobs say.

Fp8 fp8_of(const std::string& name) {
  return name == "e4m3" ? Fp8::e4m3 : Fp8::e5m2;
}

const Rounding& rounding(Fp8 type) {
  return type == Fp8::e4m3 ? e4m3_rounding : e5m2_rounding;
}

Output output_of(const Selection& selection) {
  const std::string& output = selection.text("output");
  if (output == "bf16") return Output::bf16;
  return output == "e4m3" ? Output::e4m3 : Output::e5m2;
}

BlockScales blocks_of(const Selection& selection) {
  const std::string& blocks = selection.text("blocks");
  if (blocks == "none") return BlockScales::none;
  return blocks == "1x32" ? BlockScales::ue8m0_32 : BlockScales::fp32_128;
}

float scale_d_of(const Selection& selection) {
  const std::string& text = selection.text("scale-d");
  float scale = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  if (error != std::errc{} || rest != text.data() + text.size() || !std::isnormal(scale) ||
      scale < 0) {
    throw UsageError("--scale-d takes a positive number that fp32 can hold, not '" + text + "'.");
  }
  return scale;
}

void refuse_contradictions(const ScaledProblem& p) {
  if (p.output == Output::bf16 && p.blocks != BlockScales::none) {
    throw UsageError("--blocks scales an fp8 output; add --output e4m3 or e5m2.");
  }
  if (p.scale_d != 1 && (p.output == Output::bf16 || p.blocks != BlockScales::none)) {
    throw UsageError("--scale-d scales an fp8 output that has no --blocks.");
  }
}

/// The pitch of a matrix of `bytes` an element whose rows must be 16 bytes apart, or a multiple.
std::int64_t pitch_of(const std::string& flag, const std::optional<std::int64_t>& given,
                      std::int64_t columns, std::int64_t bytes) {
  const std::int64_t multiple = 16 / bytes;
  const std::int64_t least = std::max<std::int64_t>(columns, 1);
  const std::int64_t fitting = (given.value_or(least) + multiple - 1) / multiple * multiple;
  if (!given) return fitting;
  if (*given < columns) {
    throw UsageError(concat(flag, " ", *given, ": a row has ", device::counted(columns, "element"),
                            ", and the pitch must hold it."));
  }
  if (*given != fitting) {
    throw UsageError(
        concat(flag, " ", *given, ": rows would be ", device::counted(*given * bytes, "byte"),
               " apart, and TMA asks for a multiple of 16. Take ", flag, " ", fitting, "."));
  }
  return *given;
}

// ---- Operands.

/// `value` rounded to `type`.
float rounded(Fp8 type, float value) {
  const auto format = type == Fp8::e4m3 ? __NV_E4M3 : __NV_E5M2;
  return __half2float(
      __half(__nv_cvt_fp8_to_halfraw(__nv_cvt_float_to_fp8(value, __NV_NOSAT, format), format)));
}

std::uint8_t encoded(Fp8 type, float value) {
  return __nv_cvt_float_to_fp8(value, __NV_NOSAT, type == Fp8::e4m3 ? __NV_E4M3 : __NV_E5M2);
}

/// With --values awkward, some rows of A and of B hold what arithmetic handles in a way of its own.
float awkward(Fp8 type, std::int64_t row, std::int64_t column, float drawn) {
  const Rounding& format = rounding(type);
  const auto largest = static_cast<float>(format.largest);
  const auto least =
      static_cast<float>(format.least_normal * std::ldexp(1.0, -format.fraction_bits));
  const float infinity = type == Fp8::e5m2 ? std::numeric_limits<float>::infinity() : largest;
  switch (row % 64) {
    case 5:
      return column == 3 ? std::numeric_limits<float>::quiet_NaN() : drawn;
    case 9:
      return column == 4 ? largest : drawn;
    case 18:
      return std::copysign(largest, drawn);
    case 27:
      return std::copysign(least * static_cast<float>(1 + column % 3), drawn);
    case 36:
      return -0.0F;
    case 45:
      return column == 7 ? infinity : drawn;
    case 54:
      return column == 2 ? infinity : column == 6 ? -infinity : drawn;
    default:
      return drawn;
  }
}

/// Draws elements that their types hold.
Transform drawing(const Options& options) {
  const Fp8 a = fp8_of(options.selection.text("type-a"));
  const Fp8 b = fp8_of(options.selection.text("type-b"));
  const std::string& values = options.selection.text("values");
  const bool is_positive = values == "positive", is_awkward = values == "awkward";
  return [=](char operand, std::int64_t row, std::int64_t column, float drawn) {
    if (operand != 'A' && operand != 'B') return drawn;
    const Fp8 type = operand == 'A' ? a : b;
    if (is_positive) drawn = std::abs(drawn);
    if (is_awkward) drawn = awkward(type, row, column, drawn);
    return rounded(type, drawn);
  };
}

/// The squares of what `drawn` draws: a product of two fp8 significands fits into a bf16.
Transform squares_of(Transform drawn) {
  return
      [drawn = std::move(drawn)](char operand, std::int64_t row, std::int64_t column, float value) {
        const float element = drawn(operand, row, column, value);
        return element * element;
      };
}

/// The options of the workload whose D is not used, and whose pitches this file has checked.
Options inputs_only(Options options) {
  options.ldd.reset();
  return options;
}

Options squares_only(Options options) {
  options.ldd.reset();
  options.ldc.reset();
  options.beta = 0;
  if (options.alpha != 0) options.alpha = 1;
  return options;
}

std::span<const std::uint8_t> as_codes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

/// Factors between 1/2 and 2: one for each row or column, or one.
std::vector<float> draw_scales(std::uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> factor(0.5F, 2.0F);
  std::vector<float> scales(static_cast<std::size_t>(count));
  for (float& scale : scales) scale = factor(random);
  return scales;
}

std::vector<std::uint8_t> encode(Fp8 type, std::span<const __nv_bfloat16> elements) {
  std::vector<std::uint8_t> codes(elements.size());
  parallel_for(std::ssize(elements), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      codes[i] = encoded(type, __bfloat162float(elements[i]));
    }
  });
  return codes;
}

class Fp8Experiment : public Experiment {
 public:
  Fp8Experiment(device::Device& device, const Options& options, Fp8Prepare prepare)
      : device_(device),
        options_(options),
        prepare_(std::move(prepare)),
        p_(checked_problem(options)),
        inputs_(device, inputs_only(options), fp8_pitch_multiple, 0, nullptr, drawing(options)),
        squares_(device, squares_only(options), fp8_pitch_multiple, 0, nullptr,
                 squares_of(drawing(options))),
        oracle_(oracle_of(inputs_)),
        squares_oracle_(oracle_of(squares_)),
        scale_a_(draw_scales(options.seed + 1, p_.scale_a.step == 1 ? p_.m : 1)),
        scale_b_(draw_scales(options.seed + 2, p_.scale_b.step == 1 ? p_.n : 1)),
        device_a_(device, p_.m, p_.lda),
        device_b_(device, p_.n, p_.ldb),
        device_scale_a_(device, 1, std::ssize(scale_a_) * 4),
        device_scale_b_(device, 1, std::ssize(scale_b_) * 4),
        device_d_(device, p_.m, row_bytes()),
        device_factors_(device, p_.m, factor_row_bytes()),
        device_amax_(device, 1, sizeof(std::uint32_t)) {
    p_.k = inputs_.problem().k;  // 0 if alpha is
    if (p_.k > 0) {
      device_a_.upload(encode(p_.type_a, inputs_.host_a()).data());
      device_b_.upload(encode(p_.type_b, inputs_.host_b()).data());
    }
    device_scale_a_.upload(scale_a_.data());
    device_scale_b_.upload(scale_b_.data());
    p_.a = static_cast<const std::uint8_t*>(device_a_.address());
    p_.b = static_cast<const std::uint8_t*>(device_b_.address());
    p_.c = inputs_.problem().c;
    p_.ldc = inputs_.problem().ldc;
    p_.d = device_d_.address();
    p_.scale_a.values = static_cast<const float*>(device_scale_a_.address());
    p_.scale_b.values = static_cast<const float*>(device_scale_b_.address());
    p_.amax = static_cast<std::uint32_t*>(device_amax_.address());
    p_.block_factors = device_factors_.address();
  }

  std::string kind() const override { return "fp8"; }
  std::string describe() const override {
    const Selection& selection = options_.selection;
    return concat("D (", selection.text("output"), ") = ", options_.alpha, " * scales * A (",
                  selection.text("type-a"), ") B (", selection.text("type-b"), ")^T + ",
                  options_.beta, " * C, M ", p_.m, ", N ", p_.n, ", K ", options_.k, ", ",
                  name(options_.init), ", seed ", options_.seed);
  }
  Json problem_json() const override {
    gemm::Problem pitches = inputs_.problem();
    pitches.lda = p_.lda;
    pitches.ldb = p_.ldb;
    pitches.ldd = p_.ldd;
    return harness::problem_json(options_, pitches);
  }

  bool has_output() const override { return p_.m > 0 && p_.n > 0; }
  double flops() const override { return gemm_flops(inputs_.problem()); }
  double peak_flops(const device::Properties& properties) const override {
    return 2 * harness::peak_flops(properties);
  }

  Launch prepare(const Selection& selection) override { return prepare_(device_, p_, selection); }

  void poison_output() override {
    device_d_.poison();
    device_factors_.poison();
    const std::uint32_t nothing = 0;
    device_amax_.upload(&nothing);
  }

  Verdict judge() override {
    constexpr std::int64_t block_elements = std::int64_t{1} << 22;
    const std::int64_t block_rows = std::clamp<std::int64_t>(block_elements / p_.ldd, 1, p_.m);
    ScaledVerdict verdict;
    for (std::int64_t first = 0; first < p_.m; first += block_rows) {
      judge_rows(verdict, first, std::min(block_rows, p_.m - first));
    }
    float amax = 0;
    device_.copy_to_host(&amax, device_amax_.address(), sizeof(amax));
    Verdict all = conclude(verdict, amax);
    for (const GuardedMatrix* output : {&device_d_, &device_factors_, &device_amax_}) {
      all.damaged_guard_bytes += output->damaged_guard_bytes();
    }
    return all;
  }

  std::string oracle() const override { return oracle_->name(); }

  std::vector<std::byte> output() const override {
    std::vector<std::byte> all;
    for (const GuardedMatrix* output : {&device_d_, &device_factors_, &device_amax_}) {
      const std::vector<std::byte> bytes = output->read();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

  std::vector<Contender> library(Baseline baseline) override {
    return fp8_library_contenders(device_, p_, interval() > 0, baseline);
  }

 private:
  /// Sizes, scalars and pitches of all but C, without addresses.
  static ScaledProblem checked_problem(const Options& options) {
    const Selection& selection = options.selection;
    ScaledProblem p{};
    p.m = options.m;
    p.n = options.n;
    p.k = options.k;
    p.alpha = options.alpha;
    p.beta = options.beta;
    p.type_a = fp8_of(selection.text("type-a"));
    p.type_b = fp8_of(selection.text("type-b"));
    p.scale_a.step = selection.text("scale-a") == "row" ? 1 : 0;
    p.scale_b.step = selection.text("scale-b") == "column" ? 1 : 0;
    p.output = output_of(selection);
    p.scale_d = scale_d_of(selection);
    p.blocks = blocks_of(selection);
    refuse_contradictions(p);
    p.lda = pitch_of("--lda", options.lda, options.k, 1);
    p.ldb = pitch_of("--ldb", options.ldb, options.k, 1);
    p.ldd = pitch_of("--ldd", options.ldd, options.n, p.output == Output::bf16 ? 2 : 1);
    if (p.blocks != BlockScales::none) {
      const int width = block_width(p.blocks);
      p.block_pitch = (p.n + width - 1) / width;
    }
    return p;
  }

  std::unique_ptr<Oracle> oracle_of(const Workload& workload) const {
    // cuBLAS's own oracle is held against double precision, in which NaN equals nothing.
    const bool is_awkward = options_.selection.text("values") == "awkward";
    const bool on_gpu = device_.backend() == device::Backend::cuda && !is_awkward;
    return on_gpu ? cublas_oracle(device_, workload) : cpu_oracle(workload);
  }

  std::int64_t row_bytes() const { return p_.ldd * (p_.output == Output::bf16 ? 2 : 1); }
  std::int64_t factor_row_bytes() const {
    return p_.block_pitch * (p_.blocks == BlockScales::fp32_128 ? 4 : 1);
  }

  /// k-tiles that the tensor cores add up, 0 for all of them.
  int interval() const {
    const Selection& selection = options_.selection;
    return selection.text("promote") == "never" ? 0 : selection.number("promote");
  }

  void judge_rows(ScaledVerdict& verdict, std::int64_t first, std::int64_t count) {
    constexpr std::int64_t tile_k = 128;
    const std::int64_t chain =
        interval() == 0 ? std::max<std::int64_t>(p_.k, 1) : tile_k * interval();
    const std::int64_t n = p_.n;
    const std::size_t elements = static_cast<std::size_t>(count * n);
    const std::vector<std::byte> d = device_d_.read_rows(first, count);
    const std::vector<std::byte> factors = device_factors_.read_rows(first, count);
    std::vector<double> sums(elements), magnitudes(elements), squares(elements), unused(elements);
    oracle_->rows(first, count, sums, magnitudes);
    squares_oracle_->rows(first, count, squares, unused);
    const std::span<const __nv_bfloat16> c = inputs_.host_c();
    std::mutex mutex;
    parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
      const auto part = [&]<class Element>(std::span<const Element> all, std::int64_t pitch) {
        return all.subspan(begin * pitch, (end - begin) * pitch);
      };
      const ScaledRows rows{
          .first = first + begin,
          .d = part(as_codes(d), row_bytes()),
          .factors = part(as_codes(factors), factor_row_bytes()),
          .scale_a = scale_a_,
          .scale_b = scale_b_,
          .c = c.empty() ? c : c.subspan((first + begin) * p_.ldc, (end - begin) * p_.ldc),
          .sums = part(std::span<const double>(sums), n),
          .magnitudes = part(std::span<const double>(magnitudes), n),
          .squares = part(std::span<const double>(squares), n)};
      ScaledVerdict own;
      harness::judge_rows(own, p_, chain, rows);
      const std::lock_guard lock(mutex);
      merge(verdict, own);
    });
  }

  device::Device& device_;
  const Options& options_;
  Fp8Prepare prepare_;
  ScaledProblem p_;
  Workload inputs_, squares_;
  std::unique_ptr<Oracle> oracle_, squares_oracle_;
  std::vector<float> scale_a_, scale_b_;
  GuardedMatrix device_a_, device_b_, device_scale_a_, device_scale_b_, device_d_, device_factors_,
      device_amax_;
};

}  // namespace

std::vector<Knob> fp8_knobs() {
  return {{"type-a",
           "e4m3: 3 bits behind the leading one, up to 448; e5m2: 2, up to 57344",
           {"e4m3", "e5m2"},
           "e4m3"},
          {"type-b", "the same of B", {"e4m3", "e5m2"}, "e4m3"},
          {"scale-a", "one factor for A, or one for each of its rows", {"tensor", "row"}, "tensor"},
          {"scale-b",
           "one factor for B, or one for each of its rows, D's columns",
           {"tensor", "column"},
           "tensor"},
          {"promote",
           "k-tiles (128 of K) whose products the tensor cores add up before the sum is added in "
           "fp32; never: all of them",
           {"never", "1", "2", "4", "8"},
           "never"},
          {"output", "what D is rounded to", {"bf16", "e4m3", "e5m2"}, "bf16"},
          {"scale-d", "what an fp8 D is multiplied by before it is rounded", {}, "1", "X"},
          {"blocks",
           "factors for parts of a row of an fp8 D: powers of two for 32 columns, fp32 for 128",
           {"none", "1x32", "1x128"},
           "none"},
          {"values",
           "positive: A and B without their signs, of which the tensor cores' sums lose more than "
           "the verdict allows; awkward: some rows hold NaN, infinities, the largest and the "
           "smallest numbers, -0",
           {"ordinary", "positive", "awkward"},
           "ordinary"}};
}

std::unique_ptr<Experiment> fp8_experiment(device::Device& device, const Options& options,
                                           Fp8Prepare prepare) {
  return std::make_unique<Fp8Experiment>(device, options, std::move(prepare));
}

}  // namespace harness

// The result file: one line of JSON a run. docs/result-files.md says what each key means.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/device/device.h"
#include "common/gemm/problem.h"
#include "common/harness/benchmark.h"
#include "common/harness/clocks.h"
#include "common/harness/json.h"
#include "common/harness/machine.h"
#include "common/harness/options.h"
#include "common/harness/timing.h"
#include "common/harness/verdict.h"

namespace harness {

/// Launches whose outputs were compared bit by bit with the first one's.
struct Soak {
  int launches = 0;
  std::optional<int> first_difference;  ///< counted from 1, so 2 at the least
};

/// What was checked, and against what.
struct CheckedVerdict {
  Verdict verdict;
  std::string oracle;  ///< "cuBLAS 13.1.0, fp32"; empty when D has no elements
  std::optional<Soak> soak;
  std::optional<device::Hazards> hazards = {};  ///< empty where nobody looked for any

  bool is_right() const { return verdict.passed() && !(soak && soak->first_difference); }
  bool has_hazards() const { return hazards && hazards->count > 0; }
  bool passed() const { return is_right() && !has_hazards(); }
};

/// A run of a lesson that multiplies matrices.
struct GemmRun {
  int lesson = 0;
  std::string name;           ///< "tma"
  std::string kind = "gemm";  ///< Experiment::kind()
  Options options;
  Json problem;                           ///< Experiment::problem_json()
  std::optional<CheckedVerdict> checked;  ///< empty with --bench
  std::optional<Benchmark> benchmark;     ///< empty when nothing was timed
  Machine machine;
  bool is_wrong() const { return checked && !checked->passed(); }
};

/// A limit of the card that lesson 00 measured.
struct Ceiling {
  std::string name;                 ///< "copy" or "wgmma"
  std::optional<std::string> init;  ///< the data it was measured on, "normal"
  double value = 0;                 ///< per second, in `unit`
  std::string unit;                 ///< "B/s" or "FLOP/s"
  Timing timing;
};

/// A run of lesson 00.
struct RooflineRun {
  int lesson = 0;
  std::string name;  ///< "roofline"
  Selection selection;
  std::vector<Ceiling> ceilings;
  double ridge_flop_per_byte = 0;
  Machine machine;
  GpuState before, after;
};

/// The keys of a gemm::Problem.
Json problem_json(const Options& options, const gemm::Problem& problem);

/// The records of these runs, dated now.
Json record(const GemmRun& run);
Json record(const RooflineRun& run);

}  // namespace harness

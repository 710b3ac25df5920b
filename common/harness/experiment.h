// What a run verifies and times: a problem with its operands, its oracle and the library's ways to
// compute it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/device/device.h"
#include "common/harness/json.h"
#include "common/harness/lesson.h"
#include "common/harness/options.h"
#include "common/harness/throughput.h"
#include "common/harness/timing.h"
#include "common/harness/verdict.h"

namespace harness {

/// A problem on a device. Lessons that compute a gemm::Problem get theirs from gemm_experiment();
/// one whose problem is of another kind brings its own (Lesson::experiment).
class Experiment {
 public:
  virtual ~Experiment() = default;

  /// "gemm": of the records in the result file.
  virtual std::string kind() const = 0;
  /// One line without its end: "D = 1 * A B^T + 0 * C, M 4096, ...".
  virtual std::string describe() const = 0;
  /// The keys of the problem in the result file; "m", "n", "k" and "seed" are among them.
  virtual Json problem_json() const = 0;

  /// Whether there is an element to compute. If not, nothing below is called.
  virtual bool has_output() const = 0;
  /// Multiplications and additions of the products; the epilogue is not counted. 0: there is
  /// nothing to time.
  virtual double flops() const = 0;
  /// FLOP/s that no kernel for it can exceed on a card.
  virtual double peak_flops(const device::Properties& properties) const {
    return harness::peak_flops(properties);
  }

  /// The lesson's launch; that of the traced kernel where `selection` is traced().
  virtual Launch prepare(const Selection& selection) = 0;
  /// Fills every output, its padding and its guard bands with NaN, before a launch.
  virtual void poison_output() = 0;
  /// What oracle() says of the outputs of the last launch.
  virtual Verdict judge() = 0;
  /// Who judges: "cuBLAS 13.1, fp32".
  virtual std::string oracle() const = 0;
  /// The bytes of all outputs, for a comparison with those of another launch.
  virtual std::vector<std::byte> output() const = 0;

  /// The library's ways to compute the same into memory of its own: the first is the one that the
  /// lesson is measured by, the others are candidates, more of them with Baseline::best. CUDA back
  /// end only.
  virtual std::vector<Contender> library(Baseline baseline) = 0;
};

/// A lesson's gemm::Problem with the operands that `options` ask for.
std::unique_ptr<Experiment> gemm_experiment(const Lesson& lesson, const Options& options,
                                            device::Device& device);

}  // namespace harness

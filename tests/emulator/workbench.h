// Kernels of the lessons and of tests/kernels on the emulated machine: operands, launch, checker,
// and a comparison with a product in double precision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/emulator/checker.h"
#include "common/emulator/machine.h"

namespace workbench {

struct Size {
  int m, n, k;
};

/// D = alpha * A * B^T + beta * C. The ring has no coefficients: it takes 1 and 0.
struct Coefficients {
  float alpha = 1;
  float beta = 0;
};

struct Setup {
  /// A kernel and its template arguments: "ring<2, 3>", "split_k<false>", "gemm_tma<64, 64>".
  std::string kernel;
  /// The next template argument, an enumerator of Break as the kernel's source spells it.
  std::string broken = "none";
  Size size{};
  Coefficients coefficients{};
  int splits = 3;  ///< split_k: CTAs that share a tile
  emulator::MachineOptions machine{};
  bool strict = false;   ///< the checker also applies its strict rules
  std::string ptx = {};  ///< a text that takes the place of the kernel's PTX in build/, if any
};

/// What a launch showed.
struct Result {
  emulator::Outcome::Ending ending;
  std::vector<emulator::Finding> findings;  ///< of the machine and of the checker
  std::size_t wrong = 0;                    ///< elements that differ from the product, guards incl.
  std::string first_wrong;                  ///< "D(3, 4) is 1.5, not 2"
};

/// One kernel with its operands in device memory. What a launch leaves in the workspace of split_k
/// is there in the next launch, as on a GPU.
///
/// All values are small multiples of 1/4: every sum is exact in fp32 in any order, so a result is
/// right or wrong without a tolerance. Pitches are larger than rows, and what lies between and
/// behind the rows of D must come back untouched.
class Workbench {
 public:
  /// Throws std::runtime_error if the PTX can't be read or has no such kernel: of Setup::ptx it
  /// says which entry is missing there.
  explicit Workbench(const Setup& setup);
  ~Workbench();

  /// Fills the operands anew (by the seed), launches, and compares.
  Result launch(emulator::Schedule schedule, std::uint64_t seed);

  const emulator::Module& module() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The PTX opcode at which a finding is: "mbarrier.try_wait.parity.shared::cta.b64".
std::string opcode_at(const emulator::Module& module, const emulator::Finding& finding);

/// A text of all findings, for the message of a failed test.
std::string text(const emulator::Module& module, const Result& result);

}  // namespace workbench

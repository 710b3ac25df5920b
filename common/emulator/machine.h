// The machine that runs kernels: device memory, launches, and what a launch showed.
//
// A functional machine, not a performance model. Every warp and every asynchronous engine has a
// place in virtual time; latencies are seeded and jittered, so that one kernel can be run under
// many legal orders of events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <vector>

#include "common/emulator/module.h"
#include "common/emulator/observer.h"
#include "common/emulator/report.h"

namespace emulator {

/// Who goes first when several could. All are legal on a GPU.
enum class Schedule : std::uint8_t {
  fair,         ///< warps advance evenly, asynchronous operations take typical times
  random,       ///< warps advance at random speeds, operations take random times (by the seed)
  adversarial,  ///< operations complete as late as they may, the warps that issue copies run ahead
};

/// Three sizes or coordinates, x fastest.
struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;

  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

struct MachineOptions {
  int sms = 4;          ///< streaming multiprocessors; %nsmid
  int ctas_per_sm = 2;  ///< resident at the most: fewer where shared memory, threads or registers
                        ///< do not suffice
  Schedule schedule = Schedule::fair;
  std::uint64_t seed = 1;
  std::uint64_t step_limit = UINT64_MAX;  ///< warp instructions a launch may execute
  double time_limit_s = 0;                ///< wall time a launch may take, 0: no limit
  std::ostream* printf_output = nullptr;  ///< where printf goes, nullptr: std::cout
};

/// The shape of a launch. The cluster must divide the grid.
struct LaunchGeometry {
  Dim3 grid;
  Dim3 block;
  Dim3 cluster;
  std::uint32_t dynamic_shared_bytes = 0;
  /// Registers per thread as ptxas allocates them, for setmaxnreg; 0: what ptxas would take by the
  /// kernel's launch bounds.
  int registers_per_thread = 0;
};

struct Statistics {
  std::uint64_t instructions = 0;  ///< warp instructions
  std::uint64_t virtual_time = 0;  ///< model nanoseconds, also the cycles of %clock
  std::uint64_t async_operations = 0;
};

/// What became of a launch.
struct Outcome {
  enum class Ending : std::uint8_t {
    finished,     ///< every thread exited
    fault,        ///< stopped at the fault in `findings`, as a GPU would stop or hang
    out_of_time,  ///< step_limit or time_limit_s ran out first
  };
  Ending ending = Ending::finished;
  std::vector<Finding> findings;  ///< what the machine itself found: one after a fault, else none
  Statistics statistics;
};

/// One device. Modules that were launched from must outlive it.
class Machine {
 public:
  explicit Machine(const MachineOptions& options = {});
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  MachineOptions& options();

  /// Device memory, aligned to 256 bytes, contents undefined. A device address is the host address
  /// of the same byte: the caller fills and copies through it. Zero bytes give a unique address at
  /// which nothing may be accessed. Throws std::bad_alloc.
  void* allocate(std::size_t bytes);
  /// Releases what allocate() returned; nullptr and foreign addresses are left alone.
  void release(void* address) noexcept;
  /// Whether [address, address + bytes) lies in one allocation.
  bool contains(const void* address, std::size_t bytes) const;

  /// Runs `kernel` of `module` to its end. `parameters` are its arguments, packed by the layout of
  /// its .param list (see pack_parameters). `observer` may be nullptr.
  ///
  /// Throws PtxError if the kernel, or a function that it calls, uses an instruction outside the
  /// opcode table, and std::invalid_argument in words if the geometry can't be launched. A fault of
  /// the running kernel is no exception: it is in the outcome.
  Outcome launch(const Module& module, const Function& kernel, const LaunchGeometry& geometry,
                 std::span<const std::byte> parameters, Observer* observer = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Lays out the arguments as the kernel's .param list says (PTX ISA 5.1.6): each at the next offset
/// that its alignment allows. Throws std::invalid_argument, naming the first argument that differs,
/// unless `arguments` has the number and the sizes of the parameters.
std::vector<std::byte> pack_parameters(const Function& kernel,
                                       std::span<const std::span<const std::byte>> arguments);

}  // namespace emulator

// What a lesson tells the harness, and the one call that its main() makes.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "common/device/device.h"
#include "common/gemm/problem.h"
#include "common/harness/options.h"

namespace harness {

/// The part of D that one CTA computes; reports name the tile of the first wrong element.
struct Tile {
  int m = 1, n = 1;
};

/// The tile that --tile names: "128x256".
inline Tile chosen_tile(const Selection& selection) {
  const std::string& tile = selection.text("tile");
  return {std::stoi(tile), std::stoi(tile.substr(tile.find('x') + 1))};
}

/// For Lesson::tile, where there is but one.
inline std::function<Tile(const Selection&)> fixed_tile(int m, int n) {
  return [m, n](const Selection&) { return Tile{m, n}; };
}

/// What a CTA computes at a time: k-tiles of a tile of D, k_begin, k_begin + k_step, ...
struct Work {
  int cta, number;  ///< the CTA's first has number 0
  int row, column;  ///< of the tile, in tiles
  int k_begin, k_count;
  int k_step = 1;
};

/// Enqueues one run of the lesson's kernel.
using Launch = std::function<void()>;

class Experiment;

/// A lesson that is verified, then timed: what it is called, what it computes, and how.
struct Lesson {
  int number;
  std::string name;         ///< "tma"
  std::string trick;        ///< one line
  int default_size = 4096;  ///< M = N = K on a GPU
  int emulator_size = 256;  ///< the same on the emulator
  int pitch_multiple = 8;   ///< elements; 8 x bf16 = the 16 bytes that TMA asks of a pitch
  std::string likely_wait;  ///< ends the sentence "The kernel most likely waits for ..."
  std::vector<Knob> knobs;
  std::vector<Break> breaks;
  /// The roles that its kernel can trace, by their index in gemm::Track: {"producer", "consumer"}.
  /// Empty: there is no --trace.
  std::vector<std::string> tracks = {};
  std::function<Tile(const Selection&)> tile;
  /// Does once what every launch shares (tensor maps, grid) and returns the launch itself. Called
  /// only with m, n > 0; k may be 0. Where the selection is traced(), the launch is that of the
  /// traced kernel.
  std::function<Launch(device::Device&, const gemm::Problem&, const Selection&)> prepare = {};
  /// In place of `prepare`, for a lesson whose problem is no gemm::Problem: draws the operands that
  /// the options ask for. Device and options outlive the experiment.
  std::function<std::unique_ptr<Experiment>(device::Device&, const Options&)> experiment = {};
  /// Lists, CTA by CTA and in their order, what they compute on a GPU on which `ctas` CTAs run at a
  /// time. Called only with m, n > 0, and with nothing else of the problem but k. Empty: there is
  /// no --print-schedule.
  std::function<std::vector<Work>(const gemm::Problem&, const Selection&, int ctas)> list_work = {};
  /// Common flags that mean nothing to it ("--m").
  std::vector<std::string> omitted = {};
};

/// The body of a lesson's main(): parses, verifies, times beside cuBLAS, reports. Returns the
/// exit status: 0 verified; 1 wrong result or a hazard; 2 usage; 3 the device failed or hung.
int run(const Lesson& lesson, int argc, char** argv);

/// Runs `body` and turns what it throws into one line on stderr and the exit status above. For
/// lessons that are no GEMM (lesson 00, roofline.h); such a body waits for its kernels through a
/// Watchdog (watchdog.h), which does not unwind when one hangs.
int guard(const std::string& program, const std::function<int()>& body);

/// Does what `options` ask for in place of a run: --help, --list-breaks and --explain, on `out`,
/// and
/// --dump-ptx. Returns whether there was such a thing.
bool answer(const CommandLine& line, const Options& options, std::ostream& out);

/// Does what --print-schedule asks for: who computes what, as CSV, on `out`.
void print_schedule(const Lesson& lesson, const Options& options, std::ostream& out);

/// The device that `options` ask for, with their PTX and schedule. Throws UsageError
/// for flags that don't go with the device and for PTX that can't be read.
std::unique_ptr<device::Device> open_device(const Options& options);

}  // namespace harness

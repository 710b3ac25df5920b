// The command line that every lesson shares, and the knobs and broken variants of each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/device/device.h"
#include "common/gemm/timeline.h"

namespace harness {

/// A command line that can't be obeyed; the message names the flag. Exit status 2.
struct UsageError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// A tunable that a lesson is about. `--flag` takes one of `values`; others are refused in words.
/// Without `values` it takes any text, and the lesson itself throws UsageError at what it can't
/// read.
struct Knob {
  std::string flag;                 ///< without the dashes, "tile"
  std::string teaches;              ///< one line for --help
  std::vector<std::string> values;  ///< what the lesson instantiates
  std::string fallback;             ///< the default, one of `values`
  std::string placeholder = {};     ///< without `values`: what --help shows, "FILE"
};

/// A variant of the kernel that is broken on purpose, chosen by --break.
struct Break {
  std::string name;  ///< "no-phase-flip"
  std::string what;  ///< one line for --list-breaks: what it breaks and what that does
};

/// What the user chose among a lesson's knobs and breaks. Asking for a knob that the lesson does
/// not have, or for the number of one that is not a number, is a mistake in the lesson:
/// logic_error.
class Selection {
 public:
  const std::string& text(std::string_view knob) const;
  int number(std::string_view knob) const;
  /// The chosen break's name, empty for the right kernel.
  const std::string& broken() const { return broken_; }
  const std::map<std::string, std::string, std::less<>>& knobs() const { return knobs_; }
  /// Whether the launch is to be traced (--trace): then the kernel's traced instantiation runs.
  bool traced() const { return timeline_.tracks != nullptr; }
  /// What to pass to the kernel: device memory if traced(), else all zero.
  const gemm::Timeline& timeline() const { return timeline_; }

  void set(std::string knob, std::string value) { knobs_[std::move(knob)] = std::move(value); }
  void set_broken(std::string name) { broken_ = std::move(name); }
  void set_timeline(const gemm::Timeline& timeline) { timeline_ = timeline; }

 private:
  std::map<std::string, std::string, std::less<>> knobs_;
  std::string broken_;
  gemm::Timeline timeline_{};
};

enum class Init { normal, uniform, ones, zeros, index };
/// As the command line and the result files spell it.
std::string_view name(Init init);

enum class Mode { check_and_bench, check_only, bench_only };
enum class Baseline { standard, best };  ///< cublasGemmEx alone, or each cuBLASLt heuristic too

struct Options {
  int m = 0, n = 0, k = 0;  ///< set to the lesson's default shape before parsing
  float alpha = 1, beta = 0;
  std::optional<std::int64_t> lda, ldb, ldc, ldd;  ///< pitches in elements, if the user gave them
  std::uint64_t seed = 1;
  Init init = Init::normal;
  device::Choice device = device::Choice::automatic;
  std::optional<device::Schedule> schedule;  ///< of the emulator; fair unless the user says so
  bool strict = false;                       ///< the emulator's checker takes the ISA at its word
  Mode mode = Mode::check_and_bench;
  int rounds = 20;
  bool sustained = false;
  Baseline baseline = Baseline::standard;
  int soak = 0;              ///< launches whose outputs are compared bit by bit
  double time_limit_s = 30;  ///< --timeout
  std::string json;          ///< empty: no record is written
  std::string trace;         ///< empty: nothing is traced
  int trace_sms = 2;         ///< the CTAs of the first so many SMs are traced
  std::string ptx;           ///< a file that runs in place of the program's PTX; empty: none
  std::string dump_ptx;      ///< where to write the program's PTX; empty: nowhere
  std::string explain;       ///< a rule's id or name; empty: none is asked for
  int print_schedule = 0;    ///< for so many CTAs; 0: it is not asked for
  Selection selection;
  bool help = false;
  bool list_breaks = false;
};

/// What a lesson adds to the common command line.
struct CommandLine {
  std::string program;  ///< "lesson03"
  std::string trick;    ///< one line, the first of --help
  int default_m = 0, default_n = 0, default_k = 0;
  int emulator_size = 256;  ///< default_m, default_n and default_k on the emulator
  std::vector<Knob> knobs;
  std::vector<Break> breaks;
  bool has_tracks = false;    ///< whether its kernel can be traced
  bool has_schedule = false;  ///< whether there is a --print-schedule
  /// Common flags that mean nothing to this program ("--alpha"): --help and parse() leave them out.
  std::vector<std::string> omitted = {};
};

/// `command_line` with the defaults that hold on the emulator.
CommandLine on_emulator(CommandLine command_line);

/// Parses strictly: `8k`, `-8`, 2^32+1, unknown flags and missing values throw UsageError that
/// names the flag. `arguments` is argv without the program's name. --help ends the parse: what
/// follows it is not looked at.
Options parse(const CommandLine& command_line, std::span<const char* const> arguments);

/// The text of --help: usage, common flags, the lesson's knobs with what they teach, exit statuses,
/// examples. At most 100 columns.
std::string help(const CommandLine& command_line);
/// The text of --list-breaks.
std::string list_breaks(const CommandLine& command_line);
/// The text of --explain: the rule of the emulator's checker with this id or name, at most 100
/// columns. Throws UsageError that lists the rules if there is none.
std::string explain(const std::string& rule);

}  // namespace harness

#include "common/harness/report.h"

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "common/device/concat.h"
#include "common/harness/statistics.h"

namespace harness {
namespace {

/// `number` with `digits` significant digits.
std::string significant(double number, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, number);
  return text.data();
}

std::string describe(const Soak& soak) {
  if (!soak.first_difference) {
    return device::concat("PASS: ", soak.launches, " launches, the same bits each time.");
  }
  return device::concat("FAIL: launch ", *soak.first_difference, " of ", soak.launches,
                        " gave other bits than launch 1. A kernel that adds in a fixed order gives "
                        "the same bits each time, so suspect a race.");
}

/// "PASS: ..." or "FAIL: ...", by D and by the hazards.
std::string describe(const CheckedVerdict& checked, const Tile& tile, const std::string& broken) {
  std::string text = describe(checked.verdict, tile);
  if (!checked.verdict.passed()) return text;
  constexpr std::size_t pass = std::string_view("PASS").size();
  if (checked.has_hazards()) {
    text.replace(0, pass, "FAIL (D is right this time, but see the hazards)");
  } else if (!broken.empty()) {
    text.replace(0, pass,
                 "PASS (by luck: what --break " + broken + " breaks did not show this time)");
  }
  return text;
}

/// "0.402 ms (0.399 .. 0.407)   341.9 TFLOP/s": the figure and its quartiles.
std::string describe(const TimedContender& contender) {
  const Timing& timing = contender.timing;
  const Summary spread = summarize(timing.samples_ms);
  std::string text = device::concat(
      significant(timing.ms, 4), " ms (", significant(spread.lower_quartile, 4), " .. ",
      significant(spread.upper_quartile, 4), ")   ", significant(contender.tflops, 4), " TFLOP/s");
  if (timing.sm_clock_mhz) text += device::concat("   ", *timing.sm_clock_mhz, " MHz");
  if (timing.power_w) text += device::concat("   ", significant(*timing.power_w, 3), " W");
  return text;
}

std::string describe(const Ratio& ratio, const Protocol& protocol) {
  std::string text = significant(ratio.standard, 3) + " of cuBLAS";
  if (ratio.best) text += ", " + significant(*ratio.best, 3) + " of its best";
  const std::string rounds =
      protocol.rounds
          ? device::concat("median of ", device::counted(*protocol.rounds, "round"), ", ")
          : "";
  return text + " (" + rounds + protocol.text + ")";
}

/// "SM 1980 -> 1755 MHz, power 118 -> 301 W", as far as NVML said.
std::string describe_change(const GpuState& before, const GpuState& after) {
  std::string text;
  if (before.sm_clock_mhz && after.sm_clock_mhz) {
    text = device::concat("SM ", *before.sm_clock_mhz, " -> ", *after.sm_clock_mhz, " MHz");
  }
  if (before.power_w && after.power_w) {
    text += device::concat(text.empty() ? "" : ", ", "power ", significant(*before.power_w, 3),
                           " -> ", significant(*after.power_w, 3), " W");
  }
  return text;
}

}  // namespace

void report(std::ostream& out, std::string_view head, std::string_view text) {
  constexpr std::size_t column = 9;
  out << head << std::string(head.size() < column ? column - head.size() : 1, ' ');
  for (const char c : text) {
    out << c;
    if (c == '\n') out << std::string(column, ' ');
  }
  out << std::endl;
}

void report(std::ostream& out, const device::Device& device) {
  if (device.backend() != device::Backend::emulator) return;
  const std::string& reason = device.properties().instead_of_gpu;
  report(out, "device",
         (reason.empty() ? "" : reason + "\n") +
             "The emulator runs the PTX: small sizes by default, the CPU in place of cuBLAS, no "
             "times.");
}

void report(std::ostream& out, const device::Hazards& hazards) {
  if (hazards.count == 0) {
    report(out, "hazards", "none found (" + hazards.conditions + ")");
    return;
  }
  report(out, "hazards",
         device::concat(hazards.count, " found (", hazards.conditions, ")\n", hazards.text,
                        "--explain with the id of a finding prints the rule behind it."));
}

void report(std::ostream& out, const CheckedVerdict& checked, const Tile& tile,
            const std::string& broken) {
  report(out, "verify", describe(checked, tile, broken));
  report(out, "oracle", checked.oracle);
  if (checked.soak) report(out, "soak", describe(*checked.soak));
  if (checked.hazards) report(out, *checked.hazards);
}

void report(std::ostream& out, const Benchmark& benchmark) {
  const std::vector<TimedContender>& contenders = benchmark.contenders;
  report(out, "time", describe(contenders[0]));
  report(out, "cuBLAS", describe(contenders[1]) + "   " + contenders[1].name);
  for (const TimedContender& contender : contenders) {
    if (contender.role == "candidate" && contender.name == benchmark.ratio.best_contender) {
      report(out, "best", describe(contender) + "   " + contender.name);
    }
  }
  report(out, "ratio", describe(benchmark.ratio, benchmark.protocol));

  const std::string change = describe_change(benchmark.before, benchmark.after);
  if (!change.empty()) report(out, "clock", change);
  for (const TimedContender& contender : contenders) {
    if (contender.timing.late > 0) {
      report(out, "note",
             device::concat(contender.timing.late, " of ", contender.timing.launches,
                            " samples of ", contender.name,
                            " may hold the cost of launching: the host did not run ahead."));
    }
  }
}

void report(std::ostream& out, const Trace& trace, const std::string& path) {
  report(out, "trace",
         device::concat(device::counted(trace.record_count(), "span"), " of ",
                        device::counted(trace.tracks.size(), "track"), " in ", path,
                        "; ui.perfetto.dev shows it, plots/timeline.py draws it"));
  if (trace.lost_tracks > 0) {
    report(out, "note",
           device::concat(device::counted(trace.lost_tracks, "track"),
                          " more had no place in the memory for it; a smaller problem has fewer."));
  }
  if (trace.lost_records > 0) {
    report(out, "note",
           device::concat("the last ", device::counted(trace.lost_records, "span"),
                          " had no room in their tracks; a smaller --k has fewer."));
  }
}

}  // namespace harness

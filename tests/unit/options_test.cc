#include "common/harness/options.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "common/emulator/report.h"
#include "tests/catch.h"
#include "tests/unit/message.h"

namespace {

using harness::Baseline;
using harness::CommandLine;
using harness::Init;
using harness::Mode;
using harness::Options;
using harness::UsageError;

CommandLine command_line() {
  return {.program = "lesson99",
          .trick = "a lesson that is not there",
          .default_m = 4096,
          .default_n = 2048,
          .default_k = 1024,
          .knobs = {{"tile", "how much of D a CTA computes", {"64x64", "128x128"}, "128x128"},
                    {"stages", "how far the loads run ahead", {"2", "3", "4"}, "3"}},
          .breaks = {{"no-phase-flip", "waits for the same parity for ever"},
                     {"no-fence", "leaves a fence out"}},
          .has_tracks = true,
          .has_schedule = true};
}

Options parse(const std::vector<const char*>& arguments, const CommandLine& line = command_line()) {
  return harness::parse(line, arguments);
}

/// What the usage error says; empty if the arguments are taken.
std::string refusal(const std::vector<const char*>& arguments,
                    const CommandLine& line = command_line()) {
  return tests::message_of<UsageError>([&] { parse(arguments, line); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("without arguments, the options are the lesson's defaults", "[options]") {
  const Options options = parse({});
  CHECK(options.m == 4096);
  CHECK(options.n == 2048);
  CHECK(options.k == 1024);
  CHECK(options.alpha == 1);
  CHECK(options.beta == 0);
  CHECK_FALSE(options.lda.has_value());
  CHECK(options.seed == 1);
  CHECK(options.init == Init::normal);
  CHECK(options.device == device::Choice::automatic);
  CHECK_FALSE(options.schedule.has_value());
  CHECK_FALSE(options.strict);
  CHECK(options.ptx.empty());
  CHECK(options.dump_ptx.empty());
  CHECK(options.explain.empty());
  CHECK(options.mode == Mode::check_and_bench);
  CHECK(options.rounds == 20);
  CHECK_FALSE(options.sustained);
  CHECK(options.baseline == Baseline::standard);
  CHECK(options.soak == 0);
  CHECK(options.time_limit_s == 30);
  CHECK(options.json.empty());
  CHECK(options.trace.empty());
  CHECK(options.trace_sms == 2);
  CHECK(options.print_schedule == 0);
  CHECK(options.selection.text("tile") == "128x128");
  CHECK(options.selection.number("stages") == 3);
  CHECK(options.selection.broken().empty());
  CHECK_FALSE(options.selection.traced());
  CHECK_FALSE(options.help);
  CHECK_FALSE(options.list_breaks);
}

TEST_CASE("every flag sets its option", "[options]") {
  const Options problem = parse({"--m",        "0",       "--n",   "1",      "--k",
                                 "2147483647", "--alpha", "-1.5",  "--beta", "2e-3",
                                 "--lda",      "10",      "--ldb", "11",     "--ldc",
                                 "12",         "--ldd",   "13",    "--seed", "18446744073709551615",
                                 "--init",     "index"});
  CHECK(problem.m == 0);
  CHECK(problem.n == 1);
  CHECK(problem.k == std::numeric_limits<int>::max());
  CHECK(problem.alpha == -1.5F);
  CHECK(problem.beta == 2e-3F);
  CHECK(problem.lda == 10);
  CHECK(problem.ldb == 11);
  CHECK(problem.ldc == 12);
  CHECK(problem.ldd == 13);
  CHECK(problem.seed == std::numeric_limits<std::uint64_t>::max());
  CHECK(problem.init == Init::index);

  const Options run =
      parse({"--device", "cuda", "--bench", "--rounds", "7", "--baseline", "best", "--timeout",
             "0.5", "--json", "out.json", "--tile", "64x64", "--stages", "4"});
  CHECK(run.device == device::Choice::cuda);
  CHECK(run.mode == Mode::bench_only);
  CHECK(run.rounds == 7);
  CHECK(run.baseline == Baseline::best);
  CHECK(run.time_limit_s == 0.5);
  CHECK(run.json == "out.json");
  CHECK(run.selection.text("tile") == "64x64");
  CHECK(run.selection.number("stages") == 4);

  const Options emulated = parse({"--device", "emulator", "--schedule", "adversarial", "--strict",
                                  "--ptx", "edited.ptx", "--explain", "E07"});
  CHECK(emulated.device == device::Choice::emulator);
  CHECK(emulated.schedule == device::Schedule::adversarial);
  CHECK(emulated.strict);
  CHECK(emulated.ptx == "edited.ptx");
  CHECK(emulated.explain == "E07");
  CHECK(parse({"--dump-ptx", "out.ptx"}).dump_ptx == "out.ptx");

  CHECK(parse({"--check-only", "--soak", "5000"}).mode == Mode::check_only);
  CHECK(parse({"--check-only", "--soak", "5000"}).soak == 5000);
  CHECK(parse({"--sustained"}).sustained);
  CHECK(parse({"--trace", "trace.json"}).trace == "trace.json");
  CHECK(parse({"--trace-sms", "132", "--trace", "trace.json"}).trace_sms == 132);
  CHECK(parse({"--print-schedule", "132"}).print_schedule == 132);
  CHECK(parse({"--break", "no-fence"}).selection.broken() == "no-fence");
  CHECK(parse({"--list-breaks"}).list_breaks);
}

TEST_CASE("each init is known by its name", "[options]") {
  for (const Init init : {Init::normal, Init::uniform, Init::ones, Init::zeros, Init::index}) {
    const std::string spelling(harness::name(init));
    CHECK(parse({"--init", spelling.c_str()}).init == init);
  }
}

TEST_CASE("a value that is no whole number in range is refused by flag and value", "[options]") {
  for (const char* flag : {"--m", "--n", "--k", "--lda", "--ldb", "--ldc", "--ldd", "--seed",
                           "--rounds", "--soak", "--trace-sms"}) {
    for (const char* value : {"abc", "-8", "8k", "1.5", "1e3", "0x10", "+8", " 8", "8 ", "-",
                              "18446744073709551616", "99999999999999999999999"}) {
      const std::string message = refusal({flag, value});
      INFO(flag << " " << value << ": " << message);
      CHECK(contains(message, std::string(flag) + " takes a whole number"));
      CHECK(contains(message, "'" + std::string(value) + "'"));
    }
  }
  for (const char* value : {"2147483648", "4294967297", "4294967296"}) {
    CHECK(contains(refusal({"--m", value}), "--m takes a whole number from 0 to 2147483647"));
  }
  CHECK(contains(refusal({"--rounds", "0"}), "--rounds takes a whole number from 1"));
  CHECK(contains(refusal({"--rounds", "100001"}), "--rounds"));
  CHECK(contains(refusal({"--lda", "0"}), "--lda"));
  CHECK(contains(refusal({"--trace-sms", "0"}), "--trace-sms takes a whole number from 1"));
  // One launch has nothing to be compared with.
  CHECK(contains(refusal({"--soak", "1"}), "--soak takes a whole number from 2"));
}

TEST_CASE("a value that is no finite fp32 number is refused", "[options]") {
  for (const char* flag : {"--alpha", "--beta"}) {
    for (const char* value : {"nan", "inf", "-inf", "1e39", "abc", "1.5x", "0x1p3", "--", "1,5"}) {
      INFO(flag << " " << value);
      CHECK(contains(refusal({flag, value}), flag));
    }
  }
  for (const char* value : {"0", "-1", "nan", "inf", "86401", "10s"}) {
    CHECK(contains(refusal({"--timeout", value}), "--timeout takes seconds"));
  }
}

TEST_CASE("a missing value is refused, and the next flag is no value", "[options]") {
  for (const char* flag :
       {"--m",        "--alpha",  "--lda",      "--seed",      "--init",
        "--device",   "--rounds", "--baseline", "--soak",      "--timeout",
        "--json",     "--tile",   "--break",    "--schedule",  "--explain",
        "--dump-ptx", "--ptx",    "--trace",    "--trace-sms", "--print-schedule"}) {
    CHECK(contains(refusal({flag}), std::string(flag) + " needs a value"));
    CHECK(contains(refusal({flag, "--sustained"}), std::string(flag) + " needs a value"));
    CHECK(contains(refusal({flag, ""}), std::string(flag) + " needs a value"));
  }
}

TEST_CASE("a value outside an enumeration is refused with what is allowed", "[options]") {
  const std::string near_miss = refusal({"--init", "norml"});
  CHECK(contains(near_miss, "--init takes one of normal, uniform, ones, zeros, index"));
  CHECK(contains(near_miss, "did you mean normal?"));
  CHECK_FALSE(contains(refusal({"--init", "gaussian"}), "did you mean"));

  CHECK(contains(refusal({"--tile", "128"}), "--tile takes one of 64x64, 128x128, not '128'"));
  CHECK(contains(refusal({"--stages", "5"}), "--stages takes one of 2, 3, 4"));
  CHECK(contains(refusal({"--break", "no-fense"}), "did you mean no-fence?"));
  CHECK(contains(refusal({"--baseline", "fastest"}), "--baseline takes one of standard, best"));
  CHECK(contains(refusal({"--device", "tpu"}), "--device takes one of auto, cuda, emulator"));
  CHECK(contains(refusal({"--schedule", "unfair"}),
                 "--schedule takes one of fair, random, adversarial, not 'unfair'; did you mean "
                 "fair?"));
}

TEST_CASE("an unknown flag is refused, with the one that it resembles", "[options]") {
  CHECK(contains(refusal({"--mm", "8"}), "unknown flag --mm; did you mean --m?"));
  CHECK(contains(refusal({"--round", "8"}), "did you mean --rounds?"));
  CHECK(contains(refusal({"--sustain"}), "did you mean --sustained?"));
  CHECK(contains(refusal({"--m=8"}), "unknown flag --m=8; write --m 8."));
  for (const char* flag : {"--track", "--lenient", "-h", "-m", "--"}) {
    CHECK(contains(refusal({flag}), "unknown flag " + std::string(flag)));
  }
  CHECK(contains(refusal({"8"}), "unexpected argument '8'"));
  CHECK(contains(refusal({"--m", "8", "9"}), "unexpected argument '9'"));
  CHECK(contains(refusal({""}), "unexpected argument ''"));
}

TEST_CASE("a flag is given once", "[options]") {
  CHECK(refusal({"--m", "8", "--n", "9", "--m", "8"}) == "--m is given twice.");
  CHECK(refusal({"--sustained", "--sustained"}) == "--sustained is given twice.");
}

TEST_CASE("flags that make each other void are refused, whichever comes first", "[options]") {
  const std::vector<std::vector<const char*>> pairs{
      {"--check-only", "--bench"},
      {"--check-only", "--sustained"},
      {"--check-only", "--rounds", "3"},
      {"--check-only", "--baseline", "best"},
      {"--bench", "--soak", "3"},
      {"--bench", "--trace", "a.json"},
      {"--break", "no-fence", "--trace", "a.json"},
      {"--print-schedule", "4", "--bench"},
      {"--print-schedule", "4", "--check-only"},
      {"--print-schedule", "4", "--json", "a.json"},
      {"--print-schedule", "4", "--trace", "a.json"},
      {"--print-schedule", "4", "--device", "cuda"},
      {"--print-schedule", "4", "--break", "no-fence"},
      {"--sustained", "--rounds", "3"},
      {"--dump-ptx", "a.ptx", "--ptx", "b.ptx"},
      {"--break", "no-fence", "--bench"},
      {"--break", "no-fence", "--rounds", "3"},
      {"--break", "no-fence", "--sustained"},
      {"--break", "no-fence", "--baseline", "best"}};
  for (const std::vector<const char*>& pair : pairs) {
    const std::string message = refusal(pair);
    INFO(message);
    CHECK(contains(message, "do not go together"));
    for (const char* word : pair) {
      if (std::string(word).starts_with("--")) CHECK(contains(message, word));
    }
  }
  CHECK(contains(refusal({"--rounds", "3", "--sustained"}), "do not go together"));
  CHECK(refusal({"--break", "no-fence", "--soak", "3", "--check-only"}).empty());
}

TEST_CASE("--print-schedule is for lessons that have a schedule", "[options]") {
  CHECK(
      contains(refusal({"--print-schedule", "0"}), "--print-schedule takes a whole number from 1"));
  CHECK(contains(harness::help(command_line()), "--print-schedule CTAS"));

  CommandLine without = command_line();
  without.has_schedule = false;
  CHECK(refusal({"--print-schedule", "4"}, without) ==
        "--print-schedule: lesson99 does not print who computes what; lessons on scheduling do.");
  CHECK_FALSE(contains(harness::help(without), "--print-schedule"));
}

TEST_CASE("flags of the timeline are refused where there is nothing for them", "[options]") {
  CHECK(contains(refusal({"--trace-sms", "4"}), "--trace-sms needs --trace"));
  CHECK(contains(refusal({"--trace", "a.json", "--json", "a.json"}), "name the same file, a.json"));
  CHECK(refusal({"--trace", "a.json", "--json", "b.json", "--check-only"}).empty());

  CommandLine untraced = command_line();
  untraced.has_tracks = false;
  CHECK(refusal({"--trace", "a.json"}, untraced) ==
        "--trace: lesson99 has no timeline; its kernel has no roles to show.");
  CHECK(contains(refusal({"--trace-sms", "4"}, untraced), "lesson99 has no timeline"));
  CHECK(contains(harness::help(command_line()), "Timeline"));
  CHECK_FALSE(contains(harness::help(untraced), "Timeline"));
  CHECK_FALSE(contains(harness::help(untraced), "--trace"));
}

TEST_CASE("flags of the emulator are refused for a GPU, whichever comes first", "[options]") {
  CHECK(contains(refusal({"--device", "cuda", "--schedule", "fair"}),
                 "--schedule needs --device emulator"));
  CHECK(contains(refusal({"--strict", "--device", "cuda"}), "--strict needs --device emulator"));
  CHECK(refusal({"--device", "cuda", "--ptx", "edited.ptx"}).empty());
}

TEST_CASE("on the emulator the default size is small, and what is given stays", "[options]") {
  const CommandLine line = harness::on_emulator(command_line());
  const Options options = parse({"--n", "2048"}, line);
  CHECK(options.m == 256);
  CHECK(options.n == 2048);
  CHECK(options.k == 256);
}

TEST_CASE("--explain knows rules by id and name, and lists them otherwise", "[options]") {
  const std::string rule = harness::explain("E07");
  CHECK(rule.starts_with("E07 phase-aba\n\n"));
  CHECK(contains(rule, "parity"));
  CHECK(contains(rule, "Source: PTX ISA"));
  CHECK(harness::explain("phase-aba") == rule);
  for (const emulator::Rule& each : emulator::rules()) {
    for (const std::string& line : lines_of(harness::explain(std::string(each.id)))) {
      INFO(line);
      CHECK(line.size() <= 100);
    }
  }
  const std::string unknown = tests::message_of<UsageError>([] { harness::explain("E99"); });
  CHECK(contains(unknown, "--explain knows no rule 'E99'"));
  CHECK(contains(unknown, "E01 deadlock, "));
  CHECK(contains(unknown, "E07 phase-aba"));
}

TEST_CASE("--help ends the parse", "[options]") {
  CHECK(parse({"--m", "8", "--help", "--mm"}).help);
  CHECK(contains(refusal({"--mm", "--help"}), "--mm"));
}

TEST_CASE("--help has every flag, every knob with what it teaches, and fits", "[options]") {
  const std::string help = harness::help(command_line());
  for (const char* part : {"lesson99: a lesson that is not there",
                           "Usage: ./lesson99",
                           "--m N",
                           "(4096, on the emulator 256)",
                           "--n N",
                           "(2048, on the emulator 256)",
                           "--k N",
                           "(1024, on the emulator 256)",
                           "--alpha",
                           "--beta",
                           "--lda",
                           "--ldb",
                           "--ldc",
                           "--ldd",
                           "--seed",
                           "--init normal|uniform|ones|zeros|index",
                           "--device auto|cuda|emulator",
                           "--schedule fair|random|adversarial",
                           "--strict",
                           "--explain RULE",
                           "--dump-ptx FILE",
                           "--ptx FILE",
                           "--check-only",
                           "--bench",
                           "--rounds",
                           "(20)",
                           "--sustained",
                           "--baseline standard|best",
                           "--soak",
                           "--timeout",
                           "(30)",
                           "--json",
                           "--trace FILE",
                           "--trace-sms N",
                           "--tile 64x64|128x128",
                           "how much of D a CTA computes (128x128)",
                           "--stages 2|3|4",
                           "how far the loads run ahead (3)",
                           "--break",
                           "--list-breaks",
                           "--help",
                           "Exit status",
                           "Examples"}) {
    INFO(part);
    CHECK(contains(help, part));
  }
  for (const std::string& line : lines_of(help)) {
    INFO(line);
    CHECK(line.size() <= 100);
    CHECK((line.empty() || line.back() != ' '));
  }
}

TEST_CASE("every flag that --help offers is taken, and its examples parse", "[options]") {
  std::vector<std::string> offered;
  for (const std::string& line : lines_of(harness::help(command_line()))) {
    if (line.starts_with("  --")) offered.push_back(line.substr(2, line.find(' ', 2) - 2));
    const std::string command = "  ./lesson99 ";
    if (!line.starts_with(command)) continue;
    std::vector<std::string> words;
    std::istringstream stream(line.substr(command.size()));
    for (std::string word; stream >> word;) words.push_back(word);
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());
    CHECK(refusal(arguments).empty());
  }
  CHECK(offered.size() == 33);
  for (const std::string& flag : offered) {
    INFO(flag);
    CHECK_FALSE(contains(refusal({flag.c_str()}), "unknown flag"));
  }
}

TEST_CASE("a program can leave common flags out", "[options]") {
  CommandLine line = command_line();
  line.omitted = {"--alpha", "--beta", "--rounds", "--sustained", "--baseline"};
  CHECK(contains(refusal({"--alpha", "2"}, line), "unknown flag --alpha"));
  CHECK(contains(refusal({"--sustained"}, line), "unknown flag --sustained"));
  CHECK(parse({"--m", "8"}, line).m == 8);
  CHECK_FALSE(contains(harness::help(line), "--alpha"));
  CHECK_FALSE(contains(harness::help(line), "Timing"));
}

TEST_CASE("a knob without values takes any text", "[options]") {
  CommandLine line = command_line();
  line.knobs = {{"groups", "the sizes of the GEMMs", {}, "8x8x8", "LIST"}};
  CHECK(parse({}, line).selection.text("groups") == "8x8x8");
  CHECK(parse({"--groups", "1x2x3,4x5x6"}, line).selection.text("groups") == "1x2x3,4x5x6");
  CHECK(contains(harness::help(line), "--groups LIST"));
}

TEST_CASE("a lesson without knobs or breaks has no such flags", "[options]") {
  CommandLine line = command_line();
  line.knobs.clear();
  line.breaks.clear();
  CHECK_FALSE(contains(harness::help(line), "Knobs"));
  CHECK(contains(refusal({"--break", "no-fence"}, line), "unknown flag --break"));
  CHECK(harness::list_breaks(line) == "lesson99 has no broken variants.\n");
  CHECK(parse({"--list-breaks"}, line).list_breaks);
}

TEST_CASE("--list-breaks says what each variant breaks", "[options]") {
  const std::vector<std::string> lines = lines_of(harness::list_breaks(command_line()));
  REQUIRE(lines.size() == 2);
  CHECK(contains(lines[0], "no-phase-flip"));
  CHECK(contains(lines[0], "waits for the same parity for ever"));
  CHECK(contains(lines[1], "no-fence"));
}

TEST_CASE("a lesson that reads a knob it does not have is told so", "[options]") {
  const Options options = parse({});
  CHECK_THROWS_AS(options.selection.text("swizzle"), std::logic_error);
  CHECK_THROWS_AS(options.selection.number("tile"), std::logic_error);
}

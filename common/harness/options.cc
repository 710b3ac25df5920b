#include "common/harness/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "common/emulator/report.h"

namespace harness {
namespace {

constexpr std::array<std::string_view, 5> init_names{"normal", "uniform", "ones", "zeros", "index"};

/// One flag of the command line: how it reads in --help and what its value sets.
struct Flag {
  std::string name;     ///< "--m"
  std::string operand;  ///< "N", or "normal|ones"; empty for a switch
  std::string what;
  std::function<void(const std::string& value)> set;
  bool listed = true;  ///< in --help
};

struct Section {
  std::string title;
  std::vector<Flag> flags;
};

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

/// How many letters must be put in, taken out or changed to turn `a` into `b` (Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

/// Ends a sentence: "; did you mean X?" if a candidate is a slip of the fingers away, else ".".
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t slip = 2;
  const std::string* closest = nullptr;
  std::size_t smallest = slip + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < smallest && distance < candidate.size()) {
      smallest = distance;
      closest = &candidate;
    }
  }
  return closest == nullptr ? "." : "; did you mean " + *closest + "?";
}

template <class Number>
Number parse_integer(const std::string& flag, const std::string& value, Number low, Number high) {
  Number number{};
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc{} || rest != end || number < low || number > high) {
    throw UsageError(flag + " takes a whole number from " + std::to_string(low) + " to " +
                     std::to_string(high) + ", not '" + value + "'.");
  }
  return number;
}

/// A finite number; empty if `value` is anything else.
template <class Number>
std::optional<Number> finite_number(const std::string& value) {
  Number number{};
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc{} || rest != end || !std::isfinite(number)) return std::nullopt;
  return number;
}

/// The index of `value` among `allowed`.
std::size_t parse_choice(const std::string& flag, const std::string& value,
                         const std::vector<std::string>& allowed) {
  const auto found = std::find(allowed.begin(), allowed.end(), value);
  if (found == allowed.end()) {
    throw UsageError(flag + " takes one of " + join(allowed, ", ") + ", not '" + value + "'" +
                     suggestion(value, allowed));
  }
  return static_cast<std::size_t>(found - allowed.begin());
}

Flag extent_flag(std::string name, int& extent, int fallback, int emulator_fallback,
                 const std::string& what) {
  return {name, "N",
          what + " (" + std::to_string(fallback) + ", on the emulator " +
              std::to_string(emulator_fallback) + ")",
          [name, &extent](const std::string& value) {
            extent = parse_integer<int>(name, value, 0, std::numeric_limits<int>::max());
          }};
}

Flag pitch_flag(std::string name, std::optional<std::int64_t>& pitch, const std::string& what) {
  return {name, "N", what, [name, &pitch](const std::string& value) {
            pitch = parse_integer<std::int64_t>(name, value, 1,
                                                std::numeric_limits<std::int64_t>::max());
          }};
}

Flag scale_flag(std::string name, float& scale, const std::string& what) {
  return {name, "X", what, [name, &scale](const std::string& value) {
            const std::optional<float> number = finite_number<float>(value);
            if (!number) {
              throw UsageError(name + " takes a finite number that fp32 can hold, not '" + value +
                               "'.");
            }
            scale = *number;
          }};
}

Flag count_flag(std::string name, int& count, int low, int high, const std::string& what) {
  return {name, "N", what, [name, &count, low, high](const std::string& value) {
            count = parse_integer<int>(name, value, low, high);
          }};
}

Section problem_section(const CommandLine& line, Options& options) {
  const std::vector<std::string> inits(init_names.begin(), init_names.end());
  return {
      "Problem: D = alpha * A * B^T + beta * C, bf16, sums in fp32",
      {extent_flag("--m", options.m, line.default_m, line.emulator_size, "rows of A and D"),
       extent_flag("--n", options.n, line.default_n, line.emulator_size, "rows of B, columns of D"),
       extent_flag("--k", options.k, line.default_k, line.emulator_size, "columns of A and B"),
       scale_flag("--alpha", options.alpha, "scales the product (1)"),
       scale_flag("--beta", options.beta, "scales C; 0 leaves C unread (0)"),
       pitch_flag("--lda", options.lda, "elements from row to row of A (the smallest that fits)"),
       pitch_flag("--ldb", options.ldb, "the same of B"),
       pitch_flag("--ldc", options.ldc, "the same of C"),
       pitch_flag("--ldd", options.ldd, "the same of D"),
       {"--seed", "N",
        "seed of the random numbers, of the order of timing and of the emulator's schedule (1)",
        [&options](const std::string& value) {
          options.seed = parse_integer<std::uint64_t>("--seed", value, 0,
                                                      std::numeric_limits<std::uint64_t>::max());
        }},
       {"--init", join(inits, "|"),
        "elements of A, B and C (normal); ones and zeros draw less power and run faster",
        [&options, inits](const std::string& value) {
          options.init = static_cast<Init>(parse_choice("--init", value, inits));
        }}}};
}

Section what_section(Options& options) {
  return {"What to do: verify, then time, unless one of these says otherwise",
          {{"--check-only", "", "verify and stop",
            [&options](const std::string&) { options.mode = Mode::check_only; }},
           {"--bench", "", "time and leave D unverified",
            [&options](const std::string&) { options.mode = Mode::bench_only; }},
           count_flag("--soak", options.soak, 2, std::numeric_limits<int>::max(),
                      "verify, then compare the bits of D over N launches")}};
}

Section timing_section(Options& options) {
  constexpr int max_rounds = 100000;
  const std::string default_rounds = std::to_string(options.rounds);
  return {"Timing",
          {count_flag("--rounds", options.rounds, 1, max_rounds,
                      "timed rounds; each contender runs once a round, in a shuffled order, after "
                      "the L2 was flushed (" +
                          default_rounds + ")"),
           {"--sustained", "",
            "each contender alone, back to back for about a second: this rewards fewer joules, "
            "rounds reward fewer cycles",
            [&options](const std::string&) { options.sustained = true; }},
           {"--baseline", "standard|best",
            "time beside the library's default, or beside each of its heuristics' algorithms too "
            "(standard)",
            [&options](const std::string& value) {
              options.baseline =
                  static_cast<Baseline>(parse_choice("--baseline", value, {"standard", "best"}));
            }}}};
}

Section general_section(Options& options) {
  return {"General",
          {{"--device", "auto|cuda|emulator",
            "auto takes a Hopper GPU if there is one, else the emulator (auto)",
            [&options](const std::string& value) {
              options.device = static_cast<device::Choice>(
                  parse_choice("--device", value, {"auto", "cuda", "emulator"}));
            }},
           {"--timeout", "S", "seconds after which a kernel that has not finished is a hang (30)",
            [&options](const std::string& value) {
              constexpr double day = 24 * 60 * 60;
              const std::optional<double> seconds = finite_number<double>(value);
              if (!seconds || *seconds <= 0 || *seconds > day) {
                throw UsageError("--timeout takes seconds, more than 0 and at most " +
                                 std::to_string(static_cast<int>(day)) + ", not '" + value + "'.");
              }
              options.time_limit_s = *seconds;
            }},
           {"--json", "FILE", "write one record of the run (docs/result-files.md)",
            [&options](const std::string& value) { options.json = value; }},
           {"--help", "", "this text", [&options](const std::string&) { options.help = true; }}}};
}

/// A program whose kernel can't be traced knows the flags only to say so.
Section trace_section(const CommandLine& line, Options& options) {
  const auto traced = [&](std::string flag, std::string operand, const std::string& what,
                          std::function<void(const std::string&)> set) {
    const auto refuse = [flag, program = line.program](const std::string&) {
      throw UsageError(flag + ": " + program +
                       " has no timeline; its kernel has no roles to show.");
    };
    return Flag{flag, std::move(operand), what,
                line.has_tracks ? std::move(set) : std::function<void(const std::string&)>(refuse),
                line.has_tracks};
  };
  constexpr int most_sms = 1024;
  return {"Timeline: what each role of the kernel does, and when",
          {traced("--trace", "FILE",
                  "launch the kernel once more with time stamps, and write what it did for "
                  "ui.perfetto.dev and plots/timeline.py (docs/result-files.md)",
                  [&options](const std::string& value) { options.trace = value; }),
           traced("--trace-sms", "N",
                  "trace the CTAs of the first N SMs (" + std::to_string(options.trace_sms) + ")",
                  [&options](const std::string& value) {
                    options.trace_sms = parse_integer<int>("--trace-sms", value, 1, most_sms);
                  })}};
}

/// A program without a scheduler of its own knows the flag only to say so.
Section schedule_section(const CommandLine& line, Options& options) {
  constexpr int most_ctas = 1024;
  return {
      "Schedule: who computes what",
      {{"--print-schedule", "CTAS",
        "print what each CTA computes, as CSV, where so many fit on the GPU at a time, and stop: "
        "for plots/schedule.py; needs no GPU",
        [&options, &line](const std::string& value) {
          if (!line.has_schedule) {
            throw UsageError("--print-schedule: " + line.program +
                             " does not print who computes what; lessons on scheduling do.");
          }
          options.print_schedule = parse_integer<int>("--print-schedule", value, 1, most_ctas);
        },
        line.has_schedule}}};
}

Section emulator_section(Options& options) {
  return {
      "The PTX, and the emulator that runs it without a GPU and says what is wrong with a kernel",
      {{"--schedule", "fair|random|adversarial",
        "in which of the legal orders things happen: evenly, at random by the seed, or copies "
        "as late and producers as early as may be (fair)",
        [&options](const std::string& value) {
          options.schedule = static_cast<device::Schedule>(
              parse_choice("--schedule", value, {"fair", "random", "adversarial"}));
        }},
       {"--strict", "", "report also what the ISA's text leaves in doubt",
        [&options](const std::string&) { options.strict = true; }},
       {"--explain", "RULE", "the rule behind a report, by its id, E07, or its name",
        [&options](const std::string& value) { options.explain = value; }},
       {"--dump-ptx", "FILE", "write the PTX that the kernels are made of, and stop",
        [&options](const std::string& value) { options.dump_ptx = value; }},
       {"--ptx", "FILE", "run this PTX instead, an edited copy",
        [&options](const std::string& value) { options.ptx = value; }}}};
}

Section knob_section(const CommandLine& line, Options& options) {
  Section section{"Knobs of this lesson", {}};
  for (const Knob& knob : line.knobs) {
    const std::string flag = "--" + knob.flag;
    const bool takes_any = knob.values.empty();
    section.flags.push_back({flag, takes_any ? knob.placeholder : join(knob.values, "|"),
                             knob.teaches + " (" + knob.fallback + ")",
                             [&options, &knob, flag, takes_any](const std::string& value) {
                               if (!takes_any) parse_choice(flag, value, knob.values);
                               options.selection.set(knob.flag, value);
                             }});
  }
  return section;
}

Section break_section(const CommandLine& line, Options& options) {
  Section section{"Broken on purpose", {}};
  if (!line.breaks.empty()) {
    std::vector<std::string> names;
    for (const Break& variant : line.breaks) names.push_back(variant.name);
    section.flags.push_back({"--break", "NAME",
                             "verify a broken variant of the kernel; it is never timed",
                             [&options, names](const std::string& value) {
                               parse_choice("--break", value, names);
                               options.selection.set_broken(value);
                             }});
  }
  section.flags.push_back({"--list-breaks", "", "what the variants are and what each one breaks",
                           [&options](const std::string&) { options.list_breaks = true; }});
  return section;
}

/// Everything that the command line takes. --help prints this table and parse() obeys it, so that
/// the one can't promise what the other doesn't do.
std::vector<Section> command_line_sections(const CommandLine& line, Options& options) {
  std::vector<Section> sections{
      problem_section(line, options), knob_section(line, options),  what_section(options),
      timing_section(options),        trace_section(line, options), schedule_section(line, options),
      break_section(line, options),   emulator_section(options),    general_section(options)};
  const auto is_omitted = [&](const Flag& flag) {
    return std::find(line.omitted.begin(), line.omitted.end(), flag.name) != line.omitted.end();
  };
  for (Section& section : sections) std::erase_if(section.flags, is_omitted);
  std::erase_if(sections, [](const Section& section) { return section.flags.empty(); });
  return sections;
}

/// The defaults of `line`.
Options defaults(const CommandLine& line) {
  Options options;
  options.m = line.default_m;
  options.n = line.default_n;
  options.k = line.default_k;
  for (const Knob& knob : line.knobs) options.selection.set(knob.flag, knob.fallback);
  return options;
}

[[noreturn]] void refuse_unknown(const std::string& argument, const std::vector<std::string>& known,
                                 const std::string& program) {
  if (!argument.starts_with("-")) {
    throw UsageError("unexpected argument '" + argument + "': every argument is a --flag or the " +
                     "value after one.");
  }
  const std::size_t equals = argument.find('=');
  const std::string stem = argument.substr(0, equals);
  if (equals != std::string::npos && std::find(known.begin(), known.end(), stem) != known.end()) {
    throw UsageError("unknown flag " + argument + "; write " + stem + " " +
                     argument.substr(equals + 1) + ".");
  }
  throw UsageError("unknown flag " + argument + suggestion(argument, known) + " ./" + program +
                   " --help lists what there is.");
}

/// Pairs of flags of which one makes the other void.
void refuse_contradictions(const std::set<std::string>& given) {
  struct Contradiction {
    const char *flag, *other, *why;
  };
  static constexpr Contradiction contradictions[] = {
      {"--check-only", "--bench", "the one leaves out what the other asks for"},
      {"--check-only", "--rounds", "nothing is timed"},
      {"--check-only", "--sustained", "nothing is timed"},
      {"--check-only", "--baseline", "nothing is timed"},
      {"--break", "--bench", "a broken variant is never timed"},
      {"--break", "--rounds", "a broken variant is never timed"},
      {"--break", "--sustained", "a broken variant is never timed"},
      {"--break", "--baseline", "a broken variant is never timed"},
      {"--bench", "--soak", "a soak starts from a verified D"},
      {"--bench", "--trace", "a timeline is one of a verified kernel"},
      {"--break", "--trace", "a broken variant is not traced"},
      {"--sustained", "--rounds", "a sustained run has no rounds"},
      {"--print-schedule", "--bench", "the one needs no kernel, and the other times it"},
      {"--print-schedule", "--check-only", "nothing is launched"},
      {"--print-schedule", "--break", "the schedule is that of the right kernel"},
      {"--print-schedule", "--trace", "nothing is launched"},
      {"--print-schedule", "--json", "nothing is launched"},
      {"--print-schedule", "--device", "no device is opened"},
      {"--dump-ptx", "--ptx", "the one writes the PTX that the other replaces"},
  };
  for (const auto& [flag, other, why] : contradictions) {
    if (given.contains(flag) && given.contains(other)) {
      throw UsageError(std::string(flag) + " and " + other + " do not go together: " + why + ".");
    }
  }
}

/// Flags that mean nothing without another one, or that get in each other's way.
void refuse_incomplete(const Options& options, const std::set<std::string>& given) {
  if (given.contains("--trace-sms") && options.trace.empty()) {
    throw UsageError("--trace-sms needs --trace: nothing else is traced.");
  }
  if (!options.trace.empty() && options.trace == options.json) {
    throw UsageError("--trace and --json name the same file, " + options.trace + ".");
  }
}

/// Flags that mean nothing on a GPU.
void refuse_on_gpu(const Options& options) {
  if (options.device != device::Choice::cuda) return;
  if (options.schedule) throw UsageError("--schedule needs --device emulator: a GPU has its own.");
  if (options.strict) throw UsageError("--strict needs --device emulator: a GPU checks nothing.");
}

constexpr std::size_t columns = 100;

/// Appends `text`, which starts at column `indent`, broken into lines at its spaces.
void append_wrapped(std::string& page, const std::string& text, std::size_t indent) {
  std::istringstream words(text);
  std::size_t column = indent;
  for (std::string word; words >> word; column += word.size()) {
    if (column > indent && column + 1 + word.size() > columns) {
      page += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      page += ' ';
      ++column;
    }
    page += word;
  }
  page += '\n';
}

/// "  head            text": the text in its own column, under the head where that is too long.
void append_entry(std::string& page, const std::string& head, const std::string& text) {
  constexpr std::size_t indent = 26;
  const std::string start = "  " + head;
  page += start;
  page += start.size() + 2 > indent ? '\n' + std::string(indent, ' ')
                                    : std::string(indent - start.size(), ' ');
  append_wrapped(page, text, indent);
}

}  // namespace

std::string_view name(Init init) {
  return init_names.at(static_cast<std::size_t>(init));
}

const std::string& Selection::text(std::string_view knob) const {
  const auto found = knobs_.find(knob);
  if (found == knobs_.end()) {
    throw std::logic_error("the lesson reads a knob that it does not declare: " +
                           std::string(knob));
  }
  return found->second;
}

int Selection::number(std::string_view knob) const {
  const std::string& value = text(knob);
  int number = 0;
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc{} || rest != end) {
    throw std::logic_error("the lesson reads its knob " + std::string(knob) +
                           " as a number, and it is '" + value + "'");
  }
  return number;
}

CommandLine on_emulator(CommandLine command_line) {
  command_line.default_m = command_line.default_n = command_line.default_k =
      command_line.emulator_size;
  return command_line;
}

Options parse(const CommandLine& command_line, std::span<const char* const> arguments) {
  Options options = defaults(command_line);
  std::map<std::string, Flag> flags;
  std::vector<std::string> known;
  for (Section& section : command_line_sections(command_line, options)) {
    for (Flag& flag : section.flags) {
      known.push_back(flag.name);
      flags.emplace(flag.name, std::move(flag));
    }
  }

  std::set<std::string> given;
  for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
    const std::string word = *argument;
    const auto found = flags.find(word);
    if (found == flags.end()) refuse_unknown(word, known, command_line.program);
    if (!given.insert(word).second) throw UsageError(word + " is given twice.");

    const Flag& flag = found->second;
    std::string value;
    if (!flag.operand.empty()) {
      const auto next = std::next(argument);
      if (next == arguments.end() || **next == '\0' || std::string_view(*next).starts_with("--")) {
        throw UsageError(word + " needs a value: " + word + " " + flag.operand + ".");
      }
      value = *next;
      argument = next;
    }
    flag.set(value);
    if (options.help) return options;
  }
  refuse_contradictions(given);
  refuse_incomplete(options, given);
  refuse_on_gpu(options);
  return options;
}

std::string help(const CommandLine& command_line) {
  Options options = defaults(command_line);
  std::string page;
  append_wrapped(page, command_line.program + ": " + command_line.trick, 0);
  page += "\nUsage: ./" + command_line.program + " [flags]\n";
  for (const Section& section : command_line_sections(command_line, options)) {
    const auto listed = [](const Flag& flag) { return flag.listed; };
    if (std::none_of(section.flags.begin(), section.flags.end(), listed)) continue;
    page += '\n' + section.title + '\n';
    for (const Flag& flag : section.flags) {
      if (!flag.listed) continue;
      const bool has_operand = !flag.operand.empty();
      append_entry(page, has_operand ? flag.name + " " + flag.operand : flag.name, flag.what);
    }
  }
  page += "\nExit status\n";
  append_entry(page, "0", "D is right, or was not asked about");
  append_entry(page, "1", "D is wrong, or the emulator found a hazard");
  append_entry(page, "2", "the command line can't be obeyed; nothing was launched");
  append_entry(page, "3", "no device, or the device failed or hung");
  const std::string command = "  ./" + command_line.program;
  page += "\nExamples\n" + command + " --m 8192 --n 1024 --k 8192 --json " + command_line.program +
          ".json\n" + command + " --m 129 --n 136 --k 72 --check-only\n";
  return page;
}

std::string list_breaks(const CommandLine& command_line) {
  if (command_line.breaks.empty()) return command_line.program + " has no broken variants.\n";
  std::string page;
  for (const Break& variant : command_line.breaks) append_entry(page, variant.name, variant.what);
  return page;
}

std::string explain(const std::string& rule) {
  const emulator::Rule* const found = emulator::find_rule(rule);
  if (found == nullptr) {
    std::vector<std::string> known;
    for (const emulator::Rule& other : emulator::rules()) {
      known.push_back(std::string(other.id) + " " + std::string(other.name));
    }
    throw UsageError("--explain knows no rule '" + rule + "'; there are " + join(known, ", ") +
                     ".");
  }
  std::ostringstream page;
  page << found->id << ' ' << found->name << (found->strict_only ? " (with --strict)" : "")
       << "\n\n"
       << found->explain << "\n\n";
  std::string source;
  append_wrapped(source, "Source: " + std::string(found->source), 0);
  page << source;
  return page.str();
}

}  // namespace harness

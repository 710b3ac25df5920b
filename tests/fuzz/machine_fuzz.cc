// Runs kernels with damaged PTX on the emulator: each must end with an error that names a line, or
// with a report, soon. Meant for a build with -fsanitize=address,undefined:
//   machine_fuzz SECONDS FIRST KERNEL FILE [KERNEL FILE]...
// KERNEL is one of the workbench ("ring<2, 3>"), FILE the PTX of its entry. Input number FIRST + i
// depends on its number, the kernels and the files only, so that a failure can be run again; with
// SECONDS 0 it is that one, and its PTX is printed.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/emulator/report.h"
#include "tests/emulator/workbench.h"

namespace {

constexpr double longest_seconds = 60;           // sanitizers make it some ten times slower
constexpr std::uint64_t step_limit = 1'000'000;  // several times what a whole kernel takes
constexpr workbench::Size size{72, 24, 136};     // edges everywhere, rings that go around

/// Numbers at the ends of ranges: of counts, barrier ids, alignments, registers, offsets, words.
constexpr const char* numbers[] = {"0",
                                   "1",
                                   "2",
                                   "-1",
                                   "4",
                                   "7",
                                   "8",
                                   "15",
                                   "16",
                                   "17",
                                   "31",
                                   "32",
                                   "64",
                                   "255",
                                   "256",
                                   "1024",
                                   "4095",
                                   "65536",
                                   "1048575",
                                   "1048576",
                                   "2147483647",
                                   "-2147483648",
                                   "4294967295",
                                   "-8",
                                   "24",
                                   "4294967296",
                                   "9223372036854775807",
                                   "18446744073709551615"};

struct Seed {
  std::string kernel;
  std::string text;
};

/// A piece of a line that is a word or a number, with what words are made of in PTX.
struct Word {
  std::size_t begin, size;
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("_.:%$").find(c) != std::string_view::npos;
}

/// Where the instructions of the one entry are: after them come the names of the source files.
struct Body {
  std::size_t begin, end;
};

Body body_of(std::string_view text) {
  const std::size_t begin = std::min(text.find('{', text.find(".entry")), text.size());
  return {begin, std::min(text.find("\n\t.file", begin), text.size())};
}

/// Those of instructions and declarations; comments and .loc are passed over.
std::vector<Word> words_of(std::string_view text) {
  std::vector<Word> words;
  const Body body = body_of(text);
  for (std::size_t at = body.begin; at < body.end;) {
    const std::string_view rest = text.substr(at, body.end - at);
    if (rest.starts_with("//") || rest.starts_with(".loc")) {
      at += std::min(rest.find('\n'), rest.size());
      continue;
    }
    std::size_t size = 0;
    while (size < rest.size() && is_word(rest[size])) ++size;
    if (size > 0) words.push_back({at, size});
    at += std::max<std::size_t>(size, 1);
  }
  return words;
}

/// What a word can be replaced by: a register by one with the same prefix, a number by a number, an
/// opcode by an opcode.
std::string kind_of(std::string_view word) {
  if (std::isdigit(static_cast<unsigned char>(word[0]))) return "number";
  if (word[0] == '%') return std::string(word.substr(0, word.find_first_of("0123456789")));
  return word.find('.') != std::string_view::npos ? "opcode" : "name";
}

/// Damages instructions, so that most of what comes out still parses.
class Mutator {
 public:
  explicit Mutator(std::uint64_t number) : random_(number) {}

  const Seed& any(const std::vector<Seed>& seeds) { return seeds[below(seeds.size())]; }

  std::string damage(std::string text) {
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      if (below(3) == 0) {
        change_lines(text);
      } else {
        change_word(text);
      }
    }
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  /// Deletes a line of the body, copies it to another place, or exchanges it with another.
  void change_lines(std::string& text) {
    const auto any_line = [&] {
      const Body body = body_of(text);
      const std::size_t begin = text.rfind('\n', body.begin + below(body.end - body.begin)) + 1;
      return Word{begin, std::min(text.find('\n', begin), text.size() - 1) + 1 - begin};
    };
    const Word line = any_line();
    const std::string copy = text.substr(line.begin, line.size);
    const std::size_t what = below(3);
    if (what != 1) text.erase(line.begin, line.size);
    if (what != 0) text.insert(any_line().begin, copy);
  }

  void change_word(std::string& text) {
    const std::vector<Word> words = words_of(text);
    if (words.empty()) return;
    const auto view = [&](Word word) {
      return std::string_view(text).substr(word.begin, word.size);
    };
    const Word word = words[below(words.size())];
    const std::string kind = kind_of(view(word));
    std::string replacement;
    if (kind == "number" && below(2) == 0) {
      replacement = numbers[below(std::size(numbers))];
    } else {
      // Some other word of this kind; it may take a few draws.
      for (int tries = 0; tries < 200 && replacement.empty(); ++tries) {
        const Word other = words[below(words.size())];
        if (kind_of(view(other)) == kind) replacement = view(other);
      }
    }
    text.replace(word.begin, word.size, replacement);
  }

  std::mt19937_64 random_;
};

void require(bool condition, const std::string& what) {
  if (!condition) throw std::logic_error(what);
}

/// An error names a line of the PTX or of the CUDA source, or the function that is too large as a
/// whole.
void require_line(std::string_view message) {
  const std::string_view place = message.substr(0, message.find(": "));
  const bool has_line = place.size() < message.size() &&
                        std::isdigit(static_cast<unsigned char>(place.back())) &&
                        (place.starts_with("PTX line ") || place.find(':') != place.npos);
  const bool is_of_function =
      message.starts_with("The kernel ") || message.starts_with("The function ");
  require((has_line || is_of_function) && message.ends_with('.'),
          "an odd message: " + std::string(message));
}

/// How many inputs ended how.
struct Counts {
  std::uint64_t refused = 0, silent = 0, reported = 0, unfinished = 0;
};

/// Runs `text` in place of the kernel's own PTX. Throws std::logic_error when a promise is broken.
void run(const std::string& kernel, const std::string& text, std::uint64_t number, Counts& counts) {
  workbench::Setup setup{.kernel = kernel, .size = size};
  setup.ptx = text;
  setup.machine.step_limit = step_limit;
  setup.strict = true;
  constexpr emulator::Schedule schedules[] = {emulator::Schedule::fair, emulator::Schedule::random,
                                              emulator::Schedule::adversarial};
  try {
    workbench::Workbench bench(setup);
    const workbench::Result result = bench.launch(schedules[number % 3], number);
    for (const emulator::Finding& finding : result.findings) {
      require(emulator::find_rule(finding.rule) != nullptr, "a finding has no rule");
      require(finding.location.ptx_line > 0, "a finding names no line: " + finding.sentence);
      require(finding.sentence.size() < 10'000, "a very long sentence");
    }
    require(!workbench::text(bench.module(), result).empty(), "an empty report");
    const bool ended = result.ending != emulator::Outcome::Ending::out_of_time;
    ++(!ended ? counts.unfinished : result.findings.empty() ? counts.silent : counts.reported);
  } catch (const emulator::PtxError& error) {
    require_line(error.what());
    ++counts.refused;
  } catch (const std::invalid_argument& error) {  // launch bounds, parameters
    require(std::string_view(error.what()).ends_with('.'),
            "an odd message: " + std::string(error.what()));
    ++counts.refused;
  } catch (const std::runtime_error& error) {
    require(std::string_view(error.what()).starts_with("The PTX has no entry "),
            "an unknown error: " + std::string(error.what()));
    ++counts.refused;
  }
}

/// Returns the exit status.
int fuzz(double seconds, std::uint64_t first, const std::vector<Seed>& seeds) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::uint64_t number = first;
  Counts counts;
  double slowest = 0;
  do {
    if (number % 100 == 0) std::fprintf(stderr, "input %ju\n", std::uintmax_t{number});
    Mutator mutator(number);
    const Seed& seed = mutator.any(seeds);
    const std::string text = mutator.damage(seed.text);
    if (seconds == 0) std::printf("// %s\n%s", seed.kernel.c_str(), text.c_str());
    // A crash or a sanitizer's report names no input: this file does.
    if (std::FILE* const note = std::fopen("build/fuzz/last_input", "w")) {
      std::fprintf(note, "%ju\n", std::uintmax_t{number});
      std::fclose(note);
    }
    const std::clock_t begin = std::clock();
    try {
      run(seed.kernel, text, number, counts);
      const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      slowest = std::max(slowest, took);
      require(took < longest_seconds, "the machine is too slow");
    } catch (const std::exception& error) {
      std::printf("input %ju (%s): %s\n", std::uintmax_t{number}, seed.kernel.c_str(),
                  error.what());
      return 1;
    }
    ++number;
  } while (elapsed() < seconds);
  std::printf(
      "%ju inputs: %ju refused, %ju ran to the end without a finding, %ju with, %ju stopped "
      "by the limit of steps; slowest %.1f s\n",
      std::uintmax_t{number - first}, std::uintmax_t{counts.refused}, std::uintmax_t{counts.silent},
      std::uintmax_t{counts.reported}, std::uintmax_t{counts.unfinished}, slowest);
  return 0;
}

std::string read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || text.empty()) throw std::runtime_error(std::string(path) + " can't be read.");
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5 || argc % 2 == 0) {
    std::fprintf(stderr, "usage: %s SECONDS FIRST KERNEL FILE [KERNEL FILE]...\n", argv[0]);
    return 2;
  }
  try {
    std::vector<Seed> seeds;
    for (int i = 3; i < argc; i += 2) seeds.push_back({argv[i], read(argv[i + 1])});
    Counts counts;
    for (const Seed& seed : seeds) {
      run(seed.kernel, seed.text, 0, counts);
      if (counts.silent == static_cast<std::uint64_t>(&seed - seeds.data()) + 1) continue;
      throw std::runtime_error("The undamaged " + seed.kernel + " goes wrong.");
    }
    return fuzz(std::atof(argv[1]), std::strtoull(argv[2], nullptr, 10), seeds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}

// Runs one kernel of any PTX file on the emulator: ./ptxrun --help.
#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common/device/emulator_device.h"
#include "common/device/kernel_registry.h"
#include "common/harness/lesson.h"
#include "common/harness/report.h"
#include "tools/ptxrun_arguments.h"

namespace {

using harness::UsageError;

constexpr const char* usage =
    R"(ptxrun: runs a kernel of a PTX file on the emulator, and says what is wrong with it

Usage: ./ptxrun FILE.ptx [flags] [@FLAGS.txt]     @: flags from a file; # begins a comment there

  --entry NAME            the kernel, or a part of its name that no other has (the only one)
  --grid X[xYxZ]          CTAs (1)
  --block X[xYxZ]         threads of a CTA (128)
  --cluster X[xYxZ]       CTAs of a cluster (1)
  --shared BYTES          dynamic shared memory of a CTA (0)
  --arg WORD              the next argument
  --print I[:COUNT]       elements of argument I after the run (8 of each buffer and map)
  --schedule fair|random|adversarial
                          in which of the legal orders things happen (fair)
  --seed N                of the schedule and of random elements (1)
  --timeout S             whole seconds after which the kernel is stopped (30)
  --strict                report also what the ISA's text leaves in doubt
  --explain RULE          the rule behind a report, by its id, E07, or its name

Arguments, numbered from 0
  s32:1024  f32:0.5       a number: u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64
  buffer:f32:1024=index   the address of 1024 elements: a number (0), normal for N(0, 1), or index:
                          0, 1, 2, ... (modulo 128 in types of 1 and 2 bytes)
  map:bf16:128x64=normal,box=64x64,swizzle=128
                          a tensor map of such elements, 128 rows of 64; the box is the whole
                          tensor and there is no swizzle unless they are given
  same:0                  the address of the elements of argument 0

Exit status: 0 no hazard found, 1 a hazard, 2 bad flags or PTX, 3 the launch can't be made

Example
  ./ptxrun saxpy.ptx --grid 8 --arg f32:2 --arg buffer:f32:1024=index --arg buffer:f32:1024=1
)";

struct Print {
  std::size_t argument, count;
};

struct Command {
  std::string file, entry, explain;
  device::LaunchShape shape{.block = {128, 1, 1}};
  std::vector<std::string> arguments;
  std::vector<Print> prints;
  device::Request request;
  double time_limit_s = 30;
  bool help = false;
};

device::Extent extent(const std::string& flag, const std::string& value) {
  const std::vector<std::string> parts = ptxrun::split(value, 'x');
  if (parts.empty() || parts.size() > 3) throw UsageError(flag + " takes X, XxY or XxYxZ.");
  std::array<unsigned, 3> sizes{1, 1, 1};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sizes[i] = static_cast<unsigned>(ptxrun::whole_number(flag, parts[i], UINT32_MAX));
  }
  return {sizes[0], sizes[1], sizes[2]};
}

Print print(const std::string& value) {
  const std::vector<std::string> parts = ptxrun::split(value, ':');
  if (parts.empty() || parts.size() > 2) throw UsageError("--print takes I or I:COUNT.");
  return {ptxrun::whole_number("--print", parts[0], SIZE_MAX),
          parts.size() == 1 ? 8 : ptxrun::whole_number("--print", parts[1], SIZE_MAX)};
}

device::Schedule schedule(const std::string& name) {
  if (name == "fair") return device::Schedule::fair;
  if (name == "random") return device::Schedule::random;
  if (name == "adversarial") return device::Schedule::adversarial;
  throw UsageError("--schedule takes one of fair, random, adversarial, not '" + name + "'.");
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!(text << file.rdbuf())) throw UsageError("can't read " + path + ", or it is empty.");
  return text.str();
}

/// `words` with those of the files that @ names in their place.
std::vector<std::string> with_files(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (const std::string& word : words) {
    if (!word.starts_with("@")) {
      all.push_back(word);
      continue;
    }
    for (const std::string& line : ptxrun::split(read(word.substr(1)), '\n')) {
      std::istringstream stream(line.substr(0, line.find('#')));
      for (std::string each; stream >> each;) all.push_back(each);
    }
  }
  return all;
}

Command parse(const std::vector<std::string>& words) {
  using Value = const std::string&;
  Command c;
  const auto number = ptxrun::whole_number;
  const std::map<std::string, std::function<void(Value)>> flags{
      {"--entry", [&](Value v) { c.entry = v; }},
      {"--grid", [&](Value v) { c.shape.grid = extent("--grid", v); }},
      {"--block", [&](Value v) { c.shape.block = extent("--block", v); }},
      {"--cluster", [&](Value v) { c.shape.cluster = extent("--cluster", v); }},
      {"--shared", [&](Value v) { c.shape.shared_bytes = number("--shared", v, UINT32_MAX); }},
      {"--arg", [&](Value v) { c.arguments.push_back(v); }},
      {"--print", [&](Value v) { c.prints.push_back(print(v)); }},
      {"--schedule", [&](Value v) { c.request.schedule = schedule(v); }},
      {"--seed", [&](Value v) { c.request.seed = number("--seed", v, UINT64_MAX); }},
      {"--timeout", [&](Value v) { c.time_limit_s = double(number("--timeout", v, 86400)); }},
      {"--explain", [&](Value v) { c.explain = v; }}};
  for (auto word = words.begin(); word != words.end(); ++word) {
    const auto flag = flags.find(*word);
    if (*word == "--help") {
      c.help = true;
    } else if (*word == "--strict") {
      c.request.strict = true;
    } else if (flag != flags.end()) {
      if (++word == words.end()) throw UsageError(flag->first + " needs a value.");
      flag->second(*word);
    } else if (word->starts_with("-") || !c.file.empty()) {
      throw UsageError("unexpected '" + *word + "'; ./ptxrun --help lists what there is.");
    } else {
      c.file = *word;
    }
  }
  return c;
}

/// The name in the PTX of the one kernel whose name is `wanted` or has it as a part.
std::string find_entry(const emulator::Module& module, const std::string& wanted) {
  std::string all;
  std::vector<std::string> found;
  for (const emulator::Function& function : module.functions) {
    if (!function.is_entry) continue;
    const std::string readable = device::readable_name(function.name);
    if (function.name == wanted || readable == wanted) return function.name;
    all += (all.empty() ? "" : "; ") + readable;
    if (readable.find(wanted) != std::string::npos) found.push_back(function.name);
  }
  if (found.size() == 1) return found[0];
  throw UsageError("--entry must name one of the file's kernels, which are: " + all + ".");
}

int run(const Command& command) {
  if (command.file.empty()) throw UsageError("a PTX file is missing: ./ptxrun FILE.ptx.");
  device::Request request = command.request;
  request.ptx = device::PtxFile{command.file, read(command.file)};
  device::EmulatorDevice emulator(request);
  emulator.set_time_limit(command.time_limit_s);
  const std::string entry = find_entry(emulator.module(), command.entry);

  std::vector<ptxrun::Argument> arguments;
  std::vector<Print> prints = command.prints;
  for (const std::string& word : command.arguments) {
    const std::size_t index = arguments.size();
    try {
      arguments.push_back(parse_argument(emulator, word, arguments, request.seed + index));
    } catch (const std::invalid_argument& error) {
      throw UsageError("--arg " + word + ": " + error.what());
    }
    if (command.prints.empty() && arguments[index].format != nullptr) prints.push_back({index, 8});
  }
  for (const Print& each : prints) {
    if (each.argument >= arguments.size() || arguments[each.argument].format == nullptr) {
      throw UsageError("--print: there is no buffer or map " + std::to_string(each.argument) + ".");
    }
  }

  std::vector<device::Argument> packed;
  for (const ptxrun::Argument& each : arguments) {
    packed.push_back({each.value.data(), each.value.size(), 1});
  }
  emulator.launch_entry(entry, command.shape, packed);
  for (const Print& each : prints) {
    harness::report(std::cout, std::to_string(each.argument),
                    describe(emulator, arguments[each.argument], each.count));
  }
  const device::Hazards hazards = emulator.hazards().value();
  harness::report(std::cout, hazards);
  return hazards.count == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return harness::guard("ptxrun", [&] {
    const Command command = parse(with_files({argv + 1, argv + argc}));
    if (command.help || !command.explain.empty()) {
      std::cout << (command.help ? usage : harness::explain(command.explain));
      return 0;
    }
    return run(command);
  });
}

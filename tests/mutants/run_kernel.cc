// Runs a kernel of tests/kernels as a lesson is run: on the emulator, checked, with PTX from a file
// in the place of its own. The flags, what is printed and the exit status are those of a lesson.
//   run_kernel "ring<2, 3>" --m 136 --n 72 --k 264 --ptx FILE --schedule random --seed 3
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tests/emulator/schedules.h"
#include "tests/emulator/workbench.h"

namespace {

struct Command {
  workbench::Setup setup;
  workbench::Order order{emulator::Schedule::fair, 1};
  int launches = 1;  ///< one after the other, on what the last has left
};

emulator::Schedule schedule_of(const std::string& name) {
  using enum emulator::Schedule;
  for (const emulator::Schedule schedule : {fair, random, adversarial}) {
    if (workbench::name_of(schedule) == name) return schedule;
  }
  throw std::invalid_argument("--schedule takes fair, random or adversarial, not " + name + ".");
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!(text << file.rdbuf())) throw std::invalid_argument("--ptx " + path + " can't be read.");
  return text.str();
}

Command parse(int argc, char** argv) {
  if (argc < 2) throw std::invalid_argument("The kernel is missing: run_kernel \"ring<2, 3>\".");
  Command command;
  workbench::Setup& setup = command.setup;
  setup.kernel = argv[1];
  const std::map<std::string, int*> numbers{{"--m", &setup.size.m},
                                            {"--n", &setup.size.n},
                                            {"--k", &setup.size.k},
                                            {"--splits", &setup.splits},
                                            {"--soak", &command.launches}};
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--strict") {
      setup.strict = true;
      continue;
    }
    if (++i == argc) throw std::invalid_argument(flag + " needs a value.");
    const std::string value = argv[i];
    if (numbers.contains(flag)) {
      *numbers.at(flag) = std::stoi(value);
    } else if (flag == "--variant") {
      setup.broken = value;
    } else if (flag == "--ptx") {
      setup.ptx = read(value);
    } else if (flag == "--schedule") {
      command.order.schedule = schedule_of(value);
    } else if (flag == "--seed") {
      command.order.seed = std::stoull(value);
    } else {
      throw std::invalid_argument("There is no flag " + flag + ".");
    }
  }
  return command;
}

/// Says what the launch showed, and returns whether all was well.
bool report(const workbench::Workbench& bench, const workbench::Result& result) {
  const bool ended = result.ending != emulator::Outcome::Ending::out_of_time;
  const bool right = ended && result.wrong == 0;
  std::printf("verify   %s\nhazards  %zu found\n%s\n", right ? "PASS" : "FAIL",
              result.findings.size(), workbench::text(bench.module(), result).c_str());
  return right && result.findings.empty();
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int right_status = 0, wrong_status = 1, usage_status = 2;
  try {
    const Command command = parse(argc, argv);
    workbench::Workbench bench(command.setup);
    bool right = true;
    for (int i = 0; i < command.launches && right; ++i) {
      right = report(bench, bench.launch(command.order.schedule, command.order.seed));
    }
    return right ? right_status : wrong_status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_kernel: %s\n", error.what());
    return usage_status;
  }
}

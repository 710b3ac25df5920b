// What every lesson's main() does between its command line and its run.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

#include "common/device/concat.h"
#include "common/device/embedded_ptx.h"
#include "common/device/errors.h"
#include "common/emulator/report.h"
#include "common/harness/lesson.h"

namespace harness {
namespace {

/// With the reason that errno has; what is empty sets none.
[[noreturn]] void refuse_file(const char* flag, const std::string& path) {
  const char* const reason = errno != 0 ? std::strerror(errno) : "the file is empty";
  throw UsageError(device::concat(flag, " ", path, ": ", reason, "."));
}

void dump_ptx(const std::string& path) {
  const std::string_view ptx = device::embedded_ptx();
  if (ptx.empty()) throw device::Failure("This program was built without its PTX; use make.");
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  if (!file) refuse_file("--dump-ptx", path);
  file << ptx;
  file.close();
  if (!file) refuse_file("--dump-ptx", path);
}

device::PtxFile read_ptx(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!(text << file.rdbuf())) refuse_file("--ptx", path);
  return {path, text.str()};
}

}  // namespace

bool answer(const CommandLine& line, const Options& options, std::ostream& out) {
  if (options.help) {
    out << help(line);
  } else if (options.list_breaks) {
    out << list_breaks(line);
  } else if (!options.explain.empty()) {
    out << explain(options.explain);
  } else if (!options.dump_ptx.empty()) {
    dump_ptx(options.dump_ptx);
  } else {
    return false;
  }
  return true;
}

void print_schedule(const Lesson& lesson, const Options& options, std::ostream& out) {
  gemm::Problem problem{};
  problem.m = options.m;
  problem.n = options.n;
  problem.k = options.alpha == 0 ? 0 : options.k;
  out << "cta,number,row,column,k_begin,k_count,k_step\n";
  if (problem.m == 0 || problem.n == 0) return;
  for (const Work& work : lesson.list_work(problem, options.selection, options.print_schedule)) {
    out << work.cta << ',' << work.number << ',' << work.row << ',' << work.column << ','
        << work.k_begin << ',' << work.k_count << ',' << work.k_step << '\n';
  }
}

std::unique_ptr<device::Device> open_device(const Options& options) {
  device::Request request{.choice = options.device,
                          .schedule = options.schedule.value_or(device::Schedule::fair),
                          .seed = options.seed,
                          .strict = options.strict};
  if (!options.ptx.empty()) request.ptx = read_ptx(options.ptx);
  std::unique_ptr<device::Device> device = device::open(request);
  if (device->backend() == device::Backend::cuda && (options.schedule || options.strict)) {
    throw UsageError(device::concat(options.schedule ? "--schedule" : "--strict",
                                    " is for the emulator, and this run would be on ",
                                    device->properties().name, ": add --device emulator."));
  }
  return device;
}

}  // namespace harness

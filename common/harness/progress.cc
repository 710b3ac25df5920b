#include "common/harness/progress.h"

#include <unistd.h>

#include <iostream>
#include <utility>

namespace harness {
namespace {

constexpr std::chrono::milliseconds redraw_interval{100};
// Back to the first column, and erase to the end of the line (ECMA-48, EL).
constexpr const char* wipe = "\r\033[K";

bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

}  // namespace

Progress::Progress(std::string what, int total)
    : what_(std::move(what)), total_(total), visible_(stderr_is_terminal()) {
  draw();
}

Progress::~Progress() {
  wipe_progress();
}

void Progress::step() {
  ++done_;
  if (std::chrono::steady_clock::now() - drawn_ >= redraw_interval) draw();
}

void Progress::draw() {
  if (!visible_) return;
  std::cerr << wipe << what_;
  if (total_ > 0) std::cerr << ' ' << done_ << '/' << total_;
  std::cerr << std::flush;
  drawn_ = std::chrono::steady_clock::now();
}

void wipe_progress() {
  if (stderr_is_terminal()) std::cerr << wipe << std::flush;
}

}  // namespace harness

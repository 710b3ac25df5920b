// One line on the terminal while something long runs.
#pragma once

#include <chrono>
#include <string>

namespace harness {

/// Shows "timing 3/20" on stderr while it lives, and wipes it at the end. Draws nothing when stderr
/// is not a terminal.
class Progress {
 public:
  /// `total` is the number of steps; 0: there are no steps to count, only `what` is shown.
  explicit Progress(std::string what, int total = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// One more step is done.
  void step();

 private:
  void draw();

  std::string what_;
  int total_;
  int done_ = 0;
  bool visible_;
  std::chrono::steady_clock::time_point drawn_;
};

/// Wipes the line of a Progress that will not live to do it, before a message that ends the
/// process.
void wipe_progress();

}  // namespace harness

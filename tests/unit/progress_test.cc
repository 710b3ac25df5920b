#include "common/harness/progress.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "tests/catch.h"
#include "tests/unit/child.h"

namespace {

int work_with_progress() {
  harness::Progress progress("timing, round", 3);
  for (int i = 0; i < 3; ++i) progress.step();
  return 0;
}

/// What `work_with_progress` writes to a stderr that is a terminal.
std::string on_a_terminal() {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(grantpt(terminal) == 0);
  REQUIRE(unlockpt(terminal) == 0);
  // Held open here too: what the child wrote is lost when the last one closes.
  const int own_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  REQUIRE(own_end >= 0);
  tests::run_in_child([&] {
    dup2(own_end, STDERR_FILENO);
    return work_with_progress();
  });
  std::array<char, 4096> text{};
  const ssize_t length = read(terminal, text.data(), text.size());
  close(own_end);
  close(terminal);
  REQUIRE(length >= 0);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace

TEST_CASE("progress is drawn on a terminal and wiped at the end", "[progress]") {
  const std::string text = on_a_terminal();
  const std::string wipe = "\r\033[K";
  CHECK(text.find("timing, round 0/3") != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.ends_with(wipe));
}

TEST_CASE("progress leaves a file or a pipe alone", "[progress]") {
  const tests::ChildResult result = tests::run_in_child(work_with_progress);
  CHECK(result.status == 0);
  CHECK(result.errors.empty());
}

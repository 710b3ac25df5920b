// Code that ends its process, run in a process of its own.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tests/unit/temporary_folder.h"

namespace tests {

struct ChildResult {
  int status;          ///< the exit status; -1 if a signal ended it
  std::string errors;  ///< what it wrote to stderr
};

/// Runs `body` in a child process, which ends with the status that `body` returns if it does.
inline ChildResult run_in_child(const std::function<int()>& body) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "stderr";
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    if (std::freopen(path.c_str(), "w", stderr) == nullptr) std::_Exit(127);
    std::_Exit(body());
  }
  int state = 0;
  if (waitpid(child, &state, 0) != child) throw std::runtime_error("waitpid failed");
  std::stringstream errors;
  errors << std::ifstream(path).rdbuf();
  return {WIFEXITED(state) ? WEXITSTATUS(state) : -1, errors.str()};
}

}  // namespace tests

#include "common/harness/json_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/device/errors.h"

namespace harness {
namespace {

/// A path that can't be opened as a file is refused before the run, not after it.
[[noreturn]] void refuse(const std::string& flag, const std::string& path, const std::string& why) {
  throw UsageError(flag + " " + path + ": " + why + ".");
}

}  // namespace

JsonFile::JsonFile(std::string flag, const std::string& path)
    : flag_(std::move(flag)), path_(path) {
  namespace fs = std::filesystem;
  if (path_.empty()) return;
  std::error_code ignored;
  const fs::file_status status = fs::status(path_, ignored);
  if (fs::is_directory(status)) refuse(flag_, path, "that is a directory, and a file is needed");
  if (fs::exists(status)) {
    if (access(path_.c_str(), W_OK) != 0) refuse(flag_, path, std::strerror(errno));
    if (!fs::is_regular_file(status)) return;
    path_ = fs::canonical(path_);  // what a symbolic link points to is replaced, not the link
  }
  temporary_ = path_ + ".partial-" + std::to_string(getpid());
  const bool writable = std::ofstream(temporary_).is_open();
  const int reason = errno;
  if (!writable) refuse(flag_, path, std::strerror(reason));
  fs::remove(temporary_);
}

void JsonFile::write(const Json& value) const {
  if (path_.empty()) return;
  const bool in_place = temporary_.empty();
  std::ofstream file(in_place ? path_ : temporary_);
  file << value.text() << '\n';
  file.close();
  const bool written = file && (in_place || std::rename(temporary_.c_str(), path_.c_str()) == 0);
  if (written) return;
  const std::string reason = std::strerror(errno);
  if (!in_place) std::remove(temporary_.c_str());
  throw device::Failure("The file of " + flag_ + " could not be written to " + path_ + ": " +
                        reason + ".");
}

OutputFiles output_files(const Options& options) {
  return {.record = {"--json", options.json}, .trace = {"--trace", options.trace}};
}

}  // namespace harness

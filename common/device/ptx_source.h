// The PTX that a program runs: what it carries, or a file that takes its place.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/device/device.h"

namespace device {

class PtxSource {
 public:
  explicit PtxSource(std::optional<PtxFile> file) : file_(std::move(file)) {}

  /// Whether it is a file, which the program's machine code knows nothing of.
  bool is_file() const { return file_.has_value(); }
  /// Empty in a program that was linked without PTX. A null byte ends it where it is not.
  std::string_view text() const;

  /// Holds `arguments` against the .param list of `entry`; refuses in words if they differ or there
  /// is no such entry.
  void check(std::string_view entry, std::span<const Argument> arguments) const;

  /// Throws InvalidPtx that names the file, or Failure where the program's own PTX is at fault.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  std::optional<PtxFile> file_;
};

}  // namespace device

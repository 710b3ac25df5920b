// A file that the command line names, and that gets one JSON value at the end of a run.
#pragma once

#include <string>

#include "common/harness/json.h"
#include "common/harness/options.h"

namespace harness {

/// The file of a flag such as --json. It is written beside its path and renamed into place, so that
/// a run that fails leaves the old file whole and no half of a new one.
class JsonFile {
 public:
  /// Finds out whether `path` can be written, without changing it; throws UsageError that names
  /// `flag` if not. An empty path means that no file is wanted.
  JsonFile(std::string flag, const std::string& path);

  bool is_wanted() const { return !path_.empty(); }
  const std::string& path() const { return path_; }

  /// Replaces the file by `value` and a newline. Throws device::Failure when the disk refuses.
  void write(const Json& value) const;

 private:
  std::string flag_;
  std::string path_;       ///< empty: write() does nothing
  std::string temporary_;  ///< empty: `path_` is no regular file (/dev/stdout), written as it is
};

/// The files that a run leaves.
struct OutputFiles {
  JsonFile record{"--json", ""};
  JsonFile trace{"--trace", ""};
};

/// Those that `options` ask for. Throws UsageError if one can't be written.
OutputFiles output_files(const Options& options);

}  // namespace harness

#include "common/harness/json_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "common/device/errors.h"
#include "tests/catch.h"
#include "tests/unit/message.h"
#include "tests/unit/temporary_folder.h"

namespace {

namespace fs = std::filesystem;

using harness::Json;
using harness::JsonFile;
using harness::UsageError;
using tests::TemporaryFolder;

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::ptrdiff_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), {});
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a path that can't be written is refused before the run", "[json]") {
  const TemporaryFolder folder;
  const auto refusal = [](const fs::path& path) {
    return tests::message_of<UsageError>([&] { JsonFile file("--json", path); });
  };
  CHECK(contains(refusal(folder.path() / "missing" / "out.json"), "No such file or directory"));
  CHECK(contains(refusal(folder.path()), "that is a directory"));
  CHECK(contains(refusal("/dev/null/out.json"), "Not a directory"));
  CHECK(contains(refusal(folder.path()), "--json " + folder.path().string()));
  CHECK(files_in(folder.path()) == 0);
  if (geteuid() != 0) {  // root may write anywhere
    const fs::path read_only = folder.path() / "read-only.json";
    std::ofstream(read_only) << "old";
    chmod(read_only.c_str(), S_IRUSR);
    CHECK(contains(refusal(read_only), "Permission denied"));
  }
}

TEST_CASE("the old file stays until the new one is whole", "[json]") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "out.json";
  std::ofstream(path) << "old\n";
  const JsonFile file("--json", path);
  CHECK(content(path) == "old\n");
  CHECK(files_in(folder.path()) == 1);

  file.write(Json::Object{{"new", true}});
  CHECK(content(path) == "{\"new\":true}\n");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a new file appears when it is whole, not before", "[json]") {
  const TemporaryFolder folder;
  const JsonFile file("--json", folder.path() / "out.json");
  CHECK(files_in(folder.path()) == 0);
  file.write(Json::Array{1});
  CHECK(content(folder.path() / "out.json") == "[1]\n");
}

TEST_CASE("a file that can't be written after all is a failure", "[json]") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "gone");
  const JsonFile file("--json", folder.path() / "gone" / "out.json");
  fs::remove(folder.path() / "gone");
  CHECK_THROWS_AS(file.write(Json()), device::Failure);
  CHECK_THROWS_AS(JsonFile("--json", "/dev/full").write(Json()), device::Failure);
}

TEST_CASE("links and devices are written through, not replaced", "[json]") {
  const TemporaryFolder folder;
  const fs::path target = folder.path() / "target.json";
  const fs::path link = folder.path() / "link.json";
  std::ofstream(target) << "old\n";
  fs::create_symlink(target, link);
  JsonFile("--json", link).write(Json(1));
  CHECK(fs::is_symlink(link));
  CHECK(content(target) == "1\n");

  JsonFile("--json", "/dev/null").write(Json(1));
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("without a path nothing is written", "[json]") {
  CHECK_NOTHROW(JsonFile("--json", "").write(Json(1)));
}

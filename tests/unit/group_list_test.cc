#include "common/harness/group_list.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "common/harness/options.h"
#include "tests/catch.h"
#include "tests/unit/message.h"
#include "tests/unit/temporary_folder.h"

namespace {

namespace fs = std::filesystem;

using harness::GroupList;
using harness::GroupSize;
using harness::parse_groups;
using harness::UsageError;

using Sizes = std::vector<GroupSize>;

Sizes sizes_of(const std::string& text) {
  return parse_groups(text, 1, false).groups;
}

/// What the usage error says; empty if the text is taken.
std::string refusal(const std::string& text) {
  return tests::message_of<UsageError>([&] { parse_groups(text, 1, false); });
}

/// A file of groups, and what is said of it.
class ListFile {
 public:
  explicit ListFile(const std::string& text) : path_(folder_.path() / "groups.txt") {
    std::ofstream(path_) << text;
  }
  std::string path() const { return path_; }
  /// The start of what is said of a line.
  std::string line(int number) const {
    return "--groups " + path_ + ", line " + std::to_string(number) + ": ";
  }

 private:
  tests::TemporaryFolder folder_;
  std::string path_;
};

std::int64_t sum_m(const GroupList& list) {
  std::int64_t sum = 0;
  for (const GroupSize& size : list.groups) sum += size.m;
  return sum;
}

}  // namespace

TEST_CASE("a list of groups", "[groups]") {
  CHECK(sizes_of("128x256x64") == Sizes{{128, 256, 64}});
  CHECK(sizes_of("1x2x3,4x5x6*2,0x0x0") == Sizes{{1, 2, 3}, {4, 5, 6}, {4, 5, 6}, {0, 0, 0}});
  CHECK(sizes_of("1x2x3*0,4x5x6") == Sizes{{4, 5, 6}});
  CHECK(sizes_of("2147483647x1x1") == Sizes{{2147483647, 1, 1}});
  CHECK(sizes_of("8x8x8*65536").size() == 65536);
  // Each group its own B.
  CHECK(parse_groups("8x8x8*5,1x1x1", 1, false).weights == 6);
}

TEST_CASE("a list that can't be read is refused in words", "[groups]") {
  const std::string form = ": a group is MxNxK, or MxNxK*TIMES.";
  CHECK(refusal("8x8") == "--groups, '8x8'" + form);
  CHECK(refusal("8x8x8x8") == "--groups, '8x8x8x8'" + form);
  CHECK(refusal("8x8x8,,8x8x8") == "--groups, ''" + form);
  CHECK(refusal("8x8x8,") == "--groups, ''" + form);
  CHECK(refusal("8x8x8*2*2") == "--groups, '8x8x8*2*2'" + form);
  const std::string range = "' is no whole number from 0 to 2147483647.";
  CHECK(refusal("8xx8") == "--groups, '8xx8': '" + range);
  CHECK(refusal("8x8x8*") == "--groups, '8x8x8*': '" + range);
  CHECK(refusal("8x8x2147483648") == "--groups, '8x8x2147483648': '2147483648" + range);
  CHECK(refusal("8x8x8*65537") == "--groups, '8x8x8*65537': more than 65536 groups.");
  CHECK(refusal("8x8x8,8x8x8*65536") == "--groups, '8x8x8*65536': more than 65536 groups.");
  CHECK(refusal("8x8x8*0") == "--groups 8x8x8*0: there is no group.");
}

TEST_CASE("a file of groups", "[groups]") {
  const ListFile file("# the experts\n128 256 64\n\n  7\t9 65  # a small one\n0 0 0\r\n8 8 8");
  CHECK(sizes_of(file.path()) == Sizes{{128, 256, 64}, {7, 9, 65}, {0, 0, 0}, {8, 8, 8}});
  CHECK(parse_groups(file.path(), 1, true).weights == 4);
}

TEST_CASE("a file that can't be read is refused with its line", "[groups]") {
  const ListFile two("8 8 8\n# two of them\n8 8\n");
  CHECK(refusal(two.path()) == two.line(3) + "a line has the three numbers m n k, not 2.");
  const ListFile four("8 8 8 8\n");
  CHECK(refusal(four.path()) == four.line(1) + "a line has the three numbers m n k, not 4.");
  const ListFile word("8 8 8k\n");
  CHECK(refusal(word.path()) == word.line(1) + "'8k' is no whole number from 0 to 2147483647.");
  const ListFile negative("8 8 8\n8 -8 8\n");
  CHECK(refusal(negative.path()) ==
        negative.line(2) + "'-8' is no whole number from 0 to 2147483647.");
  const ListFile empty("# nothing yet\n\n");
  CHECK(refusal(empty.path()) == "--groups " + empty.path() + ": there is no group in it.");
  for (const std::string text : {"no/such/file", "unifrom", "8x8x8k", ""}) {
    CHECK(refusal(text) ==
          "--groups: '" + text +
              "' is no file that can be read, no list such as 128x256x64,8x256x64*3, and none of "
              "uniform, ragged-small, ragged-large.");
  }
}

TEST_CASE("the named problems have the sizes that they were measured with", "[groups]") {
  const GroupList uniform = parse_groups("uniform", 1, false);
  CHECK(uniform.groups == Sizes(64, {128, 2048, 4096}));
  CHECK(uniform.weights == 16);

  struct Ragged {
    std::string name;
    int most_m, n, k;
    std::int64_t sum;
  };
  for (const Ragged& ragged : {Ragged{"ragged-small", 256, 2048, 4096, 8288},
                               Ragged{"ragged-large", 1024, 4096, 1024, 32496}}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const GroupList list = parse_groups(ragged.name, seed, false);
      INFO(ragged.name << ", seed " << seed);
      CHECK(list.groups.size() == 64);
      CHECK(list.weights == 16);
      CHECK(sum_m(list) == ragged.sum);
      for (const GroupSize& size : list.groups) {
        CHECK((size.m >= 8 && size.m <= ragged.most_m && size.m % 8 == 0));
        CHECK((size.n == ragged.n && size.k == ragged.k));
      }
    }
    const auto drawn = [&](std::uint64_t seed) { return parse_groups(ragged.name, seed, false); };
    CHECK(drawn(1).groups == drawn(1).groups);
    CHECK(drawn(1).groups != drawn(2).groups);
    // At random: neither all alike, nor in order.
    std::set<int> different;
    const Sizes sizes = drawn(1).groups;
    for (const GroupSize& size : sizes) different.insert(size.m);
    CHECK(different.size() > 16);
    CHECK_FALSE(std::is_sorted(sizes.begin(), sizes.end(),
                               [](const auto& a, const auto& b) { return a.m < b.m; }));
  }
}

TEST_CASE("the emulator takes a part of the named problems", "[groups]") {
  CHECK(parse_groups("uniform", 1, true).groups == Sizes(8, {128, 256, 256}));
  for (const std::string name : {"ragged-small", "ragged-large"}) {
    const GroupList list = parse_groups(name, 1, true);
    CHECK(list.groups.size() == 8);
    CHECK(list.weights == 2);
    CHECK(sum_m(list) * 8 <= sum_m(parse_groups(name, 1, false)));
  }
}

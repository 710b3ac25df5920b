#include "common/harness/group_list.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <string_view>

#include "common/device/concat.h"
#include "common/harness/options.h"

namespace harness {
namespace {

using device::concat;

constexpr int most_groups = 1 << 16;

/// Problems of the same N and K, with M at random: multiples of 8 that add up to `sum_m`.
struct NamedList {
  std::string_view name, what;
  int groups, least_m, most_m, sum_m, n, k;
};

constexpr std::array<NamedList, 3> named_lists{{
    {"uniform", "64 of 128x2048x4096", 64, 128, 128, 64 * 128, 2048, 4096},
    {"ragged-small", "64 of Mx2048x4096, M 8 to 256", 64, 8, 256, 8288, 2048, 4096},
    {"ragged-large", "64 of Mx4096x1024, M 8 to 1024", 64, 8, 1024, 32496, 4096, 1024},
}};

/// What the emulator takes of a list: an eighth of its groups, of its N, a sixteenth of its K.
NamedList small_part(NamedList list) {
  list.groups /= 8;
  list.sum_m = list.sum_m / 64 * 8;
  list.n /= 8;
  list.k /= 16;
  return list;
}

GroupList draw(const NamedList& list, std::uint64_t seed) {
  constexpr int step = 8;
  std::mt19937_64 random(seed);
  std::vector<int> m(list.groups);
  const int choices = (list.most_m - list.least_m) / step + 1;
  for (int& one : m) one = list.least_m + step * static_cast<int>(random() % choices);
  // One after the other grows or shrinks until the sum is right.
  int sum = std::accumulate(m.begin(), m.end(), 0);
  for (std::size_t i = 0; sum != list.sum_m; i = (i + 1) % m.size()) {
    const int moved = std::clamp(m[i] + (sum < list.sum_m ? step : -step), list.least_m, list.most_m);
    sum += moved - m[i];
    m[i] = moved;
  }
  GroupList result{{}, list.groups / 4};
  for (const int one : m) result.groups.push_back({one, list.n, list.k});
  return result;
}

/// A whole number that is all of `text`.
int number(std::string_view text, const std::string& where) {
  int value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size() || value < 0) {
    throw UsageError(concat(where, ": '", text, "' is no whole number from 0 to ",
                            std::numeric_limits<int>::max(), "."));
  }
  return value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  if (text.empty() || text.back() == separator) parts.emplace_back();
  return parts;
}

void append(GroupList& list, const GroupSize& size, int times, const std::string& where) {
  if (times > most_groups - static_cast<int>(list.groups.size())) {
    throw UsageError(concat(where, ": more than ", most_groups, " groups."));
  }
  list.groups.insert(list.groups.end(), times, size);
}

/// "128x256x64*3"
void append_item(GroupList& list, const std::string& item) {
  const std::string where = concat("--groups, '", item, "'");
  const std::vector<std::string> factors = split(item, '*');
  const std::vector<std::string> sizes = split(factors[0], 'x');
  if (factors.size() > 2 || sizes.size() != 3) {
    throw UsageError(concat(where, ": a group is MxNxK, or MxNxK*TIMES."));
  }
  const int times = factors.size() == 2 ? number(factors[1], where) : 1;
  append(list, {number(sizes[0], where), number(sizes[1], where), number(sizes[2], where)}, times,
         where);
}

/// "128 256 64  # the first expert"
void append_line(GroupList& list, const std::string& line, const std::string& where) {
  std::istringstream words(line.substr(0, line.find('#')));
  std::vector<std::string> sizes;
  for (std::string word; words >> word;) sizes.push_back(word);
  if (sizes.empty()) return;
  if (sizes.size() != 3) {
    throw UsageError(concat(where, ": a line has the three numbers m n k, not ", sizes.size(), "."));
  }
  append(list, {number(sizes[0], where), number(sizes[1], where), number(sizes[2], where)}, 1,
         where);
}

GroupList read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw UsageError(concat("--groups: '", path, "' is no file that can be read, no list such as ",
                            "128x256x64,8x256x64*3, and none of uniform, ragged-small, "
                            "ragged-large."));
  }
  GroupList list{};
  int line_number = 0;
  for (std::string line; std::getline(file, line);) {
    append_line(list, line, concat("--groups ", path, ", line ", ++line_number));
  }
  if (list.groups.empty()) throw UsageError(concat("--groups ", path, ": there is no group in it."));
  return list;
}

}  // namespace

std::string group_list_help() {
  std::string text =
      "the problems: MxNxK,MxNxK*TIMES,... or a file with a line 'm n k' for each, or one of ";
  for (const NamedList& list : named_lists) text += concat(list.name, ": ", list.what, "; ");
  return text + "the emulator takes a part of these three";
}

GroupList parse_groups(const std::string& text, std::uint64_t seed, bool is_small) {
  for (const NamedList& list : named_lists) {
    if (list.name == text) return draw(is_small ? small_part(list) : list, seed);
  }
  const bool is_list = std::isdigit(static_cast<unsigned char>(text[0])) != 0 &&
                       text.find_first_not_of("0123456789x*,") == std::string::npos;
  GroupList list{};
  if (is_list) {
    for (const std::string& item : split(text, ',')) append_item(list, item);
    if (list.groups.empty()) throw UsageError(concat("--groups ", text, ": there is no group."));
  } else {
    list = read_file(text);
  }
  list.weights = static_cast<int>(list.groups.size());
  return list;
}

}  // namespace harness

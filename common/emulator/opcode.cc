#include "common/emulator/opcode.h"

#include <algorithm>
#include <map>

#include "common/emulator/decode.h"

namespace emulator {

namespace {

/// Takes what stands before the first `separator` off the front of `text`.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

bool is_one_of(std::string_view alternatives, std::string_view part) {
  while (!alternatives.empty()) {
    if (take(alternatives, '|') == part) return true;
  }
  return false;
}

bool matches(std::string_view pattern, std::span<const std::string_view> parts) {
  if (pattern.empty()) return parts.empty();
  std::string_view rest = pattern;
  std::string_view expected = take(rest, '.');
  if (expected == "*") return true;
  const bool optional = expected.front() == '?';
  if (optional) expected.remove_prefix(1);
  if (!parts.empty() && is_one_of(expected, parts.front()) && matches(rest, parts.subspan(1))) {
    return true;
  }
  return optional && matches(rest, parts);
}

/// Whether a part says how values are read: such parts can't change places.
bool is_type(std::string_view part) {
  return data_type(part).bits != 0 || part == "pred" || part == "tf32" ||
         part.starts_with("e4m3") || part.starts_with("e5m2");
}

/// The most parts that are tried in every order; the longest opcodes have a dozen.
constexpr std::size_t most_parts = 16;

/// Matches parts in any order. `order` gets the index of the part for each that `pattern` names.
class AnyOrder {
 public:
  explicit AnyOrder(std::span<const std::string_view> parts) : parts_(parts) {}

  bool matches(std::string_view pattern, int last_type = -1) {
    if (pattern.empty()) return order_.size() == parts_.size();
    std::string_view rest = pattern;
    std::string_view expected = take(rest, '.');
    if (expected == "*") return false;
    const bool optional = expected.front() == '?';
    if (optional) expected.remove_prefix(1);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const bool used = std::find(order_.begin(), order_.end(), i) != order_.end();
      if (used || !is_one_of(expected, parts_[i])) continue;
      const bool type = is_type(parts_[i]);
      const auto index = static_cast<int>(i);
      if (type && index < last_type) continue;
      order_.push_back(i);
      if (matches(rest, type ? index : last_type)) return true;
      order_.pop_back();
    }
    return optional && matches(rest, last_type);
  }

  std::vector<std::string_view> reordered() const {
    std::vector<std::string_view> result;
    for (const std::size_t i : order_) result.push_back(parts_[i]);
    return result;
  }

 private:
  std::span<const std::string_view> parts_;
  std::vector<std::size_t> order_;
};

std::vector<std::span<const Opcode>> families() {
  return {integer_opcodes(),  bit_opcodes(),    comparison_opcodes(), move_opcodes(),
          float_opcodes(),    half_opcodes(),   conversion_opcodes(), control_opcodes(),
          memory_opcodes(),   atomic_opcodes(), collective_opcodes(), barrier_opcodes(),
          mbarrier_opcodes(), bulk_opcodes(),   tensormap_opcodes(),  remote_store_opcodes(),
          wgmma_opcodes()};
}

/// The rows by the first part of their patterns.
std::map<std::string_view, std::vector<const Opcode*>> index_rows() {
  std::map<std::string_view, std::vector<const Opcode*>> index;
  for (const auto family : families()) {
    for (const Opcode& row : family) {
      std::string_view pattern = row.pattern;
      std::string_view first = take(pattern, '.');
      while (!first.empty()) index[take(first, '|')].push_back(&row);
    }
  }
  return index;
}

}  // namespace

OpcodeMatch find_opcode(std::span<const std::string_view> parts) {
  static const auto index = index_rows();
  if (parts.empty()) return {};
  const auto rows = index.find(parts.front());
  if (rows == index.end()) return {};
  for (const Opcode* const row : rows->second) {
    if (matches(row->pattern, parts)) return {row, {parts.begin(), parts.end()}};
  }
  if (parts.size() > most_parts) return {};
  for (const Opcode* const row : rows->second) {
    AnyOrder any_order(parts);
    if (any_order.matches(row->pattern)) return {row, any_order.reordered()};
  }
  return {};
}

std::vector<std::string_view> opcode_patterns() {
  std::vector<std::string_view> patterns;
  for (const auto family : families()) {
    for (const Opcode& row : family) patterns.push_back(row.pattern);
  }
  return patterns;
}

}  // namespace emulator

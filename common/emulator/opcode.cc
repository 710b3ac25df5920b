#include "common/emulator/opcode.h"

#include <algorithm>
#include <map>

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

const Opcode* find_opcode(std::span<const std::string_view> parts) {
  static const auto index = index_rows();
  if (parts.empty()) return nullptr;
  const auto rows = index.find(parts.front());
  if (rows == index.end()) return nullptr;
  for (const Opcode* row : rows->second) {
    if (matches(row->pattern, parts)) return row;
  }
  return nullptr;
}

std::vector<std::string_view> opcode_patterns() {
  std::vector<std::string_view> patterns;
  for (const auto family : families()) {
    for (const Opcode& row : family) patterns.push_back(row.pattern);
  }
  return patterns;
}

}  // namespace emulator

#include "common/emulator/fault.h"

#include <charconv>

#include "common/emulator/cta.h"
#include "common/emulator/warp.h"

namespace emulator {

void fault(const Site& issuer, std::string_view rule, std::string sentence) {
  Finding finding;
  const Rule* known = find_rule(rule);
  finding.rule = known != nullptr ? known->id : rule;
  finding.sentence = std::move(sentence);
  finding.location = issuer.instruction->location;
  finding.role = role(issuer);
  throw Fault{std::move(finding)};
}

void fault(const Warp& warp, const Op& op, LaneMask lanes, std::string_view rule,
           std::string sentence) {
  fault(warp.site(op, lanes), rule, std::move(sentence));
}

void fault(const Warp& warp, const Op& op, std::string_view rule, std::string sentence) {
  fault(warp.site(op), rule, std::move(sentence));
}

std::string role(const Site& site) {
  std::string text = "warp " + std::to_string(site.warp) + " of CTA " + std::to_string(site.cta);
  LaneMask lanes = site.lanes;
  if (lanes == 0 || lanes == all_lanes) return text;

  // Runs of neighbours: "lanes 0-3, 8".
  text += count_lanes(lanes) == 1 ? " (lane " : " (lanes ";
  for (bool first = true; lanes != 0; first = false) {
    const int begin = first_lane(lanes);
    int end = begin;
    while (end < warp_size && (lanes >> end & 1) != 0) ++end;
    if (!first) text += ", ";
    text += std::to_string(begin);
    if (end - begin > 1) text += "-" + std::to_string(end - 1);
    lanes = end == warp_size ? 0 : lanes >> end << end;
  }
  return text + ")";
}

std::string hex(std::uint64_t value) {
  char digits[16];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value, 16);
  return "0x" + std::string(digits, end);
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace emulator

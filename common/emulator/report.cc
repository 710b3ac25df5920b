#include "common/emulator/report.h"

#include <sstream>

namespace emulator {

std::string place(const Module& module, const Location& location) {
  const bool has_line =
      location.file >= 0 && static_cast<std::size_t>(location.file) < module.files.size();
  if (!has_line) return "PTX line " + std::to_string(location.ptx_line);
  const std::string& path = module.files[static_cast<std::size_t>(location.file)];
  return path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(location.cuda_line);
}

std::string place_in_ptx(const Module& module, const Location& location) {
  const std::string line = "PTX line " + std::to_string(location.ptx_line);
  const std::string known = place(module, location);
  return known == line ? line : known + " (" + line + ")";
}

std::string describe(const Module& module, const std::vector<Finding>& findings) {
  std::ostringstream text;
  for (const Finding& finding : findings) {
    const Rule* const rule = find_rule(finding.rule);
    text << finding.rule;
    if (rule != nullptr) text << " " << rule->name;
    text << " at " << place(module, finding.location);
    if (finding.count > 1) text << ", " << finding.count << " times";
    text << "\n  " << finding.role << " " << finding.sentence << "\n";
  }
  return text.str();
}

}  // namespace emulator

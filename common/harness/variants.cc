#include "common/harness/variants.h"

#include <map>
#include <sstream>
#include <stdexcept>

namespace harness {
namespace {

/// What the flags of a row say.
struct Setting {
  std::map<std::string, std::string> knobs;
  std::string broken;
  bool traced = false;
};

/// `setting`, changed by `flags`: "--tile 64x128 --trace".
Setting changed(Setting setting, const std::string& flags) {
  std::istringstream words(flags);
  for (std::string flag; words >> flag;) {
    if (flag == "--trace") {
      setting.traced = true;
    } else if (flag == "--break") {
      words >> setting.broken;
    } else {
      words >> setting.knobs[flag.substr(2)];
    }
  }
  return setting;
}

bool has_knobs(const Selection& selection, const Setting& setting) {
  for (const auto& [knob, value] : setting.knobs) {
    if (selection.text(knob) != value) return false;
  }
  return true;
}

/// "--tile 64x128 --walk forwards"
std::string spell_knobs(const Setting& setting) {
  std::string text;
  for (const auto& [knob, value] : setting.knobs) {
    text += (text.empty() ? "--" : " --") + knob + " " + value;
  }
  return text;
}

}  // namespace

std::size_t chosen_variant(const std::vector<std::string>& flags, const Selection& selection) {
  const Setting first = changed({}, flags.at(0));
  std::string others;  // variants that only the knobs keep from being chosen
  for (std::size_t i = 0; i < flags.size(); ++i) {
    const Setting setting = changed({first.knobs, "", false}, flags[i]);
    if (setting.broken != selection.broken() || setting.traced != selection.traced()) continue;
    if (has_knobs(selection, setting)) return i;
    others += (others.empty() ? "" : ", or with ") + spell_knobs(setting);
  }
  const std::string what = !selection.broken().empty() ? "--break " + selection.broken()
                           : selection.traced()        ? "--trace"
                                                       : "The kernel";
  if (others.empty()) throw std::logic_error("the lesson has no variant for " + what);
  throw UsageError(what + " runs with " + others + " only.");
}

std::string broken_name(const std::string& flags) {
  return changed({}, flags).broken;
}

}  // namespace harness

#include "tests/unit/emulator_lab.h"

#include <sstream>

#include "common/emulator/report.h"

namespace lab {

std::string kernel_text(const std::vector<std::string>& parameters, const std::string& body,
                        const std::string& directives, const std::string& declarations) {
  std::ostringstream text;
  text << ".version 9.0\n.target sm_90a\n.address_size 64\n"
       << declarations << ".visible .entry kernel(";
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    text << (i == 0 ? "" : ", ") << ".param .u64 " << parameters[i];
  }
  text << ")\n"
       << directives
       << "\n{\n.reg .b32 %r<64>;\n.reg .b64 %rd<64>;\n.reg .b16 %h<64>;\n.reg .pred %p<64>;\n"
          ".reg .b32 %tid;\nmov.u32 %tid, %tid.x;\n";
  for (const std::string& parameter : parameters) {
    text << ".reg .b64 %" << parameter << ";\nld.param.u64 %" << parameter << ", [" << parameter
         << "];\n";
  }
  text << body << "\nret;\n}\n";
  return text.str();
}

emulator::LaunchGeometry geometry(std::uint32_t ctas, std::uint32_t threads,
                                  std::uint32_t shared_bytes, std::uint32_t cluster) {
  return {.grid = {ctas, 1, 1},
          .block = {threads, 1, 1},
          .cluster = {cluster, 1, 1},
          .dynamic_shared_bytes = shared_bytes};
}

emulator::Outcome Lab::launch_packed(const std::string& ptx,
                                     const emulator::LaunchGeometry& geometry,
                                     std::span<const std::span<const std::byte>> arguments) {
  modules_.push_back(emulator::parse(ptx));
  const emulator::Function& kernel = *modules_.back().entry("kernel");
  return machine_.launch(modules_.back(), kernel, geometry,
                         emulator::pack_parameters(kernel, arguments), observer);
}

std::string finding(const emulator::Outcome& outcome) {
  if (outcome.findings.size() != 1) return "";
  const emulator::Finding& only = outcome.findings.front();
  const emulator::Rule* const rule = emulator::find_rule(only.rule);
  return std::string(rule != nullptr ? rule->name : only.rule) + ": " + only.sentence;
}

std::string refusal(const std::string& body) {
  Lab machine;
  try {
    machine.launch(kernel_text({}, body), geometry(1, 32));
  } catch (const emulator::PtxError& error) {
    return error.what();
  }
  return "";
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace lab

#include "common/emulator/machine.h"

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "common/emulator/decode.h"
#include "common/emulator/execution.h"
#include "common/emulator/global_memory.h"

namespace emulator {

namespace {

/// The .global and .const variables of a module, in device memory for as long as the machine lives.
struct ModuleVariables {
  std::vector<std::uint64_t> addresses;  ///< of each of Module::variables; 0 for other spaces
};

/// Makes memory accessible while a launch runs.
class Loan {
 public:
  Loan(GlobalMemory& memory, const void* address, std::size_t bytes, std::string name)
      : memory_(memory), address_(address) {
    memory.add(address, bytes, true, std::move(name));
  }
  ~Loan() { memory_.forget(address_); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

 private:
  GlobalMemory& memory_;
  const void* address_;
};

}  // namespace

struct Machine::State {
  MachineOptions options;
  GlobalMemory memory;
  std::map<const Module*, ModuleVariables> variables;
  std::map<const Function*, Program> programs;
  std::uint64_t launches = 0;

  const ModuleVariables& variables_of(const Module& module);
  Program& program_of(const Module& module, const Function& kernel);
};

const ModuleVariables& Machine::State::variables_of(const Module& module) {
  const auto [entry, is_new] = variables.try_emplace(&module);
  if (!is_new) return entry->second;
  for (const Variable& variable : module.variables) {
    std::uint64_t address = 0;
    if (variable.space == Space::global || variable.space == Space::constant) {
      auto* const storage = static_cast<std::byte*>(memory.allocate(variable.size));
      std::fill_n(storage, variable.size, std::byte{0});
      std::copy_n(variable.initial.begin(), std::min(variable.initial.size(), variable.size),
                  storage);
      const bool is_constant = variable.space == Space::constant;
      memory.describe_as(storage, (is_constant ? "the constant " : "the variable ") + variable.name,
                         is_constant);
      address = reinterpret_cast<std::uint64_t>(storage);
    }
    entry->second.addresses.push_back(address);
  }
  return entry->second;
}

Program& Machine::State::program_of(const Module& module, const Function& kernel) {
  const auto known = programs.find(&kernel);
  if (known != programs.end()) return known->second;
  const ModuleVariables& module_variables = variables_of(module);
  return programs.emplace(&kernel, decode(module, kernel, module_variables.addresses))
      .first->second;
}

Machine::Machine(const MachineOptions& options) : state_(std::make_unique<State>()) {
  state_->options = options;
}
Machine::~Machine() = default;

MachineOptions& Machine::options() {
  return state_->options;
}

void* Machine::allocate(std::size_t bytes) {
  return state_->memory.allocate(bytes);
}

void Machine::release(void* address) noexcept {
  state_->memory.release(address);
}

bool Machine::contains(const void* address, std::size_t bytes) const {
  return state_->memory.find(reinterpret_cast<std::uint64_t>(address), bytes) != nullptr;
}

Outcome Machine::launch(const Module& module, const Function& kernel,
                        const LaunchGeometry& geometry, std::span<const std::byte> parameters,
                        Observer* observer) {
  Program& program = state_->program_of(module, kernel);
  const std::size_t expected = program.parameter_bytes;
  if (parameters.size() != expected) {
    throw std::invalid_argument("Can't launch " + kernel.name + ": its parameters take " +
                                std::to_string(expected) + " bytes, not " +
                                std::to_string(parameters.size()) + ".");
  }
  std::copy(parameters.begin(), parameters.end(), program.parameters.get());
  const Loan loan(state_->memory, program.parameters.get(), expected,
                  "the parameters of " + kernel.name);

  // Launches of one seed differ from each other, and are the same in every run of the program.
  const std::uint64_t seed = state_->options.seed * 0x9E37'79B9'7F4A'7C15 + state_->launches++;
  return Execution(program, geometry, state_->options, seed, state_->memory, observer).run();
}

std::vector<std::byte> pack_parameters(const Function& kernel,
                                       std::span<const std::span<const std::byte>> arguments) {
  if (arguments.size() != kernel.parameter_count) {
    throw std::invalid_argument(kernel.name + " takes " + std::to_string(kernel.parameter_count) +
                                " arguments, not " + std::to_string(arguments.size()) + ".");
  }
  std::vector<std::byte> packed;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Variable& parameter = kernel.variables[i];
    if (arguments[i].size() != parameter.size) {
      throw std::invalid_argument("Argument " + std::to_string(i) + " of " + kernel.name + " has " +
                                  std::to_string(arguments[i].size()) +
                                  " bytes; its parameter has " + std::to_string(parameter.size) +
                                  ".");
    }
    const std::size_t alignment = std::max<std::size_t>(parameter.alignment, 1);
    packed.resize((packed.size() + alignment - 1) / alignment * alignment);
    packed.insert(packed.end(), arguments[i].begin(), arguments[i].end());
  }
  return packed;
}

}  // namespace emulator

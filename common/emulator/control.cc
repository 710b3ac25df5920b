// Branches, calls, exits. PTX ISA 9.7.12, 9.7.19.
#include "common/emulator/control.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/emulator/decode.h"
#include "common/emulator/execution.h"
#include "common/emulator/fault.h"
#include "common/emulator/memory.h"
#include "common/emulator/opcode.h"
#include "common/emulator/print.h"
#include "common/emulator/warp.h"

namespace emulator {

Flow branch(Warp& warp, const Op& op) {
  return warp.jump(op.target);
}
Flow call(Warp& warp, const Op& op) {
  return warp.enter(op);
}
Flow return_lanes(Warp& warp, const Op&) {
  return warp.leave_function();
}
Flow exit_lanes(Warp& warp, const Op& op) {
  return warp.exit(op);
}

namespace {

Flow trap(Warp& warp, const Op& op) {
  fault(warp, op, "trap", "executes trap: the kernel stops itself.");
}

Flow nothing(Warp&, const Op&) {
  return Flow::next;
}

Flow sleep(Warp& warp, const Op& op) {
  std::uint64_t longest = 0;
  const Row<std::uint32_t> a = warp.row<std::uint32_t>(op.a);
  for_each_lane(warp.lanes, [&](int lane) { longest = std::max<std::uint64_t>(longest, a[lane]); });
  return warp.yield(longest);
}

// ---- Functions of the runtime. Their parameters lie in the caller's frame: op.list names them.

template <class T>
T parameter(Warp& warp, const Op& op, int index, int lane) {
  const Slot offset = warp.execution().program().slots[op.list + static_cast<std::uint32_t>(index)];
  T value;
  std::memcpy(&value, warp.local_memory(lane) + warp.frame() + offset, sizeof(T));
  return value;
}

/// vprintf(format, arguments)
Flow print(Warp& warp, const Op& op) {
  for_each_lane(warp.lanes, [&](int lane) {
    const int printed = print_lane(warp, op, lane, parameter<std::uint64_t>(warp, op, 0, lane),
                                   parameter<std::uint64_t>(warp, op, 1, lane));
    if (op.list_size < 3) return;
    const Slot result = warp.execution().program().slots[op.list + 2];
    std::memcpy(warp.local_memory(lane) + warp.frame() + result, &printed, sizeof printed);
  });
  return Flow::next;
}

/// __assertfail(message, file, line, function, size of a character)
Flow assert_fail(Warp& warp, const Op& op) {
  const int lane = first_lane(warp.lanes);
  const auto text = [&](int index) {
    return read_string(warp, op, lane, parameter<std::uint64_t>(warp, op, index, lane));
  };
  fault(warp, op, "assert",
        text(1) + ":" + std::to_string(parameter<std::uint32_t>(warp, op, 2, lane)) + ": " +
            text(3) + ": assertion `" + text(0) + "` failed.");
}

/// A runtime function and the sizes of its parameters, the result last.
struct RuntimeFunction {
  std::string_view name;
  Handler handler;
  std::vector<std::size_t> parameters;
  std::size_t result;
};

const RuntimeFunction* find_runtime_function(std::string_view name) {
  static const RuntimeFunction functions[] = {
      {"vprintf", print, {8, 8}, 4},
      {"__assertfail", assert_fail, {8, 8, 4, 8, 8}, 0},
  };
  for (const RuntimeFunction& function : functions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

// ---- Decoding.

void build_branch(InstructionDecoder& d) {
  d.expect_operands(1, 1);
  if (d.operand(0).kind != Operand::Kind::label) d.fail("needs a label");
  d.op.run = branch;
  d.op.target =
      d.operand(0).index;  // of an instruction: the program decoder makes it that of an op
}

/// Arguments and results of a call: .param variables of the caller.
struct CallOperands {
  std::vector<std::uint32_t> results, arguments;  ///< indices into Function::variables
  const Operand* function = nullptr;
};

std::vector<std::uint32_t> call_variables(const InstructionDecoder& d, const Operand& list) {
  std::vector<std::uint32_t> indices;
  for (const Operand& element : list.elements) {
    const bool local = (element.index & Operand::function_scope) != 0;
    if (element.kind != Operand::Kind::variable || !local) {
      d.fail("passes something other than .param variables, which is not supported");
    }
    indices.push_back(element.index & ~Operand::function_scope);
  }
  return indices;
}

CallOperands call_operands(const InstructionDecoder& d) {
  CallOperands result;
  for (std::size_t i = 0; i < d.operand_count(); ++i) {
    const Operand& operand = d.operand(i);
    if (operand.kind == Operand::Kind::function) {
      result.function = &operand;
    } else if (operand.kind == Operand::Kind::list) {
      (result.function == nullptr ? result.results : result.arguments) = call_variables(d, operand);
    }
  }
  if (result.function == nullptr) d.fail("calls through a register, which is not supported");
  return result;
}

void check_sizes(const InstructionDecoder& d, std::string_view callee, std::size_t given,
                 std::size_t taken) {
  if (given == taken) return;
  d.fail("passes " + std::to_string(given) + " bytes where " + std::string(callee) + " takes " +
         std::to_string(taken));
}

void build_runtime_call(InstructionDecoder& d, const CallOperands& operands) {
  const std::string& name = operands.function->name;
  const RuntimeFunction* const function = find_runtime_function(name);
  if (function == nullptr) {
    d.fail("calls " + name +
           ", which has no body; of the runtime's functions only printf and "
           "assert are supported");
  }
  if (operands.arguments.size() != function->parameters.size()) {
    d.fail("passes " + std::to_string(operands.arguments.size()) + " arguments where " + name +
           " takes " + std::to_string(function->parameters.size()));
  }
  const FunctionCode& caller = d.function();
  std::vector<Slot> offsets;
  for (std::size_t i = 0; i < operands.arguments.size(); ++i) {
    check_sizes(d, name, caller.source->variables[operands.arguments[i]].size,
                function->parameters[i]);
    offsets.push_back(caller.variable_offsets[operands.arguments[i]]);
  }
  for (const std::uint32_t result : operands.results) {
    check_sizes(d, name, caller.source->variables[result].size, function->result);
    offsets.push_back(caller.variable_offsets[result]);
  }
  d.set_list(offsets);
  d.op.run = function->handler;
}

void build_call(InstructionDecoder& d) {
  const CallOperands operands = call_operands(d);
  if (operands.function->index == ~0u) return build_runtime_call(d, operands);

  const Function& function = d.module().functions[operands.function->index];
  if (function.is_entry) d.fail("calls the kernel " + function.name);
  if (operands.arguments.size() != function.parameter_count ||
      operands.results.size() != function.return_variables.size()) {
    d.fail("does not pass what " + function.name +
           " takes: " + std::to_string(function.parameter_count) + " arguments and " +
           std::to_string(function.return_variables.size()) + " results");
  }
  Call call_record;
  call_record.function = d.callee(function);
  const FunctionCode& caller = d.function();
  const FunctionCode& callee = d.program().functions[call_record.function];
  call_record.frame_bytes = caller.frame_bytes;
  const auto bytes_of = [&](std::uint32_t own, std::uint32_t theirs) {
    const std::size_t size = function.variables[theirs].size;
    check_sizes(d, function.name, caller.source->variables[own].size, size);
    return static_cast<std::uint32_t>(size);
  };
  for (std::uint32_t i = 0; i < operands.arguments.size(); ++i) {
    const std::uint32_t own = operands.arguments[i];
    call_record.arguments.push_back(
        {caller.variable_offsets[own], callee.variable_offsets[i], bytes_of(own, i)});
  }
  for (std::size_t i = 0; i < operands.results.size(); ++i) {
    const std::uint32_t own = operands.results[i];
    const std::uint32_t theirs = function.return_variables[i];
    call_record.results.push_back(
        {callee.variable_offsets[theirs], caller.variable_offsets[own], bytes_of(own, theirs)});
  }
  d.op.run = call;
  d.op.target = static_cast<std::uint32_t>(d.program().calls.size());
  d.program().calls.push_back(std::move(call_record));
}

void build_return(InstructionDecoder& d) {
  d.expect_operands(0, 0);
  d.op.run = d.function().source->is_entry ? exit_lanes : return_lanes;
}

void build_exit(InstructionDecoder& d) {
  d.expect_operands(0, 0);
  d.op.run = exit_lanes;
}

void refuse_indirect(InstructionDecoder& d) {
  d.fail("is not supported: it branches through a table; nvcc makes chains of comparisons instead");
}

void refuse_mma(InstructionDecoder& d) {
  d.fail("is not supported: this emulator has the tensor cores of Hopper; use wgmma.mma_async");
}

void refuse_texture(InstructionDecoder& d) {
  d.fail("is not supported: there are no textures or surfaces; use ld.global or TMA");
}

void refuse_cp_async(InstructionDecoder& d) {
  d.fail("is not supported: the copies of Ampere are not modelled; use cp.async.bulk (TMA)");
}

constexpr Opcode table[] = {
    {"bra.?uni", {}, nullptr, build_branch},
    {"call.?uni", {}, nullptr, build_call},
    {"ret.?uni", {}, nullptr, build_return},
    {"exit", {}, nullptr, build_exit},
    {"trap", {}, trap},
    {"brkpt", {}, nothing},
    {"pmevent.?mask", "i", nothing},
    {"nanosleep.u32",
     {},
     sleep,
     [](InstructionDecoder& d) {
       d.expect_operands(1, 1);
       d.op.a = d.source(d.operand(0), 32);
     }},
    {"griddepcontrol.wait|launch_dependents", {}, nothing},
    {"brx.*", {}, nullptr, refuse_indirect},
    {"mma|wmma.*", {}, nullptr, refuse_mma},
    {"tex|tld4|txq|suld|sust|sured|suq.*", {}, nullptr, refuse_texture},
    {"cp.async.ca|cg|commit_group|wait_group|wait_all|mbarrier.*", {}, nullptr, refuse_cp_async},
};

}  // namespace

std::span<const Opcode> control_opcodes() {
  return table;
}

}  // namespace emulator

#include "common/emulator/warpgroup.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "common/emulator/arithmetic.h"
#include "common/emulator/cta.h"
#include "common/emulator/decode.h"
#include "common/emulator/execution.h"
#include "common/emulator/fault.h"
#include "common/emulator/memory_map.h"
#include "common/emulator/opcode.h"
#include "common/emulator/wgmma.h"

namespace emulator {

namespace {

constexpr std::uint32_t warps_per_group = 4;
/// From the end of the multiplication to the accumulators, model nanoseconds.
constexpr std::uint64_t pipeline_latency = 32;

Warpgroup& group_of(const Warp& warp) {
  return warp.cta().warpgroups[warp.rank() / warps_per_group];
}

/// The four warps of the group; faults where there are fewer.
std::array<Warp*, 4> warps_of_group(const Warp& warp, const Op& op) {
  Cta& cta = warp.cta();
  const std::uint32_t first = warp.rank() / warps_per_group * warps_per_group;
  if (first + warps_per_group > cta.warps.size()) {
    fault(warp, op, "divergent-aligned",
          "needs a warpgroup, four consecutive warps; the CTA has " +
              counted(cta.warps.size(), "warp") + ".");
  }
  std::array<Warp*, 4> warps;
  for (std::uint32_t i = 0; i < warps_per_group; ++i) warps[i] = cta.warps[first + i].get();
  return warps;
}

bool gather_whole_warp(Warp& warp, const Op& op) {
  if (warp.live() != all_lanes) {
    fault(warp, op, "divergent-aligned",
          "needs all 32 lanes of its warp, but some have exited or were never there.");
  }
  return warp.gather(op, all_lanes);
}

/// An operand that must be the same in all lanes.
template <class T>
T uniform_operand(const Warp& warp, const Op& op, Slot slot, const char* what) {
  const Row<T> row = warp.row<T>(slot);
  const T value = row[0];
  if (where([&](int i) { return row[i] == value; }) != all_lanes) {
    fault(warp, op, "bad-descriptor",
          std::string(what) + " differs between the lanes of the warp.");
  }
  return value;
}

// ---- wgmma.mma_async. Op::a, b descriptors, c scale-d, target the WgmmaOperands.

PendingWgmma read_operands(const Warp& warp, const Op& op) {
  PendingWgmma wgmma;
  wgmma.op = &op;
  if (op.a != no_slot) wgmma.descriptor_a = uniform_operand<u64>(warp, op, op.a, "descriptor A");
  wgmma.descriptor_b = uniform_operand<u64>(warp, op, op.b, "descriptor B");
  const LaneMask scale_d = op.negated ? ~warp.predicate(op.c) : warp.predicate(op.c);
  if (scale_d != 0 && scale_d != all_lanes) {
    fault(warp, op, "bad-descriptor", "scale-d differs between the lanes of the warp.");
  }
  wgmma.scale_d = scale_d != 0;
  return wgmma;
}

/// The warps of a group must issue the same wgmmas with the same operands.
void check_agreement(const Warp& warp, const Op& op, const PendingWgmma& first,
                     const PendingWgmma& own) {
  const Module& module = *warp.execution().program().module;
  if (first.op != &op) {
    fault(warp, op, "divergent-aligned",
          "issues a wgmma where another warp of its warpgroup issued the one at " +
              place(module, first.op->source->location) +
              ": the four warps must execute the same ones in the same order.");
  }
  if (first.descriptor_a != own.descriptor_a || first.descriptor_b != own.descriptor_b ||
      first.scale_d != own.scale_d) {
    fault(warp, op, "bad-descriptor",
          "has other descriptors or another scale-d than the other warps of its warpgroup (A " +
              hex(own.descriptor_a) + " and " + hex(first.descriptor_a) + ", B " +
              hex(own.descriptor_b) + " and " + hex(first.descriptor_b) + ").");
  }
}

/// The rows of each warp's registers: at most as many as the largest accumulator has.
struct RegisterRows {
  std::array<std::array<std::uint32_t*, 128>, 4> rows;
  std::array<std::uint32_t* const*, 4> pointers;

  RegisterRows(const std::array<Warp*, 4>& warps, const std::vector<Slot>& slots) {
    for (std::size_t w = 0; w < warps.size(); ++w) {
      for (std::size_t i = 0; i < slots.size(); ++i) rows[w][i] = warps[w]->row_pointer(slots[i]);
      pointers[w] = rows[w].data();
    }
  }
};

void multiply(const Warp& warp, const Op& op, const std::array<Warp*, 4>& warps,
              const PendingWgmma& wgmma_op) {
  const WgmmaOperands& operands = warp.execution().program().wgmmas[op.target];
  const RegisterRows d(warps, operands.accumulator_slots);
  const RegisterRows a(warps, operands.a_slots);
  const ConstWarpgroupRegisters a_pointers{a.pointers[0], a.pointers[1], a.pointers[2],
                                           a.pointers[3]};
  const Cta& cta = warp.cta();
  const auto outside =
      wgmma(operands.form, d.pointers, a_pointers, wgmma_op.descriptor_a, wgmma_op.descriptor_b,
            wgmma_op.scale_d, SharedWindow{cta.shared, shared_base});
  if (!outside) return;
  const u64 descriptor = outside->operand == 'A' ? wgmma_op.descriptor_a : wgmma_op.descriptor_b;
  fault(warp, op, "bad-descriptor",
        std::string("descriptor ") + outside->operand + " (" + hex(descriptor) +
            ") makes it read shared address " + hex(outside->address) + "; the CTA's " +
            counted(cta.shared.size(), "byte") + " start at " + hex(shared_base) + ".");
}

void report_start(const Warp& warp, const Op& op, const PendingWgmma& wgmma_op, AsyncId id) {
  Observer* const observer = warp.execution().observer();
  if (observer == nullptr) return;
  const WgmmaForm& form = warp.execution().program().wgmmas[op.target].form;
  observer->async_begin(warp.site(op), id, AsyncKind::wgmma);
  std::vector<ByteRange> ranges;
  const auto touch = [&](char operand, u64 descriptor) {
    operand_ranges(form, operand, descriptor, ranges);
    for (const ByteRange& range : ranges) {
      observer->async_touch_shared(id, warp.cta().index, range.address - shared_base, range.bytes,
                                   Access::read);
    }
  };
  if (!form.a_in_registers) touch('A', wgmma_op.descriptor_a);
  touch('B', wgmma_op.descriptor_b);
}

/// Runs the wgmma at the front of `group`, which all four warps have issued.
void start(Warp& warp, const Op& op, const std::array<Warp*, 4>& warps, Warpgroup& group) {
  Execution& execution = warp.execution();
  const PendingWgmma wgmma_op = group.pending.front();
  group.pending.pop_front();
  ++group.first_pending;
  multiply(warp, op, warps, wgmma_op);
  const AsyncId id = execution.next_async_id();
  report_start(warp, op, wgmma_op, id);

  // The tensor cores of an SM multiply 64 x N x 32 bytes of K in N / 2 ns.
  Cta& cta = warp.cta();
  u64& busy_until = execution.tensor_cores_busy_until(cta.sm);
  const int n = execution.program().wgmmas[op.target].form.n;
  busy_until = std::max(busy_until, warp.time()) + static_cast<u64>(n) / 2;
  const u64 latency = execution.timing().latency(pipeline_latency);
  group.busy_until = std::max(group.busy_until + 1, busy_until + latency);
  Cluster* const cluster = cta.cluster;
  ++cluster->async_operations;
  execution.at(group.busy_until, [&execution, &group, warps, cluster, id] {
    ++group.completed;
    --cluster->async_operations;
    if (Observer* const observer = execution.observer()) observer->async_complete(id);
    for (Warp* const w : warps) {
      w->end_waits([&](const Split& split) {
        return split.wait.kind == Wait::Kind::wgmma && split.wait.value <= group.completed;
      });
    }
  });
}

Flow issue(Warp& warp, const Op& op) {
  if (!gather_whole_warp(warp, op)) return Flow::leave;
  const std::array<Warp*, 4> warps = warps_of_group(warp, op);
  Warpgroup& group = group_of(warp);
  const u64 number = warp.wgmmas_issued++;
  for (const Warp* const other : warps) {
    if (other->live() != 0 || other->wgmmas_issued > number) continue;
    fault(warp, op, "divergent-aligned",
          "is executed by some warps of its warpgroup only: warp " + std::to_string(other->rank()) +
              " has exited. wgmma needs all four.");
  }
  const WgmmaOperands& operands = warp.execution().program().wgmmas[op.target];
  if (Observer* const observer = warp.execution().observer()) {
    observer->wgmma_issue(warp.site(op), operands.accumulators, operands.a_registers);
  }
  const PendingWgmma own = read_operands(warp, op);
  const std::size_t position = number - group.first_pending;
  if (position == group.pending.size()) {
    group.pending.push_back(own);
  } else {
    check_agreement(warp, op, group.pending[position], own);
  }
  if (++group.pending[position].issued == warps_per_group) start(warp, op, warps, group);
  return Flow::next;
}

// ---- fence, commit_group, wait_group.

Flow fence_registers(Warp& warp, const Op& op) {
  if (!gather_whole_warp(warp, op)) return Flow::leave;
  if (Observer* const observer = warp.execution().observer()) observer->wgmma_fence(warp.site(op));
  return Flow::next;
}

Flow commit(Warp& warp, const Op& op) {
  if (!gather_whole_warp(warp, op)) return Flow::leave;
  warp.wgmma_groups.push_back(warp.wgmmas_issued);
  if (Observer* const observer = warp.execution().observer()) observer->wgmma_commit(warp.site(op));
  return Flow::next;
}

/// Op::immediate: groups that may be pending.
Flow wait(Warp& warp, const Op& op) {
  if (!gather_whole_warp(warp, op)) return Flow::leave;
  std::vector<u64>& groups = warp.wgmma_groups;
  const auto allowed = static_cast<std::size_t>(op.immediate);
  if (groups.size() > allowed) {
    const std::size_t awaited = groups.size() - allowed;
    const u64 last = groups[awaited - 1];
    if (group_of(warp).completed < last) {
      return warp.wait_and_retry(op, {.kind = Wait::Kind::wgmma, .value = last});
    }
    groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(awaited));
  }
  if (Observer* const observer = warp.execution().observer()) {
    observer->wgmma_wait(warp.site(op), static_cast<int>(op.immediate));
  }
  return Flow::next;
}

void build_wait(InstructionDecoder& d) {
  d.expect_operands(1, 1);
  d.op.immediate = d.integer(d.operand(0));
  if (d.op.immediate < 0) d.fail("needs a number of groups that is not negative");
  d.op.run = wait;
}

// ---- Decoding of wgmma.mma_async.

std::optional<MatrixType> matrix_type(std::string_view name) {
  constexpr std::string_view names[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8"};
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<MatrixType>(found - std::begin(names));
}

/// N and K of "m64n128k16".
std::pair<int, int> shape(InstructionDecoder& d, std::string_view text) {
  int n = 0, k = 0;
  const char* const end = text.data() + text.size();
  if (text.starts_with("m64n")) {
    const auto [after_n, error] = std::from_chars(text.data() + 4, end, n);
    if (error == std::errc() && after_n != end && *after_n == 'k') {
      const auto [after_k, error_k] = std::from_chars(after_n + 1, end, k);
      if (error_k == std::errc() && after_k == end) return {n, k};
    }
  }
  d.fail("has no shape of the form m64nNkK");
}

/// An immediate that is one of two values.
bool flag(InstructionDecoder& d, std::size_t index, std::int64_t no, std::int64_t yes) {
  const std::int64_t value = d.integer(d.operand(index));
  if (value != no && value != yes) {
    d.fail("has " + std::to_string(value) + " where it takes " + std::to_string(no) + " or " +
           std::to_string(yes));
  }
  return value == yes;
}

void set_registers(InstructionDecoder& d, const Operand& operand, std::vector<Slot>& slots,
                   std::vector<std::uint32_t>& registers, int count) {
  if (operand.kind != Operand::Kind::vector ||
      operand.elements.size() != static_cast<std::size_t>(count)) {
    d.fail("needs lists of " + std::to_string(count) + " registers");
  }
  for (const Operand& element : operand.elements) {
    slots.push_back(d.wgmma_register(element));
    registers.push_back(element.index);
  }
}

/// {d}, a or {a}, b, scale-d {, imm-scale-a, imm-scale-b {, imm-trans-a, imm-trans-b}}
void build_multiply(InstructionDecoder& d) {
  WgmmaOperands operands;
  WgmmaForm& form = operands.form;
  const auto [n, k] = shape(d, d.part(4));
  form.n = n;
  form.satfinite = d.has("satfinite");
  const int first_type = d.part(5) == "satfinite" ? 6 : 5;
  const std::string_view accumulator = d.part(first_type);
  form.d = accumulator == "f32"   ? AccumulatorType::f32
           : accumulator == "f16" ? AccumulatorType::f16
                                  : AccumulatorType::s32;
  const auto a = matrix_type(d.part(first_type + 1));
  const auto b = matrix_type(d.part(first_type + 2));
  if (!a || !b) d.fail("has no such types of A and B");
  form.a = *a;
  form.b = *b;
  d.expect_operands(4, 8);
  form.a_in_registers = d.operand(1).kind == Operand::Kind::vector;

  // Integers take no factors, and only 16-bit types can be transposed.
  const bool has_scales = form.d != AccumulatorType::s32;
  const bool has_transposes = element_bits(form.a) == 16;
  std::size_t next = 4;
  if (has_scales) {
    form.negate_a = flag(d, next++, 1, -1);
    form.negate_b = flag(d, next++, 1, -1);
  }
  if (has_transposes) {
    if (!form.a_in_registers) form.transpose_a = flag(d, next++, 0, 1);
    form.transpose_b = flag(d, next++, 0, 1);
  }
  d.expect_operands(next, next);
  if (const auto error = refusal(form)) d.fail("is no form of wgmma: " + *error);
  if (k != form.k()) {
    d.fail("has K = " + std::to_string(k) + "; for its types K is " + std::to_string(form.k()));
  }

  set_registers(d, d.operand(0), operands.accumulator_slots, operands.accumulators,
                form.accumulator_registers());
  if (form.a_in_registers) {
    set_registers(d, d.operand(1), operands.a_slots, operands.a_registers, WgmmaForm::a_registers);
  } else {
    d.op.a = d.source(d.operand(1), 64);
  }
  d.op.b = d.source(d.operand(2), 64);
  d.op.c = d.predicate(d.operand(3));
  d.op.target = static_cast<u32>(d.program().wgmmas.size());
  d.op.cost = 8;
  d.op.run = issue;
  d.program().wgmmas.push_back(std::move(operands));
}

// ---- setmaxnreg. Op::immediate: registers a thread. One pool a CTA, in registers.

Flow give_registers(Warp& warp, const Op& op) {
  if (!gather_whole_warp(warp, op)) return Flow::leave;
  const auto count = static_cast<int>(op.immediate);
  if (count > warp.registers_per_thread) {
    fault(warp, op, "setmaxnreg",
          "asks for " + std::to_string(count) + " registers a thread, but has " +
              std::to_string(warp.registers_per_thread) + ": .dec can only give some up.");
  }
  Cta& cta = warp.cta();
  cta.free_registers += std::int64_t{warp.registers_per_thread - count} * warp_size;
  warp.registers_per_thread = count;
  warp.execution().note_progress();
  for (const auto& other : cta.warps) {
    other->end_waits([](const Split& s) { return s.wait.kind == Wait::Kind::registers; });
  }
  return Flow::next;
}

Flow take_registers(Warp& warp, const Op& op) {
  if (!gather_whole_warp(warp, op)) return Flow::leave;
  const auto count = static_cast<int>(op.immediate);
  const std::int64_t needed = std::int64_t{count - warp.registers_per_thread} * warp_size;
  if (needed < 0) {
    fault(warp, op, "setmaxnreg",
          "asks for " + std::to_string(count) + " registers a thread, but has " +
              std::to_string(warp.registers_per_thread) + " already: .inc can only add some.");
  }
  Cta& cta = warp.cta();
  if (needed > cta.free_registers) {
    return warp.wait_and_retry(op,
                               {.kind = Wait::Kind::registers, .value = static_cast<u64>(needed)});
  }
  cta.free_registers -= needed;
  warp.registers_per_thread = count;
  return Flow::next;
}

/// ptxas drops setmaxnreg (C7508) unless launch bounds say how many registers a thread starts with.
Flow ignore_registers(Warp& warp, const Op& op) {
  return gather_whole_warp(warp, op) ? Flow::next : Flow::leave;
}

void build_registers(InstructionDecoder& d) {
  d.expect_operands(1, 1);
  d.op.immediate = d.integer(d.operand(0));
  if (d.op.immediate < 24 || d.op.immediate > 256 || d.op.immediate % 8 != 0) {
    d.fail("takes a multiple of 8 between 24 and 256");
  }
  const Function& kernel = *d.program().kernel;
  const bool has_bounds = kernel.max_registers != 0 ||
                          (kernel.min_ctas_per_sm != 0 &&
                           (kernel.max_threads[0] != 0 || kernel.required_threads[0] != 0));
  d.op.run = !has_bounds ? ignore_registers : d.has("dec") ? give_registers : take_registers;
}

constexpr Opcode table[] = {
    {"wgmma.mma_async.sync.aligned.*", {}, nullptr, build_multiply},
    {"wgmma.fence.sync.aligned", {}, fence_registers},
    {"wgmma.commit_group.sync.aligned", {}, commit},
    {"wgmma.wait_group.sync.aligned", {}, nullptr, build_wait},
    {"setmaxnreg.inc|dec.sync.aligned.u32", {}, nullptr, build_registers},
};

}  // namespace

void check_wgmmas_at_exit(const Warp& warp) {
  const std::size_t group_index = warp.rank() / warps_per_group;
  if (group_index >= warp.cta().warpgroups.size()) return;
  const Warpgroup& group = warp.cta().warpgroups[group_index];
  if (group.pending.empty() || warp.wgmmas_issued >= group.first_pending + group.pending.size()) {
    return;
  }
  const PendingWgmma& missed = group.pending[warp.wgmmas_issued - group.first_pending];
  fault(warp, *missed.op, all_lanes, "divergent-aligned",
        "exits without the wgmma that " + counted(static_cast<u64>(missed.issued), "warp") +
            " of its warpgroup executed: wgmma needs all four.");
}

std::span<const Opcode> wgmma_opcodes() {
  return table;
}

}  // namespace emulator

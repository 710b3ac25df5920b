#include "common/emulator/warp.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/emulator/cta.h"
#include "common/emulator/execution.h"
#include "common/emulator/fault.h"
#include "common/emulator/special_registers.h"

namespace emulator {

namespace {

/// Instructions that a split executes before it gives way to others of its warp.
constexpr int turn_length = 512;
/// Looks at something unchanged before spinning lanes are slowed down, and by how much.
constexpr std::uint64_t patient_polls = 4;
constexpr std::uint64_t poll_delay = 200;

bool at_same_place(const Split& a, const Split& b) {
  return a.pc == b.pc && a.frame == b.frame && a.calls == b.calls;
}

/// Whether a split that does not run can become part of one that does.
bool can_be_joined(const Split& split) {
  return split.wait.kind == Wait::Kind::none || split.wait.kind == Wait::Kind::lanes;
}

}  // namespace

Warp::Warp(Execution& execution, Cta& cta, std::uint32_t rank)
    : execution_(execution),
      cta_(cta),
      rank_(rank),
      ops_(execution.program().ops.data()),
      registers_(execution.program().register_bytes) {
  bases_ = {registers_.get(), execution.program().constants.get()};
}

void Warp::start(LaneMask live, std::uint64_t time) {
  live_ = live;
  time_ = time;
  current_ = {};
  current_.pc = execution_.program().functions[0].entry;
  current_.lanes = live;
  others_.clear();
  carry = 0;
  bulk_groups.clear();
  wgmmas_issued = 0;
  wgmma_groups.clear();
  registers_per_thread = execution_.registers_per_thread();
  cluster_generation = 0;
  cluster_arrived = 0;
  issues_copies = false;
  polls_ = 0;
  last_look_ = nullptr;
  looks_ = {};
  turn_ = 0;
  gave_way_ = false;
  write_special_rows(*this);
}

Site Warp::site(const Op& op, LaneMask lanes) const {
  return {op.source, cta_.index, static_cast<std::uint16_t>(rank_), lanes};
}

std::byte* Warp::local_memory(int lane) {
  const std::size_t bytes = execution_.program().frame_bytes;
  if (local_ == nullptr) local_ = std::make_unique<std::byte[]>(bytes * warp_size);
  return local_.get() + bytes * lane;
}

bool Warp::can_run() const {
  return current_.lanes != 0 || std::any_of(others_.begin(), others_.end(), [](const Split& s) {
           return s.wait.kind == Wait::Kind::none;
         });
}

// ---- The loop.

void Warp::run(std::uint64_t until) {
  until_ = until;
  while (time_ < until_) {
    if (current_.lanes == 0 && !choose()) return;
    if (others_.empty()) {
      while (time_ < until_ && step() == Flow::next) {
      }
    } else {
      step();
    }
    if (!others_.empty() && current_.lanes != 0) reconcile();
  }
}

Flow Warp::step() {
  const Op& op = ops_[current_.pc];
  ++current_.pc;
  time_ += std::uint64_t{op.cost} * pace_;
  lanes = current_.lanes;
  if (op.guard != no_slot) {
    const LaneMask value = predicate(op.guard);
    lanes &= op.guard_negated ? ~value : value;
    if (lanes == 0) return Flow::next;
  }
  if (op.wgmma_access_count != 0) report_wgmma_accesses(op);
  execution_.count_instruction();
  return op.run(*this, op);
}

void Warp::report_wgmma_accesses(const Op& op) {
  Observer* const observer = execution_.observer();
  if (observer == nullptr) return;
  const std::vector<WgmmaAccess>& all = execution_.program().wgmma_accesses;
  for (std::uint32_t i = 0; i < op.wgmma_access_count; ++i) {
    const WgmmaAccess& access = all[op.first_wgmma_access + i];
    observer->wgmma_register_access(site(op), access.reg, access.access);
  }
}

bool Warp::choose() {
  auto best = others_.end();
  for (auto split = others_.begin(); split != others_.end(); ++split) {
    if (split->wait.kind != Wait::Kind::none) continue;
    if (best == others_.end() || split->pc < best->pc) best = split;
  }
  if (best == others_.end()) return false;
  current_ = std::move(*best);
  others_.erase(best);
  turn_ = 0;
  gave_way_ = false;
  return true;
}

void Warp::reconcile() {
  for (std::size_t i = 0; i < others_.size();) {
    if (can_be_joined(others_[i]) && at_same_place(others_[i], current_)) {
      current_.lanes |= others_[i].lanes;
      others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }

  const auto ready = [](const Split& split) { return split.wait.kind == Wait::Kind::none; };
  auto next = others_.end();
  if (++turn_ >= turn_length) {
    // The one that has waited longest: splits that stop running go to the end.
    next = std::find_if(others_.begin(), others_.end(), ready);
    gave_way_ = true;
    turn_ = 0;
  } else if (!gave_way_) {
    for (auto split = others_.begin(); split != others_.end(); ++split) {
      if (!ready(*split) || split->pc >= current_.pc) continue;
      if (next == others_.end() || split->pc < next->pc) next = split;
    }
  }
  if (next == others_.end()) return;
  Split chosen = std::move(*next);
  others_.erase(next);
  others_.push_back(std::move(current_));
  current_ = std::move(chosen);
}

// ---- Control flow.

Flow Warp::jump(std::uint32_t target) {
  if (lanes == current_.lanes) {
    current_.pc = target;
    return Flow::next;
  }
  Split taken = current_;
  taken.lanes = lanes;
  taken.pc = target;
  current_.lanes &= ~lanes;
  others_.push_back(std::move(taken));
  return Flow::leave;
}

Flow Warp::exit(const Op& op) {
  if (Observer* const observer = execution_.observer()) observer->lanes_exit(site(op));
  current_.lanes &= ~lanes;
  live_ &= ~lanes;
  // Those who wait for lanes that have now exited need not.
  for (Split& split : others_) {
    if (split.wait.kind == Wait::Kind::lanes) split.wait.kind = Wait::Kind::none;
  }
  execution_.lanes_exited(*this, lanes);
  return Flow::leave;
}

void Warp::set_aside(const Op& op, Wait wait, std::uint32_t pc) {
  wait.op = &op;
  wait.serial = ++wait_serial_;
  Split waiting = current_;
  waiting.lanes = lanes;
  waiting.pc = pc;
  waiting.wait = wait;
  waiting.timed_out = false;
  current_.lanes &= ~lanes;
  others_.push_back(std::move(waiting));
}

bool Warp::gather(const Op& op, LaneMask needed) {
  needed &= live_;
  if ((needed & ~lanes) == 0) return true;
  set_aside(op, {.kind = Wait::Kind::lanes, .mask = needed}, current_.pc - 1);
  return false;
}

Flow Warp::wait_and_retry(const Op& op, Wait wait) {
  set_aside(op, wait, current_.pc - 1);
  return Flow::leave;
}

Flow Warp::wait_and_go_on(const Op& op, Wait wait) {
  set_aside(op, wait, current_.pc);
  return Flow::leave;
}

Flow Warp::yield(std::uint64_t nanoseconds) {
  time_ += nanoseconds;
  until_ = 0;
  return Flow::leave;
}

Flow Warp::poll(const Op& op, const void* place) {
  const Look look{&op, place};
  last_look_ = &op;
  const bool seen = std::find(looks_.begin(), looks_.end(), look) != looks_.end();
  if (!seen) looks_[next_look_++ % looks_.size()] = look;
  if (!seen || poll_epoch_ != execution_.epoch()) {
    poll_epoch_ = execution_.epoch();
    polls_ = 0;
  }
  return ++polls_ <= patient_polls ? Flow::next : yield(poll_delay);
}

void Warp::become_ready() {
  time_ = std::max(time_, execution_.now());
  execution_.make_ready(*this);
}

// ---- Calls.

Flow Warp::enter(const Op& op) {
  const Program& program = execution_.program();
  const Call& call = program.calls[op.target];
  const FunctionCode& callee = program.functions[call.function];

  std::uint32_t frame = current_.frame + call.frame_bytes;
  // ptxas would keep what a recursive call overwrites on the stack, with the return address.
  if (call.recursive) frame += (16 + callee.register_bytes / warp_size + 15) / 16 * 16;
  if (frame + callee.frame_bytes > program.frame_bytes) {
    fault(*this, op, "stack-overflow",
          "calls " + callee.source->name + " with " + std::to_string(current_.calls.size()) +
              " calls open: the stack of " + counted(program.frame_bytes, "byte") +
              " a thread is used up.");
  }
  for_each_lane(lanes, [&](int lane) {
    std::byte* const memory = local_memory(lane);
    for (const Call::Copy& copy : call.arguments) {
      std::memmove(memory + frame + copy.to, memory + current_.frame + copy.from, copy.bytes);
    }
  });

  CallFrame back{current_.pc, op.target, current_.frame, nullptr};
  if (call.recursive) {
    back.saved = std::make_shared<const std::vector<std::byte>>(
        registers_.get() + callee.first_register,
        registers_.get() + callee.first_register + callee.register_bytes);
  }
  Split inside = current_;
  inside.lanes = lanes;
  inside.pc = callee.entry;
  inside.frame = frame;
  inside.calls.push_back(std::move(back));
  current_.lanes &= ~lanes;
  if (current_.lanes != 0) others_.push_back(std::move(current_));
  current_ = std::move(inside);
  return Flow::leave;
}

Flow Warp::leave_function() {
  const Program& program = execution_.program();
  Split outside = current_;
  const CallFrame back = outside.calls.back();
  const Call& call = program.calls[back.call];
  const FunctionCode& callee = program.functions[call.function];

  for_each_lane(lanes, [&](int lane) {
    std::byte* const memory = local_memory(lane);
    for (const Call::Copy& copy : call.results) {
      std::memmove(memory + back.frame + copy.to, memory + current_.frame + copy.from, copy.bytes);
    }
  });
  if (back.saved != nullptr) restore_registers(callee, *back.saved);

  outside.calls.pop_back();
  outside.lanes = lanes;
  outside.pc = back.return_pc;
  outside.frame = back.frame;
  current_.lanes &= ~lanes;
  if (current_.lanes != 0) others_.push_back(std::move(current_));
  current_ = std::move(outside);
  return Flow::leave;
}

void Warp::restore_registers(const FunctionCode& function, const std::vector<std::byte>& saved) {
  for (std::size_t i = 0; i < function.registers.size(); ++i) {
    const Slot slot = function.registers[i];
    const std::byte* const before = saved.data() + (slot - function.first_register);
    const int bits = function.source->registers[i].bits;
    if (bits == 1) {
      LaneMask value = 0;
      std::memcpy(&value, before, sizeof value);
      set_predicate(slot, value);
      continue;
    }
    const std::size_t bytes = static_cast<std::size_t>(bits) / 8;
    for_each_lane(lanes, [&](int lane) {
      std::memcpy(registers_.get() + slot + lane * bytes, before + lane * bytes, bytes);
    });
  }
}

}  // namespace emulator

#include "tests/unit/checker_script.h"

#include <algorithm>
#include <set>

namespace script {

using emulator::Access;
using emulator::AsyncId;
using emulator::AsyncKind;
using emulator::FenceKind;
using emulator::Finding;
using emulator::LaneMask;
using emulator::Order;
using emulator::Scope;
using emulator::Site;
using emulator::Space;
using emulator::Variable;

namespace {

Variable shared_variable(const std::string& name, std::size_t size, std::size_t alignment) {
  Variable variable;
  variable.name = "_ZZ4gemmvE" + std::to_string(name.size()) + name;
  variable.space = Space::shared;
  variable.size = size;
  variable.alignment = alignment;
  return variable;
}

std::vector<std::string> names(const std::vector<Finding>& findings) {
  std::set<std::string_view> ids;
  for (const Finding& finding : findings) ids.insert(finding.rule);
  std::vector<std::string> result;
  for (const std::string_view id : ids) result.emplace_back(emulator::find_rule(id)->name);
  return result;
}

template <class Address>
std::array<Address, 32> addresses(const Who& who, Address first, std::uint32_t stride) {
  std::array<Address, 32> result{};
  Address next = first;
  for (int i = 0; i < 32; ++i) {
    result[static_cast<std::size_t>(i)] = next;
    if ((who.lanes >> i & 1) != 0 || who.lanes == all) next += stride;
  }
  return result;
}

}  // namespace

Script::Script(const Shape& shape) : shape_(shape), checker_({.strict = shape.strict}) {
  module_.files.push_back("/somewhere/kernel.cu");
  emulator::Function function;
  function.name = "gemm";
  function.is_entry = true;
  for (int i = 0; i < 256; ++i) function.registers.push_back({"%f" + std::to_string(i), 32});
  function.variables = {shared_variable("full", 32, 8), shared_variable("empty", 32, 8),
                        shared_variable("tile", 2048, 1024), shared_variable("out", 4096, 128)};
  module_.functions.push_back(std::move(function));
  at(1);

  const auto& variables = module_.functions[0].variables;
  checker_.launch_begins({&module_,
                          &module_.functions[0],
                          shape.ctas,
                          shape.ctas_per_cluster,
                          shape.warps,
                          shared_bytes,
                          {{&variables[0], full(0)},
                           {&variables[1], empty(0)},
                           {&variables[2], tile(0)},
                           {&variables[3], out}}});
  for (std::uint32_t cta = 0; cta < shape.ctas; ++cta) begin(cta);
}

Script& Script::at(int line, const std::string& opcode) {
  const std::string& text = texts_.emplace_back(opcode);
  emulator::Instruction instruction;
  instruction.text = text;
  instruction.location = {1000 + line, 0, line};
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    instruction.opcode.push_back(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
  instructions_.push_back(std::move(instruction));
  current_ = &instructions_.back();
  return *this;
}

Site Script::site(const Who& who) {
  return {current_, who.cta, who.warp, who.lanes};
}

std::uint32_t Script::target(const Who& who, int cta) const {
  return cta < 0 ? who.cta : static_cast<std::uint32_t>(cta);
}

// ---- Lifetime.

void Script::begin(std::uint32_t cta) {
  checker_.cta_begins(cta);
  live_.push_back(cta);
}

void Script::exit(const Who& who) {
  checker_.lanes_exit(site(who));
}

void Script::end_all() {
  for (const std::uint32_t cta : live_) {
    for (std::uint32_t i = 0; i < shape_.warps; ++i) exit(warp(static_cast<int>(i), cta));
    checker_.cta_ends(cta);
  }
  live_.clear();
}

std::vector<std::string> Script::end() {
  end_all();
  checker_.launch_ends();
  return names(checker_.findings());
}

std::vector<std::string> Script::end_in_deadlock() {
  checker_.launch_ends();
  Finding deadlock;
  deadlock.rule = emulator::find_rule("deadlock")->id;
  return names(checker_.findings({&deadlock, 1}));
}

std::string Script::sentence() const {
  const std::vector<Finding> findings = checker_.findings();
  return findings.size() == 1 ? findings[0].sentence
                              : std::to_string(findings.size()) + " findings";
}

// ---- Accesses.

void Script::load(const Who& who, std::uint32_t address, std::uint32_t stride, std::uint32_t bytes,
                  int cta) {
  checker_.shared_access(site(who), target(who, cta), addresses(who, address, stride).data(), bytes,
                         Access::read, Order::weak, Scope::cta);
}

void Script::store(const Who& who, std::uint32_t address, std::uint32_t stride, std::uint32_t bytes,
                   int cta) {
  checker_.shared_access(site(who), target(who, cta), addresses(who, address, stride).data(), bytes,
                         Access::write, Order::weak, Scope::cta);
}

void Script::strong(const Who& who, std::uint32_t address, Access access, Order order,
                    Scope scope) {
  checker_.shared_access(site(who), who.cta, addresses(who, address, 0).data(), 4, access, order,
                         scope);
}

void Script::load_global(const Who& who, std::uint64_t address, std::uint32_t stride,
                         std::uint32_t bytes) {
  checker_.global_access(site(who), addresses(who, address, stride).data(), bytes, Access::read,
                         Order::weak, Scope::cta);
}

void Script::store_global(const Who& who, std::uint64_t address, std::uint32_t stride,
                          std::uint32_t bytes) {
  checker_.global_access(site(who), addresses(who, address, stride).data(), bytes, Access::write,
                         Order::weak, Scope::cta);
}

void Script::strong_global(const Who& who, std::uint64_t address, Access access, Order order,
                           Scope scope) {
  checker_.global_access(site(who), addresses(who, address, 0).data(), 4, access, order, scope);
}

// ---- Orders.

void Script::sync_warp(const Who& who) {
  checker_.warp_sync(site(who));
}

void Script::arrive_barrier(const Who& who, int id) {
  checker_.barrier_arrive(site(who), id, generations_[{who.cta, id}]);
}

void Script::leave_barrier(const std::vector<Who>& who, int id) {
  std::uint64_t& generation = generations_[{who.front().cta, id}];
  for (const Who& w : who) checker_.barrier_leave(site(w), id, generation);
  ++generation;
}

void Script::barrier(const std::vector<Who>& who, int id) {
  for (const Who& w : who) arrive_barrier(w, id);
  leave_barrier(who, id);
}

void Script::sync_cta(std::uint32_t cta) {
  std::vector<Who> who;
  for (std::uint32_t i = 0; i < shape_.warps; ++i) who.push_back(warp(static_cast<int>(i), cta));
  barrier(who);
}

void Script::sync_cluster(Order arrival) {
  const auto each = [&](const auto& function) {
    for (const std::uint32_t cta : live_) {
      for (std::uint32_t i = 0; i < shape_.warps; ++i) {
        function(site(warp(static_cast<int>(i), cta)));
      }
    }
  };
  each([&](const Site& s) { checker_.cluster_arrive(s, cluster_generation_, arrival); });
  each([&](const Site& s) { checker_.cluster_leave(s, cluster_generation_, Order::acquire); });
  ++cluster_generation_;
}

void Script::fence(const Who& who, FenceKind kind, Scope scope, Order order) {
  checker_.fence(site(who), kind, order, scope);
}

// ---- mbarriers.

void Script::init(const Who& who, std::uint32_t address, std::uint32_t count) {
  barriers_[{who.cta, address}] = {count, count, 0, 0};
  checker_.mbarrier_init(site(who), who.cta, address, count);
}

void Script::inval(const Who& who, std::uint32_t address) {
  barriers_.erase({who.cta, address});
  checker_.mbarrier_inval(site(who), who.cta, address);
}

void Script::settle(const Place& place) {
  Barrier& barrier = barriers_[place];
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.count;
  checker_.mbarrier_completes(place.first, place.second, barrier.phase++);
}

void Script::expect(const Who& who, std::uint32_t address, std::int64_t bytes, int cta) {
  const Place place{target(who, cta), address};
  checker_.mbarrier_expect(site(who), place.first, address, barriers_[place].phase, bytes);
  barriers_[place].bytes += bytes;
}

void Script::arrive(const Who& who, std::uint32_t address, int cta, Scope scope, Order order) {
  const Place place{target(who, cta), address};
  Barrier& barrier = barriers_[place];
  checker_.mbarrier_arrive(site(who), place.first, address, barrier.phase, 1, order, scope);
  barrier.pending -= static_cast<std::uint32_t>(__builtin_popcount(who.lanes));
  settle(place);
}

void Script::wait(const Who& who, std::uint32_t address, Scope scope, Order order) {
  const std::uint64_t phase = barriers_[{who.cta, address}].phase;
  const emulator::Instruction* const before = current_;
  at(before->location.cuda_line, "mbarrier.try_wait.parity.shared::cta.b64");
  checker_.mbarrier_wait(site(who), address, phase - 1, phase, order, scope);
  current_ = before;
}

// ---- Asynchronous operations.

AsyncId Script::copy(const Who& who, const std::vector<Target>& targets, std::uint32_t bytes,
                     std::uint64_t source) {
  const AsyncId id = next_id_++;
  checker_.async_begin(site(who), id, AsyncKind::tma_load);
  for (const Target& to : targets) checker_.async_signals(id, to.cta, to.barrier);
  for (const Target& to : targets) {
    checker_.async_touch_shared(id, to.cta, to.address, bytes, Access::write);
  }
  checker_.async_touch_global(id, source, bytes, Access::read);
  copies_[id] = {targets, bytes};
  return id;
}

AsyncId Script::begin_copy(const Who& who, const std::vector<Target>& targets, std::uint32_t bytes,
                           std::uint64_t map) {
  const AsyncId id = copy(who, targets, bytes);
  checker_.async_uses_tensor_map(id, map);
  return id;
}

void Script::land(AsyncId id) {
  for (const Target& to : copies_[id].targets) {
    const Place place{to.cta, to.barrier};
    checker_.async_complete_on_mbarrier(id, to.cta, to.barrier, barriers_[place].phase);
    barriers_[place].bytes -= copies_[id].bytes;
    settle(place);
  }
  checker_.async_complete(id);
}

AsyncId Script::bulk_store(const Who& who, std::uint32_t address, std::uint32_t bytes,
                           std::uint64_t destination) {
  return begin_bulk_store(who, address, bytes, destination, Access::write);
}

AsyncId Script::begin_bulk_store(const Who& who, std::uint32_t address, std::uint32_t bytes,
                                 std::uint64_t destination, Access access) {
  const AsyncId id = next_id_++;
  checker_.async_begin(site(who), id, AsyncKind::tma_store);
  checker_.async_touch_shared(id, who.cta, address, bytes, Access::read);
  checker_.async_touch_global(id, destination, bytes, access);
  return id;
}

void Script::commit(const Who& who) {
  checker_.bulk_commit(site(who));
}

void Script::wait_bulk(const Who& who, int pending, bool read_only) {
  checker_.bulk_wait(site(who), pending, read_only);
}

void Script::fence_wgmma(int group, std::uint32_t cta) {
  for (int i = 0; i < 4; ++i) checker_.wgmma_fence(site(warp(4 * group + i, cta)));
}

AsyncId Script::issue_wgmma(int group, const std::vector<std::uint32_t>& where, std::uint32_t bytes,
                            std::uint32_t accumulator, std::uint32_t cta) {
  const AsyncId id = next_id_++;
  const std::array<std::uint32_t, 2> registers{accumulator, accumulator + 1};
  for (int i = 0; i < 4; ++i) {
    checker_.wgmma_issue(site(warp(4 * group + i, cta)), registers, {});
  }
  checker_.async_begin(site(warp(4 * group + 3, cta)), id, AsyncKind::wgmma);
  for (const std::uint32_t address : where) {
    checker_.async_touch_shared(id, cta, address, bytes, Access::read);
  }
  return id;
}

void Script::commit_wgmma(int group, std::uint32_t cta) {
  for (int i = 0; i < 4; ++i) checker_.wgmma_commit(site(warp(4 * group + i, cta)));
}

AsyncId Script::wgmma(int group, const std::vector<std::uint32_t>& where, std::uint32_t bytes,
                      std::uint32_t accumulator, std::uint32_t cta) {
  fence_wgmma(group, cta);
  const AsyncId id = issue_wgmma(group, where, bytes, accumulator, cta);
  commit_wgmma(group, cta);
  return id;
}

void Script::wait_wgmma(const Who& who, int pending) {
  checker_.wgmma_wait(site(who), pending);
}

void Script::wait_wgmma(int group, int pending, std::uint32_t cta) {
  for (int i = 0; i < 4; ++i) wait_wgmma(warp(4 * group + i, cta), pending);
}

void Script::touch_register(const Who& who, std::uint32_t reg, Access access) {
  checker_.wgmma_register_access(site(who), reg, access);
}

}  // namespace script

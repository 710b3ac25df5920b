// Asynchronous operations: what they read and write, and what tells that they are done.
#include <algorithm>
#include <bit>

#include "common/emulator/checker_state.h"
#include "common/emulator/lanes.h"

namespace emulator {

namespace {

/// Bulk groups of a thread that are remembered; nobody lets that many be pending.
constexpr std::size_t most_groups = 64;

bool is_bulk_store(AsyncKind kind) {
  return kind == AsyncKind::tma_store || kind == AsyncKind::bulk_store;
}

/// "reads `a` with wgmma"
const char* engine(AsyncKind kind) {
  if (kind == AsyncKind::wgmma) return "wgmma";
  return is_bulk_store(kind) ? "a bulk store" : "a copy";
}

std::uint32_t low_bits(AsyncId id) {
  return static_cast<std::uint32_t>(id);
}

}  // namespace

Operation* Checker::State::find_operation(AsyncId id) {
  if (current != nullptr && current->id == id) return current;
  const auto found = operations.find(id);
  current = found == operations.end() ? nullptr : &found->second;
  return current;
}

BulkStores& Checker::State::bulk_stores_of(WarpState& warp, int lane) {
  for (BulkStores& stores : warp.bulk_stores) {
    if (stores.lane == lane) return stores;
  }
  BulkStores stores;
  stores.lane = lane;
  stores.fact = new_fact(*warp.cta->cluster);
  new_fact(*warp.cta->cluster);
  warp.bulk_stores.push_back(std::move(stores));
  return warp.bulk_stores.back();
}

// ---- Begin and end.

void Checker::async_begin(const Site& site, AsyncId id, AsyncKind kind) {
  State& state = *state_;
  WarpState& warp = state.warp_of(site);
  Operation& operation = kind == AsyncKind::wgmma ? state.wgmma : state.operations[id];
  state.current = &operation;
  operation.id = id;
  operation.kind = kind;
  operation.site = site;
  operation.cluster = warp.clocks.cluster();
  if (kind == AsyncKind::wgmma) {
    state.begin_wgmma(warp, operation);
  } else if (is_bulk_store(kind)) {
    BulkStores& stores = state.bulk_stores_of(warp, first_lane(site.lanes));
    stores.last = site;
    operation.who = stores.fact;
    operation.number = ++stores.issued;
  } else {
    operation.issuer.clear(operation.cluster);
    warp.clocks.release(site.lanes, operation.issuer);
  }
}

void Checker::State::begin_wgmma(WarpState& warp, Operation& operation) {
  const std::uint32_t group_index = operation.site.warp / 4;
  WarpgroupState& group = warp.cta->warpgroups[group_index];
  operation.number = ++group.started;
  // A stage is refilled long before so many wgmmas have passed.
  constexpr std::size_t most_reads = 256;
  WgmmaReads reads;
  if (group.reads.size() == most_reads) {
    reads = std::move(group.reads.front());
    group.reads.pop_front();
    reads.ranges.clear();
    reads.boxes.clear();
  }
  reads.number = operation.number;
  reads.instruction = operation.site.instruction;
  group.reads.push_back(std::move(reads));
  wgmma_witnesses.clear();
  if (operation.number < group.first || operation.number - group.first >= group.issued.size()) {
    return;
  }
  const IssuedWgmma& issued = group.issued[operation.number - group.first];
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t member = warp.cta->rank * info.warps_per_cta + 4 * group_index + i;
    wgmma_witnesses.emplace_back(member, all_lanes, issued.time[i]);
    if (issued.known[i] != nullptr) wgmma_witnesses.back().add(*issued.known[i]);
  }
}

void Checker::async_complete(AsyncId id) {
  state_->current = nullptr;
  state_->operations.erase(id);
}

void Checker::bulk_commit(const Site& site) {
  BulkStores& stores = state_->bulk_stores_of(state_->warp_of(site), first_lane(site.lanes));
  if (stores.groups.size() == most_groups) stores.groups.erase(stores.groups.begin());
  stores.groups.push_back(stores.issued);
}

void Checker::bulk_wait(const Site& site, int pending, bool read_only) {
  WarpState& warp = state_->warp_of(site);
  const BulkStores& stores = state_->bulk_stores_of(warp, first_lane(site.lanes));
  const auto allowed = static_cast<std::size_t>(pending);
  if (stores.groups.size() <= allowed) return;
  const std::uint32_t done = stores.groups[stores.groups.size() - 1 - allowed];
  warp.clocks.learn(site.lanes, stores.fact, done);
  if (!read_only) warp.clocks.learn(site.lanes, stores.fact + 1, done);
}

// ---- Memory.

void Checker::async_touch_shared(AsyncId id, std::uint32_t index, std::uint32_t address,
                                 std::uint32_t bytes, Access access) {
  State& state = *state_;
  Operation* const operation = state.find_operation(id);
  CtaState* const cta = state.find_cta(index);
  if (operation == nullptr || cta == nullptr) return;
  if (operation->kind == AsyncKind::wgmma) {
    state.read_by_wgmma(*operation, *cta, address, bytes);
    return;
  }
  const bool writes = access != Access::read;
  if (!is_bulk_store(operation->kind)) operation->ranges.push_back({index, address, bytes, writes});
  Stamp stamp = state.async_stamp(*operation, access);
  if (writes) {
    state.check_wgmmas(*operation, *cta, address, bytes);
    if (address % line_bytes == 0 && bytes % line_bytes == 0) {
      state.write_lines(*operation, *cta, address, bytes, stamp);
      return;
    }
  }
  for_each_granule(address, bytes, [&](std::uint64_t start, ByteMask mask) {
    Granule* const granule = cta->shadow.granule(static_cast<std::uint32_t>(start));
    if (granule == nullptr) return;
    stamp.bytes = mask;
    if (writes) {
      state.write_by_async(*operation, cta, start, stamp, *granule);
    } else {
      state.read_by_async(*operation, cta, start, stamp, *granule);
    }
  });
}

void Checker::State::check_wgmmas(const Operation& operation, const CtaState& cta,
                                  std::uint32_t address, std::uint32_t bytes) {
  check_wgmma_reads(
      issuer_of(operation), cta, address, bytes,
      [&](std::string_view rule, const WgmmaReads& wgmma, std::uint32_t) {
        log.add(rule, operation.site, log.shared(address), [&] {
          return description(operation, &cta, address, "overwrites") + ", which the wgmma at " +
                 log.place(*wgmma.instruction) +
                 (rule == "one-warp-waited"
                      ? " reads: not all four warps of the warpgroup are known to have waited for "
                        "it."
                      : " may still be reading: no arrival that comes after its wgmma.wait_group "
                        "has been waited for.");
        });
      });
}

void Checker::async_touch_global(AsyncId id, std::uint64_t address, std::uint64_t bytes,
                                 Access access) {
  State& state = *state_;
  Operation* const operation = state.find_operation(id);
  if (operation == nullptr || bytes == 0) return;
  Stamp stamp = state.async_stamp(*operation, access);
  if (access != Access::read) {
    for_each_granule(address, bytes, [&](std::uint64_t start, ByteMask mask) {
      stamp.bytes = mask;
      state.write_by_async(*operation, nullptr, start, stamp, state.global.make(start));
    });
    return;
  }
  if (!state.global.may_hold(address, address ^ (address + bytes - 1))) return;
  for_each_granule(address, bytes, [&](std::uint64_t start, ByteMask mask) {
    Granule* const granule = state.global.find(start);
    if (granule == nullptr) return;
    stamp.bytes = mask;
    state.read_by_async(*operation, nullptr, start, stamp, *granule);
  });
}

Stamp Checker::State::async_stamp(const Operation& operation, Access access) const {
  Stamp stamp;
  stamp.instruction = operation.site.instruction;
  stamp.cluster = operation.cluster;
  if (access == Access::atomic) {
    stamp.strength = 1 + static_cast<std::uint8_t>(Scope::system);
    stamp.atomic = true;
  }
  stamp.who = operation.who;
  stamp.time = operation.number;
  if (is_bulk_store(operation.kind)) {
    stamp.by = By::bulk_store;
  } else {
    stamp.by = By::copy_in_flight;
    stamp.time = low_bits(operation.id);
  }
  return stamp;
}

Witness Checker::State::issuer_of(const Operation& operation) const {
  return warp_of(operation.site).clocks.witness(first_lane(operation.site.lanes));
}

void Checker::State::check_written(const Operation& operation, const CtaState& cta,
                                   std::uint64_t address, ByteMask unwritten) {
  // A bulk store of a box may leave out what lies outside its tensor.
  const bool is_store = is_bulk_store(operation.kind);
  if (unwritten == 0 || (is_store && !options.strict)) return;
  const auto offset = static_cast<std::uint32_t>(address + std::countr_zero(unwritten));
  log.add(is_store ? "store-of-unwritten" : "unwritten-read", operation.site, log.shared(offset),
          [&] {
            return "reads " + object(cta, offset, operation.site.cta) + " with " +
                   engine(operation.kind) + ", where nothing has been written.";
          });
}

void Checker::State::read_by_async(Operation& operation, const CtaState* cta, std::uint64_t address,
                                   const Stamp& stamp, Granule& granule) {
  if (cta != nullptr) {
    check_written(operation, *cta, address,
                  static_cast<ByteMask>(stamp.bytes & ~granule.written()));
  }
  const Known proxy = cta != nullptr ? Known::proxy_shared : Known::proxy_global;
  granule.for_each_write(stamp.bytes, [&](const Stamp& earlier) {
    if (operation.seen_writes.contains(earlier)) return;
    const Witness witness = issuer_of(operation);
    const std::string_view rule = rule_of_read(witness, cta != nullptr, stamp.bytes, earlier);
    if (!rule.empty()) {
      report_read(operation, operation.site, witness, cta, address, stamp.bytes, earlier, rule);
    } else if (is_all_ordered(witness, earlier, Known::data) &&
               is_all_ordered(witness, earlier, proxy)) {
      operation.seen_writes.add(earlier);
    }
  });
  if (cta != nullptr) granule.record_read(stamp);
}

void Checker::State::read_by_wgmma(const Operation& operation, CtaState& cta, std::uint32_t address,
                                   std::uint32_t bytes) {
  WarpgroupState& group = cta.warpgroups[operation.site.warp / 4];
  note_wgmma_read(group, address, bytes);
  if (const Region* const region = cta.shadow.region(address, bytes)) {
    if (group.seen_writes.contains(region->write)) return;
    return check_wgmma_read(operation, cta, address, all_bytes, region->write);
  }
  for_each_line(address, bytes, [&](std::uint32_t start, std::uint32_t part) {
    Line* const line = cta.shadow.line(start);
    if (line != nullptr) read_line_by_wgmma(operation, cta, start, part, *line);
  });
}

void Checker::State::read_line_by_wgmma(const Operation& operation, CtaState& cta,
                                        std::uint32_t address, std::uint32_t bytes, Line& line) {
  if (line.is_whole()) {
    if (line.write.bytes == 0) return check_written(operation, cta, address, all_bytes);
    return check_wgmma_read(operation, cta, address, all_bytes, line.write);
  }
  const KnownAccesses& seen = cta.warpgroups[operation.site.warp / 4].seen_writes;
  for_each_granule(address, bytes, [&](std::uint64_t start, ByteMask mask) {
    Granule& granule = (*line.parts)[start % line_bytes / granule_bytes];
    if (granule.is_plain(seen)) return;
    check_written(operation, cta, start, static_cast<ByteMask>(mask & ~granule.written()));
    granule.for_each_write(mask, [&](const Stamp& earlier) {
      check_wgmma_read(operation, cta, static_cast<std::uint32_t>(start), mask, earlier);
    });
  });
}

void Checker::State::check_wgmma_read(const Operation& operation, CtaState& cta,
                                      std::uint32_t address, ByteMask bytes, const Stamp& earlier) {
  KnownAccesses& seen = cta.warpgroups[operation.site.warp / 4].seen_writes;
  if (seen.contains(earlier)) return;
  bool all_see = true;
  for (std::size_t i = 0; i < wgmma_witnesses.size(); ++i) {
    const Witness& witness = wgmma_witnesses[i];
    const std::string_view rule = rule_of_read(witness, true, bytes, earlier);
    if (!rule.empty()) {
      Site site = operation.site;
      site.warp = static_cast<std::uint16_t>(site.warp / 4 * 4 + i);
      report_read(operation, site, witness, &cta, address, bytes, earlier, rule);
    }
    all_see = all_see && rule.empty() && is_all_ordered(witness, earlier, Known::data) &&
              is_all_ordered(witness, earlier, Known::proxy_shared);
  }
  if (all_see) seen.add(earlier);
}

std::string Checker::State::description(const Operation& operation, const CtaState* cta,
                                        std::uint32_t offset, std::string_view verb) const {
  return std::string(verb) + " " +
         (cta != nullptr ? object(*cta, offset, operation.site.cta) : "global memory") + " with " +
         engine(operation.kind);
}

std::string_view Checker::State::rule_of_read(const Witness& witness, bool shared, ByteMask bytes,
                                              const Stamp& earlier) const {
  const bool seen = is_ordered(witness, earlier, bytes, Known::data);
  switch (earlier.by) {
    case By::thread:
      break;
    case By::bulk_store:
      return seen ? "" : "store-not-complete";
    default:
      return seen ? "" : "read-before-landed";
  }
  if (seen) {
    const Known proxy = shared ? Known::proxy_shared : Known::proxy_global;
    return is_ordered(witness, earlier, bytes, proxy) ? "" : "missing-proxy-fence";
  }
  if (is_ordered(witness, earlier, bytes, Known::order)) {
    return shared ? "insufficient-scope" : "insufficient-flag";
  }
  return shared ? "shared-race" : "global-race";
}

void Checker::State::report_read(const Operation& operation, const Site& site,
                                 const Witness& witness, const CtaState* cta, std::uint64_t address,
                                 ByteMask bytes, const Stamp& earlier, std::string_view rule) {
  const auto offset = static_cast<std::uint32_t>(address + std::countr_zero(bytes));
  log.add(rule, site, cta != nullptr ? log.shared(offset) : Subject{}, [&] {
    const std::string what = description(operation, cta, offset, "reads") + ", ";
    if (rule == "store-not-complete") {
      return what + "where the bulk store at " + log.place(*earlier.instruction) +
             " may not have written yet: no cp.async.bulk.wait_group (without .read) of the "
             "thread that issued it comes before.";
    }
    if (rule == "read-before-landed") {
      const bool knows = is_ordered(witness, earlier, bytes, Known::order);
      const std::string phase = landing_phase(earlier, *cta);
      const std::string warp = "warp " + std::to_string(site.warp);
      return what + "where " + copy_text(earlier, knows) + ": " +
             (knows ? warp + " " + known_by_relaxed(phase)
                    : "no thread of " + warp + " has waited for " + phase) +
             ".";
    }
    const std::string writer = what + "which " + party(earlier, bytes) + " writes at " +
                               log.place(*earlier.instruction) + ": ";
    if (rule == "missing-proxy-fence") {
      return writer +
             "the order is right, but no fence.proxy.async between the two shows the write to the "
             "async proxy.";
    }
    const bool weakly = rule == "insufficient-scope" || rule == "insufficient-flag";
    return writer + (weakly ? "what orders the two is too weak for the write to be seen."
                            : "nothing orders the two.");
  });
}

void Checker::State::write_lines(Operation& operation, CtaState& cta, std::uint32_t address,
                                 std::uint32_t bytes, const Stamp& stamp) {
  Region* const region = cta.shadow.region(address, bytes);
  if (region != nullptr && region->begin == address && region->end == address + bytes) {
    check_write(operation, &cta, address, all_bytes, region->write, false);
    region->write = stamp;
    region->write.bytes = all_bytes;
    return;
  }
  for_each_line(address, bytes, [&](std::uint32_t start, std::uint32_t) {
    if (Line* const line = cta.shadow.line(start)) write_line(operation, cta, start, stamp, *line);
  });
  cta.shadow.cover(address, bytes, stamp);
}

void Checker::State::write_line(Operation& operation, CtaState& cta, std::uint32_t address,
                                const Stamp& stamp, Line& line) {
  if (line.is_whole()) {
    if (line.write.bytes != 0) {
      check_write(operation, &cta, address, all_bytes, line.write, false);
    }
  } else {
    Stamp part = stamp;
    part.bytes = all_bytes;
    for (std::uint32_t i = 0; i < line_bytes; i += granule_bytes) {
      write_by_async(operation, &cta, address + i, part, *cta.shadow.granule(address + i));
    }
  }
  cta.shadow.write(line, stamp);
}

void Checker::State::write_by_async(Operation& operation, const CtaState* cta,
                                    std::uint64_t address, const Stamp& stamp, Granule& granule) {
  // Reductions may meet in any order, like atomics.
  const bool reduces = stamp.is_strong();
  granule.for_each_write(stamp.bytes, [&](const Stamp& earlier) {
    if (reduces && earlier.is_strong()) return;
    check_write(operation, cta, address, stamp.bytes, earlier, false);
  });
  granule.for_each_read(stamp.bytes, [&](const Stamp& earlier) {
    check_write(operation, cta, address, stamp.bytes, earlier, true);
  });
  granule.record_write(stamp);
}

void Checker::State::check_write(Operation& operation, const CtaState* cta, std::uint64_t address,
                                 ByteMask bytes, const Stamp& earlier, bool earlier_reads) {
  KnownAccesses& seen = earlier_reads ? operation.seen_reads : operation.seen_writes;
  if (seen.contains(earlier)) return;
  const Witness witness = issuer_of(operation);
  const std::string_view rule =
      rule_of_overwrite(witness, cta != nullptr, bytes, earlier, earlier_reads);
  if (!rule.empty()) {
    report_overwrite(operation, cta, address, bytes, earlier, earlier_reads, rule);
  } else if (is_all_ordered(witness, earlier, Known::data) &&
             (earlier.by != By::thread || !options.strict)) {
    seen.add(earlier);
  }
}

std::string_view Checker::State::rule_of_overwrite(const Witness& witness, bool shared,
                                                   ByteMask bytes, const Stamp& earlier,
                                                   bool earlier_reads) const {
  // A bulk store that wrote must have written, one that reads must have read.
  const bool after_store_writes = earlier.by == By::bulk_store && !earlier_reads;
  const bool ordered =
      is_ordered(witness, earlier, bytes, after_store_writes ? Known::data : Known::order);
  switch (earlier.by) {
    case By::thread:
      if (!ordered) return shared ? "shared-race" : "global-race";
      if (!options.strict || !shared || is_ordered(witness, earlier, bytes, Known::proxy_shared)) {
        return "";
      }
      return "overwrite-without-proxy-fence";
    case By::copy_in_flight:
    case By::copy_landed:
      if (ordered || !shared) return "";
      return earlier_reads ? "overwritten-while-store-reads" : "write-while-landing";
    case By::bulk_store:
      break;
  }
  if (ordered) return "";
  return earlier_reads ? "overwritten-while-store-reads" : "store-not-complete";
}

void Checker::State::report_overwrite(const Operation& operation, const CtaState* cta,
                                      std::uint64_t address, ByteMask bytes, const Stamp& earlier,
                                      bool earlier_reads, std::string_view rule) {
  const auto offset = static_cast<std::uint32_t>(address + std::countr_zero(bytes));
  log.add(rule, operation.site, cta != nullptr ? log.shared(offset) : Subject{}, [&] {
    const std::string what = description(operation, cta, offset, "overwrites") + ", ";
    const std::string place = log.place(*earlier.instruction);
    if (rule == "write-while-landing") {
      const std::string phase = landing_phase(earlier, *cta);
      return what + "where " + copy_text(earlier) + ": it is not ordered after " + phase + ".";
    }
    if (rule == "overwritten-while-store-reads") {
      if (earlier.by != By::bulk_store) {
        return what + "which the copy at " + place + " may still be reading.";
      }
      return what + "which the bulk store at " + place +
             " may still be reading: no cp.async.bulk.wait_group.read of the thread that issued "
             "it comes before.";
    }
    if (rule == "store-not-complete") {
      return what + "where the bulk store at " + place +
             " may not have written yet: no cp.async.bulk.wait_group (without .read) of the "
             "thread that issued it comes before.";
    }
    return what + "which " + party(earlier, bytes) +
           (earlier_reads ? " reads at " : " writes at ") + place +
           (rule == "overwrite-without-proxy-fence"
                ? ": no fence.proxy.async between the two orders them across the proxies."
                : ": nothing orders the two.");
  });
}

void Checker::async_uses_tensor_map(AsyncId id, std::uint64_t address) {
  State& state = *state_;
  Operation* const operation = state.find_operation(id);
  if (operation == nullptr) return;
  operation->maps.push_back(address);
  const Witness witness = state.issuer_of(*operation);
  for_each_granule(address, tensor_map_size, [&](std::uint64_t start, ByteMask mask) {
    Granule* const granule = state.global.find(start);
    if (granule == nullptr) return;
    granule->for_each_write(mask, [&](const Stamp& earlier) {
      const auto knows = [&](Known kind) { return state.is_ordered(witness, earlier, mask, kind); };
      const bool ordered = knows(Known::data);
      const bool released = knows(Known::released_map);
      if (earlier.by != By::thread || (ordered && released && knows(Known::tensor_map))) return;
      state.log.add(ordered ? "tensor-map-fence" : "global-race", operation->site, {}, [&] {
        return "uses a tensor map that " + state.party(earlier, mask) + " writes at " +
               state.log.place(*earlier.instruction) +
               (!ordered ? ": nothing orders the two."
                         : std::string(": no ") +
                               (released ? "fence.proxy.tensormap::generic.acquire of its CTA"
                                         : "tensormap.cp_fenceproxy and no fence.proxy.tensormap::"
                                           "generic.release") +
                               " between the two shows the change to the tensor-map proxy.");
      });
    });
  });
  auto& users = state.tensor_maps[address];
  constexpr std::size_t most_users = 64;
  if (users.size() == most_users) users.erase(users.begin());
  Stamp stamp = state.async_stamp(*operation, Access::read);
  stamp.bytes = all_bytes;
  users.push_back(stamp);
}

// ---- Landing.

void Checker::async_signals(AsyncId id, std::uint32_t cta, std::uint32_t address) {
  Operation* const operation = state_->find_operation(id);
  const MbarrierState* const barrier = state_->find_barrier(cta, address);
  if (operation == nullptr || barrier == nullptr) return;
  operation->signals.push_back({cta, address, barrier->fact, barrier->phase});
}

void Checker::async_complete_on_mbarrier(AsyncId id, std::uint32_t index, std::uint32_t address,
                                         std::uint64_t phase) {
  State& state = *state_;
  Operation* const operation = state.find_operation(id);
  MbarrierState* const barrier = state.find_barrier(index, address);
  if (operation == nullptr || barrier == nullptr) return;
  state.check_signal(*operation, *state.ctas[index], *barrier);
  state.check_same_phase(*operation, *state.ctas[index], *barrier);
  barrier->bytes -= operation->bytes_for(index);
  barrier->near_so_far.join(operation->issuer, Transfer::order());
  barrier->phases_with_copies =
      std::max(barrier->phases_with_copies, static_cast<std::uint32_t>(phase + 1));
  barrier->last_copy = operation->site;
  state.land(*operation, *barrier, index, phase);
}

void Checker::State::check_signal(const Operation& operation, const CtaState& cta,
                                  const MbarrierState& barrier) {
  Witness issuer(0, 0, 0);
  issuer.add(operation.issuer);
  const std::uint32_t cluster = cta.cluster->number;
  const auto knows = [&](Known kind, const Moment& moment) {
    return issuer.knows(kind, cluster, moment.warp, moment.lanes, moment.time);
  };
  if (barrier.init_fence && knows(Known::order, *barrier.init_fence)) return;
  if (knows(Known::data, barrier.init) && knows(Known::proxy_shared, barrier.init)) return;
  const bool ordered = knows(Known::order, barrier.init);
  log.add(ordered ? "missing-init-fence" : "barrier-not-initialized", operation.site,
          log.shared(barrier.address), [&] {
            return "issues a copy that reports to " +
                   object(cta, barrier.address, operation.site.cta) + ", which " +
                   party(cluster, barrier.init.warp, barrier.init.lanes) + " initializes at " +
                   log.place(*barrier.init_site.instruction) +
                   (ordered ? ": that thread executes no fence.mbarrier_init (or "
                              "fence.proxy.async) behind the mbarrier.init, so that the async "
                              "proxy may not see the barrier."
                            : ": nothing orders the two.");
          });
}

void Checker::State::check_same_phase(const Operation& operation, const CtaState& cta,
                                      const MbarrierState& barrier) {
  const auto signal = std::find_if(operation.signals.begin(), operation.signals.end(),
                                   [&](const Operation::Signal& own) {
                                     return own.cta == cta.index && own.fact == barrier.fact;
                                   });
  if (signal == operation.signals.end() || signal->phase == barrier.phase) return;
  if (operation.bytes_for(cta.index) == 0) return;
  const Site& site = barrier.last_expect ? *barrier.last_expect : operation.site;
  log.add("unbalanced-expect-tx", site, log.shared(barrier.address), [&] {
    return "announces fewer bytes for " + object(cta, barrier.address, site.cta) +
           " than come: phase " + std::to_string(signal->phase) +
           " completes without those of the copy at " + log.place(*operation.site.instruction) +
           ", which was issued in it and lands in phase " + std::to_string(barrier.phase) + ".";
  });
}

void Checker::State::land(const Operation& operation, const MbarrierState& barrier,
                          std::uint32_t index, std::uint64_t phase) {
  const auto settle = [&](Stamp& stamp) {
    if (stamp.by != By::copy_in_flight || stamp.time != low_bits(operation.id)) return;
    stamp.by = By::copy_landed;
    stamp.who = barrier.fact;
    stamp.time = static_cast<std::uint32_t>(phase + 1);
  };
  for (const Operation::Range& range : operation.ranges) {
    CtaState* const cta = find_cta(range.cta);
    if (cta == nullptr || (range.writes && range.cta != index)) continue;
    if (Region* const region = cta->shadow.region(range.address, range.bytes)) {
      settle(region->write);
      continue;
    }
    for_each_line(range.address, range.bytes, [&](std::uint32_t start, std::uint32_t part) {
      Line* const line = cta->shadow.line(start);
      if (line == nullptr) return;
      if (line->is_whole()) return settle(line->write);
      for_each_granule(start, part, [&](std::uint64_t first, ByteMask mask) {
        Granule& granule = *cta->shadow.granule(static_cast<std::uint32_t>(first));
        granule.for_each_write(mask, settle);
        granule.for_each_read(mask, settle);
      });
    });
  }
  for (const std::uint64_t map : operation.maps) {
    auto& users = tensor_maps[map];
    // The last of those that report to one barrier stands for the earlier ones.
    std::erase_if(users, [&](const Stamp& stamp) {
      return stamp.by == By::copy_landed && stamp.who == barrier.fact &&
             stamp.cluster == operation.cluster;
    });
    std::for_each(users.begin(), users.end(), settle);
  }
}

}  // namespace emulator

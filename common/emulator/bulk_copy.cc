#include "common/emulator/bulk_copy.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/emulator/arithmetic.h"
#include "common/emulator/cta.h"
#include "common/emulator/execution.h"
#include "common/emulator/fault.h"
#include "common/emulator/mbarrier.h"
#include "common/emulator/memory.h"
#include "common/emulator/memory_map.h"
#include "common/emulator/tensor_box.h"
#include "common/emulator/warp.h"

namespace emulator {

namespace {

/// Typical latencies, model nanoseconds, and bytes moved in one.
constexpr std::uint64_t load_latency = 600;
constexpr std::uint64_t store_read_latency = 200;
constexpr std::uint64_t store_write_latency = 500;
constexpr std::uint64_t bytes_per_ns = 32;

constexpr std::uint32_t bulk_alignment = 16;
constexpr std::uint64_t map_alignment = 64;

/// Contiguous bytes in global memory.
struct GlobalRange {
  std::uint64_t address;
  std::uint64_t bytes;
};

/// A copy from its issue to its end.
struct Copy {
  Execution& execution;
  Warp& warp;
  const BulkCopy& form;
  const Op& op;
  int lane;
  Site issuer;
  AsyncId id = 0;
  Cluster* cluster = nullptr;
  TensorMapRecord map{};           ///< with form.rank != 0
  std::vector<BoxPiece> pieces{};  ///< shared addresses relative to the box
  std::uint32_t bytes = 0;         ///< that are copied, overhang included
  std::uint32_t extent = 0;        ///< of shared memory, from the start of the box to its last byte
  std::uint32_t box_address = 0;   ///< shared address that the pieces were made for
  std::uint64_t global = 0;        ///< without a map
  std::vector<SharedPlace> destinations{};     ///< of loads, one a CTA
  std::vector<SharedPlace> barriers{};         ///< of loads, beside the destinations
  SharedPlace source{};                        ///< of stores and copies between CTAs
  std::vector<std::byte> data{};               ///< what a store has read
  std::shared_ptr<BulkGroups::Group> group{};  ///< of stores
};
using CopyPointer = std::shared_ptr<Copy>;

std::uint64_t lane_address(const Warp& warp, const AddressOperand& operand, int lane) {
  if (operand.base == no_slot) return static_cast<std::uint64_t>(operand.offset);
  if (operand.wide) {
    return warp.row<u64>(operand.base)[lane] + static_cast<std::uint64_t>(operand.offset);
  }
  return warp.row<u32>(operand.base)[lane] + static_cast<std::uint32_t>(operand.offset);
}

[[noreturn]] void fail(const Copy& copy, std::string_view rule, std::string sentence) {
  fault(copy.warp, copy.op, lane_bit(copy.lane), rule, std::move(sentence));
}

/// Shared addresses are 32 bits wide, also in 64-bit registers.
std::uint32_t shared_operand(const Copy& copy, const AddressOperand& operand, const char* what) {
  const std::uint64_t address = lane_address(copy.warp, operand, copy.lane);
  if (address > UINT32_MAX) {
    return shared_from_generic(copy.warp, copy.op, copy.lane, address, what);
  }
  return static_cast<std::uint32_t>(address);
}

// ---- What is copied.

void read_map(Copy& copy) {
  const std::uint64_t address = lane_address(copy.warp, copy.form.global, copy.lane);
  const std::byte* const bytes =
      find_global(copy.warp, copy.op, copy.lane, address, tensor_map_bytes, map_alignment,
                  "the tensor map", false);
  const std::span<const std::byte, tensor_map_bytes> record(bytes, tensor_map_bytes);
  if (const auto error = tensor_map_error(record)) {
    fail(copy, "bad-tensor-map", "uses the tensor map at " + hex(address) + ": " + *error);
  }
  copy.map = decode_tensor_map(record);
  if (copy.map.rank != copy.form.rank) {
    fail(copy, "bad-tensor-map",
         "has " + std::to_string(copy.form.rank) +
             " coordinates, but its tensor map describes a "
             "tensor of " +
             std::to_string(copy.map.rank) + " dimensions.");
  }
  copy.bytes = static_cast<std::uint32_t>(box_bytes(copy.map));
}

/// What the ISA does not say and an H200 answers with an illegal instruction (tests/golden).
void check_coordinate(const Copy& copy, int dimension, std::int32_t coordinate) {
  const auto element = static_cast<std::int32_t>(element_bytes(copy.map.type));
  const std::int64_t byte = std::int64_t{coordinate} * element;
  if (dimension == 0 && byte % box_start_alignment != 0) {
    fail(copy, "misaligned",
         "has a box that starts at byte " + std::to_string(byte) + " of a row (coordinate " +
             std::to_string(coordinate) +
             " of dimension 0); it must be a multiple of 16. The tensor may end anywhere, a box "
             "may not begin anywhere.");
  }
  const bool loads = copy.form.kind == AsyncKind::tma_load;
  if (!loads && coordinate < 0) {
    fail(copy, "out-of-bounds",
         "writes a box that begins before the tensor: coordinate " + std::to_string(coordinate) +
             " of dimension " + std::to_string(dimension) +
             ". Loads are clipped on every side, stores and reductions only at the far end.");
  }
}

void make_pieces(Copy& copy, std::uint32_t shared) {
  BoxCoordinates coordinates{};
  for (int i = 0; i < copy.form.rank; ++i) {
    coordinates[i] = copy.warp.row<s32>(copy.form.coordinates[i])[copy.lane];
    check_coordinate(copy, i, coordinates[i]);
  }
  copy.box_address = shared;
  const bool loads = copy.form.kind == AsyncKind::tma_load;
  box_pieces(copy.map, coordinates, shared, loads ? Clip::elements : Clip::chunks, copy.pieces);
  copy.extent = copy.bytes;
  for (const BoxPiece& piece : copy.pieces) {
    copy.extent = std::max(copy.extent, piece.shared + piece.bytes - shared);
  }
}

/// Contiguous bytes of shared memory, from the start of the box on.
struct SharedRange {
  std::uint32_t offset;
  std::uint32_t bytes;
};

/// What the copy touches in shared memory. A box whose rows are shorter than its swizzle has gaps.
std::vector<SharedRange> shared_ranges(const Copy& copy) {
  if (copy.form.rank == 0 || box_row_bytes(copy.map) == box_row_pitch(copy.map)) {
    return {{0, copy.bytes}};
  }
  std::vector<SharedRange> ranges;
  for (const BoxPiece& piece : copy.pieces) {
    ranges.push_back({piece.shared - copy.box_address, piece.bytes});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const SharedRange& a, const SharedRange& b) { return a.offset < b.offset; });
  std::size_t last = 0;
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[last].offset + ranges[last].bytes == ranges[i].offset) {
      ranges[last].bytes += ranges[i].bytes;
    } else {
      ranges[++last] = ranges[i];
    }
  }
  ranges.resize(last + 1);
  return ranges;
}

/// A box with gaps between its rows reaches further than its size.
void check_extent(const Copy& copy, const SharedPlace& place) {
  if (place.cta->shared.size() - place.offset >= copy.extent) return;
  fail(copy, "out-of-bounds",
       "has a swizzled box of " + counted(copy.bytes, "byte") + " that spreads over " +
           std::to_string(copy.extent) + ", beyond the shared memory of its CTA.");
}

void report_shared(const Copy& copy, const SharedPlace& place, Access access) {
  for (const SharedRange& range : shared_ranges(copy)) {
    copy.execution.observer()->async_touch_shared(copy.id, place.cta->index,
                                                  place.offset + range.offset, range.bytes, access);
  }
}

void read_size(Copy& copy) {
  copy.bytes = copy.warp.row<u32>(copy.form.size)[copy.lane];
  if (copy.bytes % bulk_alignment != 0) {
    fail(copy, "misaligned",
         "copies " + std::to_string(copy.bytes) + " bytes; the size must be a multiple of 16.");
  }
  copy.extent = copy.bytes;
}

/// What the copy touches in global memory, neighbours merged.
std::vector<GlobalRange> global_ranges(const Copy& copy) {
  if (copy.form.from_shared) return {};
  if (copy.form.rank == 0) return {{copy.global, copy.bytes}};
  std::vector<GlobalRange> ranges;
  for (const BoxPiece& piece : copy.pieces) {
    if (!piece.in_bounds) continue;
    if (!ranges.empty() && ranges.back().address + ranges.back().bytes == piece.global) {
      ranges.back().bytes += piece.bytes;
    } else {
      ranges.push_back({piece.global, piece.bytes});
    }
  }
  return ranges;
}

void check_global(const Copy& copy, const std::vector<GlobalRange>& ranges, bool writes) {
  for (const GlobalRange& range : ranges) {
    find_global(copy.warp, copy.op, copy.lane, range.address, range.bytes,
                copy.form.rank == 0 ? bulk_alignment : 1,
                writes ? "the destination of the copy" : "the source of the copy", writes);
  }
}

// ---- Loads: to shared memory, counted by mbarriers.

void find_destinations(Copy& copy) {
  const std::uint32_t destination = shared_operand(copy, copy.form.shared, "the destination");
  const std::uint32_t barrier = shared_operand(copy, copy.form.barrier, "the mbarrier");
  const std::uint32_t alignment = copy.form.rank == 0 ? bulk_alignment : box_alignment;
  const auto add = [&](std::uint32_t destination_address, std::uint32_t barrier_address) {
    copy.destinations.push_back(find_shared(copy.warp, copy.op, copy.lane, destination_address,
                                            copy.bytes, alignment, "the destination", false));
    const SharedPlace place =
        find_shared(copy.warp, copy.op, copy.lane, barrier_address, 8, 8, "the mbarrier", false);
    if (place.cta->mbarriers.find(place.offset) == nullptr) {
      fail(copy, "barrier-not-initialized",
           "reports to " + shared_object(copy.execution.program(), place.offset) + " of CTA " +
               std::to_string(place.cta->index) + ", but no mbarrier.init has run on it.");
    }
    copy.barriers.push_back(place);
  };
  if (copy.form.cta_mask == no_slot) return add(destination, barrier);

  // Multicast: the same offsets in every CTA of the mask.
  const u16 mask = copy.warp.row<u16>(copy.form.cta_mask)[copy.lane];
  const auto ctas = static_cast<std::uint32_t>(copy.cluster->ctas.size());
  if (mask == 0 || mask >> ctas != 0) {
    fail(copy, "out-of-bounds",
         "has the CTA mask " + hex(mask) + "; its cluster has " + counted(ctas, "CTA") + ".");
  }
  for (std::uint32_t rank = 0; rank < ctas; ++rank) {
    if ((mask >> rank & 1) == 0) continue;
    add(shared_address(rank, offset_of(destination)), shared_address(rank, offset_of(barrier)));
  }
}

void write_boxes(const Copy& copy) {
  for (const SharedPlace& destination : copy.destinations) {
    for (const BoxPiece& piece : copy.pieces) {
      std::byte* const to = destination.pointer() + (piece.shared - copy.box_address);
      if (piece.in_bounds) {
        load_elements(copy.map.type, to, reinterpret_cast<const std::byte*>(piece.global),
                      piece.bytes);
      } else {
        fill_bytes(copy.map.fill, to, piece.bytes);
      }
    }
  }
}

void write_bytes(const Copy& copy) {
  const std::byte* const from = copy.form.from_shared
                                    ? copy.source.pointer()
                                    : reinterpret_cast<const std::byte*>(copy.global);
  for (const SharedPlace& destination : copy.destinations) {
    if (copy.form.reduces) {
      reduce_elements(copy.form.operation, copy.form.type, destination.pointer(), from, copy.bytes);
    } else {
      std::memmove(destination.pointer(), from, copy.bytes);
    }
  }
}

void land(const Copy& copy) {
  if (copy.form.rank != 0) {
    write_boxes(copy);
  } else {
    write_bytes(copy);
  }
  for (const SharedPlace& barrier : copy.barriers) {
    complete_bytes(copy.execution, copy.issuer, copy.id, barrier, copy.bytes);
  }
  if (Observer* const observer = copy.execution.observer()) observer->async_complete(copy.id);
  --copy.cluster->async_operations;
}

void begin(Copy& copy, AsyncKind kind) {
  copy.id = copy.execution.next_async_id();
  ++copy.cluster->async_operations;
  Observer* const observer = copy.execution.observer();
  if (observer == nullptr) return;
  observer->async_begin(copy.issuer, copy.id, kind);
  for (const SharedPlace& barrier : copy.barriers) {
    observer->async_signals(copy.id, barrier.cta->index, barrier.offset);
  }
  if (copy.form.rank != 0) {
    observer->async_uses_tensor_map(copy.id, lane_address(copy.warp, copy.form.global, copy.lane));
  }
}

void issue_load(const CopyPointer& pointer) {
  Copy& copy = *pointer;
  const BulkCopy& form = copy.form;
  if (form.rank != 0) {
    read_map(copy);
  } else {
    read_size(copy);
  }
  find_destinations(copy);
  if (form.from_shared) {
    const std::uint32_t source = shared_operand(copy, form.source, "the source");
    copy.source = find_shared(copy.warp, copy.op, copy.lane, source, copy.bytes, bulk_alignment,
                              "the source", true);
  } else if (form.rank != 0) {
    make_pieces(copy, shared_address(copy.destinations[0].cta->rank, copy.destinations[0].offset));
    for (const SharedPlace& to : copy.destinations) check_extent(copy, to);
  } else {
    copy.global = lane_address(copy.warp, form.global, copy.lane);
  }
  const std::vector<GlobalRange> ranges = global_ranges(copy);
  check_global(copy, ranges, false);

  copy.warp.issues_copies = true;
  begin(copy, form.kind);
  if (Observer* const observer = copy.execution.observer()) {
    for (const SharedPlace& to : copy.destinations) {
      report_shared(copy, to, form.reduces ? Access::atomic : Access::write);
    }
    for (const GlobalRange& range : ranges) {
      observer->async_touch_global(copy.id, range.address, range.bytes, Access::read);
    }
    if (form.from_shared) report_shared(copy, copy.source, Access::read);
  }
  // Until it lands, whoever reads the destination reads NaN.
  if (!form.reduces) {
    for (const SharedPlace& to : copy.destinations) {
      for (const SharedRange& range : shared_ranges(copy)) {
        std::memset(to.pointer() + range.offset, 0xFF, range.bytes);
      }
    }
  }
  const std::uint64_t latency =
      copy.execution.timing().latency(load_latency + copy.bytes / bytes_per_ns);
  copy.execution.at(copy.warp.time() + latency, [pointer] { land(*pointer); });
}

// ---- Stores: from shared memory, counted by bulk groups.

void wake_waiters(Warp& warp) {
  warp.end_waits([](const Split& split) { return split.wait.kind == Wait::Kind::bulk_group; });
}

void write_global(const Copy& copy) {
  const auto put = [&](TensorType type, std::uint64_t address, const std::byte* from,
                       std::size_t bytes) {
    auto* const to = reinterpret_cast<std::byte*>(address);
    if (copy.form.reduces) {
      reduce_elements(copy.form.operation, type, to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  };
  if (copy.form.rank == 0) return put(copy.form.type, copy.global, copy.data.data(), copy.bytes);
  for (const BoxPiece& piece : copy.pieces) {
    if (!piece.in_bounds) continue;
    put(copy.map.type, piece.global, copy.data.data() + (piece.shared - copy.box_address),
        piece.bytes);
  }
}

void finish_store(const Copy& copy) {
  write_global(copy);
  --copy.group->unwritten;
  --copy.cluster->async_operations;
  if (Observer* const observer = copy.execution.observer()) observer->async_complete(copy.id);
  wake_waiters(copy.warp);
}

void read_source(const CopyPointer& pointer) {
  Copy& copy = *pointer;
  copy.data.assign(copy.source.pointer(), copy.source.pointer() + copy.extent);
  --copy.group->unread;
  wake_waiters(copy.warp);
  const std::uint64_t latency = copy.execution.timing().latency(store_write_latency);
  copy.execution.at(copy.execution.now() + latency, [pointer] { finish_store(*pointer); });
}

BulkGroups& groups_of(Warp& warp, int lane) {
  if (warp.bulk_groups.empty()) warp.bulk_groups.resize(warp_size);
  return warp.bulk_groups[lane];
}

void issue_store(const CopyPointer& pointer) {
  Copy& copy = *pointer;
  const BulkCopy& form = copy.form;
  const std::uint32_t source = shared_operand(copy, form.shared, "the source");
  if (form.rank != 0) {
    read_map(copy);
    if (form.reduces && !reduces(form.operation, copy.map.type)) {
      fail(copy, "bad-tensor-map", "reduces in a way that elements of the map's type do not have.");
    }
  } else {
    read_size(copy);
    copy.global = lane_address(copy.warp, form.global, copy.lane);
  }
  copy.source = find_shared(copy.warp, copy.op, copy.lane, source, copy.bytes,
                            form.rank != 0 ? box_alignment : bulk_alignment, "the source", true);
  if (form.rank != 0) {
    make_pieces(copy, source);
    check_extent(copy, copy.source);
  }
  const std::vector<GlobalRange> ranges = global_ranges(copy);
  check_global(copy, ranges, true);

  BulkGroups& groups = groups_of(copy.warp, copy.lane);
  if (groups.open == nullptr) groups.open = std::make_shared<BulkGroups::Group>();
  copy.group = groups.open;
  ++copy.group->unread;
  ++copy.group->unwritten;
  begin(copy, form.kind);
  if (Observer* const observer = copy.execution.observer()) {
    report_shared(copy, copy.source, Access::read);
    for (const GlobalRange& range : ranges) {
      observer->async_touch_global(copy.id, range.address, range.bytes,
                                   form.reduces ? Access::atomic : Access::write);
    }
  }
  const std::uint64_t latency =
      copy.execution.timing().latency(store_read_latency + copy.bytes / bytes_per_ns);
  copy.execution.at(copy.warp.time() + latency, [pointer] { read_source(pointer); });
}

/// A prefetch into the L2 cache does nothing here but use its operands.
void check_prefetch(Copy& copy) {
  if (copy.form.rank != 0) {
    read_map(copy);
    return;
  }
  read_size(copy);
  copy.global = lane_address(copy.warp, copy.form.global, copy.lane);
  check_global(copy, global_ranges(copy), false);
}

}  // namespace

Flow issue_copies(Warp& warp, const Op& op) {
  Execution& execution = warp.execution();
  const BulkCopy& form = execution.program().bulk_copies[op.target];
  for_each_lane(warp.lanes, [&](int lane) {
    const auto copy = std::make_shared<Copy>(
        Copy{execution, warp, form, op, lane, warp.site(op, lane_bit(lane))});
    copy->cluster = warp.cta().cluster;
    if (form.prefetches) {
      check_prefetch(*copy);
    } else if (form.kind == AsyncKind::tma_load || form.kind == AsyncKind::bulk_load) {
      issue_load(copy);
    } else {
      issue_store(copy);
    }
  });
  return Flow::next;
}

Flow commit_copies(Warp& warp, const Op& op) {
  for_each_lane(warp.lanes, [&](int lane) {
    BulkGroups& groups = groups_of(warp, lane);
    if (groups.open == nullptr) groups.open = std::make_shared<BulkGroups::Group>();
    groups.committed.push_back(std::move(groups.open));
    if (Observer* const observer = warp.execution().observer()) {
      observer->bulk_commit(warp.site(op, lane_bit(lane)));
    }
  });
  return Flow::next;
}

Flow wait_for_copies(Warp& warp, const Op& op) {
  const bool read_only = op.mode != 0;
  const auto allowed = static_cast<std::size_t>(op.immediate);
  const auto is_done = [&](int lane) {
    if (warp.bulk_groups.empty()) return true;
    auto& committed = warp.bulk_groups[lane].committed;
    const std::size_t count = committed.size() > allowed ? committed.size() - allowed : 0;
    return std::all_of(
        committed.begin(), committed.begin() + static_cast<std::ptrdiff_t>(count),
        [&](const auto& group) { return (read_only ? group->unread : group->unwritten) == 0; });
  };
  const LaneMask waiting = warp.lanes & where([&](int lane) {
                             return (warp.lanes & lane_bit(lane)) != 0 && !is_done(lane);
                           });
  if (waiting != 0) {
    return warp.wait_and_retry(op, {.kind = Wait::Kind::bulk_group,
                                    .read_only = read_only,
                                    .value = static_cast<std::uint64_t>(op.immediate)});
  }
  for_each_lane(warp.lanes, [&](int lane) {
    if (Observer* const observer = warp.execution().observer()) {
      observer->bulk_wait(warp.site(op, lane_bit(lane)), static_cast<int>(op.immediate), read_only);
    }
    if (warp.bulk_groups.empty()) return;
    // Finished groups at the front are never asked about again: only the latest are counted.
    auto& committed = warp.bulk_groups[lane].committed;
    while (!committed.empty() && committed.front()->unwritten == 0) {
      committed.erase(committed.begin());
    }
  });
  return Flow::next;
}

}  // namespace emulator

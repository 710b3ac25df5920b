// st.async and red.async: stores into the shared memory of another CTA of the cluster that report
// to an mbarrier there. PTX ISA 9.7.9.13, 9.7.13.7.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/emulator/arithmetic.h"
#include "common/emulator/cta.h"
#include "common/emulator/decode.h"
#include "common/emulator/execution.h"
#include "common/emulator/memory.h"
#include "common/emulator/opcode.h"
#include "common/emulator/tensor_box.h"

namespace emulator {

namespace {

constexpr std::uint64_t typical_latency = 300;

/// One lane's store, while it is under way.
struct RemoteStore {
  Site issuer;
  AsyncId id;
  SharedPlace destination;
  SharedPlace barrier;
  std::vector<std::byte> data;
};

/// The address operands are in Program::bulk_copies[op.target], the values in the list. Op::mode:
/// bits of an element; with reduces, the operation and type are those of the BulkCopy.
Flow store_remotely(Warp& warp, const Op& op) {
  Execution& execution = warp.execution();
  const BulkCopy& form = execution.program().bulk_copies[op.target];
  const std::size_t element = op.mode / 8;
  const auto bytes = static_cast<std::uint32_t>(element * op.list_size);
  LaneAddresses destinations, barriers;
  lane_addresses(warp, form.shared, destinations);
  lane_addresses(warp, form.barrier, barriers);

  for_each_lane(warp.lanes, [&](int lane) {
    auto store = std::make_shared<RemoteStore>();
    store->issuer = warp.site(op, lane_bit(lane));
    store->destination = find_shared(warp, op, lane, static_cast<u32>(destinations[lane]), bytes,
                                     bytes, "the destination", false);
    store->barrier =
        find_shared(warp, op, lane, static_cast<u32>(barriers[lane]), 8, 8, "the mbarrier", false);
    for (int i = 0; i < op.list_size; ++i) {
      const Slot slot = execution.program().slots[op.list + static_cast<u32>(i)];
      std::byte value[8];
      const u64 bits = element == 8 ? warp.row<u64>(slot)[lane] : warp.row<u32>(slot)[lane];
      std::memcpy(value, &bits, sizeof value);
      store->data.insert(store->data.end(), value, value + element);
    }
    store->id = execution.next_async_id();
    Cluster* const cluster = warp.cta().cluster;
    ++cluster->async_operations;
    if (Observer* const observer = execution.observer()) {
      observer->async_begin(store->issuer, store->id, AsyncKind::st_async);
      observer->async_signals(store->id, store->barrier.cta->index, store->barrier.offset);
      observer->async_touch_shared(store->id, store->destination.cta->index,
                                   store->destination.offset, bytes,
                                   form.reduces ? Access::atomic : Access::write);
    }
    execution.at(warp.time() + execution.timing().latency(typical_latency), [&execution, &form,
                                                                             store, cluster] {
      std::byte* const to = store->destination.pointer();
      if (form.reduces) {
        reduce_elements(form.operation, form.type, to, store->data.data(), store->data.size());
      } else {
        std::memcpy(to, store->data.data(), store->data.size());
      }
      complete_bytes(execution, store->issuer, store->id, store->barrier,
                     static_cast<u32>(store->data.size()));
      if (Observer* const observer = execution.observer()) observer->async_complete(store->id);
      --cluster->async_operations;
    });
  });
  return Flow::next;
}

/// [address], value, [mbarrier]
void build(InstructionDecoder& d) {
  d.expect_operands(3, 3);
  const std::string_view type_name = d.part(-1);
  const DataType type = data_type(type_name);
  BulkCopy copy{.kind = AsyncKind::st_async};
  copy.reduces = d.part(0) == "red";
  if (copy.reduces) {
    copy.operation = static_cast<ReduceOperation>(
        d.choose({"add", "min", "max", "inc", "dec", "and", "or", "xor"}));
    copy.type = type_name == "s32"   ? TensorType::s32
                : type_name == "s64" ? TensorType::s64
                : type.bits == 64    ? TensorType::u64
                                     : TensorType::u32;
    if (!reduces(copy.operation, copy.type)) d.fail("has no such reduction for its type");
  }
  copy.shared = d.address(d.operand(0), Space::shared);
  copy.barrier = d.address(d.operand(2), Space::shared);
  const Literal literal = literal_of(d.part(-1));
  const std::vector<Slot> values = d.source_list(d.operand(1), type.bits, literal);
  const std::size_t count = d.has("v2") ? 2 : d.has("v4") ? 4 : 1;
  if (values.size() != count) d.fail("needs " + std::to_string(count) + " values");
  d.set_list(values);
  d.op.mode = static_cast<u8>(type.bits);
  d.op.target = static_cast<u32>(d.program().bulk_copies.size());
  d.program().bulk_copies.push_back(copy);
  d.op.run = store_remotely;
}

#define COMPLETES "shared::cluster.mbarrier::complete_tx::bytes"

constexpr Opcode table[] = {
    {"st.async.?weak." COMPLETES ".?v2|v4.b32|b64|u32|u64|s32|s64|f32|f64", {}, nullptr, build},
    {"red.async.relaxed.cluster." COMPLETES ".inc|dec|min|max|add|and|or|xor.b32|u32|s32|u64|s64",
     {},
     nullptr,
     build},
};

#undef COMPLETES

}  // namespace

std::span<const Opcode> remote_store_opcodes() {
  return table;
}

}  // namespace emulator

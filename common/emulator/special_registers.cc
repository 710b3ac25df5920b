#include "common/emulator/special_registers.h"

#include <algorithm>
#include <iterator>

#include "common/emulator/cta.h"
#include "common/emulator/execution.h"
#include "common/emulator/memory_map.h"
#include "common/emulator/warp.h"

namespace emulator {

namespace {

Flow read_clock(Warp& warp, const Op& op) {
  const auto time = static_cast<std::uint32_t>(warp.time());
  assign_lanes(warp.lanes, warp.row<std::uint32_t>(op.d), [=](int) { return time; });
  return Flow::next;
}

Flow read_clock_high(Warp& warp, const Op& op) {
  const auto time = static_cast<std::uint32_t>(warp.time() >> 32);
  assign_lanes(warp.lanes, warp.row<std::uint32_t>(op.d), [=](int) { return time; });
  return Flow::next;
}

Flow read_clock_64(Warp& warp, const Op& op) {
  const std::uint64_t time = warp.time();
  assign_lanes(warp.lanes, warp.row<std::uint64_t>(op.d), [=](int) { return time; });
  return Flow::next;
}

constexpr Clock clocks[] = {
    {"%clock", 32, read_clock},          {"%clock_hi", 32, read_clock_high},
    {"%clock64", 64, read_clock_64},     {"%globaltimer", 64, read_clock_64},
    {"%globaltimer_lo", 32, read_clock}, {"%globaltimer_hi", 32, read_clock_high},
};

constexpr SpecialName specials[] = {
    {"%tid.x", Special::tid_x, 32},
    {"%tid.y", Special::tid_y, 32},
    {"%tid.z", Special::tid_z, 32},
    {"%ntid.x", Special::ntid_x, 32},
    {"%ntid.y", Special::ntid_y, 32},
    {"%ntid.z", Special::ntid_z, 32},
    {"%ctaid.x", Special::ctaid_x, 32},
    {"%ctaid.y", Special::ctaid_y, 32},
    {"%ctaid.z", Special::ctaid_z, 32},
    {"%nctaid.x", Special::nctaid_x, 32},
    {"%nctaid.y", Special::nctaid_y, 32},
    {"%nctaid.z", Special::nctaid_z, 32},
    {"%clusterid.x", Special::clusterid_x, 32},
    {"%clusterid.y", Special::clusterid_y, 32},
    {"%clusterid.z", Special::clusterid_z, 32},
    {"%nclusterid.x", Special::nclusterid_x, 32},
    {"%nclusterid.y", Special::nclusterid_y, 32},
    {"%nclusterid.z", Special::nclusterid_z, 32},
    {"%cluster_ctaid.x", Special::cluster_ctaid_x, 32},
    {"%cluster_ctaid.y", Special::cluster_ctaid_y, 32},
    {"%cluster_ctaid.z", Special::cluster_ctaid_z, 32},
    {"%cluster_nctaid.x", Special::cluster_nctaid_x, 32},
    {"%cluster_nctaid.y", Special::cluster_nctaid_y, 32},
    {"%cluster_nctaid.z", Special::cluster_nctaid_z, 32},
    {"%cluster_ctarank", Special::cluster_ctarank, 32},
    {"%cluster_nctarank", Special::cluster_nctarank, 32},
    {"%is_explicit_cluster", Special::is_explicit_cluster, 1},
    {"%laneid", Special::laneid, 32},
    {"%warpid", Special::warpid, 32},
    {"%nwarpid", Special::nwarpid, 32},
    {"%smid", Special::smid, 32},
    {"%nsmid", Special::nsmid, 32},
    {"%gridid", Special::gridid, 64},
    {"%lanemask_eq", Special::lanemask_eq, 32},
    {"%lanemask_le", Special::lanemask_le, 32},
    {"%lanemask_lt", Special::lanemask_lt, 32},
    {"%lanemask_ge", Special::lanemask_ge, 32},
    {"%lanemask_gt", Special::lanemask_gt, 32},
    {"%dynamic_smem_size", Special::dynamic_smem_size, 32},
    {"%total_smem_size", Special::total_smem_size, 32},
};

/// What a special register has in one lane.
std::uint64_t special_value(const Warp& warp, const SpecialRow& row, int lane) {
  const Cta& cta = warp.cta();
  const Execution& execution = warp.execution();
  const LaunchGeometry& geometry = execution.geometry();
  const Dim3 block = geometry.block;
  const Dim3 cluster = geometry.cluster;
  const Dim3 clusters = execution.clusters();
  const std::uint32_t thread = warp.rank() * warp_size + static_cast<std::uint32_t>(lane);
  const auto bit = lane_bit(lane);
  const auto threads = static_cast<std::uint32_t>(block.count());

  switch (row.special) {
    case Special::tid_x:
      return thread % block.x;
    case Special::tid_y:
      return thread / block.x % block.y;
    case Special::tid_z:
      return thread / block.x / block.y;
    case Special::ntid_x:
      return block.x;
    case Special::ntid_y:
      return block.y;
    case Special::ntid_z:
      return block.z;
    case Special::ctaid_x:
      return cta.id.x;
    case Special::ctaid_y:
      return cta.id.y;
    case Special::ctaid_z:
      return cta.id.z;
    case Special::nctaid_x:
      return geometry.grid.x;
    case Special::nctaid_y:
      return geometry.grid.y;
    case Special::nctaid_z:
      return geometry.grid.z;
    case Special::clusterid_x:
      return cta.cluster->id.x;
    case Special::clusterid_y:
      return cta.cluster->id.y;
    case Special::clusterid_z:
      return cta.cluster->id.z;
    case Special::nclusterid_x:
      return clusters.x;
    case Special::nclusterid_y:
      return clusters.y;
    case Special::nclusterid_z:
      return clusters.z;
    case Special::cluster_ctaid_x:
      return cta.rank % cluster.x;
    case Special::cluster_ctaid_y:
      return cta.rank / cluster.x % cluster.y;
    case Special::cluster_ctaid_z:
      return cta.rank / cluster.x / cluster.y;
    case Special::cluster_nctaid_x:
      return cluster.x;
    case Special::cluster_nctaid_y:
      return cluster.y;
    case Special::cluster_nctaid_z:
      return cluster.z;
    case Special::cluster_ctarank:
      return cta.rank;
    case Special::cluster_nctarank:
      return cluster.count();
    case Special::is_explicit_cluster:
      return cluster.count() > 1 ? 1 : 0;
    case Special::laneid:
      return static_cast<std::uint64_t>(lane);
    case Special::warpid:
      return warp.rank();
    case Special::nwarpid:
      return (threads + warp_size - 1) / warp_size;
    case Special::smid:
      return static_cast<std::uint64_t>(cta.sm);
    case Special::nsmid:
      return static_cast<std::uint64_t>(execution.options().sms);
    case Special::gridid:
      return 1;
    case Special::lanemask_eq:
      return bit;
    case Special::lanemask_le:
      return bit | (bit - 1);
    case Special::lanemask_lt:
      return bit - 1;
    case Special::lanemask_ge:
      return ~(bit - 1);
    case Special::lanemask_gt:
      return ~(bit | (bit - 1));
    case Special::dynamic_smem_size:
      return geometry.dynamic_shared_bytes;
    case Special::total_smem_size:
      return execution.shared_bytes();
    case Special::shared_address:
      break;
  }
  // Variables lie in the CTA's own memory, or past its end; the generic form of an address in
  // shared memory is made by cvta.
  return shared_address(cta.rank, row.offset);
}

}  // namespace

const SpecialName* find_special(std::string_view name) {
  const auto* const found = std::find_if(std::begin(specials), std::end(specials),
                                         [&](const SpecialName& s) { return s.name == name; });
  return found == std::end(specials) ? nullptr : found;
}

const Clock* find_clock(std::string_view name) {
  const auto* const found = std::find_if(std::begin(clocks), std::end(clocks),
                                         [&](const Clock& c) { return c.name == name; });
  return found == std::end(clocks) ? nullptr : found;
}

void write_special_rows(Warp& warp) {
  for (const SpecialRow& row : warp.execution().program().specials) {
    if (row.bits == 1) {
      const LaneMask mask = special_value(warp, row, 0) != 0 ? all_lanes : 0;
      warp.row<LaneMask>(row.slot).set(0, mask);
      continue;
    }
    for (int lane = 0; lane < warp_size; ++lane) {
      const std::uint64_t value = special_value(warp, row, lane);
      if (row.bits == 16) {
        warp.row<std::uint16_t>(row.slot).set(lane, static_cast<std::uint16_t>(value));
      } else if (row.bits == 32) {
        warp.row<std::uint32_t>(row.slot).set(lane, static_cast<std::uint32_t>(value));
      } else {
        warp.row<std::uint64_t>(row.slot).set(lane, value);
      }
    }
  }
}

}  // namespace emulator

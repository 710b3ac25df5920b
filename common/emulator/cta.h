// A CTA and its cluster while they are resident: shared memory, barriers, warps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "common/emulator/machine.h"
#include "common/emulator/mbarrier.h"
#include "common/emulator/warp.h"

namespace emulator {

struct Cluster;

/// One of the 16 barriers of bar and barrier. Arrivals count threads, in whole warps.
struct NamedBarrier {
  std::uint32_t arrived = 0;
  std::uint32_t expected = 0;  ///< by the arrivals of this generation; 0: all threads of the CTA
  std::uint64_t generation = 0;
  const Op* first = nullptr;     ///< the first arrival of this generation
  std::uint32_t count_true = 0;  ///< bar.red: arrived threads whose predicate was true
  std::uint32_t count_voted = 0;
};

/// A wgmma that fewer than four warps have issued so far, or that runs.
struct PendingWgmma {
  const Op* op = nullptr;
  std::uint64_t descriptor_a = 0, descriptor_b = 0;
  bool scale_d = false;
  int issued = 0;  ///< warps
};

/// Four consecutive warps as the tensor cores see them. wgmmas start and complete in order.
struct Warpgroup {
  std::uint64_t first_pending = 0;  ///< the number of pending[0]: those before have started
  std::deque<PendingWgmma> pending;
  std::uint64_t completed = 0;  ///< how many have completed
  std::uint64_t busy_until = 0;
};

struct Cta {
  std::uint32_t index = 0;  ///< in the grid
  std::uint32_t rank = 0;   ///< in the cluster
  Dim3 id;                  ///< %ctaid
  int sm = 0;
  Cluster* cluster = nullptr;
  std::vector<std::byte> shared;
  MbarrierTable mbarriers;
  std::array<NamedBarrier, 16> named_barriers;
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<Warpgroup> warpgroups;
  std::int64_t free_registers = 0;  ///< of setmaxnreg's pool
  std::uint32_t live_warps = 0;

  bool exited() const { return live_warps == 0; }
};

/// barrier.cluster: all threads of the cluster that have not exited.
struct ClusterBarrier {
  std::uint32_t arrived = 0;
  std::uint64_t generation = 0;
};

struct Cluster {
  Dim3 id;  ///< %clusterid
  std::vector<std::unique_ptr<Cta>> ctas;
  ClusterBarrier barrier;
  std::uint32_t live_threads = 0;
  int async_operations = 0;  ///< that may still touch its memory

  bool exited() const {
    for (const auto& cta : ctas) {
      if (!cta->exited()) return false;
    }
    return true;
  }
};

}  // namespace emulator

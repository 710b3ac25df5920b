// How the registers of an SM are shared between a producer and its consumers.
#pragma once

#include "common/host_device.h"

namespace gemm {

constexpr int sm_registers = 65536;

/// Registers a thread of the producer warpgroup and of each of the consumer warpgroups, after
/// setmaxnreg.
struct RegisterBudget {
  int producer, consumer;
};

/// Registers that a launch can give each thread, with `warpgroups` in a CTA and `ctas` on an SM:
/// all threads get the same, and they come in eights. No thread can name more than 255.
HOST_DEVICE constexpr int launch_registers(int warpgroups, int ctas) {
  const int share = sm_registers / (128 * warpgroups * ctas) / 8 * 8;
  return share < 255 ? share : 255;
}

/// Whether setmaxnreg can give `budget` to one producer and `consumers` consumers: what the CTA
/// holds in the end is no more than its launch got, and each count is a multiple of 8 from 24 to
/// 256. If it is not so, the last consumer waits for registers for ever. PTX ISA 9.7.19.5
HOST_DEVICE constexpr bool is_possible(RegisterBudget budget, int consumers, int ctas) {
  constexpr auto is_count = [](int count) { return count >= 24 && count <= 256 && count % 8 == 0; };
  const int pool = (consumers + 1) * launch_registers(consumers + 1, ctas);
  return is_count(budget.producer) && is_count(budget.consumer) &&
         budget.producer + consumers * budget.consumer <= pool;
}

}  // namespace gemm

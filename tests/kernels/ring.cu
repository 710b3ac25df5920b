// The ring kernel: the right one and its broken variants.
#include "tests/kernels/ring.cuh"

namespace kernels {

INSTANTIATE(1, 2, none);
INSTANTIATE(1, 4, none);
INSTANTIATE(2, 2, none);
INSTANTIATE(2, 3, none);
INSTANTIATE(2, 2, no_init_barrier);
INSTANTIATE(2, 2, no_init_fence);
INSTANTIATE(2, 2, no_full_wait);
INSTANTIATE(2, 2, no_phase_flip);
INSTANTIATE(2, 2, flip_each_tile);
INSTANTIATE(2, 2, wrong_ring_size);
INSTANTIATE(2, 2, producer_parity);
INSTANTIATE(2, 2, short_expect);
INSTANTIATE(2, 2, long_expect);
INSTANTIATE(2, 2, no_expect_for_one_tile_of_k);
INSTANTIATE(2, 2, one_arrival_expected);
INSTANTIATE(2, 2, one_consumer_expected);
INSTANTIATE(2, 2, all_lanes_expected);
INSTANTIATE(2, 2, all_lanes_arrive);
INSTANTIATE(2, 2, all_lanes_load);
INSTANTIATE(2, 2, all_lanes_wait);
INSTANTIATE(2, 2, no_release);
INSTANTIATE(2, 2, release_before_wait);
INSTANTIATE(2, 2, release_current);
INSTANTIATE(2, 2, no_wgmma_commit);
INSTANTIATE(2, 2, no_proxy_fence);
INSTANTIATE(2, 2, no_barrier_before_store);
INSTANTIATE(2, 2, no_store_wait);
INSTANTIATE(2, 2, no_barrier_after_store_wait);
INSTANTIATE(2, 2, no_store_commit);
INSTANTIATE(2, 2, exit_before_store);
INSTANTIATE(2, 2, too_many_threads_at_barrier);
INSTANTIATE(2, 2, one_lane_at_barrier);
INSTANTIATE(2, 2, shared_barrier);
INSTANTIATE(2, 2, too_many_registers);
INSTANTIATE(2, 2, no_registers_given);
INSTANTIATE(2, 2, wrong_register_direction);
INSTANTIATE(2, 2, idle_group_skips);

}  // namespace kernels

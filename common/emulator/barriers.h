// Barriers of a CTA and of a cluster, as far as others must know them.
#pragma once

namespace emulator {

class Execution;
struct Cluster;
struct Cta;

/// Completes the named barriers of `cta` that wait for all of its threads, where those that have
/// not exited have arrived.
void complete_named_barriers(Execution& execution, Cta& cta);

/// Likewise barrier.cluster.
void complete_cluster_barrier(Execution& execution, Cluster& cluster);

}  // namespace emulator

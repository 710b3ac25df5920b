// Fences between proxies. The ordinary loads and stores of a thread go through the generic proxy;
// TMA and wgmma reach memory through the async proxy, which does not see a thread's stores until a
// proxy fence has run. PTX ISA 8.3 (memory consistency model, proxies), 9.7.13.4 (membar, fence).
#pragma once

namespace ptx {

/// Makes this thread's earlier stores to shared memory visible to the async proxy (a wgmma that
/// reads them, a TMA store that sends them). Run it in each thread that wrote, then synchronize
/// with the thread that issues the asynchronous operation.
__device__ inline void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Makes mbarrier.init by this thread visible to the async proxy and, after a barrier, to the other
/// threads of the cluster. Run it once after the inits and before the barrier that publishes them.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

}  // namespace ptx

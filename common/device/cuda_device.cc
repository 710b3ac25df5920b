#include "common/device/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "common/device/concat.h"
#include "common/device/cuda_gpus.h"
#include "common/device/cuda_library.h"
#include "common/device/cuda_status.h"
#include "common/device/cuda_tensor_map.h"
#include "common/device/errors.h"
#include "common/device/kernel_registry.h"
#include "common/device/launch_check.h"
#include "common/device/ptx_source.h"

namespace device {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds spin_time{1};
constexpr std::chrono::microseconds nap_time{50};

/// A launch into a full queue (1024 entries on current drivers) blocks without a time limit, so at
/// most two batches of launches are in flight.
constexpr int launches_per_batch = 256;

/// Static and dynamic shared memory that any kernel may have (CUDA C++ Programming Guide, compute
/// capability 9.0); the compiler keeps static shared memory within it.
constexpr std::size_t shared_bytes_without_opt_in = 48 * 1024;

dim3 to_dim3(const Extent& extent) {
  return dim3(extent.x, extent.y, extent.z);
}

/// A point in the default stream.
class Mark {
 public:
  Mark() {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  ~Mark() { static_cast<void>(cudaEventDestroy(event_)); }

  cudaError_t record() { return cudaEventRecord(event_, nullptr); }
  /// Whether the work before the last record() is done: cudaSuccess, cudaErrorNotReady, or what
  /// failed. cudaSuccess if nothing was recorded.
  cudaError_t query() const { return cudaEventQuery(event_); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// What the back end keeps of a kernel once it has seen it.
struct Kernel {
  std::string name;  ///< as the source spells it
  const void* function =
      nullptr;  ///< what the runtime's calls take: a host address or a cudaKernel_t
  LaunchLimits limits;
  std::size_t allowed_shared_bytes = 0;  ///< dynamic shared memory that it may ask for so far
  bool large_clusters_allowed = false;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(Properties properties, const std::optional<PtxFile>& ptx)
      : properties_(std::move(properties)), ptx_(ptx) {
    if (ptx) library_ = std::make_unique<CudaLibrary>(ptx_);
  }

  Backend backend() const override { return Backend::cuda; }
  const Properties& properties() const override { return properties_; }

  void* allocate(std::size_t bytes) override;
  void release(void* address) noexcept override;
  void copy_to_device(void* destination, const void* source, std::size_t bytes) override;
  void copy_to_host(void* destination, const void* source, std::size_t bytes) override;
  void fill(void* destination, unsigned char value, std::size_t bytes) override;
  CUtensorMap encode(const TensorMap& spec) override;
  void synchronize() override;
  void set_time_limit(double seconds) override { time_limit_ = Seconds(seconds); }

 private:
  using Seconds = std::chrono::duration<double>;

  int resident_clusters_of(const LaunchShape& shape, const void* kernel) override;
  void launch_packed(const LaunchShape& shape, const void* kernel,
                     std::span<const Argument> arguments) override;

  Kernel& find_kernel(const void* address, std::span<const Argument> arguments);
  void allow(Kernel& kernel, const LaunchShape& shape);
  void bound_queue();
  void wait(const Mark& mark);
  void check_call(cudaError_t status, std::string_view call);
  std::string last_kernel_sentence() const;

  Properties properties_;
  PtxSource ptx_;
  std::unique_ptr<CudaLibrary> library_;  ///< of a PTX file; null without one
  Seconds time_limit_{30};
  std::map<const void*, Kernel> kernels_;
  const Kernel* last_kernel_ = nullptr;  ///< null when no launch is in flight
  std::int64_t launches_ = 0;
  Mark batch_ends_[2];
  Mark end_;
  bool lost_ = false;  ///< a kernel failed or hung: the context is beyond repair
};

void* CudaDevice::allocate(std::size_t bytes) {
  void* address = nullptr;
  // cudaMalloc answers a request for nothing with a null pointer.
  const cudaError_t status = cudaMalloc(&address, std::max<std::size_t>(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    std::size_t free = 0, total = 0;
    check_call(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    throw Failure(concat(
        "cudaMalloc of ", counted(bytes, "byte"), " failed: ", free, " of the GPU's ", total,
        " bytes are free. Take a smaller problem, or see with nvidia-smi who holds the memory."));
  }
  check_call(status, concat("cudaMalloc of ", counted(bytes, "byte")));
  return address;
}

void CudaDevice::release(void* address) noexcept {
  if (lost_) return;
  try {
    // cudaFree waits for launched work too, but without a time limit.
    synchronize();
    check_call(cudaFree(address), "cudaFree");
  } catch (const Failure&) {
    // Nobody can be told here. A lost context fails the next call too, and the memory goes back
    // with the process.
  }
}

void CudaDevice::copy_to_device(void* destination, const void* source, std::size_t bytes) {
  synchronize();  // cudaMemcpy would wait for launched work without a time limit
  check_call(cudaMemcpy(destination, source, bytes, cudaMemcpyHostToDevice),
             "cudaMemcpy to the device");
  synchronize();  // from pageable memory, cudaMemcpy may return before the last bytes have arrived
}

void CudaDevice::copy_to_host(void* destination, const void* source, std::size_t bytes) {
  synchronize();
  check_call(cudaMemcpy(destination, source, bytes, cudaMemcpyDeviceToHost),
             "cudaMemcpy to the host");
}

void CudaDevice::fill(void* destination, unsigned char value, std::size_t bytes) {
  check_call(cudaMemset(destination, value, bytes), "cudaMemset");
  synchronize();
}

CUtensorMap CudaDevice::encode(const TensorMap& spec) {
  validate(spec);
  return encode_for_gpu(spec);
}

void CudaDevice::synchronize() {
  check_call(end_.record(), "cudaEventRecord");
  wait(end_);
  last_kernel_ = nullptr;
}

/// `cluster` must live as long as what is returned.
cudaLaunchConfig_t launch_config(const LaunchShape& shape, cudaLaunchAttribute& cluster) {
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
  cudaLaunchConfig_t config{};
  config.gridDim = to_dim3(shape.grid);
  config.blockDim = to_dim3(shape.block);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.attrs = &cluster;
  config.numAttrs = volume(shape.cluster) > 1 ? 1 : 0;
  return config;
}

/// With the program's own code also where a PTX file runs: what it takes of an SM is the same.
int CudaDevice::resident_clusters_of(const LaunchShape& shape, const void* kernel) {
  const std::string call = concat("of ", readable_name(kernel_name(kernel)));
  check_call(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shape.shared_bytes)),
             "cudaFuncSetAttribute " + call);
  if (volume(shape.cluster) == 1) {
    int ctas = 0;
    check_call(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                   &ctas, kernel, static_cast<int>(volume(shape.block)), shape.shared_bytes),
               "cudaOccupancyMaxActiveBlocksPerMultiprocessor " + call);
    return ctas * properties_.sm_count;
  }
  cudaLaunchAttribute cluster{};
  const cudaLaunchConfig_t config = launch_config(shape, cluster);
  int clusters = 0;
  check_call(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config),
             "cudaOccupancyMaxActiveClusters " + call);
  return clusters;
}

void CudaDevice::launch_packed(const LaunchShape& shape, const void* kernel,
                               std::span<const Argument> arguments) {
  Kernel& known = find_kernel(kernel, arguments);
  check_launch(known.name, shape, known.limits);
  allow(known, shape);
  bound_queue();

  std::vector<void*> addresses;
  for (const Argument& argument : arguments) {
    addresses.push_back(const_cast<void*>(argument.address));
  }
  cudaLaunchAttribute cluster{};
  const cudaLaunchConfig_t config = launch_config(shape, cluster);

  // The status is all that kernel<<<...>>>() would leave for cudaGetLastError.
  const cudaError_t status = cudaLaunchKernelExC(&config, known.function, addresses.data());
  if (status != cudaSuccess) check_call(status, concat("cudaLaunchKernelExC of ", known.name));
  last_kernel_ = &known;
}

/// Checks the arguments against the PTX when it sees a kernel for the first time: their types are
/// the kernel's own and can't change.
Kernel& CudaDevice::find_kernel(const void* address, std::span<const Argument> arguments) {
  const auto known = kernels_.find(address);
  if (known != kernels_.end()) return known->second;

  const std::string_view entry = kernel_name(address);
  Kernel kernel;
  kernel.name = readable_name(entry);
  if (!ptx_.text().empty()) ptx_.check(entry, arguments);
  kernel.function = library_ ? library_->kernel(entry) : address;
  cudaFuncAttributes attributes{};
  check_call(cudaFuncGetAttributes(&attributes, kernel.function),
             concat("cudaFuncGetAttributes of ", kernel.name));
  kernel.limits.threads_per_block = attributes.maxThreadsPerBlock;
  kernel.limits.static_shared_bytes = attributes.sharedSizeBytes;
  kernel.limits.shared_bytes_per_block = properties_.shared_bytes_per_block;
  kernel.allowed_shared_bytes = shared_bytes_without_opt_in - attributes.sharedSizeBytes;
  return kernels_.emplace(address, std::move(kernel)).first->second;
}

/// Opts in to what a kernel must ask for: much dynamic shared memory, clusters of more than 8.
void CudaDevice::allow(Kernel& kernel, const LaunchShape& shape) {
  if (shape.shared_bytes > kernel.allowed_shared_bytes) {
    check_call(cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shape.shared_bytes)),
               concat("cudaFuncSetAttribute of ", kernel.name, " to ", shape.shared_bytes,
                      " bytes of dynamic shared memory"));
    kernel.allowed_shared_bytes = shape.shared_bytes;
  }
  if (volume(shape.cluster) > portable_cluster_size && !kernel.large_clusters_allowed) {
    check_call(
        cudaFuncSetAttribute(kernel.function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
        concat("cudaFuncSetAttribute of ", kernel.name, " to clusters of more than ",
               portable_cluster_size));
    kernel.large_clusters_allowed = true;
  }
}

void CudaDevice::bound_queue() {
  if (launches_++ % launches_per_batch != 0) return;
  Mark& batch_end = batch_ends_[launches_ / launches_per_batch % 2];
  wait(batch_end);
  check_call(batch_end.record(), "cudaEventRecord");
}

void CudaDevice::wait(const Mark& mark) {
  const Clock::time_point start = Clock::now();
  for (cudaError_t status = mark.query(); status != cudaSuccess; status = mark.query()) {
    if (status != cudaErrorNotReady) check_call(status, "cudaEventQuery");
    static_cast<void>(cudaGetLastError());  // "not ready" is no error, but is kept as one
    const Clock::duration waited = Clock::now() - start;
    if (waited > time_limit_) {
      lost_ = true;
      throw Hang(concat("The GPU did not finish within ", time_limit_.count(), " s.",
                        last_kernel_sentence(),
                        " If the work is merely long, raise the time limit (--timeout)."));
    }
    if (waited > spin_time) std::this_thread::sleep_for(nap_time);
  }
}

/// Throws Failure if `status` is an error. A kernel's own failure surfaces in a later call, which
/// is not to blame for it.
void CudaDevice::check_call(cudaError_t status, std::string_view call) {
  if (!is_kernel_fault(status)) return check(status, call);
  lost_ = true;
  throw Failure(concat("A kernel failed on the GPU: ", error_text(status), ", reported by ", call,
                       ".", last_kernel_sentence(), " compute-sanitizer names the instruction."));
}

std::string CudaDevice::last_kernel_sentence() const {
  return last_kernel_ == nullptr
             ? ""
             : concat(" The last kernel launched was ", last_kernel_->name, ".");
}

}  // namespace

std::unique_ptr<Device> open_cuda_device(const std::optional<PtxFile>& ptx) {
  const Findings findings = find_gpus();
  const int index = choose_gpu(findings);
  const cudaError_t status = cudaSetDevice(index);  // makes the context
  if (status != cudaSuccess) {
    throw Unavailable(describe_context_failure(status, findings.gpus[index]));
  }
  return std::make_unique<CudaDevice>(read_properties(index), ptx);
}

}  // namespace device

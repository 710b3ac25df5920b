// Runs every golden case on this machine's GPU and writes what it answered:
//
//   golden_dump FOLDER
//
// README.md says how to build it and what the files hold.
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/golden/dump_kernels.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/operation_cases.h"
#include "tests/golden/tensor_cases.h"
#include "tests/golden/thread_cases.h"
#include "tests/golden/wgmma_cases.h"

namespace golden {
namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + " failed: " + cudaGetErrorString(status) + ".");
}

/// Device memory that holds a copy of a vector.
template <class T>
class Copy {
 public:
  explicit Copy(const std::vector<T>& values) : count_(values.size()) {
    check(cudaMalloc(&address_, bytes()), "cudaMalloc");
    check(cudaMemcpy(address_, values.data(), bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy() { static_cast<void>(cudaFree(address_)); }

  T* address() const { return address_; }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), address_, bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(T); }

  std::size_t count_;
  T* address_ = nullptr;
};

using Words = std::vector<std::uint32_t>;

std::string origin() {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  if (properties.major != 9 || properties.minor != 0) {
    throw std::runtime_error(std::string("This machine's GPU, ") + properties.name +
                             ", is no Hopper (sm_90). Golden files come from one.");
  }
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return std::string(properties.name) + ", driver " + std::to_string(driver) + ", runtime " +
         std::to_string(runtime);
}

// ---- wgmma.

Record run(const WgmmaCase& c) {
  const WgmmaOperands inputs = operands(c);
  const Copy<std::byte> image(inputs.image);
  const Copy<std::uint32_t> a(inputs.a);
  const Copy<std::uint32_t> d(inputs.d);
  run_wgmma(c.form_index, image.address(), c.descriptor_a, c.descriptor_b, c.scale_d, a.address(),
            d.address());
  const Words result = d.values();
  switch (c.input) {
    case WgmmaInput::exact:
      return digest(c.name, result);
    case WgmmaInput::chunks:
      return whole(c.name, chunks_read(c, result));
    default:
      return whole(c.name, result);
  }
}

// ---- Scalar operations.

Record run(const OperationCase& c, int index) {
  const OperationWords words = inputs(c.inputs);
  Words joined;
  for (const Words& operand : words) joined.insert(joined.end(), operand.begin(), operand.end());
  const Copy<std::uint32_t> input(joined);
  const Copy<std::uint32_t> results(Words(words[0].size()));
  run_operation(index, static_cast<std::uint32_t>(words[0].size()), input.address(),
                results.address());
  const Words result = results.values();
  return is_approximation(c) ? whole(c.name, result) : digest(c.name, result);
}

// ---- Tensor copies.

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

EncodeTiled encode_tiled() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found),
        "cudaGetDriverEntryPointByVersion");
  if (found != cudaDriverEntryPointSuccess) {
    throw std::runtime_error(
        "The driver has no cuTensorMapEncodeTiled. It needs CUDA 12 or newer.");
  }
  return reinterpret_cast<EncodeTiled>(function);
}

CUtensorMapDataType data_type(emulator::TensorType type) {
  constexpr std::array types{CU_TENSOR_MAP_DATA_TYPE_UINT8,       CU_TENSOR_MAP_DATA_TYPE_UINT16,
                             CU_TENSOR_MAP_DATA_TYPE_UINT32,      CU_TENSOR_MAP_DATA_TYPE_INT32,
                             CU_TENSOR_MAP_DATA_TYPE_UINT64,      CU_TENSOR_MAP_DATA_TYPE_INT64,
                             CU_TENSOR_MAP_DATA_TYPE_FLOAT16,     CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                             CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
                             CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
                             CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ};
  return types.at(static_cast<std::size_t>(type));
}

CUresult encode(const emulator::TensorMapRecord& map, void* address, CUtensorMap& encoded) {
  static const EncodeTiled encode_function = encode_tiled();
  constexpr std::array swizzles{CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B,
                                CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_128B};
  const bool nans = map.fill == emulator::OutOfBoundsFill::nans;
  return encode_function(
      &encoded, data_type(map.type), static_cast<cuuint32_t>(map.rank), address, map.extent.data(),
      map.stride.data(), map.box.data(), map.element_stride.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzles.at(static_cast<std::size_t>(map.swizzle)), CU_TENSOR_MAP_L2_PROMOTION_NONE,
      nans ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

Words as_words(const std::vector<std::byte>& bytes) {
  Words words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  return words;
}

/// The record of a case that the hardware does not take is empty.
Record run(const TensorCase& c) {
  const Copy<std::byte> memory(tensor_memory(c));
  const Copy<std::uint32_t> shared(as_words(tensor_shared(c)));
  CUtensorMap map;
  const CUresult status = encode(c.map, memory.address(), map);
  if (status != CUDA_SUCCESS) {
    std::fprintf(stderr, "%s: the driver refuses the map (CUresult %d).\n", c.name.c_str(),
                 static_cast<int>(status));
    return whole(c.name, {});
  }
  if (!run_tensor(c, map, shared.address())) {
    std::fprintf(stderr, "%s: the bytes of the box did not all arrive.\n", c.name.c_str());
    return whole(c.name, {});
  }
  const bool load = c.direction == TensorDirection::load;
  const Words words = load ? shared.values() : as_words(memory.values());
  const std::size_t first = load ? c.shared_offset / 4 : 0;
  const std::span<const std::uint32_t> result(words.data() + first, result_words(c));
  // Loads are short, and what they filled in says more than a hash.
  return load ? whole(c.name, result) : digest(c.name, result);
}

/// How a copy ends. A fault ends this process's use of the GPU.
TensorEnding ending(const TensorCase& c) {
  try {
    return run(c).count == 0 ? TensorEnding::other : TensorEnding::finished;
  } catch (const std::exception&) {
    switch (cudaDeviceSynchronize()) {
      case cudaErrorIllegalInstruction:
        return TensorEnding::illegal_instruction;
      case cudaErrorMisalignedAddress:
        return TensorEnding::misaligned_address;
      default:
        return TensorEnding::other;
    }
  }
}

/// Runs each case in a process of its own. Call it before this process uses the GPU, which a child
/// could not use then.
std::vector<Record> endings(const std::vector<TensorCase>& cases) {
  std::vector<pid_t> children;
  for (const TensorCase& c : cases) {
    const pid_t child = fork();
    if (child == 0) _exit(static_cast<int>(ending(c)));
    if (child < 0) throw std::runtime_error("There is no process for the case " + c.name + ".");
    children.push_back(child);
  }
  std::vector<Record> records;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    int status = 0;
    const bool exited = waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status);
    const auto how = exited ? WEXITSTATUS(status) : static_cast<int>(TensorEnding::other);
    records.push_back(whole(cases[i].name, Words{static_cast<std::uint32_t>(how)}));
  }
  return records;
}

// ---- Threads.

Record run(const MatrixCase& c) {
  const MatrixInputs words = inputs(c);
  const Copy<std::uint32_t> image(words.image);
  const Copy<std::uint32_t> addresses(Words(words.addresses.begin(), words.addresses.end()));
  const Copy<std::uint32_t> registers(words.registers);
  run_matrix(c, image.address(), addresses.address(), registers.address());
  return whole(c.name, c.store ? image.values() : registers.values());
}

Record run(const BarrierCase& c) {
  Words steps;
  for (const BarrierStep& step : c.steps) {
    steps.push_back(static_cast<std::uint32_t>(step.operation));
    steps.push_back(step.value);
  }
  const Copy<std::uint32_t> input(steps);
  const Copy<std::uint32_t> results(Words(c.steps.size()));
  run_barrier(static_cast<std::uint32_t>(c.steps.size()), input.address(), results.address());
  return whole(c.name, results.values());
}

Record run(const ClusterCase& c) {
  const Copy<std::uint32_t> results(Words(c.grid[0] * c.grid[1] * c.grid[2] * cluster_words));
  run_cluster(c, results.address());
  return whole(c.name, results.values());
}

void save(const std::string& path, const File& file) {
  write(path, file);
  std::printf("%s: %zu cases\n", path.c_str(), file.records.size());
}

/// Appends the records of `cases`; an error names its case.
template <class Case>
void append(File& file, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    try {
      file.records.push_back(run(c));
    } catch (const std::exception& error) {
      throw std::runtime_error(c.name + ": " + error.what());
    }
  }
}

void dump(const std::string& folder) {
  std::filesystem::create_directories(folder);
  File tensor_endings{"", endings(ending_cases())};
  const std::string where = origin();
  tensor_endings.origin = where;
  save(folder + "/tensor_endings.golden", tensor_endings);

  File wgmma{where, {}};
  append(wgmma, wgmma_cases());
  save(folder + "/wgmma.golden", wgmma);

  File operations{where, {}};
  const std::vector<OperationCase>& all_operations = operation_cases();
  for (std::size_t i = 0; i < all_operations.size(); ++i) {
    operations.records.push_back(run(all_operations[i], static_cast<int>(i)));
  }
  save(folder + "/operations.golden", operations);

  File threads{where, {}};
  append(threads, matrix_cases());
  append(threads, barrier_cases());
  append(threads, cluster_cases());
  save(folder + "/threads.golden", threads);

  File tensors{where, {}};
  append(tensors, tensor_cases());
  save(folder + "/tensors.golden", tensors);
}

}  // namespace
}  // namespace golden

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "Usage: golden_dump FOLDER\n");
    return 2;
  }
  try {
    golden::dump(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
  return 0;
}

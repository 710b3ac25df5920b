#include "common/device/cuda_tensor_map.h"

#include <cuda_runtime_api.h>

#include <array>

#include "common/device/concat.h"
#include "common/device/cuda_status.h"
#include "common/device/errors.h"

namespace device {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

/// In the order of ElementType.
constexpr std::array<CUtensorMapDataType, 7> data_types{
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32,  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_UINT8,    CU_TENSOR_MAP_DATA_TYPE_INT32,
    CU_TENSOR_MAP_DATA_TYPE_UINT32};

/// In the order of Swizzle.
constexpr std::array<CUtensorMapSwizzle, 4> swizzles{
    CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B,
    CU_TENSOR_MAP_SWIZZLE_128B};

/// In the order of Interleave.
constexpr std::array<CUtensorMapInterleave, 3> interleaves{
    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_INTERLEAVE_16B, CU_TENSOR_MAP_INTERLEAVE_32B};

/// In the order of L2Promotion.
constexpr std::array<CUtensorMapL2promotion, 4> l2_promotions{
    CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B};

/// In the order of OutOfBounds.
constexpr std::array<CUtensorMapFloatOOBfill, 2> fills{
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA};

template <class Table, class Enum>
auto look_up(const Table& table, Enum value) {
  return table.at(static_cast<std::size_t>(value));
}

/// The function as CUDA 12.0 defined it. A look-up without a version asks for the newest one that
/// the toolkit knows, which an older driver need not have.
EncodeTiled find_encode_tiled() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found),
        "cudaGetDriverEntryPointByVersion of cuTensorMapEncodeTiled");
#else
  check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found),
        "cudaGetDriverEntryPoint of cuTensorMapEncodeTiled");
#endif
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    throw Failure(concat("The driver has no cuTensorMapEncodeTiled of CUDA 12.0 (query result ",
                         static_cast<int>(found), "). Update the driver."));
  }
  return reinterpret_cast<EncodeTiled>(function);
}

}  // namespace

CUtensorMap encode_for_gpu(const TensorMap& map) {
  static const EncodeTiled encode_tiled = find_encode_tiled();
  CUtensorMap encoded{};
  const CUresult result = encode_tiled(
      &encoded, look_up(data_types, map.type), map.rank, const_cast<void*>(map.address),
      map.extent.data(), map.pitch.data(), map.box.data(), map.stride.data(),
      look_up(interleaves, map.interleave), look_up(swizzles, map.swizzle),
      look_up(l2_promotions, map.l2_promotion), look_up(fills, map.out_of_bounds));
  if (result != CUDA_SUCCESS) {
    throw Failure(concat("cuTensorMapEncodeTiled refused the tensor map of ", map.operand,
                         " (CUresult ", static_cast<int>(result),
                         "), though it keeps every documented rule. Check the map's address and "
                         "pitches."));
  }
  return encoded;
}

}  // namespace device

// SPDX-License-Identifier: Apache-2.0
// Tensor maps, made by the driver.
#include "cuda/attention/hopper/tensor_map.hpp"

#include <cuda_runtime_api.h>

#include <string>

#include "cuda/attention/hopper/work.hpp"

namespace phasor::cuda::hopper {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

}  // namespace

Status make_map(const char* where, const ConstTensorView& view, int tokens, int panels, CUtensorMap& map) {
  static const Encode encode = find_encode();
  if (encode == nullptr)
    return Status::unsupported(std::string(where) + ": the driver has no cuTensorMapEncodeTiled, wanted one of CUDA 12");
  const MapShape shape = map_shape(view);
  const cuuint64_t sizes[5] = {shape.sizes[0], shape.sizes[1], shape.sizes[2], shape.sizes[3], shape.sizes[4]};
  const cuuint64_t strides[4] = {shape.strides[0], shape.strides[1], shape.strides[2], shape.strides[3]};
  const cuuint32_t box[5] = {64, static_cast<cuuint32_t>(tokens), static_cast<cuuint32_t>(panels), 1, 1};
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  const auto type = view.dtype == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const CUresult error = encode(&map, type, 5, const_cast<void*>(view.data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (error == CUDA_SUCCESS) return {};
  return Status::unsupported(std::string(where) + ": cuTensorMapEncodeTiled says " + std::to_string(static_cast<int>(error)));
}

}  // namespace phasor::cuda::hopper

// SPDX-License-Identifier: Apache-2.0
// The two launches of decoding: splits, then what makes them one.
#include "cuda/attention/decode/run.hpp"

#include "cuda/attention/decode/kernels.cuh"
#include "cuda/attention/decode/merge.cuh"
#include "cuda/device.hpp"

namespace phasor::cuda::decode {
namespace {

__global__ void __launch_bounds__(kThreads) merge_rows(const __grid_constant__ DecodeWork work) {
  merge_row(work, static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32, static_cast<int>(blockIdx.y));
}

Kernel kernel_for(const DecodeWork& work) {
  if (work.storage == Storage::bf16) return kernel_bf16(work);
  if (work.storage == Storage::f16) return kernel_f16(work);
  return work.storage == Storage::f8_e4m3 ? kernel_e4m3(work) : kernel_e5m2(work);
}

}  // namespace

bool fits(const DecodeWork& work, Device device) {
  constexpr int kReserved = 1024;  // by the system, beside it
  int most = 0;
  if (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device.index) != cudaSuccess) return false;
  return kernel_for(work).shared_bytes + kReserved <= most;
}

Status run(const char* where, const DecodeWork& work, void* stream) {
  const Kernel kernel = kernel_for(work);
  const auto rows = static_cast<unsigned>(rows_of(work));
  const unsigned chunks = (rows + kernel.rows - 1) / kernel.rows;
  const auto heads = static_cast<unsigned>(work.key_heads);
  const auto batch = static_cast<unsigned>(work.batch);
  DecodeWork parameter = work;
  void* parameters[] = {&parameter};
  cudaError_t error = cudaFuncSetAttribute(kernel.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes);
  if (error == cudaSuccess && work.splits > 0) {
    error = cudaLaunchKernel(kernel.kernel, dim3(chunks * static_cast<unsigned>(work.splits) * heads, batch), dim3(kThreads), parameters,
                             static_cast<std::size_t>(kernel.shared_bytes), static_cast<cudaStream_t>(stream));
  }
  if (error != cudaSuccess) return status_of(where, error);
  const auto merge = reinterpret_cast<const void*>(&merge_rows);
  return status_of(where, cudaLaunchKernel(merge, dim3((rows * heads + kWarps - 1) / kWarps, batch), dim3(kThreads), parameters, 0,
                                           static_cast<cudaStream_t>(stream)));
}

}  // namespace phasor::cuda::decode

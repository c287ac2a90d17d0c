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

/// All of a multiprocessor's shared memory to the blocks, and to each what any call wants.
cudaError_t allow(const Kernel& kernel) {
  const cudaError_t error = cudaFuncSetAttribute(kernel.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.most_shared_bytes);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(kernel.kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
}
}  // namespace

bool fits(const DecodeWork& work, Device device) {
  constexpr int kReserved = 1024;  // by the system, beside it
  int most = 0;
  if (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device.index) != cudaSuccess) return false;
  return kernel_for(work).most_shared_bytes + kReserved <= most;
}

Status run(const char* where, const DecodeWork& work, void* stream) {
  const Kernel kernel = kernel_for(work);
  const auto batch = static_cast<unsigned>(work.batch);
  const auto rows = static_cast<unsigned>(rows_of(work));
  const auto heads = static_cast<unsigned>(work.key_heads);
  const unsigned chunks = (rows + static_cast<unsigned>(kernel.rows) - 1) / static_cast<unsigned>(kernel.rows);
  DecodeWork parameter = work;
  if (work.splits > 0) {
    const Grid blocks = {chunks * static_cast<unsigned>(work.splits) * heads, batch};
    const cudaError_t allowed = allow(kernel);
    if (allowed != cudaSuccess) return status_of(where, allowed);
    void* parameters[] = {&parameter};
    const cudaError_t error = cudaLaunchKernel(kernel.kernel, dim3(blocks.x, blocks.y), dim3(kThreads), parameters,
                                               static_cast<std::size_t>(kernel.shared_bytes), static_cast<cudaStream_t>(stream));
    if (error != cudaSuccess) return status_of(where, error);
  }
  const Grid blocks = {(rows * heads + kWarps - 1) / kWarps, batch};
  return launch(where, {reinterpret_cast<const void*>(&merge_rows), blocks, kThreads, 0, stream}, &parameter);
}

}  // namespace phasor::cuda::decode

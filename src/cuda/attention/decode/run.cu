// SPDX-License-Identifier: Apache-2.0
// The two launches of decoding: splits, then what makes them one.
#include "cuda/attention/decode/run.hpp"

#include "cuda/attention/decode/kernels.cuh"
#include "cuda/attention/decode/merge.cuh"
#include "cuda/dependent.cuh"
#include "cuda/device.hpp"

namespace phasor::cuda::decode {
namespace {

/// It begins while the last splits are made.
__global__ void __launch_bounds__(kThreads) merge_rows(const __grid_constant__ DecodeWork work) {
#if PHASOR_DECODE_EARLY
  wait_for_earlier();
#endif
#if PHASOR_DECODE_EARLY > 1
  let_later_begin();
#endif
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
Status launch_splits(const char* where, const Launch& splits, DecodeWork& parameter) {
#if PHASOR_DECODE_EARLY > 1
  return launch_early(where, splits, &parameter);
#else
  void* parameters[] = {&parameter};
  return status_of(where, cudaLaunchKernel(splits.kernel, dim3(splits.blocks.x, splits.blocks.y), dim3(splits.threads), parameters,
                                           splits.shared_bytes, static_cast<cudaStream_t>(splits.stream)));
#endif
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
    const Status begun =
        launch_splits(where, {kernel.kernel, blocks, kThreads, static_cast<std::size_t>(kernel.shared_bytes), stream}, parameter);
    if (!begun.ok()) return begun;
  }
  const Grid blocks = {(rows * heads + kWarps - 1) / kWarps, batch};
  const Launch merge = {reinterpret_cast<const void*>(&merge_rows), blocks, kThreads, 0, stream};
  return PHASOR_DECODE_EARLY > 0 ? launch_early(where, merge, &parameter) : launch(where, merge, &parameter);
}

}  // namespace phasor::cuda::decode

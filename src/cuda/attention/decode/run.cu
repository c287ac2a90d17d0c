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

/// Whether a launch may begin before the one in front of it has ended.
bool overlaps() {
  int device = 0;
  int major = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  return PHASOR_DECODE_EARLY && cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
}
/// Behind the splits: its blocks are there when those end.
cudaError_t launch_merge(const DecodeWork& work, cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(rows_of(work) * work.key_heads);
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((rows + kWarps - 1) / kWarps, static_cast<unsigned>(work.batch));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = work.splits > 0 && overlaps() ? 1 : 0;
  DecodeWork parameter = work;
  void* parameters[] = {&parameter};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(&merge_rows), parameters);
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
  const unsigned chunks = static_cast<unsigned>(rows_of(work) + kernel.rows - 1) / static_cast<unsigned>(kernel.rows);
  const dim3 grid(chunks * static_cast<unsigned>(work.splits * work.key_heads), static_cast<unsigned>(work.batch));
  DecodeWork parameter = work;
  void* parameters[] = {&parameter};
  cudaError_t error = cudaFuncSetAttribute(kernel.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes);
  if (error == cudaSuccess && work.splits > 0) {
    error = cudaLaunchKernel(kernel.kernel, grid, dim3(kThreads), parameters, static_cast<std::size_t>(kernel.shared_bytes),
                             static_cast<cudaStream_t>(stream));
  }
  return status_of(where, error == cudaSuccess ? launch_merge(work, static_cast<cudaStream_t>(stream)) : error);
}

}  // namespace phasor::cuda::decode

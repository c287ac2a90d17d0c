// SPDX-License-Identifier: Apache-2.0
// The two launches of decoding: splits, then what makes them one.
#include "cuda/attention/decode/run.hpp"

#include "cuda/attention/decode/kernels.cuh"
#include "cuda/device.hpp"

namespace phasor::cuda::decode {
namespace {

/// Splits of a row made one, in order; a block for a row, its threads the channels.
__global__ void __launch_bounds__(kThreads) merge_row(const __grid_constant__ DecodeWork work) {
  const int row = static_cast<int>(blockIdx.x);
  const int key_head = static_cast<int>(blockIdx.y);
  const int batch = static_cast<int>(blockIdx.z);
  const int head = key_head * work.group + row % work.group;
  const int query = row / work.group;
  const SplitRange splits = seen_splits(seen_keys(work, job::keys_of(work.lengths, batch, work.room)));
  const auto number = [&](int split, int n) { return work.partial_sum[partial_row(work, batch, key_head, split, row) * 2 + n]; };
  float most = -INFINITY;
#pragma unroll 8
  for (int s = splits.first; s < splits.end; ++s) most = fmaxf(most, number(s, 0));
  const bool has_sink = work.sinks.data != nullptr;
  const double sink =
      has_sink ? job::load_element(work.sinks.data, work.sinks.dtype, work.sinks.shape[2] == 1 ? 0 : head * work.sinks.strides[2]) : 0;
  const float sink_2 = static_cast<float>(sink) * kLog2E;
  if (has_sink) most = sink_2 != sink_2 ? sink_2 : fmaxf(most, sink_2);
  const float from = most == -INFINITY ? 0 : most;
  float sum = has_sink ? power_of_two(sink_2 - from) : 0;
#pragma unroll 8
  for (int s = splits.first; s < splits.end; ++s) sum += power_of_two(number(s, 0) - from) * number(s, 1);
  for (int channel = static_cast<int>(threadIdx.x); channel < work.width; channel += kThreads) {
    float out = 0;
#pragma unroll 8
    for (int s = splits.first; s < splits.end; ++s) {
      out += power_of_two(number(s, 0) - from) * work.partial_out[partial_row(work, batch, key_head, s, row) * work.width + channel];
    }
    const TensorView& to = work.outputs.out;
    const int64_t at = batch * to.strides[0] + query * to.strides[1] + head * to.strides[2] + channel;
    job::store_element(to.data, to.dtype, at, sum == 0 ? 0 : out / sum);
  }
  const TensorView& lse = work.outputs.lse;
  if (threadIdx.x != 0 || lse.data == nullptr) return;
  static_cast<float*>(lse.data)[batch * lse.strides[0] + query * lse.strides[1] + head * lse.strides[2]] =
      sum == 0 ? -INFINITY : most / kLog2E + logf(sum);
}

Kernel kernel_for(const DecodeWork& work) {
  const int rows = rows_of(work);
  if (work.storage == Storage::bf16) return kernel_bf16(work.width, rows);
  if (work.storage == Storage::f16) return kernel_f16(work.width, rows);
  return work.storage == Storage::f8_e4m3 ? kernel_e4m3(work.width, rows) : kernel_e5m2(work.width, rows);
}

}  // namespace

bool fits(const DecodeWork& work, Device device) {
  constexpr int kStatic = 1024;  // beside it: what is not dynamic
  int most = 0;
  if (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device.index) != cudaSuccess) return false;
  return kernel_for(work).shared_bytes + kStatic <= most;
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
    error = cudaLaunchKernel(kernel.kernel, dim3(chunks * static_cast<unsigned>(work.splits), heads, batch), dim3(kThreads), parameters,
                             static_cast<std::size_t>(kernel.shared_bytes), static_cast<cudaStream_t>(stream));
  }
  if (error != cudaSuccess) return status_of(where, error);
  const auto merge = reinterpret_cast<const void*>(&merge_row);
  return status_of(where,
                   cudaLaunchKernel(merge, dim3(rows, heads, batch), dim3(kThreads), parameters, 0, static_cast<cudaStream_t>(stream)));
}

}  // namespace phasor::cuda::decode

// SPDX-License-Identifier: Apache-2.0
// Attention put on a stream.
#include "cuda/attention/run.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/attention/backward/layout.hpp"
#include "cuda/attention/kernels/kernels.hpp"
#include "cuda/attention/kernels/merge.hpp"
#include "cuda/attention/layout.hpp"
#include "cuda/attention/mma/backward/call.hpp"
#include "cuda/attention/mma/call.hpp"
#include "cuda/attention/prepare_terms.hpp"
#include "cuda/device.hpp"
#include "cuda/run.hpp"
#include "cuda/threads.hpp"

namespace phasor::cuda {
namespace attention {
namespace {

/// Bytes of the host on their way to the workspace: a parameter is copied when it is launched, also into a graph.
struct Bytes {
  static constexpr std::size_t kMost = 24 * 1024;
  std::byte* to = nullptr;
  std::size_t count = 0;
  std::byte bytes[kMost];
};
__global__ void __launch_bounds__(kThreads) put_bytes(const __grid_constant__ Bytes from) {
  for (std::size_t n = threadIdx.x; n < from.count; n += kThreads) from.to[n] = from.bytes[n];
}

__global__ void __launch_bounds__(kThreads) sum_parameters(const __grid_constant__ ParameterGradient work) {
  extern __shared__ double memory[];
  BlockThreads block;
  for (int64_t n = blockIdx.x; n < parameter_blocks(work); n += gridDim.x) parameter_block(work, n, memory, block);
}

template <class Work>
__global__ void __launch_bounds__(kThreads) merge_parts(const __grid_constant__ Work work) {
  __shared__ double lse;
  BlockThreads block;
  for (int64_t n = blockIdx.x; n < merge_rows(work); n += gridDim.x) merge_block(work, n, lse, block);
}

/// 0 where CUDA does not say: then the launch will.
int compute_major_of(int device) {
  int major = 0;
  return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess ? major : 0;
}

/// So many blocks keep a large GPU busy; more, each with one element a thread, would be begun and ended most of the time.
constexpr unsigned kMostSumBlocks = 4096;

/// Steps of a call as launches on its stream.
struct Stream {
  const char* where;
  const Execution& execution;
  DType arithmetic;
  Kernels kernels = arithmetic == DType::f64 ? kernels_f64() : kernels_f32();

  Status put(const std::vector<std::byte>& bytes, std::byte* to) const {
    Bytes parameter;
    for (std::size_t at = 0; at < bytes.size(); at += Bytes::kMost) {
      parameter.to = to + at;
      parameter.count = std::min(Bytes::kMost, bytes.size() - at);
      std::memcpy(parameter.bytes, bytes.data() + at, parameter.count);
      const auto kernel = reinterpret_cast<const void*>(&put_bytes);
      if (Status s = launch(where, {kernel, {1}, kThreads, 0, execution.stream}, &parameter); !s) return s;
    }
    return {};
  }
  Status items(const Layout& layout, const ItemWork& item) const {
    if (item.count == 0) return {};
    ItemParameter parameter = {layout.work, item};
    if (!is_of_sums(item.kind)) {
      return launch(where, {kernels.item, {blocks_for(item.count, kThreads)}, kThreads, 0, execution.stream}, &parameter);
    }
    const unsigned blocks = std::min(blocks_for(item.count, kThreads), kMostSumBlocks);
    return launch(where, {kernels.sum, {blocks}, kThreads, 0, execution.stream}, &parameter);
  }
  Status rotate(job::RotateJob& job) const { return run_rotate(job, execution); }
  Status blocks(const void* kernel, int64_t count, const AttentionWork& work, void* parameter) const {
    if (count == 0) return {};
    return launch(where, {kernel, {blocks_for(count, 1)}, kThreads, kernels.room(work), execution.stream}, parameter);
  }
  int compute_major() const {
    int device = 0;
    return cudaGetDevice(&device) == cudaSuccess ? compute_major_of(device) : 0;
  }
  Status forward(const Layout& layout) const {
    if (layout.hopper) return hopper::run(where, *layout.hopper, layout.hopper_workspace, execution.stream);
    if (layout.by_mma) return mma::run(where, layout.work, execution.stream);
    AttentionWork work = layout.work;
    return blocks(kernels.forward, arithmetic == DType::f64 ? forward_blocks<double>(work) : forward_blocks<float>(work), work, &work);
  }
  Status backward(const BackwardLayout& layout) const {
    if (layout.hopper_backward) return hopper::run(where, *layout.hopper_backward, layout.hopper_workspace, execution.stream);
    if (layout.by_mma_backward) return mma::backward::run(where, layout.work, execution.stream);
    AttentionWork work = layout.work;
    return blocks(kernels.backward, backward_blocks(work), work, &work);
  }
  Status parameters(const ParameterGradient& gradient) const {
    ParameterGradient work = gradient;
    if (parameter_blocks(work) == 0) return {};
    const auto kernel = reinterpret_cast<const void*>(&sum_parameters);
    const auto bytes = static_cast<std::size_t>(work.memory);
    return launch(where, {kernel, {blocks_for(parameter_blocks(work), 1)}, kThreads, bytes, execution.stream}, &work);
  }
  Status weights(const Layout& /*layout*/, WeightsWork work) const {
    return blocks(kernels.weights, weights_blocks(work), work.attention, &work);
  }
};

DType arithmetic_of(const job::AttentionJob& job) { return job.q.dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace

Status prepare_terms(const Layout& layout, const char* where, const Execution& execution) {
  Stream stream = {where, execution, layout.arithmetic};
  return prepare(layout, stream);
}

}  // namespace attention

Result<std::int64_t> attention_workspace(const job::AttentionJob& job) { return attention::forward_workspace(job); }

Status run_attention(job::AttentionJob& job, const Workspace& workspace, const Execution& execution) {
  return run_attention(0, job, workspace, execution);
}

Status run_attention(std::int64_t most_keys, job::AttentionJob& job, const Workspace& workspace, const Execution& execution) {
  const CurrentDevice current("attention", job.device);
  if (!current.status().ok()) return current.status();
  attention::Stream stream = {"attention", execution, attention::arithmetic_of(job)};
  return attention::attention_on(stream, job, workspace, most_keys);
}

Result<std::int64_t> attention_backward_workspace(const job::AttentionBackwardJob& job) { return attention::backward_workspace(job); }

Status run_attention_backward(job::AttentionBackwardJob& job, const Workspace& workspace, const Execution& execution) {
  const char* const where = "attention_backward";
  const CurrentDevice current(where, job.forward.device);
  if (!current.status().ok()) return current.status();
  attention::Stream stream = {where, execution, attention::arithmetic_of(job.forward)};
  return attention::attention_backward_on(stream, job, workspace);
}

Result<std::int64_t> attention_weights_workspace(const job::AttentionWeightsJob& job) { return attention::weights_workspace(job); }

Status run_attention_weights(job::AttentionWeightsJob& job, const Workspace& workspace, const Execution& execution) {
  const char* const where = "attention_weights";
  const CurrentDevice current(where, job.forward.device);
  if (!current.status().ok()) return current.status();
  attention::Stream stream = {where, execution, attention::arithmetic_of(job.forward)};
  return attention::weights_on(stream, job, workspace);
}

Status run_merge(job::MergeJob& job, const Execution& execution) {
  const char* const where = "merge_attention";
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  Status status;
  const bool fits = attention::with_merge(job, [&]<class Work>(Work& work) {
    if (attention::merge_rows(work) == 0) return;
    const auto kernel = reinterpret_cast<const void*>(&attention::merge_parts<Work>);
    const unsigned blocks = blocks_for(attention::merge_rows(work), 1);
    (void)(status = launch(where, {kernel, {blocks}, attention::kThreads, 0, execution.stream}, &work));
  });
  return fits ? status : attention::refused_merge(where, job);
}

Result<AttentionReport> explain_attention(const job::AttentionJob& job) {
  return attention::explain(job, attention::compute_major_of(job.device.index));
}

}  // namespace phasor::cuda

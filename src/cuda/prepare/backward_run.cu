// SPDX-License-Identifier: Apache-2.0
// prepare_attention_backward put on a stream: what norms over all heads share, where there are such; the gradients; the sums of weights.
#include <string>

#include "cuda/device.hpp"
#include "cuda/prepare/backward.hpp"
#include "cuda/prepare/run.hpp"
#include "cuda/prepare/threads.cuh"
#include "cuda/specs.hpp"
#include "cuda/threads.hpp"
#include "cuda/tuning.hpp"

namespace phasor::cuda {
namespace {

constexpr const char* kWhere = "prepare_attention_backward";

using GradientThreads = BlockOfWarps<job::BackwardOneByOne>;

struct BackwardParameter {
  BackwardWork work;
  std::int64_t blocks;  // of the launch's work
  TableRoom tables;

  explicit BackwardParameter(const BackwardWork& given) : work(given), blocks(0) {}  // the room is not cleared
};

__device__ __forceinline__ BackwardAt work_at(const BackwardParameter& parameter) {
  return {&parameter.work, parameter.tables.data(), specs_in(parameter.tables, parameter.work.job.step.specs)};
}

__global__ void __launch_bounds__(kThreads) norms_of_all(const __grid_constant__ BackwardParameter parameter) {
  extern __shared__ __align__(16) double backward_memory[];
  GradientThreads block;
  const BackwardBlock<GradientThreads> backward = {work_at(parameter), backward_memory, block};
  for (std::int64_t row = blockIdx.x; row < parameter.blocks; row += gridDim.x) backward.make_of_all(row);
}

__global__ void __launch_bounds__(kThreads) gradients_of_heads(const __grid_constant__ BackwardParameter parameter) {
  extern __shared__ __align__(16) double backward_memory[];
  GradientThreads block;
  const BackwardBlock<GradientThreads> backward = {work_at(parameter), backward_memory, block};
  for (std::int64_t index = blockIdx.x; index < parameter.blocks; index += gridDim.x) backward.make(index);
}

__global__ void __launch_bounds__(kWeightThreads) sums_of_weights(const __grid_constant__ job::PrepareBackwardJob job) {
  __shared__ WeightRoom room;
  BlockThreads block;
  for (std::int64_t index = blockIdx.x; index < job::weight_spans(job); index += gridDim.x) sum_weights(job, index, room, block);
}

Status launch_blocks(const void* kernel, const PrepareLaunch& shape, void* stream, BackwardParameter& parameter) {
  if (shape.blocks == 0) return {};
  parameter.blocks = shape.blocks;
  return launch(kWhere, {kernel, {blocks_for(shape.blocks, 1)}, static_cast<unsigned>(shape.threads), shape.shared_bytes, stream},
                &parameter);
}

/// A thread for each token.
__global__ void __launch_bounds__(kThreads) sums_of_factors(const __grid_constant__ job::PrepareBackwardJob job) {
  const std::int64_t rows = job.step.turn.batch * job.step.turn.tokens;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
    job::store_factor(job, row);
  }
}
/// Tokens whose spec is none of the list's are left alone: nobody writes their sums, and their gradient is 0.
Status clear_factors(const job::PrepareBackwardJob& job, void* stream) {
  if (job.by_factors == nullptr || job.step.specs.rows == nullptr) return {};
  const std::int64_t heads = job.step.operands[0].heads;
  const std::int64_t rows = job.step.turn.batch * job.step.turn.tokens;
  const auto bytes = static_cast<std::size_t>(rows * heads) * sizeof(double);
  return status_of(kWhere, cudaMemsetAsync(job.head_sums, 0, bytes, static_cast<cudaStream_t>(stream)));
}
Status launch_factors(job::PrepareBackwardJob& job, void* stream) {
  if (job.by_factors == nullptr) return {};
  const std::int64_t rows = job.step.turn.batch * job.step.turn.tokens;
  if (rows == 0) return {};
  return launch(kWhere, {reinterpret_cast<const void*>(&sums_of_factors), {blocks_for(rows, kThreads)}, kThreads, 0, stream}, &job);
}

/// The tokens of the specs that a parameter has.
Status launch_gradients(BackwardParameter& parameter, void* stream) {
  const BackwardWork& work = parameter.work;
  if (Status s = launch_blocks(reinterpret_cast<const void*>(&norms_of_all), of_all_shape(work), stream, parameter); !s) return s;
  return launch_blocks(reinterpret_cast<const void*>(&gradients_of_heads), gradient_shape(work), stream, parameter);
}

/// Tables go where kernels read them, as those of prepare_attention do.
Status launch_with_tables(BackwardParameter& parameter, void* stream) {
  job::PrepareJob& step = parameter.work.job.step;
  if (!parameter.work.turns) step.specs = {};  // nobody asks which spec a token has
  if (step.specs.count == 0) {
    if (Status s = place_tables(kWhere, step.device, parameter.tables, step.turn.rows); !s) return s;
    return launch_gradients(parameter, stream);
  }
  const job::SpecList all = step.specs;
  constexpr auto kMostSpecs = static_cast<std::int64_t>(kTableBytes / sizeof(job::RowSource));
  if (all.count > kMostSpecs && !may_take_parts(parameter.work)) {
    return Status::unsupported(std::string(kWhere) + ": there are " + std::to_string(all.count) +
                               " rotaries and gradients by weights, wanted at most " + std::to_string(kMostSpecs) +
                               " rotaries with those on CUDA");
  }
  return launch_specs(kWhere, step.device, parameter.tables, all, [&](const job::SpecList& some) {
    step.specs = some;
    return launch_gradients(parameter, stream);
  });
}

Status run_gradients(job::PrepareBackwardJob& job, const Execution& execution) {
  BackwardParameter parameter(work_of(job));
  const BackwardWork& work = parameter.work;
  if (gradient_shape(work).shared_bytes > kMostBackwardBytes) {
    return Status::unsupported(std::string(kWhere) + ": heads of " + std::to_string(work.channels) + " channels and their rows take " +
                               std::to_string(gradient_shape(work).shared_bytes) + " bytes of a block's memory, wanted at most " +
                               std::to_string(kMostBackwardBytes));
  }
  if (Status s = clear_factors(job, execution.stream); !s) return s;
  if (Status s = launch_with_tables(parameter, execution.stream); !s) return s;
  if (Status s = launch_factors(job, execution.stream); !s) return s;
  const std::int64_t spans = job::weight_spans(job);
  if (spans == 0) return {};
  const auto kernel = reinterpret_cast<const void*>(&sums_of_weights);
  return launch(kWhere, {kernel, {blocks_for(spans, 1)}, kWeightThreads, 0, execution.stream}, &job);
}

}  // namespace

Status run_prepare_backward(job::PrepareBackwardJob& job, const Execution& execution) {
  const CurrentDevice current(kWhere, job.device);
  if (!current.status().ok()) return current.status();
  // Of several specs one launch has all operands: a token whose spec is not in the list is left alone, v too.
  if (job.step.specs.rows != nullptr) return run_gradients(job, execution);
  job::PrepareBackwardJob rest = job::without_only_prepared(job);
  if (rest.step.operand_count > 0) {
    if (Status s = run_gradients(rest, execution); !s) return s;
  }
  job::PrepareJob prepared = job::only_prepared(job);
  return prepared.operand_count == 0 ? Status() : run_prepare(prepared, execution);
}

}  // namespace phasor::cuda

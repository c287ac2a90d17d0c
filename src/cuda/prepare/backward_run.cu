// SPDX-License-Identifier: Apache-2.0
// prepare_attention_backward put on a stream: what norms over all heads share, where there are such; the gradients; the sums of weights.
#include <string>

#include "cuda/device.hpp"
#include "cuda/prepare/backward.hpp"
#include "cuda/prepare/run.hpp"
#include "cuda/prepare/threads.cuh"
#include "cuda/tables.hpp"
#include "cuda/threads.hpp"
#include "cuda/tuning.hpp"

namespace phasor::cuda {
namespace {

constexpr const char* kWhere = "prepare_attention_backward";

using GradientThreads = BlockOfWarps<job::BackwardOneByOne>;

struct BackwardParameter {
  BackwardWork work;
  std::int64_t blocks;  // of the launch's work
  alignas(16) std::byte tables[kTableBytes];
};

__global__ void __launch_bounds__(kThreads) norms_of_all(const __grid_constant__ BackwardParameter parameter) {
  extern __shared__ __align__(16) double backward_memory[];
  GradientThreads block;
  const BackwardBlock<GradientThreads> backward = {{&parameter.work, parameter.tables}, backward_memory, block};
  for (std::int64_t row = blockIdx.x; row < parameter.blocks; row += gridDim.x) backward.make_of_all(row);
}

__global__ void __launch_bounds__(kThreads) gradients_of_heads(const __grid_constant__ BackwardParameter parameter) {
  extern __shared__ __align__(16) double backward_memory[];
  GradientThreads block;
  const BackwardBlock<GradientThreads> backward = {{&parameter.work, parameter.tables}, backward_memory, block};
  for (std::int64_t index = blockIdx.x; index < parameter.blocks; index += gridDim.x) backward.make(index);
}

__global__ void __launch_bounds__(kWeightThreads) sums_of_weights(const __grid_constant__ job::PrepareBackwardJob job) {
  __shared__ WeightRoom room;
  BlockThreads block;
  for (std::int64_t index = blockIdx.x; index < job::weight_spans(job); index += gridDim.x) sum_weights(job, index, room, block);
}

/// Fills a parameter; false where the tables do not fit. The rows of several specs are a table of the host's, and packed in place.
bool fill(const BackwardWork& work, BackwardParameter& parameter) {
  parameter.work = work;
  job::PrepareJob& step = parameter.work.job.step;
  TablePacker packer(parameter.tables, kTableBytes);
  pack_tables(step.turn.rows, packer);
  for (std::int64_t i = 0; i < step.specs.count; ++i) pack_tables(step.specs.rows[i], packer);
  const job::RowSource* list = step.specs.rows;
  packer.pack(list, step.specs.count);
  step.specs.rows = const_cast<job::RowSource*>(list);
  return packer.fits();
}

Status launch_blocks(const void* kernel, const PrepareLaunch& shape, void* stream, BackwardParameter& parameter) {
  if (shape.blocks == 0) return {};
  parameter.blocks = shape.blocks;
  return launch(kWhere, {kernel, {blocks_for(shape.blocks, 1)}, static_cast<unsigned>(shape.threads), shape.shared_bytes, stream},
                &parameter);
}

Status run_gradients(job::PrepareBackwardJob& job, const Execution& execution) {
  const BackwardWork work = work_of(job);
  BackwardParameter parameter;
  if (!fill(work, parameter)) {
    return Status::unsupported(std::string(kWhere) + ": the specs' lists take more than " + std::to_string(kTableBytes) +
                               " bytes, which is not supported on CUDA yet");
  }
  if (gradient_shape(work).shared_bytes > kMostBackwardBytes) {
    return Status::unsupported(std::string(kWhere) + ": heads of " + std::to_string(work.channels) + " channels and their rows take " +
                               std::to_string(gradient_shape(work).shared_bytes) + " bytes of a block's memory, wanted at most " +
                               std::to_string(kMostBackwardBytes));
  }
  if (Status s = launch_blocks(reinterpret_cast<const void*>(&norms_of_all), of_all_shape(work), execution.stream, parameter); !s) return s;
  if (Status s = launch_blocks(reinterpret_cast<const void*>(&gradients_of_heads), gradient_shape(work), execution.stream, parameter); !s)
    return s;
  const std::int64_t spans = job::weight_spans(job);
  if (spans == 0) return {};
  const auto kernel = reinterpret_cast<const void*>(&sums_of_weights);
  return launch(kWhere, {kernel, {blocks_for(spans, 1)}, kWeightThreads, 0, execution.stream}, &job);
}

}  // namespace

Status run_prepare_backward(job::PrepareBackwardJob& job, const Execution& execution) {
  const CurrentDevice current(kWhere, job.device);
  if (!current.status().ok()) return current.status();
  // Lists of several specs are packed in place, so one launch must do with them.
  if (job.step.specs.rows != nullptr) return run_gradients(job, execution);
  job::PrepareBackwardJob rest = job::without_only_prepared(job);
  if (rest.step.operand_count > 0) {
    if (Status s = run_gradients(rest, execution); !s) return s;
  }
  job::PrepareJob prepared = job::only_prepared(job);
  return prepared.operand_count == 0 ? Status() : run_prepare(prepared, execution);
}

}  // namespace phasor::cuda

// SPDX-License-Identifier: Apache-2.0
// prepare_attention put on a stream: a block per token.
#include "cuda/prepare/run.hpp"

#include "cuda/device.hpp"
#include "cuda/prepare/columns/kernels.cuh"
#include "cuda/prepare/latent/kernels.cuh"
#include "cuda/prepare/places.hpp"
#include "cuda/prepare/plain/kernels.cuh"
#include "cuda/prepare/prepare.hpp"
#include "cuda/prepare/squads/kernels.cuh"
#include "cuda/prepare/threads.cuh"
#include "cuda/specs.hpp"
#include "cuda/tuning.hpp"

namespace phasor::cuda {
namespace {

using PreparingThreads = BlockOfWarps<job::OneByOne>;

struct PrepareParameter {
  PrepareWork work;
  TableRoom tables;
};

__global__ void __launch_bounds__(kThreads) prepare_tokens(const __grid_constant__ PrepareParameter parameter) {
  extern __shared__ __align__(16) float memory[];
  PreparingThreads block;
  const PreparingBlock<PreparingThreads> preparing = {
      {&parameter.work, parameter.tables.data(), specs_in(parameter.tables, parameter.work.job.specs)}, memory, block};
  const std::int64_t rows = parameter.work.job.turn.batch * parameter.work.job.turn.tokens;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) preparing.make(row);
}

const void* squad_kernel_of(const SquadWork& work) {
  const DType dtype = work.job.turn.dtype;
  if (dtype == DType::f32) return squad_kernel_f32(work);
  return dtype == DType::f16 ? squad_kernel_f16(work) : squad_kernel_bf16(work);
}
/// `followed`: by a launch of the same call, which begins without waiting for this one's end.
Status squads_of(const char* where, const job::PrepareJob& job, bool followed, const Execution& execution) {
  SquadParameter parameter;
  parameter.work = squad_work(job);
  parameter.work.shape.followed = followed;
  TablePacker packer(parameter.tables, kTeamTableBytes);
  pack_tables(parameter.work.job.turn.rows, packer);
  if (is_plain(parameter.work)) {
    PlainCall call = plain_call(parameter.work, has_few_tokens(job));
    if (may_walk(parameter.work, call)) {
      int multiprocessors = 0;
      if (Status s = status_of(where, cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, job.device.index)); !s)
        return s;
      call = walking_on(call, std::int64_t{multiprocessors} * kWalkPlainBlocks);
    }
    const void* const kernel = job.turn.dtype == DType::f16 ? plain_kernel_f16(call) : plain_kernel_bf16(call);
    const unsigned(&blocks)[3] = call.launch.blocks;
    return launch_early(where, {kernel, {blocks[0], blocks[1], blocks[2]}, call.launch.threads, 0, execution.stream}, &parameter);
  }
  const SquadLaunch grid = squad_launch(parameter.work);
  return launch(where,
                {squad_kernel_of(parameter.work), {grid.blocks[0], grid.blocks[1], grid.blocks[2]}, grid.threads, 0, execution.stream},
                &parameter);
}

/// Whether a kernel is on the current device, or can be brought there.
Status check_there(const char* where, const void* kernel) {
  cudaFuncAttributes attributes = {};
  return status_of(where, cudaFuncGetAttributes(&attributes, kernel));
}
/// Values by channels have a kernel of their own, behind that of the others; a second launch takes longer than few tokens do. What it may
/// be refused for while the device is sound, a kernel that finds no room there, is asked before the first: nothing is written then.
Status prepare_by_squads(const char* where, const job::PrepareJob& job, const Execution& execution) {
  if (!has_columns(job) || job.turn.batch * job.turn.tokens <= kFewColumnTokens) return squads_of(where, job, false, execution);
  if (job.operand_count > 1) {
    if (Status s = check_there(where, column_kernel(job.turn.dtype)); !s) return s;
    job::PrepareJob others = job;
    --others.operand_count;
    if (Status s = squads_of(where, others, true, execution); !s) return s;
  }
  ColumnWork work = column_work(job);
  work.follows = job.operand_count > 1;
  const SquadLaunch grid = column_launch(work);
  return launch_early(
      where, {column_kernel(work.dtype), {grid.blocks[0], grid.blocks[1], grid.blocks[2]}, grid.threads, 0, execution.stream}, &work);
}

Status prepare_by_plain_latent(const char* where, const job::PrepareJob& job, const Execution& execution) {
  PlainLatentParameter parameter;
  parameter.work = plain_latent_work(job);
  TablePacker packer(parameter.tables, kTeamTableBytes);
  pack_tables(parameter.work.squads.job.turn.rows, packer);
  const PlainLatentCall call = plain_latent_call(parameter.work, job.turn.batch * job.turn.tokens);
  const void* const kernel = job.turn.dtype == DType::f16 ? plain_latent_kernel_f16(call) : plain_latent_kernel_bf16(call);
  const unsigned(&blocks)[3] = call.launch.blocks;
  return launch_early(where, {kernel, {blocks[0], blocks[1], blocks[2]}, call.launch.threads, 0, execution.stream}, &parameter);
}
Status prepare_by_latent(const char* where, const job::PrepareJob& job, const Execution& execution) {
  if (is_plain_latent(job)) return prepare_by_plain_latent(where, job, execution);
  LatentParameter parameter;
  parameter.work = latent_work(job);
  TablePacker packer(parameter.tables, kTeamTableBytes);
  pack_tables(parameter.work.job.turn.rows, packer);
  const LatentLaunch cut = latent_launch(parameter.work);
  const SquadLaunch& grid = cut.grid;
  const void* const kernel = job.turn.dtype == DType::f16 ? latent_kernel_f16() : latent_kernel_bf16();
  return launch_early(where, {kernel, {grid.blocks[0], grid.blocks[1], grid.blocks[2]}, grid.threads, cut.shared_bytes, execution.stream},
                      &parameter);
}

Status launch_prepare(const char* where, PrepareParameter& parameter, const Execution& execution) {
  const PrepareLaunch shape = launch_shape(parameter.work);
  return launch(where,
                {reinterpret_cast<const void*>(&prepare_tokens),
                 {static_cast<unsigned>(shape.blocks)},
                 static_cast<unsigned>(shape.threads),
                 shape.shared_bytes,
                 execution.stream},
                &parameter);
}

}  // namespace

Status run_prepare(job::PrepareJob& job, const Execution& execution) {
  const char* const where = "prepare_attention";
  if (job.turn.batch == 0 || job.turn.tokens == 0) return {};
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  if (job.places.checked) {
    if (Status s = check_places(where, job, execution); !s) return s;
  }
  if (is_for_squads(job)) return prepare_by_squads(where, job, execution);
  if (is_latent(job)) return prepare_by_latent(where, job, execution);
  PrepareParameter parameter;
  parameter.work = work_of(job);
  job::PrepareJob& placed = parameter.work.job;
  if (job.specs.count == 0) {
    if (Status s = place_tables(where, job.device, parameter.tables, placed.turn.rows); !s) return s;
    return launch_prepare(where, parameter, execution);
  }
  return launch_specs(where, job.device, parameter.tables, job.specs, [&](const job::SpecList& some) {
    placed.specs = some;
    return launch_prepare(where, parameter, execution);
  });
}

}  // namespace phasor::cuda

// SPDX-License-Identifier: Apache-2.0
// Rotations and rows put on a stream.
#include "cuda/run.hpp"

#include "cuda/copies.hpp"
#include "cuda/device.hpp"
#include "cuda/moves/kernels.cuh"
#include "cuda/rotary/kernels.cuh"
#include "cuda/rotary/rows.cuh"
#include "cuda/rotary/work.hpp"
#include "cuda/teams/kernels.cuh"

namespace phasor::cuda {
namespace {

const void* kernel_of(const job::RotateJob& job, bool vectors) {
  if (job.dtype == DType::f64) return rotate_kernel_f64(job.read, job.write, vectors);
  if (job.dtype == DType::f32) return rotate_kernel_f32(job.read, job.write, vectors);
  return job.dtype == DType::f16 ? rotate_kernel_f16(job.read, job.write, vectors) : rotate_kernel_bf16(job.read, job.write, vectors);
}

/// Fills a parameter for a call of one spec.
Status fill(const char* where, const RotateWork& work, RotateParameter& parameter) {
  parameter.work = work;
  parameter.specs = {};
  job::RowSource& rows = parameter.work.job.rows;
  if (rows.from == nullptr) return place_tables(where, work.job.device, parameter.tables, rows);
  parameter.from = *rows.from;
  return place_tables(where, work.job.device, parameter.tables, parameter.from, rows);
}

const void* team_kernel_of(DType dtype, const TeamCall& call) {
  if (dtype == DType::f64) return team_kernel_f64(call);
  if (dtype == DType::f32) return team_kernel_f32(call);
  return dtype == DType::f16 ? team_kernel_f16(call) : team_kernel_bf16(call);
}

Status rotate_by_teams(const char* where, const RotateWork& work, const Execution& execution) {
  const TeamKind kind = team_kind(work.job);
  TeamParameter parameter;
  parameter.work = team_work(work, kind);
  TablePacker packer(parameter.tables, kTeamTableBytes);
  pack_tables(parameter.work.rotate.job.rows, packer);
  const TeamGrid grid = team_grid(parameter.work, kind);
  // Those of some thousand warps are slower when they begin early: 1024 tokens took 4.8 us instead of 4.5.
  const auto put = kind == TeamKind::some ? launch : launch_early;
  return put(where,
             {team_kernel_of(work.job.dtype, team_call(parameter.work, kind)),
              {grid.blocks[0], grid.blocks[1], grid.blocks[2]},
              grid.threads,
              0,
              execution.stream},
             &parameter);
}

const void* move_kernel_of(const job::RotateJob& job) {
  if (job.dtype == DType::f64) return move_kernel_f64(job.read);
  if (job.dtype == DType::f32) return move_kernel_f32(job.read);
  return job.dtype == DType::f16 ? move_kernel_f16(job.read) : move_kernel_bf16(job.read);
}

Status move(const char* where, const RotateWork& work, const Execution& execution) {
  MoveParameter parameter;
  parameter.work = move_work(work);
  job::RowSource& rows = parameter.work.rotate.job.rows;
  parameter.from = *rows.from;
  TablePacker packer(parameter.tables, kTeamTableBytes);
  pack_tables(rows, packer);
  parameter.from.steps = rows.steps;  // one ladder
  parameter.from.axis_of_pair = rows.axis_of_pair;
  const MoveGrid grid = move_grid(parameter.work);
  const auto put = team_kind(work.job) == TeamKind::some ? launch : launch_early;  // as rotations
  return put(where, {move_kernel_of(work.job), {grid.blocks, 1, grid.batch}, grid.threads, 0, execution.stream}, &parameter);
}

bool is_empty(const job::RotateJob& job) {
  return job.batch == 0 || job.tokens == 0 || job.head_dim == 0 || job.operands[0].heads + job.operands[1].heads == 0;
}

/// By the kernel of any rotation.
Status launch_rotation(const char* where, RotateParameter& parameter, const Execution& execution) {
  const RotateWork& work = parameter.work;
  const bool vectors = takes_vectors(work);
  const LaunchShape shape = launch_shape(work, vectors);
  return launch(where,
                {kernel_of(work.job, vectors),
                 {static_cast<unsigned>(shape.blocks)},
                 static_cast<unsigned>(shape.threads),
                 shape.shared_bytes,
                 execution.stream},
                &parameter);
}

Status rotate(const char* where, const job::RotateJob& job, const Execution& execution) {
  if (is_empty(job)) return {};
  const RotateWork work = work_of(job);
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  if (is_common(work)) return rotate_by_teams(where, work, execution);
  if (is_move(work)) return move(where, work, execution);
  RotateParameter parameter;
  if (Status s = fill(where, work, parameter); !s) return s;
  return launch_rotation(where, parameter, execution);
}

/// `doubles`: the current device is fast with float64.
Status write_rows_on(job::RowsJob& job, bool doubles, const Execution& execution) {
  const char* const where = "cos_sin";
  if (job.batch == 0 || job.tokens == 0 || job.heads == 0 || job.pairs == 0) return {};
  RowsParameter parameter(job);
  if (Status s = place_tables(where, job.device, parameter.tables, parameter.job.rows); !s) return s;
  if (!walks(job)) {
    return launch(where, {rows_kernel(job.dtype == DType::f64), {rows_blocks(job)}, kRowsThreads, 0, execution.stream}, &parameter);
  }
  const auto threads = [&](int run) { return walk_threads(walk_shape(job.pairs, job.tokens, run), job.batch); };
  const bool runs = threads(kDoublesRun) >= kDoublesThreads;
  const DoublesGrid grid = doubles_grid(job, runs ? kDoublesRun : 1, kRowsThreads / kDoublesLanes);
  if (doubles && fits(grid)) {
    const Grid blocks = {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z)};
    return launch_early(where, {doubles_kernel(runs), blocks, kRowsThreads, 0, execution.stream}, &parameter);
  }
  const bool far = walks_far(job.pairs, job.batch, job.tokens);
  const unsigned blocks = blocks_for(threads(far ? kWalk : 1), kRowsThreads);
  return launch(where, {walks_kernel(far), {blocks}, kRowsThreads, 0, execution.stream}, &parameter);
}

}  // namespace

bool is_built() { return true; }

Status run_rotate(job::RotateJob& job, const Execution& execution) { return rotate("apply_rotary", job, execution); }

Status run_rotate_specs(job::RotateSpecsJob& job, const Execution& execution) {
  const char* const where = "apply_rotaries";
  if (is_empty(job.rotate)) return {};
  if (job.specs.count == 0) return rotate(where, job.rotate, execution);
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  RotateParameter parameter;
  parameter.work = work_of(job.rotate);
  return launch_specs(where, job.device, parameter.tables, job.specs, [&](const job::SpecList& some) {
    parameter.specs = some;
    return launch_rotation(where, parameter, execution);
  });
}

Status run_rerotate(job::RerotateJob& job, const Execution& execution) { return rotate("rerotate", job.link(), execution); }

Status run_rows(job::RowsJob& job, const Execution& execution) {
  const CurrentDevice current("cos_sin", job.device);
  if (!current.status().ok()) return current.status();
  return write_rows_on(job, has_fast_float64(), execution);
}
Status run_rows_by_pairs(job::RowsJob& job, const Execution& execution) {
  const CurrentDevice current("cos_sin", job.device);
  if (!current.status().ok()) return current.status();
  return write_rows_on(job, false, execution);
}

}  // namespace phasor::cuda

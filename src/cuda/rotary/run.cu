// SPDX-License-Identifier: Apache-2.0
// Rotations and rows put on a stream.
#include "cuda/run.hpp"

#include <string>

#include "cuda/device.hpp"
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

/// Not by spec::format: nvcc does not check its texts while it compiles.
Status too_many_tables(const std::string& where) {
  return Status::unsupported(where + ": the spec's lists take more than " + std::to_string(kTableBytes) +
                             " bytes, which is not supported on CUDA yet");
}

/// Fills a parameter; false where the tables do not fit.
bool fill(const RotateWork& work, RotateParameter& parameter) {
  parameter.work = work;
  TablePacker packer(parameter.tables, kTableBytes);
  if (work.job.rows.from != nullptr) {
    parameter.from = *work.job.rows.from;
    pack_tables(parameter.from, packer);
  }
  pack_tables(parameter.work.job.rows, packer);
  return packer.fits();
}

const void* team_kernel_of(const job::RotateJob& job, TeamKind kind) {
  if (job.dtype == DType::f64) return team_kernel_f64(job.read, kind);
  if (job.dtype == DType::f32) return team_kernel_f32(job.read, kind);
  return job.dtype == DType::f16 ? team_kernel_f16(job.read, kind) : team_kernel_bf16(job.read, kind);
}

Status rotate_by_teams(const char* where, const RotateWork& work, const Execution& execution) {
  const TeamKind kind = team_kind(work.job);
  TeamParameter parameter;
  parameter.work = team_work(work, kind);
  TablePacker packer(parameter.tables, kTeamTableBytes);
  pack_tables(parameter.work.rotate.job.rows, packer);
  const TeamGrid grid = team_grid(parameter.work, kind);
  return launch(where,
                {team_kernel_of(work.job, kind), {grid.blocks[0], grid.blocks[1], grid.blocks[2]}, grid.threads, 0, execution.stream},
                &parameter);
}

Status rotate(const job::RotateJob& job, const Execution& execution) {
  const char* const where = "apply_rotary";
  if (job.batch == 0 || job.tokens == 0 || job.head_dim == 0) return {};
  const RotateWork work = work_of(job);
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  if (is_common(work)) return rotate_by_teams(where, work, execution);
  const bool vectors = takes_vectors(work);
  const LaunchShape shape = launch_shape(work, vectors);
  RotateParameter parameter;
  if (!fill(work, parameter)) return too_many_tables(where);
  return launch(where,
                {kernel_of(job, vectors),
                 {static_cast<unsigned>(shape.blocks)},
                 static_cast<unsigned>(shape.threads),
                 shape.shared_bytes,
                 execution.stream},
                &parameter);
}

bool fill(const job::RowsJob& job, RowsParameter& parameter) {
  parameter.job = job;
  TablePacker packer(parameter.tables, kTableBytes);
  pack_tables(parameter.job.rows, packer);
  return packer.fits();
}

}  // namespace

bool is_built() { return true; }

Status run_rotate(job::RotateJob& job, const Execution& execution) { return rotate(job, execution); }

Status run_rerotate(job::RerotateJob& job, const Execution& execution) { return rotate(job.link(), execution); }

Status run_rows(job::RowsJob& job, const Execution& execution) {
  const char* const where = "cos_sin";
  if (job.batch == 0 || job.tokens == 0 || job.heads == 0 || job.pairs == 0) return {};
  const CurrentDevice current(where, job.device);
  if (!current.status().ok()) return current.status();
  RowsParameter parameter;
  if (!fill(job, parameter)) return too_many_tables(where);
  return launch(where, {rows_kernel(job.dtype == DType::f64), {rows_blocks(job)}, kRowsThreads, 0, execution.stream}, &parameter);
}

}  // namespace phasor::cuda

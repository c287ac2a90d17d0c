// SPDX-License-Identifier: Apache-2.0
// Where nvcc is not: the backend that is not there. Nothing calls these but by mistake, since is_built says no.
#include "cuda/run.hpp"

namespace phasor::cuda {
namespace {

Status not_built() { return Status::unsupported("this build has no CUDA"); }

}  // namespace

bool is_built() { return false; }

Status run_rotate(job::RotateJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_rerotate(job::RerotateJob& /*job*/, const Execution& /*execution*/) { return not_built(); }
Status run_rows(job::RowsJob& /*job*/, const Execution& /*execution*/) { return not_built(); }

}  // namespace phasor::cuda

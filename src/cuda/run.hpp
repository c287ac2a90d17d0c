// SPDX-License-Identifier: Apache-2.0
// CUDA's side of the table of backends: each puts a checked job on the caller's stream and returns. Nothing is allocated, nothing waits.
#pragma once

#include "job/rerotate.hpp"
#include "job/rotary.hpp"
#include "phasor/execution.hpp"

namespace phasor::cuda {

/// Whether this build has it; where not, the functions below say so.
bool is_built();

Status run_rotate(job::RotateJob& job, const Execution& execution);
Status run_rerotate(job::RerotateJob& job, const Execution& execution);
Status run_rows(job::RowsJob& job, const Execution& execution);

}  // namespace phasor::cuda

// SPDX-License-Identifier: Apache-2.0
// prepare_attention on CUDA: what it gives the table of backends.
#pragma once

#include "job/prepare/backward.hpp"
#include "job/prepare/job.hpp"
#include "phasor/execution.hpp"

namespace phasor::cuda {

Status run_prepare(job::PrepareJob& job, const Execution& execution);
Status run_prepare_backward(job::PrepareBackwardJob& job, const Execution& execution);

}  // namespace phasor::cuda

// SPDX-License-Identifier: Apache-2.0
// prepare_attention on the CPU: what it gives the table of backends.
#pragma once

#include "job/prepare/job.hpp"
#include "phasor/execution.hpp"

namespace phasor::cpu {

Status run_prepare(job::PrepareJob& job, const Execution& execution);

}  // namespace phasor::cpu

// SPDX-License-Identifier: Apache-2.0
// Places of tokens looked at on a device, where the caller asks for it (TokenPlaces::OnGpu::checked).
#pragma once

#include "job/prepare/job.hpp"
#include "phasor/execution.hpp"
#include "phasor/result.hpp"

namespace phasor::cuda {

/// The first token whose place is outside of the caches, in words. Waits for the stream; refused while it is being captured. The device of
/// the job is current.
Status check_places(const char* where, const job::PrepareJob& job, const Execution& execution);

}  // namespace phasor::cuda

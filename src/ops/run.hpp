// SPDX-License-Identifier: Apache-2.0
// How every public function ends: the backend of the job's device is chosen and runs it.
#pragma once

#include "backend/backend.hpp"

namespace phasor::ops {

template <backend::PlainData Job>
Status run(Result<Job> job, backend::Run<Job> backend::Backend::* operation, const Execution& execution) {
  if (!job.ok()) return job.status();
  const Result<const backend::Backend*> chosen = backend::choose(job->device);
  if (!chosen.ok()) return chosen.status();
  const backend::Run<Job> run = (*chosen)->*operation;
  return run == nullptr ? backend::not_there(**chosen) : run(*job, execution);
}

}  // namespace phasor::ops

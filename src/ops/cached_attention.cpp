// SPDX-License-Identifier: Apache-2.0
// Attention over a cache: check, choose the backend, run.
#include "phasor/cached_attention.hpp"

#include <vector>

#include "backend/backend.hpp"
#include "job/attention/cached_job.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {

using backend::Backend;

Result<std::int64_t> cached_attention_workspace(const CachedInputs& inputs, const AttentionSpec& spec) {
  return spec::without_exceptions([&]() -> Result<std::int64_t> {
    std::vector<job::AttentionTermJob> terms;
    job::CachedAttentionJob job;
    const Result<const Backend*> chosen =
        backend::choose_for(&Backend::cached_attention, job::make_cached_job({inputs, spec, nullptr, {}}, terms, job), inputs.q.device);
    if (!chosen.ok()) return chosen.status();
    return (*chosen)->cached_attention_workspace(job);
  });
}

Status cached_attention(const CachedInputs& inputs, const AttentionSpec& spec, const AttentionOutputs& outputs,
                        const Workspace& workspace) {
  return spec::without_exceptions([&]() -> Status {
    std::vector<job::AttentionTermJob> terms;
    job::CachedAttentionJob job;
    const Status checked = job::make_cached_job({inputs, spec, &outputs, workspace.memory}, terms, job);
    const Result<const Backend*> chosen = backend::choose_for(&Backend::cached_attention, checked, inputs.q.device);
    if (!chosen.ok()) return chosen.status();
    return (*chosen)->cached_attention(job, workspace, spec.execution);
  });
}

}  // namespace phasor

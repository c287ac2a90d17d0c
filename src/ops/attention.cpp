// SPDX-License-Identifier: Apache-2.0
// The public functions of attention: check, choose the backend, run. What memory holds (positions, starts, segments) is checked where it
// is.
#include "phasor/attention.hpp"

#include <vector>

#include "backend/backend.hpp"
#include "job/attention/check.hpp"
#include "job/attention/devices.hpp"
#include "job/attention/make_job.hpp"
#include "job/attention/weights_call.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using backend::Backend;
using job::AttentionCall;
using job::WeightsCall;

/// Of a forward call; outputs null: they are not known.
Status check_forward(const AttentionCall& call, const AttentionOutputs* outputs, std::span<const std::byte> workspace) {
  if (Status s = job::check_devices({call.where, *call.inputs, *call.spec, outputs}); !s) return s;
  if (Status s = job::check_call(call); !s || outputs == nullptr) return s;
  return job::check_outputs(call, *outputs, workspace);
}

/// Of a backward call; saved null: it is not known.
Status check_backward(const AttentionCall& call, const AttentionSaved* saved, std::span<const std::byte> workspace) {
  if (Status s = job::check_devices({call.where, *call.inputs, *call.spec, nullptr, saved, call.gradients}); !s) return s;
  if (Status s = job::check_call(call); !s) return s;
  if (Status s = job::check_gradients(call); !s || saved == nullptr) return s;
  return job::check_saved(call, *saved, workspace);
}

/// Weights need no values: of the call as it was asked for only the devices are looked at.
Status check_weights_devices(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionWeights& weights) {
  return job::check_devices({.where = "attention_weights", .inputs = inputs, .spec = spec, .weights = &weights});
}

/// A job and the terms that it points to.
template <class Job>
struct Made {
  Job job;
  std::vector<job::AttentionTermJob> terms;
};

}  // namespace

Result<std::int64_t> attention_workspace(const AttentionInputs& inputs, const AttentionSpec& spec) {
  return spec::without_exceptions([&]() -> Result<std::int64_t> {
    const AttentionCall call = {&inputs, &spec, nullptr, "attention"};
    const Result<const Backend*> chosen = backend::choose_for(&Backend::attention, check_forward(call, nullptr, {}), inputs.q.device);
    if (!chosen.ok()) return chosen.status();
    Made<job::AttentionJob> made;
    job::make_attention_job(call, made.terms, made.job);
    return (*chosen)->attention_workspace(made.job);
  });
}

Status attention(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionOutputs& outputs, const Workspace& workspace) {
  return spec::without_exceptions([&]() -> Status {
    const AttentionCall call = {&inputs, &spec, nullptr, "attention"};
    const Result<const Backend*> chosen =
        backend::choose_for(&Backend::attention, check_forward(call, &outputs, workspace.memory), inputs.q.device);
    if (!chosen.ok()) return chosen.status();
    Made<job::AttentionJob> made;
    job::make_attention_job(call, made.terms, made.job);
    made.job.outputs = outputs;
    return (*chosen)->attention(made.job, workspace, spec.execution);
  });
}

Result<std::int64_t> attention_backward_workspace(const AttentionInputs& inputs, const AttentionSpec& spec,
                                                  const AttentionGradients& gradients) {
  return spec::without_exceptions([&]() -> Result<std::int64_t> {
    const AttentionCall call = {&inputs, &spec, &gradients, "attention_backward"};
    const Result<const Backend*> chosen = backend::choose_for(&Backend::attention, check_backward(call, nullptr, {}), inputs.q.device);
    if (!chosen.ok()) return chosen.status();
    Made<job::AttentionBackwardJob> made;
    job::make_backward_job(call, made.terms, made.job);
    return (*chosen)->attention_backward_workspace(made.job);
  });
}

Status attention_backward(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionSaved& saved,
                          const AttentionGradients& gradients, const Workspace& workspace) {
  return spec::without_exceptions([&]() -> Status {
    const AttentionCall call = {&inputs, &spec, &gradients, "attention_backward"};
    const Result<const Backend*> chosen =
        backend::choose_for(&Backend::attention, check_backward(call, &saved, workspace.memory), inputs.q.device);
    if (!chosen.ok()) return chosen.status();
    Made<job::AttentionBackwardJob> made;
    job::make_backward_job(call, made.terms, made.job);
    made.job.saved = saved;
    return (*chosen)->attention_backward(made.job, workspace, spec.execution);
  });
}

Result<std::int64_t> attention_weights_workspace(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionRows& rows,
                                                 const AttentionWeights& weights) {
  return spec::without_exceptions([&]() -> Result<std::int64_t> {
    if (Status s = check_weights_devices(inputs, spec, weights); !s) return s;
    const WeightsCall of(inputs, spec, rows, weights);
    const Result<const Backend*> chosen = backend::choose_for(&Backend::attention, job::check_weights_call(of), inputs.q.device);
    if (!chosen.ok()) return chosen.status();
    Made<job::AttentionWeightsJob> made;
    job::make_weights_job(of, made.terms, made.job);
    return (*chosen)->attention_weights_workspace(made.job);
  });
}

Status attention_weights(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionRows& rows,
                         const AttentionWeights& weights, const Workspace& workspace) {
  return spec::without_exceptions([&]() -> Status {
    if (Status s = check_weights_devices(inputs, spec, weights); !s) return s;
    const WeightsCall of(inputs, spec, rows, weights);
    if (Status s = job::check_weights_call(of); !s) return s;
    const Result<const Backend*> chosen =
        backend::choose_for(&Backend::attention, job::check_weights(of, workspace.memory), inputs.q.device);
    if (!chosen.ok()) return chosen.status();
    Made<job::AttentionWeightsJob> made;
    job::make_weights_job(of, made.terms, made.job);
    return (*chosen)->attention_weights(made.job, workspace, spec.execution);
  });
}

Status merge_attention(std::span<const AttentionPart> parts, const AttentionOutputs& outputs, const Execution& execution) {
  return spec::without_exceptions([&]() -> Status {
    if (Status s = job::check_devices("merge_attention", parts, outputs); !s) return s;
    const Result<const Backend*> chosen = backend::choose_for(&Backend::attention, job::check_merge(parts, outputs), outputs.out.device);
    if (!chosen.ok()) return chosen.status();
    job::MergeJob merge = {outputs.out.device, parts.data(), static_cast<std::int64_t>(parts.size()), outputs};
    return (*chosen)->merge(merge, execution);
  });
}

Result<AttentionReport> explain_attention(const AttentionInputs& inputs, const AttentionSpec& spec) {
  return spec::without_exceptions([&]() -> Result<AttentionReport> {
    const AttentionCall call = {&inputs, &spec, nullptr, "explain_attention"};
    const Result<const Backend*> chosen = backend::choose_for(&Backend::attention, check_forward(call, nullptr, {}), inputs.q.device);
    if (!chosen.ok()) return chosen.status();
    Made<job::AttentionJob> made;
    job::make_attention_job(call, made.terms, made.job);
    return (*chosen)->explain_attention(made.job);
  });
}

}  // namespace phasor

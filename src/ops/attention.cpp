// SPDX-License-Identifier: Apache-2.0
// The public functions of attention: check that the call is on one device, choose the backend, run.
#include "phasor/attention.hpp"

#include "backend/backend.hpp"
#include "job/attention/devices.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using backend::Backend;

/// The backend of a call whose memory is on one device.
Result<const Backend*> backend_of(const job::AttentionMemory& memory) {
  return spec::without_exceptions([&]() -> Result<const Backend*> {
    if (Status s = job::check_devices(memory); !s) return s;
    return backend::choose(memory.inputs.q.device);
  });
}

}  // namespace

Result<std::int64_t> attention_workspace(const AttentionInputs& inputs, const AttentionSpec& spec) {
  const Result<const Backend*> chosen = backend_of({"attention", inputs, spec});
  if (!chosen.ok()) return chosen.status();
  return (*chosen)->attention_workspace(inputs, spec);
}

Status attention(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionOutputs& outputs, const Workspace& workspace) {
  const Result<const Backend*> chosen = backend_of({"attention", inputs, spec, &outputs});
  if (!chosen.ok()) return chosen.status();
  return (*chosen)->attention(inputs, spec, outputs, workspace);
}

Result<std::int64_t> attention_backward_workspace(const AttentionInputs& inputs, const AttentionSpec& spec,
                                                  const AttentionGradients& gradients) {
  const Result<const Backend*> chosen = backend_of({"attention_backward", inputs, spec, nullptr, nullptr, &gradients});
  if (!chosen.ok()) return chosen.status();
  return (*chosen)->attention_backward_workspace(inputs, spec, gradients);
}

Status attention_backward(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionSaved& saved,
                          const AttentionGradients& gradients, const Workspace& workspace) {
  const Result<const Backend*> chosen = backend_of({"attention_backward", inputs, spec, nullptr, &saved, &gradients});
  if (!chosen.ok()) return chosen.status();
  return (*chosen)->attention_backward(inputs, spec, saved, gradients, workspace);
}

Result<std::int64_t> attention_weights_workspace(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionRows& rows,
                                                 const AttentionWeights& weights) {
  const Result<const Backend*> chosen = backend_of({.where = "attention_weights", .inputs = inputs, .spec = spec, .weights = &weights});
  if (!chosen.ok()) return chosen.status();
  return (*chosen)->attention_weights_workspace(inputs, spec, rows, weights);
}

Status attention_weights(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionRows& rows,
                         const AttentionWeights& weights, const Workspace& workspace) {
  const Result<const Backend*> chosen = backend_of({.where = "attention_weights", .inputs = inputs, .spec = spec, .weights = &weights});
  if (!chosen.ok()) return chosen.status();
  return (*chosen)->attention_weights(inputs, spec, rows, weights, workspace);
}

Status merge_attention(std::span<const AttentionPart> parts, const AttentionOutputs& outputs, const Execution& execution) {
  return spec::without_exceptions([&]() -> Status {
    if (Status s = job::check_devices("merge_attention", parts, outputs); !s) return s;
    const Result<const Backend*> chosen = backend::choose(outputs.out.device);
    if (!chosen.ok()) return chosen.status();
    return (*chosen)->merge(parts, outputs, execution);
  });
}

Result<AttentionReport> explain_attention(const AttentionInputs& inputs, const AttentionSpec& spec) {
  const Result<const Backend*> chosen = backend_of({"explain_attention", inputs, spec});
  if (!chosen.ok()) return chosen.status();
  return (*chosen)->explain_attention(inputs, spec);
}

}  // namespace phasor

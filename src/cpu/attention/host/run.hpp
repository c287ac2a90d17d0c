// SPDX-License-Identifier: Apache-2.0
// The CPU's side of attention in the table of backends.
#pragma once

#include <cstddef>
#include <span>

#include "job/attention/weights_call.hpp"
#include "phasor/attention.hpp"

namespace phasor::cpu {

Result<std::int64_t> attention_workspace(const AttentionInputs& inputs, const AttentionSpec& spec);
Status run_attention(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionOutputs& outputs, const Workspace& workspace);
Result<std::int64_t> attention_backward_workspace(const AttentionInputs& inputs, const AttentionSpec& spec,
                                                  const AttentionGradients& gradients);
Status run_attention_backward(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionSaved& saved,
                              const AttentionGradients& gradients, const Workspace& workspace);
Result<std::int64_t> attention_weights_workspace(const job::WeightsCall& call);
Status run_attention_weights(const job::WeightsCall& call, const Workspace& workspace);
Status run_merge(std::span<const AttentionPart> parts, const AttentionOutputs& outputs, const Execution& execution);
Result<AttentionReport> explain_attention(const AttentionInputs& inputs, const AttentionSpec& spec);

}  // namespace phasor::cpu

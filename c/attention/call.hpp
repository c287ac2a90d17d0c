// SPDX-License-Identifier: Apache-2.0
// What every call of attention brings: its tensors in the places of the scheme's spec, and memory to work in.
#pragma once

#include <array>
#include <vector>

#include "phasor/attention.hpp"
#include "phasor/c/attention.h"
#include "phasor/cached_attention.hpp"

namespace phasor::c {

/// Inputs and spec of a call: as C++ takes them.
template <class Inputs>
struct AttentionCall {
  Inputs inputs;
  AttentionSpec spec;
};
/// Whether a call looks at v.
enum class Values { needed, unused };
AttentionCall<AttentionInputs> attention_call_of(const char* where, const phasor_scheme* scheme, const phasor_attention_inputs* inputs,
                                                 Values values = Values::needed);
AttentionCall<CachedInputs> cached_call_of(const char* where, const phasor_scheme* scheme, const phasor_cached_inputs* inputs);

AttentionOutputs attention_outputs_of(const char* where, const phasor_attention_outputs* outputs);
AttentionSaved attention_saved_of(const char* where, const phasor_attention_saved* saved);
AttentionGradients attention_gradients_of(const char* where, const phasor_attention_gradients* gradients);
/// Null: no memory.
Workspace workspace_of(const char* where, const phasor_workspace* workspace);

}  // namespace phasor::c

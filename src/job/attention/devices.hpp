// SPDX-License-Identifier: Apache-2.0
// Which memory an attention call names, tensor by tensor, and that all of it is on one device.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "phasor/attention.hpp"
#include "phasor/result.hpp"

namespace phasor::job {

/// read(name, view) for every tensor that a term reads.
void each_term_tensor(const AttentionTerm& term, const std::function<void(const char*, const ConstTensorView&)>& read);

/// write(name, view) for every tensor that gradients go to.
void each_gradient(const AttentionGradients& gradients, const std::function<void(const std::string&, const TensorView&)>& write);

/// Everything that a call reads or writes: where q is.
struct AttentionMemory {
  const char* where;
  const AttentionInputs& inputs;
  const AttentionSpec& spec;
  const AttentionOutputs* outputs = nullptr;
  const AttentionSaved* saved = nullptr;
  const AttentionGradients* gradients = nullptr;
  const AttentionWeights* weights = nullptr;
};
Status check_devices(const AttentionMemory& memory);
Status check_devices(const char* where, std::span<const AttentionPart> parts, const AttentionOutputs& outputs);

}  // namespace phasor::job

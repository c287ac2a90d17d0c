// SPDX-License-Identifier: Apache-2.0
#include "job/attention/call.hpp"

#include "plan/attention.hpp"

namespace phasor::job {

double scale_of(const AttentionCall& call) { return call.spec->scale.value_or(plan::default_scale(call.inputs->q.shape[3])); }

const TermGradient* gradient_of(const AttentionCall& call, std::size_t term) {
  static constexpr TermGradient kNone = {};
  if (call.gradients == nullptr) return nullptr;
  return call.gradients->terms.empty() ? &kNone : &call.gradients->terms[term];
}

}  // namespace phasor::job

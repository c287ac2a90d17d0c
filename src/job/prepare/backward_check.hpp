// SPDX-License-Identifier: Apache-2.0
// The checks of prepare_attention_backward that prepare_attention does not have: gradients, and memory that must be apart.
#pragma once

#include <array>

#include "job/prepare/backward.hpp"
#include "job/prepare/check.hpp"

namespace phasor::job {

inline constexpr const char* kBackward = "prepare_attention_backward";

/// q, k or v of a call with what belongs to it, and what messages call it.
struct BackwardSide {
  const char* name;
  const char* by_output;
  const char* by_input;
  const char* by_weight;
  const char* weight;
  const ConstTensorView& in;
  const PrepareGradient& gradient;
  const HeadNorm& norm;
};
inline std::array<BackwardSide, 3> sides_of(const PrepareInputs& inputs, const PrepareGradients& gradients, const PrepareSpec& spec) {
  return {
      {{"q", "by_output of q", "by_input of q", "by_weight of q", "the weight of q's norm", inputs.q, gradients.q, spec.q_norm},
       {"k", "by_output of k", "by_input of k", "by_weight of k", "the weight of k's norm", inputs.k, gradients.k, spec.k_norm},
       {"v", "by_output of v", "by_input of v", "by_weight of v", "the weight of v's norm", inputs.v, gradients.v, spec.v_norm}},
  };
}

/// A tensor's gradients against it.
Status check_side(const BackwardSide& side);
/// The gradient by factors of queries against those.
Status check_by_factors(const PrepareInputs& inputs, const TensorView& by_factors);
/// f64, on the device of the call, of `size` numbers at least.
Status check_workspace(const TensorView& workspace, std::int64_t size, Device device);
/// What is written has each element once, and is apart from all else but for gradients in place.
Status check_backward_apart(const PrepareBackwardCall& call);
/// And from positions and spec_of, which have been checked.
Status check_backward_lists(const PrepareBackwardCall& call);

}  // namespace phasor::job

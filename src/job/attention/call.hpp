// SPDX-License-Identifier: Apache-2.0
// A call of attention as its checks see it, and what they ask of its tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "job/attention/shape.hpp"
#include "job/views.hpp"
#include "phasor/attention.hpp"

namespace phasor::job {

/// What a call is of: gradients null for the forward.
struct AttentionCall {
  const AttentionInputs* inputs;
  const AttentionSpec* spec;
  const AttentionGradients* gradients;
  const char* where;     // "attention", "attention_backward" or "attention_weights"
  bool weights = false;  // of some rows alone: values are not read
};

inline bool is_given(const ConstTensorView& v) { return v.data != nullptr; }
/// Or has extents without elements, which need no memory: then its shape counts, as does that of its gradient.
inline bool is_named(const ConstTensorView& v) { return is_given(v) || (v.shape != Extents{} && is_empty(v)); }
/// Whether a gradient is wanted: not where its view is empty.
inline bool is_wanted(const TensorView& gradient) { return gradient.data != nullptr || gradient.shape != Extents{}; }

/// Whether sequences begin where lists say.
inline bool is_varlen(const Visibility& see) { return see.query_starts.size > 0 || see.key_starts.size > 0; }
/// Batch rows, or sequences of a varlen batch.
inline std::int64_t sequences_of(const AttentionCall& call) {
  const Visibility& see = call.spec->visibility;
  return is_varlen(see) ? see.query_starts.size - 1 : call.inputs->q.shape[0];
}

/// Of inputs that fit each other. Without any heads there is one key head: nothing will run, and no quotient of heads be by 0.
inline AttentionShape shape_of(const AttentionInputs& in) {
  return {.batch = in.q.shape[0],
          .queries = in.q.shape[1],
          .keys = in.k.shape[1],
          .heads = in.q.shape[2],
          .key_heads = in.k.shape[2] == 0 ? 1 : in.k.shape[2],
          .width = in.q.shape[3],
          .value_width = in.v.shape[3]};
}

/// On q . k and scaled terms.
double scale_of(const AttentionCall& call);

/// The gradients of a term; null: forward. Those of none where the call wants none of any term.
const TermGradient* gradient_of(const AttentionCall& call, std::size_t term);

struct NamedView {
  const char* name;
  ConstTensorView view;
};

}  // namespace phasor::job

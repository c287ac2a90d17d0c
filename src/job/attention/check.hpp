// SPDX-License-Identifier: Apache-2.0
// Every check of an attention call that needs no more than shapes, strides, dtypes, addresses and fields: all of those a device can leave
// to the host. What is written in memory (starts, positions, segments, numbers of a bias) is looked at where the memory is.
#pragma once

#include <array>
#include <span>

#include "job/attention/call.hpp"
#include "job/check.hpp"
#include "job/rotary.hpp"

namespace phasor::job {

/// Inputs and spec against each other: all of a call but its results. A call whose gradients are wanted has check_gradients after it.
Status check_call(const AttentionCall& call);
/// Whether a content's rotary can be applied to such tensors.
Status check_rotations(const AttentionCall& call);
/// The dtype that rotated numbers are rounded to: that of the inputs, as apply_rotary does; xPos multiplies factors in before it rounds.
DType rotated_dtype(const AttentionCall& call);
/// q or k as a content rotates it.
struct Side {
  const ConstTensorView& from;
  const std::optional<Positions>& positions;
  DType dtype;  // of the copy
};
/// The rotation of tensors of no batch row: it has every check and no elements. What is turned, and at which positions, comes later.
Result<RotateJob> make_rotation(const plan::RotaryPlan& plan, const Side& side, Direction direction);
/// Every term, and the gradients that are asked of it.
Status check_terms(const AttentionCall& call);
/// Gradients by what is no term.
Status check_gradients(const AttentionCall& call);

// ---- Results: where they go, and that this is apart from itself, from what is read and from the workspace ----

/// Shapes and dtypes of them alone.
Status check_output_views(const AttentionCall& call, const AttentionOutputs& outputs);
Status check_outputs(const AttentionCall& call, const AttentionOutputs& outputs, std::span<const std::byte> workspace);
/// What the forward gave, beside gradients.
Status check_saved(const AttentionCall& call, const AttentionSaved& saved, std::span<const std::byte> workspace);
Status check_merge(std::span<const AttentionPart> parts, const AttentionOutputs& outputs);

/// What a call writes, what it reads beside inputs and spec, and its workspace.
struct CallMemory {
  std::span<const NamedView> written;
  std::span<const NamedView> read;
  std::span<const std::byte> workspace;
};
/// Whether memory that is written is apart: from itself, from what is read, from the workspace; and the workspace from what is read.
Status check_memory(const AttentionCall& call, const CallMemory& memory);

// ---- Tensors ----

/// What a term's tensor must be: extents, and on which axes it may be 1 instead, shared.
struct TensorShape {
  const char* name;
  Extents extents;
  std::array<bool, 4> may_share{false, false, false, false};
};
/// Any strides will do.
Status check_tensor(const char* where, const ConstTensorView& v, const TensorShape& wanted);
/// Where a gradient goes, if it is given: shaped as what it is by, f32 or f64, each element once.
Status check_gradient(const char* where, const TensorView& v, const ConstTensorView& by, const char* name);
/// A tensor of the call: a valid view of that shape and dtype.
Status check_tensor_of(const char* where, const NamedView& x, const Extents& shape, DType dtype);
/// A result of inputs of a dtype: of the same, or of f32 where that has 16 bits. What is merged or added up later loses nothing so.
Status check_result_of(const char* where, const NamedView& x, const Extents& shape, DType inputs);

// ---- Terms ----

/// A term of a call.
struct TermCall {
  const AttentionCall* call;
  const TermGradient* gradient;  // null: forward
  const char* where;             // begins messages: "attention: terms[2]"
};
Status check_term(const BiasTerm& term, const TermCall& of);
Status check_term(const TableTerm& term, const TermCall& of);
Status check_term(const SegmentTerm& term, const TermCall& of);
Status check_term(const GridTerm& term, const TermCall& of);
Status check_term(const DecomposedTerm& term, const TermCall& of);
Status check_term(const DenseTerm& term, const TermCall& of);
Status check_term(const CopeTerm& term, const TermCall& of);

}  // namespace phasor::job

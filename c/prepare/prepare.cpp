// SPDX-License-Identifier: Apache-2.0
// prepare_attention and its gradients in C.
#include "phasor/prepare.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/call.hpp"
#include "core/fields.hpp"
#include "core/tensor.hpp"
#include "handles.hpp"
#include "phasor/c/prepare.h"
#include "specs/cache.hpp"
#include "specs/rotary.hpp"
#include "specs/serialised.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

constexpr const char* kPrepare = "prepare_attention";
constexpr const char* kBackward = "prepare_attention_backward";

void fields(auto& way, phasor_head_norm& c, HeadNorm& s) {
  way.choice("over", c.over, s.over, 2);
  way.choice("weight_as", c.weight_as, s.weight_as, 2);
  way.choice("cast", c.cast, s.cast, 2);
  way.flagged("epsilon", c.has_epsilon, c.epsilon, s.epsilon);
  way("width", c.width, s.width);
  way.apart("weight", c.weight);
}

HeadNorm norm_of(const char* where, const char* name, const phasor_head_norm* norm) {
  phasor_head_norm c = known(where, name, norm);
  HeadNorm value;
  value.kind = choice_of<HeadNorm::Kind>(where, "the norm's kind", c.kind, 3);
  if (value.kind == HeadNorm::Kind::none) {
    const Leftover unused(where, "a head without a norm");
    fields(unused, c, value);
    return value;
  }
  const Read way(where);
  fields(way, c, value);
  value.weight = tensor_of(where, (std::string("the weight of ") + name).c_str(), c.weight);
  return value;
}

PrepareSpec spec_of(const char* where, const phasor_prepare_spec* spec) {
  phasor_prepare_spec c = known(where, "the spec", spec);
  PrepareSpec value;
  value.q_norm = norm_of(where, "q_norm", c.q_norm);
  value.k_norm = norm_of(where, "k_norm", c.k_norm);
  value.v_norm = norm_of(where, "v_norm", c.v_norm);
  const Read way(where);
  way.choice("order", c.order, value.order, 2);
  way.choice("between", c.between, value.between, 2);
  way.flagged("query_scale", c.has_query_scale, c.query_scale, value.query_scale);
  way.flagged("q_rotary_offset", c.has_q_rotary_offset, c.q_rotary_offset, value.q_rotary_offset);
  return value;
}

struct Inputs {
  PrepareInputs tensors;
  Execution execution;
};
Inputs inputs_of(const char* where, const phasor_prepare_inputs* inputs) {
  const phasor_prepare_inputs c = known(where, "the inputs", need(where, "the inputs", inputs));
  return {{tensor_of(where, "q", c.q), tensor_of(where, "k", c.k), tensor_of(where, "v", c.v),
           tensor_of(where, "query_factors", c.query_factors)},
          execution_of(c.execution)};
}

/// A rotation with its rotaries: one is the handle's own, so that a call does not allocate for it.
class Rotation {
 public:
  Rotation(const char* where, const phasor_prepare_rotation* rotation) {
    const phasor_prepare_rotation c = known(where, "the rotation", rotation);
    if (c.list.count == 1) {
      value_.rotaries = {&need(where, "a rotary of the list", *need(where, "the list's rotaries", c.list.rotaries))->value, 1};
    } else {
      rotaries_ = rotaries_of(where, c.list.rotaries, c.list.count);
      value_.rotaries = rotaries_;
    }
    value_.positions = positions_of(where, "positions", c.positions);
    value_.spec_of = integer_list_of(where, "spec_of", c.list.spec_of);
    value_.cos = tensor_of(where, "cos", c.cos);
    value_.sin = tensor_of(where, "sin", c.sin);
    value_.layout = layout_of(where, c.layout);
  }
  const PrepareRotation& get() const { return value_; }

 private:
  std::vector<Rotary> rotaries_;
  PrepareRotation value_;
};

PrepareOutputs outputs_of(const char* where, const phasor_prepare_outputs* outputs) {
  const phasor_prepare_outputs c = known(where, "the outputs", need(where, "the outputs", outputs));
  return {cache_parts_of(where, "the cache of q", c.q), cache_parts_of(where, "the cache of k", c.k),
          cache_parts_of(where, "the cache of v", c.v), token_places_of(where, c.places)};
}

PrepareGradient gradient_of(const char* where, const std::string& name, const phasor_prepare_gradient& c) {
  return {tensor_of(where, (name + ".by_output").c_str(), c.by_output), tensor_of(where, (name + ".by_input").c_str(), c.by_input),
          tensor_of(where, (name + ".by_weight").c_str(), c.by_weight)};
}
PrepareGradients gradients_of(const char* where, const phasor_prepare_gradients* gradients) {
  const phasor_prepare_gradients c = known(where, "the gradients", need(where, "the gradients", gradients));
  return {gradient_of(where, "q", c.q), gradient_of(where, "k", c.k), gradient_of(where, "v", c.v),
          tensor_of(where, "the workspace", c.workspace), tensor_of(where, "by_query_factors", c.by_query_factors)};
}

/// Packed rows (B, T, 1, C), (B, T, C), (T, C) or (C): heads lie in C alone, one after the other.
TensorView packed_of(const char* where, const phasor_tensor* packed) {
  TensorView view = tensor_of(where, "packed", need(where, "packed", packed));
  if (packed->ndim == 3) {  // elsewhere (T, H, D)
    view.shape = {view.shape[1], view.shape[2], 1, view.shape[3]};
    view.strides = {view.strides[1], view.strides[2], 0, view.strides[3]};
  }
  if (view.shape[2] != 1 || (view.shape[3] > 1 && view.strides[3] != 1)) {
    fail(std::string(where) + ": packed has " + std::to_string(view.shape[2]) + " heads and stride " + std::to_string(view.strides[3]) +
         " on its last axis, wanted 1 and 1");
  }
  return view;
}

/// A view of C++ as a tensor of C over the same memory.
phasor_tensor c_tensor_of(const ConstTensorView& view, const phasor_tensor& like, std::int64_t* shape, std::int64_t* strides) {
  std::copy(view.shape.begin(), view.shape.end(), shape);
  std::copy(view.strides.begin(), view.strides.end(), strides);
  phasor_tensor tensor = like;
  tensor.data = const_cast<void*>(view.data);  // NOLINT(cppcoreguidelines-pro-type-const-cast): the caller's, as it gave it
  tensor.ndim = 4;
  tensor.shape = shape;
  tensor.strides = strides;
  tensor.byte_offset = 0;
  return tensor;
}

}  // namespace

extern "C" {

phasor_status phasor_unpack_qkv(const phasor_tensor* packed, const phasor_packed_heads* heads, phasor_unpacked_qkv* qkv,
                                phasor_error* error) {
  constexpr const char* kWhere = "unpack_qkv";
  return call(error, [&] {
    const TensorView from = packed_of(kWhere, packed);
    const phasor_packed_heads c = known(kWhere, "the heads", need(kWhere, "the heads", heads));
    // The tensors point into the struct, so that an older one, which would be shorter, cannot be filled.
    const std::size_t size = need(kWhere, "qkv", qkv)->size;
    if (size < sizeof(phasor_unpacked_qkv)) {
      fail("unpack_qkv: the size of qkv is " + std::to_string(size) + ", wanted at least " + std::to_string(sizeof(phasor_unpacked_qkv)));
    }
    const PrepareInputs made = unpack_qkv(from, {c.q_heads, c.k_heads, c.head_dim, c.first});
    if (made.q.shape[3] == 0) {
      fail("unpack_qkv: " + std::to_string(c.q_heads) + " + 2 x " + std::to_string(c.k_heads) + " heads of " + std::to_string(c.head_dim) +
           " channels from channel " + std::to_string(c.first) + " on, wanted what fits in rows of " + std::to_string(from.shape[3]));
    }
    phasor_unpacked_qkv filled{};
    filled.q = c_tensor_of(made.q, *packed, filled.shapes[0], filled.strides[0]);
    filled.k = c_tensor_of(made.k, *packed, filled.shapes[1], filled.strides[1]);
    filled.v = c_tensor_of(made.v, *packed, filled.shapes[2], filled.strides[2]);
    give(kWhere, "qkv", filled, qkv);
    phasor_tensor* const tensors[] = {&qkv->q, &qkv->k, &qkv->v};
    for (std::size_t i = 0; i < std::size(tensors); ++i) {
      tensors[i]->shape = qkv->shapes[i];
      tensors[i]->strides = qkv->strides[i];
    }
  });
}

phasor_status phasor_prepare_attention(const phasor_prepare_inputs* inputs, const phasor_prepare_rotation* rotation,
                                       const phasor_prepare_outputs* outputs, const phasor_prepare_spec* spec, phasor_error* error) {
  return call(error, [&] {
    const Inputs given = inputs_of(kPrepare, inputs);
    const Rotation by(kPrepare, rotation);
    const PrepareOutputs to = outputs_of(kPrepare, outputs);
    must(prepare_attention(given.tensors, by.get(), to, spec_of(kPrepare, spec), given.execution));
  });
}

phasor_status phasor_prepare_attention_backward_workspace(const phasor_prepare_inputs* inputs, const phasor_prepare_gradients* gradients,
                                                          const phasor_prepare_spec* spec, int64_t* numbers, phasor_error* error) {
  constexpr const char* kWhere = "prepare_attention_backward_workspace";
  return call(error, [&] {
    need(kWhere, "numbers", numbers);
    const Inputs given = inputs_of(kWhere, inputs);
    const PrepareGradients to = gradients_of(kWhere, gradients);
    *numbers = value_of(prepare_attention_backward_workspace(given.tensors, to, spec_of(kWhere, spec)));
  });
}

phasor_status phasor_prepare_attention_backward(const phasor_prepare_inputs* inputs, const phasor_prepare_rotation* rotation,
                                                const phasor_prepare_gradients* gradients, const phasor_prepare_spec* spec,
                                                phasor_error* error) {
  return call(error, [&] {
    const Inputs given = inputs_of(kBackward, inputs);
    const Rotation by(kBackward, rotation);
    const PrepareGradients to = gradients_of(kBackward, gradients);
    must(prepare_attention_backward(given.tensors, by.get(), to, spec_of(kBackward, spec), given.execution));
  });
}

}  // extern "C"

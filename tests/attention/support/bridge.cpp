// SPDX-License-Identifier: Apache-2.0
#include "attention/support/bridge.hpp"

#include "attention/support/bridge_schemes.hpp"
#include "attention/support/problems.hpp"

namespace phasor::test {
namespace {

/// Tensors of terms are never 16-bit here: their rounding would hide what is looked for.
DType parameter_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }
/// Of what schemes learn.
DType learned_dtype(DType dtype) { return parameters_are_narrow ? dtype : parameter_dtype(dtype); }

/// What the call rotates is rounded once, as q and k are stored.
void round_rotation(ref::Scheme& scheme, DType dtype) {
  const ref::Stored stored = dtype == DType::f16 ? ref::Stored::f16 : dtype == DType::bf16 ? ref::Stored::bf16 : ref::Stored::f64;
  if (auto* const rope = std::get_if<ref::Rope>(&scheme)) rope->ladder.stored = stored;
  if (auto* const mapped = std::get_if<ref::MappedRope>(&scheme)) mapped->ladder.stored = stored;
}

ref::Problem rounded_problem(ref::Problem p, DType dtype) {
  for (ref::Values* x : {&p.q, &p.k, &p.v}) round_all(*x, dtype);
  round_all(p.sinks, parameter_dtype(dtype));
  for (ref::Scheme& scheme : p.schemes) {
    round_rotation(scheme, dtype);
    for (const ref::Parameter& parameter : parameters_of(scheme)) round_all(parameter.values, learned_dtype(dtype));
  }
  return p;
}

template <class Body>
void each_element(const TensorView& v, const Body& body) {
  const auto [batch, tokens, heads, channels] = v.shape;
  for (std::int64_t n = 0; n < batch * tokens * heads * channels; ++n) {
    const std::int64_t row = n / channels;
    const std::int64_t token = row / heads;
    body(n, token / tokens * v.strides[0] + token % tokens * v.strides[1] + row % heads * v.strides[2] + n % channels * v.strides[3]);
  }
}

ref::Values in_token_order(const TensorView& view) {
  ref::Values values;
  each_element(view, [&](std::int64_t, std::int64_t at) { values.push_back(job::load_element(view.data, view.dtype, at)); });
  return values;
}

}  // namespace

Bridge::Bridge(const ref::Problem& given, DType dtype, Order order)
    : problem(rounded_problem(given, dtype)),
      dtype_(dtype),
      order_(order),
      schemes_(std::make_unique<SchemeBridge>(problem, learned_dtype(dtype))) {
  own_.schemes = problem.schemes;
  for (std::size_t n = 0; n < own_.schemes.size(); ++n) {
    for (const ref::Parameter& parameter : parameters_of(own_.schemes[n])) std::fill(parameter.values.begin(), parameter.values.end(), 0);
    schemes_->add(problem.schemes[n], own_.schemes[n]);
  }
  make_inputs();
  make_spec();
  make_outputs();
  make_gradients();
}

Bridge::~Bridge() = default;

Status Bridge::forward() {
  const Result<std::int64_t> bytes = attention_workspace(inputs, spec);
  if (!bytes) return bytes.status();
  return attention(inputs, spec, outputs, workspace(*bytes));
}

Status Bridge::backward(const ref::Values& out_gradient, const ref::Values& lse_gradient) {
  const Result<std::int64_t> bytes = attention_backward_workspace(inputs, spec, gradients);
  if (!bytes) return bytes.status();
  AttentionSaved saved{outputs.out, outputs.lse, held(out_gradient, out_seen())};
  if (!lse_gradient.empty()) saved.lse_gradient = store_.hold(lse_gradient, outputs.lse.dtype).view(lse_seen());
  return attention_backward(inputs, spec, saved, gradients, workspace(*bytes));
}

ref::Output Bridge::output() const { return {in_token_order(outputs.out), lse_->values()}; }

ref::Gradients Bridge::reference_gradients() {
  for (const auto& step : schemes_->back) step();
  own_.q = in_token_order(q_gradient_);
  own_.k = in_token_order(k_gradient_);
  own_.v = in_token_order(v_gradient_);
  if (sink_gradient_ != nullptr) own_.sinks = sink_gradient_->values();
  return own_;
}

Seen Bridge::seen(const Extents& s) const {
  if (order_ == Order::tokens_first) return as_is(s);
  return {s, {s[1] * s[2] * s[3], s[3], s[1] * s[3], 1}};
}

Seen Bridge::out_seen() const { return seen({problem.shape.batch, problem.shape.queries, problem.shape.heads, problem.shape.value_width}); }

Seen Bridge::lse_seen() const {
  const ref::Shape& s = problem.shape;
  return {{s.batch, s.queries, s.heads, 1}, {s.heads * s.queries, 1, s.queries, 1}};
}

/// Numbers in the order of tokens, as a tensor of the wanted order.
ConstTensorView Bridge::held(const ref::Values& values, const Seen& to) {
  const TensorView view = store_.make(static_cast<std::int64_t>(values.size()), dtype_).view(to);
  each_element(view,
               [&](std::int64_t n, std::int64_t at) { job::store_element(view.data, dtype_, at, values[static_cast<std::size_t>(n)]); });
  return view;
}

TensorView Bridge::cleared(const Extents& shape) {
  return store_.make(shape[0] * shape[1] * shape[2] * shape[3], dtype_).view(seen(shape));
}

void Bridge::make_inputs() {
  const ref::Shape& s = problem.shape;
  inputs.q = held(problem.q, seen({s.batch, s.queries, s.heads, s.width}));
  inputs.k = held(problem.k, seen({s.batch, s.keys, s.key_heads, s.width}));
  inputs.v = held(problem.v, seen({s.batch, s.keys, s.key_heads, s.value_width}));
}

void Bridge::make_spec() {
  const ref::Visibility& see = problem.visibility;
  spec.content = schemes_->content;
  spec.content_shift = schemes_->content_shift;
  spec.terms = schemes_->terms;
  spec.scale = problem.scale;
  spec.softcap = problem.softcap;
  const auto sinks = static_cast<std::int64_t>(problem.sinks.size());
  if (sinks > 0) spec.sinks = store_.hold(problem.sinks, parameter_dtype(dtype_)).view(as_is({1, 1, sinks, 1}));
  const ref::Dropout& d = problem.dropout;
  spec.dropout = {d.probability, d.seed, d.offset, d.first_head, d.first_sequence};
  spec.visibility.mask = see.causal ? Mask::causal : Mask::full;
  spec.visibility.left = see.left;
  spec.visibility.right = see.right;
  spec.visibility.prefix = see.prefix;
  spec.visibility.query_starts = see.query_starts;
  spec.visibility.key_starts = see.key_starts;
  if (!see.key_mask.empty()) spec.visibility.key_mask = {see.key_mask.data(), {problem.shape.keys, 1}};
  if (!problem.query_positions.empty()) {
    spec.query_positions = positions(problem.query_positions.data(), problem.shape.batch, problem.shape.queries);
  }
  if (!problem.key_positions.empty()) {
    spec.key_positions = positions(problem.key_positions.data(), problem.shape.batch, problem.shape.keys);
  }
}

void Bridge::make_outputs() {
  const ref::Shape& s = problem.shape;
  outputs.out = cleared(out_seen().shape);
  lse_ = &store_.make(s.batch * s.heads * s.queries, parameter_dtype(dtype_));
  outputs.lse = lse_->view(lse_seen());
}

void Bridge::make_gradients() {
  gradients.q = q_gradient_ = cleared(inputs.q.shape);
  gradients.k = k_gradient_ = cleared(inputs.k.shape);
  gradients.v = v_gradient_ = cleared(inputs.v.shape);
  gradients.content_shift = schemes_->content_shift_gradient;
  gradients.terms = schemes_->gradients;
  if (problem.sinks.empty()) return;
  sink_gradient_ = &store_.make(spec.sinks.shape[2], parameter_dtype(dtype_));
  gradients.sinks = sink_gradient_->view(as_is(spec.sinks.shape));
}

/// Not aligned, and full of NaN: nothing may be read that was not written.
std::span<std::byte> Bridge::workspace(std::int64_t bytes) {
  workspace_.assign(static_cast<std::size_t>(bytes) + 1, std::byte{0xff});
  return std::span(workspace_).subspan(1);
}

}  // namespace phasor::test

// SPDX-License-Identifier: Apache-2.0
// Where results and gradients go, and what a backward call reads beside the inputs.
#include <string>
#include <vector>

#include "job/attention/check.hpp"
#include "job/attention/devices.hpp"
#include "job/check.hpp"

namespace phasor::job {
namespace {

/// Shaped as the shift, of any strides: it is added to element by element.
Status check_shift_gradient(const AttentionCall& call) {
  const TensorView& shift = call.gradients->content_shift;
  if (!is_wanted(shift)) return {};
  const Extents& is = shift.shape;
  const Extents& wanted = call.spec->content_shift.shape;
  if (call.spec->content_shift.data == nullptr) return error(call.where, "gradients.content_shift is given, wanted a content_shift, too");
  if (is != wanted) {
    return error(call.where, "gradients.content_shift has shape ({}, {}, {}, {}), wanted ({}, {}, {}, {})", is[0], is[1], is[2], is[3],
                 wanted[0], wanted[1], wanted[2], wanted[3]);
  }
  if (shift.data == nullptr) return error(call.where, "gradients.content_shift has null data, wanted memory");
  if (shift.dtype == DType::f32 || shift.dtype == DType::f64) return {};
  return error(call.where, "gradients.content_shift is {}, wanted f32 or f64", name_of(shift.dtype));
}

Status check_sink_gradient(const AttentionCall& call) {
  const TensorView& sinks = call.gradients->sinks;
  if (!is_wanted(sinks)) return {};
  if (call.spec->sinks.data == nullptr) return error(call.where, "gradients.sinks is given, wanted sinks, too");
  const Extents& is = sinks.shape;
  const Extents& wanted = call.spec->sinks.shape;
  if (is != wanted) {
    return error(call.where, "gradients.sinks has shape ({}, {}, {}, {}), wanted ({}, {}, {}, {})", is[0], is[1], is[2], is[3], wanted[0],
                 wanted[1], wanted[2], wanted[3]);
  }
  if (Status s = check_view(call.where, "gradients.sinks", sinks); !s) return s;
  if (sinks.dtype == DType::f32 || sinks.dtype == DType::f64) return {};
  return error(call.where, "gradients.sinks is {}, wanted f32 or f64", name_of(sinks.dtype));
}

/// Everything that is written, with names that live as long.
struct Written {
  std::vector<std::string> names;
  std::vector<ConstTensorView> views;

  void add(std::string name, const ConstTensorView& view) {
    if (view.data == nullptr) return;
    names.push_back(std::move(name));
    views.push_back(view);
  }
  std::vector<NamedView> list() const {
    std::vector<NamedView> result;
    result.reserve(names.size());
    for (std::size_t n = 0; n < names.size(); ++n) result.push_back({names[n].c_str(), views[n]});
    return result;
  }
};
Written written_by(const AttentionGradients& gradients) {
  Written w;
  each_gradient(gradients, [&](const std::string& name, const TensorView& view) { w.add(name, view); });
  return w;
}

}  // namespace

Status check_gradients(const AttentionCall& call) {
  const AttentionGradients& gradients = *call.gradients;
  const ConstTensorView* const by[] = {&call.inputs->q, &call.inputs->k, &call.inputs->v};
  const NamedView to[] = {{"gradients.q", gradients.q}, {"gradients.k", gradients.k}, {"gradients.v", gradients.v}};
  const bool wanted[] = {is_wanted(gradients.q), is_wanted(gradients.k), is_wanted(gradients.v)};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!wanted[i]) continue;
    if (Status s = check_result_of(call.where, to[i], by[i]->shape, by[i]->dtype); !s) return s;
  }
  if (Status s = check_shift_gradient(call); !s) return s;
  return check_sink_gradient(call);
}

Status check_output_views(const AttentionCall& call, const AttentionOutputs& outputs) {
  const AttentionInputs& in = *call.inputs;
  const NamedView written[] = {{"out", outputs.out}, {"lse", outputs.lse}};
  const Extents rows = {in.q.shape[0], in.q.shape[1], in.q.shape[2], 1};
  if (Status s = check_result_of(call.where, written[0], {rows[0], rows[1], rows[2], in.v.shape[3]}, in.q.dtype); !s) return s;
  if (outputs.lse.data != nullptr) {
    const DType wanted = in.q.dtype == DType::f64 ? DType::f64 : DType::f32;
    if (Status s = check_tensor_of(call.where, written[1], rows, wanted); !s) return s;
  }
  return {};
}

Status check_outputs(const AttentionCall& call, const AttentionOutputs& outputs, std::span<const std::byte> workspace) {
  if (Status s = check_output_views(call, outputs); !s) return s;
  const NamedView written[] = {{"out", outputs.out}, {"lse", outputs.lse}};
  return check_memory(call, {written, {}, workspace});
}

Status check_saved(const AttentionCall& call, const AttentionSaved& saved, std::span<const std::byte> workspace) {
  const ConstTensorView& q = call.inputs->q;
  const Extents out = {q.shape[0], q.shape[1], q.shape[2], call.inputs->v.shape[3]};
  const Extents one = {q.shape[0], q.shape[1], q.shape[2], 1};
  const DType sum = q.dtype == DType::f64 ? DType::f64 : DType::f32;
  const NamedView read[] = {{"saved.out", saved.out},
                            {"saved.out_gradient", saved.out_gradient},
                            {"saved.lse", saved.lse},
                            {"saved.lse_gradient", saved.lse_gradient}};
  if (Status s = check_result_of(call.where, read[0], out, q.dtype); !s) return s;
  if (Status s = check_result_of(call.where, read[1], out, q.dtype); !s) return s;
  if (Status s = check_tensor_of(call.where, read[2], one, sum); !s) return s;
  if (saved.lse_gradient.data != nullptr) {
    if (Status s = check_tensor_of(call.where, read[3], one, sum); !s) return s;
  }
  const Written written = written_by(*call.gradients);
  return check_memory(call, {written.list(), read, workspace});
}

}  // namespace phasor::job

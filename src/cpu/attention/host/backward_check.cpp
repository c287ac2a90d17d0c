// SPDX-License-Identifier: Apache-2.0
// Checks of what a backward call reads beside the inputs, and of where its gradients go.
#include <string>
#include <vector>

#include "cpu/attention/host/backward.hpp"
#include "cpu/attention/host_terms/sinks.hpp"
#include "job/attention/check.hpp"
#include "job/attention/devices.hpp"
#include "job/check.hpp"

namespace phasor::attend {
namespace {

/// Shaped as the shift, of any strides: it is added to element by element.
Status check_shift_gradient(const Call& call) {
  const TensorView& shift = call.gradients->content_shift;
  if (!is_wanted(shift)) return {};
  const Extents& is = shift.shape;
  const Extents& wanted = call.spec->content_shift.shape;
  if (call.spec->content_shift.data == nullptr)
    return job::error(call.where, "gradients.content_shift is given, wanted a content_shift, too");
  if (is != wanted) {
    return job::error(call.where, "gradients.content_shift has shape ({}, {}, {}, {}), wanted ({}, {}, {}, {})", is[0], is[1], is[2], is[3],
                      wanted[0], wanted[1], wanted[2], wanted[3]);
  }
  if (shift.data == nullptr) return job::error(call.where, "gradients.content_shift has null data, wanted memory");
  if (shift.dtype == DType::f32 || shift.dtype == DType::f64) return {};
  return job::error(call.where, "gradients.content_shift is {}, wanted f32 or f64", name_of(shift.dtype));
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
  job::each_gradient(gradients, [&](const std::string& name, const TensorView& view) { w.add(name, view); });
  return w;
}

}  // namespace

Status check_gradients(const Call& call) {
  const AttentionGradients& gradients = *call.gradients;
  const ConstTensorView* const by[] = {&call.inputs->q, &call.inputs->k, &call.inputs->v};
  const NamedView to[] = {{"gradients.q", gradients.q}, {"gradients.k", gradients.k}, {"gradients.v", gradients.v}};
  const bool wanted[] = {is_wanted(gradients.q), is_wanted(gradients.k), is_wanted(gradients.v)};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!wanted[i]) continue;
    if (Status s = job::check_result_of(call.where, to[i], by[i]->shape, by[i]->dtype); !s) return s;
  }
  if (Status s = check_shift_gradient(call); !s) return s;
  return check_sink_gradient(call);
}

Status check_saved(const Call& call, const AttentionSaved& saved, std::span<const std::byte> workspace) {
  const ConstTensorView& q = call.inputs->q;
  const Extents out = {q.shape[0], q.shape[1], q.shape[2], call.inputs->v.shape[3]};
  const Extents one = {q.shape[0], q.shape[1], q.shape[2], 1};
  const DType sum = q.dtype == DType::f64 ? DType::f64 : DType::f32;
  const NamedView read[] = {{"saved.out", saved.out},
                            {"saved.out_gradient", saved.out_gradient},
                            {"saved.lse", saved.lse},
                            {"saved.lse_gradient", saved.lse_gradient}};
  if (Status s = job::check_result_of(call.where, read[0], out, q.dtype); !s) return s;
  if (Status s = job::check_result_of(call.where, read[1], out, q.dtype); !s) return s;
  if (Status s = job::check_tensor_of(call.where, read[2], one, sum); !s) return s;
  if (saved.lse_gradient.data != nullptr) {
    if (Status s = job::check_tensor_of(call.where, read[3], one, sum); !s) return s;
  }
  const Written written = written_by(*call.gradients);
  return check_memory(call, {written.list(), read, workspace});
}

}  // namespace phasor::attend

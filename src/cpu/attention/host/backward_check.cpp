// SPDX-License-Identifier: Apache-2.0
// Checks of what a backward call reads beside the inputs, and of where its gradients go.
#include <string>
#include <vector>

#include "cpu/attention/host/backward.hpp"
#include "cpu/attention/host_terms/sinks.hpp"
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

/// Which gradients a term has.
struct Held {
  const char* name;
  bool table = true;
  bool second = false;
  bool features = false;
  bool shift = false;
  bool parameters = false;
};
Held held_by(const BiasTerm& /*term*/) { return {.name = "a bias", .table = false, .features = true, .parameters = true}; }
Held held_by(const TableTerm& term) {
  if (term.side == TableSide::value) return {.name = "a table on the value side"};
  if (term.side == TableSide::key) return {.name = "a table on the key side", .features = true};
  return {.name = "a table on the query side", .features = true, .shift = true};
}
Held held_by(const SegmentTerm& /*term*/) { return {.name = "a segment term", .shift = true}; }
Held held_by(const GridTerm& /*term*/) { return {.name = "a grid bias"}; }
Held held_by(const DecomposedTerm& /*term*/) { return {.name = "a decomposed term", .second = true}; }
Held held_by(const DenseTerm& /*term*/) { return {.name = "a dense bias"}; }
Held held_by(const CopeTerm& /*term*/) { return {.name = "CoPE"}; }

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

bool is_wanted(const TensorView& gradient) { return gradient.data != nullptr || gradient.shape != Extents{}; }

Status check_gradients(const Call& call) {
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

Status check_term_gradient(const AttentionTerm& term, const TermGradient& g, const char* where) {
  const Held held = std::visit([](const auto& one) { return held_by(one); }, term);
  const struct {
    const char* name;
    bool wanted;
    bool held;
  } fields[] = {{"table", is_wanted(g.table), held.table},
                {"second", is_wanted(g.second), held.second},
                {"features", is_wanted(g.features), held.features},
                {"shift", is_wanted(g.shift), held.shift},
                {"parameters", is_wanted(g.parameters), held.parameters}};
  for (const auto& field : fields) {
    if (field.wanted && !field.held) {
      return job::error(where, "the gradient of {} is asked for, which {} does not have", field.name, held.name);
    }
  }
  return {};
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
  if (Status s = check_result_of(call.where, read[0], out, q.dtype); !s) return s;
  if (Status s = check_result_of(call.where, read[1], out, q.dtype); !s) return s;
  if (Status s = check_tensor_of(call.where, read[2], one, sum); !s) return s;
  if (saved.lse_gradient.data != nullptr) {
    if (Status s = check_tensor_of(call.where, read[3], one, sum); !s) return s;
  }
  const Written written = written_by(*call.gradients);
  return check_memory(call, {written.list(), read, workspace});
}

}  // namespace phasor::attend

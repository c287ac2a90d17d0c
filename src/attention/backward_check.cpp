// SPDX-License-Identifier: Apache-2.0
// Checks of what a backward call reads beside the inputs, and of where its gradients go.
#include <array>

#include "attention/backward.hpp"
#include "job/check.hpp"
#include "job/overlap.hpp"

namespace phasor::attend {
namespace {

struct Named {
  const char* name;
  ConstTensorView view;
};

Status check_shape(const char* where, const Named& x, const Extents& wanted) {
  const Extents& is = x.view.shape;
  if (is == wanted) return {};
  return job::error(where, "{} is ({}, {}, {}, {}), wanted ({}, {}, {}, {})", x.name, is[0], is[1], is[2], is[3], wanted[0], wanted[1],
                    wanted[2], wanted[3]);
}

Status check_tensor(const char* where, const Named& x, const Extents& shape, DType dtype) {
  if (Status s = job::check_view(where, x.name, x.view); !s) return s;
  if (Status s = check_shape(where, x, shape); !s) return s;
  if (x.view.dtype == dtype) return {};
  return job::error(where, "{} is {}, wanted {}", x.name, name_of(x.view.dtype), name_of(dtype));
}

/// q, k and v, those that are wanted.
struct Written {
  std::array<Named, 3> list;
  std::size_t count = 0;
};
Written written_by(const AttentionGradients& gradients) {
  Written w;
  const Named all[] = {{"gradients.q", gradients.q}, {"gradients.k", gradients.k}, {"gradients.v", gradients.v}};
  const bool wanted[] = {is_wanted(gradients.q), is_wanted(gradients.k), is_wanted(gradients.v)};
  for (std::size_t i = 0; i < 3; ++i) {
    if (wanted[i]) w.list[w.count++] = all[i];
  }
  return w;
}

Status check_apart(const char* where, const Named& written, const Named& other) {
  if (other.view.data == nullptr || job::is_empty(other.view) || job::is_empty(written.view)) return {};
  if (job::overlap(written.view, other.view) == job::Overlap::none) return {};
  return job::error(where, "{} shares memory with {} (or cannot be shown not to), wanted memory of its own", written.name, other.name);
}

/// Shaped as the shift, of any strides: it is added to element by element.
Status check_shift_gradient(const Call& call) {
  const TensorView& shift = call.gradients->content_shift;
  if (!is_wanted(shift)) return {};
  if (call.spec->content_shift.data == nullptr)
    return job::error(call.where, "gradients.content_shift is given, wanted a content_shift, too");
  if (Status s = check_shape(call.where, {"gradients.content_shift", shift}, call.spec->content_shift.shape); !s) return s;
  if (shift.data == nullptr) return job::error(call.where, "gradients.content_shift has null data, wanted memory");
  if (shift.dtype == DType::f32 || shift.dtype == DType::f64) return {};
  return job::error(call.where, "gradients.content_shift is {}, wanted f32 or f64", name_of(shift.dtype));
}

}  // namespace

bool is_wanted(const TensorView& gradient) { return gradient.data != nullptr || gradient.shape != Extents{}; }

Status check_gradients(const Call& call) {
  const AttentionGradients& gradients = *call.gradients;
  const std::size_t terms = gradients.terms.size();
  if (terms != 0 && terms != call.spec->terms.size()) {
    return job::error(call.where, "gradients.terms has {} elements, wanted 0 or {}", terms, call.spec->terms.size());
  }
  const ConstTensorView* const by[] = {&call.inputs->q, &call.inputs->k, &call.inputs->v};
  const TensorView* const to[] = {&gradients.q, &gradients.k, &gradients.v};
  const char* const names[] = {"gradients.q", "gradients.k", "gradients.v"};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!is_wanted(*to[i])) continue;
    if (Status s = check_tensor(call.where, {names[i], *to[i]}, by[i]->shape, by[i]->dtype); !s) return s;
    if (!job::is_empty(*to[i]) && job::self_overlap(*to[i]) != job::Overlap::none) {
      return job::error(call.where, "{} has elements that repeat (or cannot be shown not to), wanted each element once", names[i]);
    }
  }
  const Written written = written_by(gradients);
  for (std::size_t i = 0; i < written.count; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (Status s = check_apart(call.where, written.list[i], written.list[j]); !s) return s;
    }
  }
  return check_shift_gradient(call);
}

Status check_saved(const Call& call, const AttentionSaved& saved) {
  const ConstTensorView& q = call.inputs->q;
  const Extents out = {q.shape[0], q.shape[1], q.shape[2], call.inputs->v.shape[3]};
  const Extents one = {q.shape[0], q.shape[1], q.shape[2], 1};
  const DType sum = q.dtype == DType::f64 ? DType::f64 : DType::f32;
  if (Status s = check_tensor(call.where, {"saved.out", saved.out}, out, q.dtype); !s) return s;
  if (Status s = check_tensor(call.where, {"saved.out_gradient", saved.out_gradient}, out, q.dtype); !s) return s;
  if (Status s = check_tensor(call.where, {"saved.lse", saved.lse}, one, sum); !s) return s;
  if (saved.lse_gradient.data != nullptr) {
    if (Status s = check_tensor(call.where, {"saved.lse_gradient", saved.lse_gradient}, one, sum); !s) return s;
  }
  const Named read[] = {{"q", q},
                        {"k", call.inputs->k},
                        {"v", call.inputs->v},
                        {"saved.out", saved.out},
                        {"saved.lse", saved.lse},
                        {"saved.out_gradient", saved.out_gradient},
                        {"saved.lse_gradient", saved.lse_gradient}};
  const Written written = written_by(*call.gradients);
  for (std::size_t i = 0; i < written.count; ++i) {
    for (const Named& x : read) {
      if (Status s = check_apart(call.where, written.list[i], x); !s) return s;
    }
  }
  return {};
}

}  // namespace phasor::attend

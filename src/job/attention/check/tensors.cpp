// SPDX-License-Identifier: Apache-2.0
// What a tensor of an attention call must be.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "job/attention/check.hpp"
#include "job/overlap.hpp"

namespace phasor::job {
namespace {

constexpr const char* kOrdinal[] = {"first", "second", "third", "last"};

/// check_view wants a contiguous last axis: the axes are shown to it one after the other.
Status check_elements(const char* where, const char* name, const ConstTensorView& v) {
  if (v.data == nullptr && is_empty(v)) return {};  // of no elements: it needs none
  const Extents& n = v.shape;
  const Extents& s = v.strides;
  if (Status status = check_view(where, name, {v.data, v.dtype, {n[0], n[1], n[2], 1}, {s[0], s[1], s[2], 1}}); !status) return status;
  return check_view(where, name, {v.data, v.dtype, {1, 1, n[3], 1}, {0, 0, s[3], 1}});
}

/// Every axis strides over all that the smaller ones reach: then no element repeats.
bool is_nested(const ConstTensorView& v) {
  std::array<std::size_t, 4> order = {0, 1, 2, 3};
  const auto size = [&](std::size_t axis) { return std::abs(v.strides[axis]); };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size(a) < size(b); });
  std::int64_t reach = 1;
  for (const std::size_t axis : order) {
    if (v.shape[axis] == 1) continue;
    if (size(axis) < reach) return false;
    reach += size(axis) * (v.shape[axis] - 1);
  }
  return true;
}

bool repeats(const ConstTensorView& v) {
  if (is_empty(v) || is_nested(v)) return false;
  return (v.shape[3] != 1 && v.strides[3] != 1) || self_overlap(v) != Overlap::none;
}

}  // namespace

Status check_tensor(const char* where, const ConstTensorView& v, const TensorShape& wanted) {
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const std::int64_t is = v.shape[axis];
    if (is == wanted.extents[axis] || (is == 1 && wanted.may_share[axis])) continue;
    return error(where, "{} has {} on its {} axis, wanted {}{}", wanted.name, is, kOrdinal[axis], wanted.extents[axis],
                 wanted.may_share[axis] && wanted.extents[axis] != 1 ? " or 1" : "");
  }
  return check_elements(where, wanted.name, v);
}

Status check_gradient(const char* where, const TensorView& v, const ConstTensorView& by, const char* name) {
  if (!is_wanted(v)) return {};
  const std::string title = std::string("the gradient of ") + name;
  if (!is_named(by)) return error(where, "{} is asked for, but there is no {}", title, name);
  if (v.shape != by.shape) return error(where, "{} has another shape than {}, wanted the same", title, name);
  if (v.dtype != DType::f32 && v.dtype != DType::f64) return error(where, "{} is {}, wanted f32 or f64", title, name_of(v.dtype));
  if (Status s = check_elements(where, title.c_str(), v); !s) return s;
  if (repeats(v)) {
    return error(where, "{} goes to a view in which elements repeat (or cannot be shown not to), wanted each element once", title);
  }
  return {};
}

Status check_tensor_of(const char* where, const NamedView& x, const Extents& shape, DType dtype) {
  const ConstTensorView& v = x.view;
  if (v.shape != shape) {
    return error(where, "{} has shape ({}, {}, {}, {}), wanted ({}, {}, {}, {})", x.name, v.shape[0], v.shape[1], v.shape[2], v.shape[3],
                 shape[0], shape[1], shape[2], shape[3]);
  }
  if (Status s = check_view(where, x.name, v); !s) return s;
  if (v.dtype == dtype) return {};
  return error(where, "{} is {}, wanted {}", x.name, name_of(v.dtype), name_of(dtype));
}

Status check_result_of(const char* where, const NamedView& x, const Extents& shape, DType inputs) {
  const DType is = x.view.dtype;
  if (bytes_of(inputs) != 2) return check_tensor_of(where, x, shape, inputs);
  if (Status s = check_tensor_of(where, x, shape, is); !s) return s;
  if (is == inputs || is == DType::f32) return {};
  return error(where, "{} is {}, wanted {} or f32", x.name, name_of(is), name_of(inputs));
}

}  // namespace phasor::job

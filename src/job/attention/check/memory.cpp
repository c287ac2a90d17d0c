// SPDX-License-Identifier: Apache-2.0
// Which memory a call reads and writes, and that it is apart.
#include <algorithm>
#include <string>

#include "job/attention/check.hpp"
#include "job/attention/devices.hpp"
#include "job/attention/shape.hpp"
#include "job/check.hpp"
#include "job/overlap.hpp"

namespace phasor::job {
namespace {

/// `count` bytes as a tensor of at most those: overlap works on bytes, whatever the alignment, and the odd last byte of a workspace is
/// never used.
ConstTensorView bytes_at(const void* data, std::int64_t count) { return {data, DType::f16, {1, 1, 1, count / 2}, {0, 0, 0, 1}}; }

ConstTensorView list_at(const Integers& list) { return bytes_at(list.data, (list.size * list.bytes + 1) / 2 * 2); }

/// What lies between the first and the last element, where the last axis is not contiguous: overlap wants it so.
ConstTensorView hull(const ConstTensorView& v) {
  if (v.data == nullptr || is_empty(v) || v.shape[3] == 1 || v.strides[3] == 1) return v;
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const std::int64_t reach = (v.shape[axis] - 1) * v.strides[axis];
    (reach < 0 ? low : high) += reach;
  }
  return {static_cast<const std::byte*>(v.data) + low * bytes_of(v.dtype), v.dtype, {1, 1, 1, high - low + 1}, {0, 0, 0, 1}};
}

ConstTensorView mask_at(const KeyMask& mask, const AttentionShape& shape) {
  const std::int64_t reach[] = {(shape.batch - 1) * mask.strides[0], (shape.keys - 1) * mask.strides[1]};
  const std::int64_t low = std::min<std::int64_t>(reach[0], 0) + std::min<std::int64_t>(reach[1], 0);
  const std::int64_t high = std::max<std::int64_t>(reach[0], 0) + std::max<std::int64_t>(reach[1], 0);
  return bytes_at(mask.data + low, (high - low + 2) / 2 * 2);
}

/// Stops at the first error.
class Apart {
 public:
  Apart(const char* where, const CallMemory& memory) : where_(where), memory_(memory) {}

  Status status;

  void read(const char* name, const ConstTensorView& view) { read_by("", name, view); }
  void read_by(const std::string& owner, const char* name, const ConstTensorView& view) {
    if (!status || view.data == nullptr) return;
    const ConstTensorView seen = hull(view);
    for (const NamedView& written : memory_.written) {
      if (overlap(hull(written.view), seen) != Overlap::none) {
        status = error(where_, "{} overlaps {}{}, wanted memory apart", written.name, owner, name);
        return;
      }
    }
    if (overlap(workspace(), seen) != Overlap::none) {
      status = error(where_, "the workspace overlaps {}{}, wanted memory apart", owner, name);
    }
  }
  void read(const char* name, const std::optional<Positions>& positions) {
    if (positions && positions->data != nullptr) read(name, view_of(*positions));
  }
  void read(const char* name, const Integers& list) {
    if (list.size > 0) read(name, list_at(list));
  }

  void write(std::size_t n) {
    const NamedView& x = memory_.written[n];
    if (!status || x.view.data == nullptr || is_empty(x.view)) return;
    const bool in_runs = x.view.shape[3] == 1 || x.view.strides[3] == 1;  // gradients of tables may have any strides
    if (in_runs && self_overlap(x.view) != Overlap::none) {
      status = error(where_, "{} has strides by which elements overlap, wanted each element once", x.name);
      return;
    }
    for (std::size_t other = 0; other < n; ++other) {
      if (overlap(hull(x.view), hull(memory_.written[other].view)) == Overlap::none) continue;
      status = error(where_, "{} overlaps {}, wanted memory apart", x.name, memory_.written[other].name);
      return;
    }
    if (overlap(workspace(), hull(x.view)) != Overlap::none) {
      status = error(where_, "the workspace overlaps {}, wanted memory apart", x.name);
    }
  }

 private:
  ConstTensorView workspace() const { return bytes_at(memory_.workspace.data(), static_cast<std::int64_t>(memory_.workspace.size())); }

  const char* where_;
  const CallMemory& memory_;
};

}  // namespace

Status check_memory(const AttentionCall& call, const CallMemory& memory) {
  const AttentionSpec& spec = *call.spec;
  const Visibility& see = spec.visibility;
  Apart apart(call.where, memory);
  for (std::size_t n = 0; n < memory.written.size(); ++n) apart.write(n);
  apart.read("q", call.inputs->q);
  apart.read("k", call.inputs->k);
  apart.read("v", call.inputs->v);
  for (const NamedView& x : memory.read) apart.read(x.name, x.view);
  apart.read("content_shift", spec.content_shift);
  apart.read("sinks", spec.sinks);
  apart.read("query_positions", spec.query_positions);
  apart.read("key_positions", spec.key_positions);
  apart.read("prefix", see.prefix);
  apart.read("query_starts", see.query_starts);
  apart.read("key_starts", see.key_starts);
  const AttentionShape shape = shape_of(*call.inputs);
  if (see.key_mask.data != nullptr && shape.batch * shape.keys > 0) apart.read("key_mask", mask_at(see.key_mask, shape));
  for (std::size_t t = 0; t < spec.terms.size(); ++t) {
    const std::string owner = "terms[" + std::to_string(t) + "].";
    each_term_tensor(spec.terms[t], [&](const char* name, const ConstTensorView& view) { apart.read_by(owner, name, view); });
  }
  return apart.status;
}

}  // namespace phasor::job

// SPDX-License-Identifier: Apache-2.0
// Outputs that are made one: all of one shape and dtype, apart from each other or the same elements.
#include <string>
#include <string_view>

#include "job/attention/check.hpp"
#include "job/overlap.hpp"

namespace phasor::job {
namespace {

constexpr const char* kMerge = "merge_attention";

struct Merge {
  std::span<const AttentionPart> parts;
  const AttentionOutputs& outputs;
};

Status check_lse(const std::string& name, const ConstTensorView& lse, const ConstTensorView& out) {
  const Extents& s = out.shape;
  return check_tensor_of(kMerge, {name.c_str(), lse}, {s[0], s[1], s[2], 1}, out.dtype == DType::f64 ? DType::f64 : DType::f32);
}

/// Shape and dtype of a part: that of the result or, for all parts alike, f32 where that has 16 bits.
Status check_part(const Merge& merge, std::size_t n, const std::string& owner) {
  const ConstTensorView result = merge.outputs.out;
  const std::string name = owner + "out";
  const NamedView out = {name.c_str(), merge.parts[n].out};
  const Status status = n == 0 ? check_result_of(kMerge, out, result.shape, result.dtype)
                               : check_tensor_of(kMerge, out, result.shape, merge.parts[0].out.dtype);
  return status.ok() ? check_lse(owner + "lse", merge.parts[n].lse, result) : status;
}

/// The same elements or none.
Status check_apart(const std::string& owner, const ConstTensorView& written, const char* name, const AttentionPart& part) {
  for (const auto& [of_part, view] : {std::pair{"out", &part.out}, {"lse", &part.lse}}) {
    const Overlap both = overlap(written, *view);
    if (both == Overlap::none || (both == Overlap::exact && std::string_view(of_part) == name)) continue;
    return error(kMerge, "{} overlaps {}{}, wanted the same elements or none", name, owner, of_part);
  }
  return {};
}

Status check_outputs(const AttentionOutputs& outputs) {
  if (Status s = check_view(kMerge, "out", outputs.out); !s) return s;
  ConstTensorView lse = outputs.lse;
  if (lse.data != nullptr) {
    if (Status s = check_lse("lse", lse, outputs.out); !s) return s;
    if (overlap(outputs.out, lse) != Overlap::none) return error(kMerge, "lse overlaps out, wanted memory apart");
    if (self_overlap(lse) != Overlap::none) return error(kMerge, "lse has strides by which elements overlap, wanted each once");
  }
  if (self_overlap(outputs.out) == Overlap::none) return {};
  return error(kMerge, "out has strides by which elements overlap, wanted each once");
}

}  // namespace

Status check_merge(std::span<const AttentionPart> parts, const AttentionOutputs& outputs) {
  if (parts.empty()) return error(kMerge, "no parts are given, wanted one at least");
  const Merge merge = {parts, outputs};
  if (Status s = check_outputs(merge.outputs); !s) return s;
  for (std::size_t n = 0; n < merge.parts.size(); ++n) {
    const AttentionPart& part = merge.parts[n];
    const std::string owner = spec::format("parts[{}].", n);
    if (Status s = check_part(merge, n, owner); !s) return s;
    if (Status s = check_apart(owner, merge.outputs.out, "out", part); !s) return s;
    if (merge.outputs.lse.data == nullptr) continue;
    if (Status s = check_apart(owner, merge.outputs.lse, "lse", part); !s) return s;
  }
  return {};
}

}  // namespace phasor::job

// SPDX-License-Identifier: Apache-2.0
// Checks of norms and sizes.
#include <cmath>

#include "job/prepare/check.hpp"
#include "spec/format.hpp"

namespace phasor::job {
namespace {

Status check_weight(const PreparedTensor& tensor, std::int64_t width) {
  const ConstTensorView& weight = tensor.norm.weight;
  if (Status s = check_view(kPrepare, "weight of a norm", weight); !s) return s;
  if (weight.dtype == DType::f64) return error(kPrepare, "weight of {}'s norm is f64, wanted f32, f16 or bf16", tensor.name);
  const auto& [one, also_one, heads, channels] = weight.shape;
  if (one != 1 || also_one != 1 || (heads != 1 && heads != tensor.in.shape[2]) || channels != width) {
    return error(kPrepare, "weight of {}'s norm has shape ({}, {}, {}, {}), wanted (1, 1, 1 or {}, {})", tensor.name, one, also_one, heads,
                 channels, tensor.in.shape[2], width);
  }
  return check_device(kPrepare, "weight of a norm is", weight.device, tensor.in.device);
}

}  // namespace

Status check_norm(const PreparedTensor& tensor, bool after_rotation) {
  const HeadNorm& norm = tensor.norm;
  if (norm.kind > HeadNorm::Kind::l2 || norm.over > HeadNorm::Over::all_heads || norm.weight_as > HeadNorm::Weight::one_plus ||
      norm.cast > HeadNorm::Cast::before_weight) {
    return error(kPrepare, "norm of {} has an unknown kind, extent, weight or cast", tensor.name);
  }
  if (norm.kind == HeadNorm::Kind::none) {
    if (norm.weight.data == nullptr) return {};
    return error(kPrepare, "norm of {} is none and has a weight, wanted rms or l2", tensor.name);
  }
  if (!(std::isfinite(norm.epsilon) && norm.epsilon >= 0)) {
    return error(kPrepare, "norm of {} has epsilon {}, wanted a finite one of 0 or more", tensor.name, norm.epsilon);
  }
  if (norm.width < 0 || norm.width > tensor.in.shape[3]) {
    return error(kPrepare, "norm of {} has width {}, wanted 0 (all) to {}", tensor.name, norm.width, tensor.in.shape[3]);
  }
  if (after_rotation && norm.over == HeadNorm::Over::all_heads) {
    return Status::unsupported(spec::format("{}: norm of {} is over all heads and after the rotation, wanted it before, or over each head",
                                            kPrepare, tensor.name));
  }
  return norm.weight.data == nullptr ? Status() : check_weight(tensor, norm.width == 0 ? tensor.in.shape[3] : norm.width);
}

Status check_tokens(const char* where, const char* name, const Extents& shape) {
  constexpr std::int64_t kMost = std::int64_t{1} << 56;
  if (shape[0] == 0 || shape[1] <= kMost / shape[0]) return {};
  return error(where, "{} has {} x {} tokens, wanted 2^56 at most", name, shape[0], shape[1]);
}

}  // namespace phasor::job

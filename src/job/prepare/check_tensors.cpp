// SPDX-License-Identifier: Apache-2.0
// Checks of norms, and of memory that must be apart.
#include <cmath>
#include <optional>

#include "job/overlap.hpp"
#include "job/prepare/check.hpp"
#include "spec/format.hpp"

namespace phasor::job {
namespace {

/// A cache as a tensor, where it has four axes and elements of a dtype.
std::optional<TensorView> tensor_of(const CacheView& cache) {
  const auto& [layers, blocks, block, heads, outer, inner] = cache.shape;
  if (cache.storage > Storage::bf16 || layers != 1 || outer != 1 || (inner > 1 && cache.strides[5] != 1)) return std::nullopt;
  const DType dtype = cache.storage == Storage::f32 ? DType::f32 : cache.storage == Storage::f16 ? DType::f16 : DType::bf16;
  return TensorView{
      cache.data, dtype, {blocks, block, heads, inner}, {cache.strides[1], cache.strides[2], cache.strides[3], 1}, cache.device};
}

struct Range {
  const std::byte* begin;
  const std::byte* end;
};
template <std::size_t axes>
Range range_of(const void* data, const std::array<std::int64_t, axes>& shape, const std::array<std::int64_t, axes>& strides,
               std::int64_t size) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::size_t a = 0; a < axes; ++a) {
    const std::int64_t reach = (shape[a] - 1) * strides[a];
    (reach < 0 ? low : high) += reach;
  }
  const auto* const first = static_cast<const std::byte*>(data);
  return {first + low * size, first + (high + 1) * size};
}

bool share(const ConstTensorView& in, const CacheView& out) {
  if (is_empty(in)) return false;
  if (const std::optional<TensorView> tensor = tensor_of(out)) return overlap(in, *tensor) != Overlap::none;
  const Range a = range_of(in.data, in.shape, in.strides, bytes_of(in.dtype));
  const Range b = range_of(out.data, out.shape, out.strides, bytes_of(out.storage));
  return a.begin < b.end && b.begin < a.end;
}

/// Where it was: the same elements in the same order.
bool in_place(const ConstTensorView& in, const CacheView& out) {
  const std::optional<TensorView> tensor = tensor_of(out);
  return tensor && tensor->data == in.data && tensor->dtype == in.dtype && overlap(in, *tensor) == Overlap::exact;
}

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

Status check_apart(const PrepareCall& call) {
  const std::pair<const char*, const ConstTensorView&> inputs[] = {{"q", call.inputs.q}, {"k", call.inputs.k}, {"v", call.inputs.v}};
  const std::pair<const char*, const CacheParts&> outputs[] = {{"q", call.outputs.q}, {"k", call.outputs.k}, {"v", call.outputs.v}};
  const TokenPlaces& places = call.outputs.places;
  const bool in_order = places.kind == TokenPlaces::Kind::in_order && places.starts.data == nullptr;
  for (const auto& [name, out] : outputs) {
    for (int p = 0; p < out.count; ++p) {
      const CacheView& cache = out.parts[static_cast<std::size_t>(p)];
      for (const auto& [of, in] : inputs) {
        const bool stays = of == name && (name == outputs[0].first || in_order) && in_place(in, cache);
        if (!is_there(in) || stays || !share(in, cache)) continue;
        return error(kPrepare, "output of {} overlaps the input {}, wanted memory apart, or each token in its place", name, of);
      }
      if (const std::optional<TensorView> tensor = tensor_of(cache)) {
        for (const auto& [of, other] : outputs) {
          if (of == name) continue;
          for (int o = 0; o < other.count; ++o) {
            const std::optional<TensorView> second = tensor_of(other.parts[static_cast<std::size_t>(o)]);
            if (second && overlap(*tensor, *second) != Overlap::none)
              return error(kPrepare, "outputs of {} and {} share an element, wanted memory apart", name, of);
          }
        }
      }
    }
  }
  return {};
}

}  // namespace phasor::job

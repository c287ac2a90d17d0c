// SPDX-License-Identifier: Apache-2.0
// Memory that must be apart: what a call writes, from all else that it writes and reads.
#include <iterator>
#include <optional>
#include <string>

#include "job/overlap.hpp"
#include "job/prepare/check.hpp"

namespace phasor::job {
namespace {

constexpr CacheAxis kSinkAxes[] = {CacheAxis::block, CacheAxis::token, CacheAxis::head, CacheAxis::outer, CacheAxis::inner};

std::int64_t extent_of(const CacheView& cache, CacheAxis axis) { return cache.shape[static_cast<std::size_t>(axis)]; }
std::int64_t stride_of(const CacheView& cache, CacheAxis axis) {
  return cache.strides[static_cast<std::size_t>(axis)] * bytes_of(cache.storage);
}

/// The layer that is written.
StridedBytes bytes_of_cache(const CacheView& cache) {
  StridedBytes bytes{static_cast<const std::byte*>(cache.data) + cache.layer * stride_of(cache, CacheAxis::layer), bytes_of(cache.storage)};
  for (const CacheAxis axis : kSinkAxes) bytes.add(extent_of(cache, axis), stride_of(cache, axis));
  return bytes;
}

/// Scales of a cache: one for each head, or as many as are made.
StridedBytes bytes_of_scales(const CacheView& cache) {
  const CacheScales& scales = cache.scales;
  const bool made = scales.kind == CacheScales::Kind::made;
  StridedBytes bytes{scales.data, made && scales.encoding == CacheScales::Encoding::ue8m0 ? 1 : 4};
  bytes.add(extent_of(cache, CacheAxis::head), scales.strides[2] * bytes.size);
  if (!made) return bytes;
  const std::int64_t channels = extent_of(cache, CacheAxis::outer) * extent_of(cache, CacheAxis::inner);
  const std::int64_t group = scales.group == 0 ? channels : scales.group;
  bytes.add(extent_of(cache, CacheAxis::block), scales.strides[0] * bytes.size);
  bytes.add(extent_of(cache, CacheAxis::token), scales.strides[1] * bytes.size);
  bytes.add((channels - 1) / group + 1, scales.strides[3] * bytes.size);
  return bytes;
}

/// Memory of a call: what it is, and whose.
struct Piece {
  const char* what;
  const char* of;  // null: the call's
  StridedBytes bytes;

  std::string name() const { return of == nullptr ? what : std::string(what) + " of " + of; }
};

constexpr const char* kOutput = "output";
constexpr const char* kScales = "scales";

/// All pieces that a call writes, or all that it reads besides q, k and v.
struct Pieces {
  static constexpr int kMost = 24;
  Piece list[kMost];
  int count = 0;

  void add(const char* what, const char* of, const StridedBytes& bytes) {
    if (bytes.data != nullptr) list[count++] = {what, of, bytes};
  }
  const Piece* begin() const { return list; }
  const Piece* end() const { return list + count; }
};

using NamedParts = std::pair<const char*, const CacheParts&>;

Pieces written_by(const PrepareCall& call) {
  Pieces pieces;
  for (const auto& [name, out] : {NamedParts{"q", call.outputs.q}, NamedParts{"k", call.outputs.k}, NamedParts{"v", call.outputs.v}}) {
    for (int p = 0; p < out.count; ++p) {
      const CacheView& cache = out.parts[static_cast<std::size_t>(p)];
      pieces.add(kOutput, name, bytes_of_cache(cache));
      if (cache.scales.kind == CacheScales::Kind::made) pieces.add(kScales, name, bytes_of_scales(cache));
    }
  }
  return pieces;
}

Pieces read_by(const PrepareCall& call) {
  Pieces pieces;
  const std::pair<const char*, const HeadNorm&> norms[] = {{"q", call.spec.q_norm}, {"k", call.spec.k_norm}, {"v", call.spec.v_norm}};
  for (const auto& [name, norm] : norms) pieces.add("weight", name, strided(norm.weight));
  pieces.add("query_factors", nullptr, strided(call.inputs.query_factors));
  const TokenPlaces& places = call.outputs.places;
  const std::pair<const char*, const IntegerList&> lists[] = {
      {"starts", places.starts},     {"slots", places.slots},   {"indptr", places.indptr},          {"indices", places.indices},
      {"requests", places.requests}, {"places", places.places}, {"spec_of", call.rotation.spec_of},
  };
  for (const auto& [name, list] : lists) pieces.add(name, nullptr, bytes_of_list(list));
  if (call.rotation.positions.data != nullptr) pieces.add("positions", nullptr, strided(view_of(call.rotation.positions)));
  pieces.add("cos", nullptr, strided(call.rotation.cos));
  pieces.add("sin", nullptr, strided(call.rotation.sin));
  for (const auto& [name, out] : {NamedParts{"q", call.outputs.q}, NamedParts{"k", call.outputs.k}, NamedParts{"v", call.outputs.v}}) {
    for (int p = 0; p < out.count; ++p) {
      const CacheView& cache = out.parts[static_cast<std::size_t>(p)];
      if (cache.scales.kind == CacheScales::Kind::given) pieces.add("given scales", name, bytes_of_scales(cache));
    }
  }
  return pieces;
}

Status check_written(const Pieces& written) {
  for (const Piece* a = written.begin(); a != written.end(); ++a) {
    for (const Piece* b = a + 1; b != written.end(); ++b) {
      if (!share_bytes(a->bytes, b->bytes)) continue;
      if (a->what == kScales || b->what == kScales) {
        return error(kPrepare, "{} and {} share memory, wanted it apart", a->name(), b->name());
      }
      if (a->of == b->of) return error(kPrepare, "parts of {}'s output share an element, wanted memory apart", a->of);
      return error(kPrepare, "outputs of {} and {} share an element, wanted memory apart", a->of, b->of);
    }
  }
  return {};
}

/// A cache as a tensor, where it has four axes and elements of a dtype.
std::optional<TensorView> tensor_of(const CacheView& cache) {
  const auto& [layers, blocks, block, heads, outer, inner] = cache.shape;
  if (cache.storage > Storage::bf16 || layers != 1 || outer != 1 || (inner > 1 && cache.strides[5] != 1)) return std::nullopt;
  const DType dtype = cache.storage == Storage::f32 ? DType::f32 : cache.storage == Storage::f16 ? DType::f16 : DType::bf16;
  return TensorView{
      cache.data, dtype, {blocks, block, heads, inner}, {cache.strides[1], cache.strides[2], cache.strides[3], 1}, cache.device};
}

/// Where it was: the same elements in the same order.
bool in_place(const ConstTensorView& in, const CacheParts& out) {
  if (out.count != 1) return false;
  const std::optional<TensorView> tensor = tensor_of(out.parts[0]);
  return tensor && tensor->data == in.data && tensor->dtype == in.dtype && overlap(in, *tensor) == Overlap::exact;
}

/// Whether every token of k and v goes to the place of its number. Starts in a device's memory are not looked at.
bool keeps_order(const TokenPlaces& places) {
  if (places.kind != TokenPlaces::Kind::in_order) return false;
  if (places.starts.data == nullptr) return true;
  if (places.starts.device.kind != DeviceKind::cpu) return false;
  const IntegerSource starts = source_of(places.starts);
  for (std::int64_t b = 0; b < places.starts.size; ++b) {
    if (integer_at(starts, b) != 0) return false;
  }
  return true;
}

/// q, k and v may be written where they are, each token in its place.
Status check_inputs(const PrepareCall& call, const Pieces& written) {
  const bool in_order = keeps_order(call.outputs.places);
  const bool stays[] = {in_place(call.inputs.q, call.outputs.q), in_order && in_place(call.inputs.k, call.outputs.k),
                        in_order && in_place(call.inputs.v, call.outputs.v)};
  const std::pair<const char*, const ConstTensorView&> inputs[] = {{"q", call.inputs.q}, {"k", call.inputs.k}, {"v", call.inputs.v}};
  for (std::size_t i = 0; i < std::size(inputs); ++i) {
    const auto& [name, in] = inputs[i];
    if (!is_there(in)) continue;
    for (const Piece& out : written) {
      const bool own = stays[i] && out.what == kOutput && *out.of == *name;
      if (own || !share_bytes(strided(in), out.bytes)) continue;
      return error(kPrepare, "{} overlaps the input {}, wanted memory apart, or each token in its place", out.name(), name);
    }
  }
  return {};
}

}  // namespace

Status check_apart(const PrepareCall& call) {
  const Pieces written = written_by(call);
  if (Status s = check_inputs(call, written); !s) return s;
  if (Status s = check_written(written); !s) return s;
  for (const Piece& read : read_by(call)) {
    for (const Piece& out : written) {
      if (share_bytes(read.bytes, out.bytes)) return error(kPrepare, "{} overlaps the {}, wanted memory apart", read.name(), out.name());
    }
  }
  return {};
}

}  // namespace phasor::job

// SPDX-License-Identifier: Apache-2.0
// Which field of C is which of C++, for caches and places of tokens.
#include "specs/cache.hpp"

#include <algorithm>
#include <string>

#include "core/fields.hpp"
#include "core/tensor.hpp"

namespace phasor::c {
namespace {

static_assert(kCacheAxes == PHASOR_CACHE_INNER + 1 && static_cast<int>(CacheAxis::inner) == PHASOR_CACHE_INNER);

static_assert(static_cast<int>(Storage::i8) == PHASOR_STORAGE_I8);

constexpr int kKinds = 3;
constexpr int kCuda = 2, kCpu = 1;  // DLPack's

/// Those of the kind, which is set.
void fields(auto& way, phasor_cache_scales& c, auto& s) {
  if (s.kind == CacheScales::Kind::none) return;
  way.choice("scales.use", c.use, s.use, 2);
  way("scales.data", c.data, s.data);
  for (std::size_t a = 0; a < s.strides.size(); ++a) way("scales.strides", c.strides[a], s.strides[a]);
  if (s.kind == CacheScales::Kind::given) return way("scales.value", c.value, s.value);
  way.choice("scales.encoding", c.encoding, s.encoding, 2);
  way("scales.group", c.group, s.group);
  way("scales.least", c.least, s.least);
}

const char* name_of(CacheScales::Kind kind) {
  if (kind == CacheScales::Kind::none) return "a cache without scales";
  return kind == CacheScales::Kind::given ? "a cache with given scales" : "a cache with made scales";
}

CacheScales scales_of(const char* where, phasor_cache_scales c) {
  CacheScales value;
  value.kind = choice_of<CacheScales::Kind>(where, "scales.kind", c.kind, kKinds);
  if (c.reserved != 0) fail(std::string(where) + ": `reserved` of the scales is " + std::to_string(c.reserved) + ", wanted 0");
  const Read way(where);
  fields(way, c, value);
  const Leftover unused(where, name_of(value.kind));
  for (const CacheScales::Kind kind : {CacheScales::Kind::given, CacheScales::Kind::made}) {
    const CacheScales other{.kind = kind};
    fields(unused, c, other);
  }
  return value;
}

phasor_cache_scales c_scales_of(const CacheScales& scales) {
  phasor_cache_scales c{};
  c.kind = static_cast<phasor_scales_kind>(scales.kind);
  const Write way;
  fields(way, c, scales);
  return c;
}

/// A list of the kind of places that was asked for; other kinds must not have it.
IntegerList list_of(const char* where, const char* name, const phasor_tensor* tensor, bool wanted) {
  if (tensor != nullptr && !wanted) fail(std::string(where) + ": " + name + " is given, and places of this kind have none, wanted NULL");
  return integer_list_of(where, name, tensor);
}

}  // namespace

CacheView cache_view_of(const char* where, const char* name, const phasor_cache_view* view) {
  const phasor_cache_view c = known(where, name, need(where, name, view));
  CacheView value;
  value.data = c.data;
  value.storage = choice_of<Storage>(where, "storage", c.storage, kStorages);
  std::copy_n(c.shape, kCacheAxes, value.shape.begin());
  std::copy_n(c.strides, kCacheAxes, value.strides.begin());
  value.layer = c.layer;
  value.first_channel = c.first_channel;
  value.scales = scales_of(where, c.scales);
  value.device = device_of(where, name, c.device);
  return value;
}

phasor_cache_view c_cache_view_of(const CacheView& view) {
  phasor_cache_view c{};
  c.size = sizeof(c);
  c.data = view.data;
  c.device.device_type = view.device.kind == DeviceKind::cuda ? kCuda : kCpu;
  c.device.device_id = view.device.index;
  c.storage = static_cast<phasor_storage>(view.storage);
  std::copy(view.shape.begin(), view.shape.end(), c.shape);
  std::copy(view.strides.begin(), view.strides.end(), c.strides);
  c.layer = view.layer;
  c.first_channel = view.first_channel;
  c.scales = c_scales_of(view.scales);
  return c;
}

CacheParts cache_parts_of(const char* where, const char* name, const phasor_cache_parts& parts) {
  if (parts.first == nullptr) {
    if (parts.second != nullptr)
      fail(std::string(where) + ": the second part of " + name + " is given and the first is null, wanted both or the first alone");
    return {};
  }
  const CacheView first = cache_view_of(where, name, parts.first);
  return parts.second == nullptr ? CacheParts(first) : CacheParts(first, cache_view_of(where, name, parts.second));
}

TokenPlaces token_places_of(const char* where, const phasor_token_places* places) {
  const phasor_token_places c = known(where, "the places", places);
  TokenPlaces value;
  value.kind = choice_of<TokenPlaces::Kind>(where, "the places' kind", c.kind, kKinds);
  value.on_gpu = choice_of<TokenPlaces::OnGpu>(where, "on_gpu", c.on_gpu, 2);
  const bool paged = value.kind == TokenPlaces::Kind::pages;
  value.starts = list_of(where, "starts", c.starts, value.kind == TokenPlaces::Kind::in_order);
  value.slots = list_of(where, "slots", c.slots, value.kind == TokenPlaces::Kind::slots);
  value.indptr = list_of(where, "indptr", c.indptr, paged);
  value.indices = list_of(where, "indices", c.indices, paged);
  value.requests = list_of(where, "requests", c.requests, paged);
  value.places = list_of(where, "places", c.places, paged);
  if (!paged && c.pages_per_request != 0) {
    fail(std::string(where) + ": pages_per_request is given, and places of this kind have none, wanted 0");
  }
  value.pages_per_request = c.pages_per_request;
  return value;
}

}  // namespace phasor::c

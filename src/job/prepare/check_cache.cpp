// SPDX-License-Identifier: Apache-2.0
// Checks of caches: extents, strides, scales, and which channels a part holds.
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <span>

#include "job/overlap.hpp"
#include "job/prepare/check.hpp"

namespace phasor::job {
namespace {

constexpr const char* kCacheAxisNames[] = {"layer", "block", "token", "head", "outer", "inner"};
/// As of tensors: no sum of strides times extents leaves 2^58.
constexpr std::int64_t kLargest = std::int64_t{1} << 56;
__extension__ typedef __int128 Wide;

std::int64_t extent(const CacheView& cache, CacheAxis axis) { return cache.shape[static_cast<std::size_t>(axis)]; }

Status check_extents(const char* where, const char* name, const CacheView& cache) {
  for (std::size_t a = 0; a < kCacheAxes; ++a) {
    if (cache.shape[a] < 1 || cache.shape[a] > kLargest) {
      return error(where, "cache of {} has extent {} on its {} axis, wanted 1 to 2^56", name, cache.shape[a], kCacheAxisNames[a]);
    }
    const Wide reach = Wide{cache.shape[a]} * cache.strides[a];
    if (cache.shape[a] > 1 && (reach > kLargest || reach < -kLargest)) {
      return error(where, "cache of {} reaches beyond 2^56 elements on its {} axis", name, kCacheAxisNames[a]);
    }
  }
  return {};
}

/// How far the axes of smaller strides reach; of two with the same stride the first counts.
Wide reach_below(std::span<const std::int64_t> extents, std::span<const std::int64_t> strides, std::size_t axis) {
  const std::int64_t stride = std::abs(strides[axis]);
  Wide reach = 0;
  for (std::size_t a = 0; a < extents.size(); ++a) {
    const std::int64_t other = std::abs(strides[a]);
    if (extents[a] > 1 && (other < stride || (other == stride && a < axis))) reach += Wide{extents[a] - 1} * other;
  }
  return reach;
}
/// Each axis beyond the reach of those of smaller strides: then every element is there once.
bool is_each_once(std::span<const std::int64_t> extents, std::span<const std::int64_t> strides) {
  for (std::size_t a = 0; a < extents.size(); ++a) {
    if (extents[a] > 1 && std::abs(strides[a]) <= reach_below(extents, strides, a)) return false;
  }
  return true;
}

Status check_memory(const char* where, const char* name, const CacheView& cache) {
  if (cache.storage > Storage::i8) {
    return error(where, "cache of {} has an unknown storage ({}), wanted f32, f16, bf16, f8_e4m3, f8_e5m2 or i8", name,
                 static_cast<int>(cache.storage));
  }
  if (cache.data == nullptr) {
    return error(where, "cache of {} has null data, wanted memory (a function of a layout gives none for a shape that it cannot have)",
                 name);
  }
  if (reinterpret_cast<std::uintptr_t>(cache.data) % static_cast<std::uintptr_t>(bytes_of(cache.storage)) != 0) {
    return error(where, "cache of {} is not aligned to its elements of {} bytes", name, bytes_of(cache.storage));
  }
  if (cache.layer < 0 || cache.layer >= extent(cache, CacheAxis::layer)) {
    return error(where, "cache of {} has layer {}, wanted 0 to {}", name, cache.layer, extent(cache, CacheAxis::layer) - 1);
  }
  return {};
}

Status check_scales(const char* where, const char* name, const CacheView& cache) {
  const CacheScales& scales = cache.scales;
  if (scales.kind > CacheScales::Kind::made || scales.use > CacheScales::Use::multiply || scales.encoding > CacheScales::Encoding::ue8m0) {
    return error(where, "scales of {} have an unknown kind, use or encoding", name);
  }
  if (scales.kind == CacheScales::Kind::none) return {};
  const bool made = scales.kind == CacheScales::Kind::made;
  if (made && scales.data == nullptr) return error(where, "scales of {} are to be made and have null data, wanted memory", name);
  if (!made && scales.data == nullptr && !(std::isfinite(scales.value) && scales.value > 0)) {
    return error(where, "scales of {} have the value {}, wanted a finite one above 0", name, scales.value);
  }
  const bool bytes = made && scales.encoding == CacheScales::Encoding::ue8m0;
  if (!bytes && reinterpret_cast<std::uintptr_t>(scales.data) % sizeof(float) != 0) {
    return error(where, "scales of {} are not aligned to float32", name);
  }
  if (scales.group < 0) return error(where, "scales of {} have a group of {} channels, wanted 0 (all) or more", name, scales.group);
  if (made && !(std::isfinite(scales.least) && scales.least > 0)) {
    return error(where, "scales of {} have the least value {}, wanted a finite one above 0", name, scales.least);
  }
  if (made && cache.storage <= Storage::bf16) {
    return error(where, "scales of {} are to be made and its cache is {}, wanted a storage of 8 bits", name, name_of(cache.storage));
  }
  const CacheAxis of_scales[] = {CacheAxis::block, CacheAxis::token, CacheAxis::head};
  for (std::size_t a = 0; a < scales.strides.size(); ++a) {
    const std::int64_t steps =
        a < std::size(of_scales) ? extent(cache, of_scales[a]) : extent(cache, CacheAxis::outer) * extent(cache, CacheAxis::inner);
    const Wide reach = Wide{steps} * scales.strides[a];
    if (reach > kLargest || reach < -kLargest) return error(where, "scales of {} reach beyond 2^56 elements", name);
  }
  for (std::size_t a = 0; made && a < std::size(of_scales); ++a) {
    if (scales.strides[a] == 0 && extent(cache, of_scales[a]) > 1) {
      return error(where, "scales of {} have stride 0 on the {} axis, wanted one for each of its {}", name,
                   kCacheAxisNames[static_cast<std::size_t>(of_scales[a])], extent(cache, of_scales[a]));
    }
  }
  const std::int64_t channels = extent(cache, CacheAxis::outer) * extent(cache, CacheAxis::inner);
  const std::int64_t groups = scales.group == 0 || scales.group >= channels ? 1 : (channels - 1) / scales.group + 1;
  const std::int64_t extents[] = {extent(cache, CacheAxis::block), extent(cache, CacheAxis::token), extent(cache, CacheAxis::head), groups};
  if (made && !is_each_once(extents, scales.strides)) {
    return error(where, "scales of {} have strides by which they repeat, wanted each once", name);
  }
  return {};
}

}  // namespace

Status check_cache_view(const char* where, const char* name, const CacheView& cache) {
  if (Status s = check_memory(where, name, cache); !s) return s;
  if (Status s = check_extents(where, name, cache); !s) return s;
  return check_scales(where, name, cache);
}

Status check_cache(const PreparedTensor& tensor, const CacheView& cache) {
  const char* const name = tensor.name;
  if (Status s = check_memory(kPrepare, name, cache); !s) return s;
  if (cache.device != tensor.in.device) {
    return error(kPrepare, "cache of {} is on {} and {} on {}, wanted one device", name, name_of(cache.device), name,
                 name_of(tensor.in.device));
  }
  if (Status s = check_extents(kPrepare, name, cache); !s) return s;
  if (!is_each_once(cache.shape, cache.strides)) {
    return error(kPrepare, "cache of {} has strides by which elements repeat, wanted each element once", name);
  }
  if (extent(cache, CacheAxis::head) != tensor.in.shape[2]) {
    return error(kPrepare, "cache of {} has {} heads, wanted {}", name, extent(cache, CacheAxis::head), tensor.in.shape[2]);
  }
  return check_scales(kPrepare, name, cache);
}

Status check_parts(const PreparedTensor& tensor, const TokenPlaces& places) {
  const auto& [batch, tokens, heads, head_dim] = tensor.in.shape;
  std::int64_t next = 0;
  for (int p = 0; p < tensor.out.count; ++p) {
    const CacheView& cache = tensor.out.parts[static_cast<std::size_t>(p)];
    if (Status s = check_cache(tensor, cache); !s) return s;
    const Wide channels = Wide{extent(cache, CacheAxis::outer)} * extent(cache, CacheAxis::inner);
    if (cache.first_channel != next || channels > head_dim - next) {
      return error(kPrepare, "part {} of {}'s cache holds {} channels from {} on, wanted at most {} from {} on", p, tensor.name,
                   static_cast<std::int64_t>(channels), cache.first_channel, head_dim - next, next);
    }
    next += static_cast<std::int64_t>(channels);
    const std::int64_t blocks = extent(cache, CacheAxis::block);
    const std::int64_t block = extent(cache, CacheAxis::token);
    if (!tensor.placed && (blocks != batch || block != tokens)) {
      return error(kPrepare, "{} goes to {} x {} tokens, wanted {} x {}", tensor.name, blocks, block, batch, tokens);
    }
    if (tensor.placed && places.kind == TokenPlaces::Kind::in_order && (blocks < batch || block < tokens)) {
      return error(kPrepare, "cache of {} has {} rows of {} tokens, wanted {} of {} at least", tensor.name, blocks, block, batch, tokens);
    }
  }
  if (next != head_dim) return error(kPrepare, "cache of {} holds {} channels, wanted {}", tensor.name, next, head_dim);
  return {};
}

}  // namespace phasor::job

// SPDX-License-Identifier: Apache-2.0
// A call of cached_attention: its caches and lists, then all that attention checks, with stand-ins for keys and values.
#include "job/attention/cached_job.hpp"

#include <algorithm>
#include <optional>

#include "job/attention/check.hpp"
#include "job/attention/devices.hpp"
#include "job/attention/make_job.hpp"
#include "job/positions/positions.hpp"
#include "job/prepare/check.hpp"

namespace phasor::job {
namespace {

constexpr const char* kCached = "cached_attention";

std::int64_t extent(const CacheView& cache, CacheAxis axis) { return cache.shape[static_cast<std::size_t>(axis)]; }
std::int64_t channels_of(const CacheView& cache) { return extent(cache, CacheAxis::outer) * extent(cache, CacheAxis::inner); }

Status check_caches(const CachedInputs& in) {
  for (const auto& [name, cache] : {std::pair{"k", &in.k}, {"v", &in.v}}) {
    if (Status s = check_cache_view(kCached, name, *cache); !s) return s;
    if (Status s = check_device(kCached, (std::string("cache of ") + name + " is").c_str(), cache->device, in.q.device); !s) return s;
    if (cache->first_channel != 0) {
      return error(kCached, "cache of {} begins with channel {}, wanted all channels in one part", name, cache->first_channel);
    }
    constexpr std::int64_t kMostChannels = std::int64_t{1} << 20;
    if (extent(*cache, CacheAxis::outer) > kMostChannels || extent(*cache, CacheAxis::inner) > kMostChannels) {
      return error(kCached, "cache of {} has more than 2^20 channels on an axis", name);
    }
  }
  for (const auto& [axis, what] :
       {std::pair{CacheAxis::block, "blocks"}, {CacheAxis::token, "tokens in a block"}, {CacheAxis::head, "heads"}}) {
    if (extent(in.k, axis) == extent(in.v, axis)) continue;
    return error(kCached, "k has {} {}, v has {}, wanted the same", extent(in.k, axis), what, extent(in.v, axis));
  }
  return {};
}

Status check_integers(const char* name, const Integers& list, Device device) {
  PositionsView beside = {};
  beside.device = device;
  if (Status s = check_list(kCached, name, list, beside); !s) return s;
  if (list.size == 0 || list.bytes >= 4) return {};
  return error(kCached, "{} has elements of 1 byte, wanted int32 or int64", name);
}

/// Pages of a sequence, and how many tokens those have.
Status place_pages(const CachedInputs& in, CachedAttentionJob& job) {
  const PageTable& table = in.pages;
  if (Status s = check_integers("blocks", table.blocks, in.q.device); !s) return s;
  if (Status s = check_integers("lengths", table.lengths, in.q.device); !s) return s;
  job.page_size = extent(in.k, CacheAxis::token);
  job.cache_blocks = extent(in.k, CacheAxis::block);
  if (table.lengths.size != job.sequences) {
    return error(kCached, "lengths has {} elements, wanted {}, one per sequence", table.lengths.size, job.sequences);
  }
  if (table.blocks.size == 0) {
    if (job.cache_blocks >= job.sequences) return {};
    return error(kCached, "the caches have {} blocks for {} sequences and no pages, wanted a block each", job.cache_blocks, job.sequences);
  }
  if (table.page_size != job.page_size) {
    return error(kCached, "page_size is {}, the caches have blocks of {} tokens, wanted the same", table.page_size, job.page_size);
  }
  if (job.sequences == 0 || table.blocks.size % job.sequences != 0) {
    return error(kCached, "blocks has {} elements, wanted as many for each of {} sequences", table.blocks.size, job.sequences);
  }
  job.pages = table.blocks.size / job.sequences;
  constexpr std::int64_t kMostKeys = std::int64_t{1} << 40;
  if (job.page_size <= kMostKeys && job.pages <= kMostKeys / job.page_size) return {};
  return error(kCached, "{} pages of {} tokens are more than 2^40 keys of a sequence", job.pages, job.page_size);
}

/// A tensor of so many tokens and heads, of which only the shape counts: all of its elements are said to be where q begins.
ConstTensorView stand_in(const CachedInputs& in, const CacheView& cache, std::int64_t room) {
  return {in.q.data, in.q.dtype, {in.q.shape[0], room, extent(cache, CacheAxis::head), channels_of(cache)}, {0, 0, 0, 1}, in.q.device};
}

/// The memory of a cache, from its first byte to its last, with as many tokens as the stand-in has.
ConstTensorView memory_of(const CacheView& cache, std::int64_t room) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::size_t axis = 0; axis < kCacheAxes; ++axis) {
    const std::int64_t reach = (cache.shape[axis] - 1) * cache.strides[axis];
    (reach < 0 ? low : high) += reach;
  }
  const std::int64_t bytes = (high - low + 1) * bytes_of(cache.storage);
  const auto* const first = static_cast<const std::byte*>(cache.data) + low * bytes_of(cache.storage);
  return {first, DType::f16, {1, room, 1, (bytes + 1) / 2}, {0, 0, 0, 1}, cache.device};
}
ConstTensorView memory_of(const Integers& list) { return {list.data, DType::f16, {1, 1, 1, list.size * list.bytes / 2}, {0, 0, 0, 1}}; }

/// A profile repeats roundings of q's dtype, and what is decoded has another.
Status check_rotation(const AttentionSpec& spec, const CachedAttentionJob& job) {
  const auto* const rotary = std::get_if<RotaryContent>(&spec.content);
  const DType dtype = job.attention.q.dtype;
  const bool plain = is_plain_cache(job.k, dtype) && is_plain_cache(job.v, dtype);
  if (rotary == nullptr || rotary->rotary.spec().numerics == Numerics::exact || plain || dtype == DType::f32) return {};
  return error(kCached, "the rotary's numerics rotate in {}, and the caches are of another storage or scaled, wanted plain {}",
               name_of(dtype), name_of(dtype));
}

Status check_memory_of(const CachedCall& call, const AttentionCall& as, std::int64_t room) {
  if (Status s = check_output_views(as, *call.outputs); !s) return s;
  const CachedInputs& in = call.inputs;
  const AttentionInputs memory = {in.q, memory_of(in.k, room), memory_of(in.v, room)};
  AttentionCall of_memory = as;
  of_memory.inputs = &memory;
  const NamedView written[] = {{"out", call.outputs->out}, {"lse", call.outputs->lse}};
  const NamedView lists[] = {{"blocks", memory_of(in.pages.blocks)}, {"lengths", memory_of(in.pages.lengths)}};
  return check_memory(of_memory, {written, lists, call.workspace});
}

/// Of sequences by query_starts: the lists of keys are as long, which is all that is looked at.
const AttentionSpec* checked_spec(const AttentionSpec* spec, std::optional<AttentionSpec>& copy) {
  if (spec->visibility.query_starts.size == 0) return spec;
  copy = *spec;
  copy->visibility.key_starts = spec->visibility.query_starts;
  return &*copy;
}

}  // namespace

Status make_cached_job(const CachedCall& call, std::vector<AttentionTermJob>& terms, CachedAttentionJob& job) {
  const CachedInputs& in = call.inputs;
  const Visibility& see = call.spec.visibility;
  if (Status s = check_view(kCached, "q", in.q); !s) return s;
  if (in.q.dtype == DType::f64) return error(kCached, "q is f64, wanted f32, f16 or bf16");
  if (see.key_starts.size > 0) return error(kCached, "key_starts is given, wanted none: lengths say it");
  if (Status s = check_caches(in); !s) return s;
  job.sequences = see.query_starts.size > 0 ? see.query_starts.size - 1 : in.q.shape[0];
  if (Status s = place_pages(in, job); !s) return s;
  const std::int64_t room = room_of(job);
  const AttentionInputs stand_ins = {in.q, stand_in(in, in.k, room), stand_in(in, in.v, room)};
  std::optional<AttentionSpec> copy;
  const AttentionSpec& spec = *checked_spec(&call.spec, copy);
  const AttentionCall as = {&stand_ins, &spec, nullptr, kCached};
  if (Status s = check_devices({kCached, stand_ins, spec, call.outputs}); !s) return s;
  if (Status s = check_call(as); !s) return s;
  if (call.outputs != nullptr) {
    if (Status s = check_memory_of(call, as, room); !s) return s;
  }
  make_attention_job_as_given(as, terms, job.attention);
  job.attention.k.data = nullptr;
  job.attention.v.data = nullptr;
  job.attention.visibility.key_starts = {};
  if (call.outputs != nullptr) job.attention.outputs = *call.outputs;
  job.k = sink_of(in.k);
  job.v = sink_of(in.v);
  job.blocks = in.pages.blocks;
  job.lengths = in.pages.lengths;
  return check_rotation(call.spec, job);
}

}  // namespace phasor::job

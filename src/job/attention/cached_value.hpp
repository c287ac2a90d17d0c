// SPDX-License-Identifier: Apache-2.0
// Where key j of a sequence lies, and its elements as float32: on host and device.
#pragma once

#include "job/attention/cached_job.hpp"
#include "job/prepare/spans.hpp"
#include "math/float8_value.hpp"

namespace phasor::job {

/// Keys of a sequence: a length that memory holds, within what there is room for.
PHASOR_HD inline std::int64_t keys_of(const Integers& lengths, std::int64_t sequence, std::int64_t room) {
  const std::int64_t length = at(lengths, sequence);
  return length < 0 ? 0 : length > room ? room : length;
}

/// The block that holds page `page` of a sequence.
PHASOR_HD inline std::int64_t block_of(const Integers& blocks, std::int64_t pages, std::int64_t sequence, std::int64_t page) {
  return blocks.size == 0 ? sequence : at(blocks, sequence * pages + page);
}

/// Of a token of a block, of a head.
struct CachePlace {
  std::int64_t block;
  std::int64_t token;
  std::int64_t head;
};
PHASOR_HD inline const std::byte* row_of(const CacheSource& cache, const CachePlace& at) {
  return cache.data + at.block * cache.strides[0] + at.token * cache.strides[1] + at.head * cache.strides[2];
}
PHASOR_HD inline const std::byte* channel_of(const CacheSource& cache, const std::byte* row, std::int64_t channel) {
  return row + channel / cache.inner * cache.strides[3] + channel % cache.inner * cache.strides[4];
}

PHASOR_HD inline float stored_value(Storage storage, const std::byte* at) {
  if (storage == Storage::f32) return *reinterpret_cast<const float*>(at);
  if (storage <= Storage::bf16) return widened(storage == Storage::f16 ? DType::f16 : DType::bf16, at, 0);
  const auto bits = static_cast<math::u32>(*at);
  if (storage == Storage::f8_e4m3) return math::value_of_e4m3(bits);
  if (storage == Storage::f8_e5m2) return math::value_of_e5m2(bits);
  return static_cast<float>(static_cast<std::int8_t>(bits));
}

/// What a stored value is multiplied by to be what was stored.
PHASOR_HD inline float scale_at(const CacheSource& cache, const CachePlace& at, std::int64_t channel) {
  if (cache.scales == CacheScales::Kind::none) return 1;
  if (cache.scales == CacheScales::Kind::given) {
    const bool listed = cache.scale_data != nullptr;
    const float scale = listed ? *reinterpret_cast<const float*>(cache.scale_data + at.head * cache.scale_strides[2]) : cache.scale;
    return cache.multiplies ? 1 / scale : scale;
  }
  const std::byte* const made = cache.scale_data + at.block * cache.scale_strides[0] + at.token * cache.scale_strides[1] +
                                at.head * cache.scale_strides[2] + channel / cache.group * cache.scale_strides[3];
  return cache.powers_of_two ? math::value_of_ue8m0(static_cast<math::u32>(*made)) : *reinterpret_cast<const float*>(made);
}

PHASOR_HD inline float cached_value(const CacheSource& cache, const CachePlace& at, std::int64_t channel) {
  return stored_value(cache.storage, channel_of(cache, row_of(cache, at), channel)) * scale_at(cache, at, channel);
}

}  // namespace phasor::job

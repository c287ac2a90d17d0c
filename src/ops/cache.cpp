// SPDX-License-Identifier: Apache-2.0
// Layouts of engines as views: which stride each meaning has.
#include "phasor/cache.hpp"

#include <initializer_list>

namespace phasor {
namespace {

/// Extents of 1 or more with a product that no view can leave: the layouts multiply without a check.
bool is_sound(std::initializer_list<std::int64_t> extents) {
  constexpr std::int64_t kMost = std::int64_t{1} << 56;
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) {
    if (extent < 1 || extent > kMost / product) return false;
    product *= extent;
  }
  return true;
}
/// A shape that a layout of keys and values can have, or none at all: its view has null memory then, which whoever takes it refuses.
CacheShape sound(Storage storage, const CacheShape& s) {
  return bytes_of(storage) > 0 && is_sound({s.blocks, s.block, s.heads, s.head_dim, 2}) ? s : CacheShape{};
}

/// Strides of (block, token, head) and of channels that lie next to each other.
CacheView view_of(void* data, Storage storage, const CacheShape& s, const std::array<std::int64_t, 3>& strides) {
  CacheView view;
  view.data = s.blocks == 0 ? nullptr : data;
  view.storage = storage;
  view.shape = {1, s.blocks, s.block, s.heads, 1, s.head_dim};
  view.strides = {0, strides[0], strides[1], strides[2], 0, 1};
  return view;
}
CacheView contiguous(void* data, Storage storage, const CacheShape& s) {
  return view_of(data, storage, s, {s.block * s.heads * s.head_dim, s.heads * s.head_dim, s.head_dim});
}

void* after(void* data, Storage storage, std::int64_t elements) {
  return data == nullptr ? nullptr : static_cast<std::byte*>(data) + elements * bytes_of(storage);
}

}  // namespace

CacheView tensor_cache(const TensorView& tensor) {
  const Storage storage = tensor.dtype == DType::f32 ? Storage::f32 : tensor.dtype == DType::f16 ? Storage::f16 : Storage::bf16;
  void* const data = tensor.dtype == DType::f64 ? nullptr : tensor.data;  // no cache has f64: null memory is refused
  const auto& [batch, tokens, heads, head_dim] = tensor.shape;
  CacheView view = view_of(data, storage, {batch, tokens, heads, head_dim}, {tensor.strides[0], tensor.strides[1], tensor.strides[2]});
  view.data = data;  // an empty tensor may have some
  view.strides[static_cast<std::size_t>(CacheAxis::inner)] = tensor.strides[3];
  view.device = tensor.device;
  return view;
}

CacheView contiguous_cache(void* data, Storage storage, const CacheShape& shape) {
  return contiguous(data, storage, sound(storage, shape));
}

CacheView vllm_key_cache(void* data, Storage storage, const CacheShape& shape) {
  const std::int64_t x = bytes_of(storage) == 0 ? 1 : 16 / bytes_of(storage);
  const CacheShape s = shape.head_dim % x == 0 ? sound(storage, shape) : CacheShape{};
  CacheView view = view_of(data, storage, s, {s.heads * s.head_dim * s.block, x, s.head_dim * s.block});
  view.shape[static_cast<std::size_t>(CacheAxis::outer)] = s.head_dim / x;
  view.shape[static_cast<std::size_t>(CacheAxis::inner)] = x;
  view.strides[static_cast<std::size_t>(CacheAxis::outer)] = s.block * x;
  return view;
}

CacheView vllm_value_cache(void* data, Storage storage, const CacheShape& shape) {
  const CacheShape s = sound(storage, shape);
  CacheView view = view_of(data, storage, s, {s.heads * s.head_dim * s.block, 1, s.head_dim * s.block});
  view.strides[static_cast<std::size_t>(CacheAxis::inner)] = s.block;
  return view;
}

CachePair vllm_flash_cache(void* data, Storage storage, const CacheShape& shape) {
  const CacheShape s = sound(storage, shape);
  return {contiguous(data, storage, s), contiguous(after(data, storage, s.blocks * s.block * s.heads * s.head_dim), storage, s)};
}

CachePair flashinfer_cache(void* data, Storage storage, const CacheShape& shape, HeadOrder order) {
  const CacheShape s = order > HeadOrder::hnd ? CacheShape{} : sound(storage, shape);
  const std::int64_t page = s.block * s.heads * s.head_dim;
  const bool by_token = order == HeadOrder::nhd;
  const std::array<std::int64_t, 3> strides = {2 * page, by_token ? s.heads * s.head_dim : s.head_dim,
                                               by_token ? s.head_dim : s.block * s.head_dim};
  return {view_of(data, storage, s, strides), view_of(after(data, storage, page), storage, s, strides)};
}

CacheView sglang_cache(void* data, Storage storage, std::int64_t slots, std::int64_t heads, std::int64_t head_dim) {
  return contiguous_cache(data, storage, {slots, 1, heads, head_dim});
}

CacheParts mla_656_cache(void* data, std::int64_t blocks, std::int64_t block) {
  constexpr std::int64_t kRow = 656;
  constexpr std::int64_t kLatent = 512;
  constexpr std::int64_t kScales = 4;
  if (!is_sound({blocks, block, 1024})) data = nullptr, blocks = block = 0;
  CacheView latent = view_of(data, Storage::f8_e4m3, {blocks, block, 1, kLatent}, {kRow * block, kRow, kRow});
  latent.scales.kind = CacheScales::Kind::made;
  latent.scales.data = after(data, Storage::i8, kLatent);
  latent.scales.strides = {kRow / 4 * block, kRow / 4, 0, 1};
  latent.scales.group = kLatent / kScales;
  CacheView rotated = view_of(after(data, Storage::i8, kLatent + 4 * kScales), Storage::bf16, {blocks, block, 1, 64},
                              {kRow / 2 * block, kRow / 2, kRow / 2});
  rotated.first_channel = kLatent;
  return {latent, rotated};
}

CacheParts mla_584_cache(void* data, std::int64_t blocks, std::int64_t block, std::int64_t block_bytes) {
  constexpr std::int64_t kLatent = 448;
  constexpr std::int64_t kRow = kLatent + 2 * 64;  // of what is stored; the scales are behind the rows of all tokens
  constexpr std::int64_t kScaleRow = 8;
  if (!is_sound({blocks, block, 1024}) || (block_bytes != 0 && !is_sound({blocks, block_bytes}))) data = nullptr, blocks = block = 0;
  const std::int64_t stride = block_bytes == 0 ? (kRow + kScaleRow) * block : block_bytes;
  if (stride % 2 != 0 || stride < (kRow + kScaleRow) * block) data = nullptr;  // blocks would overlap: null memory is refused
  CacheView latent = view_of(data, Storage::f8_e4m3, {blocks, block, 1, kLatent}, {stride, kRow, kRow});
  latent.scales.kind = CacheScales::Kind::made;
  latent.scales.encoding = CacheScales::Encoding::ue8m0;
  latent.scales.data = after(data, Storage::i8, kRow * block);
  latent.scales.strides = {stride, kScaleRow, 0, 1};
  latent.scales.group = 64;
  latent.scales.least = 1e-4F / 448;  // of a largest magnitude that is not below 1e-4
  CacheView rotated = view_of(after(data, Storage::i8, kLatent), Storage::bf16, {blocks, block, 1, 64}, {stride / 2, kRow / 2, kRow / 2});
  rotated.first_channel = kLatent;
  return {latent, rotated};
}

}  // namespace phasor

// SPDX-License-Identifier: Apache-2.0
// Caches of keys and values filled by prepare_attention, tensors of random numbers, and attention over either.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "attention/support/problems.hpp"
#include "job/attention/cached_value.hpp"
#include "job/element.hpp"
#include "phasor/phasor.hpp"

namespace phasor::test {

inline std::vector<std::byte> bytes_of_view(const ConstTensorView& v) {
  const auto* const first = static_cast<const std::byte*>(v.data);
  return {first, first + v.shape[0] * v.shape[1] * v.shape[2] * v.shape[3] * bytes_of(v.dtype)};
}

/// A cache with pages in an order of its own, filled with a tensor's tokens by prepare_attention.
class Cache {
 public:
  enum class Layout : std::uint8_t { flash, nhd, hnd, old };
  Cache(const ConstTensorView& k, const ConstTensorView& v, std::int64_t page, Layout layout, Storage storage,
        const CacheScales& scales = {})
      : page_(page), pages_((k.shape[1] + page - 1) / page) {
    const std::int64_t blocks = k.shape[0] * pages_ + 2;
    const CacheShape shape = {blocks, page, k.shape[2], k.shape[3]};
    memory_.assign(static_cast<std::size_t>(2 * blocks * page * k.shape[2] * std::max(k.shape[3], v.shape[3]) * 4 + 64), std::byte{0x7f});
    CachePair pair = flashinfer_cache(memory_.data(), storage, shape, layout == Layout::hnd ? HeadOrder::hnd : HeadOrder::nhd);
    if (layout == Layout::flash) pair = vllm_flash_cache(memory_.data(), storage, shape);
    if (layout == Layout::old) {
      pair = {vllm_key_cache(memory_.data(), storage, shape),
              vllm_value_cache(memory_.data() + memory_.size() / 2 / 64 * 64, storage, shape)};
    }
    pair.k.scales = pair.v.scales = scales;
    for (std::int64_t n = 0; n < k.shape[0] * pages_; ++n)
      table_.push_back(static_cast<std::int32_t>((n * 7 + 3) % (k.shape[0] * pages_) + 1));
    if (k.shape[0] * pages_ % 7 == 0) {
      for (std::size_t n = 0; n < table_.size(); ++n) table_[n] = static_cast<std::int32_t>(table_.size() - n);
    }
    std::vector<std::int64_t> slots;
    for (std::int64_t b = 0; b < k.shape[0]; ++b) {
      for (std::int64_t j = 0; j < k.shape[1]; ++j) {
        slots.push_back(table_[static_cast<std::size_t>(b * pages_ + j / page)] * page + j % page);
      }
      lengths.push_back(static_cast<std::int32_t>(k.shape[1]));
    }
    PrepareInputs in;
    in.k = k;
    in.v = v;
    PrepareOutputs out;
    out.k = pair.k;
    out.v = pair.v;
    out.places.kind = TokenPlaces::Kind::slots;
    out.places.slots = integers(slots.data(), static_cast<std::int64_t>(slots.size()));
    const Status s = prepare_attention(in, {}, out);
    EXPECT_TRUE(s.ok()) << s.message();
    pair_ = pair;
  }
  CachedInputs inputs(const ConstTensorView& q) const { return {q, pair_.k, pair_.v, {table_, lengths, page_}}; }
  std::vector<std::int32_t> lengths;

 private:
  std::int64_t page_;
  std::int64_t pages_;
  std::vector<std::byte> memory_;
  std::vector<std::int32_t> table_;
  CachePair pair_;
};

inline Status run_cached(const CachedInputs& in, const AttentionSpec& spec, const AttentionOutputs& outputs) {
  const Result<std::int64_t> bytes = cached_attention_workspace(in, spec);
  if (!bytes.ok()) return bytes.status();
  std::vector<std::byte> workspace(static_cast<std::size_t>(*bytes));
  return cached_attention(in, spec, outputs, workspace);
}

struct Tensor {
  std::vector<std::byte> memory;
  TensorView view;
  Tensor(DType dtype, const Extents& shape, std::uint64_t seed) {
    std::int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
    memory.resize(static_cast<std::size_t>(count * bytes_of(dtype)));
    view = {memory.data(), dtype, shape, contiguous_strides(shape)};
    Numbers random(seed);
    for (std::int64_t n = 0; n < count; ++n) job::store_element(memory.data(), dtype, n, random.uniform());
  }
};
/// Tokens [first, first + count) of a batch row.
template <class View>
View rows(View v, std::int64_t batch, std::int64_t first, std::int64_t count) {
  using Byte = std::conditional_t<std::is_same_v<View, TensorView>, std::byte, const std::byte>;
  v.data = static_cast<Byte*>(v.data) + (batch * v.strides[0] + first * v.strides[1]) * bytes_of(v.dtype);
  v.shape[0] = 1, v.shape[1] = count;
  return v;
}

inline Status run_plain(const AttentionInputs& in, const AttentionSpec& spec, const AttentionOutputs& out) {
  const Result<std::int64_t> bytes = attention_workspace(in, spec);
  if (!bytes.ok()) return bytes.status();
  std::vector<std::byte> workspace(static_cast<std::size_t>(*bytes));
  return attention(in, spec, out, workspace);
}

}  // namespace phasor::test

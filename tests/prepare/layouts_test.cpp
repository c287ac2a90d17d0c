// SPDX-License-Identifier: Apache-2.0
// Every layout by the index that its engine computes: what is written is found there, and nothing else is touched.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "phasor/prepare.hpp"
#include "prepare/float8_reference.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t kTokens = 6, kHeads = 3, kDim = 16, kBlocks = 4, kBlock = 3;
const CacheShape kShape = {kBlocks, kBlock, kHeads, kDim};
const std::vector<std::int64_t> kSlots = {5, -1, 0, 11, 7, 2};

/// The element of a cache where channel c of head h at a slot lies.
using Index = std::function<std::int64_t(std::int64_t slot, std::int64_t h, std::int64_t c)>;

/// A cache of bf16 of which every element is untouched but those of the slots.
struct Paged {
  std::vector<BFloat16> cache = std::vector<BFloat16>(2 * kBlocks * kBlock * kHeads * kDim, BFloat16{0x7fab});
  Tensor<BFloat16> k = Tensor<BFloat16>({1, kTokens, kHeads, kDim}, 1);
  Tensor<BFloat16> v = Tensor<BFloat16>({1, kTokens, kHeads, kDim}, 2);

  Paged() {
    k.with_numbers(0, kDim, 3);
    v.with_numbers(0, kDim, 4);
  }
  void expect(const CachePair& pair, const Index& k_at, const Index& v_at) {
    PrepareInputs inputs;
    inputs.k = k.view();
    inputs.v = v.view();
    PrepareOutputs outputs = {{}, pair.k, pair.v, {}};
    outputs.places.kind = TokenPlaces::Kind::slots;
    outputs.places.slots = integers(kSlots.data(), kTokens - 1);  // the last token is beyond the list
    const Status status = prepare_attention(inputs, {}, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<BFloat16> wanted(cache.size(), BFloat16{0x7fab});
    for (std::int64_t t = 0; t < kTokens - 1; ++t) {
      const std::int64_t slot = kSlots[static_cast<std::size_t>(t)];
      for (std::int64_t h = 0; slot >= 0 && h < kHeads; ++h) {
        for (std::int64_t c = 0; c < kDim; ++c) {
          wanted[static_cast<std::size_t>(k_at(slot, h, c))] = k.at(0, t, h, c);
          wanted[static_cast<std::size_t>(v_at(slot, h, c))] = v.at(0, t, h, c);
        }
      }
    }
    EXPECT_TRUE(same_bits(cache, wanted));
  }
};

TEST(CacheLayouts, vllm_has_keys_by_16_bytes_and_values_by_channel) {
  Paged paged;
  constexpr std::int64_t kHalf = kBlocks * kBlock * kHeads * kDim, kX = 8;
  paged.expect(
      {vllm_key_cache(paged.cache.data(), Storage::bf16, kShape), vllm_value_cache(paged.cache.data() + kHalf, Storage::bf16, kShape)},
      [](auto slot, auto h, auto c) {
        return (((slot / kBlock * kHeads + h) * (kDim / kX) + c / kX) * kBlock + slot % kBlock) * kX + c % kX;
      },
      [](auto slot, auto h, auto c) { return kHalf + ((slot / kBlock * kHeads + h) * kDim + c) * kBlock + slot % kBlock; });
}
TEST(CacheLayouts, flash_has_all_keys_before_all_values) {
  Paged paged;
  const Index k = [](auto slot, auto h, auto c) { return (slot * kHeads + h) * kDim + c; };
  paged.expect(vllm_flash_cache(paged.cache.data(), Storage::bf16, kShape), k,
               [&](auto slot, auto h, auto c) { return kBlocks * kBlock * kHeads * kDim + k(slot, h, c); });
}
TEST(CacheLayouts, flashinfer_has_both_in_each_page) {
  for (const HeadOrder order : {HeadOrder::nhd, HeadOrder::hnd}) {
    Paged paged;
    const auto at = [&](std::int64_t which, std::int64_t slot, std::int64_t h, std::int64_t c) {
      const std::int64_t row = order == HeadOrder::nhd ? slot % kBlock * kHeads + h : h * kBlock + slot % kBlock;
      return ((slot / kBlock * 2 + which) * kBlock * kHeads + row) * kDim + c;
    };
    paged.expect(
        flashinfer_cache(paged.cache.data(), Storage::bf16, kShape, order), [&](auto s, auto h, auto c) { return at(0, s, h, c); },
        [&](auto s, auto h, auto c) { return at(1, s, h, c); });
  }
}
TEST(CacheLayouts, sglang_has_a_row_for_each_slot) {
  Paged paged;
  const Index k = [](auto slot, auto h, auto c) { return (slot * kHeads + h) * kDim + c; };
  constexpr std::int64_t kHalf = kBlocks * kBlock * kHeads * kDim;
  paged.expect({sglang_cache(paged.cache.data(), Storage::bf16, kBlocks * kBlock, kHeads, kDim),
                sglang_cache(paged.cache.data() + kHalf, Storage::bf16, kBlocks * kBlock, kHeads, kDim)},
               k, [&](auto slot, auto h, auto c) { return kHalf + k(slot, h, c); });
}
TEST(CacheLayouts, a_layer_of_several_is_written_alone) {
  Tensor<float> k({1, 2, 1, 4}, 1);
  k.with_numbers(0, 4);
  std::vector<float> cache(3 * 2 * 4, -1.0F);
  CacheView view = contiguous_cache(cache.data(), Storage::f32, {1, 2, 1, 4});
  view.shape[0] = 3;
  view.strides[0] = 8;
  view.layer = 1;
  PrepareInputs inputs;
  inputs.k = k.view();
  ASSERT_TRUE(prepare_attention(inputs, {}, {{}, view, {}, {}}).ok());
  for (std::size_t i = 0; i < cache.size(); ++i) {
    const bool written = i / 8 == 1;
    EXPECT_EQ(cache[i], written ? k.at(0, static_cast<std::int64_t>(i % 8) / 4, 0, static_cast<std::int64_t>(i % 4)) : -1.0F) << i;
  }
}

TEST(CacheLayouts, a_shape_that_a_layout_cannot_have_gives_null_memory) {
  std::vector<std::byte> memory(64);
  void* const data = memory.data();
  const std::int64_t many = std::int64_t{1} << 40;
  const auto refused = [&](Storage storage, const CacheShape& shape) {
    const CachePair flash = vllm_flash_cache(data, storage, shape);
    const CachePair both = flashinfer_cache(data, storage, shape, HeadOrder::hnd);
    const CacheView views[] = {contiguous_cache(data, storage, shape),
                               vllm_key_cache(data, storage, shape),
                               vllm_value_cache(data, storage, shape),
                               flash.k,
                               flash.v,
                               both.k,
                               both.v,
                               sglang_cache(data, storage, shape.blocks, shape.heads, shape.head_dim)};
    int count = 0;
    for (const CacheView& view : views) count += static_cast<int>(view.data == nullptr);
    return count;
  };
  EXPECT_EQ(refused(Storage::bf16, {2, 3, 1, 16}), 0);
  for (const CacheShape& shape : {CacheShape{0, 3, 1, 16}, {2, 3, 0, 16}, {2, 3, 1, 0}, {-2, 3, 1, 16}, {many, 3, many, 16}}) {
    EXPECT_EQ(refused(Storage::bf16, shape), 8);
  }
  EXPECT_EQ(refused(Storage::bf16, {2, 0, 1, 16}), 7);  // SGLang's slots have no block
  EXPECT_EQ(refused(static_cast<Storage>(77), {2, 3, 1, 16}), 8);
  EXPECT_EQ(refused(Storage::bf16, {2, 3, 1, 12}), 1);  // vLLM's keys lie by 16 bytes
  EXPECT_EQ(flashinfer_cache(data, Storage::bf16, {2, 3, 1, 16}, static_cast<HeadOrder>(5)).k.data, nullptr);
  for (const CacheParts& parts : {mla_656_cache(data, 0, 2), mla_656_cache(data, many, many), mla_584_cache(data, 2, 0),
                                  mla_584_cache(data, many, many), mla_584_cache(data, 2, 1, -584), mla_584_cache(data, many, 1, many)}) {
    EXPECT_EQ(parts.parts[0].data, nullptr);
    EXPECT_EQ(parts.parts[1].data, nullptr);
  }
}

/// Rows of MLA: the head of one token, and what a reader makes of the bytes.
TEST(CacheLayouts, mla_656_bytes_decode_to_the_head) {
  Tensor<BFloat16> k({1, 3, 1, 576}, 1);
  k.with_numbers(0, 576, 2);
  std::vector<std::byte> cache(2 * 2 * 656, std::byte{0x5a});
  const std::vector<std::int32_t> slots = {3, -1, 1};
  PrepareInputs inputs;
  inputs.k = k.view();
  PrepareOutputs outputs = {{}, mla_656_cache(cache.data(), 2, 2), {}, {}};
  outputs.places.kind = TokenPlaces::Kind::slots;
  outputs.places.slots = integers(slots.data(), 3);
  const Status status = prepare_attention(inputs, {}, outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  const reference::Values8 values = reference::values_of_e4m3();
  for (const auto& [token, slot] : {std::pair<std::int64_t, std::size_t>{0, 3}, {2, 1}}) {
    const std::byte* const row = cache.data() + slot * 656;
    for (std::int64_t c = 0; c < 512; ++c) {
      float scale = 0;
      std::memcpy(&scale, row + 512 + c / 128 * 4, 4);
      float most = 0;
      for (std::int64_t i = c / 128 * 128; i < c / 128 * 128 + 128; ++i)
        most = std::fmax(most, std::fabs(Element<BFloat16>::widen(k.at(0, token, 0, i))));
      EXPECT_EQ(scale, most / 448.0F);
      const float x = Element<BFloat16>::widen(k.at(0, token, 0, c));
      EXPECT_EQ(static_cast<std::uint8_t>(row[c]), reference::nearest_of(values, x / scale));
      EXPECT_NEAR(values[static_cast<std::size_t>(row[c])] * double{scale}, double{x},
                  std::fmax(std::fabs(x) / 16, double{scale} * 0x1p-10));
    }
    for (std::int64_t c = 512; c < 576; ++c) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, row + 528 + 2 * (c - 512), 2);
      EXPECT_EQ(bits, k.at(0, token, 0, c).bits);
    }
  }
  for (const std::size_t slot : {0U, 2U}) {
    for (std::size_t i = 0; i < 656; ++i) EXPECT_EQ(cache[slot * 656 + i], std::byte{0x5a});
  }
}
TEST(CacheLayouts, mla_584_bytes_have_scales_behind_the_rows_of_a_block) {
  Tensor<BFloat16> k({1, 2, 1, 512}, 1);
  k.with_numbers(0, 512, 2);
  constexpr std::int64_t kTokensOfBlock = 2, kBytes = 1200;
  std::vector<std::byte> cache(2 * kBytes, std::byte{0x5a});
  const std::vector<std::int64_t> slots = {2, 1};
  PrepareInputs inputs;
  inputs.k = k.view();
  PrepareOutputs outputs = {{}, mla_584_cache(cache.data(), 2, kTokensOfBlock, kBytes), {}, {}};
  outputs.places.kind = TokenPlaces::Kind::slots;
  outputs.places.slots = integers(slots.data(), 2);
  const Status status = prepare_attention(inputs, {}, outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  const reference::Values8 values = reference::values_of_e4m3();
  for (const auto& [token, block, at] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{0, 1, 0}, {1, 0, 1}}) {
    const std::byte* const row = cache.data() + block * kBytes + at * 576;
    const std::byte* const scales = cache.data() + block * kBytes + kTokensOfBlock * 576 + at * 8;
    for (std::int64_t c = 0; c < 448; ++c) {
      const float scale = std::ldexp(1.0F, static_cast<int>(scales[c / 64]) - 127);
      const float x = Element<BFloat16>::widen(k.at(0, token, 0, c));
      EXPECT_EQ(static_cast<std::uint8_t>(row[c]), reference::nearest_of(values, x / scale));
      EXPECT_LE(std::fabs(x / scale), 448.0F);
    }
    EXPECT_EQ(scales[7], std::byte{0x5a});
    std::uint16_t bits = 0;
    std::memcpy(&bits, row + 448 + 2 * 63, 2);
    EXPECT_EQ(bits, k.at(0, token, 0, 511).bits);
  }
}

}  // namespace
}  // namespace phasor::test

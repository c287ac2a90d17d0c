// SPDX-License-Identifier: Apache-2.0
// Attention in C over a cache: bitwise what C++ reads from the same pages or rows.
#include "c/attention_support.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t kPage = 3, kBlocks = 7, kPages = 3;
constexpr Extents kOut = {2, 2, 6, 10};
constexpr Extents kLse = {2, 2, 6, 1};

/// A cache of two sequences, as pages or, without blocks, row by row; causal ALiBi.
struct Cached {
  Numbered q{kOut, 1}, memory{{2, kBlocks, kPage * 2, 10}, 2}, want{kOut, 5}, want_lse{kLse, 6}, out{kOut, 5}, lse{kLse, 6};
  CTensor<std::int32_t> blocks{{2, kPages}, {5, 0, 2, 6, 1, 3}}, lengths{{2}, {8, 4}}, short_lengths{{2}, {3, 2}};
  CTensor<std::uint8_t> mask{{2, kPages* kPage}, {1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1}};
  phasor_cache_view k = sized<phasor_cache_view>(), v = k;
  phasor_bias_spec bias = sized<phasor_bias_spec>();
  phasor_term_scheme term = term_of(PHASOR_TERM_BIAS);
  phasor_attention_tensors tensors = sized<phasor_attention_tensors>();
  phasor_cached_inputs inputs = sized<phasor_cached_inputs>();
  phasor_attention_outputs outputs = sized<phasor_attention_outputs>();
  SchemePointer scheme;
  AttentionSpec spec{.terms = {BiasTerm{.bias = *Bias::make(Alibi{.heads = 6, .form = AlibiForm::causal})}}};
  CachedInputs same;

  Cached() {
    auto cache = sized<phasor_cache_memory>();
    cache.data = memory.get()->data;
    cache.blocks = kBlocks;
    cache.block = kPage;
    cache.heads = 2;
    cache.head_dim = 10;
    succeeds([&](phasor_error* error) { return phasor_vllm_flash_cache(&cache, &k, &v, error); });
    bias.heads = 6;
    bias.form = PHASOR_ALIBI_CAUSAL;
    term.bias = &bias;
    auto of = sized<phasor_attention_scheme>();
    of.terms = &term;
    of.term_count = 1;
    of.mask = PHASOR_MASK_CAUSAL;
    scheme = made(of);
    inputs.q = q.get();
    inputs.k = &k;
    inputs.v = &v;
    inputs.pages = {blocks.get(), lengths.get(), kPage};
    inputs.tensors = &tensors;
    outputs.out = out.get();
    outputs.lse = lse.get();
    spec.visibility.mask = Mask::causal;
    const CachePair pair = vllm_flash_cache(memory.get()->data, Storage::f32, {kBlocks, kPage, 2, 10});
    same = {q.view(), pair.k, pair.v, {blocks.values, lengths.values, kPage}};
  }
  Cached(const Cached&) = delete;
  Cached& operator=(const Cached&) = delete;

  void expect_same() const {
    const std::int64_t want_bytes = *cached_attention_workspace(same, spec);
    std::vector<std::byte> work(static_cast<std::size_t>(want_bytes));
    const Status status = cached_attention(same, spec, {want.view(), want_lse.view()}, work);
    ASSERT_TRUE(status.ok()) << status.message();
    std::int64_t bytes = -1;
    succeeds([&](phasor_error* error) { return phasor_cached_attention_workspace(scheme.get(), &inputs, &bytes, error); });
    EXPECT_EQ(bytes, want_bytes);
    const phasor_workspace workspace = {work.data(), work.size(), nullptr, nullptr};
    succeeds([&](phasor_error* error) { return phasor_cached_attention(scheme.get(), &inputs, &outputs, &workspace, error); });
    EXPECT_TRUE(equal_bits(out.tensor.values, want.tensor.values));
    EXPECT_TRUE(equal_bits(lse.tensor.values, want_lse.tensor.values));
    EXPECT_FALSE(equal_bits(out.tensor.values, Numbered(kOut, 5).tensor.values));
  }
};

TEST(CCachedAttention, keys_are_read_from_pages_as_in_cpp) {
  Cached cached;
  cached.expect_same();
  const std::vector<float> unmasked = cached.out.tensor.values;
  cached.tensors.key_mask = cached.mask.get();
  cached.spec.visibility.key_mask = {cached.mask.values.data(), {kPages * kPage, 1}, {}};
  cached.expect_same();
  EXPECT_FALSE(equal_bits(cached.out.tensor.values, unmasked));
}

TEST(CCachedAttention, without_pages_a_sequence_is_a_block) {
  Cached cached;
  cached.inputs.pages = {nullptr, cached.short_lengths.get(), 0};
  cached.same.pages = {{}, cached.short_lengths.values, 0};
  cached.expect_same();
}

TEST(CCachedAttention, sequences_lie_one_after_the_other) {
  Cached cached;
  const CTensor<std::int64_t> starts({3}, {0, 3, 4});
  std::int64_t shape[] = {1, 4, 6, 10}, lse_shape[] = {1, 4, 6, 1};
  phasor_tensor q = *cached.q.get(), out = *cached.out.get(), lse = *cached.lse.get();
  q.shape = out.shape = shape;
  lse.shape = lse_shape;
  cached.inputs.q = &q;
  cached.outputs.out = &out;
  cached.outputs.lse = &lse;
  cached.tensors.query_starts = starts.get();
  cached.q.shape = cached.want.shape = {1, 4, 6, 10};
  cached.want_lse.shape = {1, 4, 6, 1};
  cached.same.q = cached.q.view();
  cached.spec.visibility.query_starts = starts.values;
  cached.expect_same();
}

TEST(CCachedAttention, bad_arguments_are_refused_and_nothing_is_written) {
  Cached cached;
  std::vector<std::byte> work(1 << 20);
  const phasor_workspace workspace = {work.data(), work.size(), nullptr, nullptr};
  const auto run = [&](phasor_error* error) {
    return phasor_cached_attention(cached.scheme.get(), &cached.inputs, &cached.outputs, &workspace, error);
  };
  const CTensor<std::uint8_t> narrow({2, 8});
  cached.tensors.key_mask = narrow.get();
  EXPECT_EQ(failure(PHASOR_INVALID, run), "cached_attention: key_mask has shape (2, 8), wanted (2, 9)");
  cached.tensors.key_mask = nullptr;
  cached.blocks.values[1] = 7;
  EXPECT_NE(failure(PHASOR_INVALID, run), "");
  cached.inputs.pages.lengths = nullptr;
  EXPECT_NE(failure(PHASOR_INVALID, run), "");
  cached.inputs.k = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID, run), "cached_attention: k is null, wanted one");
  std::int64_t bytes = 77;
  EXPECT_EQ(phasor_cached_attention_workspace(cached.scheme.get(), nullptr, &bytes, nullptr), PHASOR_INVALID);
  EXPECT_EQ(bytes, 77);
  EXPECT_TRUE(equal_bits(cached.out.tensor.values, Numbered(kOut, 5).tensor.values));
}

}  // namespace
}  // namespace phasor::test

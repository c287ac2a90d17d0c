// SPDX-License-Identifier: Apache-2.0
// Attention over caches: bit for bit attention over the same keys side by side, for every scheme, layout, page size and length; numbers of
// 8 bits as attention over what they stand for; and every mistake by name.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "attention/support/bridge.hpp"
#include "attention/support/caches.hpp"

namespace phasor::test {
namespace {

TEST(cached_attention, is_attention_for_every_scheme) {
  const ref::Shape shape{.batch = 1, .queries = 6, .keys = 8, .heads = 2, .key_heads = 1, .width = 4, .value_width = 4};
  for (const NamedScheme& one : every_scheme(shape, 4)) {
    const auto* xpos = std::get_if<ref::Xpos>(&one.scheme);
    if (xpos != nullptr && xpos->keys_rotated) continue;  // the library does not have it
    ref::Problem p = random_problem(shape, 3);
    p.visibility.causal = one.causal_only || std::holds_alternative<ref::Cope>(one.scheme);
    p.schemes = {one.scheme};
    Bridge bridge(p, DType::f32);
    ASSERT_TRUE(bridge.forward().ok()) << one.name;
    const auto wanted = bytes_of_view(bridge.outputs.out);
    const auto wanted_lse = bridge.output().lse;
    for (const std::int64_t page : {1, 4}) {
      std::memset(bridge.outputs.out.data, 0xff, wanted.size());
      const Cache cache(bridge.inputs.k, bridge.inputs.v, page, Cache::Layout::nhd, Storage::f32);
      const Status s = run_cached(cache.inputs(bridge.inputs.q), bridge.spec, bridge.outputs);
      ASSERT_TRUE(s.ok()) << one.name << ": " << s.message();
      EXPECT_EQ(bytes_of_view(bridge.outputs.out), wanted) << one.name;
      EXPECT_EQ(bridge.output().lse, wanted_lse) << one.name;
    }
  }
}

/// Sequences of their own lengths, each as a call by itself.
void expect_sequences(DType dtype, Storage storage, Cache::Layout layout, std::int64_t page, std::int64_t queries) {
  SCOPED_TRACE(std::string(name_of(dtype)) + ", pages of " + std::to_string(page) + ", layout " + std::to_string(static_cast<int>(layout)));
  const std::int64_t keys = 70;
  const Tensor q(dtype, {5, queries, 6, 16}, 1), k(dtype, {5, keys, 2, 16}, 2), v(dtype, {5, keys, 2, 16}, 3);
  Tensor out(dtype, {5, queries, 6, 16}, 4), wanted(dtype, {5, queries, 6, 16}, 5);
  Tensor lse(DType::f32, {5, queries, 6, 1}, 6), wanted_lse(DType::f32, {5, queries, 6, 1}, 7);
  Tensor sinks(DType::f32, {1, 1, 6, 1}, 8);
  Cache cache(k.view, v.view, page, layout, storage);
  cache.lengths = {0, 1, static_cast<std::int32_t>(std::min<std::int64_t>(page, keys)), 70, 33};
  const std::vector<AttentionSpec> specs = {
      {},
      {.visibility = {.mask = Mask::causal, .left = 20}},
      {.terms = {BiasTerm{*Bias::make(Alibi{.heads = 6})}}, .softcap = 3, .sinks = sinks.view, .visibility = {.mask = Mask::causal}},
      {.content = RotaryContent{*Rotary::make({.head_dim = 16}), KeyState::rotated}, .visibility = {.mask = Mask::causal}},
      {.content = RotaryContent{*Rotary::make({.head_dim = 16})}},
      {.dropout = {.probability = 0.3, .seed = 5}}};
  for (std::size_t n = 0; n < specs.size(); ++n) {
    for (std::int64_t b = 0; b < 5; ++b) {
      AttentionSpec one = specs[n];
      one.dropout.first_sequence = b;
      const std::int64_t length = cache.lengths[static_cast<std::size_t>(b)];
      ASSERT_TRUE(run_plain({rows(q.view, b, 0, queries), rows(k.view, b, 0, length), rows(v.view, b, 0, length)}, one,
                            {rows(wanted.view, b, 0, queries), rows(wanted_lse.view, b, 0, queries)})
                      .ok());
    }
    const Status s = run_cached(cache.inputs(q.view), specs[n], {out.view, lse.view});
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_EQ(out.memory, wanted.memory) << "spec " << n;
    EXPECT_EQ(lse.memory, wanted_lse.memory) << "spec " << n;
  }
}

TEST(cached_attention, has_sequences_of_their_own_lengths) {
  using enum Cache::Layout;
  for (const std::int64_t page : {1, 16, 17, 64}) expect_sequences(DType::bf16, Storage::bf16, flash, page, 1);
  expect_sequences(DType::f16, Storage::f16, hnd, 16, 3);
  expect_sequences(DType::f32, Storage::f32, nhd, 16, 20);
  expect_sequences(DType::bf16, Storage::bf16, old, 16, 2);
}

/// Pages have room for more keys than there are: the first query's position is no word about the last key.
TEST(cached_attention, takes_positions_of_queries_as_they_are) {
  const Tensor q(DType::f32, {1, 3, 6, 16}, 1), k(DType::f32, {1, 70, 2, 16}, 2), v(DType::f32, {1, 70, 2, 16}, 3);
  Tensor out(DType::f32, {1, 3, 6, 16}, 4), wanted(DType::f32, {1, 3, 6, 16}, 5);
  const Cache cache(k.view, v.view, 16, Cache::Layout::flash, Storage::f32);
  const AttentionSpec spec = {.visibility = {.mask = Mask::causal, .left = 20}, .query_positions = positions_from(5 * 16 - 3)};
  ASSERT_TRUE(run_plain({q.view, k.view, v.view}, spec, {wanted.view, {}}).ok());
  ASSERT_TRUE(run_cached(cache.inputs(q.view), spec, {out.view, {}}).ok());
  EXPECT_EQ(out.memory, wanted.memory);
}

/// A cache of keys as they are and one of rotated keys give the same numbers.
TEST(cached_attention, does_not_show_when_keys_were_rotated) {
  const std::int64_t keys = 70;
  for (const auto& [dtype, storage] : {std::pair{DType::f32, Storage::f32}, {DType::bf16, Storage::bf16}, {DType::f16, Storage::f16}}) {
    for (const std::int64_t queries : {1, 3, 20}) {
      const Tensor q(dtype, {2, queries, 6, 16}, 1), k(dtype, {2, keys, 2, 16}, 2), v(dtype, {2, keys, 2, 16}, 3);
      Tensor turned(dtype, {2, keys, 2, 16}, 2), out(dtype, {2, queries, 6, 16}, 4), wanted(dtype, {2, queries, 6, 16}, 5);
      const Rotary rotary = *Rotary::make({.head_dim = 16, .scaling = YarnScaling{.factor = 4, .original_length = 64}});
      ASSERT_TRUE(rotary.apply(turned.view, positions_from(0)).ok());
      Cache as_given(k.view, v.view, 16, Cache::Layout::flash, storage);
      Cache rotated(turned.view, v.view, 16, Cache::Layout::nhd, storage);
      as_given.lengths = rotated.lengths = {33, 70};
      const Visibility see = {.mask = Mask::causal};
      ASSERT_TRUE(run_cached(as_given.inputs(q.view), {.content = RotaryContent{rotary}, .visibility = see}, {out.view}).ok());
      const AttentionSpec spec = {.content = RotaryContent{rotary, KeyState::rotated}, .visibility = see};
      ASSERT_TRUE(run_cached(rotated.inputs(q.view), spec, {wanted.view}).ok());
      EXPECT_EQ(out.memory, wanted.memory) << name_of(dtype) << ", " << queries;
    }
  }
}

/// The element of 16 bits nearest to a number, and what it stands for.
double stored_as(DType dtype, double x) {
  std::uint16_t bits = 0;
  job::store_element(&bits, dtype, 0, x);
  return job::load_element(&bits, dtype, 0);
}
/// What a cache of one sequence in pages of 16, with two heads of 16 channels, stands for, by the definition.
void decode(const CachedInputs& in, Tensor& k, Tensor& v) {
  for (std::int64_t n = 0; n < k.view.shape[1] * 32; ++n) {
    const job::CachePlace at = {job::at(in.pages.blocks, n / 32 / 16), n / 32 % 16, n / 16 % 2};
    job::store_element(k.view.data, DType::f32, n, job::cached_value(job::sink_of(in.k), at, n % 16));
    job::store_element(v.view.data, DType::f32, n, job::cached_value(job::sink_of(in.v), at, n % 16));
  }
}

/// Keys of 8 bits, or of another dtype than q's, are rotated as the numbers that they are, and then rounded as q's are.
TEST(cached_attention, rounds_rotated_keys_as_queries) {
  const std::int64_t keys = 37;
  const Rotary rotary = *Rotary::make({.head_dim = 16});
  for (const Storage storage : {Storage::f8_e4m3, Storage::f16, Storage::f32}) {
    const Tensor q(DType::bf16, {1, 4, 4, 16}, 1), k(DType::bf16, {1, keys, 2, 16}, 2), v(DType::bf16, {1, keys, 2, 16}, 3);
    Tensor wide_q(DType::f32, q.view.shape, 1), wide_k(DType::f32, k.view.shape, 2), wide_v(DType::f32, v.view.shape, 3);
    Tensor out(DType::f32, {1, 4, 4, 16}, 4), wanted(DType::f32, {1, 4, 4, 16}, 5);
    const Cache cache(k.view, v.view, 16, Cache::Layout::hnd, storage);
    const CachedInputs in = cache.inputs(q.view);
    decode(in, wide_k, wide_v);
    for (std::int64_t n = 0; n < 4 * 4 * 16; ++n) {
      job::store_element(wide_q.view.data, DType::f32, n, job::load_element(q.view.data, DType::bf16, n));
    }
    ASSERT_TRUE(rotary.apply(wide_q.view, positions_from(keys - 4)).ok());
    ASSERT_TRUE(rotary.apply(wide_k.view, positions_from(0)).ok());
    for (Tensor* const x : {&wide_q, &wide_k}) {
      for (std::int64_t n = 0; n < static_cast<std::int64_t>(x->memory.size() / 4); ++n) {
        job::store_element(x->view.data, DType::f32, n, stored_as(DType::bf16, job::load_element(x->view.data, DType::f32, n)));
      }
    }
    const Visibility see = {.mask = Mask::causal};
    ASSERT_TRUE(run_plain({wide_q.view, wide_k.view, wide_v.view}, {.visibility = see}, {wanted.view}).ok());
    const Status s = run_cached(in, {.content = RotaryContent{rotary}, .visibility = see}, {out.view});
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_EQ(out.memory, wanted.memory) << name_of(storage);
  }
}

TEST(cached_attention, has_ragged_queries) {
  const Tensor q(DType::bf16, {1, 12, 4, 16}, 1), k(DType::bf16, {3, 40, 2, 16}, 2), v(DType::bf16, {3, 40, 2, 16}, 3);
  Tensor out(DType::bf16, {1, 12, 4, 16}, 4), wanted(DType::bf16, {1, 12, 4, 16}, 5);
  Cache cache(k.view, v.view, 8, Cache::Layout::flash, Storage::bf16);
  cache.lengths = {33, 7, 40};
  const std::vector<std::int32_t> starts = {0, 1, 1, 12};
  AttentionSpec spec = {.terms = {BiasTerm{*Bias::make(Alibi{.heads = 4})}}, .visibility = {.mask = Mask::causal, .query_starts = starts}};
  AttentionSpec one = spec;
  one.visibility.query_starts = {};
  for (const std::int64_t b : {0, 2}) {
    const std::int64_t first = starts[static_cast<std::size_t>(b)], count = starts[static_cast<std::size_t>(b) + 1] - first;
    const std::int64_t length = cache.lengths[static_cast<std::size_t>(b)];
    ASSERT_TRUE(run_plain({rows(q.view, 0, first, count), rows(k.view, b, 0, length), rows(v.view, b, 0, length)}, one,
                          {rows(wanted.view, 0, first, count)})
                    .ok());
  }
  const Status s = run_cached(cache.inputs(q.view), spec, {out.view});
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(out.memory, wanted.memory);
}

/// What 8 bits stand for, read back by the definition, then attention in float32.
TEST(cached_attention, decodes_what_is_stored_with_scales) {
  const std::int64_t keys = 37;
  const Tensor q(DType::bf16, {1, 2, 4, 16}, 1), k(DType::bf16, {1, keys, 2, 16}, 2), v(DType::bf16, {1, keys, 2, 16}, 3);
  Tensor wide_q(DType::f32, {1, 2, 4, 16}, 1), wide_k(DType::f32, {1, keys, 2, 16}, 2), wide_v(DType::f32, {1, keys, 2, 16}, 3);
  Tensor out(DType::f32, {1, 2, 4, 16}, 4), wanted(DType::f32, {1, 2, 4, 16}, 5), narrow(DType::bf16, {1, 2, 4, 16}, 6);
  float per_head[] = {0.01F, 0.5F};
  using Kind = CacheScales::Kind;
  const std::vector<CacheScales> scales = {{},
                                           {.kind = Kind::given, .value = 0.125F},
                                           {.kind = Kind::given, .use = CacheScales::Use::multiply, .value = 100},
                                           {.kind = Kind::given, .data = per_head, .strides = {0, 0, 1, 0}}};
  for (const Storage storage : {Storage::f8_e4m3, Storage::f8_e5m2, Storage::i8, Storage::f16, Storage::f32}) {
    for (const CacheScales& scale : scales) {
      SCOPED_TRACE(std::string(name_of(storage)));
      const Cache cache(k.view, v.view, 16, Cache::Layout::hnd, storage, scale);
      const CachedInputs in = cache.inputs(q.view);
      decode(in, wide_k, wide_v);
      for (std::int64_t n = 0; n < keys * 2 * 16; ++n) {
        const double is = reinterpret_cast<float*>(wide_k.memory.data())[n], was = job::load_element(k.view.data, DType::bf16, n);
        const double step = scale.data != nullptr                     ? per_head[n / 16 % 2]
                            : scale.kind == Kind::none                ? 1
                            : scale.use == CacheScales::Use::multiply ? 0.01
                                                                      : 0.125;
        const double bound = storage == Storage::i8 ? 0.51 * step : std::abs(was) * 0.126 + step * 0x1p-10;
        const double largest = step * (storage == Storage::i8 ? 127 : storage == Storage::f8_e4m3 ? 448 : 57344);
        if (std::abs(was) <= largest) {
          EXPECT_NEAR(is, was, bound);
        }
      }
      for (std::int64_t n = 0; n < 2 * 4 * 16; ++n) {
        reinterpret_cast<float*>(wide_q.memory.data())[n] = static_cast<float>(job::load_element(q.view.data, DType::bf16, n));
      }
      ASSERT_TRUE(run_plain({wide_q.view, wide_k.view, wide_v.view}, {}, {wanted.view}).ok());
      const Status s = run_cached(in, {}, {out.view});
      ASSERT_TRUE(s.ok()) << s.message();
      EXPECT_EQ(out.memory, wanted.memory);
      ASSERT_TRUE(run_cached(in, {}, {narrow.view}).ok());
      for (std::int64_t n = 0; n < 2 * 4 * 16; ++n) {
        const double is = job::load_element(narrow.memory.data(), DType::bf16, n),
                     was = job::load_element(wanted.memory.data(), DType::f32, n);
        EXPECT_NEAR(is, was, std::abs(was) * 0x1p-8);
      }
    }
  }
}

TEST(cached_attention, takes_tensors_by_key_for_the_room_there_is) {
  const Tensor q(DType::f32, {2, 2, 2, 16}, 1), k(DType::f32, {2, 24, 2, 16}, 2), v(DType::f32, {2, 24, 2, 16}, 3);
  const Tensor dense(DType::f32, {2, 2, 1, 24}, 9), features(DType::f32, {2, 24, 2, 16}, 10), table(DType::f32, {1, 5, 1, 16}, 11);
  Tensor out(DType::f32, {2, 2, 2, 16}, 4), wanted(DType::f32, {2, 2, 2, 16}, 5);
  Cache cache(k.view, v.view, 8, Cache::Layout::flash, Storage::f32);
  cache.lengths = {11, 24};
  std::vector<std::uint8_t> mask(48, 1);
  mask[3] = mask[24 + 9] = 0;
  const AttentionSpec spec = {.terms = {DenseTerm{dense.view}, TableTerm{TableSide::key, table.view, ClipRows{2, 2}, features.view}},
                              .visibility = {.key_mask = {mask.data(), {24, 1}}}};
  for (std::int64_t b = 0; b < 2; ++b) {
    const std::int64_t length = cache.lengths[static_cast<std::size_t>(b)];
    AttentionSpec one = spec;
    ConstTensorView bias = rows<ConstTensorView>(dense.view, b, 0, 2);
    bias.shape[3] = length;
    one.terms = {DenseTerm{bias},
                 TableTerm{TableSide::key, table.view, ClipRows{2, 2}, rows<ConstTensorView>(features.view, b, 0, length)}};
    one.visibility.key_mask.data += 24 * b;
    const Status s =
        run_plain({rows(q.view, b, 0, 2), rows(k.view, b, 0, length), rows(v.view, b, 0, length)}, one, {rows(wanted.view, b, 0, 2)});
    ASSERT_TRUE(s.ok()) << s.message();
  }
  const Status s = run_cached(cache.inputs(q.view), spec, {out.view});
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(out.memory, wanted.memory);
}

TEST(cached_attention, without_pages_has_a_block_for_each_sequence) {
  const Tensor q(DType::f32, {2, 1, 2, 16}, 1), k(DType::f32, {3, 24, 2, 16}, 2), v(DType::f32, {3, 24, 2, 16}, 3);
  Tensor out(DType::f32, {2, 1, 2, 16}, 4), wanted(DType::f32, {2, 1, 2, 16}, 5);
  const std::vector<std::int64_t> lengths = {24, 5};
  const CachedInputs in = {q.view, tensor_cache(k.view), tensor_cache(v.view), {.lengths = lengths}};
  for (std::int64_t b = 0; b < 2; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    ASSERT_TRUE(
        run_plain({rows(q.view, b, 0, 1), rows(k.view, b, 0, length), rows(v.view, b, 0, length)}, {}, {rows(wanted.view, b, 0, 1)}).ok());
  }
  ASSERT_TRUE(run_cached(in, {}, {out.view}).ok());
  EXPECT_EQ(out.memory, wanted.memory);
}

TEST(cached_attention, says_what_is_wrong) {
  const Tensor q(DType::f32, {2, 1, 2, 16}, 1), k(DType::f32, {2, 24, 2, 16}, 2), v(DType::f32, {2, 24, 2, 16}, 3);
  Tensor out(DType::f32, {2, 1, 2, 16}, 4);
  Cache cache(k.view, v.view, 8, Cache::Layout::flash, Storage::f32);
  const CachedInputs good = cache.inputs(q.view);
  const auto message = [&](const CachedInputs& in, const AttentionSpec& spec = {}) {
    const Status s = run_cached(in, spec, {out.view});
    EXPECT_FALSE(s.ok());
    EXPECT_EQ(s.message(), cached_attention(in, spec, {out.view}, {}).message());
    return s.message();
  };
  CachedInputs in = good;
  std::vector<std::int32_t> table = {1, 2, 3, 4, 5, 8};
  in.pages.blocks = table;
  EXPECT_EQ(message(in), "cached_attention: page 2 of sequence 1 is block 8, the caches have 8");
  table[5] = -1;
  EXPECT_EQ(message(in), "cached_attention: page 2 of sequence 1 is block -1, the caches have 8");
  cache.lengths[1] = 16;  // that page is not read then
  EXPECT_TRUE(run_cached(in, {}, {out.view}).ok());
  cache.lengths[1] = -1;
  EXPECT_EQ(message(good), "cached_attention: lengths[1] is -1, wanted 0 to 24, for which there are pages");
  cache.lengths[1] = 25;
  EXPECT_EQ(message(good), "cached_attention: lengths[1] is 25, wanted 0 to 24, for which there are pages");
  cache.lengths[1] = 24;
  in = good;
  in.pages.lengths = {cache.lengths.data(), 1};
  EXPECT_EQ(message(in), "cached_attention: lengths has 1 elements, wanted 2, one per sequence");
  in = good;
  const std::vector<std::uint8_t> bytes(2, 1);
  in.pages.lengths = bytes;
  EXPECT_EQ(message(in), "cached_attention: lengths has elements of 1 byte, wanted int32 or int64");
  in = good;
  in.pages.page_size = 4;
  EXPECT_EQ(message(in), "cached_attention: page_size is 4, the caches have blocks of 8 tokens, wanted the same");
  in = good;
  in.pages.blocks = {table.data(), 5};
  EXPECT_EQ(message(in), "cached_attention: blocks has 5 elements, wanted as many for each of 2 sequences");
  in = good;
  in.q.dtype = DType::f64;
  EXPECT_EQ(message(in), "cached_attention: q is f64, wanted f32, f16 or bf16");
  in = good;
  in.q.shape[3] = 8;
  EXPECT_EQ(message(in), "cached_attention: q has width 8, k has 16, wanted the same");
  in = good;
  in.v.shape[3] = 1;
  EXPECT_EQ(message(in), "cached_attention: k has 2 heads, v has 1, wanted the same");
  in = good;
  in.k.storage = static_cast<Storage>(9);
  EXPECT_EQ(message(in), "cached_attention: cache of k has an unknown storage (9), wanted f32, f16, bf16, f8_e4m3, f8_e5m2 or i8");
  in = good;
  in.k.data = nullptr;
  EXPECT_EQ(
      message(in),
      "cached_attention: cache of k has null data, wanted memory (a function of a layout gives none for a shape that it cannot have)");
  in = good;
  in.k.first_channel = 3;
  EXPECT_EQ(message(in), "cached_attention: cache of k begins with channel 3, wanted all channels in one part");
  const std::vector<std::int64_t> starts = {0, 1, 2};
  EXPECT_EQ(message(good, {.visibility = {.key_starts = starts}}), "cached_attention: key_starts is given, wanted none: lengths say it");
  const Result<std::int64_t> bytes_needed = cached_attention_workspace(good, {});
  ASSERT_TRUE(bytes_needed.ok());
  std::vector<std::byte> small(static_cast<std::size_t>(*bytes_needed - 1));
  EXPECT_EQ(cached_attention(good, {}, {out.view}, small).message(),
            "cached_attention: the workspace has " + std::to_string(*bytes_needed - 1) + " bytes, wanted " + std::to_string(*bytes_needed));
  TensorView over = out.view;
  over.data = good.k.data;
  EXPECT_EQ(cached_attention(good, {}, {over}, small).message(), "cached_attention: out overlaps k, wanted memory apart");
}

}  // namespace
}  // namespace phasor::test

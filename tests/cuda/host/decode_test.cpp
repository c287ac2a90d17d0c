// SPDX-License-Identifier: Apache-2.0
// What decoding on a GPU decides on the host: which keys and splits a sequence has, and which calls are taken.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "cuda/attention/decode/call.hpp"
#include "phasor/phasor.hpp"

namespace phasor::cuda::decode {
namespace {

TEST(Decode, seen_keys_are_those_that_some_query_sees) {
  DecodeWork work;
  for (const int queries : {1, 3, 16}) {
    for (const int64_t keys : {0, 1, 2, 15, 16, 17, 40}) {
      for (const int64_t left : {int64_t{0}, int64_t{5}, int64_t{100}, INT64_MAX}) {
        for (const int64_t right : {int64_t{-3}, int64_t{0}, int64_t{4}, INT64_MAX}) {
          work.queries = queries, work.left = left, work.right = right;
          const KeyRange range = seen_keys(work, keys);
          for (int64_t key = 0; key < keys; ++key) {
            bool seen = false;
            for (int64_t i = 0; i < queries; ++i) {
              const int64_t r = keys - queries + i - key;
              seen = seen || (r <= left && -r <= right);
            }
            EXPECT_TRUE(!seen || (key >= range.first && key < range.end)) << queries << " " << keys << " " << left << " " << right;
          }
          EXPECT_TRUE(range.first >= 0 && range.end <= std::max<int64_t>(keys, range.first));
        }
      }
    }
  }
}

TEST(Decode, seen_splits_hold_the_keys_and_no_more) {
  EXPECT_EQ(seen_splits({0, 0}).end, 0);
  EXPECT_EQ(seen_splits({0, 1}).end, 1);
  EXPECT_EQ(seen_splits({0, kSplit}).end, 1);
  EXPECT_EQ(seen_splits({0, kSplit + 1}).end, 2);
  EXPECT_EQ(seen_splits({kSplit - 1, kSplit + 1}).first, 0);
  EXPECT_EQ(seen_splits({kSplit, kSplit + 1}).first, 1);
}

/// Memory of nobody: nothing of it is read.
struct Call {
  alignas(16) std::byte memory[64] = {};
  std::int32_t lengths[2] = {5, 9};
  CachedInputs inputs;
  AttentionOutputs outputs;
  Call() {
    const Extents q = {2, 1, 8, 128};
    inputs.q = {memory, DType::bf16, q, contiguous_strides(q)};
    inputs.k = contiguous_cache(memory, Storage::bf16, {4, 64, 2, 128});
    inputs.v = inputs.k;
    inputs.pages.lengths = Integers(lengths, 2);
  }
  bool is_taken(const AttentionSpec& spec = {}) const { return layout_of(spec).has_value(); }
  std::optional<DecodeLayout> layout_of(const AttentionSpec& spec) const {
    std::vector<job::AttentionTermJob> terms;
    job::CachedAttentionJob job;
    const Status s = job::make_cached_job({inputs, spec, nullptr, {}}, terms, job);
    EXPECT_TRUE(s.ok()) << s.message();
    attend::Arena measure;
    return lay_out(job, measure);
  }
};

TEST(Decode, takes_what_models_decode_with) {
  const Call call;
  const Rotary rope = *Rotary::make({.head_dim = 128});
  EXPECT_TRUE(call.is_taken());
  EXPECT_TRUE(call.is_taken({.softcap = 30, .visibility = {.mask = Mask::causal, .left = 4096}}));
  EXPECT_TRUE(call.is_taken({.terms = {BiasTerm{*Bias::make(Alibi{.heads = 8})}}}));
  EXPECT_TRUE(call.is_taken({.terms = {BiasTerm{*Bias::make(T5Buckets{.heads = 8})}}}));
  EXPECT_TRUE(call.is_taken({.content = RotaryContent{rope, KeyState::rotated}}));
  EXPECT_FALSE(call.is_taken({.content = RotaryContent{rope}}));
  const Extents table = {1, 7, 8, 128};
  TableTerm shaw = {.table = {call.memory, DType::bf16, table, contiguous_strides(table)}, .rows = ClipRows{3, 3}};
  EXPECT_TRUE(call.is_taken({.terms = {shaw}}));
  shaw.side = TableSide::key;
  EXPECT_FALSE(call.is_taken({.terms = {shaw}}));
  shaw.side = TableSide::value;
  EXPECT_FALSE(call.is_taken({.terms = {shaw}}));
  EXPECT_FALSE(call.is_taken({.dropout = {.probability = 0.5}}));
}

/// Positions by which nothing goes, or queries are rotated alone.
TEST(Decode, takes_positions_that_do_not_say_who_is_seen) {
  const Call call;
  const RotaryContent rotated = {*Rotary::make({.head_dim = 128}), KeyState::rotated};
  const Positions at = positions_from(3);
  const Extents mask = {2, 1, 1, 64};
  const DenseTerm dense = {{call.memory, DType::f32, mask, contiguous_strides(mask)}};
  EXPECT_TRUE(call.is_taken({.query_positions = at}));
  EXPECT_TRUE(call.is_taken({.content = rotated, .terms = {dense}, .query_positions = at, .key_positions = at}));
  EXPECT_EQ(call.layout_of({.content = rotated, .query_positions = at})->positions.offset, 3);
  EXPECT_FALSE(call.is_taken({.visibility = {.mask = Mask::causal}, .query_positions = at}));
  EXPECT_FALSE(call.is_taken({.visibility = {.left = 9}, .key_positions = at}));
  EXPECT_FALSE(call.is_taken({.terms = {BiasTerm{*Bias::make(Alibi{.heads = 8})}}, .query_positions = at}));
}

/// A bias in full: by distance, of a query each; heads share it where they did.
TEST(Decode, a_bias_in_full_is_a_bias_of_each_query) {
  Call call;
  const Extents q = {2, 3, 8, 128};
  call.inputs.q = {call.memory, DType::bf16, q, contiguous_strides(q)};
  for (const std::int64_t heads : {1, 8}) {
    const Extents shape = {1, 3, heads, 64};
    const DenseTerm dense = {{call.memory, DType::bf16, shape, contiguous_strides(shape)}};
    const std::optional<DecodeLayout> layout = call.layout_of({.terms = {dense}});
    ASSERT_TRUE(layout && layout->dense_bias);
    EXPECT_EQ(layout->work.first_distance, -2);
    EXPECT_EQ(layout->work.distances, 64 + 2);
    EXPECT_EQ(layout->work.far_left, 63);
    EXPECT_EQ(layout->work.diagonal_strides[0], 3 * heads * 66);
    EXPECT_EQ(layout->work.diagonal_strides[1], heads * 66);
    EXPECT_EQ(layout->work.diagonal_strides[2], heads == 1 ? 0 : 66);
    EXPECT_FALSE(call.is_taken({.terms = {dense}, .softcap = 5}));
    EXPECT_FALSE(call.is_taken({.terms = {dense, dense}}));
  }
}

/// A term that the kernel takes is in its work: a call that is taken without it would be wrong and fast. 2 queries: distances from -1 on.
TEST(Decode, a_term_that_is_taken_is_there) {
  Call call;
  const Extents q = {2, 2, 8, 128};
  call.inputs.q = {call.memory, DType::bf16, q, contiguous_strides(q)};
  const int64_t room = call.layout_of({})->work.room;
  const Extents table = {1, 7, 8, 128};
  const Extents heads = {1, 1, 8, 128};
  const TableTerm shaw = {.table = {call.memory, DType::bf16, table, contiguous_strides(table)}, .rows = ClipRows{3, 3}};
  const std::optional<DecodeLayout> clipped = call.layout_of({.terms = {shaw}});
  ASSERT_TRUE(clipped && clipped->row_bias);
  EXPECT_EQ(clipped->row_bias->first_distance, -1);
  EXPECT_EQ(clipped->row_bias->distances, 6);  // to 4, where the clip has begun
  EXPECT_EQ(clipped->work.far_left, 4);
  EXPECT_EQ(clipped->work.diagonal_strides[2], 6);
  EXPECT_EQ(clipped->work.diagonal_strides[1], 8 * 6);
  EXPECT_EQ(clipped->work.diagonal_strides[0], 2 * 8 * 6);
  const Extents long_table = {1, room, 8, 128};  // Transformer-XL's: a row for every distance that there may be
  const TableTerm xl = {.table = {call.memory, DType::bf16, long_table, contiguous_strides(long_table)}, .rows = ClipRows{room - 1, 0}};
  AttentionSpec with_u = {.terms = {xl}};
  with_u.content_shift = {call.memory, DType::bf16, heads, contiguous_strides(heads)};
  const std::optional<DecodeLayout> shifted = call.layout_of(with_u);
  ASSERT_TRUE(shifted && shifted->row_bias);
  EXPECT_EQ(shifted->row_bias->distances, room + 1);  // of -1 to room - 1
  EXPECT_EQ(shifted->work.far_left, room - 1);
  EXPECT_EQ(shifted->content_shift.data, call.memory);
  EXPECT_EQ(shifted->work.q.dtype, DType::f32);
  const std::optional<DecodeLayout> biased = call.layout_of({.terms = {BiasTerm{*Bias::make(Alibi{.heads = 8})}}});
  ASSERT_TRUE(biased && !biased->row_bias);
  EXPECT_GE(biased->work.distances, room);
  EXPECT_EQ(biased->work.diagonal_strides[0], 0);
  EXPECT_EQ(biased->work.diagonal_strides[2], biased->work.distances);
}

/// Tables of all batch rows and of each, of all heads and of each, with and without a shift, clipped and not there beyond their rows.
TEST(Decode, a_table_that_meets_queries_is_a_bias_of_each_query) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const auto below = [&](int n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); };
    const int64_t batch = 1 + below(4), queries = 1 + below(5), heads = 1 + below(3), width = 1 + below(9), left = below(6),
                  right = below(4);
    const auto tensor = [&](const Extents& shape, std::vector<float>& memory) {
      memory.resize(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
      for (float& x : memory) x = static_cast<float>(below(2001) - 1000) / 500;
      return ConstTensorView(memory.data(), DType::f32, shape, contiguous_strides(shape));
    };
    std::vector<float> of_table, of_features, of_shift;
    RowBiasWork work;
    work.batch = batch, work.queries = queries, work.heads = heads;
    work.first_distance = -right - 2, work.distances = left + right + 5;
    work.term.table = tensor({below(2) == 0 ? 1 : batch, left + right + 1, below(2) == 0 ? 1 : heads, width}, of_table);
    work.term.features = tensor({batch, queries, heads, width}, of_features);
    if (below(2) == 0) work.term.shift = tensor({1, 1, heads, width}, of_shift);
    work.term.map = {.left = left, .right = right, .zero_outside = below(2) == 0};
    work.term.scale = 0.3;
    std::vector<float> got(static_cast<std::size_t>(batch * queries * heads * work.distances), NAN);
    work.to = got.data();
    for (int64_t n = 0; n < row_bias_items(work); ++n) make_row_bias(work, n);
    const Extents& shape = work.term.table.shape;
    std::size_t at = 0;
    for (int64_t row = 0; row < batch * queries * heads; ++row) {
      for (int64_t distance = work.first_distance; distance < work.first_distance + work.distances; ++distance, ++at) {
        const bool is_inside = distance <= left && -distance <= right;
        const int64_t of = std::min(std::max(-distance, -left), right) + left;
        double sum = 0;
        for (int64_t c = 0; c < width && (is_inside || !work.term.map.zero_outside); ++c) {
          const int64_t b = shape[0] == 1 ? 0 : row / heads / queries, h = shape[2] == 1 ? 0 : row % heads;
          const double x = of_table[static_cast<std::size_t>(((b * shape[1] + of) * shape[2] + h) * width + c)];
          const double shift = of_shift.empty() ? 0 : of_shift[static_cast<std::size_t>(row % heads * width + c)];
          sum += 0.3 * (of_features[static_cast<std::size_t>(row * width + c)] + shift) * x;
        }
        EXPECT_NEAR(got[at], sum, 1e-5) << round << " " << row << " " << distance;
      }
    }
  }
}

TEST(Decode, takes_caches_of_whole_vectors_in_16_and_8_bits) {
  Call call;
  call.inputs.k.storage = call.inputs.v.storage = Storage::f8_e4m3;
  EXPECT_TRUE(call.is_taken());
  call.inputs.k.scales = {.kind = CacheScales::Kind::given, .value = 2};
  EXPECT_TRUE(call.is_taken());
  call.inputs.k.storage = call.inputs.v.storage = Storage::i8;
  EXPECT_FALSE(call.is_taken());
  call = Call();
  call.inputs.k.storage = call.inputs.v.storage = Storage::f16;
  EXPECT_FALSE(call.is_taken());
  call = Call();
  call.inputs.k.data = call.memory + 8;
  EXPECT_FALSE(call.is_taken());
  call = Call();
  call.inputs.k = call.inputs.v = vllm_key_cache(call.memory, Storage::bf16, {4, 64, 2, 128});
  EXPECT_FALSE(call.is_taken());
}

}  // namespace
}  // namespace phasor::cuda::decode

// SPDX-License-Identifier: Apache-2.0
// Bias specs and calls that do not fit: every error says where, what is and what is wanted; nothing is written.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "bias_specs.hpp"

namespace phasor::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Bad {
  BiasSpec spec;
  std::string message;
};

std::string message_of(const BiasSpec& spec) { return Bias::make(spec).status().message(); }

void expect_messages(const std::vector<Bad>& list) {
  for (const Bad& bad : list) EXPECT_EQ(message_of(bad.spec), bad.message);
}

TEST(bias_spec, every_scheme_of_the_list_is_accepted) {
  for (const NamedBias& named : every_bias()) EXPECT_EQ(message_of(named.spec), "") << named.name;
}

TEST(bias_spec, alibi_names_the_field_that_does_not_fit) {
  expect_messages({
      {Alibi{}, "Alibi: heads is 0, wanted 1 to 65536"},
      {Alibi{.heads = 65537}, "Alibi: heads is 65537, wanted 1 to 65536"},
      {Alibi{.heads = 3, .slopes = {1, 2}}, "Alibi: slopes has 2 entries, wanted 3"},
      {Alibi{.heads = 2, .slopes = {1, nan}}, "Alibi: slopes[1] is nan, wanted a finite number, at most 2^256 either way"},
      {Alibi{.heads = 2, .max_bias = 0}, "Alibi: max_bias is 0, wanted more than 0, at most 256"},
      {Alibi{.heads = 2, .max_bias = nan}, "Alibi: max_bias is nan, wanted more than 0, at most 256"},
      {Alibi{.heads = 2, .form = static_cast<AlibiForm>(9)}, "Alibi: form is 9, wanted one of its enumerators"},
      {Alibi{.heads = 2, .rounding = static_cast<SlopeRounding>(9)}, "Alibi: rounding is 9, wanted one of its enumerators"},
  });
}

TEST(bias_spec, tables_name_the_field_that_does_not_fit) {
  expect_messages({
      {T5Buckets{.heads = 1, .buckets = 3}, "T5Buckets: buckets is 3, wanted 4 to 65536"},
      {T5Buckets{.heads = 1, .buckets = 33}, "T5Buckets: buckets is 33, wanted an even number for both sides"},
      {T5Buckets{.heads = 1, .buckets = 1, .sides = BucketSides::behind}, "T5Buckets: buckets is 1, wanted 2 to 65536"},
      {T5Buckets{.heads = 1, .buckets = 32, .max_distance = 8},
       "T5Buckets: max_distance is 8, wanted more than 8, half the buckets of a side, and at most 2^53"},
      {T5Buckets{.heads = 2, .table = {1}}, "T5Buckets: table has 1 entries, wanted 64"},
      {DebertaBuckets{.heads = 1, .buckets = 2}, "DebertaBuckets: buckets is 2, wanted 4 to 65536"},
      {DebertaBuckets{.heads = 1, .buckets = 256, .max_distance = 129},
       "DebertaBuckets: max_distance is 129, wanted more than 129, half the buckets and 1"},
      {DebertaBuckets{.heads = 1, .buckets = 256, .max_distance = 511, .reading = DebertaReading::hf_swapped},
       "DebertaBuckets: max_distance is 511, wanted a half that is not buckets - 1, for hf_swapped"},
      {DebertaBuckets{.heads = 1, .buckets = 0, .max_distance = 0}, "DebertaBuckets: max_distance is 0, wanted 1 to 8388608"},
      {ShawClip{.heads = 1, .left = -1}, "ShawClip: left is -1, wanted 0 to 8388607"},
      {ShawClip{.heads = 1, .left = 1, .right = 1, .table = {1, 2, infinity}},
       "ShawClip: table[2] is inf, wanted a finite number, at most 2^256 either way"},
      {SwinTable{.heads = 1, .window = {0, 3}}, "SwinTable: window.height is 0, wanted 1 to 2048"},
      {SwinTable{.heads = 1, .window = {2, 2049}}, "SwinTable: window.width is 2049, wanted 1 to 2048"},
      {SwinTable{.heads = 1, .window = {2, 2}, .table = {1}}, "SwinTable: table has 1 entries, wanted 9"},
  });
}

TEST(bias_spec, formulas_and_perceptrons_name_the_field_that_does_not_fit) {
  Mlp short_of = mlp_of({1, 2, 3}, Activation::relu, 1);
  short_of.parameters.pop_back();
  expect_messages({
      {Kerple{}, "Kerple: the size of r1 is 0, wanted 1 to 65536"},
      {Kerple{KerpleKind::power, {1, 1}, {1}}, "Kerple: r2 has 1 entries, wanted 2"},
      {Kerple{KerpleKind::logarithmic, {0}, {1}}, "Kerple: r1[0] is 0, wanted 2^-256 to 2^256"},
      {Kerple{KerpleKind::power, {1, 1}, {1, 2.5}}, "Kerple: r2[1] is 2.5, wanted more than 0, at most 2"},
      {Sandwich{.heads = 1, .width = 7}, "Sandwich: width is 7, wanted an even number"},
      {Sandwich{.heads = 1, .base = 0.5}, "Sandwich: base is 0.5, wanted 1 to 2^100"},
      {Fire{}, "Fire: mlp.widths has 0 entries, wanted 2 to 17"},
      {Fire{.mlp = mlp_of({2, 3}, Activation::relu, 1)}, "Fire: mlp.widths[0] is 2, wanted 1"},
      {Fire{.mlp = short_of}, "Fire: mlp.parameters has 12 entries, wanted 13"},
      {Fire{.mlp = mlp_of({1, 3}, Activation::relu, 1), .c = -1}, "Fire: c is -1, wanted 2^-256 to 2^256"},
      {Fire{.mlp = mlp_of({1, 3}, Activation::relu, 1), .length = 0}, "Fire: length is 0, wanted 2^-256 to 2^256"},
      {DynamicMlp{.mlp = mlp_of({1, 3}, static_cast<Activation>(7), 1)}, "DynamicMlp: mlp.activation is 7, wanted one of its enumerators"},
      {DynamicMlp{.mlp = {.widths = {1, 0}}}, "DynamicMlp: mlp.widths[1] is 0, wanted 1 to 65536"},
      {SwinV2{.window = {2, 2}, .trained = {1, 2}, .mlp = mlp_of({2, 3}, Activation::relu, 1)},
       "SwinV2: trained.height is 1, wanted 2 to 2048"},
  });
}

TEST(bias_call, that_does_not_fit_says_why_and_writes_nothing) {
  const Bias bias = *Bias::make(Alibi{.heads = 3});
  const Bias swin = *Bias::make(SwinTable{.heads = 1, .window = {2, 3}});
  std::vector<float> memory(24, 7);
  const auto tensor = [&](const Extents& shape) { return view(memory.data(), shape); };
  const std::vector<std::int64_t> ids = {0, 1, 2, 3};
  const Positions four = positions(ids.data(), 4);
  const double half = 0.5;
  const auto huge = std::int64_t{1} << 62;
  const std::pair<Status, const char*> cases[] = {
      {bias.diagonal(tensor({2, 3, 1, 4}), 0), "Bias::diagonal: the diagonal has shape (2, 3, 1, 4), wanted (1, heads, 1, distances)"},
      {bias.diagonal(tensor({1, -1, 1, 4}), 0), "Bias::diagonal: the bias has heads -1, wanted 0 or above"},
      {bias.diagonal(tensor({1, 3, 1, 4}), 0, {.first_head = 1}), "Bias::diagonal: 3 heads from 1 on are asked for, the spec has 3"},
      {bias.diagonal(tensor({1, 3, 1, 4}), 0, {.first_head = -1}), "Bias::diagonal: 3 heads from -1 on are asked for, the spec has 3"},
      {bias.diagonal(tensor({1, 3, 1, 4}), huge - 2),
       "Bias::diagonal: 4 distances from 4611686018427387902 are asked for, wanted within 2^62 either way"},
      {swin.diagonal(tensor({1, 1, 1, 4}), 5), "Bias::diagonal: distances 5 to 8 are asked for, a window of 2 x 3 has -7 to 7"},
      {bias.diagonal(view(memory.data(), {1, 3, 1, 4}, {0, 2, 0, 1}), 0),
       "Bias::diagonal: the bias has strides 0, 2, 0 by which elements overlap, wanted each element once"},
      {bias.fill(tensor({1, 3, 2, 4}), four, four), "Bias::fill: queries: positions have 4 tokens, wanted 2"},
      {bias.fill(tensor({1, 3, 4, 2}), four, four), "Bias::fill: keys: positions have 4 tokens, wanted 2"},
      {bias.fill(tensor({1, 4, 1, 4}), positions_from(0), four), "Bias::fill: 4 heads from 0 on are asked for, the spec has 3"},
      {bias.fill(tensor({1, 3, 1, 4}), positions(&half, 1), four), "Bias::fill: queries: positions are f64, a bias wants i32 or i64"},
      {bias.fill(tensor({1, 3, 1, 4}), positions_from(huge), four),
       "Bias::fill: queries: position 4611686018427387904 of token 0, wanted within 2^61 either way"},
      {swin.fill(tensor({1, 1, 1, 4}), positions_from(0), four),
       "Bias::fill: keys: position 3 of token 3 is no place of a window of 2 x 3, wanted those of fill_window"},
      {bias.fill({nullptr, DType::f32, {1, 3, 1, 4}, {12, 4, 4, 1}}, positions_from(0), four),
       "Bias::fill: the bias has null data and 1 x 3 x 1 x 4 elements, wanted memory"},
  };
  for (const auto& [status, message] : cases) EXPECT_EQ(status.message(), message);
  EXPECT_EQ(memory, std::vector<float>(24, 7));
}

TEST(bias_call, of_nothing_succeeds) {
  const Bias bias = *Bias::make(Alibi{.heads = 3});
  EXPECT_TRUE(bias.diagonal({nullptr, DType::f32, {1, 3, 1, 0}, {0, 0, 0, 1}}, 0).ok());
  EXPECT_TRUE(bias.fill({nullptr, DType::f32, {0, 3, 2, 2}, {12, 4, 2, 1}}, positions_from(0), positions_from(0)).ok());
  std::vector<double> sum(3, 1);
  EXPECT_TRUE(bias.gradient(sum, {nullptr, DType::f32, {1, 0, 1, 5}, {0, 0, 0, 1}}, 0).ok());
  EXPECT_EQ(sum, std::vector<double>(3, 1));
}

TEST(bias_call, rows_outside_tables_and_windows_are_minus_one) {
  EXPECT_EQ(Bias::make(Alibi{.heads = 3})->row(0), -1);
  EXPECT_EQ(Bias::make(Alibi{.heads = 3})->rows(), 0);
  const Bias swin = *Bias::make(SwinTable{.heads = 1, .window = {2, 3}});
  EXPECT_EQ(swin.rows(), 15);
  EXPECT_EQ(swin.row(-8), -1);
  EXPECT_EQ(swin.row(-7), 0);
  EXPECT_EQ(swin.row(7), 14);
  EXPECT_EQ(swin.row(8), -1);
}

TEST(bias_call, rows_of_the_farthest_distances_are_the_last_ones) {
  constexpr std::int64_t first = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Bias::make(T5Buckets{.heads = 1})->row(first), 31);
  EXPECT_EQ(Bias::make(T5Buckets{.heads = 1})->row(last), 15);
  EXPECT_EQ(Bias::make(DebertaBuckets{.heads = 1})->row(first), 0);
  EXPECT_EQ(Bias::make(DebertaBuckets{.heads = 1})->row(last), 511);
  EXPECT_EQ(Bias::make(ShawClip{.heads = 1, .left = 2, .right = 3})->row(first), 5);
  EXPECT_EQ(Bias::make(SwinTable{.heads = 1, .window = {2, 3}})->row(last), -1);
}

}  // namespace
}  // namespace phasor::test

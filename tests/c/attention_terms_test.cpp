// SPDX-License-Identifier: Apache-2.0
// Schemes of attention in C: each gives bitwise what the C++ one of the same terms gives, and not what plain attention gives.
#include "c/attention_support.hpp"

namespace phasor::test {
namespace {

TEST(CAttention, grouped_queries_behind_a_causal_mask_with_scale_and_soft_cap) {
  const Problem problem;
  auto scheme = sized<phasor_attention_scheme>();
  scheme.mask = PHASOR_MASK_CAUSAL;
  scheme.has_scale = 1;
  scheme.scale = 0.3;
  scheme.softcap = 5;
  AttentionSpec spec{.scale = 0.3, .softcap = 5};
  spec.visibility.mask = Mask::causal;
  expect_same(problem, scheme, nullptr, spec);
}

TEST(CAttention, a_window_of_zero_is_not_no_window) {
  const Problem problem;
  auto scheme = sized<phasor_attention_scheme>();
  scheme.has_left = 1;
  scheme.has_right = 1;
  scheme.right = 2;
  AttentionSpec spec;
  spec.visibility.left = 0;
  spec.visibility.right = 2;
  expect_same(problem, scheme, nullptr, spec);
}

TEST(CAttention, t5_with_learned_parameters_and_a_gate) {
  const Problem problem;
  auto bias = sized<phasor_bias_spec>();
  bias.kind = PHASOR_BIAS_T5;
  bias.heads = 6;
  bias.has_buckets = 1;
  bias.buckets = 8;
  bias.max_distance = 6;
  phasor_term_scheme term = term_of(PHASOR_TERM_BIAS);
  term.bias = &bias;
  term.gate = 1;
  term.parameters = 1;
  const Numbered gate({2, 5, 6, 1}, 4);
  const CTensor<float> parameters({48}, sample(48, 5));
  auto tensors = sized<phasor_term_tensors>();
  tensors.features = gate.get();
  tensors.parameters = parameters.get();
  const std::vector<phasor_term_tensors> list = {tensors};
  const phasor_attention_tensors given = tensors_of_terms(list);
  const auto same = *Bias::make(T5Buckets{.heads = 6, .buckets = 8, .max_distance = 6});
  const std::vector<phasor_term_scheme> terms = {term};
  expect_same(problem, scheme_of_terms(terms), &given,
              {.terms = {BiasTerm{.bias = same, .gate = gate.view(), .parameters = view_of(parameters, {1, 1, 1, 48})}}});
}

TEST(CAttention, alibi_of_later_heads_skips_tiles_that_cannot_matter) {
  const Problem problem;
  auto bias = sized<phasor_bias_spec>();
  bias.heads = 8;
  bias.form = PHASOR_ALIBI_CAUSAL;
  phasor_term_scheme term = term_of(PHASOR_TERM_BIAS);
  term.bias = &bias;
  term.first_head = 2;
  const std::vector<phasor_term_scheme> terms = {term};
  phasor_attention_scheme scheme = scheme_of_terms(terms, PHASOR_MASK_CAUSAL);
  scheme.skip = PHASOR_SKIP_CERTIFIED;
  const auto same = *Bias::make(Alibi{.heads = 8, .form = AlibiForm::causal});
  AttentionSpec spec{.terms = {BiasTerm{.bias = same, .first_head = 2}}, .skip = TileSkip::certified};
  spec.visibility.mask = Mask::causal;
  expect_same(problem, scheme, nullptr, spec);
}

TEST(CAttention, shaw_on_keys_and_values) {
  const Problem problem;
  phasor_term_scheme keys = term_of(PHASOR_TERM_TABLE);
  keys.left = 3;
  keys.right = 2;
  phasor_term_scheme values = keys;
  values.side = PHASOR_TABLE_VALUE;
  values.outside = PHASOR_ROWS_ZERO;
  const Numbered key_table({1, 6, 1, 10}, 4), value_table({1, 6, 6, 7}, 5);
  const std::vector<phasor_term_scheme> terms = {keys, values};
  std::vector<phasor_term_tensors> tensors(2, sized<phasor_term_tensors>());
  tensors[0].table = key_table.get();
  tensors[1].table = value_table.get();
  const phasor_attention_tensors given = tensors_of_terms(tensors);
  expect_same(problem, scheme_of_terms(terms), &given,
              {.terms = {TableTerm{.table = key_table.view(), .rows = ClipRows{3, 2}},
                         TableTerm{.side = TableSide::value, .table = value_table.view(), .rows = ClipRows{3, 2, OutsideRows::zero}}}});
}

TEST(CAttention, transformer_xl_with_both_shifts_and_debertas_key_side) {
  const Problem problem({.batch = 1, .queries = 4, .keys = 9, .heads = 3, .key_heads = 3, .head_dim = 10, .value_dim = 10});
  phasor_term_scheme distances = term_of(PHASOR_TERM_TABLE);
  distances.left = 8;
  distances.shift = 1;
  distances.features = 1;
  auto buckets = sized<phasor_bias_spec>();
  buckets.kind = PHASOR_BIAS_DEBERTA;
  buckets.heads = 1;
  buckets.has_buckets = 1;
  buckets.buckets = 4;
  buckets.max_distance = 9;
  phasor_term_scheme keys = term_of(PHASOR_TERM_TABLE);
  keys.side = PHASOR_TABLE_KEY;
  keys.bias = &buckets;
  keys.has_scale = 1;
  keys.scale = 0.5;
  const Numbered rows({1, 9, 3, 6}, 4), features({1, 4, 3, 6}, 5), shift({1, 1, 3, 6}, 6), u({1, 1, 3, 10}, 7), table({1, 8, 3, 10}, 8);
  const std::vector<phasor_term_scheme> terms = {distances, keys};
  std::vector<phasor_term_tensors> tensors(2, sized<phasor_term_tensors>());
  tensors[0].table = rows.get();
  tensors[0].features = features.get();
  tensors[0].shift = shift.get();
  tensors[1].table = table.get();
  phasor_attention_tensors given = tensors_of_terms(tensors);
  given.content_shift = u.get();
  phasor_attention_scheme scheme = scheme_of_terms(terms, PHASOR_MASK_CAUSAL);
  scheme.content_shift = 1;
  const auto same = *Bias::make(DebertaBuckets{.heads = 1, .buckets = 4, .max_distance = 9});
  AttentionSpec spec{.content_shift = u.view(),
                     .terms = {TableTerm{.table = rows.view(), .rows = ClipRows{8, 0}, .features = features.view(), .shift = shift.view()},
                               TableTerm{.side = TableSide::key, .table = table.view(), .rows = same, .scale = 0.5}}};
  spec.visibility.mask = Mask::causal;
  expect_same(problem, scheme, &given, spec);
}

TEST(CAttention, rotary_inside_at_given_positions_and_by_a_map) {
  const Problem problem;
  const CTensor<std::int32_t> queries({2, 5}, {3, 4, 5, 6, 7, 103, 104, 105, 106, 107});
  const CTensor<std::int64_t> keys({7}, {0, 1, 2, 3, 4, 5, 6});
  const phasor_positions at_queries = {queries.get(), 0}, at_keys = {keys.get(), 0};
  auto tensors = sized<phasor_attention_tensors>();
  tensors.query_positions = &at_queries;
  tensors.key_positions = &at_keys;
  auto rotary = sized<phasor_rotary_spec>();
  rotary.head_dim = 10;
  rotary.rotary_width = 6;
  auto content = sized<phasor_content_scheme>();
  content.kind = PHASOR_CONTENT_ROTARY;
  content.rotary = &rotary;
  auto scheme = sized<phasor_attention_scheme>();
  scheme.content = &content;
  scheme.mask = PHASOR_MASK_CAUSAL;
  const auto same = *Rotary::make({.head_dim = 10, .rotary_width = 6});
  AttentionSpec spec{.content = RotaryContent{.rotary = same},
                     .query_positions = positions(queries.values.data(), 2, 5),
                     .key_positions = positions(keys.values.data(), 7)};
  spec.visibility.mask = Mask::causal;
  expect_same(problem, scheme, &tensors, spec);

  auto map = sized<phasor_position_map>();
  map.kind = PHASOR_MAP_SELF_EXTEND;
  map.window = 2;
  map.group = 3;
  content.map = &map;
  spec.content = RotaryContent{.rotary = same, .map = SelfExtend{.window = 2, .group = 3}};
  expect_same(problem, scheme, &tensors, spec);

  content = sized<phasor_content_scheme>();
  content.kind = PHASOR_CONTENT_ROTARY;
  content.rotary = &rotary;
  content.keys = PHASOR_KEYS_ROTATED;
  spec.content = RotaryContent{.rotary = same, .keys = KeyState::rotated};
  expect_same(problem, scheme, &tensors, spec);

  content.kind = PHASOR_CONTENT_XPOS;
  content.keys = PHASOR_KEYS_UNROTATED;
  content.gamma = 0.5;
  spec.content = XposContent{.rotary = same, .gamma = 0.5};
  expect_same(problem, scheme, &tensors, spec);
}

TEST(CAttention, segments_and_sinks) {
  const Problem problem;
  const CTensor<std::int32_t> queries({2, 5}, {0, 0, 1, 1, 1, 0, 1, 1, 2, 2}), keys({7}, {0, 0, 1, 1, 1, 2, 2});
  const Numbered table({1, 2, 6, 10}, 4), shift({1, 1, 6, 10}, 5), sinks({1, 1, 6, 1}, 6);
  phasor_term_scheme term = term_of(PHASOR_TERM_SEGMENT);
  term.shift = 1;
  term.has_scale = 1;
  term.scale = 0.25;
  const std::vector<phasor_term_scheme> terms = {term};
  std::vector<phasor_term_tensors> tensors(1, sized<phasor_term_tensors>());
  tensors[0].table = table.get();
  tensors[0].shift = shift.get();
  tensors[0].query_segments.tensor = queries.get();
  tensors[0].key_segments.tensor = keys.get();
  phasor_attention_tensors given = tensors_of_terms(tensors);
  given.sinks = sinks.get();
  phasor_attention_scheme scheme = scheme_of_terms(terms);
  scheme.sinks = 1;
  expect_same(problem, scheme, &given,
              {.terms = {SegmentTerm{.table = table.view(),
                                     .shift = shift.view(),
                                     .query_segments = positions(queries.values.data(), 2, 5),
                                     .key_segments = positions(keys.values.data(), 7),
                                     .scale = 0.25}},
               .sinks = sinks.view()});
}

TEST(CAttention, grids_decomposed_dense_and_contextual_terms) {
  const Problem problem({.batch = 2, .queries = 7, .keys = 7, .heads = 3, .key_heads = 1, .head_dim = 10, .value_dim = 7});
  const Numbered grid({1, 18, 3, 1}, 4), heights({1, 3, 3, 10}, 5), widths({1, 13, 3, 10}, 6), dense({1, 7, 1, 7}, 7),
      cope({1, 4, 1, 10}, 8);
  std::vector<phasor_term_scheme> terms = {term_of(PHASOR_TERM_GRID), term_of(PHASOR_TERM_DECOMPOSED), term_of(PHASOR_TERM_DENSE),
                                           term_of(PHASOR_TERM_COPE)};
  terms[0].window = {2, 3};
  terms[0].class_token = PHASOR_CLASS_TOKEN_FIRST;
  terms[1].query_grid = {2, 7};
  terms[1].key_grid = {1, 7};
  terms[1].has_scale = 1;
  terms[1].scale = 0.75;
  terms[3].has_gate_scale = 1;
  terms[3].gate_scale = 0.5;
  std::vector<phasor_term_tensors> tensors(4, sized<phasor_term_tensors>());
  tensors[0].table = grid.get();
  tensors[1].table = heights.get();
  tensors[1].second = widths.get();
  tensors[2].table = dense.get();
  tensors[3].table = cope.get();
  const phasor_attention_tensors given = tensors_of_terms(tensors);
  AttentionSpec spec{
      .terms = {GridTerm{.window = {2, 3}, .class_token = ClassToken::first, .table = grid.view()},
                DecomposedTerm{.query_grid = {2, 7}, .key_grid = {1, 7}, .rows_h = heights.view(), .rows_w = widths.view(), .scale = 0.75},
                DenseTerm{.bias = dense.view()}, CopeTerm{.table = cope.view(), .gate_scale = 0.5}}};
  spec.visibility.mask = Mask::causal;
  expect_same(problem, scheme_of_terms(terms, PHASOR_MASK_CAUSAL), &given, spec);
}

}  // namespace
}  // namespace phasor::test

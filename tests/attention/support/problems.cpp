// SPDX-License-Identifier: Apache-2.0
#include "attention/support/problems.hpp"

namespace phasor::test {

ref::Problem random_problem(const ref::Shape& s, std::uint64_t seed) {
  Numbers random(seed);
  return {.shape = s,
          .q = random.values(s.batch * s.queries * s.heads * s.width),
          .k = random.values(s.batch * s.keys * s.key_heads * s.width),
          .v = random.values(s.batch * s.keys * s.key_heads * s.value_width),
          .scale = 0.7};
}

ref::TransformerXl random_xl(const ref::Shape& s, Numbers& random, ref::XlOrder order) {
  return {.u = random.values(s.heads * s.width),
          .v = random.values(s.heads * s.width),
          .projection = random.values(s.heads * s.width * 6),
          .model_width = 6,
          .base = 50,
          .order = order};
}

ref::TransformerXl random_xl_table(const ref::Shape& s, Numbers& random) {
  return {.u = random.values(s.heads * s.width),
          .v = random.values(s.heads * s.width),
          .table = random.values(s.heads * 17 * s.width),
          .first_distance = -8};
}

ref::T5 random_t5(const ref::Shape& s, Numbers& random, bool both_sides) {
  return {.buckets = 8, .max_distance = 9, .both_sides = both_sides, .table = random.values(s.heads * 8)};
}

ref::Xlnet random_xlnet(const ref::Shape& s, Numbers& random) {
  ref::Xlnet xlnet{.xl = random_xl(s, random), .clamp = 3, .direction = ref::Integers(static_cast<std::size_t>(s.batch), 1)};
  xlnet.direction.back() = -1;
  xlnet.segment_bias = random.values(s.heads * s.width);
  xlnet.segment_table = random.values(2 * s.heads * s.width);
  for (std::int64_t n = 0; n < s.batch * s.queries; ++n) xlnet.query_segments.push_back(n % 3 == 0 ? 1 : 0);
  for (std::int64_t n = 0; n < s.batch * s.keys; ++n) xlnet.key_segments.push_back(n % 2);
  return xlnet;
}

ref::Deberta random_deberta(const ref::Shape& s, Numbers& random, std::int64_t buckets, ref::DebertaReading reading) {
  const std::int64_t span = buckets == 0 ? 3 : buckets;
  return {.buckets = buckets,
          .max_distance = buckets == 0 ? 3 : 9,
          .c2p = reading == ref::DebertaReading::hf_swapped ? ref::DebertaReading::hf : reading,
          .p2c = reading,
          .keys = random.values(s.heads * 2 * span * s.width),
          .queries = random.values(s.heads * 2 * span * s.width)};
}

std::vector<NamedScheme> diagonal_schemes(const ref::Shape& s, Numbers& random) {
  const std::int64_t h = s.heads;
  const ref::Fire fire{.widths = {1, 3, 2, h}, .mlp = random.values(6 + 8 + h * 3, -0.4, 1), .c = 0.3, .length = 3.7, .epsilon = 0.01};
  ref::Fire smooth = fire;
  smooth.activation = ref::Activation::silu;
  return {{"alibi", ref::Alibi{random.values(h, 0.1, 1)}},
          {"alibi_causal", ref::Alibi{random.values(h, 0.1, 1), ref::AlibiForm::causal}},
          {"alibi_key_position", ref::Alibi{random.values(h, 0.1, 1), ref::AlibiForm::key_position}},
          {"t5", random_t5(s, random, true)},
          {"t5_behind", random_t5(s, random, false)},
          {"kerple_log", ref::Kerple{ref::KerpleKind::logarithmic, random.values(h, 0.3, 1), random.values(h, 0.3, 1)}},
          {"kerple_power", ref::Kerple{ref::KerpleKind::power, random.values(h, 0.3, 1), random.values(h, 0.3, 1.9)}},
          {"sandwich", ref::Sandwich{.width = 6, .base = 50}},
          {"learned_diagonal", ref::LearnedDiagonal{.left = 3, .right = 1, .table = random.values(h * 5)}},
          {"fire_relu", fire},
          {"fire_silu", smooth}};
}

std::vector<NamedScheme> table_schemes(const ref::Shape& s, Numbers& random) {
  const std::int64_t h = s.heads;
  const std::int64_t d = s.width;
  const ref::Dense whole{.extents = {s.batch, h, s.queries, s.keys}, .bias = random.values(s.batch * h * s.queries * s.keys)};
  return {
      {"wavlm", ref::WavLm{random_t5(s, random, true), random.values(s.batch * s.queries * h)}},
      {"dense", whole},
      {"dense_shared", ref::Dense{.extents = {1, h, 1, s.keys}, .bias = random.values(h * s.keys)}},
      {"swin", ref::Swin{.height = 2, .width = 4, .table = random.values(h * 21)}},
      {"beit", ref::Swin{.height = 2, .width = 4, .class_token = true, .table = random.values(h * 24)}},
      {"sam", ref::Sam{.query_grid = {2, 4}, .key_grid = {2, 4}, .rows_h = random.values(3 * d), .rows_w = random.values(7 * d)}},
      {"shaw_k", ref::Shaw{.left = 2, .right = 1, .keys = random.values(4 * d)}},
      {"shaw_kv", ref::Shaw{.left = 1, .right = 3, .keys = random.values(5 * d), .values = random.values(5 * s.value_width)}},
      {"shaw_kv_per_head",
       ref::Shaw{
           .left = 2, .right = 2, .per_head = true, .keys = random.values(h * 5 * d), .values = random.values(h * 5 * s.value_width)}},
      {"transformer_xl", random_xl(s, random)},
      {"transformer_xl_table", random_xl_table(s, random)},
      {"conformer", random_xl(s, random, ref::XlOrder::interleaved)},
      {"xlnet", random_xlnet(s, random)},
      {"deberta_hf", random_deberta(s, random, 4, ref::DebertaReading::hf)},
      {"deberta_microsoft", random_deberta(s, random, 4, ref::DebertaReading::microsoft)},
      {"deberta_hf_swapped", random_deberta(s, random, 4, ref::DebertaReading::hf_swapped)},
      {"deberta_v1", random_deberta(s, random, 0, ref::DebertaReading::hf)},
      {"inkling", ref::Inkling{.extent = 3,
                               .feature_width = 3,
                               .features = random.values(s.batch * s.queries * h * 3),
                               .table = random.values(9),
                               .alpha = 0.4,
                               .floor = 2}},
      {"cope", ref::Cope{.rows = 3, .table = random.values(3 * d)}},
      {"cope_per_head", ref::Cope{.rows = 6, .per_head = true, .table = random.values(h * 6 * d), .gate_scale = 1.5, .term_scale = 0.5}}};
}

std::vector<NamedScheme> rotary_schemes() {
  const ref::Ladder part{.rotary_width = 2, .base = 50};
  const ref::Ladder whole{.base = 50, .pairing = ref::Pairing::interleaved, .amplitude = 1.1};
  return {{"rope", ref::Rope{part}},
          {"rope_interleaved", ref::Rope{whole}},
          {"rope_keys_rotated", ref::Rope{whole, true}},
          {"xpos", ref::Xpos{.ladder = whole, .scale_base = 4}},
          {"xpos_keys_rotated", ref::Xpos{.ladder = part, .keys_rotated = true, .scale_base = 4}},
          {"rerope", ref::MappedRope{.ladder = whole, .window = 2}, true},
          {"leaky_rerope", ref::MappedRope{.ladder = whole, .kind = ref::MapKind::leaky_rerope, .window = 2, .factor = 3}, true},
          {"self_extend", ref::MappedRope{.ladder = part, .kind = ref::MapKind::self_extend, .window = 3, .group = 2}, true},
          {"dual_chunk", ref::MappedRope{.ladder = whole, .kind = ref::MapKind::dual_chunk, .chunk = 3, .local = 1}, true}};
}

std::vector<NamedScheme> every_scheme(const ref::Shape& shape, std::uint64_t seed) {
  Numbers random(seed);
  std::vector<NamedScheme> all = diagonal_schemes(shape, random);
  for (auto& one : table_schemes(shape, random)) all.push_back(std::move(one));
  for (auto& one : rotary_schemes()) all.push_back(std::move(one));
  return all;
}

ref::Parameters parameters_of(ref::Scheme& scheme) {
  return std::visit([](auto& one) { return one.parameters(); }, scheme);
}

}  // namespace phasor::test

// SPDX-License-Identifier: Apache-2.0
// Invariances of the attention reference, and schemes that are cases of others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "attention/support/compare.hpp"
#include "attention/support/finite_differences.hpp"

namespace phasor::test {
namespace {

constexpr ref::Shape kShape{.batch = 2, .queries = 4, .keys = 7, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3};
constexpr ref::Shape kSquare{.batch = 1, .queries = 6, .keys = 6, .heads = 2, .key_heads = 2, .width = 4, .value_width = 3};

ref::Problem with(const ref::Shape& shape, std::vector<ref::Scheme> schemes, const ref::Visibility& visibility = {}) {
  ref::Problem p = random_problem(shape, 11);
  p.schemes = std::move(schemes);
  p.visibility = visibility;
  return p;
}

ref::Output run(const ref::Shape& shape, std::vector<ref::Scheme> schemes, const ref::Visibility& visibility = {}) {
  return ref::forward(with(shape, std::move(schemes), visibility));
}

const std::vector<ref::Visibility> kMasks = {{}, {.causal = true}, {.left = 2, .right = 1}};

TEST(attention_reference_equality, zero_tables_are_bit_for_bit_no_scheme) {
  for (const ref::Visibility& mask : kMasks) {
    const ref::Output plain = run(kShape, {}, mask);
    for (NamedScheme& one : every_scheme(kShape, 3)) {
      if (parameters_of(one.scheme).empty()) continue;
      for (const ref::Parameter& parameter : parameters_of(one.scheme)) std::fill(parameter.values.begin(), parameter.values.end(), 0);
      if (auto* fire = std::get_if<ref::Fire>(&one.scheme)) fire->c = 0.1, fire->length = 4;  // 0 / 0 otherwise
      const ref::Output output = run(kShape, {one.scheme}, mask);
      EXPECT_EQ(output.out, plain.out) << one.name;
      EXPECT_EQ(output.lse, plain.lse) << one.name;
    }
  }
}

TEST(attention_reference_equality, constant_tables_shift_the_lse_alone) {
  ref::Output plain = run(kShape, {}, {.causal = true});
  for (double& x : plain.lse) x += 0.75;
  for (NamedScheme& one : every_scheme(kShape, 3)) {
    if (one.name != "t5" && one.name != "learned_diagonal" && one.name != "swin" && one.name != "beit" && one.name != "dense") continue;
    for (const ref::Parameter& parameter : parameters_of(one.scheme)) std::fill(parameter.values.begin(), parameter.values.end(), 0.75);
    expect_same(run(kShape, {one.scheme}, {.causal = true}), plain, one.name);
  }
}

TEST(attention_reference_equality, a_constant_row_of_values_is_added) {
  for (const ref::Visibility& mask : kMasks) {
    ref::Output wanted = run(kShape, {}, mask);
    for (std::size_t n = 0; n < wanted.out.size(); ++n) wanted.out[n] += n % 3 == 0 ? 2 : n % 3 == 1 ? -1 : 0.5;
    ref::Values rows;
    for (int row = 0; row < 4; ++row) rows.insert(rows.end(), {2, -1, 0.5});
    expect_same(run(kShape, {ref::Shaw{.left = 2, .right = 1, .values = rows}}, mask), wanted, "shaw");
  }
}

TEST(attention_reference_equality, shaw_without_clipping_is_transformer_xl_without_biases) {
  Numbers random(4);
  ref::TransformerXl xl = random_xl(kShape, random);
  std::fill(xl.u.begin(), xl.u.end(), 0);
  std::fill(xl.v.begin(), xl.v.end(), 0);
  ref::Shaw shaw{.left = 6, .right = 6, .per_head = true};
  for (std::int64_t row = 0; row < 2 * 13 * 4; ++row) {
    const std::int64_t head = row / 52;
    const std::int64_t key_minus_query = row / 4 % 13 - 6;
    const ref::Values sinusoid = ref::xl_sinusoid(xl, static_cast<long double>(-key_minus_query));
    const auto weights = xl.projection.begin() + (head * 4 + row % 4) * 6;
    shaw.keys.push_back(std::inner_product(sinusoid.begin(), sinusoid.end(), weights, 0.0));
  }
  for (const ref::Visibility& mask : kMasks) expect_same(run(kShape, {shaw}, mask), run(kShape, {xl}, mask), "shaw");
}

TEST(attention_reference_equality, transformer_xl_may_have_its_rows_given) {
  Numbers random(4);
  const ref::TransformerXl xl = random_xl(kShape, random);
  ref::TransformerXl given{.u = xl.u, .v = xl.v, .first_distance = -3};
  for (std::int64_t n = 0; n < 2 * 10 * 4; ++n) {
    const ref::Values sinusoid = ref::xl_sinusoid(xl, static_cast<long double>(n / 4 % 10 - 3));
    given.table.push_back(std::inner_product(sinusoid.begin(), sinusoid.end(), xl.projection.begin() + (n / 40 * 4 + n % 4) * 6, 0.0));
  }
  EXPECT_EQ(run(kShape, {given}).out, run(kShape, {xl}).out);
  given.first_distance = -2;
  EXPECT_THROW(run(kShape, {given}), std::invalid_argument);  // distance -3 is not in it
}

TEST(attention_reference_equality, xlnet_without_segments_is_transformer_xl_and_backwards_is_its_mirror) {
  Numbers random(4);
  const ref::TransformerXl xl = random_xl(kShape, random);
  const ref::Output wanted = run(kShape, {xl});
  expect_same(run(kShape, {ref::Xlnet{.xl = xl}}), wanted, "xlnet");
  expect_same(run(kShape, {ref::Xlnet{.xl = xl, .clamp = 6}}), wanted, "clamp that cuts nothing");
  expect_other(run(kShape, {ref::Xlnet{.xl = xl, .clamp = 2}}), wanted, "clamp");
  ref::TransformerXl mirrored = xl;  // r(-distance): sines change their sign
  for (std::size_t n = 0; n < mirrored.projection.size(); ++n) mirrored.projection[n] *= n % 6 < 3 ? -1 : 1;
  const ref::Output backwards = run(kShape, {mirrored});
  const ref::Output both = run(kShape, {ref::Xlnet{.xl = xl, .direction = {1, -1}}});
  const std::size_t half = both.out.size() / 2;
  for (std::size_t n = 0; n < both.out.size(); ++n) EXPECT_NEAR(both.out[n], (n < half ? wanted : backwards).out[n], kSameTolerance);
  expect_other(wanted, backwards, "directions differ");
}

TEST(attention_reference_equality, conformer_is_transformer_xl_with_its_columns_in_turn) {
  Numbers random(4);
  const ref::TransformerXl xl = random_xl(kShape, random);
  ref::TransformerXl conformer = xl;
  conformer.order = ref::XlOrder::interleaved;
  for (std::size_t n = 0; n < xl.projection.size(); ++n) {
    const std::size_t m = n % 6;
    conformer.projection[n - m + (m < 3 ? 2 * m : 2 * (m - 3) + 1)] = xl.projection[n];
  }
  expect_same(run(kShape, {conformer}), run(kShape, {xl}), "conformer");
}

TEST(attention_reference_equality, a_gate_of_one_is_t5) {
  Numbers random(4);
  const ref::T5 t5 = random_t5(kShape, random, true);
  EXPECT_EQ(run(kShape, {ref::WavLm{t5, ref::Values(16, 1)}}).out, run(kShape, {t5}).out);
}

TEST(attention_reference_equality, inkling_of_one_feature_is_a_diagonal) {
  Numbers random(4);
  const ref::Values profile = random.values(5);
  const ref::Inkling inkling{.extent = 5, .feature_width = 1, .features = ref::Values(16, 1), .table = profile};
  ref::LearnedDiagonal diagonal{.left = 5, .right = 1};  // distance 5 and beyond, then 4 ... 0, then ahead
  for (int head = 0; head < 2; ++head) {
    diagonal.table.push_back(0);
    diagonal.table.insert(diagonal.table.end(), profile.rbegin(), profile.rend());
    diagonal.table.push_back(0);
  }
  for (const ref::Visibility& mask : kMasks) EXPECT_EQ(run(kShape, {inkling}, mask).out, run(kShape, {diagonal}, mask).out);
}

TEST(attention_reference_equality, t5_with_a_table_of_alibi_is_alibi) {
  ref::T5 t5{.buckets = 32, .max_distance = 64};
  for (const double slope : {0.5, 0.25}) {
    for (int bucket = 0; bucket < 32; ++bucket) t5.table.push_back(-slope * (bucket % 16));
  }
  expect_same(run(kShape, {t5}), run(kShape, {ref::Alibi{{0.5, 0.25}}}), "t5");
}

TEST(attention_reference_equality, grids_of_one_row_are_lines) {
  Numbers random(4);
  const ref::Values rows = random.values(11 * 4);
  ref::Values reversed;
  for (int row = 10; row >= 0; --row) reversed.insert(reversed.end(), rows.begin() + row * 4, rows.begin() + row * 4 + 4);
  const ref::Sam sam{.query_grid = {1, 6}, .key_grid = {1, 6}, .rows_h = ref::Values(4, 0), .rows_w = rows};
  ref::Problem p = with(kSquare, {sam});
  p.scale = 1;
  ref::Problem shaw = p;
  shaw.schemes = {ref::Shaw{.left = 5, .right = 5, .keys = reversed}};
  expect_same(ref::forward(p), ref::forward(shaw), "sam");
  const ref::Values table = random.values(22);
  const ref::Values mirrored(table.rbegin(), table.rend());
  ref::LearnedDiagonal line{.left = 5, .right = 5, .table = ref::Values(mirrored.begin() + 11, mirrored.end())};
  line.table.insert(line.table.end(), mirrored.begin(), mirrored.begin() + 11);
  EXPECT_EQ(run(kSquare, {ref::Swin{.height = 1, .width = 6, .table = table}}).out, run(kSquare, {line}).out);
}

TEST(attention_reference_equality, every_term_is_a_dense_bias) {
  for (const NamedScheme& one : every_scheme(kShape, 3)) {
    if (one.name.starts_with("shaw_kv") || one.causal_only) continue;
    const ref::Problem p = with(kShape, {one.scheme});
    const ref::Problem plain = with(kShape, {});
    ref::Dense dense{.extents = {2, 2, 4, 7}};
    for (std::int64_t n = 0; n < 112; ++n) {
      const ref::Cell cell{n / 56, n / 28 % 2, n / 7 % 4, n % 7};
      dense.bias.push_back(ref::score(p, cell) - ref::score(plain, cell));
    }
    expect_same(run(kShape, {dense}), ref::forward(p), one.name);
  }
}

TEST(attention_reference_equality, maps_that_change_nothing_are_rope) {
  const ref::Ladder ladder{.base = 50};
  const ref::Visibility causal{.causal = true};
  const ref::Output rope = run(kShape, {ref::Rope{ladder}}, causal);
  const auto mapped = [&](ref::MappedRope map) {
    map.ladder = ladder;
    return run(kShape, {map}, causal);
  };
  expect_same(mapped({.window = 7}), rope, "rerope");
  expect_same(mapped({.kind = ref::MapKind::leaky_rerope, .window = 2, .factor = 1}), rope, "leaky");
  expect_same(mapped({.kind = ref::MapKind::self_extend, .window = 2, .group = 1}), rope, "self_extend");
  expect_same(mapped({.kind = ref::MapKind::dual_chunk, .chunk = 9, .local = 2}), rope, "dual_chunk");
  expect_other(mapped({.window = 2}), rope, "rerope");
  expect_other(mapped({.kind = ref::MapKind::self_extend, .window = 2, .group = 3}), rope, "self_extend");
  expect_same(mapped({.kind = ref::MapKind::leaky_rerope, .window = 2, .factor = 1e15}), mapped({.window = 2}), "leaky becomes rerope",
              1e-12);
  expect_same(run(kShape, {ref::Xpos{.ladder = ladder, .scale_base = 1e300}}, causal), rope, "xpos without decay");
}

TEST(attention_reference_equality, keys_may_come_rotated) {
  const ref::Ladder ladder{.base = 50};
  ref::Problem p = with(kShape, {ref::Rope{ladder}});
  const ref::Output wanted = ref::forward(p);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t j = 0; j < 7; ++j) {
      double* k = p.k.data() + ref::key_row(p, {.b = b, .j = j});
      for (int pair = 0; pair < 2; ++pair) {
        const double angle = static_cast<double>(j) * std::pow(50, -pair / 2.0);
        const double x = k[pair];
        const double y = k[pair + 2];
        k[pair] = x * std::cos(angle) - y * std::sin(angle);
        k[pair + 2] = x * std::sin(angle) + y * std::cos(angle);
      }
    }
  }
  p.schemes = {ref::Rope{ladder, true}};
  expect_same(ref::forward(p), wanted, "rotated");
}

}  // namespace
}  // namespace phasor::test

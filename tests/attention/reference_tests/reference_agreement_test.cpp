// SPDX-License-Identifier: Apache-2.0
// The reference of attention against the library's biases and maps, which share no code with it, and against closed forms.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "attention/support/compare.hpp"
#include "phasor/bias.hpp"
#include "phasor/position_maps.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

constexpr ref::Shape kShape{.batch = 1, .queries = 12, .keys = 20, .heads = 3, .key_heads = 1, .width = 4, .value_width = 1};

/// Terms of the reference against a bias of the library at the same positions.
void expect_bias(const ref::Scheme& scheme, const BiasSpec& spec, bool causal = false) {
  ref::Problem p = random_problem(kShape, 2);
  p.schemes = {scheme};
  p.q.assign(p.q.size(), 0);
  const Result<Bias> bias = Bias::make(spec);
  ASSERT_TRUE(bias.ok()) << bias.status().message();
  Tensor<double> filled({1, 3, 12, 20}, 1);
  ASSERT_TRUE(bias->fill(filled.view(), positions_from(8), positions_from(0)).ok());
  filled.each_head([&](std::int64_t b, std::int64_t h, std::int64_t i) {
    for (std::int64_t j = 0; j < (causal ? i + 9 : 20); ++j) {
      const double wanted = filled.at(b, h, i, j);
      EXPECT_NEAR(ref::score(p, {b, h, i, j}), wanted, 4e-15 * (1 + std::fabs(wanted))) << h << " " << i << " " << j;
    }
  });
}

TEST(attention_reference_agreement, biases_are_those_of_the_library) {
  Numbers random(9);
  expect_bias(ref::Alibi{ref::alibi_slopes(3)}, Alibi{.heads = 3});
  expect_bias(ref::Alibi{ref::alibi_slopes(3, 16), ref::AlibiForm::causal}, Alibi{.heads = 3, .max_bias = 16, .form = AlibiForm::causal});
  expect_bias(ref::Alibi{ref::alibi_slopes(3), ref::AlibiForm::key_position}, Alibi{.heads = 3, .form = AlibiForm::key_position});
  const ref::Values table = random.values(3 * 8);
  expect_bias(ref::T5{.buckets = 8, .max_distance = 13, .table = table},
              T5Buckets{.heads = 3, .buckets = 8, .max_distance = 13, .table = table});
  expect_bias(ref::T5{.buckets = 8, .max_distance = 13, .both_sides = false, .table = table},
              T5Buckets{.heads = 3, .buckets = 8, .max_distance = 13, .sides = BucketSides::behind, .table = table});
  expect_bias(ref::LearnedDiagonal{.left = 5, .right = 2, .table = table}, ShawClip{.heads = 3, .left = 5, .right = 2, .table = table});
  const ref::Values r1 = random.values(3, 0.1, 1);
  const ref::Values r2 = random.values(3, 0.1, 1.9);
  expect_bias(ref::Kerple{ref::KerpleKind::logarithmic, r1, r2}, Kerple{.r1 = r1, .r2 = r2});
  expect_bias(ref::Kerple{ref::KerpleKind::power, r1, r2}, Kerple{.kind = KerpleKind::power, .r1 = r1, .r2 = r2});
  expect_bias(ref::Sandwich{.width = 16}, Sandwich{.heads = 3, .width = 16});
  const ref::Values mlp = random.values(8 + 25 + 18);
  for (const bool relu : {true, false}) {
    const ref::Fire fire{.widths = {1, 4, 5, 3},
                         .mlp = mlp,
                         .activation = relu ? ref::Activation::relu : ref::Activation::silu,
                         .c = 0.3,
                         .length = 12.5,
                         .epsilon = 1e-6};
    const Mlp same{.widths = fire.widths, .parameters = mlp, .activation = relu ? Activation::relu : Activation::silu};
    expect_bias(fire, Fire{.mlp = same, .c = 0.3, .length = 12.5, .epsilon = 1e-6});
  }
}

/// R_d q . k, pairs as complex numbers.
double rotated(const ref::Problem& p, const ref::Cell& c, double d, double base) {
  const double* q = p.q.data() + ref::query_row(p, c);
  const double* k = p.k.data() + ref::key_row(p, c);
  double sum = 0;
  for (int n = 0; n < 2; ++n) {
    sum += (std::polar(1.0, d * std::pow(base, -n / 2.0)) * std::complex(q[n], q[n + 2]) * std::complex(k[n], -k[n + 2])).real();
  }
  return p.scale * sum;
}

TEST(attention_reference_agreement, rope_turns_by_the_distance) {
  ref::Problem p = random_problem(kShape, 2);
  p.schemes = {ref::Rope{{.base = 30}}};
  for (std::int64_t n = 0; n < 240; ++n) {
    const ref::Cell cell{.h = n % 3, .i = n / 20, .j = n % 20};
    EXPECT_NEAR(ref::score(p, cell), rotated(p, cell, static_cast<double>(ref::distance(p, cell)), 30), 1e-14);
  }
}

TEST(attention_reference_agreement, maps_turn_by_the_library_s_distance) {
  const auto expect_map = [](ref::MappedRope scheme, const PositionMap& map) {
    scheme.ladder = {.base = 30};
    ref::Problem p = random_problem(kShape, 2);
    p.visibility.causal = true;
    p.schemes = {scheme};
    for (std::int64_t n = 0; n < 240; ++n) {
      const ref::Cell cell{.h = n % 3, .i = n / 20, .j = n % 20};
      if (!ref::visible(p, cell)) continue;
      const double d = mapped_distance(map, ref::query_position(p, cell), ref::key_position(p, cell));
      EXPECT_NEAR(ref::score(p, cell), rotated(p, cell, d, 30), 1e-14) << map.index() << " " << n;
    }
  };
  expect_map({.window = 5}, ReRope{.window = 5});
  expect_map({.kind = ref::MapKind::leaky_rerope, .window = 5, .factor = 2.5}, LeakyReRope{.window = 5, .factor = 2.5});
  expect_map({.kind = ref::MapKind::self_extend, .window = 7, .group = 3}, SelfExtend{.window = 7, .group = 3});
  expect_map({.kind = ref::MapKind::dual_chunk, .chunk = 7, .local = 2}, DualChunk{.chunk = 7, .local = 2});
}

// Equations 3 and 4 of the paper: keys and values with their own row for every pair.
TEST(attention_reference_agreement, shaw_adds_a_row_to_every_key_and_every_value) {
  const ref::Shape s{.batch = 1, .queries = 3, .keys = 5, .heads = 1, .key_heads = 1, .width = 2, .value_width = 2};
  Numbers random(3);
  const ref::Shaw shaw{.left = 2, .right = 1, .keys = random.values(8), .values = random.values(8)};
  ref::Problem p = random_problem(s, 4);
  p.schemes = {shaw};
  const ref::Output output = ref::forward(p);
  for (std::size_t i = 0; i < 3; ++i) {
    double sum = 0;
    double z[2] = {};
    for (std::size_t j = 0; j < 5; ++j) {
      const int offset = static_cast<int>(j) - static_cast<int>(i + 2);
      const auto row = static_cast<std::size_t>(offset < -2 ? 0 : offset > 1 ? 3 : offset + 2);
      double e = 0;
      for (std::size_t c = 0; c < 2; ++c) e += p.scale * p.q[2 * i + c] * (p.k[2 * j + c] + shaw.keys[2 * row + c]);
      sum += std::exp(e);
      for (std::size_t c = 0; c < 2; ++c) z[c] += std::exp(e) * (p.v[2 * j + c] + shaw.values[2 * row + c]);
    }
    for (std::size_t c = 0; c < 2; ++c) EXPECT_NEAR(output.out[2 * i + c], z[c] / sum, 1e-14);
    EXPECT_NEAR(output.lse[i], std::log(sum), 1e-14);
  }
}

TEST(attention_reference_agreement, xpos_decays_by_its_zetas) {
  ref::Problem p = random_problem(kShape, 2);
  p.schemes = {ref::Xpos{.ladder = {.base = 30}, .scale_base = 10}};
  for (std::int64_t n = 0; n < 240; ++n) {
    const ref::Cell cell{.h = n % 3, .i = n / 20, .j = n % 20};
    const auto d = static_cast<double>(ref::distance(p, cell));
    const double* q = p.q.data() + ref::query_row(p, cell);
    const double* k = p.k.data() + ref::key_row(p, cell);
    double wanted = 0;
    for (int pair = 0; pair < 2; ++pair) {
      const double zeta = (2 * pair + 0.4 * 4) / (1.4 * 4);
      const auto turned = std::polar(std::pow(zeta, d / 10), d * std::pow(30, -pair / 2.0)) * std::complex(q[pair], q[pair + 2]);
      wanted += p.scale * (turned * std::complex(k[pair], -k[pair + 2])).real();
    }
    EXPECT_NEAR(ref::score(p, cell), wanted, 1e-14 * (1 + std::fabs(wanted)));
  }
}

TEST(attention_reference_agreement, cope_with_gates_open_counts_keys_and_with_gates_half_open_counts_halves) {
  ref::Problem p = random_problem({.batch = 1, .queries = 6, .keys = 6, .heads = 1, .key_heads = 1, .width = 2, .value_width = 1}, 2);
  Numbers random(3);
  ref::Cope cope{.rows = 5, .table = random.values(10), .gate_scale = 1000, .term_scale = 2};
  p.visibility.causal = true;
  for (std::size_t n = 0; n < 12; ++n) p.q[n] = 1 + std::fabs(p.q[n]), p.k[n] = 1 + std::fabs(p.k[n]);
  const auto row = [&](std::int64_t i, double at) {
    const auto part = [&](std::size_t c) {
      const auto low = static_cast<std::size_t>(at);
      const std::size_t high = at > static_cast<double>(low) ? low + 1 : low;
      return 0.5 * (cope.table[2 * low + c] + cope.table[2 * high + c]);
    };
    return 2 * (p.q[static_cast<std::size_t>(2 * i)] * part(0) + p.q[static_cast<std::size_t>(2 * i + 1)] * part(1));
  };
  for (const bool open : {true, false}) {
    cope.gate_scale = open ? 1000 : 0;
    for (std::int64_t i = 0; i < 6; ++i) {
      for (std::int64_t j = 0; j < 6; ++j) {
        p.schemes = {cope};
        const double with_term = ref::score(p, {.i = i, .j = j});
        p.schemes = {};
        const auto counted = static_cast<double>(std::max<std::int64_t>(i - j + 1, 0)) * (open ? 1 : 0.5);
        EXPECT_NEAR(with_term - ref::score(p, {.i = i, .j = j}), row(i, std::min(counted, 4.0)), 1e-13) << open << i << j;
      }
    }
  }
}

}  // namespace
}  // namespace phasor::test

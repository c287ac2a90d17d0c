// SPDX-License-Identifier: Apache-2.0
// Laws of biases: what falls with distance, what shifts leave alone, and that tiles, head ranges and forms are parts of one whole.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "bias_specs.hpp"
#include "laws/specs.hpp"

namespace phasor::laws {
namespace {

using test::every_bias;
using test::NamedBias;

std::int64_t any_count(int low, int high) { return *rc::gen::inRange<std::int64_t>(low, high + 1); }

std::vector<double> any_positive(std::int64_t count, double low, double high) {
  std::vector<double> list(static_cast<std::size_t>(count));
  for (double& x : list) x = any_between(low, high);
  return list;
}

NamedBias any_named() { return *rc::gen::elementOf(every_bias()); }

Bias made(const BiasSpec& spec) {
  const Result<Bias> bias = Bias::make(spec);
  RC_ASSERT(bias.ok());
  return *bias;
}

std::vector<double> diagonal(const Bias& bias, std::int64_t first, std::int64_t count, std::int64_t heads, const BiasPart& part = {}) {
  std::vector<double> out(static_cast<std::size_t>(heads * count));
  RC_ASSERT(bias.diagonal(view(out.data(), {1, heads, 1, count}), first, part).ok());
  return out;
}

/// Places that every scheme takes: those of the window of every_bias, or any.
std::vector<std::int64_t> any_places(const BiasSpec& spec, std::int64_t count) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  for (std::int64_t& id : ids) id = test::has_window(spec) ? any_count(0, 2) * 7 + any_count(0, 3) : any_count(-40, 40);
  return ids;
}

struct Block {
  std::int64_t heads;
  std::int64_t queries;
  std::int64_t keys;
  std::vector<float> values;

  float at(std::int64_t h, std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>((h * queries + i) * keys + j)]; }
};

Block block(const Bias& bias, const std::vector<std::int64_t>& q, const std::vector<std::int64_t>& k, std::int64_t first_head,
            std::int64_t heads) {
  Block b{heads, static_cast<std::int64_t>(q.size()), static_cast<std::int64_t>(k.size()), {}};
  b.values.resize(static_cast<std::size_t>(b.heads * b.queries * b.keys));
  RC_ASSERT(bias.fill(view(b.values.data(), {1, b.heads, b.queries, b.keys}), positions(q.data(), b.queries), positions(k.data(), b.keys),
                      first_head)
                .ok());
  return b;
}

RC_GTEST_PROP(bias_laws, alibi_and_kerple_fall_with_distance_on_both_sides_and_are_even, ()) {
  const std::int64_t heads = any_count(1, 20);
  const BiasSpec specs[] = {Alibi{.heads = heads, .max_bias = any_between(0.5, 16)},
                            Kerple{KerpleKind::logarithmic, any_positive(heads, 0.01, 4), any_positive(heads, 0.01, 9)},
                            Kerple{KerpleKind::power, any_positive(heads, 0.01, 4), any_positive(heads, 0.01, 2)}};
  for (const BiasSpec& spec : specs) {
    const std::int64_t n = any_count(2, 300);
    const std::vector<double> values = diagonal(made(spec), -n, 2 * n + 1, heads);
    for (std::int64_t h = 0; h < heads; ++h) {
      const double* middle = values.data() + h * (2 * n + 1) + n;
      RC_ASSERT(*middle == 0);
      for (std::int64_t r = 1; r <= n; ++r) {
        RC_ASSERT(middle[r] < middle[r - 1]);
        RC_ASSERT(middle[-r] == middle[r]);
      }
    }
  }
}

RC_GTEST_PROP(bias_laws, steeper_heads_of_alibi_come_first_within_a_power_of_two, ()) {
  const std::int64_t heads = any_count(2, 200);
  const std::vector<double> slopes = made(Alibi{.heads = heads}).slopes();
  std::size_t powers = 1;
  while (2 * powers <= slopes.size()) powers *= 2;
  for (std::size_t h = 1; h < slopes.size(); ++h) RC_ASSERT(h == powers || slopes[h] < slopes[h - 1]);
  for (const double s : slopes) RC_ASSERT(s < 1 && s >= 0x1p-8);
}

RC_GTEST_PROP(bias_laws, buckets_rise_with_distance_use_the_last_row_and_skip_none_of_the_exact_ones, ()) {
  const std::int64_t n = any_count(2, 60);
  const bool both = *rc::gen::arbitrary<bool>();
  const std::int64_t max_distance = n / 2 + any_count(1, 500);
  const Bias bias = made(T5Buckets{
      .heads = 1, .buckets = both ? 2 * n : n, .max_distance = max_distance, .sides = both ? BucketSides::both : BucketSides::behind});
  for (std::int64_t a = 1; a < 600; ++a) {
    RC_ASSERT(bias.row(a) >= bias.row(a - 1));
    RC_ASSERT(bias.row(-a) == (both ? n + bias.row(a) : 0));
    if (a < n / 2) RC_ASSERT(bias.row(a) == a);
  }
  RC_ASSERT(bias.row(max_distance) == n - 1);
  RC_ASSERT(bias.row(1000000000) == n - 1);
}

RC_GTEST_PROP(bias_laws, rows_of_deberta_and_shaw_are_monotone_in_the_distance, ()) {
  const std::int64_t buckets = any_count(4, 90);
  const Bias deberta = made(DebertaBuckets{.heads = 1,
                                           .buckets = buckets,
                                           .max_distance = buckets / 2 + 2 + any_count(0, 400),
                                           .reading = *rc::gen::element(DebertaReading::hf, DebertaReading::microsoft)});
  const Bias shaw = made(ShawClip{.heads = 1, .left = any_count(0, 50), .right = any_count(0, 50)});
  for (std::int64_t r = -600; r < 600; ++r) {
    RC_ASSERT(deberta.row(r) <= deberta.row(r + 1));
    RC_ASSERT(shaw.row(r) >= shaw.row(r + 1));
    RC_ASSERT(deberta.row(r) >= 0 && deberta.row(r) < deberta.rows());
    RC_ASSERT(shaw.row(r) >= 0 && shaw.row(r) < shaw.rows());
  }
}

RC_GTEST_PROP(bias_laws, shifting_queries_and_keys_together_changes_nothing, ()) {
  const NamedBias named = any_named();
  // FIRE knows the query's position beyond its length, a window has no places to shift to, Bloom's form is not one of distance.
  RC_PRE(!std::holds_alternative<Fire>(named.spec) && !test::has_window(named.spec) && named.name != "alibi_key_position");
  const Bias bias = made(named.spec);
  std::vector<std::int64_t> q = any_places(named.spec, any_count(1, 9));
  std::vector<std::int64_t> k = any_places(named.spec, any_count(1, 9));
  const Block before = block(bias, q, k, 0, bias.heads());
  const std::int64_t shift = any_count(-1000000, 1000000);
  for (auto* list : {&q, &k}) {
    for (std::int64_t& id : *list) id += shift;
  }
  RC_ASSERT(block(bias, q, k, 0, bias.heads()).values == before.values);
}

RC_GTEST_PROP(bias_laws, a_tile_of_some_heads_is_that_part_of_the_whole, ()) {
  const NamedBias named = any_named();
  const Bias bias = made(named.spec);
  const std::vector<std::int64_t> q = any_places(named.spec, any_count(1, 12));
  const std::vector<std::int64_t> k = any_places(named.spec, any_count(1, 12));
  const Block all = block(bias, q, k, 0, bias.heads());
  const std::int64_t h0 = any_count(0, static_cast<int>(bias.heads()) - 1);
  const std::int64_t heads = any_count(1, static_cast<int>(bias.heads() - h0));
  const std::int64_t i0 = any_count(0, static_cast<int>(all.queries) - 1);
  const std::int64_t j0 = any_count(0, static_cast<int>(all.keys) - 1);
  const Block tile = block(bias, {q.begin() + i0, q.end()}, {k.begin() + j0, k.end()}, h0, heads);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      for (std::int64_t j = 0; j < tile.keys; ++j) RC_ASSERT(tile.at(h, i, j) == all.at(h0 + h, i0 + i, j0 + j));
    }
  }
}

RC_GTEST_PROP(bias_laws, the_form_of_key_positions_is_the_causal_one_but_for_a_constant_of_the_row, ()) {
  const std::int64_t heads = any_count(1, 12);
  const std::int64_t n = any_count(2, 30);
  const std::int64_t start = any_count(-1000, 1000);
  const Bias causal = made(Alibi{.heads = heads, .slopes = any_positive(heads, 0.25, 2), .form = AlibiForm::causal});
  Alibi bloom = std::get<Alibi>(causal.spec());
  bloom.form = AlibiForm::key_position;
  std::vector<double> a(static_cast<std::size_t>(heads * n * n));
  std::vector<double> b = a;
  RC_ASSERT(causal.fill(view(a.data(), {1, heads, n, n}), positions_from(start), positions_from(start)).ok());
  RC_ASSERT(made(bloom).fill(view(b.data(), {1, heads, n, n}), positions_from(start), positions_from(start)).ok());
  for (std::int64_t row = 0; row < heads * n; ++row) {
    const auto at = static_cast<std::size_t>(row * n);
    const double constant = b[at] - a[at];
    // Slopes in 1/1024 of a quarter to two have 14 bits: all of this is exact.
    for (std::int64_t j = 0; j <= row % n; ++j)
      RC_ASSERT(b[at + static_cast<std::size_t>(j)] - a[at + static_cast<std::size_t>(j)] == constant);
  }
}

RC_GTEST_PROP(bias_laws, sandwich_is_even_and_largest_at_distance_zero, ()) {
  const std::int64_t heads = any_count(1, 5);
  const Bias bias = made(Sandwich{.heads = heads, .width = 2 * any_count(1, 20), .base = any_between(2, 20000)});
  const std::vector<double> values = diagonal(bias, -20, 41, heads);
  for (std::int64_t h = 0; h < heads; ++h) {
    const double* middle = values.data() + 41 * h + 20;
    for (std::int64_t r = 1; r <= 20; ++r) {
      RC_ASSERT(middle[r] < middle[0]);
      RC_ASSERT(middle[r] == middle[-r]);
    }
  }
}

RC_GTEST_PROP(bias_laws, the_gradient_of_two_halves_of_a_diagonal_adds_up_to_that_of_the_whole, ()) {
  const NamedBias named = any_named();
  const Bias bias = made(named.spec);
  const std::int64_t n = any_count(2, 30);
  const std::int64_t cut = any_count(1, static_cast<int>(n) - 1);
  const std::vector<double> g = test::numbers(static_cast<std::size_t>(bias.heads() * n), 5);
  const auto part = [&](std::int64_t first, std::int64_t count, std::vector<double>& sum) {
    const ConstTensorView v = view(g.data() + first, {1, bias.heads(), 1, count}, {0, n, 0, 1});
    RC_ASSERT(bias.gradient(sum, v, first - 14).ok());
  };
  std::vector<double> whole(static_cast<std::size_t>(bias.parameter_count()), 0);
  std::vector<double> halves = whole;
  part(0, n, whole);
  part(0, cut, halves);
  part(cut, n - cut, halves);
  for (std::size_t i = 0; i < whole.size(); ++i) RC_ASSERT(std::fabs(whole[i] - halves[i]) <= 1e-12 * (1 + std::fabs(whole[i])));
}

}  // namespace
}  // namespace phasor::laws

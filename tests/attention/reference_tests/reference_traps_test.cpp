// SPDX-License-Identifier: Apache-2.0
// Where implementations of relative attention went wrong or disagree, each held fast in the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "attention/support/compare.hpp"
#include "golden_file.hpp"

namespace phasor::test {
namespace {

using Json = nlohmann::json;
constexpr ref::Shape kShape{.batch = 1, .queries = 6, .keys = 6, .heads = 2, .key_heads = 2, .width = 4, .value_width = 3};

ref::Problem with(std::vector<ref::Scheme> schemes, const ref::Shape& shape = kShape) {
  ref::Problem p = random_problem(shape, 11);
  p.schemes = std::move(schemes);
  return p;
}

/// What the schemes add to q . k.
double term(const ref::Problem& p, const ref::Cell& cell) {
  ref::Problem plain = p;
  plain.schemes = {};
  return ref::score(p, cell) - ref::score(plain, cell);
}

/// Which distances a scheme gives a term at all; -9 where that depends on more than the distance.
std::vector<std::int64_t> distances_with_a_term(const ref::Scheme& scheme) {
  const ref::Problem p = with({scheme});
  std::vector<std::int64_t> found;
  for (std::int64_t r = -5; r <= 5; ++r) {
    int count = 0;
    int all = 0;
    for (std::int64_t i = 0; i < 6; ++i) {
      if (i - r < 0 || i - r > 5) continue;
      ++all;
      if (std::fabs(term(p, {.i = i, .j = i - r})) > 1e-12) ++count;
    }
    if (count > 0) found.push_back(count == all ? r : -9);
  }
  return found;
}

using Distances = std::vector<std::int64_t>;

TEST(attention_reference_traps, p2c_of_deberta_goes_by_query_minus_key) {
  ref::Deberta deberta{.buckets = 0, .max_distance = 6};
  deberta.queries.assign(2 * 12 * 4, 0);
  std::fill_n(deberta.queries.begin() + (6 + 2) * 4, 4, 1);  // head 0, distance 2
  EXPECT_EQ(distances_with_a_term(deberta), Distances{2});
  std::swap(deberta.keys, deberta.queries);
  EXPECT_EQ(distances_with_a_term(deberta), Distances{2});
}

TEST(attention_reference_traps, signs) {
  ref::T5 t5{.buckets = 12, .max_distance = 20, .table = ref::Values(24, 0)};
  t5.table[2] = 1;
  EXPECT_EQ(distances_with_a_term(t5), Distances{2});  // behind
  t5.table[2] = 0, t5.table[6 + 2] = 1;
  EXPECT_EQ(distances_with_a_term(t5), Distances{-2});  // ahead
  t5 = {.buckets = 12, .max_distance = 20, .both_sides = false, .table = ref::Values(24, 0)};
  t5.table[0] = 1;
  EXPECT_EQ(distances_with_a_term(t5), (Distances{-5, -4, -3, -2, -1, 0}));
  ref::Shaw shaw{.left = 3, .right = 1, .keys = ref::Values(20, 0)};
  std::fill_n(shaw.keys.begin(), 4, 1);
  EXPECT_EQ(distances_with_a_term(shaw), (Distances{3, 4, 5}));
  std::fill_n(shaw.keys.begin(), 4, 0), std::fill_n(shaw.keys.begin() + 16, 4, 1);
  EXPECT_EQ(distances_with_a_term(shaw), (Distances{-5, -4, -3, -2, -1}));
  ref::Inkling inkling{.extent = 3, .feature_width = 1, .features = ref::Values(12, 1), .table = {1, 1, 1}};
  EXPECT_EQ(distances_with_a_term(inkling), (Distances{0, 1, 2}));
}

TEST(attention_reference_traps, which_terms_the_scale_multiplies) {
  const std::vector<std::string> scaled = {"shaw_k",    "shaw_kv", "shaw_kv_per_head", "transformer_xl",    "transformer_xl_table",
                                           "conformer", "xlnet",   "deberta_hf",       "deberta_microsoft", "deberta_hf_swapped",
                                           "deberta_v1"};
  for (const NamedScheme& one : every_scheme(kShape, 3)) {
    if (one.scheme.index() >= ref::Scheme(ref::Rope{}).index()) continue;
    ref::Problem p = with({one.scheme});
    const ref::Cell cell{.h = 1, .i = 4, .j = 2};
    const double before = term(p, cell);
    p.scale *= 2;
    const double factor = std::find(scaled.begin(), scaled.end(), one.name) == scaled.end() ? 1 : 2;
    EXPECT_NEAR(term(p, cell), factor * before, 1e-14) << one.name;
    EXPECT_GT(std::fabs(before), 1e-6) << one.name;
  }
}

TEST(attention_reference_traps, far_keys_ahead_in_the_two_readings_of_deberta) {
  const ref::Deberta deberta;
  using Reading = ref::DebertaReading;
  EXPECT_EQ(ref::deberta_row(deberta, Reading::hf, -512), 0);
  EXPECT_EQ(ref::deberta_row(deberta, Reading::microsoft, -512), 1);
  EXPECT_EQ(ref::deberta_row(deberta, Reading::microsoft, -100000), 1);
  EXPECT_EQ(ref::deberta_row(deberta, Reading::hf, 100000), 511);
  EXPECT_EQ(ref::deberta_row(deberta, Reading::microsoft, 100000), 511);
  EXPECT_EQ(ref::deberta_row(deberta, Reading::hf, 300), 463);
  EXPECT_EQ(ref::deberta_row(deberta, Reading::hf_swapped, 300), 0);  // where queries and keys differ in number
}

/// Calls body(distance, recorded row) at both ends of every recorded step up to `last`, and here and there between them: rows never turn
/// back, so that the ends decide the rest.
template <class Body>
void each_recorded(const Json& steps, std::int64_t last, const Body& body) {
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const std::int64_t end = s + 1 < steps.size() ? steps[s + 1][0].get<std::int64_t>() : last + 1;
    const auto row = steps[s][1].get<std::int64_t>();
    for (auto d = steps[s][0].get<std::int64_t>(); d < end; d += 97) body(d, row);
    if (steps[s][0].get<std::int64_t>() < end) body(end - 1, row);
  }
}

// The goldens are what transformers returned on the machine that recorded them, where PyTorch's float32 logarithm decides. The reference
// decides by whole numbers, on every machine alike.
TEST(attention_reference_traps, buckets_are_those_that_transformers_has) {
  const Json golden = Json::parse(std::ifstream(golden_file("bias.json")));
  std::set<std::string> differing;
  for (const Json& c : golden["t5"]) {
    const ref::T5 t5{.buckets = c["buckets"], .max_distance = c["max_distance"], .both_sides = c["both"]};
    each_recorded(c["steps"], 100000, [&](std::int64_t d, std::int64_t row) {
      if (ref::t5_bucket(t5, d) == row) return;
      differing.insert(std::to_string(t5.buckets) + " " + std::to_string(t5.max_distance) + ": " + std::to_string(d) + ":" +
                       std::to_string(row) + "/" + std::to_string(ref::t5_bucket(t5, d)));
    });
  }
  // distance:theirs/exact. 80 + ln(76536 / 80) / ln(1250) 80 is 2.9e-6 short of 157, in float32 it is not.
  EXPECT_EQ(differing, (std::set<std::string>{"320 100000: 76536:157/156"}));
  for (const Json& c : golden["deberta"]) {
    const ref::Deberta deberta{.buckets = c["buckets"], .max_distance = c["max_distance"]};
    each_recorded(c["hf"], 2000, [&](std::int64_t d, std::int64_t row) {
      if (ref::deberta_row(deberta, ref::DebertaReading::hf, d) != row) ADD_FAILURE() << c["buckets"] << " " << d;
    });
    each_recorded(c["hf_swapped"], 699, [&](std::int64_t d, std::int64_t row) {
      if (ref::deberta_row(deberta, ref::DebertaReading::hf_swapped, d) != row) ADD_FAILURE() << "swapped " << c["buckets"] << " " << d;
    });
  }
}

// Transformer-XL's code shifts rows of a matrix whose columns are the distances Tk - 1 ... 0: right for keys behind, garbage ahead.
TEST(attention_reference_traps, the_shift_of_transformer_xl_is_right_behind_only) {
  ref::Shape shape = kShape;
  shape.queries = 4;
  Numbers random(4);
  const ref::Problem p = with({random_xl(shape, random)}, shape);
  const auto& xl = std::get<ref::TransformerXl>(p.schemes[0]);
  ref::Values padded;  // (Tq, 1 + Tk): a column of zeros before (q + v) . W r(Tk - 1 - c)
  for (std::int64_t i = 0; i < 4; ++i) {
    padded.push_back(0);
    for (std::int64_t c = 0; c < 6; ++c) {
      const ref::Values r = ref::xl_sinusoid(xl, static_cast<long double>(5 - c));
      double sum = 0;
      for (std::size_t n = 0; n < 24; ++n) {
        sum += (p.q[static_cast<std::size_t>(ref::query_row(p, {.i = i})) + n / 6] + xl.v[n / 6]) * xl.projection[n] * r[n % 6];
      }
      padded.push_back(p.scale * sum);
    }
  }
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 6; ++j) {
      const double shifted = padded[static_cast<std::size_t>(4 + i * 6 + j)];  // reshaped to (1 + Tk, Tq), without its first row
      double u = 0;
      for (std::size_t c = 0; c < 4; ++c) u += xl.u[c] * p.k[static_cast<std::size_t>(ref::key_row(p, {.j = j})) + c];
      const double wanted = term(p, {.i = i, .j = j}) - p.scale * u;
      if (j <= i + 2) {
        EXPECT_NEAR(shifted, wanted, 1e-14) << i << " " << j;
      } else {
        EXPECT_GT(std::fabs(shifted - wanted), 1e-3) << i << " " << j;
      }
    }
  }
}

TEST(attention_reference_traps, the_soft_cap_comes_after_the_bias) {
  ref::Problem p =
      with({ref::Alibi{{3, 5}}}, {.batch = 1, .queries = 1, .keys = 2, .heads = 2, .key_heads = 2, .width = 4, .value_width = 3});
  p.softcap = 2;
  const auto capped = [](double s) { return 2 * std::tanh(s / 2); };
  const double wanted = std::log(std::exp(capped(ref::score(p, {.j = 0}))) + std::exp(capped(ref::score(p, {.j = 1}))));
  EXPECT_NEAR(ref::forward(p).lse[0], wanted, 1e-14);
}

TEST(attention_reference_traps, key_position_forms_of_alibi_are_equal_under_a_causal_softmax_only) {
  const ref::Values slopes = ref::alibi_slopes(2);
  ref::Problem symmetric = with({ref::Alibi{slopes}});
  ref::Problem bloom = with({ref::Alibi{slopes, ref::AlibiForm::key_position}});
  ref::Problem mpt = bloom;  // keys at 1 - Tk ... 0
  mpt.query_positions = mpt.key_positions = {-5, -4, -3, -2, -1, 0};
  ref::Problem causal = with({ref::Alibi{slopes, ref::AlibiForm::causal}});
  for (ref::Problem* p : {&symmetric, &bloom, &mpt, &causal}) p->visibility.causal = true;
  const ref::Values wanted = ref::forward(symmetric).out;
  for (const ref::Problem* p : {&bloom, &mpt, &causal}) EXPECT_LE(apart(ref::forward(*p).out, wanted), kSameTolerance);
  for (ref::Problem* p : {&symmetric, &bloom}) p->visibility.causal = false;
  expect_other(ref::forward(bloom), ref::forward(symmetric), "full");
}

TEST(attention_reference_traps, slopes_of_a_shard_are_those_of_its_heads) {
  const ref::Values all = ref::alibi_slopes(12);
  EXPECT_EQ(all[0], 0.5);
  EXPECT_EQ(all[7], 0x1p-8);
  EXPECT_DOUBLE_EQ(all[8], std::exp2(-0.5));
  EXPECT_DOUBLE_EQ(all[11], std::exp2(-3.5));
  ref::Shape shape = kShape;
  shape.heads = shape.key_heads = 12;
  const ref::Problem p = with({ref::Alibi{all}}, shape);
  ref::Problem shard = p;  // heads 8 ... 11
  shard.shape.heads = shard.shape.key_heads = 4;
  shard.q.clear(), shard.k.clear(), shard.v.clear();
  for (std::int64_t t = 0; t < 6; ++t) {
    shard.q.insert(shard.q.end(), p.q.begin() + (t * 12 + 8) * 4, p.q.begin() + (t + 1) * 48);
    shard.k.insert(shard.k.end(), p.k.begin() + (t * 12 + 8) * 4, p.k.begin() + (t + 1) * 48);
    shard.v.insert(shard.v.end(), p.v.begin() + (t * 12 + 8) * 3, p.v.begin() + (t + 1) * 36);
  }
  const ref::Values lse = ref::forward(p).lse;
  const ref::Values wanted(lse.begin() + 48, lse.end());
  shard.schemes = {ref::Alibi{ref::Values(all.begin() + 8, all.end())}};
  EXPECT_EQ(ref::forward(shard).lse, wanted);
  shard.schemes = {ref::Alibi{ref::alibi_slopes(4)}};
  EXPECT_GT(apart(ref::forward(shard).lse, wanted), 1e-2);
}

}  // namespace
}  // namespace phasor::test

// SPDX-License-Identifier: Apache-2.0
// Position maps: passes and their selection give the scores of the mapped distances; temperatures step where they must.
#include "phasor/position_maps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/rotary/rotary_call.hpp"
#include "phasor/position_builders.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t kTokens = 53;

/// The distances as their papers and reference implementations write them, key by key.
double naive(const ReRope& m, std::int64_t q, std::int64_t k) { return static_cast<double>(std::min(q - k, m.window)); }
double naive(const LeakyReRope& m, std::int64_t q, std::int64_t k) {
  const auto r = static_cast<double>(q - k);
  const auto w = static_cast<double>(m.window);
  return r < w ? r : w + (r - w) / m.factor;
}
double naive(const SelfExtend& m, std::int64_t q, std::int64_t k) {
  if (q - k < m.window) return static_cast<double>(q - k);
  return static_cast<double>(q / m.group - k / m.group + m.window - m.window / m.group);
}
double naive(const DualChunk& m, std::int64_t q, std::int64_t k) {
  const std::int64_t c = m.chunk - m.local;
  const std::int64_t apart = q / c - k / c;
  std::int64_t at = q % c;
  if (apart == 1) at = m.critical ? q % c + c : std::min(q % c + c, m.chunk);
  if (apart > 1) at = m.critical ? q % c + m.chunk : std::min(c - 1 + c, m.chunk);
  return static_cast<double>(at - k % c);
}

std::vector<PositionMap> maps() {
  return {ReRope{.window = 7},
          ReRope{.window = 100},
          LeakyReRope{.window = 7, .factor = 4},
          LeakyReRope{.window = 11, .factor = 2.7},
          SelfExtend{.window = 9, .group = 4},
          SelfExtend{.window = 16, .group = 3},
          DualChunk{.chunk = 16, .local = 4},
          DualChunk{.chunk = 12, .local = 0},
          DualChunk{.chunk = 16, .local = 4, .critical = true},
          DualChunk{.chunk = 20, .local = 15, .critical = true}};
}

TEST(PositionMaps, show_each_key_at_the_distance_of_their_papers) {
  for (const PositionMap& map : maps()) {
    for (std::int64_t q = 0; q < kTokens; ++q) {
      for (std::int64_t k = 0; k <= q; ++k) {
        const double wanted = std::visit([&](const auto& m) { return naive(m, q, k); }, map);
        // A sum of two float64, each rounded, against one rounding: an ulp of a number below 64.
        const bool fractions = std::holds_alternative<LeakyReRope>(map);
        EXPECT_LE(std::fabs(mapped_distance(map, q, k) - wanted), fractions ? 0x1p-47 : 0) << map.index() << " " << q << " " << k;
      }
      EXPECT_TRUE(std::isnan(mapped_distance(map, q, q + 1)));
    }
    EXPECT_TRUE(std::isnan(mapped_distance(map, -1, -1)));
  }
}

TEST(PositionMaps, take_every_key_up_to_the_query_from_exactly_one_pass) {
  for (const PositionMap& map : maps()) {
    for (std::int64_t q = 0; q < kTokens; ++q) {
      for (std::int64_t k = -2; k < kTokens + 2; ++k) {
        int chosen = 0;
        for (int pass = 0; pass < passes_of(map); ++pass) {
          const KeyRange range = keys_of_pass(map, pass, q);
          chosen += k >= range.first && k < range.end ? 1 : 0;
        }
        EXPECT_EQ(chosen, k >= 0 && k <= q ? 1 : 0) << map.index() << " " << q << " " << k;
      }
    }
  }
}

/// Tokens of one head of 10 channels, float64.
std::vector<double> numbers(std::uint64_t seed) {
  Random random(seed);
  std::vector<double> x(static_cast<std::size_t>(kTokens * 10));
  for (double& v : x) v = random.number();
  return x;
}

std::vector<double> rotated(const Rotary& rotary, std::vector<double> x, const Positions& at) {
  const Status status = rotary.apply(view(x.data(), {1, kTokens, 1, 10}), at);
  EXPECT_TRUE(status.ok()) << status.message();
  return x;
}

double dot(const std::vector<double>& a, std::int64_t i, const std::vector<double>& b, std::int64_t j) {
  double sum = 0;
  for (std::int64_t c = 0; c < 10; ++c) sum += a[static_cast<std::size_t>(i * 10 + c)] * b[static_cast<std::size_t>(j * 10 + c)];
  return sum;
}

TEST(PositionMaps, give_with_plain_rotations_the_scores_of_queries_turned_by_the_mapped_distance) {
  const Rotary rotary = make_rotary({.head_dim = 10, .base = 100});
  const std::vector<double> q = numbers(1);
  const std::vector<double> k = numbers(2);
  for (const PositionMap& map : maps()) {
    std::vector<std::vector<double>> queries;
    std::vector<std::vector<double>> keys;
    for (int pass = 0; pass < passes_of(map); ++pass) {
      std::vector<double> at(kTokens);
      ASSERT_TRUE(fill_pass_positions(positions(at.data(), kTokens), map, {pass, MapSide::queries}, positions_from(0)).ok());
      queries.push_back(rotated(rotary, q, positions(at.data(), kTokens)));
      ASSERT_TRUE(fill_pass_positions(positions(at.data(), kTokens), map, {pass, MapSide::keys}, positions_from(0)).ok());
      keys.push_back(rotated(rotary, k, positions(at.data(), kTokens)));
    }
    for (std::int64_t m = 0; m < kTokens; ++m) {
      for (int pass = 0; pass < passes_of(map); ++pass) {
        const KeyRange range = keys_of_pass(map, pass, m);
        for (std::int64_t n = range.first; n < range.end; ++n) {
          const double distance = std::visit([&](const auto& x) { return naive(x, m, n); }, map);
          std::vector<double> turned(q.data() + m * 10, q.data() + m * 10 + 10);
          ASSERT_TRUE(rotary.apply(view(turned.data(), {1, 1, 1, 10}), positions(&distance, 1)).ok());
          const double wanted = dot(turned, 0, k, n);
          const double got = dot(queries[static_cast<std::size_t>(pass)], m, keys[static_cast<std::size_t>(pass)], n);
          // Ten products below 16 of numbers that two rotations rounded (tolerance_of f64: 4 ulps of the norm).
          ASSERT_NEAR(got, wanted, 10 * 16 * 8 * 0x1p-52) << map.index() << " " << m << " " << n;
        }
      }
    }
  }
}

TEST(PositionMaps, fill_in_place_and_refuse_what_is_no_map) {
  std::vector<std::int64_t> at = {0, 5, 17, 40};
  const PositionsView out = positions(at.data(), 4);
  ASSERT_TRUE(fill_pass_positions(out, SelfExtend{.window = 9, .group = 4}, {1, MapSide::queries}, out).ok());
  EXPECT_EQ(at, (std::vector<std::int64_t>{7, 8, 11, 17}));
  const auto message = [&](const PositionMap& map, int pass = 1) {
    const std::vector<std::int64_t> before = at;
    const Status status = fill_pass_positions(out, map, {pass, MapSide::queries}, out);
    EXPECT_EQ(at, before);
    return status.message();
  };
  EXPECT_EQ(message(ReRope{}), "fill_pass_positions: window is 0, wanted 1 to 2^53");
  EXPECT_EQ(message(ReRope{.window = 3}, 2), "fill_pass_positions: pass is 2, wanted 0 to 1");
  EXPECT_EQ(message(SelfExtend{.window = 3, .group = 0}), "fill_pass_positions: group is 0, wanted 1 to 2^53");
  EXPECT_EQ(message(DualChunk{.chunk = 4, .local = 4}), "fill_pass_positions: local is 4, wanted at least 0 and below chunk");
  EXPECT_EQ(message(LeakyReRope{.window = 4, .factor = -1}), "fill_pass_positions: factor is -1, wanted above 0 and at most 2^53");
  EXPECT_EQ(message(LeakyReRope{.window = 4, .factor = 2}),
            "fill_pass_positions: token 0 of batch row 0 is at 5.5, a fraction, wanted what i64 holds");
  at[2] = -1;
  EXPECT_EQ(message(ReRope{.window = 3}), "fill_pass_positions: token 2 of batch row 0 is at -1, wanted at least 0");
  std::vector<double> fractions(4);
  EXPECT_EQ(fill_pass_positions(out, ReRope{.window = 3}, {}, positions(fractions.data(), 4)).message(),
            "fill_pass_positions: at holds f64, wanted integers");
}

const QueryTemperature llama4 = {.kind = QueryTemperature::Kind::floored_log, .scale = 0.1, .length = 8192, .shift = 1};
const QueryTemperature log_n = {.kind = QueryTemperature::Kind::log_n, .length = 2048};

TEST(Temperatures, step_exactly_where_position_and_shift_are_a_multiple_of_the_length) {
  EXPECT_EQ(query_temperature(llama4, 0), 1);
  for (const std::int64_t k : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{1000}, std::int64_t{1} << 40}) {
    const std::int64_t edge = k * 8192 - 1;  // p + 1 = k * 8192
    const auto wanted = [](std::int64_t n) { return static_cast<double>(1 + 0.1 * std::log1p(static_cast<long double>(n))); };
    EXPECT_NEAR(query_temperature(llama4, edge - 1), wanted(k - 1), 0x1p-52 * wanted(k));
    EXPECT_NEAR(query_temperature(llama4, edge), wanted(k), 0x1p-52 * wanted(k));
    EXPECT_GT(query_temperature(llama4, edge), query_temperature(llama4, edge - 1));
    EXPECT_EQ(query_temperature(llama4, edge + 1), query_temperature(llama4, edge));
  }
  EXPECT_EQ(query_temperature(llama4, -1), 1);
  EXPECT_TRUE(std::isnan(query_temperature(llama4, -2)));
  EXPECT_TRUE(std::isnan(query_temperature(llama4, std::numeric_limits<std::int64_t>::max())));
}

TEST(Temperatures, of_log_n_are_1_up_to_the_length_and_then_the_logarithm_in_it) {
  EXPECT_EQ(query_temperature(log_n, 0), 1);
  EXPECT_EQ(query_temperature(log_n, 2047), 1);
  EXPECT_GT(query_temperature(log_n, 2048), 1);
  EXPECT_EQ(query_temperature(log_n, 2048LL * 2048 - 1), 2);
  for (const std::int64_t p :
       {std::int64_t{2048}, std::int64_t{3000}, std::int64_t{1000003}, std::int64_t{1} << 53, std::int64_t{1} << 62}) {
    const long double wanted = std::log(static_cast<long double>(p) + 1) / std::log(2048.0L);
    EXPECT_NEAR(query_temperature(log_n, p), static_cast<double>(wanted), 0x1p-52 * static_cast<double>(wanted)) << p;
  }
  EXPECT_TRUE(std::isnan(query_temperature(log_n, -1)));
  EXPECT_TRUE(std::isnan(query_temperature({.kind = QueryTemperature::Kind::log_n, .length = 1}, 5)));
}

TEST(Temperatures, fill_takes_every_type_of_position) {
  const std::vector<std::int32_t> i32 = {0, 8191, 8192, 16383, 100000, 7};
  const std::vector<double> f64 = {0.5, 8191.25, 8192, 16383.75, 100000, 7};
  for (const QueryTemperature& t : {llama4, log_n}) {
    std::vector<float> a(6);
    std::vector<float> b(6);
    ASSERT_TRUE(fill_temperature(a, t, positions(i32.data(), 2, 3)).ok());
    ASSERT_TRUE(fill_temperature(b, t, positions(f64.data(), 2, 3)).ok());
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(a[i], static_cast<float>(query_temperature(t, i32[i])));
      if (t.kind == QueryTemperature::Kind::floored_log || f64[i] == i32[i]) {
        EXPECT_EQ(a[i], b[i]);
      } else {
        EXPECT_GE(b[i], a[i]);
      }
    }
    ASSERT_TRUE(fill_temperature(a, t, positions_from(8190)).ok());
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(a[i], static_cast<float>(query_temperature(t, 8190 + static_cast<std::int64_t>(i))));
  }
}

TEST(Temperatures, fill_what_prepare_attention_takes) {
  const std::vector<std::int64_t> at = {0, 8191, 100000};
  std::vector<float> out(10, -7);
  const TensorView to = {out.data(), DType::f32, {2, 3, 1, 1}, {5, 2, 9, 1}, {}};  // batch rows share positions; gaps stay
  ASSERT_TRUE(fill_temperature(to, llama4, positions(at.data(), 3)).ok());
  for (std::size_t i = 0; i < 10; ++i) {
    const bool token = i % 5 % 2 == 0;
    EXPECT_EQ(out[i], token ? static_cast<float>(query_temperature(llama4, at[i % 5 / 2])) : -7) << i;
  }
  ASSERT_TRUE(fill_temperature(to, llama4, positions_from(8190)).ok());
  EXPECT_EQ(out[0], 1);
  EXPECT_GT(out[2], 1);
  EXPECT_EQ(out[7], out[2]);
}

TEST(Temperatures, refuse_tensors_that_cannot_hold_factors) {
  std::vector<double> memory(8);
  const std::vector<std::int64_t> at = {0, 1, -2};
  const auto message = [&](const TensorView& out, const Positions& p) { return fill_temperature(out, llama4, p).message(); };
  const auto factors = [&](const Extents& shape) { return TensorView{memory.data(), DType::f32, shape, contiguous_strides(shape), {}}; };
  EXPECT_EQ(message(view(memory.data(), {1, 2, 1, 1}), positions_from(0)), "fill_temperature: out is f64, wanted f32");
  EXPECT_EQ(message(factors({1, 2, 2, 1}), positions_from(0)),
            "fill_temperature: out has 2 heads of 1 channels, wanted one factor per token: (B, T, 1, 1)");
  EXPECT_EQ(message(factors({1, 2, 1, 1}), positions(at.data(), 3)), "fill_temperature: positions have 3 tokens, wanted 2");
  TensorView twice = factors({2, 2, 1, 1});
  twice.strides[0] = 0;
  EXPECT_NE(message(twice, positions_from(0)).find("out is written to a view in which elements repeat"), std::string::npos);
  TensorView there = factors({1, 2, 1, 1});
  there.device = {DeviceKind::cuda, 0};
  EXPECT_EQ(message(there, positions(at.data(), 2)),
            "fill_temperature: positions are on cpu, wanted cuda:0, where the call's first tensor is");
  EXPECT_EQ(message(factors({1, 3, 1, 1}), positions(at.data(), 3)),
            "fill_temperature: token 2 has a position without temperature, wanted none below -1");
  for (const double x : memory) EXPECT_EQ(x, 0);
}

TEST(Temperatures, refuse_bad_input_and_write_nothing) {
  std::vector<float> out(4, 0.25F);
  const std::vector<std::int64_t> at = {0, 1, 2, -2};
  const Positions good = positions(at.data(), 3);
  const auto message = [&](const QueryTemperature& t, const Positions& p) {
    const Status status = fill_temperature(out, t, p);
    for (const float x : out) EXPECT_EQ(x, 0.25F);
    return status.message();
  };
  EXPECT_EQ(message(llama4, good), "fill_temperature: out has 4 elements, wanted 1 x 3");
  EXPECT_EQ(message(llama4, positions(at.data(), 4)), "fill_temperature: token 3 has a position without temperature, wanted none below -1");
  EXPECT_EQ(message({.kind = QueryTemperature::Kind::log_n, .length = 1}, good), "fill_temperature: length is 1, wanted at least 2");
  QueryTemperature nan = llama4;
  nan.scale = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(message(nan, good), "fill_temperature: scale is nan, wanted a number");
  EXPECT_EQ(message(llama4, positions(reinterpret_cast<const std::int32_t*>(out.data()), 4)),
            "fill_temperature: positions lie in out, wanted them apart");
}

}  // namespace
}  // namespace phasor::test

// SPDX-License-Identifier: Apache-2.0
// Values of every bias scheme against the literal formula: diagonals, dense blocks, tiles, strides, dtypes, head offsets.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "bias_specs.hpp"
#include "tolerance.hpp"

namespace phasor::test {
namespace {

using Ids = std::vector<std::int64_t>;

Bias made(const BiasSpec& spec) {
  const Result<Bias> bias = Bias::make(spec);
  EXPECT_TRUE(bias.ok()) << bias.status().message();
  return *bias;
}

Positions at(const Ids& ids) { return positions(ids.data(), static_cast<std::int64_t>(ids.size())); }

/// Positions of queries and of keys that every scheme takes: the places of a window, or awkward ones on either side of each other.
struct Tokens {
  Ids queries;
  Ids keys;
};
Tokens tokens_for(const BiasSpec& spec) {
  if (has_window(spec)) return {{0, 3, 7, 16, 9}, {0, 1, 2, 3, 7, 8, 9, 10, 14, 15, 16, 17}};
  return {{0, 5, 9, 10, 11, 26, 3}, {0, 1, 2, 4, 8, 40, 9, 10, 11, 12, 13, 17}};
}

/// How far float64 values may be from the formula: perceptrons add up a dozen terms below 2, the others round a few times.
double bound(const BiasSpec& spec, Wide truth) {
  const bool perceptron =
      std::holds_alternative<DynamicMlp>(spec) || std::holds_alternative<SwinV2>(spec) || std::holds_alternative<Fire>(spec);
  const double epsilon = tolerance_of(DType::f64).epsilon;
  return perceptron ? 256 * epsilon : epsilon * std::max(std::fabs(static_cast<double>(truth)), 1e-3);
}

TEST(bias, a_dense_block_holds_the_formula_of_its_scheme_at_every_query_and_key) {
  for (const NamedBias& named : every_bias()) {
    SCOPED_TRACE(named.name);
    const Bias bias = made(named.spec);
    const Tokens tokens = tokens_for(named.spec);
    const Extents shape = {1, bias.heads(), static_cast<std::int64_t>(tokens.queries.size()),
                           static_cast<std::int64_t>(tokens.keys.size())};
    Tensor<double> out(shape, 1);
    ASSERT_TRUE(bias.fill(out.view(), at(tokens.queries), at(tokens.keys)).ok());
    for (std::int64_t h = 0; h < shape[1]; ++h) {
      for (std::int64_t i = 0; i < shape[2]; ++i) {
        for (std::int64_t j = 0; j < shape[3]; ++j) {
          const std::int64_t q = tokens.queries[static_cast<std::size_t>(i)];
          const std::int64_t k = tokens.keys[static_cast<std::size_t>(j)];
          const Wide truth = naive_bias(named.spec, h, q, k);
          ASSERT_NEAR(out.at(0, h, i, j), static_cast<double>(truth), bound(named.spec, truth)) << "head " << h << ", " << q << " to " << k;
        }
      }
    }
  }
}

TEST(bias, a_diagonal_holds_what_the_dense_block_gathers) {
  for (const NamedBias& named : every_bias()) {
    SCOPED_TRACE(named.name);
    const Bias bias = made(named.spec);
    const Ids queries = has_window(named.spec) ? Ids{17} : Ids{5};
    Ids keys = has_window(named.spec) ? Ids{17, 16, 15, 14, 10, 9, 8, 7} : Ids{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1, -2};
    const auto n = static_cast<std::int64_t>(keys.size());
    Tensor<double> dense({1, bias.heads(), 1, n}, 1);
    ASSERT_TRUE(bias.fill(dense.view(), at(queries), at(keys)).ok());
    const bool by_key = named.name == "alibi_key_position";  // there queries stand at 0
    for (std::int64_t j = 0; j < n; ++j) {
      Tensor<double> one({1, bias.heads(), 1, 1}, 2);
      const std::int64_t distance = (by_key ? 0 : queries[0]) - keys[static_cast<std::size_t>(j)];
      ASSERT_TRUE(bias.diagonal(one.view(), distance).ok());
      for (std::int64_t h = 0; h < bias.heads(); ++h) ASSERT_EQ(one.at(0, h, 0, 0), dense.at(0, h, 0, j)) << h << " " << distance;
    }
  }
}

TEST(bias, a_run_of_distances_equals_its_distances_one_by_one_bit_for_bit) {
  for (const NamedBias& named : every_bias()) {
    SCOPED_TRACE(named.name);
    const Bias bias = made(named.spec);
    Tensor<double> run({1, bias.heads(), 1, 23}, 1);
    ASSERT_TRUE(bias.diagonal(run.view(), -11, {.query_position = 31}).ok());
    for (std::int64_t i = 0; i < 23; ++i) {
      Tensor<double> one({1, bias.heads(), 1, 1}, 2);
      ASSERT_TRUE(bias.diagonal(one.view(), i - 11, {.query_position = 31}).ok());
      for (std::int64_t h = 0; h < bias.heads(); ++h) ASSERT_EQ(one.at(0, h, 0, 0), run.at(0, h, 0, i));
    }
  }
}

/// The whole block of one batch row as float64, contiguous.
Tensor<double> whole(const Bias& bias, const Ids& queries, const Ids& keys) {
  Tensor<double> out({1, bias.heads(), static_cast<std::int64_t>(queries.size()), static_cast<std::int64_t>(keys.size())}, 1);
  EXPECT_TRUE(bias.fill(out.view(), at(queries), at(keys)).ok());
  return out;
}

TEST(bias, every_dtype_stride_batch_and_head_offset_is_the_float64_value_rounded_once_and_nothing_else_is_touched) {
  for (const NamedBias& named : every_bias()) {
    SCOPED_TRACE(named.name);
    const Bias bias = made(named.spec);
    const Tokens tokens = tokens_for(named.spec);
    const auto nq = static_cast<std::int64_t>(tokens.queries.size());
    const auto nk = static_cast<std::int64_t>(tokens.keys.size());
    const Ids turned(tokens.keys.rbegin(), tokens.keys.rend());
    Ids both = tokens.keys;
    both.insert(both.end(), turned.begin(), turned.end());
    const Tensor<double> truth[2] = {whole(bias, tokens.queries, tokens.keys), whole(bias, tokens.queries, turned)};
    for_each_dtype([&](auto tag) {
      using T = typename decltype(tag)::type;
      const Extents strides = {nk + 3, 2 * (nk + 3) * nq, -2 * (nk + 3), 1};  // queries backwards, batch rows interleaved, gaps
      Tensor<T> out({2, 2, nq, nk}, strides, 3);
      Tensor<T> wanted = out;
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t h = 0; h < 2; ++h) {
          for (std::int64_t i = 0; i < nq; ++i) {
            for (std::int64_t j = 0; j < nk; ++j) {
              const double x = truth[b].at(0, h + 1, i, j);
              if constexpr (std::is_same_v<T, Float16>) {
                static const std::vector<double> list = reference::magnitudes(reference::f16_format);
                wanted.at(b, h, i, j) = {reference::nearest_code(reference::f16_format, list, x)};
              } else if constexpr (std::is_same_v<T, BFloat16>) {
                static const std::vector<double> list = reference::magnitudes(reference::bf16_format);
                wanted.at(b, h, i, j) = {reference::nearest_code(reference::bf16_format, list, x)};
              } else {
                wanted.at(b, h, i, j) = static_cast<T>(x);
              }
            }
          }
        }
      }
      ASSERT_TRUE(bias.fill(out.view(), at(tokens.queries), positions(both.data(), 2, nk), 1).ok());
      EXPECT_TRUE(same_bits(out.memory, wanted.memory));
    });
  }
}

TEST(bias, far_apart_positions_cost_no_memory_for_the_distances_between) {
  const Bias bias = made(Alibi{.heads = 2});
  const Ids queries = {std::int64_t{1} << 60, 5, -(std::int64_t{1} << 60)};
  const Ids keys = {-(std::int64_t{1} << 59), 0, 7};
  const Tensor<double> out = whole(bias, queries, keys);
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      const std::int64_t r = queries[static_cast<std::size_t>(i)] - keys[static_cast<std::size_t>(j)];
      EXPECT_EQ(out.at(0, 1, i, j), -0x1p-8 * std::fabs(static_cast<double>(r)));
    }
  }
}

TEST(bias, offsets_stand_for_consecutive_positions) {
  const Bias bias = made(T5Buckets{.heads = 3, .buckets = 10, .max_distance = 20, .table = numbers(30, 1)});
  Tensor<float> by_offset({1, 3, 4, 6}, 1);
  Tensor<float> by_list({1, 3, 4, 6}, 1);
  ASSERT_TRUE(bias.fill(by_offset.view(), positions_from(2), positions_from(-3)).ok());
  ASSERT_TRUE(bias.fill(by_list.view(), at({2, 3, 4, 5}), at({-3, -2, -1, 0, 1, 2})).ok());
  EXPECT_TRUE(same_bits(by_offset.memory, by_list.memory));
}

/// Some of the queries pass FIRE's length.
TEST(bias, a_dense_block_is_filled_by_the_runner_and_does_not_depend_on_it) {
  std::int64_t tasks = 0;
  const Runner backwards = {[](void* seen, std::int64_t count, void (*task)(void*, std::int64_t), void* context) {
                              *static_cast<std::int64_t*>(seen) += count;
                              for (std::int64_t i = count - 1; i >= 0; --i) task(context, i);
                            },
                            &tasks};
  for (const NamedBias& named : every_bias()) {
    SCOPED_TRACE(named.name);
    const Bias bias = made(named.spec);
    const Tokens tokens = tokens_for(named.spec);
    Ids queries;  // more numbers than a task has
    for (int n = 0; n < 250; ++n) queries.insert(queries.end(), tokens.queries.begin(), tokens.queries.end());
    const Extents shape = {2, bias.heads(), static_cast<std::int64_t>(queries.size()), static_cast<std::int64_t>(tokens.keys.size())};
    Tensor<double> one_way(shape, 1);
    Tensor<double> other_way(shape, 1);
    tasks = 0;
    ASSERT_TRUE(bias.fill(one_way.view(), at(queries), at(tokens.keys), 0, {.runner = backwards}).ok());
    EXPECT_GT(tasks, 2);
    ASSERT_TRUE(bias.fill(other_way.view(), at(queries), at(tokens.keys)).ok());
    EXPECT_TRUE(same_bits(one_way.memory, other_way.memory));
  }
}

TEST(bias, distance_zero_of_alibi_and_kerple_is_plus_zero) {
  for (const BiasSpec& spec :
       {BiasSpec(Alibi{.heads = 1}), BiasSpec(Kerple{KerpleKind::logarithmic, {1}, {1}}), BiasSpec(Kerple{KerpleKind::power, {1}, {1}})}) {
    double value = 1;
    ASSERT_TRUE(made(spec).diagonal(view(&value, {1, 1, 1, 1}), 0).ok());
    EXPECT_EQ(value, 0);
    EXPECT_FALSE(std::signbit(value));
  }
}

TEST(bias, fill_window_gives_the_places_whose_distances_are_two_offsets) {
  Ids ids(6);
  ASSERT_TRUE(fill_window(positions(ids.data(), 6), {2, 3}).ok());
  EXPECT_EQ(ids, (Ids{0, 1, 2, 5, 6, 7}));
  EXPECT_EQ(fill_window(positions(ids.data(), 6), {2, 4}).message(), "fill_window: out has 6 tokens, wanted 8");
  EXPECT_EQ(fill_window(positions(ids.data(), 6), {0, 4}).message(), "fill_window: the window is 0 x 4, wanted 1 to 2048 either way");
}

}  // namespace
}  // namespace phasor::test

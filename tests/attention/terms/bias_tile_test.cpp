// SPDX-License-Identifier: Apache-2.0
// The hooks of a bias on tiles made by hand, without the loops: every scheme, regular and irregular positions, bands that end inside and
// outside tiles, far distances, gates, heads of a part, against Bias::fill and Bias::gradient, one score at a time.
#define HWY_COMPILE_ONLY_STATIC  // the registers that every machine of this build has, if any, and plain C++
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "attention/terms/bias_tile_call.hpp"
#include "bias_specs.hpp"
#include "cpu/attention/kernels.hpp"
#include "cpu/attention/parts.hpp"
#include "cpu/attention/scratch.hpp"
#include "math/sincos.hpp"

#if HWY_TARGET == HWY_WASM && !HWY_HAVE_FLOAT64
#include "cpu/common/wasm_double.inl"
#endif

// Highway's own functions carry the attributes of their target; code outside these two lines has none, and g++ on aarch64 refuses to
// inline.
HWY_BEFORE_NAMESPACE();
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
namespace phasor::cpu::HWY_NAMESPACE {
#define PHASOR_LANES 1
#include "attention/terms/bias_tiles.inl"
#undef PHASOR_LANES
}  // namespace phasor::cpu::HWY_NAMESPACE
#endif
namespace phasor::cpu::plain {
#define PHASOR_LANES 0
#include "attention/terms/bias_tiles.inl"
#undef PHASOR_LANES
}  // namespace phasor::cpu::plain
HWY_AFTER_NAMESPACE();

namespace phasor::test {
namespace {

/// The kernels of one target.
struct Kernels {
  const char* name;
  void (*forward)(const attend::AttentionJob&, const attend::BiasJob&, double*);
  void (*backward)(const attend::AttentionJob&, const attend::BiasJob&, const double*);
};
template <class T>
std::vector<Kernels> kernels() {
  return {
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
      {"registers", cpu::HWY_NAMESPACE::bias_forward<T>, cpu::HWY_NAMESPACE::bias_backward<T>},
#endif
      {"plain", cpu::plain::bias_forward<T>, cpu::plain::bias_backward<T>}};
}

/// Roundings of a value to T, of its product, and of float32's knots.
template <class T>
constexpr double kClose = std::is_same_v<T, double> ? 0x1p-46 : 0x1p-20;

bool seen(const Call& call, std::size_t i, std::size_t j) { return !call.causal || call.queries[i] >= call.keys[j]; }
double gate_of(const Call& call, std::int64_t head, std::size_t i) {
  return call.gate.empty() ? 1 : call.gate[i * static_cast<std::size_t>(call.heads) + static_cast<std::size_t>(head)];
}

/// (H, Tq, Tk)
std::vector<double> biases_of(const Call& call) {
  const auto queries = static_cast<std::int64_t>(call.queries.size());
  const auto keys = static_cast<std::int64_t>(call.keys.size());
  std::vector<double> list(static_cast<std::size_t>(call.heads * queries * keys));
  const Status status = call.bias.fill(view(list.data(), {1, call.heads, queries, keys}), positions(call.queries.data(), queries),
                                       positions(call.keys.data(), keys), call.first_head);
  EXPECT_TRUE(status.ok()) << status.message();
  return list;
}

template <class T>
void expect_forward(const Call& call) {
  const Made<T> made(call);
  ASSERT_TRUE(made.status.ok()) << made.status.message();
  const std::vector<double> wanted = biases_of(call);
  for (const Kernels& kernel : kernels<T>()) {
    SCOPED_TRACE(kernel.name);
    std::vector<double> is(wanted.size());
    kernel.forward(made.job, made.term(), is.data());
    for (std::size_t n = 0; n < is.size(); ++n) {
      const std::size_t i = n / call.keys.size() % call.queries.size();
      if (!seen(call, i, n % call.keys.size())) continue;
      const double gated = wanted[n] * gate_of(call, static_cast<std::int64_t>(n / call.keys.size() / call.queries.size()), i);
      ASSERT_NEAR(is[n], gated, kClose<T> * (1 + std::fabs(gated))) << "query " << i << ", key " << n % call.keys.size();
    }
  }
}

struct Gradient {
  std::vector<double> parameters;
  std::vector<double> gate;
  std::vector<double> sizes;  // of all that was added to each parameter
};
/// Distance by distance, for FIRE query by query.
Gradient gradient_of(const Call& call, const std::vector<double>& ds) {
  const auto count = static_cast<std::size_t>(call.bias.parameter_count());
  Gradient g{std::vector<double>(count, 0.5), std::vector<double>(call.gate.size(), 0.25), std::vector<double>(count, 1)};
  const std::vector<double> biases = biases_of(call);
  const auto* alibi = std::get_if<Alibi>(&call.bias.spec());
  const bool by_key = alibi != nullptr && alibi->form == AlibiForm::key_position;
  const bool by_query = std::holds_alternative<Fire>(call.bias.spec());
  struct Sum {
    double signed_sum = 0;
    double size = 0;
  };
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, Sum> sums;  // head, query, distance
  for (std::size_t n = 0; n < ds.size(); ++n) {
    const std::size_t i = n / call.keys.size() % call.queries.size();
    const auto head = static_cast<std::int64_t>(n / call.keys.size() / call.queries.size());
    const double above = ds[n] * gate_of(call, head, i);
    if (!call.gate.empty()) g.gate[i * static_cast<std::size_t>(call.heads) + static_cast<std::size_t>(head)] += ds[n] * biases[n];
    Sum& sum = sums[{head, by_query ? call.queries[i] : 0, (by_key ? 0 : call.queries[i]) - call.keys[n % call.keys.size()]}];
    sum.signed_sum += above;
    sum.size += std::fabs(above);
  }
  std::vector<double> one(count);
  for (const auto& [key, sum] : sums) {
    const auto& [head, query, distance] = key;
    std::fill(one.begin(), one.end(), 0.0);
    const double unit = 1;
    const Status status = call.bias.gradient(one, view(&unit, {1, 1, 1, 1}), distance, {call.first_head + head, query});
    EXPECT_TRUE(status.ok()) << status.message();
    for (std::size_t p = 0; p < count; ++p) {
      g.parameters[p] += one[p] * sum.signed_sum;
      g.sizes[p] += std::fabs(one[p]) * sum.size;
    }
  }
  return g;
}

/// float32 numbers, so that both arithmetics have the same; 0 where nothing is seen.
std::vector<double> random_ds(const Call& call, std::uint64_t seed) {
  std::vector<double> ds = numbers(static_cast<std::size_t>(call.heads) * call.queries.size() * call.keys.size(), seed);
  for (std::size_t n = 0; n < ds.size(); ++n) {
    const bool sees = seen(call, n / call.keys.size() % call.queries.size(), n % call.keys.size());
    ds[n] = sees ? static_cast<double>(static_cast<float>(ds[n])) : 0;
  }
  return ds;
}

template <class T>
void expect_backward(const Call& call, const std::vector<double>& ds, const Gradient& wanted) {
  for (const Kernels& kernel : kernels<T>()) {
    SCOPED_TRACE(kernel.name);
    Made<T> made(call);
    ASSERT_TRUE(made.status.ok()) << made.status.message();
    kernel.backward(made.job, made.term(), ds.data());
    made.finish();
    for (std::size_t p = 0; p < wanted.parameters.size(); ++p) {
      ASSERT_NEAR(made.parameters[p], wanted.parameters[p], kClose<T> * wanted.sizes[p]) << "parameter " << p;
    }
    for (std::size_t g = 0; g < wanted.gate.size(); ++g) {
      ASSERT_NEAR(made.gate_gradient[g], wanted.gate[g], kClose<T> * static_cast<double>(call.keys.size()) * 8) << "gate " << g;
    }
  }
}

void expect_right(const Call& call, std::uint64_t seed) {
  expect_forward<double>(call);
  expect_forward<float>(call);
  const std::vector<double> ds = random_ds(call, seed);
  const Gradient wanted = gradient_of(call, ds);
  expect_backward<double>(call, ds, wanted);
  expect_backward<float>(call, ds, wanted);
}

Bias made(const BiasSpec& spec) {
  const Result<Bias> bias = Bias::make(spec);
  EXPECT_TRUE(bias.ok()) << bias.status().message();
  return *bias;
}
Ids counted(std::int64_t first, std::int64_t count) {
  Ids list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), first);
  return list;
}
Ids shuffled(Ids list, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t n = list.size(); n > 1; --n) std::swap(list[n - 1], list[random.bits() % n]);
  return list;
}
Ids window_places() { return {0, 1, 2, 3, 7, 8, 9, 10, 14, 15, 16, 17}; }

/// Of three heads where there are six.
Call call_of(const BiasSpec& spec, Ids queries, Ids keys) {
  const Bias bias = made(spec);
  return {bias, std::move(queries), std::move(keys), std::min<std::int64_t>(bias.heads(), 3), bias.heads() > 3 ? 2 : 0};
}

TEST(bias_tile, consecutive_positions) {
  std::uint64_t seed = 1;
  for (const NamedBias& named : every_bias()) {
    if (has_window(named.spec)) continue;
    SCOPED_TRACE(named.name);
    expect_right(call_of(named.spec, counted(60, 101), counted(0, 140)), ++seed);
  }
}

TEST(bias_tile, causal_queries_before_and_behind_the_keys) {
  std::uint64_t seed = 100;
  for (const NamedBias& named : every_bias()) {
    if (has_window(named.spec)) continue;
    SCOPED_TRACE(named.name);
    Call call = call_of(named.spec, counted(3, 99), counted(0, 70));
    call.causal = true;
    expect_right(call, ++seed);
  }
}

TEST(bias_tile, positions_in_any_order) {
  std::uint64_t seed = 200;
  for (const NamedBias& named : every_bias()) {
    SCOPED_TRACE(named.name);
    const bool window = has_window(named.spec);
    expect_right(call_of(named.spec, window ? window_places() : shuffled(counted(-5, 30), 1),
                         window ? shuffled(window_places(), 3) : shuffled(counted(0, 67), 2)),
                 ++seed);
    if (!window) expect_right(call_of(named.spec, shuffled(counted(0, 33), 4), counted(10, 70)), ++seed);
  }
}

TEST(bias_tile, distances_that_no_table_could_hold) {
  std::uint64_t seed = 300;
  const std::int64_t far = std::int64_t{1} << 40;
  for (const NamedBias& named : every_bias()) {
    if (has_window(named.spec) || named.name == "dynamic") continue;  // a perceptron of 2^40 is a number of another size
    SCOPED_TRACE(named.name);
    Ids keys = counted(0, 20);
    for (const std::int64_t key : counted(far, 21)) keys.push_back(key);
    for (const std::int64_t key : counted(-far, 3)) keys.push_back(key);
    Ids queries = counted(far, 9);
    queries.push_back(4);
    expect_right(call_of(named.spec, queries, keys), ++seed);
  }
}

TEST(bias_tile, gates) {
  std::uint64_t seed = 400;
  for (const NamedBias& named : every_bias()) {
    if (has_window(named.spec)) continue;
    SCOPED_TRACE(named.name);
    Call call = call_of(named.spec, counted(0, 100), counted(0, 66));
    call.gate = numbers(100 * static_cast<std::size_t>(call.heads), ++seed, 0.5, 1.5);
    expect_right(call, ++seed);
    call.keys = shuffled(call.keys, 5);
    expect_right(call, ++seed);
  }
}

TEST(bias_tile, bands_that_end_at_any_place_of_a_tile) {
  std::uint64_t seed = 500;
  for (const std::int64_t left : {0, 1, 62, 63, 64, 65, 95, 96, 97, 159, 300}) {
    for (const std::int64_t right : {0, 33, 130}) {
      SCOPED_TRACE(left * 1000 + right);
      const ShawClip spec{.heads = 1, .left = left, .right = right, .table = numbers(static_cast<std::size_t>(left + right + 1), ++seed)};
      expect_right(call_of(spec, counted(100, 101), counted(0, 200)), ++seed);
    }
  }
}

TEST(bias_tile, wholly_beyond_the_band) {
  const ShawClip spec{.heads = 1, .left = 5, .right = 5, .table = numbers(11, 1)};
  expect_right(call_of(spec, counted(1000, 97), counted(0, 65)), 1);
  expect_right(call_of(spec, counted(0, 97), counted(1000, 65)), 2);
}

TEST(bias_tile, fire_of_every_perceptron_on_both_sides_of_its_length) {
  std::uint64_t seed = 600;
  for (const Activation activation : {Activation::relu, Activation::silu}) {
    for (const std::vector<std::int64_t>& widths : {std::vector<std::int64_t>{1, 9, 2}, {1, 3, 2, 2}, {1, 2}}) {
      SCOPED_TRACE(widths.size());
      const Fire spec{.mlp = mlp_of(widths, activation, ++seed), .c = 0.2, .length = 44.5};
      Call call = call_of(spec, counted(20, 49), counted(0, 70));
      expect_right(call, ++seed);
      call.queries = shuffled(call.queries, 7);
      expect_right(call, ++seed);
      call.gate = numbers(49 * 2, ++seed, 0.5, 1.5);
      expect_right(call, ++seed);
    }
  }
}

TEST(bias_tile, fire_whose_units_begin_at_zero) {
  Mlp mlp = mlp_of({1, 6, 2}, Activation::relu, 9);
  for (std::size_t unit = 0; unit < 6; ++unit) mlp.parameters[6 + unit] = 0;  // as initialised
  expect_right(call_of(Fire{.mlp = mlp, .length = 20}, counted(0, 60), counted(0, 60)), 10);
}

TEST(bias_tile, only_what_is_wanted_is_summed) {
  Call call = call_of(every_bias()[3].spec, counted(0, 10), counted(0, 10));
  call.gate = numbers(30, 1);
  Made<float> all(call);
  EXPECT_NE(all.term().diagonals, nullptr);
  EXPECT_NE(all.term().gate_sums, nullptr);
  const TermGradient none;
  all.make(&none);
  EXPECT_EQ(all.term().diagonals, nullptr);
  EXPECT_EQ(all.term().sums, nullptr);
  EXPECT_EQ(all.term().gate_sums, nullptr);
  all.make(nullptr);
  EXPECT_EQ(all.term().diagonals, nullptr);
}

}  // namespace
}  // namespace phasor::test

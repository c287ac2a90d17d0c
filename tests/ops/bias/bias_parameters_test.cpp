// SPDX-License-Identifier: Apache-2.0
// Bias::with_parameters: the same scheme with other numbers, as a training step makes one, against making it anew.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "bias_specs.hpp"

namespace phasor::test {
namespace {

/// The parameters of a spec, one after the other in the order of its gradient.
struct ParametersOf {
  std::vector<double> operator()(const Alibi& s) const { return s.slopes; }
  std::vector<double> operator()(const Kerple& s) const {
    std::vector<double> list = s.r1;
    list.insert(list.end(), s.r2.begin(), s.r2.end());
    return list;
  }
  std::vector<double> operator()(const Sandwich& /*s*/) const { return {}; }
  std::vector<double> operator()(const Fire& s) const {
    std::vector<double> list = s.mlp.parameters;
    list.insert(list.end(), {s.c, s.length});
    return list;
  }
  std::vector<double> operator()(const DynamicMlp& s) const { return s.mlp.parameters; }
  std::vector<double> operator()(const SwinV2& s) const { return s.mlp.parameters; }
  template <class Table>
  std::vector<double> operator()(const Table& s) const {
    return s.table;
  }
};

/// Half of each, which every scheme takes.
std::vector<double> halved(std::vector<double> list) {
  for (double& x : list) x /= 2;
  return list;
}

std::vector<double> values_of(const Bias& bias) {
  std::vector<double> list(static_cast<std::size_t>(bias.heads() * 17));
  EXPECT_TRUE(bias.diagonal(view(list.data(), {1, bias.heads(), 1, 17}), -8).ok());
  return list;
}

TEST(bias_parameters, are_those_of_a_bias_made_with_them) {
  for (const NamedBias& named : every_bias()) {
    SCOPED_TRACE(named.name);
    const Bias bias = *Bias::make(named.spec);
    std::vector<double> given = std::visit(ParametersOf(), bias.spec());
    if (given.empty() && std::holds_alternative<Alibi>(named.spec)) given = bias.slopes();
    ASSERT_EQ(static_cast<std::int64_t>(given.size()), bias.parameter_count());
    const Result<Bias> same = bias.with_parameters(given);
    ASSERT_TRUE(same.ok()) << same.status().message();
    EXPECT_EQ(values_of(*same), values_of(bias));
    const Result<Bias> other = bias.with_parameters(halved(given));
    ASSERT_TRUE(other.ok()) << other.status().message();
    EXPECT_EQ(values_of(*other), values_of(*Bias::make(other->spec())));
    EXPECT_EQ(std::visit(ParametersOf(), other->spec()), halved(given));
    if (!given.empty()) {
      EXPECT_NE(values_of(*other), values_of(bias));
    }
    for (const std::int64_t r : {-100, -7, 0, 3, 19, 1000}) EXPECT_EQ(other->row(r), bias.row(r));
  }
}

TEST(bias_parameters, a_table_of_zeros_that_was_not_given_becomes_one_that_is) {
  const Bias zeros = *Bias::make(T5Buckets{.heads = 2, .buckets = 8, .max_distance = 20});
  const std::vector<double> table = numbers(16, 3);
  const Result<Bias> bias = zeros.with_parameters(table);
  ASSERT_TRUE(bias.ok());
  EXPECT_EQ(std::get<T5Buckets>(bias->spec()).table, table);
  EXPECT_EQ(values_of(zeros), std::vector<double>(34, 0));
}

TEST(bias_parameters, rounded_slopes_are_rounded_again) {
  const Bias falcon = *Bias::make(Alibi{.heads = 2, .rounding = SlopeRounding::bf16});
  const std::vector<double> slopes = {1.0 / 3, 0.1};
  const Result<Bias> bias = falcon.with_parameters(slopes);
  ASSERT_TRUE(bias.ok());
  EXPECT_EQ(bias->slopes(), (std::vector<double>{0x1.56p-2, 0x1.9ap-4}));
}

TEST(bias_parameters, are_checked_as_those_of_a_spec) {
  const Bias bias = *Bias::make(Kerple{.r1 = {1, 1}, .r2 = {1, 1}});
  EXPECT_EQ(bias.with_parameters(std::vector<double>(3, 1)).status().message(), "Bias::with_parameters: 3 parameters, the scheme has 4");
  EXPECT_EQ(bias.with_parameters(std::vector<double>{1, 1, 1, -1}).status().message(), "Kerple: r2[1] is -1, wanted 2^-256 to 2^256");
  EXPECT_FALSE(bias.with_parameters(std::vector<double>{1, 1, 1, std::numeric_limits<double>::quiet_NaN()}).ok());
}

}  // namespace
}  // namespace phasor::test

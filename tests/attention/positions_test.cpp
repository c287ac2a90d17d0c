// SPDX-License-Identifier: Apache-2.0
// Positions given as numbers that tokens have anyway: the same bits as without them, forward and backward.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "attention/support/bridge.hpp"
#include "attention/support/caches.hpp"

namespace phasor::test {
namespace {

struct Bytes {
  std::vector<std::byte> out, q, k, v;
  bool operator==(const Bytes&) const = default;
};

/// With the first positions, if there are some.
Bytes results_of(const ref::Problem& p, std::optional<std::int64_t> queries, std::optional<std::int64_t> keys) {
  Bridge bridge(p, DType::f32);
  if (queries) bridge.spec.query_positions = positions_from(*queries);
  if (keys) bridge.spec.key_positions = positions_from(*keys);
  ref::Values gradient(p.q.size() / static_cast<std::size_t>(p.shape.width) * static_cast<std::size_t>(p.shape.value_width));
  for (std::size_t n = 0; n < gradient.size(); ++n) gradient[n] = static_cast<double>(n % 7) - 3;
  const Status forward = bridge.forward();
  const Status backward = bridge.backward(gradient);
  EXPECT_TRUE(forward.ok() && backward.ok()) << forward.message() << backward.message();
  return {bytes_of_view(bridge.outputs.out), bytes_of_view(bridge.gradients.q), bytes_of_view(bridge.gradients.k),
          bytes_of_view(bridge.gradients.v)};
}

TEST(attention_positions, of_tokens_may_be_given) {
  const ref::Shape shape{.batch = 2, .queries = 6, .keys = 8, .heads = 2, .key_heads = 1, .width = 4, .value_width = 3};
  for (const NamedScheme& one : every_scheme(shape, 4)) {
    const auto* xpos = std::get_if<ref::Xpos>(&one.scheme);
    if (xpos != nullptr && xpos->keys_rotated) continue;  // the library does not have it
    ref::Problem p = random_problem(shape, 3);
    p.visibility.causal = one.causal_only || std::holds_alternative<ref::Cope>(one.scheme);
    p.schemes = {one.scheme};
    const Bytes wanted = results_of(p, std::nullopt, std::nullopt);
    EXPECT_EQ(results_of(p, 2, 0), wanted) << one.name;
    EXPECT_EQ(results_of(p, 2, std::nullopt), wanted) << one.name;
    EXPECT_EQ(results_of(p, std::nullopt, 0), wanted) << one.name;
  }
}

TEST(attention_positions, of_a_window_that_moved_on_are_those_of_tokens) {
  ref::Problem p = random_problem({.batch = 1, .queries = 5, .keys = 9, .heads = 2, .key_heads = 2, .width = 8, .value_width = 8}, 5);
  p.visibility.causal = true;
  p.visibility.left = 3;
  const Bytes wanted = results_of(p, std::nullopt, std::nullopt);
  EXPECT_EQ(results_of(p, 1004, 1000), wanted);
  EXPECT_NE(results_of(p, 1003, 1000), wanted);
  EXPECT_NE(results_of(p, 4, 1), wanted);
}

/// What goes by positions themselves, and not by distances, has them.
TEST(attention_positions, of_a_prefix_count) {
  ref::Problem p = random_problem({.batch = 1, .queries = 5, .keys = 5, .heads = 2, .key_heads = 2, .width = 8, .value_width = 8}, 5);
  p.visibility.causal = true;
  p.visibility.prefix = {3};
  const Bytes with_prefix = results_of(p, 0, 0);
  p.visibility.prefix = {0};
  const Bytes without = results_of(p, 0, 0);
  EXPECT_NE(with_prefix, without);
  p.visibility.prefix = {3};
  EXPECT_EQ(results_of(p, 100, 100), without);
}

}  // namespace
}  // namespace phasor::test

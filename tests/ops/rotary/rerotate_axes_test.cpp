// SPDX-License-Identifier: Apache-2.0
// Rerotation between axes by the public functions: from one assignment of axes to another, and within one.
// Named *_test.cpp it is built: it wants specs with axes (RotarySpec::axes) in the plan.
#include <cmath>

#include "ops/rotary/rerotate_call.hpp"
#include "tolerance.hpp"

namespace phasor::test {
namespace {

using RerotateAxes = EveryTarget;

constexpr std::int64_t axes = 3;
constexpr std::int64_t batch = 2;
constexpr std::int64_t tokens = 11;

RotarySpec spec_of(AxisOrder order) {
  RotarySpec spec{.head_dim = 48};
  spec.axes.sections = {8, 8, 8};
  spec.axes.order = order;
  return spec;
}

Positions three_axes(const std::vector<std::int64_t>& list) {
  return {.data = list.data(), .type = PositionType::i64, .shape = {axes, batch, tokens}, .strides = {batch * tokens, tokens, 1}};
}

std::vector<std::int64_t> any_positions(std::uint64_t seed) {
  Random random(seed);
  std::vector<std::int64_t> list;
  for (std::int64_t i = 0; i < axes * batch * tokens; ++i) list.push_back(static_cast<std::int64_t>(random.bits() >> 54));
  return list;
}

/// Of the sections above: chunked takes 8 pairs of each axis in turn, interleaved goes round.
std::int64_t axis_of(AxisOrder order, std::int64_t pair) { return order == AxisOrder::chunked ? pair / 8 : pair % 3; }

struct AxesMove {
  AxisOrder from;
  AxisOrder to;
};

void check_move(const AxesMove& move, const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  const Moving m = {{make_rotary(spec_of(move.from)), three_axes(a)}, {make_rotary(spec_of(move.to)), three_axes(b)}, batch, tokens};
  const reference::Rows<float> rows = rows_by_probe<float>(m);
  for (std::int64_t row = 0; row < batch * tokens; ++row) {
    for (std::int64_t i = 0; i < m.pairs(); ++i) {
      const long double frequency = reference::frequency(10000, 48, i);
      const long double from = frequency * a[static_cast<std::size_t>(axis_of(move.from, i) * batch * tokens + row)];
      const long double to = frequency * b[static_cast<std::size_t>(axis_of(move.to, i) * batch * tokens + row)];
      const std::size_t at = static_cast<std::size_t>(row * m.pairs() + i);
      ASSERT_LE(reference::ulps_apart(rows.cos[0][at], std::cos(to - from)), row_ulps) << row << " " << i;
      ASSERT_LE(reference::ulps_apart(rows.sin[0][at], std::sin(to - from)), row_ulps) << row << " " << i;
    }
  }
}

TEST_F(RerotateAxes, chunked_to_interleaved_and_back_and_positions_of_either) {
  const std::vector<std::int64_t> a = any_positions(1);
  const std::vector<std::int64_t> b = any_positions(2);
  on_every_target([&] {
    for (const AxisOrder from : {AxisOrder::chunked, AxisOrder::interleaved}) {
      for (const AxisOrder to : {AxisOrder::chunked, AxisOrder::interleaved}) {
        check_move({from, to}, a, b);
        check_move({from, to}, a, a);
      }
    }
  });
}

TEST_F(RerotateAxes, one_axis_to_three_and_back) {
  const std::vector<std::int64_t> a = any_positions(1);
  RotarySpec plain = spec_of(AxisOrder::chunked);
  plain.axes = {};
  const Rotary one = make_rotary(plain);
  const Rotary three = make_rotary(spec_of(AxisOrder::interleaved));
  on_every_target([&] {
    Tensor<float> keys({batch, tokens, 3, 48}, 1);
    keys.with_numbers(0, 48);
    Tensor<float> wanted = keys;
    ASSERT_TRUE(one.apply(keys.view(), positions_from(500)).ok());
    ASSERT_TRUE(rerotate(keys.view(), {one, positions_from(500)}, {three, three_axes(a)}).ok());
    ASSERT_TRUE(three.apply(wanted.view(), three_axes(a)).ok());
    const Tolerance allowed = tolerance_of(DType::f32);
    keys.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
      for (std::int64_t i = 0; i < 24; ++i) {
        const float x = wanted.at(b, t, h, i);
        const float y = wanted.at(b, t, h, i + 24);
        const double bound = 1.5 * allowed.round_trip * allowed.epsilon * std::hypot(x, y);  // three rotations, the tolerance is of two
        EXPECT_LE(std::fabs(keys.at(b, t, h, i) - x), bound);
        EXPECT_LE(std::fabs(keys.at(b, t, h, i + 24) - y), bound);
      }
    });
  });
}

}  // namespace
}  // namespace phasor::test

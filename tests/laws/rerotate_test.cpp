// SPDX-License-Identifier: Apache-2.0
// Laws of rerotation: it is as good as rotating afresh up to one rotation's rounding, composes, inverts, and is the identity where nothing
// changes.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "laws/cases.hpp"
#include "laws/tolerance.hpp"

namespace phasor::laws {
namespace {

/// Another spec for the same channels.
RotarySpec any_other(const RotarySpec& spec) {
  RotarySpec other = spec;
  other.base = *rc::gen::element(1e4, 5e5, 1e6, 100.0);
  other.scaling = any_scaling(*rc::gen::inRange(0, kScalings), spec.rotary_width / 2);
  other.sense = *rc::gen::element(Sense::counterclockwise, Sense::clockwise);
  return *rc::gen::arbitrary<bool>() ? other : spec;
}

Tensor moved(const Tensor& x, const RotatedAt& from, const RotatedAt& to, Place place, Direction direction = Direction::forward) {
  if (place == Place::in) {
    Tensor y = x;
    check_ok(rerotate(y.view(), from, to, {.direction = direction}));
    return y;
  }
  Tensor y(x.dtype(), x.shape(), x.strides());
  check_ok(rerotate({x.view(), y.view()}, from, to, {.direction = direction}));
  return y;
}

/// Pairs of `y` and `wanted` are within `error` of `scale` times the norm of the pair of `x`.
void check_close(const Case& c, const Tensor& y, const Tensor& wanted, const Tensor& x, long double bound) {
  for_each_pair(c, [&](const Index& head, std::int64_t pair) {
    const PairValue a = pair_of(y, c.spec, head, pair);
    const PairValue b = pair_of(wanted, c.spec, head, pair);
    RC_ASSERT((PairValue{a.x - b.x, a.y - b.y}.norm()) <= bound * pair_of(x, c.spec, head, pair).norm());
  });
}

/// The quotient of the amplitudes is rounded to float64 once.
constexpr double kQuotient = 0x1p-53;

/// The stored key carries the rounding of one rotation, moving it adds that of one more, rotating afresh has one of its own.
RC_GTEST_PROP(RerotateLaws, moved_keys_are_those_rotated_afresh_up_to_three_roundings, ()) {
  const Case c = *any_case();
  const Rotary from = made(c.spec);
  const Rotary to = made(any_other(c.spec));
  const std::vector<std::int64_t> a = any_positions(c, 63);
  const std::vector<std::int64_t> b = *rc::gen::arbitrary<bool>() ? a : any_positions(c, 63);
  const Tensor x = drawn(c);
  on_every_target([&] {
    const Tensor stored = rotated(from, x, view_of(a, c), c.place);
    const Tensor fresh = rotated(to, x, view_of(b, c), c.place);
    const Tensor y = moved(stored, {from, view_of(a, c)}, {to, view_of(b, c)}, c.place);
    check_close(c, y, fresh, x, (rotations_error(c.dtype, 3) + kQuotient) * to.amplitude());
  });
}

/// Beyond what the stored key carries, exactly one rounding: against exact arithmetic on what is stored, at positions where long double
/// angles are exact enough.
RC_GTEST_PROP(RerotateLaws, moving_adds_the_rounding_of_one_rotation_to_what_is_stored, ()) {
  Case c = *any_case();
  c.dtype = *rc::gen::element(DType::f32, DType::f16, DType::bf16);
  const Rotary from = made(c.spec);
  const Rotary to = made(any_other(c.spec));
  const std::vector<std::int64_t> a = any_positions(c, 12);
  const std::vector<std::int64_t> b = any_positions(c, 12);
  const Tensor x = drawn(c);
  // float64 frequencies: relative 2^-53, of angles below 2^24 radians.
  const auto angle_of = [](const Rotary& r, std::int64_t pair, std::int64_t position) {
    const long double angle =
        static_cast<long double>(r.frequencies()[static_cast<std::size_t>(pair)]) * static_cast<long double>(position);
    return r.spec().sense == Sense::clockwise ? -angle : angle;
  };
  const long double quotient = static_cast<long double>(to.amplitude()) / from.amplitude();
  on_every_target([&] {
    const Tensor y = moved(x, {from, view_of(a, c)}, {to, view_of(b, c)}, c.place);
    for_each_pair(c, [&](const Index& head, std::int64_t pair) {
      const auto at = static_cast<std::size_t>(head[0] * c.shape[1] + head[1]);
      const long double before = angle_of(from, pair, a[at]);
      const long double after = angle_of(to, pair, b[at]);
      const long double angle_error = (std::fabs(before) + std::fabs(after)) * 0x1p-53L;
      const PairValue p = pair_of(x, c.spec, head, pair);
      const long double cos = quotient * std::cos(after - before);
      const long double sin = quotient * std::sin(after - before);
      const PairValue is = pair_of(y, c.spec, head, pair);
      const long double distance = PairValue{is.x - (p.x * cos - p.y * sin), is.y - (p.x * sin + p.y * cos)}.norm();
      RC_ASSERT(distance <= (rotation_error(c.dtype) + kQuotient + angle_error + summation_error(2)) * quotient * p.norm());
    });
  });
}

RC_GTEST_PROP(RerotateLaws, there_and_back_is_where_it_began, ()) {
  const Case c = *any_case();
  const Rotary from = made(c.spec);
  const Rotary to = made(any_other(c.spec));
  const std::vector<std::int64_t> a = any_positions(c, 63);
  const std::vector<std::int64_t> b = any_positions(c, 63);
  const Tensor x = drawn(c);
  const RotatedAt here = {from, view_of(a, c)};
  const RotatedAt there = {to, view_of(b, c)};
  on_every_target([&] {
    const Tensor y = moved(x, here, there, c.place);
    check_close(c, moved(y, there, here, c.place), x, x, rotations_error(c.dtype, 2) + 2 * kQuotient);
    RC_ASSERT(moved(y, here, there, c.place, Direction::inverse) == moved(y, there, here, c.place));
  });
}

RC_GTEST_PROP(RerotateLaws, from_a_to_b_to_c_is_from_a_to_c, ()) {
  const Case c = *any_case();
  const Rotary first = made(c.spec);
  const Rotary second = made(any_other(c.spec));
  const Rotary third = made(any_other(c.spec));
  const std::vector<std::int64_t> a = any_positions(c, 63);
  const std::vector<std::int64_t> b = any_positions(c, 63);
  const std::vector<std::int64_t> e = any_positions(c, 63);
  const Tensor x = drawn(c);
  const RotatedAt at_a = {first, view_of(a, c)};
  const RotatedAt at_b = {second, view_of(b, c)};
  const RotatedAt at_c = {third, view_of(e, c)};
  const long double quotient = static_cast<long double>(third.amplitude()) / first.amplitude();
  on_every_target([&] {
    const Tensor in_two = moved(moved(x, at_a, at_b, c.place), at_b, at_c, c.place);
    check_close(c, in_two, moved(x, at_a, at_c, c.place), x, (rotations_error(c.dtype, 3) + 3 * kQuotient) * quotient);
  });
}

/// With an amplitude of 1, a shift of the keys is the rotation of what is stored by the shift, to the bit.
RC_GTEST_PROP(RerotateLaws, a_shift_is_bitwise_the_rotation_by_the_difference, ()) {
  const Case c = *any_case();
  const Rotary rotary = made(c.spec);
  RC_PRE(rotary.amplitude() == 1);
  const std::vector<std::int64_t> a = any_positions(c, 61);
  const std::int64_t by = any_position(61);
  std::vector<std::int64_t> b = a;
  std::vector<std::int64_t> delta(a.size(), by);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (*rc::gen::inRange(0, 4) == 0) delta[i] = any_position(61);
    b[i] += delta[i];
  }
  const Tensor x = drawn(c);
  on_every_target([&] {
    RC_ASSERT(moved(x, {rotary, view_of(a, c)}, {rotary, view_of(b, c)}, c.place) == rotated(rotary, x, view_of(delta, c), c.place));
  });
}

RC_GTEST_PROP(RerotateLaws, keys_whose_positions_stay_are_left_bit_for_bit, ()) {
  const Case c = *any_case();
  const Rotary rotary = made(c.spec);
  const std::vector<std::int64_t> a = any_positions(c, 63);
  Tensor x(c.dtype, c.shape, c.strides);
  Draw draw(c.seed);
  for_each_head(c.shape, [&](const Index& head) {
    for (std::int64_t d = 0; d < c.shape[3]; ++d) x.set_bits(channel(head, d), draw.bits());
  });
  on_every_target([&] { RC_ASSERT(moved(x, {rotary, view_of(a, c)}, {rotary, view_of(a, c)}, c.place) == x); });
}

/// Scores after a shift of queries and keys alike are the scores before it: they depend on the distance only.
RC_GTEST_PROP(RerotateLaws, scores_depend_on_the_new_distances_only, ()) {
  const Case c = *any_case();
  const Rotary rotary = made(c.spec);
  const std::vector<std::int64_t> query = any_positions(c, 61);
  const std::vector<std::int64_t> key = any_positions(c, 61);
  const std::int64_t by = any_position(61);
  std::vector<std::int64_t> new_query = query;
  std::vector<std::int64_t> new_key = key;
  for (std::int64_t& p : new_query) p += by;
  for (std::int64_t& p : new_key) p += by;
  const Tensor q = drawn(c, 1);
  const Tensor k = drawn(c, 2);
  const long double scale = static_cast<long double>(rotary.amplitude()) * rotary.amplitude();
  on_every_target([&] {
    const Tensor before_q = rotated(rotary, q, view_of(query, c), c.place);
    const Tensor before_k = rotated(rotary, k, view_of(key, c), c.place);
    const Tensor after_q = rotated(rotary, q, view_of(new_query, c), c.place);
    const Tensor after_k = moved(before_k, {rotary, view_of(key, c)}, {rotary, view_of(new_key, c)}, c.place);
    for_each_pair(c, [&](const Index& head, std::int64_t pair) {
      const auto dot = [&](const Tensor& a, const Tensor& b) {
        const PairValue u = pair_of(a, c.spec, head, pair);
        const PairValue v = pair_of(b, c.spec, head, pair);
        return u.x * v.x + u.y * v.y;
      };
      const long double norms = pair_of(q, c.spec, head, pair).norm() * pair_of(k, c.spec, head, pair).norm();
      // Two rotations in the score before, three after; errors multiply.
      const long double error = rotations_error(c.dtype, 2) + rotations_error(c.dtype, 3) + 2 * summation_error(2);
      RC_ASSERT(std::fabs(dot(after_q, after_k) - dot(before_q, before_k)) <= error * scale * norms);
    });
  });
}

}  // namespace
}  // namespace phasor::laws

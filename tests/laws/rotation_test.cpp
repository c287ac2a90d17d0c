// SPDX-License-Identifier: Apache-2.0
// Laws of one tensor: rotations compose, invert and keep the norm; what must not change does not change by a bit.
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

/// Every pair of `y` is `scale` times that of `x` within `error` of the norm of the pair of `x`, scaled.
void check_pairs_near(const Case& c, const Tensor& y, const Tensor& x, long double scale, double error) {
  for_each_pair(c, [&](const Index& head, std::int64_t pair) {
    const PairValue a = pair_of(y, c.spec, head, pair);
    const PairValue b = pair_of(x, c.spec, head, pair);
    const long double distance = PairValue{a.x - scale * b.x, a.y - scale * b.y}.norm();
    RC_ASSERT(distance <= error * scale * b.norm());
  });
}

template <class P>
std::vector<P> sums(const std::vector<P>& a, const std::vector<P>& b) {
  std::vector<P> list = a;
  for (std::size_t i = 0; i < list.size(); ++i) list[i] += b[i];
  return list;
}

/// R(b) R(a) x = amplitude R(a + b) x: the amplitude comes in at each rotation. Three rotations are off by their own error each.
template <class P>
void check_group_law(const Case& c, const std::vector<P>& a, const std::vector<P>& b) {
  const Rotary rotary = made(c.spec);
  const Tensor x = drawn(c);
  const std::vector<P> sum = sums(a, b);
  const double error = rotations_error(c.dtype, 3);
  on_every_target([&] {
    const Tensor in_two = rotated(rotary, rotated(rotary, x, view_of(a, c), c.place), view_of(b, c), c.place);
    const Tensor at_once = rotated(rotary, x, view_of(sum, c), c.place);
    const long double amplitude = rotary.amplitude();
    for_each_pair(c, [&](const Index& head, std::int64_t pair) {
      const PairValue two = pair_of(in_two, c.spec, head, pair);
      const PairValue one = pair_of(at_once, c.spec, head, pair);
      const long double distance = PairValue{two.x - amplitude * one.x, two.y - amplitude * one.y}.norm();
      const long double norm = amplitude * amplitude * pair_of(x, c.spec, head, pair).norm();
      RC_ASSERT(distance <= error * norm);
    });
  });
}

RC_GTEST_PROP(RotationLaws, rotate_by_a_then_b_is_rotate_by_a_plus_b, ()) {
  const Case c = *any_case();
  const std::vector<std::int64_t> a = any_positions(c, 61);
  check_group_law(c, a, any_positions(c, 61));
}

/// Multiples of 2^-10 below 2^40: their sums are exact.
std::vector<double> any_fractions(const Case& c) {
  std::vector<double> list;
  for (const std::int64_t position : any_positions(c, 50)) list.push_back(std::ldexp(static_cast<double>(position), -10));
  return list;
}

RC_GTEST_PROP(RotationLaws, rotate_by_a_then_b_is_rotate_by_a_plus_b_at_fractional_positions, ()) {
  const Case c = *any_case();
  const std::vector<double> a = any_fractions(c);
  check_group_law(c, a, any_fractions(c));
}

RC_GTEST_PROP(RotationLaws, inverse_undoes_forward, ()) {
  Case c = *any_case();
  c.spec.output_pairing = *rc::gen::element(Pairing::half, Pairing::interleaved);
  const Rotary rotary = made(c.spec);
  const Tensor x = drawn(c);
  const std::vector<std::int64_t> at = any_positions(c, 63);
  on_every_target([&] {
    const Tensor there = rotated(rotary, x, view_of(at, c), c.place);
    const Tensor back = rotated(rotary, there, view_of(at, c), c.place, Direction::inverse);
    check_pairs_near(c, back, x, 1, inverse_error(c.dtype));
  });
}

/// The position's opposite is the transpose: cos is even and sin is odd to the bit.
RC_GTEST_PROP(RotationLaws, transpose_is_the_rotation_by_the_opposite_position_bit_for_bit, ()) {
  const Case c = *any_case();
  const Rotary rotary = made(c.spec);
  const Tensor x = drawn(c);
  const std::vector<std::int64_t> at = any_positions(c, 63);
  std::vector<std::int64_t> opposite = at;
  for (std::int64_t& position : opposite) position = -position;
  on_every_target([&] {
    RC_ASSERT(rotated(rotary, x, view_of(at, c), c.place, Direction::transpose) == rotated(rotary, x, view_of(opposite, c), c.place));
  });
}

RC_GTEST_PROP(RotationLaws, the_norm_of_each_pair_is_kept_up_to_the_amplitude, ()) {
  const Case c = *any_case();
  const Rotary rotary = made(c.spec);
  const Tensor x = drawn(c);
  const std::vector<std::int64_t> at = any_positions(c, 63);
  const double error = rotation_error(c.dtype) + summation_error(2);
  on_every_target([&] {
    const Tensor y = rotated(rotary, x, view_of(at, c), c.place);
    for_each_pair(c, [&](const Index& head, std::int64_t pair) {
      const long double wanted = rotary.amplitude() * pair_of(x, c.spec, head, pair).norm();
      RC_ASSERT(std::fabs(pair_of(y, c.spec, head, pair).norm() - wanted) <= error * wanted);
    });
  });
}

/// Any bits: NaN with payloads, infinities, negative zeros.
Tensor any_bits(const Case& c) {
  Tensor x(c.dtype, c.shape, c.strides);
  Draw draw(c.seed);
  for_each_head(c.shape, [&](const Index& head) {
    for (std::int64_t d = 0; d < c.shape[3]; ++d) x.set_bits(channel(head, d), draw.bits());
  });
  return x;
}

RC_GTEST_PROP(RotationLaws, position_0_leaves_the_input_bit_for_bit, ()) {
  const Case c = *any_case();
  const Rotary rotary = made(c.spec);
  const std::vector<std::int64_t> at(static_cast<std::size_t>(c.shape[0] * c.shape[1]), 0);
  const Direction direction = *rc::gen::element(Direction::forward, Direction::inverse, Direction::transpose);
  on_every_target([&] {
    if (rotary.amplitude() == 1) {
      const Tensor x = any_bits(c);
      RC_ASSERT(rotated(rotary, x, view_of(at, c), c.place, direction) == x);
    } else {
      const Tensor x = drawn(c);
      const long double scale = direction == Direction::inverse ? 1 / static_cast<long double>(rotary.amplitude()) : rotary.amplitude();
      check_pairs_near(c, rotated(rotary, x, view_of(at, c), c.place, direction), x, scale, inverse_error(c.dtype));
    }
  });
}

RC_GTEST_PROP(RotationLaws, channels_outside_the_width_stay_bit_for_bit, ()) {
  const Case c = *any_case();
  const Rotary rotary = made(c.spec);
  const Tensor x = any_bits(c);
  const std::vector<std::int64_t> at = any_positions(c, 63);
  const std::int64_t end = c.spec.rotary_offset + c.spec.rotary_width;
  on_every_target([&] {
    Tensor y = rotated(rotary, x, view_of(at, c), c.place);
    for_each_head(c.shape, [&](const Index& head) {
      for (std::int64_t d = c.spec.rotary_offset; d < end; ++d) y.set_bits(channel(head, d), x.bits(channel(head, d)));
    });
    RC_ASSERT(y == x);  // the rest and the gaps
  });
}

/// The same values as if they lay in the other pairing.
Tensor repaired(const Case& c, const Tensor& x, Pairing from, Pairing to) {
  Tensor y = x;
  for_each_pair(c, [&](const Index& head, std::int64_t pair) {
    const PairChannels read = channels_of(c.spec, from, pair);
    const PairChannels write = channels_of(c.spec, to, pair);
    y.set_bits(channel(head, write.x), x.bits(channel(head, read.x)));
    y.set_bits(channel(head, write.y), x.bits(channel(head, read.y)));
  });
  return y;
}

RC_GTEST_PROP(RotationLaws, half_and_interleaved_agree_through_the_permutation_bit_for_bit, ()) {
  Case c = *any_case();
  const Tensor x = drawn(c);  // as half lies
  const std::vector<std::int64_t> at = any_positions(c, 63);
  c.spec.pairing = Pairing::half;
  const Rotary half = made(c.spec);
  c.spec.pairing = Pairing::interleaved;
  const Rotary interleaved = made(c.spec);
  c.spec.output_pairing = Pairing::half;
  const Rotary across = made(c.spec);
  const Tensor permuted = repaired(c, x, Pairing::half, Pairing::interleaved);
  on_every_target([&] {
    const Tensor wanted = rotated(half, x, view_of(at, c), c.place);
    RC_ASSERT(repaired(c, rotated(interleaved, permuted, view_of(at, c), c.place), Pairing::interleaved, Pairing::half) == wanted);
    RC_ASSERT(rotated(across, permuted, view_of(at, c), c.place) == wanted);
  });
}

/// Few positions, each many times, in any order: neither the row, the head, the neighbours nor the way a kernel got there may show.
RC_GTEST_PROP(RotationLaws, the_same_position_has_the_same_angle_in_every_batch_row_and_head, ()) {
  Case c = *any_case();
  const Rotary rotary = made(c.spec);
  std::vector<std::int64_t> at = any_positions(c, 63);
  const std::int64_t first = at[0];
  for (std::int64_t& position : at) {
    if (*rc::gen::arbitrary<bool>()) position = first + *rc::gen::inRange(0, 2);
  }
  Tensor x = drawn(c);
  const Tensor drawn_once = x;
  for_each_head(c.shape, [&](const Index& head) {
    for (std::int64_t d = 0; d < c.shape[3]; ++d) x.set_bits(channel(head, d), drawn_once.bits({0, 0, 0, d}));
  });
  on_every_target([&] {
    const Tensor y = rotated(rotary, x, view_of(at, c), c.place);
    const auto position_of = [&](const Index& head) { return at[static_cast<std::size_t>(head[0] * c.shape[1] + head[1])]; };
    for_each_head(c.shape, [&](const Index& one) {
      for_each_head(c.shape, [&](const Index& other) {
        if (position_of(one) != position_of(other)) return;
        for (std::int64_t d = 0; d < c.shape[3]; ++d) RC_ASSERT(y.bits(channel(one, d)) == y.bits(channel(other, d)));
      });
    });
  });
}

}  // namespace
}  // namespace phasor::laws

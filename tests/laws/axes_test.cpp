// SPDX-License-Identifier: Apache-2.0
// Laws of several axes: each axis composes, inverts and is relative for itself; nothing but the positions matters.
#include "laws/axes.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <vector>

#include "laws/tolerance.hpp"

namespace phasor::laws {
namespace {

PairValue pair_at(const AxesCase& c, const Tensor& x, const Index& head, std::int64_t pair) {
  return pair_of(x, head, channels_of(c, c.base.spec.pairing, pair));
}

std::vector<std::int64_t> sums(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> list = a;
  for (std::size_t i = 0; i < list.size(); ++i) list[i] += b[i];
  return list;
}

RC_GTEST_PROP(AxesLaws, rotate_by_a_then_b_is_rotate_by_a_plus_b_on_every_axis, ()) {
  const AxesCase c = *any_axes_case();
  const Rotary rotary = made(c.base.spec);
  const Tensor x = drawn(c.base);
  const std::vector<std::int64_t> a = any_places(c, 61);
  const std::vector<std::int64_t> b = any_places(c, 61);
  const std::vector<std::int64_t> sum = sums(a, b);
  const double error = rotations_error(c.base.dtype, 3);
  const long double amplitude = rotary.amplitude();
  on_every_target([&] {
    const Tensor in_two = rotated(rotary, rotated(rotary, x, view_of(a, c), c.base.place), view_of(b, c), c.base.place);
    const Tensor at_once = rotated(rotary, x, view_of(sum, c), c.base.place);
    for_each_pair(c.base, [&](const Index& head, std::int64_t pair) {
      const PairValue two = pair_at(c, in_two, head, pair);
      const PairValue one = pair_at(c, at_once, head, pair);
      const long double distance = PairValue{two.x - amplitude * one.x, two.y - amplitude * one.y}.norm();
      RC_ASSERT(distance <= error * amplitude * amplitude * pair_at(c, x, head, pair).norm());
    });
  });
}

RC_GTEST_PROP(AxesLaws, inverse_undoes_forward_across_pairings_too, ()) {
  AxesCase c = *any_axes_case();
  c.base.spec.output_pairing = *rc::gen::element(Pairing::half, Pairing::interleaved);
  const Rotary rotary = made(c.base.spec);
  const Tensor x = drawn(c.base);
  const std::vector<std::int64_t> at = any_places(c, 63);
  on_every_target([&] {
    const Tensor there = rotated(rotary, x, view_of(at, c), c.base.place);
    const Tensor back = rotated(rotary, there, view_of(at, c), c.base.place, Direction::inverse);
    for_each_pair(c.base, [&](const Index& head, std::int64_t pair) {
      const PairValue was = pair_at(c, x, head, pair);
      const PairValue is = pair_at(c, back, head, pair);
      const long double distance = PairValue{is.x - was.x, is.y - was.y}.norm();
      RC_ASSERT(distance <= inverse_error(c.base.dtype) * was.norm());
    });
  });
}

RC_GTEST_PROP(AxesLaws, the_norm_of_each_pair_is_kept_up_to_the_amplitude, ()) {
  const AxesCase c = *any_axes_case();
  const Rotary rotary = made(c.base.spec);
  const Tensor x = drawn(c.base);
  const std::vector<std::int64_t> at = any_places(c, 63);
  const double error = rotation_error(c.base.dtype) + summation_error(2);
  on_every_target([&] {
    const Tensor y = rotated(rotary, x, view_of(at, c), c.base.place);
    for_each_pair(c.base, [&](const Index& head, std::int64_t pair) {
      const long double wanted = rotary.amplitude() * pair_at(c, x, head, pair).norm();
      RC_ASSERT(std::fabs(pair_at(c, y, head, pair).norm() - wanted) <= error * wanted);
    });
  });
}

/// Equal numbers: of an axis at 0, and of whole, half and quarter turns, a sine or cosine is 0, whose sign the direction decides.
void check_same_values(const AxesCase& c, const Tensor& is, const Tensor& wanted) {
  for_each_head(c.base.shape, [&](const Index& head) {
    for (std::int64_t d = 0; d < c.base.shape[3]; ++d) RC_ASSERT(is[channel(head, d)] == wanted[channel(head, d)]);
  });
}

RC_GTEST_PROP(AxesLaws, transpose_is_the_rotation_by_the_opposite_positions, ()) {
  const AxesCase c = *any_axes_case();
  const Rotary rotary = made(c.base.spec);
  const Tensor x = drawn(c.base);
  const std::vector<std::int64_t> at = any_places(c, 63);
  std::vector<std::int64_t> opposite = at;
  for (std::int64_t& position : opposite) position = -position;
  on_every_target([&] {
    const Tensor transposed = rotated(rotary, x, view_of(at, c), c.base.place, Direction::transpose);
    const Tensor turned_back = rotated(rotary, x, view_of(opposite, c), c.base.place);
    check_same_values(c, transposed, turned_back);
  });
}

/// A shift of its own on every axis, the same for query and key, leaves every score of a pair alone.
RC_GTEST_PROP(AxesLaws, scores_depend_on_the_distance_along_each_axis_alone, ()) {
  const AxesCase c = *any_axes_case();
  const Rotary rotary = made(c.base.spec);
  const Tensor q = drawn(c.base);
  const Tensor k = drawn(c.base, 1);
  const std::vector<std::int64_t> m = any_places(c, 60);
  const std::vector<std::int64_t> n = any_places(c, 60);
  std::vector<std::int64_t> shift(m.size());
  const std::int64_t rows = c.base.shape[0] * c.base.shape[1];
  for (std::size_t i = 0; i < shift.size(); ++i) shift[i] = static_cast<std::int64_t>(i) % rows == 0 ? any_position(60) : shift[i - 1];
  const std::vector<std::int64_t> far_m = sums(m, shift);
  const std::vector<std::int64_t> far_n = sums(n, shift);
  const long double e = rotation_error(c.base.dtype);
  on_every_target([&] {
    const auto turned = [&](const Tensor& x, const std::vector<std::int64_t>& at) {
      return rotated(rotary, x, view_of(at, c), c.base.place);
    };
    const Tensor near_q = turned(q, m);
    const Tensor near_k = turned(k, n);
    const Tensor far_q = turned(q, far_m);
    const Tensor far_k = turned(k, far_n);
    for_each_pair(c.base, [&](const Index& head, std::int64_t pair) {
      const auto score = [&](const Tensor& a, const Tensor& b) {
        const PairValue x = pair_at(c, a, head, pair);
        const PairValue y = pair_at(c, b, head, pair);
        return x.x * y.x + x.y * y.y;
      };
      const long double amplitude = rotary.amplitude();
      const long double size = amplitude * amplitude * pair_at(c, q, head, pair).norm() * pair_at(c, k, head, pair).norm();
      RC_ASSERT(std::fabs(score(near_q, near_k) - score(far_q, far_k)) <= (2 * (2 * e + e * e) + summation_error(4)) * size);
    });
  });
}

RC_GTEST_PROP(AxesLaws, axes_that_agree_are_one_axis_bit_for_bit, ()) {
  AxesCase c = *any_ladder_case();
  c.base.spec.axes.ladder = AxisLadder::shared;
  const Rotary several = made(c.base.spec);
  c.base.spec.axes = {};
  const Rotary one = made(c.base.spec);
  const Tensor x = drawn(c.base);
  const std::vector<std::int64_t> at = any_positions(c.base, 63);
  std::vector<std::int64_t> all;
  for (std::int64_t a = 0; a < c.axes; ++a) all.insert(all.end(), at.begin(), at.end());
  on_every_target([&] {
    const Tensor wanted = rotated(one, x, view_of(at, c.base), c.base.place);
    RC_ASSERT(rotated(several, x, view_of(all, c), c.base.place) == wanted);
    RC_ASSERT(rotated(several, x, view_of(at, c.base), c.base.place) == wanted);
  });
}

RC_GTEST_PROP(AxesLaws, tokens_at_0_on_every_axis_stay_bit_for_bit, ()) {
  AxesCase c = *any_axes_case();
  if (std::holds_alternative<YarnScaling>(c.base.spec.scaling)) c.base.spec.scaling = Unscaled{};  // without an amplitude
  const Rotary rotary = made(c.base.spec);
  Tensor x(c.base.dtype, c.base.shape, c.base.strides);
  Draw draw(c.base.seed);
  for_each_head(c.base.shape, [&](const Index& head) {
    for (std::int64_t d = 0; d < c.base.shape[3]; ++d) x.set_bits(channel(head, d), draw.bits());
  });
  const std::vector<std::int64_t> at(static_cast<std::size_t>(c.axes * c.base.shape[0] * c.base.shape[1]), 0);
  on_every_target([&] { RC_ASSERT(rotated(rotary, x, view_of(at, c), c.base.place) == x); });
}

/// Neither the strides of the tensor, nor those of the positions, nor the tokens before and after may show.
RC_GTEST_PROP(AxesLaws, a_token_alone_is_turned_as_among_others_bit_for_bit, ()) {
  const AxesCase c = *any_axes_case();
  const Rotary rotary = made(c.base.spec);
  const Tensor x = drawn(c.base);
  const std::vector<std::int64_t> at = any_places(c, 63);
  const Positions all = view_of(at, c);
  on_every_target([&] {
    const Tensor together = rotated(rotary, x, all, c.base.place);
    Tensor alone(c.base.dtype, {1, 1, c.base.shape[2], c.base.shape[3]}, contiguous_strides({1, 1, c.base.shape[2], c.base.shape[3]}));
    for (std::int64_t row = 0; row < c.base.shape[0] * c.base.shape[1]; ++row) {
      const std::int64_t b = row / c.base.shape[1];
      const std::int64_t t = row % c.base.shape[1];
      const auto each = [&](auto f) {
        for (std::int64_t h = 0; h < c.base.shape[2]; ++h) {
          for (std::int64_t d = 0; d < c.base.shape[3]; ++d) f(Index{0, 0, h, d}, Index{b, t, h, d});
        }
      };
      each([&](const Index& to, const Index& from) { alone.set_bits(to, x.bits(from)); });
      Positions one = all;
      one.data = at.data() + b * c.base.shape[1] + t;
      one.shape = {c.axes, 1, 1};
      check_ok(rotary.apply(alone.view(), one));
      each([&](const Index& is, const Index& wanted) { RC_ASSERT(alone.bits(is) == together.bits(wanted)); });
    }
  });
}

/// Segments only say where the channels of a pair lie.
RC_GTEST_PROP(AxesLaws, segments_are_a_permutation_of_channels_bit_for_bit, ()) {
  AxesCase c = *any_axes_case();
  c.base.spec.pairing = Pairing::half;
  const Rotary segmented = made(c.base.spec);
  RotarySpec spec = c.base.spec;
  spec.segments = 1;
  spec.pairing = Pairing::interleaved;
  const Rotary plain = made(spec);
  const Tensor x = drawn(c.base);
  const std::vector<std::int64_t> at = any_places(c, 63);
  const auto permuted = [&](const Tensor& from, Pairing read, Pairing write) {
    Tensor to = from;
    for_each_pair(c.base, [&](const Index& head, std::int64_t pair) {
      const PairChannels r = channels_of(c, read, pair);
      const PairChannels w = channels_of(c, write, pair);
      to.set_bits(channel(head, w.x), from.bits(channel(head, r.x)));
      to.set_bits(channel(head, w.y), from.bits(channel(head, r.y)));
    });
    return to;
  };
  const Tensor neighbours = permuted(x, Pairing::half, Pairing::interleaved);
  on_every_target([&] {
    const Tensor wanted = permuted(rotated(plain, neighbours, view_of(at, c), c.base.place), Pairing::interleaved, Pairing::half);
    RC_ASSERT(rotated(segmented, x, view_of(at, c), c.base.place) == wanted);
  });
}

/// <R x, y> = <x, R^T y>, pair by pair, although per-channel frequencies are no rotation.
RC_GTEST_PROP(AxesLaws, the_transpose_of_per_channel_frequencies_is_their_adjoint, ()) {
  AxesCase c = *any_ladder_case();
  c.base.spec.pairing = Pairing::interleaved;
  c.base.spec.lanes = Lanes::per_channel_frequencies;
  const Rotary rotary = made(c.base.spec);
  const Tensor x = drawn(c.base);
  const Tensor y = drawn(c.base, 1);
  const std::vector<std::int64_t> at = any_places(c, 63);
  const long double e = rotation_error(c.base.dtype);
  on_every_target([&] {
    const Tensor forward = rotated(rotary, x, view_of(at, c), c.base.place);
    const Tensor back = rotated(rotary, y, view_of(at, c), c.base.place, Direction::transpose);
    for_each_pair(c.base, [&](const Index& head, std::int64_t pair) {
      const PairValue a = pair_at(c, x, head, pair);
      const PairValue b = pair_at(c, y, head, pair);
      const PairValue turned = pair_at(c, forward, head, pair);
      const PairValue adjoint = pair_at(c, back, head, pair);
      const long double difference = turned.x * b.x + turned.y * b.y - (a.x * adjoint.x + a.y * adjoint.y);
      // Each lane errs by its own angle's rounding, of at most the norm of the pair: twice sqrt(2) of a rotation's error on each side.
      RC_ASSERT(std::fabs(difference) <= (4 * std::sqrt(2.0L) * e + summation_error(4)) * rotary.amplitude() * a.norm() * b.norm());
    });
  });
}

}  // namespace
}  // namespace phasor::laws

// SPDX-License-Identifier: Apache-2.0
// Laws of the gradients of learned rotations: turned back together nothing changes, exchanged they change sign, heads add up, and
// frequencies and positions share what a phase gets.
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

TableLayout layout_of(const RotarySpec& spec) {
  return {.rotary_width = spec.rotary_width, .rotary_offset = spec.rotary_offset, .pairing = spec.pairing, .sense = spec.sense};
}

/// (B, T, heads, P) in float64.
Tensor gradient_by_phase(const Case& c, const Tensor& rotated, const Tensor& gradient, std::int64_t heads) {
  Tensor out(DType::f64, {c.shape[0], c.shape[1], heads, c.spec.rotary_width / 2});
  check_ok(phase_gradient(out.view(), rotated.view(), gradient.view(), layout_of(c.spec)));
  return out;
}

RC_GTEST_PROP(PhaseGradientLaws, what_was_rotated_and_its_gradient_give_what_the_rotated_and_its_gradient_give, ()) {
  const Case c = *any_case();
  const Rotary rotary = made(c.spec);
  const Tensor x = drawn(c);
  const Tensor g = drawn(c, 1);
  const std::vector<std::int64_t> list = any_positions(c, 40);
  const Tensor y = rotated(rotary, x, view_of(list, c), c.place);
  const Tensor back = rotated(rotary, g, view_of(list, c), c.place, Direction::transpose);
  const Tensor after = gradient_by_phase(c, y, g, c.shape[2]);
  const Tensor before = gradient_by_phase(c, x, back, c.shape[2]);
  for_each_pair(c, [&](const Index& head, std::int64_t pair) {
    const long double scale = static_cast<long double>(std::fabs(rotary.amplitude())) * pair_of(x, c.spec, head, pair).norm() *
                              pair_of(g, c.spec, head, pair).norm();
    const long double apart = std::fabs(static_cast<long double>(after[channel(head, pair)]) - before[channel(head, pair)]);
    RC_ASSERT(apart <= scale * static_cast<long double>(phase_gradient_error(c.dtype)));
  });
}

RC_GTEST_PROP(PhaseGradientLaws, exchanging_the_two_or_the_sense_changes_the_sign_alone, ()) {
  Case c = *any_case();
  const Tensor y = drawn(c);
  const Tensor g = drawn(c, 1);
  const Tensor one = gradient_by_phase(c, y, g, 1);
  const Tensor exchanged = gradient_by_phase(c, g, y, 1);
  c.spec.sense = c.spec.sense == Sense::clockwise ? Sense::counterclockwise : Sense::clockwise;
  const Tensor other_sense = gradient_by_phase(c, y, g, 1);
  for_each_head(one.shape(), [&](const Index& head) {
    for (std::int64_t pair = 0; pair < c.spec.rotary_width / 2; ++pair) {
      RC_ASSERT(exchanged[channel(head, pair)] == -one[channel(head, pair)]);
      RC_ASSERT(other_sense[channel(head, pair)] == -one[channel(head, pair)]);
    }
  });
}

RC_GTEST_PROP(PhaseGradientLaws, one_head_has_the_sum_of_all_heads_in_their_order, ()) {
  const Case c = *any_case();
  const Tensor y = drawn(c);
  const Tensor g = drawn(c, 1);
  const Tensor each = gradient_by_phase(c, y, g, c.shape[2]);
  const Tensor one = gradient_by_phase(c, y, g, 1);
  for_each_head(one.shape(), [&](const Index& token) {
    for (std::int64_t pair = 0; pair < c.spec.rotary_width / 2; ++pair) {
      double sum = 0;
      for (std::int64_t h = 0; h < c.shape[2]; ++h) sum += each[{token[0], token[1], h, pair}];
      RC_ASSERT(one[channel(token, pair)] == sum);
    }
  });
}

RC_GTEST_PROP(PhaseGradientLaws, the_pairing_does_not_matter, ()) {
  Case c = *any_case();
  c.spec.pairing = Pairing::half;
  const Tensor y = drawn(c);
  const Tensor g = drawn(c, 1);
  Tensor permuted[2] = {y, g};
  for_each_pair(c, [&](const Index& head, std::int64_t pair) {
    const PairChannels from = channels_of(c.spec, Pairing::half, pair);
    const PairChannels to = channels_of(c.spec, Pairing::interleaved, pair);
    permuted[0].set_bits(channel(head, to.x), y.bits(channel(head, from.x)));
    permuted[0].set_bits(channel(head, to.y), y.bits(channel(head, from.y)));
    permuted[1].set_bits(channel(head, to.x), g.bits(channel(head, from.x)));
    permuted[1].set_bits(channel(head, to.y), g.bits(channel(head, from.y)));
  });
  const Tensor half = gradient_by_phase(c, y, g, 1);
  c.spec.pairing = Pairing::interleaved;
  RC_ASSERT(gradient_by_phase(c, permuted[0], permuted[1], 1) == half);
}

/// The angle is a product of both: Euler's identity.
RC_GTEST_PROP(PhaseGradientLaws, frequencies_times_their_gradients_are_positions_times_theirs, ()) {
  const Case c = *any_case();
  const Rotary rotary = made(c.spec);
  const std::vector<std::int64_t> list = any_positions(c, 40);
  const Tensor by_phase = gradient_by_phase(c, drawn(c), drawn(c, 1), 1);
  const ConstTensorView phase = by_phase.view();
  std::vector<double> by_frequency(rotary.frequencies().size());
  std::vector<double> by_position(list.size());
  check_ok(rotary.frequency_gradient(by_frequency, phase, view_of(list, c)));
  check_ok(rotary.position_gradient(positions(by_position.data(), c.shape[0], c.shape[1]), phase));
  long double of_frequencies = 0;
  long double of_positions = 0;
  long double scale = 0;
  for (std::size_t i = 0; i < by_frequency.size(); ++i) {
    of_frequencies += static_cast<long double>(rotary.frequencies()[i]) * by_frequency[i];
    for (std::size_t token = 0; token < list.size(); ++token) {
      const Index at = {static_cast<std::int64_t>(token) / c.shape[1], static_cast<std::int64_t>(token) % c.shape[1], 0,
                        static_cast<std::int64_t>(i)};
      scale += std::fabs(static_cast<long double>(rotary.frequencies()[i]) * static_cast<long double>(list[token]) * by_phase[at]);
    }
  }
  for (std::size_t token = 0; token < list.size(); ++token) {
    of_positions += static_cast<long double>(list[token]) * by_position[token];
  }
  const auto terms = static_cast<std::int64_t>(by_frequency.size() + list.size());
  RC_ASSERT(std::fabs(of_frequencies - of_positions) <= scale * static_cast<long double>(chained_error(terms)));
}

}  // namespace
}  // namespace phasor::laws

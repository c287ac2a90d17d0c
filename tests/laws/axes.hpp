// SPDX-License-Identifier: Apache-2.0
// Random cases of several axes: every order and ladder, segments, turns, and directions; positions of (axes, B, T).
#pragma once

#include "laws/cases.hpp"

namespace phasor::laws {

/// A case and how many axes its positions have.
struct AxesCase {
  Case base;
  std::int64_t axes;
};

inline void showValue(const AxesCase& c, std::ostream& out) {  // RapidCheck's name
  showValue(c.base, out);
  out << ", " << c.axes << " axes, order " << static_cast<int>(c.base.spec.axes.order) << ", ladder "
      << static_cast<int>(c.base.spec.axes.ladder) << ", segments " << c.base.spec.segments << ", unit "
      << static_cast<int>(c.base.spec.unit);
}

/// n sections of at least 1 that sum to `pairs`; needs pairs >= n.
inline std::vector<std::int64_t> any_sections(std::int64_t n, std::int64_t pairs) {
  std::vector<std::int64_t> sections(static_cast<std::size_t>(n), 1);
  for (std::int64_t left = pairs - n; left > 0;) {
    const std::int64_t some = *rc::gen::inRange<std::int64_t>(1, left + 1);
    sections[*rc::gen::inRange<std::size_t>(0, sections.size())] += some;
    left -= some;
  }
  return sections;
}

inline Axes any_axes(std::int64_t n, std::int64_t pairs) {
  Axes axes{.sections = any_sections(n, pairs)};
  axes.order = *rc::gen::element(AxisOrder::chunked, AxisOrder::interleaved, AxisOrder::given);
  if (n == 3 && axes.sections[1] == axes.sections[2]) axes.order = AxisOrder::alternating;
  if (axes.order == AxisOrder::given) {
    axes.sections.clear();
    for (std::int64_t i = 0; i < pairs; ++i) {
      // The last pair names the last axis, so that there are n.
      axes.axis_of_pair.push_back(static_cast<std::uint8_t>(i == pairs - 1 ? n - 1 : *rc::gen::inRange<std::int64_t>(0, n)));
    }
  }
  axes.ladder = *rc::gen::element(AxisLadder::shared, AxisLadder::own);
  if (n > 1 && pairs % n == 0 && *rc::gen::element(true, false)) {
    axes = {.sections = std::vector<std::int64_t>(static_cast<std::size_t>(n), pairs / n), .ladder = AxisLadder::dealt};
  }
  return axes;
}

/// A scaling that any ladder takes.
inline Scaling any_ladder_scaling() {
  switch (*rc::gen::element(0, 1, 2, 3, 4)) {
    case 1:
      return LinearScaling{.factor = any_between(1, 40)};
    case 2:
      return Llama3Scaling{.factor = any_between(1, 40)};
    case 3:
      return ProportionalScaling{.factor = any_between(1, 4), .share = any_between(0, 1)};
    case 4:
      return YarnScaling{.factor = any_between(1, 40), .original_length = 4096};
    default:
      return Unscaled{};
  }
}

inline void turn_along_directions(AxesCase& c) {
  RotarySpec& spec = c.base.spec;
  const std::int64_t heads = *rc::gen::element<std::int64_t>(1, c.base.shape[2]);
  spec.axes = {};
  spec.scaling = GivenDirections{c.axes, heads, any_frequencies(c.axes * heads * spec.rotary_width / 2)};
}

/// Axes with ladders.
inline AxesCase ladder_case() {
  AxesCase c{*any_case(), *rc::gen::element<std::int64_t>(1, 2, 3, 4)};
  RotarySpec& spec = c.base.spec;
  const std::int64_t pairs = spec.rotary_width / 2;
  c.axes = std::min(c.axes, pairs);
  spec.axes = any_axes(c.axes, pairs);
  spec.scaling = any_ladder_scaling();
  std::vector<std::int64_t> divisors;
  for (std::int64_t s = 1; s <= pairs; ++s) {
    if (pairs % s == 0) divisors.push_back(s);
  }
  spec.segments = *rc::gen::elementOf(divisors);
  return c;
}

inline void use_turns_sometimes(RotarySpec& spec) {
  const bool by_wavelength = std::holds_alternative<Llama3Scaling>(spec.scaling) || std::holds_alternative<YarnScaling>(spec.scaling);
  if (!by_wavelength && *rc::gen::element(false, true)) spec.unit = FrequencyUnit::turns;
}

inline rc::Gen<AxesCase> any_ladder_case() {
  return rc::gen::exec([] {
    AxesCase c = ladder_case();
    use_turns_sometimes(c.base.spec);
    return c;
  });
}

/// Ladders, and one time in three directions.
inline rc::Gen<AxesCase> any_axes_case() {
  return rc::gen::exec([] {
    AxesCase c = ladder_case();
    if (*rc::gen::element(true, false, false)) turn_along_directions(c);
    use_turns_sometimes(c.base.spec);
    return c;
  });
}

/// (axes, B, T); along T consecutive, at rest or anywhere, each axis for itself.
inline std::vector<std::int64_t> any_places(const AxesCase& c, int bits) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(c.axes * c.base.shape[0] * c.base.shape[1]));
  int step = 2;  // 2: anywhere
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool first = static_cast<std::int64_t>(i) % c.base.shape[1] == 0;
    if (first) step = *rc::gen::element(0, 1, 2);
    list[i] = first || step == 2 ? any_position(bits) : list[i - 1] + step;
  }
  return list;
}

template <class P>
Positions view_of(const std::vector<P>& list, const AxesCase& c) {
  return positions(list.data(), c.axes, c.base.shape[0], c.base.shape[1]);
}

/// The two channels of a pair: neighbours, or half a segment apart.
inline PairChannels channels_of(const AxesCase& c, Pairing pairing, std::int64_t pair) {
  const RotarySpec& spec = c.base.spec;
  const std::int64_t first = spec.rotary_offset;
  if (pairing == Pairing::interleaved) return {first + 2 * pair, first + 2 * pair + 1};
  const std::int64_t in_segment = spec.rotary_width / 2 / spec.segments;
  const std::int64_t x = first + 2 * (pair / in_segment) * in_segment + pair % in_segment;
  return {x, x + in_segment};
}

}  // namespace phasor::laws

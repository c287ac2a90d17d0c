// SPDX-License-Identifier: Apache-2.0
// The reference of sinusoidal encodings: channel by channel from the published formulas, on any number type. Shares no code with src/.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "phasor/additive.hpp"
#include "tensor.hpp"
#include "wide.hpp"

namespace phasor::test {

inline long double power(long double a, long double b) { return wide_pow(a, b); }

/// What one channel holds.
struct ChannelRole {
  enum class Kind : std::uint8_t { sin, cos, zero };
  Kind kind = Kind::zero;
  std::int64_t pair = 0;  // of its axis
  std::int64_t axis = 0;
  std::int64_t axis_width = 0;
};

inline ChannelRole role_of(const SinusoidalSpec& spec, std::int64_t channel) {
  using Kind = ChannelRole::Kind;
  std::vector<std::int64_t> widths = spec.axis_widths;
  if (widths.empty()) widths = {spec.width};
  std::int64_t axis = 0;
  while (channel >= widths[static_cast<std::size_t>(axis)]) channel -= widths[static_cast<std::size_t>(axis++)];
  const std::int64_t width = widths[static_cast<std::size_t>(axis)];
  if (width % 2 == 1 && spec.odd == OddChannel::zero && channel == width - 1) return {Kind::zero, 0, axis, width};
  if (spec.order == SinusoidOrder::interleaved) return {channel % 2 == 0 ? Kind::sin : Kind::cos, channel / 2, axis, width};
  const std::int64_t firsts = spec.odd == OddChannel::zero ? width / 2 : (width + 1) / 2;
  const bool first = channel < firsts;
  const bool sin = first == (spec.order == SinusoidOrder::sin_cos);
  return {sin ? Kind::sin : Kind::cos, first ? channel : channel - firsts, axis, width};
}

/// Radians a position of a channel's pair. `pi` in the number's own precision.
template <class Number>
Number frequency_of(const SinusoidalSpec& spec, const ChannelRole& role, const Number& pi) {
  const auto number = [](double x) { return Number(x); };
  const std::int64_t w = role.axis_width;
  const double pairs = static_cast<double>(spec.odd == OddChannel::zero ? w / 2 : (w + 1) / 2);
  const double i = static_cast<double>(role.pair);
  const double share = pairs > 1 ? pairs - 1 : 1;
  Number frequency = number(1);
  if (const auto* g = std::get_if<GeometricLadder>(&spec.ladder)) {
    const double half = spec.odd == OddChannel::zero ? pairs : static_cast<double>(w) / 2;
    if (role.pair > 0) frequency = power(number(g->base), number(-i) / number(half - g->shift));
  } else if (const auto* m = std::get_if<LogSpacedLadder>(&spec.ladder)) {
    frequency = number(m->fastest) * power(number(m->slowest) / number(m->fastest), number(i) / number(share));
  } else if (const auto* b = std::get_if<BandLadder>(&spec.ladder)) {
    const Number last = number(b->highest) / number(2);
    frequency = b->spacing == BandLadder::Spacing::even ? number(1) + (last - number(1)) * number(i) / number(share)
                                                        : power(last, number(i) / number(share));
    frequency = frequency * pi;
  } else {
    std::int64_t before = 0;
    for (std::int64_t a = 0; a < role.axis; ++a) before += spec.axis_widths[static_cast<std::size_t>(a)] / 2;
    frequency = number(std::get<GivenLadder>(spec.ladder).frequencies[static_cast<std::size_t>(before + role.pair)]);
  }
  if (spec.unit == FrequencyUnit::turns) frequency = frequency * number(2) * pi;
  return frequency * number(spec.position_scale);
}

struct NamedSpec {
  std::string name;
  SinusoidalSpec spec;
};

/// Every variant of the catalogue, with awkward widths.
inline std::vector<NamedSpec> variants() {
  using Order = SinusoidOrder;
  return {
      {"paper", {.width = 38}},
      {"paper, odd width", {.width = 7, .odd = OddChannel::unpaired}},
      {"tensor2tensor and fairseq", {.width = 27, .ladder = GeometricLadder{.shift = 1}, .order = Order::sin_cos}},
      {"fairseq with padding", {.width = 12, .ladder = GeometricLadder{.shift = 1}, .order = Order::sin_cos, .zero_position = 1}},
      {"RoFormer", {.width = 34, .order = Order::sin_cos}},
      {"RoFormer, odd width", {.width = 9, .order = Order::sin_cos, .odd = OddChannel::unpaired}},
      {"timestep", {.width = 22, .ladder = GeometricLadder{.shift = 0.5}, .order = Order::cos_sin, .position_scale = 1000}},
      {"timestep, odd width", {.width = 5, .order = Order::cos_sin, .odd = OddChannel::unpaired}},
      {"MAE 2-D", {.width = 36, .order = Order::sin_cos, .axis_widths = {18, 18}}},
      {"DETR 2-D", {.width = 28, .axis_widths = {14, 14}, .unit = FrequencyUnit::turns}},
      {"video 3-D", {.width = 41, .order = Order::sin_cos, .axis_widths = {9, 16, 16}}},
      {"scaled", {.width = 20, .order = Order::sin_cos, .amplitude = 0.22360679774997896}},
      {"negative scale", {.width = 20, .amplitude = -1.7}},
      {"MLX", {.width = 40, .ladder = LogSpacedLadder{}, .order = Order::cos_sin, .amplitude = 0.22360679774997896}},
      {"MLX, full turns", {.width = 10, .ladder = LogSpacedLadder{2, 1e-3}, .order = Order::sin_cos, .unit = FrequencyUnit::turns}},
      {"Fourier, even bands", {.width = 24, .ladder = BandLadder{32}, .order = Order::sin_cos, .axis_widths = {12, 12}}},
      {"Fourier, powers of two", {.width = 20, .ladder = BandLadder{1024, BandLadder::Spacing::ratio}, .order = Order::sin_cos}},
      {"given", {.width = 8, .ladder = GivenLadder{{1.5, 0, -0.25, 0}}}},
      {"one pair", {.width = 2, .ladder = GeometricLadder{.shift = 1}}},
      {"one channel", {.width = 1}},
  };
}

}  // namespace phasor::test

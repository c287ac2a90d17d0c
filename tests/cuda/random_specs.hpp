// SPDX-License-Identifier: Apache-2.0
// Random rotary specs made from a seed: every scaling, pairing, number of axes, segments, lanes and numerics profile.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "phasor/rotary.hpp"

namespace phasor::test {

using std::int64_t;
using std::uint64_t;

/// splitmix64, with a few ways to draw.
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
  }
  int64_t below(int64_t end) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(end)); }
  int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }
  bool one_in(int64_t n) { return below(n) == 0; }
  double real() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  template <class T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + below(static_cast<int64_t>(list.size())));
  }

 private:
  uint64_t state_;
};

inline std::vector<double> numbers(Draw& draw, int64_t count, double least, double most) {
  std::vector<double> list(static_cast<std::size_t>(count));
  for (double& x : list) x = least + (most - least) * draw.real();
  return list;
}

inline Scaling any_scaling(Draw& draw, int64_t pairs) {
  switch (draw.below(12)) {
    case 0:
      return LinearScaling{.factor = 1 + 7 * draw.real()};
    case 1:
      return NtkScaling{.alpha = 1 + 7 * draw.real()};
    case 2:
      return YarnScaling{.factor = 1 + 31 * draw.real(), .original_length = 4096};
    case 3:
      return Llama3Scaling{.factor = 8};
    case 4:
      return LongRopeScaling{.short_factors = numbers(draw, pairs, 1, 4),
                             .long_factors = numbers(draw, pairs, 1, 64),
                             .original_length = 4096,
                             .factor = 32,
                             .choice = LongRopeChoice::long_factors};
    case 5:
      return ProportionalScaling{.factor = 4, .share = draw.real()};
    case 6:
      return GivenFrequencies{.frequencies = numbers(draw, pairs, -2, 2), .amplitude = draw.of({1.0, 0.5, 1.25})};
    case 7:
      return GivenFactors{.factors = numbers(draw, pairs, 0.5, 8), .amplitude = draw.of({1.0, 1.1})};
    default:
      return Unscaled{};
  }
}

inline void add_axes(Draw& draw, RotarySpec& spec, int64_t pairs) {
  const int64_t axes = draw.between(2, 3);
  if (pairs < axes || pairs % axes != 0 || !draw.one_in(3)) return;
  if (draw.one_in(4)) {
    const int64_t heads = draw.of<int64_t>({1, 2});
    spec.scaling = GivenDirections{.axes = axes, .heads = heads, .frequencies = numbers(draw, axes * heads * pairs, -1, 1)};
    return;
  }
  spec.axes.sections.assign(static_cast<std::size_t>(axes), pairs / axes);
  spec.axes.order = draw.of({AxisOrder::chunked, AxisOrder::interleaved});
  spec.axes.ladder = draw.of({AxisLadder::shared, AxisLadder::own, AxisLadder::dealt});
  if (spec.axes.ladder != AxisLadder::shared) spec.scaling = Unscaled{};
}

/// As models have it: whole vectors, one pairing, exact.
inline RotarySpec usual_spec(Draw& draw) {
  RotarySpec spec{.head_dim = draw.of<int64_t>({32, 64, 96, 128, 192, 224, 256})};
  if (draw.one_in(4)) spec.rotary_width = spec.head_dim / 2;
  const int64_t pairs = (spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width) / 2;
  spec.scaling = any_scaling(draw, pairs);
  spec.pairing = draw.of({Pairing::half, Pairing::interleaved});
  spec.sense = draw.of({Sense::counterclockwise, Sense::clockwise});
  add_axes(draw, spec, pairs);
  if (draw.one_in(5)) spec.segments = 2;
  return spec;
}

inline RotarySpec any_spec(Draw& draw) {
  if (draw.one_in(3)) return usual_spec(draw);
  RotarySpec spec{.head_dim = draw.of<int64_t>({2, 6, 8, 16, 24, 32, 48, 64, 80, 96, 128, 130, 256, 512})};
  if (draw.one_in(3)) {
    spec.rotary_width = 2 * draw.between(1, spec.head_dim / 2);
    spec.rotary_offset = draw.of<int64_t>({0, spec.head_dim - spec.rotary_width, (spec.head_dim - spec.rotary_width) / 2});
  }
  const int64_t pairs = (spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width) / 2;
  spec.base = draw.of({10000.0, 500000.0, 100.0, 1e6});
  spec.scaling = any_scaling(draw, pairs);
  spec.pairing = draw.of({Pairing::half, Pairing::interleaved});
  if (draw.one_in(4)) spec.output_pairing = draw.of({Pairing::half, Pairing::interleaved});
  spec.sense = draw.of({Sense::counterclockwise, Sense::clockwise});
  if (draw.one_in(4)) spec.numerics = draw.of({Numerics::hf, Numerics::hf_float32, Numerics::vllm, Numerics::ggml});
  add_axes(draw, spec, pairs);
  if (pairs % 2 == 0 && draw.one_in(5)) spec.segments = 2;
  if (draw.one_in(8)) {
    spec.lanes = Lanes::per_channel_frequencies;
    spec.pairing = Pairing::interleaved;
    spec.output_pairing = std::nullopt;
  }
  if (draw.one_in(8)) spec.unit = FrequencyUnit::turns;
  return spec;
}

/// A spec that one call may have beside the other: of another base and scaling, sometimes of other axes.
inline RotarySpec beside(Draw& draw, const RotarySpec& first) {
  RotarySpec spec = first;
  spec.base = draw.of({10000.0, 500000.0, 100.0, 1e6});
  const int64_t pairs = (spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width) / 2;
  if (auto* directions = std::get_if<GivenDirections>(&spec.scaling)) {
    directions->frequencies = numbers(draw, directions->axes * directions->heads * pairs, -1, 1);
  } else if (spec.axes.ladder == AxisLadder::shared) {
    spec.scaling = any_scaling(draw, pairs);
    if (draw.one_in(4)) spec.axes = {};
  }
  return spec;
}

}  // namespace phasor::test

// SPDX-License-Identifier: Apache-2.0
// A small learned rotary layer in float64: queries and keys of other head counts, a linear loss of both, and its gradients by the library.
#pragma once

#include <numeric>

#include "ops/rotary/rotary_call.hpp"

namespace phasor::test {

struct LearnedLayer {
  const char* name;
  RotarySpec spec;
  std::int64_t axes;  // of the spec
  std::int64_t q_heads;
  std::int64_t k_heads;
  std::int64_t given_axes;  // of the positions
  std::int64_t given_batch;
  std::int64_t out_heads;  // of the phase gradient
  static constexpr std::int64_t batch = 2;
  static constexpr std::int64_t tokens = 5;

  std::int64_t pairs() const { return spec.rotary_width / 2; }
  /// The list that is learned, in the spec's unit.
  static std::vector<double>& learned(RotarySpec& spec) {
    if (auto* directions = std::get_if<GivenDirections>(&spec.scaling)) return directions->frequencies;
    return std::get<GivenFrequencies>(spec.scaling).frequencies;
  }
  TableLayout layout() const {
    return {.rotary_width = spec.rotary_width,
            .rotary_offset = spec.rotary_offset,
            .pairing = spec.pairing,
            .output_pairing = spec.output_pairing,
            .sense = spec.sense,
            .segments = spec.segments};
  }
  Positions where(const std::vector<double>& at) const { return positions(at.data(), given_axes, given_batch, tokens); }
};

struct Operand {
  Tensor<double> x;
  Tensor<double> gradient;  // dL/dy
};

inline Operand operand_of(const LearnedLayer& layer, std::int64_t heads, std::uint64_t seed) {
  const Extents shape = {LearnedLayer::batch, LearnedLayer::tokens, heads, layer.spec.head_dim};
  Operand operand = {Tensor<double>(shape, seed), Tensor<double>(shape, seed + 1)};
  operand.x.with_numbers(0, shape[3], seed + 2);
  operand.gradient.with_numbers(0, shape[3], seed + 3);
  return operand;
}
inline std::vector<Operand> operands_of(const LearnedLayer& layer) {
  return {operand_of(layer, layer.q_heads, 100), operand_of(layer, layer.k_heads, 200)};
}

inline Tensor<double> rotated(const RotarySpec& spec, const Positions& where, const Tensor<double>& x) {
  Tensor<double> y = x;
  const Status status = make_rotary(spec).apply(y.view(), where);
  EXPECT_TRUE(status.ok()) << status.message();
  return y;
}

/// Sum over queries and keys of gradient times what the rotation gives.
inline long double loss(const LearnedLayer& layer, const RotarySpec& spec, const std::vector<double>& at) {
  long double sum = 0;
  for (const Operand& operand : operands_of(layer)) {
    const Tensor<double> y = rotated(spec, layer.where(at), operand.x);
    y.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
      for (std::int64_t d = 0; d < spec.head_dim; ++d) {
        sum += static_cast<long double>(operand.gradient.at(b, t, h, d)) * static_cast<long double>(y.at(b, t, h, d));
      }
    });
  }
  return sum;
}

/// The sum of |gradient| |y| over pairs: what errors of the loss and of its derivatives are relative to.
inline double loss_scale(const LearnedLayer& layer) {
  double scale = 0;
  for (const Operand& operand : operands_of(layer)) {
    operand.x.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
      double x = 0;
      double g = 0;
      for (std::int64_t d = 0; d < layer.spec.head_dim; ++d) {
        x += operand.x.at(b, t, h, d) * operand.x.at(b, t, h, d);
        g += operand.gradient.at(b, t, h, d) * operand.gradient.at(b, t, h, d);
      }
      scale += make_rotary(layer.spec).amplitude() * std::sqrt(x * g);
    });
  }
  return scale;
}

/// (B, T, out_heads, P), queries and keys into one.
inline std::vector<double> phase_gradient_of(const LearnedLayer& layer, const std::vector<double>& at) {
  const Extents shape = {LearnedLayer::batch, LearnedLayer::tokens, layer.out_heads, layer.pairs()};
  std::vector<double> out(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]), std::nan(""));
  Accumulate accumulate = Accumulate::replace;
  for (Operand& operand : operands_of(layer)) {
    Tensor<double> y = rotated(layer.spec, layer.where(at), operand.x);
    const Status status =
        phase_gradient(view(out.data(), shape), y.view(), operand.gradient.view(), layer.layout(), {.accumulate = accumulate});
    EXPECT_TRUE(status.ok()) << status.message();
    accumulate = Accumulate::add;
  }
  return out;
}

inline ConstTensorView phase_view(const LearnedLayer& layer, const std::vector<double>& gradient) {
  return view(gradient.data(), {LearnedLayer::batch, LearnedLayer::tokens, layer.out_heads, layer.pairs()});
}

inline std::vector<double> any_frequencies(std::int64_t count) {
  Random random(55);
  std::vector<double> list(static_cast<std::size_t>(count));
  for (double& f : list) f = 0.25 * static_cast<double>(random.number());  // within 1
  list[1] = 0;                                                             // a pair that rests has a gradient all the same
  return list;
}

/// Positions within 4, not whole, and one at 0, where pairs are left alone.
inline std::vector<double> any_positions(const LearnedLayer& layer) {
  Random random(56);
  std::vector<double> list(static_cast<std::size_t>(layer.given_axes * layer.given_batch * LearnedLayer::tokens));
  for (double& p : list) p = static_cast<double>(random.number());
  list[2] = 0;
  return list;
}

/// Every kind of learned rotation: one ladder, several axes, directions of all heads and of each, and the ways positions are shared.
inline std::vector<LearnedLayer> learned_layers() {
  const RotarySpec one = {.head_dim = 15, .rotary_width = 12, .rotary_offset = 2, .scaling = GivenFrequencies{any_frequencies(6), 1.25}};
  RotarySpec clockwise = one;
  clockwise.sense = Sense::clockwise;
  clockwise.pairing = Pairing::interleaved;
  clockwise.output_pairing = Pairing::half;
  clockwise.segments = 3;
  RotarySpec turns = one;
  turns.unit = FrequencyUnit::turns;
  RotarySpec sections = one;
  sections.axes = {.sections = {3, 1, 2}};
  RotarySpec dealt = sections;
  dealt.axes = {.order = AxisOrder::given, .axis_of_pair = {1, 0, 1, 1, 0, 0}};
  RotarySpec mixed = one;
  mixed.scaling = GivenDirections{2, 1, any_frequencies(12)};
  RotarySpec mixed_heads = clockwise;
  mixed_heads.unit = FrequencyUnit::turns;
  mixed_heads.scaling = GivenDirections{3, 3, any_frequencies(54)};
  return {
      {"one ladder", one, 1, 6, 2, 1, 2, 1},
      {"one ladder, one gradient per head", one, 1, 3, 3, 1, 2, 3},
      {"clockwise segments, shared positions", clockwise, 1, 3, 1, 1, 1, 1},
      {"turns", turns, 1, 1, 1, 1, 2, 1},
      {"three sections", sections, 3, 3, 1, 3, 2, 1},
      {"three sections of one position", sections, 3, 3, 1, 1, 1, 1},
      {"pairs dealt to two axes", dealt, 2, 2, 2, 2, 1, 2},
      {"directions", mixed, 2, 3, 1, 2, 2, 1},
      {"directions of one position", mixed, 2, 3, 1, 1, 2, 1},
      {"directions of heads, in turns", mixed_heads, 3, 3, 3, 3, 2, 3},
  };
}

}  // namespace phasor::test

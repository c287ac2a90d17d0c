// SPDX-License-Identifier: Apache-2.0
// A bias by distance in a tile: from a vector of values that the launch has made, or, where positions are the caller's, by the formula.
#pragma once

#include "cuda/attention/tile.hpp"
#include "plan/bias/at_distance.hpp"
#include "plan/bias/mlp_layer.hpp"

namespace phasor::cuda::attention {

/// ALiBi by the key's position is as if every query stood at 0.
PHASOR_HD inline int64_t bias_distance(const plan::BiasSource& bias, int64_t query, int64_t key) {
  const bool by_key = bias.scheme == plan::BiasSource::Scheme::alibi && bias.form == AlibiForm::key_position;
  return (by_key ? 0 : query) - key;
}

/// Layers of a perceptron, at most.
constexpr int kMostLayers = 4;

/// What unit `o` of layer `l` sums. Units of the layer before are computed where they are read, again for each unit: that takes no memory,
/// which threads do not have, and perceptrons of biases are small.
template <int kLayer>
PHASOR_HD inline double unit_at(const plan::MlpSource& mlp, int64_t o, const plan::MlpInputs& in) {
  plan::MlpLayer layer = plan::first_layer(mlp);
  for (int l = 0; l < kLayer; ++l) layer = plan::next_layer(mlp, layer, l);
  if constexpr (kLayer == 0) {
    return plan::unit_sum(mlp, layer, o, in.values);
  } else {
    double sum = mlp.parameters[layer.bias + o];
    for (int64_t i = 0; i < layer.in; ++i) {
      sum += mlp.parameters[layer.weights + o * layer.in + i] * plan::activate(mlp.activation, unit_at<kLayer - 1>(mlp, i, in));
    }
    return sum;
  }
}

/// What a perceptron gives a head.
PHASOR_HD inline double perceptron_at(const plan::BiasSource& bias, int64_t head, const plan::MlpInputs& in) {
  switch (plan::layer_count(bias.mlp)) {
    case 1:
      return plan::perceptron_value(bias, unit_at<0>(bias.mlp, head, in));
    case 2:
      return plan::perceptron_value(bias, unit_at<1>(bias.mlp, head, in));
    case 3:
      return plan::perceptron_value(bias, unit_at<2>(bias.mlp, head, in));
    default:
      return plan::perceptron_value(bias, unit_at<kMostLayers - 1>(bias.mlp, head, in));
  }
}

/// FIRE's curve: its numbers may come with the call.
PHASOR_HD inline plan::FireCurve curve_of(const BiasWork& term) {
  plan::FireCurve curve = term.bias.fire;
  if (term.numbers != nullptr && term.bias.scheme == plan::BiasSource::Scheme::fire) {
    curve.c = term.numbers[term.parameter_count - 2];
    curve.length = term.numbers[term.parameter_count - 1];
  }
  return curve;
}

/// ALiBi and tables: kernels whose registers are full have these in line, and call nothing.
PHASOR_HD inline bool has_short_formula(const plan::BiasSource& bias) {
  return bias.scheme == plan::BiasSource::Scheme::alibi || bias.scheme == plan::BiasSource::Scheme::table;
}
PHASOR_HD inline double short_formula(const BiasWork& term, int64_t head, int64_t query, int64_t key) {
  const plan::BiasSource& bias = term.bias;
  const int64_t distance = bias_distance(bias, query, key);
  const int64_t of = term.first_head + head;
  if (bias.scheme == plan::BiasSource::Scheme::alibi) return plan::alibi_value(bias, of, distance);
  const int64_t row = plan::row_of(bias.row, distance);
  return row < 0 || bias.table == nullptr ? 0 : bias.table[of * bias.rows + row];
}

/// Out of line: it is long, and of many schemes.
PHASOR_HD PHASOR_OUT_OF_LINE inline double bias_by_formula(const BiasWork& term, int64_t head, int64_t query, int64_t key) {
  using Scheme = plan::BiasSource::Scheme;
  const plan::BiasSource& bias = term.bias;
  if (has_short_formula(bias)) return short_formula(term, head, query, key);
  const int64_t distance = bias_distance(bias, query, key);
  const int64_t of = term.first_head + head;
  if (bias.scheme == Scheme::kerple) return plan::kerple_value(bias, of, distance);
  if (bias.scheme == Scheme::sandwich) return plan::sandwich_value(plan::sandwich_sum(bias, distance), of);
  if (bias.scheme != Scheme::fire) return perceptron_at(bias, of, plan::mlp_inputs(bias, distance));
  const plan::FireCurve curve = curve_of(term);
  return perceptron_at(bias, of, {{plan::fire_psi(curve, distance) / plan::fire_scale(curve, query).divisor, 0}});
}

template <class T>
PHASOR_HD inline T diagonal_at(const BiasWork& term, int64_t head, int64_t query, int64_t key) {
  const int64_t at = bias_distance(term.bias, query, key) - term.first_distance;
  return static_cast<const T*>(term.diagonal)[head * term.distances + at];
}
template <class T>
PHASOR_HD inline T bias_at(const BiasWork& term, int64_t head, int64_t query, int64_t key) {
  return term.diagonal == nullptr ? static_cast<T>(bias_by_formula(term, head, query, key)) : diagonal_at<T>(term, head, query, key);
}
template <class T>
PHASOR_HD inline T gate_at(const BiasWork& term, int64_t batch, int64_t query, int64_t head) {
  return term.gate.data == nullptr ? T{1} : element_at<T>(term.gate, batch, query, head, 0);
}

template <class T, class Block>
PHASOR_HD inline void add_bias(Block& block, const BiasWork& term, const ScoreTile& tile, Room<T>& room) {
  each_score(block, tile, [&](int i, int j) {
    const T gate = gate_at<T>(term, tile.queries.sequence.batch, tile.queries.first + i, tile.head);
    room.scores[i * kScoreRow + j] += gate * bias_at<T>(term, tile.head, room.query_positions[i], room.key_positions[j]);
  });
}

/// Item n of (heads, distances). Sandwich's sum is long, and one for all heads: items of the first head make all of them.
template <class T>
PHASOR_HD inline void fill_diagonal(const BiasWork& term, int64_t heads, int64_t n) {
  const int64_t distance = term.first_distance + n % term.distances;
  if (term.bias.scheme == plan::BiasSource::Scheme::sandwich) {
    if (n >= term.distances) return;
    const math::DoubleDouble sum = plan::sandwich_sum(term.bias, distance);
    for (int64_t head = 0; head < heads; ++head) {
      static_cast<T*>(term.diagonal)[head * term.distances + n] = static_cast<T>(plan::sandwich_value(sum, term.first_head + head));
    }
    return;
  }
  static_cast<T*>(term.diagonal)[n] = static_cast<T>(bias_by_formula(term, n / term.distances, 0, -distance));
}

/// Number n of the parameters that come with a call, in float64; slopes as their spec rounds them.
PHASOR_HD inline void widen_parameter(const BiasWork& term, int64_t n) {
  double x = job::load_element(term.parameters.data, term.parameters.dtype, n * term.parameters.strides[3]);
  if (term.bias.scheme == plan::BiasSource::Scheme::alibi) x = plan::rounded_slope(x, term.bias.rounding);
  term.numbers[n] = x;
}

}  // namespace phasor::cuda::attention

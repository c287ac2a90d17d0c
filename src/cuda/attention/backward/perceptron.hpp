// SPDX-License-Identifier: Apache-2.0
// The gradient of a perceptron's parameters where one value per distance is not all there is: FIRE beyond its length or with numbers that
// come with the call, positions that are the caller's. Every score goes through the perceptron and back, some of them together; a thread
// has a parameter.
#pragma once

#include "cuda/attention/backward/place.hpp"
#include "cuda/attention/bias.hpp"
#include "cuda/bias/gradient.hpp"

namespace phasor::cuda::attention {

/// Scores of a tile that go together: whole rows.
constexpr int kPlaces = 4 * kTile;

/// Some rows of a tile of scores as places of a perceptron.
template <class T>
struct PerceptronRows {
  const BackwardTile<T>& at;
  const BiasWork& term;
  plan::FireCurve curve;
  int first;  // row

  PHASOR_HD bool is_there(int64_t d) const { return first + d / kTile < at.tile.queries.count && d % kTile < at.tile.keys; }
  PHASOR_HD int64_t query(int64_t d) const { return at.room.query_positions[first + d / kTile]; }
  PHASOR_HD int64_t distance(int64_t d) const {
    return is_there(d) ? bias_distance(term.bias, query(d), at.room.key_positions[d % kTile]) : 0;
  }
  PHASOR_HD plan::MlpInputs inputs(int64_t d) const {
    if (term.bias.scheme != plan::BiasSource::Scheme::fire) return plan::mlp_inputs(term.bias, distance(d));
    return {{plan::fire_psi(curve, distance(d)) / plan::fire_scale(curve, is_there(d) ? query(d) : 0).divisor, 0}};
  }
  /// By the bias.
  PHASOR_HD double gradient(int64_t d) const {
    if (!is_there(d)) return 0;
    const int64_t i = first + d / kTile;
    const T gate = gate_at<T>(term, at.tile.queries.sequence.batch, at.tile.queries.first + i, at.tile.head);
    return static_cast<double>(gate * at.room.scores[i * kScoreRow + d % kTile]);
  }
};

/// What these scores add to a parameter.
template <class T>
PHASOR_HD inline double parameter_sum(const PerceptronRows<T>& rows, const Perceptrons& mlp, int64_t parameter, int64_t head) {
  const MlpParameterAt of = mlp_parameter_at(rows.term.bias.mlp, parameter);
  double sum = 0;
  if (!of.is_of_curve) {
    for (int64_t d = 0; d < kPlaces && mlp.has_gradient(of.layer, of.out, head); ++d) {
      sum += mlp.parameter_gradient(of.layer, d, of.out, of.input, head);
    }
    return sum;
  }
  for (int64_t d = 0; d < kPlaces; ++d) {
    if (!rows.is_there(d) || (of.out == 1 && !plan::is_by_length(rows.curve, rows.query(d)))) continue;
    const plan::FireScale scale = plan::fire_scale(rows.curve, rows.query(d));
    const plan::FireGradient by = plan::fire_gradient(rows.curve, scale, rows.distance(d), mlp.input_value(d), mlp.input_gradient(d));
    sum += of.out == 0 ? by.c : by.length;
  }
  return sum;
}

/// to (parameters) += the gradient of a tile, from room.scores: ds. `memory` is the block's.
template <class T, class Block>
PHASOR_HD PHASOR_OUT_OF_LINE inline void take_perceptron(Block& block, const BackwardTile<T>& at, const BiasWork& term, double* memory,
                                                         T* to) {
  const int64_t head = term.first_head + at.tile.head;
  const Perceptrons mlp(term.bias, memory, kPlaces, 1);
  for (int first = 0; first < at.tile.queries.count; first += kPlaces / kTile) {
    const PerceptronRows<T> rows = {at, term, curve_of(term), first};
    mlp.forward(block, [&](int64_t d) { return rows.inputs(d); });
    mlp.backward(block, head, [&](int64_t d, int64_t) { return plan::output_gradient(term.bias, rows.gradient(d), mlp.output(d, head)); });
    block.each([&](int thread, int threads) {
      for (int64_t p = thread; p < term.parameter_count; p += threads) to[p] += static_cast<T>(parameter_sum(rows, mlp, p, head));
    });
  }
}

}  // namespace phasor::cuda::attention

// SPDX-License-Identifier: Apache-2.0
// The gradient of a bias's parameters: a block per parameter makes the terms of many distances at a time, and one thread adds them in their
// order. With a perceptron a block has a parameter for each thread, and makes the backward pass of some distances for all of them.
#pragma once

#include "cuda/bias/perceptron.hpp"
#include "cuda/bias/work.hpp"
#include "job/element.hpp"
#include "plan/bias/gradient_terms.hpp"
#include "plan/bias/table_row.hpp"

namespace phasor::cuda {

constexpr int kGradientThreads = 128;
/// Distances whose terms a block makes at a time.
constexpr int kTerms = 512;

struct TermRoom {
  double terms[kTerms];
  bool is_there[kTerms];
  double sum;
};

PHASOR_HD inline double diagonal_gradient(const job::DiagonalGradientJob& job, int64_t head, int64_t i) {
  return job::load_element(job.diagonal.data, job.diagonal.dtype, head * job.diagonal.strides[1] + i);
}

/// Whose a parameter is: the head, and its row of a table, or whether it is Kerple's r2.
struct ParameterAt {
  int64_t head;
  int64_t row;
};
PHASOR_HD inline ParameterAt parameter_at(const plan::BiasSource& bias, int64_t parameter) {
  if (bias.scheme == plan::BiasSource::Scheme::table) return {parameter / bias.rows, parameter % bias.rows};
  return {parameter % bias.heads, parameter / bias.heads};
}

/// What distance i adds to a parameter; false: nothing.
PHASOR_HD inline bool gradient_term(const job::DiagonalGradientJob& job, const ParameterAt& at, int64_t i, double& term) {
  const plan::BiasSource& bias = job.bias;
  const int64_t distance = job.first_distance + i;
  if (bias.scheme == plan::BiasSource::Scheme::table && plan::row_of(bias.row, distance) != at.row) return false;
  if (bias.scheme == plan::BiasSource::Scheme::kerple && distance == 0) return false;
  const double g = diagonal_gradient(job, at.head - job.part.first_head, i);
  if (bias.scheme == plan::BiasSource::Scheme::table) {
    term = g;
  } else if (bias.scheme == plan::BiasSource::Scheme::kerple) {
    const plan::KerpleGradient by = plan::kerple_gradient(bias, at.head, distance, g);
    term = at.row == 0 ? by.r1 : by.r2;
  } else {
    term = plan::alibi_gradient(bias, distance, g);
  }
  return true;
}

template <class Block>
PHASOR_HD inline void gradient_block(const job::DiagonalGradientJob& job, int64_t parameter, TermRoom& room, Block& block) {
  const ParameterAt at = parameter_at(job.bias, parameter);
  const int64_t count = job.diagonal.shape[3];
  if (at.head < job.part.first_head || at.head >= job.part.first_head + job.diagonal.shape[1]) return;
  block.each([&](int thread, int) {
    if (thread == 0) room.sum = job::load_element(job.sum.data, job.sum.dtype, parameter);
  });
  for (int64_t first = 0; first < count; first += kTerms) {
    const int64_t terms = count - first < kTerms ? count - first : kTerms;
    block.each([&](int thread, int threads) {
      for (int64_t i = thread; i < terms; i += threads) room.is_there[i] = gradient_term(job, at, first + i, room.terms[i]);
    });
    block.each([&](int thread, int) {
      if (thread != 0) return;
      double sum = room.sum;
      for (int64_t i = 0; i < terms; ++i) {
        if (room.is_there[i]) sum += room.terms[i];
      }
      room.sum = sum;
    });
  }
  block.each([&](int thread, int) {
    if (thread == 0) job::store_element(job.sum.data, job.sum.dtype, parameter, room.sum);
  });
}

// ---- Perceptrons ----

/// Which number of a perceptron a parameter is; behind them FIRE's c (out 0) and length (out 1).
struct MlpParameterAt {
  plan::MlpLayer layer;
  int64_t out;
  int64_t input;  // -1: of b
  bool is_of_curve;
};
PHASOR_HD inline MlpParameterAt mlp_parameter_at(const plan::MlpSource& mlp, int64_t parameter) {
  plan::MlpLayer layer = plan::first_layer(mlp);
  if (parameter >= mlp.parameter_count) return {layer, parameter - mlp.parameter_count, -1, true};
  for (int64_t l = 0; parameter >= layer.bias + layer.out; ++l) layer = plan::next_layer(mlp, layer, l);
  if (parameter >= layer.bias) return {layer, parameter - layer.bias, -1, false};
  return {layer, (parameter - layer.weights) / layer.in, (parameter - layer.weights) % layer.in, false};
}

/// sum += what the distances from `first` on add to a parameter.
PHASOR_HD inline double with_distances(const job::DiagonalGradientJob& job, const Perceptrons& mlp, const MlpParameterAt& at, int64_t first,
                                       double sum) {
  const int64_t first_head = job.part.first_head;
  if (!at.is_of_curve && !mlp.has_gradient(at.layer, at.out, first_head)) return sum;
  if (at.is_of_curve && at.out == 1 && !plan::is_by_length(job.bias.fire, job.part.query_position)) return sum;
  const plan::FireScale scale = at.is_of_curve ? plan::fire_scale(job.bias.fire, job.part.query_position) : plan::FireScale{};
  for (int64_t d = 0; d < mlp.distances(); ++d) {
    if (!at.is_of_curve) {
      sum += mlp.parameter_gradient(at.layer, d, at.out, at.input, first_head);
      continue;
    }
    const plan::FireGradient by =
        plan::fire_gradient(job.bias.fire, scale, job.first_distance + first + d, mlp.input_value(d), mlp.input_gradient(d));
    sum += at.out == 0 ? by.c : by.length;
  }
  return sum;
}

/// What a block works in: memory of so many distances together, and a sum per thread.
struct PerceptronRoom {
  double* memory;
  int64_t together;
  double* sums;
};

/// The parameters from index * kPerceptronThreads on.
template <class Block>
PHASOR_HD inline void perceptron_gradient_block(const job::DiagonalGradientJob& job, int64_t index, const PerceptronRoom& room,
                                                Block& block) {
  const int64_t parameter = index * kPerceptronThreads;
  const int64_t count = job.diagonal.shape[3];
  const int64_t heads = job.diagonal.shape[1];
  const plan::FireScale scale = plan::fire_scale(job.bias.fire, job.part.query_position);
  const auto is_there = [&](int thread) { return parameter + thread < job.sum.shape[3]; };
  block.each([&](int thread, int) {
    if (is_there(thread)) room.sums[thread] = job::load_element(job.sum.data, job.sum.dtype, parameter + thread);
  });
  for (int64_t first = 0; first < count; first += room.together) {
    const Perceptrons mlp(job.bias, room.memory, count - first < room.together ? count - first : room.together, heads);
    mlp.forward(block, [&](int64_t d) { return plan::perceptron_inputs(job.bias, job.first_distance + first + d, scale); });
    mlp.backward(block, job.part.first_head, [&](int64_t d, int64_t head) {
      return plan::output_gradient(job.bias, diagonal_gradient(job, head, first + d), mlp.output(d, job.part.first_head + head));
    });
    block.each([&](int thread, int) {
      if (is_there(thread))
        room.sums[thread] = with_distances(job, mlp, mlp_parameter_at(job.bias.mlp, parameter + thread), first, room.sums[thread]);
    });
  }
  block.each([&](int thread, int) {
    if (is_there(thread)) job::store_element(job.sum.data, job.sum.dtype, parameter + thread, room.sums[thread]);
  });
}

}  // namespace phasor::cuda

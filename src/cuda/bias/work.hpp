// SPDX-License-Identifier: Apache-2.0
// Diagonals and blocks of a bias as one: places, each with a distance, and for FIRE a query; what a launch decides about them.
#pragma once

#include "cuda/position.hpp"
#include "cuda/tuning.hpp"
#include "job/bias.hpp"
#include "plan/bias/at_distance.hpp"
#include "plan/bias/mlp_layer.hpp"

namespace phasor::cuda {

using std::int64_t;

struct BiasWork {
  plan::BiasSource bias;
  TensorView out;  // (B, heads, Tq, Tk); a diagonal is (1, heads, 1, N)
  int64_t first_head = 0;
  bool is_diagonal = false;
  int64_t first_distance = 0;  // of a diagonal
  int64_t query_position = 0;
  job::PositionSource queries = {};  // of a block
  job::PositionSource keys = {};
  int64_t together = 0;  // places that a block of threads takes at a time, with a perceptron
};

inline BiasWork work_of(const job::DiagonalJob& job) {
  return {.bias = job.bias,
          .out = job.out,
          .first_head = job.part.first_head,
          .is_diagonal = true,
          .first_distance = job.first_distance,
          .query_position = job.part.query_position};
}
inline BiasWork work_of(const job::BlockJob& job) {
  return {.bias = job.bias,
          .out = job.call.out,
          .first_head = job.call.first_head,
          .queries = job::source_of(job.call.queries, 1),
          .keys = job::source_of(job.call.keys, 1)};
}

PHASOR_HD inline int64_t place_count(const BiasWork& work) { return work.out.shape[0] * work.out.shape[2] * work.out.shape[3]; }
/// A sum of cosines is worth all heads at once.
PHASOR_HD inline bool takes_all_heads(const BiasWork& work) { return work.bias.scheme == plan::BiasSource::Scheme::sandwich; }
PHASOR_HD inline int64_t fill_items(const BiasWork& work) { return place_count(work) * (takes_all_heads(work) ? 1 : work.out.shape[1]); }

/// Numbers that perceptrons work in, per distance: forward what each layer reads; backward the same before the activation and by it, and by
/// what the heads give.
inline int64_t read_size(const plan::MlpSource& mlp) {
  int64_t size = 0;
  for (int64_t l = 0; l + 1 < mlp.width_count; ++l) size += mlp.widths[l];
  return size;
}
inline int64_t backward_size(const plan::MlpSource& mlp, int64_t heads) { return 3 * read_size(mlp) + heads; }

/// How many distances of so many numbers fit into a block's memory; 0: not one.
inline int64_t distances_together(int64_t numbers) {
  const auto fit = static_cast<int64_t>(kPerceptronBytes / sizeof(double)) / numbers;
  return fit < kPerceptronDistances ? fit : kPerceptronDistances;
}

}  // namespace phasor::cuda

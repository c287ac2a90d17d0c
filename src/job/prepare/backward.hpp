// SPDX-License-Identifier: Apache-2.0
// The job of prepare_attention_backward: plain data in which every check has passed and every decision is taken.
#pragma once

#include "job/prepare/job.hpp"

namespace phasor::job {

/// Tokens of one partial sum of a weight's gradient. A constant, so that the order of additions is one.
inline constexpr std::int64_t kWeightTokens = 64;

/// What the gradients of a token's norm over all heads have in common.
struct NormOfAll {
  float factor;
  float along;  // math::norm_gradient
};

/// The gradients of an operand. Strides in bytes: batch, token, head.
struct BackwardOperand {
  const std::byte* gradient = nullptr;  // by what was made of it
  std::int64_t strides[3] = {0, 0, 0};
  float* by_weight = nullptr;      // null: not wanted
  std::int64_t weight_heads = 1;   // 1: every head adds to one row
  std::int64_t weight_stride = 0;  // from one row to the next, in float32
  std::int64_t first_partial = 0;  // among the partial sums of a run of tokens: (heads, width)
};

/// Gradients by weights: the tokens from i * kWeightTokens on, through all batch rows, are summed into partial sum i of every head, in
/// float64 and in their order. Those of a weight (where it is shared, head after head of each run) are entries 0, 1, ... of a list, added
/// as the squares of a norm are: 32 sums, the j-th of the entries j, j + 32, ..., then the tree of math::fold_partials; rounded once.
struct PrepareBackwardJob {
  Device device;
  PrepareJob step;  // its operands read the inputs and store gradients by them; its rotation is the transpose
  RotateJob ahead;  // the rotation itself, without rows: those are made of the transposed ones
  BackwardOperand operands[3];
  double* partials = nullptr;  // (runs, run_partials)
  std::int64_t run_partials = 0;
  std::int64_t runs = 0;
  NormOfAll* of_all = nullptr;  // (tokens of all batch rows, operands); null: no norm is over all heads
  // Gradients by factors of queries: products of what a factor multiplied and the gradients by the results, exact in float64; of a head 32
  // sums, the j-th of the channels j, j + 32, ..., and the tree; heads in their order; times query_scale, rounded once.
  float* by_factors = nullptr;              // null: not wanted
  std::int64_t by_factors_strides[2] = {};  // batch, token
  double* head_sums = nullptr;              // (tokens of all batch rows, heads of q)
};

PHASOR_MEMBERS(NormOfAll, factor, along)
PHASOR_MEMBERS(BackwardOperand, gradient, strides, by_weight, weight_heads, weight_stride, first_partial)
PHASOR_MEMBERS(PrepareBackwardJob, device, step, ahead, operands, partials, run_partials, runs, of_all, by_factors, by_factors_strides,
               head_sums)

/// A call of prepare_attention_backward.
struct PrepareBackwardCall {
  const PrepareInputs& inputs;
  const PrepareRotation& rotation;
  const PrepareGradients& gradients;
  const PrepareSpec& spec;
};

/// Numbers of float64 of its workspace.
Result<std::int64_t> backward_workspace(const PrepareInputs& inputs, const PrepareGradients& gradients, const PrepareSpec& spec);

/// `rows` as for make_prepare_job.
Result<PrepareBackwardJob> make_prepare_backward_job(const PrepareBackwardCall& call, std::span<RowSource> rows);

/// Whether the rotation itself is done again, beside its transpose.
PHASOR_HD inline bool turns_ahead(const PrepareBackwardJob& job) { return job.step.rotation_first || job.by_factors != nullptr; }

/// The gradient by the factor of a token, whose heads have their sums.
PHASOR_HD inline void store_factor(const PrepareBackwardJob& job, std::int64_t row) {
  const std::int64_t heads = job.step.operands[0].heads;  // q is the first
  double sum = 0;
  for (std::int64_t h = 0; h < heads; ++h) sum += job.head_sums[row * heads + h];
  const std::int64_t tokens = job.step.turn.tokens;
  job.by_factors[row / tokens * job.by_factors_strides[0] + row % tokens * job.by_factors_strides[1]] =
      static_cast<float>(sum * static_cast<double>(job.step.query_scale));
}

/// The operands that have neither norm nor factor: their gradients are made ready as heads are, by the transposed rotation. The others are
/// what prepare_attention_backward itself does.
inline bool only_prepares(const PrepareOperand& operand) { return operand.norm.kind == HeadNorm::Kind::none && !operand.scales; }
PrepareJob only_prepared(const PrepareBackwardJob& job);
PrepareBackwardJob without_only_prepared(const PrepareBackwardJob& job);

}  // namespace phasor::job

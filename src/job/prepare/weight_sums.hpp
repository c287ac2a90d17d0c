// SPDX-License-Identifier: Apache-2.0
// Gradients by weights: where partial sums of runs of tokens lie, and which of them are added to a weight, in which order.
#pragma once

#include "job/prepare/backward.hpp"

namespace phasor::job {

/// Weights that are summed together: a line of memory.
inline constexpr std::int64_t kWeightsTogether = 8;

/// The partial sums of an operand's heads, (heads, width), of a run.
PHASOR_HD inline double* partials_of(const PrepareBackwardJob& job, int operand, std::int64_t run) {
  return job.partials + run * job.run_partials + job.operands[operand].first_partial;
}

/// Weights of an operand: rows of them one after the other.
PHASOR_HD inline std::int64_t weight_count(const PrepareBackwardJob& job, int operand) {
  if (job.operands[operand].by_weight == nullptr) return 0;
  return job.operands[operand].weight_heads * job.step.operands[operand].norm.width;
}

/// How many partial sums a weight has.
PHASOR_HD inline std::int64_t weight_entries(const PrepareBackwardJob& job, int operand) {
  return job.runs * (job.operands[operand].weight_heads == 1 ? job.step.operands[operand].heads : 1);
}
PHASOR_HD inline double weight_entry(const PrepareBackwardJob& job, int operand, std::int64_t weight, std::int64_t entry) {
  if (job.operands[operand].weight_heads != 1) return partials_of(job, operand, entry)[weight];
  const std::int64_t heads = job.step.operands[operand].heads;
  return partials_of(job, operand, entry / heads)[entry % heads * job.step.operands[operand].norm.width + weight];
}

PHASOR_HD inline void store_weight(const PrepareBackwardJob& job, int operand, std::int64_t weight, double sum) {
  const BackwardOperand& to = job.operands[operand];
  const std::int64_t width = job.step.operands[operand].norm.width;
  to.by_weight[weight / width * to.weight_stride + weight % width] = static_cast<float>(sum);
}

/// Some weights of an operand, which a block of threads sums in one go.
struct WeightSpan {
  int operand;
  std::int64_t first;
  std::int64_t count;
};
/// Spans of all operands, one after the other.
PHASOR_HD inline std::int64_t weight_spans(const PrepareBackwardJob& job) {
  std::int64_t spans = 0;
  for (int o = 0; o < job.step.operand_count; ++o) spans += (weight_count(job, o) + kWeightsTogether - 1) / kWeightsTogether;
  return spans;
}
PHASOR_HD inline WeightSpan weight_span(const PrepareBackwardJob& job, std::int64_t index) {
  int o = 0;
  for (; o < job.step.operand_count - 1; ++o) {
    const std::int64_t spans = (weight_count(job, o) + kWeightsTogether - 1) / kWeightsTogether;
    if (index < spans) break;
    index -= spans;
  }
  const std::int64_t first = index * kWeightsTogether;
  const std::int64_t rest = weight_count(job, o) - first;
  return {o, first, rest < kWeightsTogether ? rest : kWeightsTogether};
}

}  // namespace phasor::job

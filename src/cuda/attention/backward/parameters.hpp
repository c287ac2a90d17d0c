// SPDX-License-Identifier: Apache-2.0
// The gradient of a bias's parameters from that of its distances, by the bodies of cuda/bias.
#pragma once

#include "cuda/attention/work.hpp"
#include "cuda/bias/gradient.hpp"

namespace phasor::cuda::attention {

struct ParameterGradient {
  job::DiagonalGradientJob job;  // its diagonal and sum are in the workspace
  int64_t together = 0;          // distances of a perceptron
  int64_t memory = 0;            // bytes that a block works in
};

static_assert(kThreads == kGradientThreads && kThreads == kPerceptronThreads);

PHASOR_HD inline int64_t parameter_blocks(const ParameterGradient& work) {
  const int64_t parameters = work.job.sum.shape[3];
  return plan::has_perceptron(work.job.bias) ? (parameters + kPerceptronThreads - 1) / kPerceptronThreads : parameters;
}
template <class Block>
PHASOR_HD inline void parameter_block(const ParameterGradient& work, int64_t index, void* memory, Block& block) {
  if (!plan::has_perceptron(work.job.bias)) return gradient_block(work.job, index, *static_cast<TermRoom*>(memory), block);
  double* const numbers = static_cast<double*>(memory);
  perceptron_gradient_block(work.job, index, {numbers + kPerceptronThreads, work.together, numbers}, block);
}

}  // namespace phasor::cuda::attention

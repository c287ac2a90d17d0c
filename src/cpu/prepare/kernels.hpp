// SPDX-License-Identifier: Apache-2.0
// The kernels of prepare_attention: one table entry a target, as for rotation.
#pragma once

#include "job/prepare/backward_token.hpp"
#include "job/prepare/token.hpp"
#include "phasor/result.hpp"

namespace phasor::cpu {

struct PrepareKernels {
  float (*factor)(const job::PrepareJob& job, const job::PreparedToken& token, const job::PrepareOperand& operand);  // of all heads
  void (*make)(const job::PrepareJob& job, const job::PreparedToken& token, const job::PreparedHeads& heads);
  // Backwards: what the gradients of a norm over all heads share, some heads at a time, and the gradients of heads.
  void (*add_products)(const job::PrepareBackwardJob& job, const job::BackwardToken& token, const job::BackwardHeads& heads, float factor,
                       float* sums);
  void (*make_gradients)(const job::PrepareBackwardJob& job, const job::BackwardToken& token, const job::BackwardHeads& heads,
                         const job::NormOfAll& of_all, double* weight_sums);
};

/// Those of the active target (cpu/common/targets.hpp).
Result<const PrepareKernels*> active_prepare();

}  // namespace phasor::cpu

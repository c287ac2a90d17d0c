// SPDX-License-Identifier: Apache-2.0
// The kernels of prepare_attention: one table entry a target, as for rotation.
#pragma once

#include "job/prepare/token.hpp"
#include "phasor/result.hpp"

namespace phasor::cpu {

struct PrepareKernels {
  float (*factor)(const job::PrepareJob& job, const job::PreparedToken& token, const job::PrepareOperand& operand);  // of all heads
  void (*make)(const job::PrepareJob& job, const job::PreparedToken& token, const job::PreparedHeads& heads);
};

/// Those of the active target (cpu/common/targets.hpp).
Result<const PrepareKernels*> active_prepare();

}  // namespace phasor::cpu

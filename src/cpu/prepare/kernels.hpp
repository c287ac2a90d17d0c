// SPDX-License-Identifier: Apache-2.0
// The kernels of prepare_attention: one table entry a target, as for rotation.
#pragma once

#include "job/prepare/token.hpp"
#include "phasor/result.hpp"

namespace phasor::cpu {

/// Heads first, first + step, ... of an operand.
struct PrepareHeads {
  const job::PrepareOperand& operand;
  std::int64_t first = 0;
  std::int64_t step = 1;
};
struct PrepareKernels {
  void (*make)(const job::PrepareJob& job, const job::PreparedToken& token, const PrepareHeads& heads);
};

/// Those of the active target (cpu/common/targets.hpp).
Result<const PrepareKernels*> active_prepare();

}  // namespace phasor::cpu

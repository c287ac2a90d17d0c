// SPDX-License-Identifier: Apache-2.0
// The kernels of attention: one table entry a target, as for rotation.
#pragma once

#include "job/attention.hpp"
#include "phasor/result.hpp"

namespace phasor::cpu {

/// Strips and tasks are independent and may run in any order.
struct AttentionKernels {
  const char* target;
  void (*pack)(const job::AttentionJob& job, std::int64_t task);      // fills the panels; key heads * key tiles tasks
  void (*forward)(const job::AttentionJob& job, std::int64_t strip);  // job.strips of them
  void (*merge)(const job::AttentionJob& job, std::int64_t strip);    // after forward, where key_splits is above 1; job.strips
};
struct AttentionBackwardKernels {
  const char* target;
  void (*backward)(const job::AttentionJob& job, std::int64_t strip);  // job.strips of them, after the panels are packed
};

/// Those of the active target (cpu/targets.hpp).
Result<const AttentionKernels*> active_attention();
Result<const AttentionBackwardKernels*> active_attention_backward();

}  // namespace phasor::cpu

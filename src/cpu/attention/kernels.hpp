// SPDX-License-Identifier: Apache-2.0
// The kernels of attention: one table entry a target, as for rotation.
#pragma once

#include "cpu/attention/job/attention.hpp"
#include "phasor/result.hpp"

namespace phasor::cpu {

/// Strips and tasks are independent and may run in any order.
struct AttentionKernels {
  void (*pack)(const attend::AttentionJob& job, std::int64_t task);      // fills the panels; key heads * key tiles tasks
  void (*forward)(const attend::AttentionJob& job, std::int64_t strip);  // job.strips of them
  void (*merge)(const attend::AttentionJob& job, std::int64_t strip);    // after forward, where key_splits is above 1; job.strips
  void (*weights)(const attend::AttentionJob& job, std::int64_t strip);  // of some rows, after pack; job.strips
};
/// The backward's stages, in this order, each after the one before has ended on every strip. Between add_parts and store contents are
/// undone.
enum class BackwardStage : std::uint8_t {
  pack,       // the panels keys, keys_transposed and values_transposed
  tasks,      // gradients into the workspace
  add_parts,  // where there is more than one
  sinks,      // where their gradient is wanted
  store,      // to the caller's tensors
};
struct AttentionBackwardKernels {
  void (*backward)(const attend::AttentionJob& job, BackwardStage stage, std::int64_t strip);  // job.strips of them
};

/// Those of the active target (cpu/common/targets.hpp).
Result<const AttentionKernels*> active_attention();
Result<const AttentionBackwardKernels*> active_attention_backward();

}  // namespace phasor::cpu

// SPDX-License-Identifier: Apache-2.0
// Forwards laid out for a device, of tensors that nobody reads.
#pragma once

#include <gtest/gtest.h>

#include "cuda/attention/layout.hpp"
#include "cuda/host/hopper/no_memory.hpp"
#include "job/attention/make_job.hpp"

namespace phasor::test {

using cuda::attention::Layout;

/// A call laid out for a device of this compute capability.
inline Layout laid_out(const AttentionSpec& spec, int compute_major = 9, DType dtype = DType::bf16) {
  const AttentionInputs inputs = {on_gpu({2, 33, 8, 128}, dtype), on_gpu({2, 70, 4, 128}, dtype), on_gpu({2, 70, 4, 128}, dtype)};
  const job::AttentionCall call = {&inputs, &spec, nullptr, "attention"};
  std::vector<job::AttentionTermJob> terms;
  job::AttentionJob job;
  job::make_attention_job(call, terms, job);
  job.outputs = {on_gpu({2, 33, 8, 128}, dtype), on_gpu({2, 33, 8, 1}, DType::f32)};
  std::vector<std::byte> memory(1 << 22);
  const Workspace workspace(memory);
  attend::Arena arena(workspace);
  Layout layout;
  EXPECT_TRUE(cuda::attention::lay_out(job, "attention", arena, layout).ok());
  cuda::attention::lay_out_forward(arena, compute_major, layout);
  EXPECT_TRUE(arena.check("attention").ok());
  const Result<std::int64_t> wanted = cuda::attention::forward_workspace(job);
  EXPECT_TRUE(wanted.ok() && arena.needed() <= *wanted);
  return layout;
}

}  // namespace phasor::test

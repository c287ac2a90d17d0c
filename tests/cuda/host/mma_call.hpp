// SPDX-License-Identifier: Apache-2.0
// Calls of attention laid out as for a device, without one: what decides where they go is looked at.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "cuda/attention/layout.hpp"
#include "job/attention/make_job.hpp"

namespace phasor::test {

alignas(64) inline std::byte memory_of_device[256];
constexpr Device kGpu = {DeviceKind::cuda, 0};

inline TensorView on_gpu(const Extents& shape, DType dtype = DType::bf16) {
  return {memory_of_device, dtype, shape, contiguous_strides(shape), kGpu};
}

struct MmaCase {
  int compute_major = 8;
  DType dtype = DType::bf16;
  DType out = DType::bf16;
  std::int64_t width = 128;
  std::int64_t queries = 33;
};
/// A call laid out for a device.
inline cuda::attention::Layout laid_out(const AttentionSpec& spec, const MmaCase& of = {}) {
  const Extents q = {2, of.queries, 8, of.width};
  const Extents k = {2, 700, 4, of.width};
  const AttentionInputs inputs = {on_gpu(q, of.dtype), on_gpu(k, of.dtype), on_gpu(k, of.dtype)};
  const job::AttentionCall call = {&inputs, &spec, nullptr, "attention"};
  std::vector<job::AttentionTermJob> terms;
  job::AttentionJob job;
  job::make_attention_job(call, terms, job);
  job.outputs = {on_gpu(q, of.out), on_gpu({2, of.queries, 8, 1}, DType::f32)};
  std::vector<std::byte> memory(1 << 24);
  const Workspace workspace(memory);
  attend::Arena arena(workspace);
  cuda::attention::Layout layout;
  EXPECT_TRUE(cuda::attention::lay_out(job, "attention", arena, layout).ok());
  cuda::attention::lay_out_forward(arena, of.compute_major, layout);
  EXPECT_TRUE(arena.check("attention").ok());
  const Result<std::int64_t> wanted = cuda::attention::forward_workspace(job);
  EXPECT_TRUE(wanted.ok() && arena.needed() <= *wanted);
  return layout;
}

inline TableTerm table_on(TableSide side, std::int64_t heads = 8, std::int64_t width = 128) {
  return {.side = side, .table = on_gpu({1, 9, heads, width}), .rows = ClipRows{4, 4}};
}

}  // namespace phasor::test

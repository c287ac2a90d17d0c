// SPDX-License-Identifier: Apache-2.0
// What bench/gpu/prepare_bench.cu times, without a GPU: one call is its steps, bit for bit, and the bytes of the ceiling are those that
// move.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "../bench/gpu/operations_case.hpp"
#include "../bench/gpu/prepare_case.hpp"

namespace phasor::test {
namespace {

/// A last block that is not full; once more tokens than FlashInfer's first request has, which takes its time.
std::int64_t tokens_of(const bench::PrepareCase& c) {
  return c.layout == bench::Layout::flashinfer_nhd && c.storage == Storage::bf16 && c.model.norm_width == 0 ? 1099 : 99;
}

TEST(GpuBenchCases, one_call_is_its_steps) {
  for (const bench::PrepareCase& c : bench::prepare_cases()) {
    const bench::PrepareCall call(c, tokens_of(c));
    bench::HostBuffers buffers = call.buffers();
    const bench::HostBuffers before = buffers;
    const bench::Pointers memory = bench::pointers_of(buffers);
    const Status fused = call.fused({memory});
    ASSERT_TRUE(fused.ok()) << c.name() << ": " << fused.message();
    const Status steps = call.in_steps({memory});
    ASSERT_TRUE(steps.ok()) << c.name() << ": " << steps.message();
    EXPECT_TRUE(buffers[bench::kQuery] == buffers[bench::kStepsQuery]) << c.name();
    EXPECT_TRUE(buffers[bench::kCache] == buffers[bench::kStepsCache]) << c.name();
    EXPECT_TRUE(buffers[bench::kRows] == before[bench::kRows]) << c.name() << ": the next call must find what this one found";
    // Of random bytes one of 256 is what was there before.
    std::int64_t changed = 0;
    for (const bench::Buffer b : {bench::kQuery, bench::kCache}) {
      for (std::size_t i = 0; i < buffers[b].size(); ++i) changed += buffers[b][i] != before[b][i] ? 1 : 0;
    }
    EXPECT_LE(changed, static_cast<std::int64_t>(call.moved().written)) << c.name();
    EXPECT_GE(changed, static_cast<std::int64_t>(call.moved().written) * 97 / 100) << c.name();
  }
}
TEST(GpuBenchCases, the_ceiling_reads_what_the_call_reads) {
  for (const bench::PrepareCase& c : bench::prepare_cases()) {
    const std::int64_t channels = c.model.latent ? 16 * 64 + 512 + 64 : (32 + 8 + 8) * 128;
    EXPECT_EQ(bench::PrepareCall(c, 3).moved().read, static_cast<std::size_t>(3 * channels * 2)) << c.name();
  }
}
TEST(GpuBenchCases, every_model_meets_every_layout_once) {
  std::set<std::string> names;
  for (const bench::PrepareCase& c : bench::prepare_cases()) names.insert(c.name());
  EXPECT_EQ(names.size(), std::size_t{3 * 5 * 2 + 2});
  EXPECT_EQ(names.size(), bench::prepare_cases().size());
}

TEST(GpuBenchCases, every_other_operation_runs_and_writes_what_its_ceiling_does) {
  for (const bench::Operation& operation : bench::operations()) {
    bench::OperationCall call = operation.make(37);
    const bench::HostBuffers before = call.buffers;
    const bench::Pointers memory = bench::pointers_of(call.buffers);
    const Status status = call.run({memory});
    ASSERT_TRUE(status.ok()) << operation.name << ": " << status.message();
    std::size_t changed = 0;
    for (std::size_t b = 0; b < before.size(); ++b) {
      for (std::size_t i = 0; i < before[b].size(); ++i) changed += before[b][i] != call.buffers[b][i] ? 1 : 0;
    }
    EXPECT_LE(changed, call.moved.written) << operation.name;
    EXPECT_GE(changed, call.moved.written / 4) << operation.name;  // low bits of large numbers and zeros stay
  }
}

}  // namespace
}  // namespace phasor::test

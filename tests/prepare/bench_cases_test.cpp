// SPDX-License-Identifier: Apache-2.0
// What bench/gpu/prepare_bench.cu times, without a GPU: one call is its steps, bit for bit, and the bytes of the ceiling are those that
// move.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "../bench/gpu/operations_case.hpp"
#include "../bench/gpu/prepare_case.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

/// A last block that is not full; once more tokens than FlashInfer's first request has, which takes its time.
std::int64_t tokens_of(const bench::PrepareCase& c) {
  if (c.model.latent) return 99;
  return c.layout == bench::Layout::flashinfer_nhd && c.storage == Storage::bf16 && c.model.norm_width == 0 ? 1099 : 35;
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
    EXPECT_TRUE(buffers[bench::kScales] == buffers[bench::kStepsScales]) << c.name();
    EXPECT_TRUE(buffers[bench::kRows] == before[bench::kRows]) << c.name() << ": the next call must find what this one found";
    // Of random bytes one of 256 is what was there before.
    std::int64_t changed = 0;
    for (const bench::Buffer b : {bench::kQuery, bench::kCache, bench::kScales}) {
      for (std::size_t i = 0; i < buffers[b].size(); ++i) changed += buffers[b][i] != before[b][i] ? 1 : 0;
    }
    EXPECT_LE(changed, static_cast<std::int64_t>(call.moved().written)) << c.name();
    EXPECT_GE(changed, static_cast<std::int64_t>(call.moved().written) * 97 / 100) << c.name();
  }
}
/// bf16 number i of a buffer.
double bf16_at(const std::vector<std::byte>& buffer, std::int64_t i) {
  BFloat16 x;
  std::memcpy(&x, buffer.data() + i * 2, 2);
  return static_cast<double>(Element<BFloat16>::widen(x));
}
/// A pair of a head, which is normed over its first `width` channels (0: not).
struct HeadPair {
  std::int64_t before, after, width, first, second;  // where it begins in kRows and in the result; the pair's channels
};
void expect_length(const bench::HostBuffers& buffers, bench::Buffer result, const HeadPair& head, const std::string& name) {
  double squares = 0;
  for (std::int64_t c = 0; c < head.width; ++c) squares += std::pow(bf16_at(buffers[bench::kRows], head.before + c), 2);
  const auto wanted = [&](std::int64_t c) {
    const double x = bf16_at(buffers[bench::kRows], head.before + c);
    if (c >= head.width) return x;
    return x / std::sqrt(squares / static_cast<double>(head.width) + 1e-6) * bf16_at(buffers[bench::kWeight], c);
  };
  const auto is = [&](std::int64_t c) { return bf16_at(buffers[result], head.after + c); };
  const double length = std::hypot(wanted(head.first), wanted(head.second));
  EXPECT_NEAR(std::hypot(is(head.first), is(head.second)), length, length / 64) << name;  // four roundings to bf16
}
TEST(GpuBenchCases, heads_are_normed_where_the_model_norms_them) {
  for (const bench::PrepareCase& c : bench::prepare_cases()) {
    const bench::PrepareModel& m = c.model;
    const bench::PrepareCall call(c, 7);
    bench::HostBuffers buffers = call.buffers();
    const bench::Pointers memory = bench::pointers_of(buffers);
    ASSERT_TRUE(call.fused({memory}).ok() && call.in_steps({memory}).ok()) << c.name();
    const std::int64_t t = 5, h = m.q_heads - 1;
    const std::int64_t pair = m.latent ? 1 : 64;
    const std::int64_t q_norm = m.latent || m.norm_width == 0 ? 0 : 128;
    expect_length(buffers, bench::kQuery,
                  {t * m.row() + h * m.q_stride + m.q_stride - m.q_dim, (t * m.q_heads + h) * m.q_dim, q_norm, 0, pair}, c.name());
    const std::int64_t turned = m.rotary.rotary_offset;
    const HeadPair key = {t * m.row() + m.q_heads * m.q_stride, t * m.k_heads * m.k_dim, m.norm_width, turned, turned + pair};
    expect_length(buffers, bench::kStepsKey, key, c.name() + ", k");
    if (m.latent) expect_length(buffers, bench::kStepsKey, {key.before, key.after, 512, 3, 77}, c.name() + ", latent");
  }
}
TEST(GpuBenchCases, the_ceiling_reads_what_the_call_reads) {
  for (const bench::PrepareCase& c : bench::prepare_cases()) {
    const std::int64_t latent = c.layout == bench::Layout::mla_584 ? 448 : 512;
    const std::int64_t channels = c.model.latent ? 16 * 64 + latent + 64 : (32 + 8 + 8) * 128;
    EXPECT_EQ(bench::PrepareCall(c, 3).moved().read, static_cast<std::size_t>(3 * channels * 2)) << c.name();
  }
}
TEST(GpuBenchCases, every_model_meets_every_layout_once) {
  std::set<std::string> names;
  for (const bench::PrepareCase& c : bench::prepare_cases()) names.insert(c.name());
  EXPECT_EQ(names.size(), std::size_t{3 * (5 * 2 + 3) + 3});
  EXPECT_EQ(names.size(), bench::prepare_cases().size());
}

TEST(GpuBenchCases, every_row_of_mla_every_storage_and_both_kinds_of_scales_are_there) {
  const auto there = [](const char* name) {
    const std::vector<bench::PrepareCase> cases = bench::prepare_cases();
    return std::any_of(cases.begin(), cases.end(), [&](const bench::PrepareCase& c) { return c.name() == name; });
  };
  for (const char* const name :
       {"DeepSeek, plain rows, bf16", "DeepSeek, 656 bytes", "DeepSeek V4, 584 bytes", "Llama 3, vLLM flash, int8",
        "Qwen 3, vLLM flash, int8, scales by token", "Qwen 3, vLLM flash, fp8, scales by token", "Qwen3-VL, SGLang, fp8"}) {
    EXPECT_TRUE(there(name)) << name;
  }
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

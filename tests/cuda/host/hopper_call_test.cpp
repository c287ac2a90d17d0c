// SPDX-License-Identifier: Apache-2.0
// Which calls of attention go to Hopper's kernel, and in which words.
#include <gtest/gtest.h>

#include "cuda/attention/layout.hpp"
#include "job/attention/make_job.hpp"

namespace phasor::test {
namespace {

using cuda::attention::Layout;

alignas(64) std::byte some_memory[256];
constexpr Device kGpu = {DeviceKind::cuda, 0};

TensorView on_gpu(const Extents& shape, DType dtype = DType::bf16) { return {some_memory, dtype, shape, contiguous_strides(shape), kGpu}; }

/// A call laid out for a device of this compute capability.
Layout laid_out(const AttentionSpec& spec, int compute_major = 9, DType dtype = DType::bf16) {
  const AttentionInputs inputs = {on_gpu({2, 33, 8, 128}, dtype), on_gpu({2, 70, 4, 128}, dtype), on_gpu({2, 70, 4, 128}, dtype)};
  const job::AttentionCall call = {&inputs, &spec, nullptr, "attention"};
  std::vector<job::AttentionTermJob> terms;
  job::AttentionJob job;
  job::make_attention_job(call, terms, job);
  job.outputs = {on_gpu({2, 33, 8, 128}, dtype), on_gpu({2, 33, 8, 1}, DType::f32)};
  std::vector<std::byte> memory(1 << 20);
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

TEST(HopperCall, is_plain_attention_of_16_bits) {
  AttentionSpec spec;
  spec.visibility = {.mask = Mask::causal, .left = 20};
  const Layout layout = laid_out(spec);
  ASSERT_TRUE(layout.hopper.has_value());
  EXPECT_NE(layout.hopper_workspace, nullptr);
  EXPECT_TRUE(layout.hopper->causal);
  EXPECT_EQ(layout.hopper->left, 20);
  EXPECT_EQ(layout.hopper->diagonal, nullptr);
  EXPECT_FALSE(laid_out(spec, 8).hopper.has_value());
  EXPECT_FALSE(laid_out(spec, 9, DType::f32).hopper.has_value());
}

TEST(HopperCall, has_nothing_that_the_kernel_does_not_know) {
  const auto taken = [](const auto& change) {
    AttentionSpec spec;
    change(spec);
    return laid_out(spec).hopper.has_value();
  };
  const std::int64_t starts[] = {0, 33};
  const std::int64_t key_starts[] = {0, 70};
  EXPECT_TRUE(taken([](AttentionSpec&) {}));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.dropout.probability = 0.5; }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.sinks = on_gpu({1, 1, 8, 1}, DType::f32); }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.content_shift = on_gpu({1, 1, 8, 128}, DType::f32); }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.query_positions = positions_from(5); }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.key_positions = positions_from(5); }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.terms = {DenseTerm{on_gpu({1, 33, 8, 70}, DType::f32)}}; }));
  EXPECT_FALSE(taken([&](AttentionSpec& s) {
    s.visibility.query_starts = Integers(starts, 2, kGpu);
    s.visibility.key_starts = Integers(key_starts, 2, kGpu);
  }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.visibility.key_mask = {reinterpret_cast<std::uint8_t*>(some_memory), {70, 1}, kGpu}; }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.content = RotaryContent{*Rotary::make({.head_dim = 128})}; }));
}

AttentionSpec with_bias(const BiasSpec& bias) {
  AttentionSpec spec;
  spec.terms = {BiasTerm{*Bias::make(bias)}};
  return spec;
}

TEST(HopperCall, has_one_bias_by_distance) {
  const Layout alibi = laid_out(with_bias(Alibi{.heads = 8}));
  ASSERT_TRUE(alibi.hopper.has_value());
  EXPECT_EQ(alibi.hopper->first_distance, -103);
  EXPECT_EQ(alibi.hopper->far_left, cuda::hopper::kNoLimit);
  EXPECT_FALSE(laid_out(with_bias(Alibi{.heads = 8, .slopes = {}, .max_bias = 8, .form = AlibiForm::key_position})).hopper.has_value());
  AttentionSpec gated = with_bias(Alibi{.heads = 8});
  std::get<BiasTerm>(gated.terms[0]).gate = on_gpu({1, 33, 8, 1}, DType::f32);
  EXPECT_FALSE(laid_out(gated).hopper.has_value());
  AttentionSpec two = with_bias(Alibi{.heads = 8});
  two.terms.push_back(two.terms[0]);
  EXPECT_FALSE(laid_out(two).hopper.has_value());
}

/// Beyond `far` there is one row, and not before.
TEST(HopperCall, knows_where_buckets_end) {
  for (const bool both : {false, true}) {
    const T5Buckets buckets = {.heads = 8, .buckets = 32, .max_distance = 128, .sides = both ? BucketSides::both : BucketSides::behind};
    const AttentionSpec spec = with_bias(buckets);
    const Layout layout = laid_out(spec);
    ASSERT_TRUE(layout.hopper.has_value());
    const Bias bias = *Bias::make(buckets);
    const std::int64_t left = layout.hopper->far_left;
    const std::int64_t right = layout.hopper->far_right;
    for (const std::int64_t more : {1, 7, 1000, 1 << 20}) {
      EXPECT_EQ(bias.row(left + more), bias.row(left));
      EXPECT_EQ(bias.row(-right - more), bias.row(-right));
    }
    EXPECT_NE(bias.row(left - 1), bias.row(left));
    EXPECT_NE(bias.row(-right + 1), bias.row(-right));
  }
}

}  // namespace
}  // namespace phasor::test

// SPDX-License-Identifier: Apache-2.0
// The fused step is its steps: a rotation and a copy, a norm and then a rotation, specs one by one; and norms are what float64 says.
#include <gtest/gtest.h>

#include <cmath>

#include "phasor/prepare.hpp"
#include "profile_specs.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t kBatch = 2, kTokens = 5, kHeads = 3, kKeyHeads = 2, kDim = 48;

template <class T>
struct Step {
  Tensor<T> q = Tensor<T>({kBatch, kTokens, kHeads, kDim}, 1);
  Tensor<T> k = Tensor<T>({kBatch, kTokens, kKeyHeads, kDim}, 2);
  Tensor<T> v = Tensor<T>({kBatch, kTokens, kKeyHeads, kDim}, 3);
  Tensor<T> q_out = Tensor<T>({kBatch, kTokens, kHeads, kDim}, {kTokens * 400, 400, 60, 1}, 4);
  Tensor<T> k_out = Tensor<T>({kBatch, kTokens + 2, kKeyHeads, kDim}, 5);
  Tensor<T> v_out = Tensor<T>({kBatch, kTokens + 2, kKeyHeads, kDim}, 6);

  Step() {
    q.with_numbers(0, kDim, 7);
    k.with_numbers(0, kDim, 8);
    v.with_numbers(0, kDim, 9);
  }
  PrepareInputs inputs() { return {q.view(), k.view(), v.view(), {}}; }
  PrepareOutputs outputs() { return {tensor_cache(q_out.view()), tensor_cache(k_out.view()), tensor_cache(v_out.view()), {}}; }
  /// Keys and values of the first tokens of each row of the cache.
  TensorView written(Tensor<T>& cache) {
    TensorView view = cache.view();
    view.shape[1] = kTokens;
    return view;
  }
};

std::vector<RotarySpec> specs() {
  std::vector<RotarySpec> list = {{.head_dim = kDim},
                                  {.head_dim = kDim, .rotary_width = 20, .rotary_offset = 7, .pairing = Pairing::interleaved},
                                  {.head_dim = kDim, .pairing = Pairing::interleaved, .output_pairing = Pairing::half},
                                  {.head_dim = kDim, .sense = Sense::clockwise, .segments = 3},
                                  {.head_dim = kDim, .scaling = YarnScaling{.factor = 4, .original_length = 4096}},
                                  {.head_dim = kDim, .pairing = Pairing::interleaved, .lanes = Lanes::per_channel_frequencies}};
  for (const Numerics numerics : {Numerics::hf, Numerics::hf_float32, Numerics::vllm, Numerics::ggml})
    list.push_back({.head_dim = kDim, .numerics = numerics});
  return list;
}

class PreparedSteps : public EveryTarget {};

TEST_F(PreparedSteps, without_norms_are_a_rotation_and_a_copy) {
  const std::vector<RotarySpec> list = specs();
  on_every_target([&] {
    for (std::size_t i = 0; i < list.size(); ++i) {
      SCOPED_TRACE(i);
      const Result<Rotary> made = Rotary::make(list[i]);
      ASSERT_TRUE(made.ok()) << made.status().message();
      const Rotary& rotary = *made;
      for_each_dtype([&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (!std::is_same_v<T, double>) {
          Step<T> fused;
          Step<T> apart;
          const Positions at = positions_from(90000);
          const Status status = prepare_attention(fused.inputs(), {{&rotary, 1}, at, {}}, fused.outputs());
          ASSERT_TRUE(status.ok()) << status.message();
          ASSERT_TRUE(rotary.apply({apart.q.view(), apart.q_out.view()}, {apart.k.view(), apart.written(apart.k_out)}, at).ok());
          apart.v.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
            for (std::int64_t c = 0; c < kDim; ++c) apart.v_out.at(b, t, h, c) = apart.v.at(b, t, h, c);
          });
          EXPECT_TRUE(same_bits(fused.q_out.memory, apart.q_out.memory));
          EXPECT_TRUE(same_bits(fused.k_out.memory, apart.k_out.memory));
          EXPECT_TRUE(same_bits(fused.v_out.memory, apart.v_out.memory));
        }
      });
    }
  });
}

TEST_F(PreparedSteps, of_heads_with_directions_are_a_rotation) {
  GivenDirections directions{.heads = 3};
  directions.frequencies.resize(2 * 3 * kDim / 2);
  for (std::size_t i = 0; i < directions.frequencies.size(); ++i) directions.frequencies[i] = 0.1 + 0.01 * static_cast<double>(i);
  const Result<Rotary> made = Rotary::make({.head_dim = kDim, .scaling = directions});
  ASSERT_TRUE(made.ok()) << made.status().message();
  std::vector<double> at(2 * kBatch * kTokens);
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = static_cast<double>(i) * 0.75 - 3;
  Step<float> fused;
  Step<float> apart;
  const Positions where = positions(static_cast<const double*>(at.data()), 2, kBatch, kTokens);
  PrepareInputs inputs;
  inputs.q = fused.q.view();
  const Status status = prepare_attention(inputs, {{&*made, 1}, where, {}}, {tensor_cache(fused.q_out.view()), {}, {}, {}});
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(made->apply({apart.q.view(), apart.q_out.view()}, where).ok());
  EXPECT_TRUE(same_bits(fused.q_out.memory, apart.q_out.memory));
}

HeadNorm norm_with(const Tensor<float>& weight, HeadNorm::Cast cast) {
  HeadNorm norm;
  norm.kind = HeadNorm::Kind::rms;
  norm.cast = cast;
  norm.weight = view(weight.memory.data() + weight.index(0, 0, 0, 0), weight.shape());
  return norm;
}

TEST_F(PreparedSteps, a_norm_and_a_rotation_are_two_calls) {
  Tensor<float> weight({1, 1, 1, kDim}, 3);
  weight.with_numbers(0, kDim, 5);
  const Rotary rotary = *Rotary::make({.head_dim = kDim});
  for_each_dtype([&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>) {
      for (const auto order : {PrepareSpec::Order::norm_first, PrepareSpec::Order::rotation_first}) {
        PrepareSpec spec;
        spec.k_norm = spec.q_norm = norm_with(weight, HeadNorm::Cast::before_weight);
        spec.order = order;
        Step<T> fused;
        Step<T> apart;
        const Positions at = positions_from(7);
        ASSERT_TRUE(prepare_attention(fused.inputs(), {{&rotary, 1}, at, {}}, fused.outputs(), spec).ok());
        const bool first = order == PrepareSpec::Order::norm_first;
        Status rotated;
        if (!first) rotated = rotary.apply(apart.q.view(), apart.k.view(), at);
        ASSERT_TRUE(prepare_attention(apart.inputs(), {}, apart.outputs(), spec).ok());
        if (first) rotated = rotary.apply(apart.q_out.view(), apart.written(apart.k_out), at);
        ASSERT_TRUE(rotated.ok());
        EXPECT_TRUE(same_bits(fused.q_out.memory, apart.q_out.memory));
        EXPECT_TRUE(same_bits(fused.k_out.memory, apart.k_out.memory));
      }
    }
  });
}

TEST_F(PreparedSteps, q_in_place_of_a_packed_row_leaves_the_rest) {
  Tensor<BFloat16> packed({kBatch, kTokens, 1, 9 * kDim}, 4);
  packed.with_numbers(0, 9 * kDim, 5);
  const std::vector<BFloat16> before = packed.memory;
  const Rotary rotary = *Rotary::make({.head_dim = kDim, .pairing = Pairing::interleaved, .output_pairing = Pairing::half});
  const PrepareInputs all = unpack_qkv(packed.view(), {kHeads, kKeyHeads, kDim, kDim});
  PrepareInputs inputs;
  inputs.q = all.q;
  const TensorView q = {const_cast<void*>(all.q.data), all.q.dtype, all.q.shape, all.q.strides};
  const Status status = prepare_attention(inputs, {{&rotary, 1}, positions_from(3), {}}, {tensor_cache(q), {}, {}, {}});
  ASSERT_TRUE(status.ok()) << status.message();
  Tensor<BFloat16> wanted = packed;
  wanted.memory = before;
  const std::int64_t origin = static_cast<std::int64_t>(wanted.index(0, 0, 0, kDim));
  ASSERT_TRUE(rotary.apply(view(wanted.memory.data() + origin, q.shape, q.strides), positions_from(3)).ok());
  EXPECT_TRUE(same_bits(packed.memory, wanted.memory));
}

TEST_F(PreparedSteps, norms_are_what_float64_says) {
  for (const auto kind : {HeadNorm::Kind::rms, HeadNorm::Kind::l2}) {
    for (const auto over : {HeadNorm::Over::head, HeadNorm::Over::all_heads}) {
      Step<float> step;
      PrepareSpec spec;
      spec.q_norm.kind = kind;
      spec.q_norm.over = over;
      spec.q_norm.epsilon = 0.25F;
      PrepareInputs inputs;
      inputs.q = step.q.view();
      ASSERT_TRUE(prepare_attention(inputs, {}, {tensor_cache(step.q_out.view()), {}, {}, {}}, spec).ok());
      step.q.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
        double sum = 0;
        for (std::int64_t g = 0; g < kHeads; ++g) {
          for (std::int64_t c = 0; c < kDim; ++c) {
            if (over == HeadNorm::Over::all_heads || g == h) sum += double{step.q.at(b, t, g, c)} * double{step.q.at(b, t, g, c)};
          }
        }
        const double count = static_cast<double>(over == HeadNorm::Over::head ? kDim : kDim * kHeads);
        const double root = std::sqrt((kind == HeadNorm::Kind::rms ? sum / count : sum) + 0.25);
        for (std::int64_t c = 0; c < kDim; ++c) {
          const double wanted = double{step.q.at(b, t, h, c)} / root;
          // 5 additions of partial sums, 5 of the tree and the squares, halved by the root; mean, epsilon, root, quotient, product.
          EXPECT_NEAR(double{step.q_out.at(b, t, h, c)}, wanted, std::fabs(wanted) * 11 * 0x1p-24);
        }
      });
    }
  }
}

/// NaN with every low bit set, as a GPU has it, and with the least one: rounding must not end their being NaN.
TEST_F(PreparedSteps, keep_a_nan_of_a_weight_a_factor_and_a_channel) {
  on_every_target([&] {
    for (const std::uint32_t bits : {0x7fffffffU, 0xffffffffU, 0x7f800001U}) {
      Tensor<float> weight({1, 1, 1, kDim}, 3);
      weight.with_numbers(0, kDim, 5);
      weight.at(0, 0, 0, 5) = reference::same_bytes<float>(bits);
      Step<BFloat16> step;
      step.k.at(1, 2, 1, 7) = BFloat16{0x7f81};
      PrepareSpec spec;
      spec.q_norm = spec.k_norm = norm_with(weight, HeadNorm::Cast::after_weight);
      std::vector<float> factors(kBatch * kTokens, 2.0F);
      factors[3] = reference::same_bytes<float>(bits);
      PrepareInputs inputs = step.inputs();
      inputs.query_factors = view(factors.data(), {kBatch, kTokens, 1, 1});
      ASSERT_TRUE(prepare_attention(inputs, {}, step.outputs(), spec).ok());
      step.q.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
        for (std::int64_t c = 0; c < kDim; ++c) {
          EXPECT_EQ(reference::is_nan(step.q_out.at(b, t, h, c)), c == 5 || b * kTokens + t == 3) << b << t << h << c;
          if (h >= kKeyHeads) continue;
          EXPECT_EQ(reference::is_nan(step.k_out.at(b, t, h, c)), c == 5 || (b == 1 && t == 2 && h == 1)) << b << t << h << c;
        }
      });
    }
  });
}

TEST_F(PreparedSteps, in_place_are_a_rotation_in_place) {
  const Rotary rotary = *Rotary::make({.head_dim = kDim, .pairing = Pairing::interleaved, .output_pairing = Pairing::half});
  Step<Float16> fused;
  Step<Float16> apart;
  const PrepareOutputs in_place = {tensor_cache(fused.q.view()), tensor_cache(fused.k.view()), tensor_cache(fused.v.view()), {}};
  const Status status = prepare_attention(fused.inputs(), {{&rotary, 1}, positions_from(9), {}}, in_place);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(rotary.apply(apart.q.view(), apart.k.view(), positions_from(9)).ok());
  EXPECT_TRUE(same_bits(fused.q.memory, apart.q.memory));
  EXPECT_TRUE(same_bits(fused.k.memory, apart.k.memory));
  EXPECT_TRUE(same_bits(fused.v.memory, apart.v.memory));
}

TEST_F(PreparedSteps, in_place_may_have_starts_that_are_all_0) {
  const Rotary rotary = *Rotary::make({.head_dim = kDim});
  Step<float> with;
  Step<float> without;
  const auto run = [&](Step<float>& step, const TokenPlaces& places) {
    const PrepareOutputs in_place = {tensor_cache(step.q.view()), tensor_cache(step.k.view()), tensor_cache(step.v.view()), places};
    return prepare_attention(step.inputs(), {{&rotary, 1}, positions_from(9), {}}, in_place).message();
  };
  std::vector<std::int64_t> starts(kBatch, 0);
  const TokenPlaces places = {.starts = integers(starts.data(), kBatch)};
  ASSERT_EQ(run(without, {}), "");
  EXPECT_EQ(run(with, places), "");
  EXPECT_TRUE(same_bits(with.k.memory, without.k.memory));
  EXPECT_TRUE(same_bits(with.v.memory, without.v.memory));
  starts.back() = 1;  // one batch row moves, beyond its block
  EXPECT_NE(run(with, places), "");
}

TEST_F(PreparedSteps, of_specs_by_row_are_calls_one_by_one) {
  const std::vector<Rotary> rotaries = {*Rotary::make({.head_dim = kDim}),
                                        *Rotary::make({.head_dim = kDim, .scaling = YarnScaling{.factor = 2, .original_length = 4096}}),
                                        *Rotary::make({.head_dim = kDim, .scaling = YarnScaling{.factor = 4, .original_length = 4096}})};
  std::vector<std::int32_t> of_token;
  for (std::int64_t i = 0; i < kBatch * kTokens; ++i) of_token.push_back(static_cast<std::int32_t>(i * 7 % 3));
  Step<BFloat16> fused;
  const Positions at = positions_from(60000);
  const Status status = prepare_attention(fused.inputs(), {rotaries, at, integers(of_token.data(), kBatch * kTokens)}, fused.outputs());
  ASSERT_TRUE(status.ok()) << status.message();
  for (std::size_t s = 0; s < rotaries.size(); ++s) {
    Step<BFloat16> one;
    ASSERT_TRUE(prepare_attention(one.inputs(), {{&rotaries[s], 1}, at, {}}, one.outputs()).ok());
    for (std::int64_t i = 0; i < kBatch * kTokens; ++i) {
      if (of_token[static_cast<std::size_t>(i)] != static_cast<std::int32_t>(s)) continue;
      for (std::int64_t h = 0; h < kHeads; ++h)
        EXPECT_TRUE(same_bits(fused.q_out.head(i / kTokens, i % kTokens, h), one.q_out.head(i / kTokens, i % kTokens, h)));
      for (std::int64_t h = 0; h < kKeyHeads; ++h)
        EXPECT_TRUE(same_bits(fused.k_out.head(i / kTokens, i % kTokens, h), one.k_out.head(i / kTokens, i % kTokens, h)));
    }
  }
}

}  // namespace
}  // namespace phasor::test

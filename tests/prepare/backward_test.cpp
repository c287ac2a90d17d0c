// SPDX-License-Identifier: Apache-2.0
// Gradients of prepare_attention: finite differences of the naive one, in double; the library close to it; without norms the transposed
// rotation, bit for bit; sums of nothing; what does not allocate.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "prepare/naive_backward.hpp"
#include "prepare/random_backward.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

using Naive = reference::NaiveBackward<double>;

/// The slope of the loss by `number`, which is changed and put back.
double slope(const Naive& naive, double& number) {
  const double before = number;
  const double step = 1e-5;
  number = before + step;
  const double above = naive.loss();
  number = before - step;
  const double below = naive.loss();
  number = before;
  return (above - below) / (2 * step);
}

void expect_slopes(Naive& naive, std::uint64_t seed) {
  Random random(seed);
  const auto expect_near = [&](double is, double wanted, const char* what) {
    // The loss is a sum of up to a million numbers of size 10, each right to 1e-16, divided by the step of 1e-5.
    EXPECT_NEAR(is, wanted, 1e-6 * (1 + std::fabs(wanted))) << what << ", seed " << seed;
  };
  for (Naive::Side& side : naive.sides) {
    for (int i = 0; i < 6; ++i) {
      const std::size_t at = random.bits() % side.x.size();
      expect_near(side.by_input[at], slope(naive, side.x[at]), "by input");
      if (side.by_weight.empty()) continue;
      const std::size_t weight = random.bits() % side.weight.size();
      expect_near(side.by_weight[weight], slope(naive, side.weight[weight]), "by weight");
    }
  }
}

/// Results of q are proportional to its factors, so those times the gradients by them are the loss.
void expect_factors_give_the_loss(const PrepareInputs& inputs, const PrepareRotation& rotation, PrepareGradients gradients,
                                  const PrepareSpec& spec) {
  if (gradients.by_query_factors.data == nullptr) return;
  PrepareInputs q_alone = inputs;
  q_alone.k = q_alone.v = {};
  gradients.k = gradients.v = {};
  Naive naive(q_alone, rotation, gradients, spec);
  naive.run();
  double sum = 0;
  double size = 1;
  const auto* const factors = static_cast<const float*>(inputs.query_factors.data);
  for (std::size_t row = 0; row < naive.by_factors.size(); ++row) {
    sum += double{factors[row]} * naive.by_factors[row];
    size += std::fabs(double{factors[row]} * naive.by_factors[row]);
  }
  EXPECT_NEAR(sum, naive.loss(), 1e-9 * size);
}

TEST(NaiveBackward, is_the_slope_of_what_the_naive_step_gives) {
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    const RandomBackward call(seed);
    RandomBackward::Memory memory = call.memory();
    (void)call.run(memory, [&](const auto& inputs, const auto& rotation, const auto& gradients, const auto& spec) {
      if ((inputs.q.data != nullptr ? inputs.q : inputs.k).shape[1] > 9) return Status();  // as good with few tokens, and faster
      Naive naive(inputs, rotation, gradients, spec);
      naive.run();
      expect_slopes(naive, seed);
      if (rotation.cos.data == nullptr || inputs.k.data == nullptr || !spec.q_rotary_offset) {  // k says how wide heads of tables are
        expect_factors_give_the_loss(inputs, rotation, gradients, spec);
      }
      return Status();
    });
  }
}

/// The largest difference between a tensor and what it should be, in units of the largest number.
template <class Numbers>
double error_of(const TensorView& is, const Numbers& wanted) {
  double most = 0;
  double largest = 1e-30;
  std::size_t i = 0;
  for (std::int64_t b = 0; b < is.shape[0]; ++b) {
    for (std::int64_t t = 0; t < is.shape[1]; ++t) {
      for (std::int64_t h = 0; h < is.shape[2]; ++h) {
        for (std::int64_t c = 0; c < is.shape[3]; ++c, ++i) {
          const std::int64_t at = b * is.strides[0] + t * is.strides[1] + h * is.strides[2] + c;
          most = std::max(most, std::fabs(reference::read_number(is.dtype, is.data, at) - static_cast<double>(wanted[i])));
          largest = std::max(largest, std::fabs(static_cast<double>(wanted[i])));
        }
      }
    }
  }
  return most / largest;
}

TEST(Backward, is_close_to_the_gradient_without_rounding) {
  for (std::uint64_t seed = 300; seed < 600; ++seed) {
    const RandomBackward call(seed);
    RandomBackward::Memory memory = call.memory();
    (void)call.run(memory, [&](const auto& inputs, const auto& rotation, const auto& gradients, const auto& spec) {
      Naive naive(inputs, rotation, gradients, spec);
      naive.run();
      EXPECT_TRUE(prepare_attention_backward(inputs, rotation, gradients, spec).ok());
      if (const TensorView& by_factors = gradients.by_query_factors; by_factors.data != nullptr) {
        const double unit = inputs.q.dtype == DType::f32 ? 0x1p-23 : inputs.q.dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
        EXPECT_LT(error_of(by_factors, naive.by_factors), 4 * unit + 64 * 0x1p-23) << "seed " << seed;
      }
      for (const Naive::Side& side : naive.sides) {
        const DType dtype = side.in.dtype;
        const double unit = dtype == DType::f32 ? 0x1p-23 : dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
        // A few roundings of each step; a norm's sum has some more in float32.
        EXPECT_LT(error_of(side.to.by_input, side.by_input), 8 * unit + 64 * 0x1p-23) << "seed " << seed << ", " << side.name;
        if (side.to.by_weight.data == nullptr) continue;
        EXPECT_LT(error_of(side.to.by_weight, side.by_weight), 4 * unit + 64 * 0x1p-23) << "seed " << seed << ", " << side.name;
      }
      return Status();
    });
  }
}

template <class T>
class BackwardOf : public EveryTarget {};
using Elements = ::testing::Types<float, Float16, BFloat16>;
TYPED_TEST_SUITE(BackwardOf, Elements);

TYPED_TEST(BackwardOf, heads_without_a_norm_is_the_transposed_rotation_bit_for_bit) {
  const std::int64_t position_list[] = {9, 1 << 20, 3, 0, 77, 12345, 5};
  for (const RotarySpec& spec : {RotarySpec{.head_dim = 24, .scaling = YarnScaling{.factor = 8, .original_length = 4096}},
                                 RotarySpec{.head_dim = 24, .pairing = Pairing::interleaved, .output_pairing = Pairing::half},
                                 RotarySpec{.head_dim = 24, .rotary_width = 10, .rotary_offset = 3, .sense = Sense::clockwise},
                                 RotarySpec{.head_dim = 24, .pairing = Pairing::interleaved, .lanes = Lanes::per_channel_frequencies},
                                 RotarySpec{.head_dim = 24, .numerics = Numerics::hf}}) {
    const Rotary rotary = *Rotary::make(spec);
    const Positions at = positions(static_cast<const std::int64_t*>(position_list), 7);
    const Extents shape = {2, 7, 3, 24};
    Random random(5);
    std::vector<TypeParam> gradient(2 * 7 * 3 * 24);
    for (TypeParam& x : gradient) x = Element<TypeParam>::narrow(random.number());
    this->on_every_target([&] {
      std::vector<TypeParam> wanted = gradient;
      ASSERT_TRUE(rotary.apply(view(wanted.data(), shape), at, {.direction = Direction::transpose}).ok());
      std::vector<TypeParam> is[3] = {gradient, gradient, gradient};
      PrepareInputs inputs = {view(is[0].data(), shape), view(is[1].data(), shape), view(is[2].data(), shape), {}};
      PrepareGradients gradients;
      gradients.q = {view(is[0].data(), shape), view(is[0].data(), shape), {}};
      gradients.k = {view(is[1].data(), shape), view(is[1].data(), shape), {}};
      gradients.v = {view(is[2].data(), shape), view(is[2].data(), shape), {}};
      const Status status = prepare_attention_backward(inputs, {{&rotary, 1}, at, {}}, gradients);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(same_bits(is[0], wanted));
      EXPECT_TRUE(same_bits(is[1], wanted));
      EXPECT_TRUE(same_bits(is[2], gradient));
    });
  }
}

TEST(Backward, of_no_tokens_sets_the_gradients_of_weights_to_zero) {
  std::vector<float> weight(8, 1);
  std::vector<float> sum(8, 5);
  PrepareInputs inputs;
  inputs.k = view(static_cast<const float*>(nullptr), {2, 0, 3, 8});
  PrepareGradients gradients;
  gradients.k = {inputs.k, view(static_cast<float*>(nullptr), {2, 0, 3, 8}), view(sum.data(), {1, 1, 1, 8})};
  PrepareSpec spec;
  spec.k_norm = {.kind = HeadNorm::Kind::rms, .weight = view(weight.data(), {1, 1, 1, 8})};
  const Result<std::int64_t> workspace = prepare_attention_backward_workspace(inputs, gradients, spec);
  ASSERT_TRUE(workspace.ok()) << workspace.status().message();
  EXPECT_EQ(*workspace, 0);
  const Status status = prepare_attention_backward(inputs, {}, gradients, spec);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(sum, std::vector<float>(8, 0));
}

/// 130 tokens are three runs: their partial sums lie in the workspace, with a number for each token of the norm over all heads.
TEST(Backward, works_in_what_its_workspace_says) {
  std::vector<float> x(130 * 3 * 8, 1);
  std::vector<float> numbers(8);
  PrepareInputs inputs;
  inputs.v = view(x.data(), {13, 10, 3, 8});
  PrepareGradients gradients;
  gradients.v = {inputs.v, view(x.data(), {13, 10, 3, 8}), view(numbers.data(), {1, 1, 1, 8})};
  PrepareSpec spec;
  spec.v_norm = {.kind = HeadNorm::Kind::l2, .weight = view(numbers.data(), {1, 1, 1, 8})};
  EXPECT_EQ(*prepare_attention_backward_workspace(inputs, gradients, spec), 3 * 3 * 8);
  spec.v_norm.over = HeadNorm::Over::all_heads;
  EXPECT_EQ(*prepare_attention_backward_workspace(inputs, gradients, spec), 130 + 3 * 3 * 8);
  gradients.v.by_weight = {};
  EXPECT_EQ(*prepare_attention_backward_workspace(inputs, gradients, spec), 130);
}

}  // namespace
}  // namespace phasor::test

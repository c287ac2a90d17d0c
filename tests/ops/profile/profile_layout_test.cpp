// SPDX-License-Identifier: Apache-2.0
// Numerics profiles do not depend on target, strides, batch, blocks or threads; tables, directions and errors.
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "ops/rotary/rotary_call.hpp"
#include "tolerance.hpp"

namespace phasor::test {
namespace {

class ProfileLayout : public EveryTarget {
 protected:
  void expect_same_bits_on_every_target(std::initializer_list<std::int64_t> widths);
};

constexpr Numerics profiles[] = {Numerics::hf, Numerics::hf_float32, Numerics::vllm, Numerics::ggml};

RotarySpec spec_with(Numerics numerics, std::int64_t head_dim, Scaling scaling) {
  RotarySpec spec;
  spec.head_dim = head_dim;
  spec.scaling = std::move(scaling);
  spec.numerics = numerics;
  return spec;
}

YarnScaling yarn() {
  YarnScaling s;
  s.factor = 4;
  s.original_length = 4096;
  return s;
}

/// (B, T, H, D) rotated at positions from 131000 on, contiguous, on the active target.
template <class T>
Tensor<T> rotated(const RotarySpec& spec, const Extents& shape) {
  Tensor<T> x(shape, 5);
  x.with_numbers(0, spec.head_dim);
  const Status status = make_rotary(spec).apply(x.view(), positions_from(131000));
  EXPECT_TRUE(status.ok()) << status.message();
  return x;
}

void ProfileLayout::expect_same_bits_on_every_target(std::initializer_list<std::int64_t> widths) {
  for (const Numerics numerics : profiles) {
    for (const std::int64_t head_dim : widths) {
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
        RotarySpec spec = spec_with(numerics, head_dim, head_dim == 2 ? Scaling(Unscaled{}) : Scaling(yarn()));
        spec.pairing = pairing;
        for_each_dtype([&](auto tag) {
          using T = typename decltype(tag)::type;
          const Extents shape = {2, head_dim > 1000 ? 3 : 41, 2, head_dim};
          const Tensor<T> wanted = [&] {
            const OnTarget scalar("scalar");
            return rotated<T>(spec, shape);
          }();
          on_every_target([&] { EXPECT_TRUE(same_bits(rotated<T>(spec, shape).memory, wanted.memory)); });
        });
      }
    }
  }
}

TEST_F(ProfileLayout, every_target_gives_the_same_bits) { expect_same_bits_on_every_target({2, 34}); }
/// By itself because it takes an emulator a minute (tests/sweeps.cmake). 4200: pairs in two blocks.
TEST_F(ProfileLayout, every_target_gives_the_same_bits_of_wide_heads) { expect_same_bits_on_every_target({128, 4200}); }

/// Runs the tasks backwards.
void backwards(void* /*context*/, std::int64_t tasks, void (*task)(void*, std::int64_t), void* task_context) {
  for (std::int64_t i = tasks - 1; i >= 0; --i) task(task_context, i);
}

TEST_F(ProfileLayout, strides_batch_and_threads_do_not_matter) {
  for (const Numerics numerics : profiles) {
    SCOPED_TRACE(static_cast<int>(numerics));
    const RotarySpec spec = spec_with(numerics, 66, Llama3Scaling{});
    const Rotary rotary = make_rotary(spec);
    for_each_dtype([&](auto tag) {
      using T = typename decltype(tag)::type;
      const Extents shape = {3, 513, 3, 66};
      const Tensor<T> wanted = rotated<T>(spec, shape);
      Tensor<T> strided(shape, {3 * 513 * 71, 71, 513 * 71, 1}, 5);  // (B, H, T, D), padded
      strided.with_numbers(0, 66);
      ASSERT_TRUE(rotary.apply(strided.view(), positions_from(131000), {.execution = {.runner = {backwards, nullptr}}}).ok());
      Tensor<T> token(shape, 5);
      token.with_numbers(0, 66);
      for (std::int64_t t = 0; t < shape[1]; ++t) {  // one token of one batch row at a time
        const std::int64_t b = t % 3;
        ASSERT_TRUE(rotary.apply(view(&token.at(b, t, 0, 0), {1, 1, 3, 66}), positions_from(131000 + t)).ok());
        EXPECT_EQ(Element<T>::bits(token.at(b, t, 2, 65)), Element<T>::bits(wanted.at(b, t, 2, 65)));
      }
      wanted.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
        ASSERT_TRUE(same_bits(strided.head(b, t, h), wanted.head(b, t, h)));
        if (b != t % 3) return;
        ASSERT_TRUE(same_bits(token.head(b, t, h), wanted.head(b, t, h)));
      });
    });
  }
}

/// Rows made once by cos_sin, rounded to the tensor's dtype where the profile does so.
template <class T, class Table>
void check_rows_then_apply(const RotarySpec& spec, Direction direction) {
  const std::int64_t pairs = spec.head_dim / 2;
  const Extents shape = {1, 5, 1, pairs};
  std::vector<float> cos(static_cast<std::size_t>(5 * pairs));
  std::vector<float> sin(cos.size());
  const Rotary rotary = make_rotary(spec);
  const Positions where = positions_from(99998);
  ASSERT_TRUE(rotary.cos_sin(where, view(cos.data(), shape), view(sin.data(), shape)).ok());
  std::vector<double> wide_cos(cos.size());
  std::vector<double> wide_sin(cos.size());
  ASSERT_TRUE(rotary.cos_sin(where, view(wide_cos.data(), shape), view(wide_sin.data(), shape)).ok());
  std::vector<Table> table_cos;
  std::vector<Table> table_sin;
  for (std::size_t i = 0; i < cos.size(); ++i) {
    EXPECT_EQ(wide_cos[i], cos[i]);
    EXPECT_EQ(wide_sin[i], sin[i]);
    table_cos.push_back(Element<Table>::narrow(static_cast<typename Element<Table>::Value>(cos[i])));
    table_sin.push_back(Element<Table>::narrow(static_cast<typename Element<Table>::Value>(sin[i])));
  }
  Tensor<T> by_spec({1, 5, 3, spec.head_dim}, 11);
  by_spec.with_numbers(0, spec.head_dim);
  Tensor<T> by_table = by_spec;
  ASSERT_TRUE(rotary.apply(by_spec.view(), where, {.direction = direction}).ok());
  const TableLayout layout = {.pairing = spec.pairing, .numerics = spec.numerics};
  const ConstTensorView c = view(std::as_const(table_cos).data(), shape);
  const ConstTensorView s = view(std::as_const(table_sin).data(), shape);
  ASSERT_TRUE(apply_rotary(by_table.view(), c, s, layout, {.direction = direction}).ok());
  EXPECT_TRUE(same_bits(by_table.memory, by_spec.memory));
}

TEST_F(ProfileLayout, rows_made_once_and_applied_are_bitwise_what_apply_gives) {
  for (const Direction direction : {Direction::forward, Direction::transpose}) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for (const Numerics numerics : profiles) {
        SCOPED_TRACE(static_cast<int>(numerics));
        RotarySpec spec = spec_with(numerics, 70, yarn());
        spec.pairing = pairing;
        check_rows_then_apply<float, float>(spec, direction);
        check_rows_then_apply<double, float>(spec, direction);
        const bool as_tensor = numerics == Numerics::hf || numerics == Numerics::vllm;
        as_tensor ? check_rows_then_apply<BFloat16, BFloat16>(spec, direction) : check_rows_then_apply<BFloat16, float>(spec, direction);
        as_tensor ? check_rows_then_apply<Float16, Float16>(spec, direction) : check_rows_then_apply<Float16, float>(spec, direction);
      }
    }
  }
}

TEST_F(ProfileLayout, the_inverse_undoes_an_amplitude_in_float32) {
  for (const Numerics numerics : profiles) {
    const RotarySpec spec = spec_with(numerics, 64, yarn());
    const Rotary rotary = make_rotary(spec);
    Tensor<float> x({1, 9, 2, 64}, 3);
    x.with_numbers(0, 64);
    const Tensor<float> before = x;
    ASSERT_TRUE(rotary.apply(x.view(), positions_from(5000)).ok());
    ASSERT_TRUE(rotary.apply(x.view(), positions_from(5000), {.direction = Direction::inverse}).ok());
    before.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
      for (std::int64_t d = 0; d < 32; ++d) {
        const double norm = std::hypot(before.at(b, t, h, d), before.at(b, t, h, d + 32));
        // One more rounding of each table value (the amplitude's product) than exact numerics have.
        const double bound = (tolerance_of(DType::f32).round_trip + 2) * tolerance_of(DType::f32).epsilon * norm;
        EXPECT_NEAR(x.at(b, t, h, d), before.at(b, t, h, d), bound);
        EXPECT_NEAR(x.at(b, t, h, d + 32), before.at(b, t, h, d + 32), bound);
      }
    });
  }
}

std::string message_of(const RotarySpec& spec) { return Rotary::make(spec).status().message(); }

TEST_F(ProfileLayout, what_a_peer_does_not_have_is_an_error_that_names_both) {
  for (const Numerics numerics : {Numerics::hf, Numerics::hf_float32, Numerics::ggml}) {
    const Status status = Rotary::make(spec_with(numerics, 64, NtkMixedScaling{4, std::nullopt})).status();
    EXPECT_EQ(status.kind(), ErrorKind::unsupported);
  }
  EXPECT_EQ(message_of(spec_with(Numerics::hf, 64, NtkMixedScaling{4, std::nullopt})),
            "RotarySpec: numerics is hf and scaling is mixed NTK, wanted a scaling that hf has, or given frequencies");
  EXPECT_EQ(message_of(spec_with(Numerics::ggml, 64, DynamicNtkScaling{4, 2048, 4096})),
            "RotarySpec: numerics is ggml and scaling is dynamic NTK, wanted a scaling that ggml has, or given frequencies");
  YarnScaling exact_ramp = yarn();
  exact_ramp.ramp = YarnRamp::exact;
  EXPECT_EQ(message_of(spec_with(Numerics::ggml, 64, exact_ramp)),
            "RotarySpec: numerics is ggml and scaling.ramp is exact, wanted truncated: ggml always truncates");
  RotarySpec huge = spec_with(Numerics::hf, 64, Unscaled{});
  huge.base = 1e39;
  EXPECT_EQ(message_of(huge), "RotarySpec: base is 1e+39, numerics hf wants one that float32 can hold");
  EXPECT_EQ(message_of(spec_with(static_cast<Numerics>(9), 64, Unscaled{})),
            "RotarySpec: numerics is 9, wanted exact, hf, hf_float32, vllm or ggml");
}

TEST_F(ProfileLayout, unknown_numerics_of_a_table_layout_are_an_error) {
  std::vector<float> x(8);
  const std::vector<float> row(4);
  const ConstTensorView table = view(row.data(), {1, 1, 1, 4});
  const TableLayout layout = {.numerics = static_cast<Numerics>(7)};
  const Status status = apply_rotary(view(x.data(), {1, 1, 1, 8}), table, table, layout);
  EXPECT_EQ(status.message(), "apply_rotary: layout has unknown numerics (7), wanted exact, hf, hf_float32, vllm or ggml");
}

TEST_F(ProfileLayout, angles_without_a_phase_are_nan) {
  const std::vector<double> list = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 0x1p63, -0x1p80, 1};
  for (const Numerics numerics : profiles) {
    std::vector<float> cos(5);
    std::vector<float> sin(5);
    const Extents shape = {1, 5, 1, 1};
    on_every_target([&] {
      const Rotary rotary = make_rotary(spec_with(numerics, 2, Unscaled{}));
      ASSERT_TRUE(rotary.cos_sin(positions(list.data(), 5), view(cos.data(), shape), view(sin.data(), shape)).ok());
      for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(cos[i]) && std::isnan(sin[i])) << i;
      EXPECT_EQ(cos[4], static_cast<float>(std::cos(1.0)));
    });
  }
}

}  // namespace
}  // namespace phasor::test

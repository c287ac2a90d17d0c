// SPDX-License-Identifier: Apache-2.0
// The gradient by the angle of every pair, against the formula written naively in the same order: bit for bit; and what is refused.
#include <functional>
#include <limits>

#include "ops/rotary/rotary_call.hpp"

namespace phasor::test {
namespace {

/// One call: (B, T, H, D) of any strides into (B, T, H or 1, P).
struct Gradient {
  TableLayout layout;
  Extents shape;
  std::int64_t out_heads;
  Accumulate accumulate = Accumulate::replace;
};

std::int64_t width_of(const Gradient& call) { return call.layout.rotary_width == 0 ? call.shape[3] : call.layout.rotary_width; }

/// Channel of a lane of a pair in the output pairing, segments laid one after the other.
std::int64_t channel_of(const Gradient& call, std::int64_t pair, int lane) {
  const std::int64_t in_segment = width_of(call) / 2 / call.layout.segments;
  const std::int64_t segment = pair / in_segment;
  const Pairing pairing = call.layout.output_pairing.value_or(call.layout.pairing);
  return call.layout.rotary_offset + segment * 2 * in_segment + reference::channel(pairing, 2 * in_segment, pair % in_segment, lane);
}

template <class T, class Out>
void fill_reference(const Gradient& call, const Tensor<T>& y, const Tensor<T>& g, Tensor<Out>& out) {
  out.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
    for (std::int64_t pair = 0; pair < width_of(call) / 2; ++pair) {
      const std::int64_t c0 = channel_of(call, pair, 0);
      const std::int64_t c1 = channel_of(call, pair, 1);
      double sum = 0;
      for (std::int64_t from = call.out_heads == 1 ? 0 : h; from < (call.out_heads == 1 ? call.shape[2] : h + 1); ++from) {
        const volatile double a = static_cast<double>(Element<T>::widen(g.at(b, t, from, c1))) * Element<T>::widen(y.at(b, t, from, c0));
        const volatile double c = static_cast<double>(Element<T>::widen(g.at(b, t, from, c0))) * Element<T>::widen(y.at(b, t, from, c1));
        sum += a - c;
      }
      if (call.layout.sense == Sense::clockwise) sum = -sum;
      const double before = call.accumulate == Accumulate::add ? static_cast<double>(out.at(b, t, h, pair)) : 0.0;
      out.at(b, t, h, pair) = static_cast<Out>(call.accumulate == Accumulate::add ? before + sum : sum);
    }
  });
}

/// Strides of (B, H, T, D) memory with gaps.
Extents transposed_strides(const Extents& shape) {
  const std::int64_t head = shape[1] * (shape[3] + 3) + 5;
  return {shape[2] * head, shape[3] + 3, head, 1};
}

template <class T, class Out>
void check_gradient(const Gradient& call) {
  Tensor<T> y(call.shape, transposed_strides(call.shape), 11);
  Tensor<T> g(call.shape, 12);
  y.with_numbers(call.layout.rotary_offset, width_of(call), 13);
  g.with_numbers(call.layout.rotary_offset, width_of(call), 14);
  const Extents out_shape = {call.shape[0], call.shape[1], call.out_heads, width_of(call) / 2};
  Tensor<Out> out(out_shape, transposed_strides(out_shape), 15);
  if (call.accumulate == Accumulate::add) out.with_numbers(0, out_shape[3], 16);
  Tensor<Out> wanted = out;
  fill_reference(call, y, g, wanted);
  const Tensor<T> y_before = y;
  const Tensor<T> g_before = g;
  const Status status = phase_gradient(out.view(), y.view(), g.view(), call.layout, {.accumulate = call.accumulate});
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same_bits(out.memory, wanted.memory));
  EXPECT_TRUE(same_bits(y.memory, y_before.memory));
  EXPECT_TRUE(same_bits(g.memory, g_before.memory));
}

TEST(PhaseGradient, every_pair_of_every_dtype_layout_and_sense_is_the_formula_bit_for_bit) {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    for (const std::int64_t segments : {1, 3}) {
      for (const Sense sense : {Sense::counterclockwise, Sense::clockwise}) {
        for (const std::int64_t out_heads : {1, 3}) {
          const TableLayout layout = {.rotary_width = 42,
                                      .rotary_offset = 3,
                                      .pairing = other(pairing),
                                      .output_pairing = pairing,
                                      .sense = sense,
                                      .segments = segments};
          const Gradient call = {layout, {2, 5, 3, 47}, out_heads};
          for_each_dtype([&](auto tag) {
            check_gradient<typename decltype(tag)::type, float>(call);
            check_gradient<typename decltype(tag)::type, double>(call);
          });
        }
      }
    }
  }
}

TEST(PhaseGradient, the_gradient_of_keys_is_added_to_that_of_queries) {
  for_each_dtype([](auto tag) {
    using T = typename decltype(tag)::type;
    check_gradient<T, float>({{}, {2, 3, 7, 10}, 1, Accumulate::add});
    check_gradient<T, double>({{.sense = Sense::clockwise}, {1, 5, 3, 10}, 3, Accumulate::add});
  });
}

TEST(PhaseGradient, widths_beyond_one_block_of_sums_are_the_same) {
  for (const std::int64_t segments : {1, 2, 275}) {
    check_gradient<float, double>({{.rotary_width = 1100, .segments = segments}, {1, 3, 3, 1101}, 1});
    check_gradient<BFloat16, float>(
        {{.rotary_width = 1100, .rotary_offset = 1, .pairing = Pairing::interleaved, .segments = segments}, {1, 3, 3, 1101}, 1});
  }
}

TEST(PhaseGradient, a_gradient_that_heads_and_batch_rows_share_is_read_by_stride_0) {
  Tensor<float> y({2, 3, 7, 8}, 21);
  y.with_numbers(0, 8);
  Tensor<float> g({2, 3, 7, 8}, {0, 8, 0, 1}, 22);
  g.with_numbers(0, 8);
  Tensor<double> out({2, 3, 1, 4}, 23);
  Tensor<double> wanted = out;
  fill_reference({{}, {2, 3, 7, 8}, 1}, y, g, wanted);
  const Status status = phase_gradient(out.view(), y.view(), g.view());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same_bits(out.memory, wanted.memory));
}

TEST(PhaseGradient, what_is_no_number_spoils_its_own_pair_only) {
  Tensor<float> y({1, 1, 1, 8}, 24);
  Tensor<float> g({1, 1, 1, 8}, 25);
  y.with_numbers(0, 8);
  g.with_numbers(0, 8);
  y.at(0, 0, 0, 1) = std::numeric_limits<float>::quiet_NaN();
  g.at(0, 0, 0, 6) = std::numeric_limits<float>::infinity();
  std::vector<float> out(4);
  ASSERT_TRUE(phase_gradient(view(out.data(), {1, 1, 1, 4}), y.view(), g.view()).ok());
  EXPECT_TRUE(std::isfinite(out[0]));
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isinf(out[2]));
  EXPECT_TRUE(std::isfinite(out[3]));
}

TEST(PhaseGradient, nothing_is_written_where_there_is_nothing) {
  float one = 7;
  for (const Extents& shape : {Extents{0, 3, 2, 8}, Extents{2, 0, 2, 8}, Extents{2, 3, 2, 0}}) {
    const ConstTensorView empty = view(static_cast<const float*>(nullptr), shape);
    EXPECT_TRUE(phase_gradient(view(&one, {shape[0], shape[1], 1, shape[3] / 2}), empty, empty).ok());
  }
  EXPECT_EQ(one, 7);
}

/// A call that is right; each case spoils one thing. (B, T, H, D) = (2, 3, 3, 10), rotary width 8 at 1.
struct Attempt {
  std::vector<float> memory = std::vector<float>(2000, 0.5F);
  TensorView out = view(memory.data(), {2, 3, 1, 4});
  ConstTensorView rotated = view(memory.data() + 200, {2, 3, 3, 10});
  ConstTensorView gradient = view(memory.data() + 500, {2, 3, 3, 10});
  TableLayout layout = {.rotary_width = 8, .rotary_offset = 1};
  PhaseGradientOptions options;
};

struct Case {
  const char* wanted;  // a fragment of the message
  std::function<void(Attempt&)> spoil;
};

void check_cases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.wanted);
    Attempt call;
    c.spoil(call);
    const std::vector<float> before = call.memory;
    const Status status = phase_gradient(call.out, call.rotated, call.gradient, call.layout, call.options);
    EXPECT_EQ(status.kind(), ErrorKind::invalid);
    EXPECT_EQ(status.message().find("phase_gradient: "), 0U) << status.message();
    EXPECT_NE(status.message().find(c.wanted), std::string::npos) << status.message();
    EXPECT_EQ(call.memory, before);
  }
}

TEST(PhaseGradient, tensors_that_do_not_fit_are_refused) {
  Attempt right;
  ASSERT_TRUE(phase_gradient(right.out, right.rotated, right.gradient, right.layout, right.options).ok());
  EXPECT_NE(right.memory, std::vector<float>(2000, 0.5F));
  check_cases({
      {"rotated is f32 and gradient is bf16, wanted one dtype", [](Attempt& c) { c.gradient.dtype = DType::bf16; }},
      {"rotated has an unknown dtype (9)", [](Attempt& c) { c.rotated.dtype = DType{9}; }},
      {"gradient has null data", [](Attempt& c) { c.gradient.data = nullptr; }},
      {"gradient has stride 2 on its last axis", [](Attempt& c) { c.gradient.strides[3] = 2; }},
      {"rotated has tokens 3 and gradient has 2, wanted the same", [](Attempt& c) { c.gradient.shape[1] = 2; }},
      {"rotated has heads 3 and gradient has 1, wanted the same", [](Attempt& c) { c.gradient.shape[2] = 1; }},
      {"rotated has head_dim 10 and gradient has 9, wanted the same", [](Attempt& c) { c.gradient.shape[3] = 9; }},
      {"rotated has 0 heads, wanted at least 1", [](Attempt& c) { c.rotated.shape[2] = c.gradient.shape[2] = 0; }},
      {"out is bf16, wanted f32 or f64", [](Attempt& c) { c.out.dtype = DType::bf16; }},
      {"out has batch 1 and rotated has 2, wanted the same", [](Attempt& c) { c.out.shape[0] = 1; }},
      {"out has tokens 4 and rotated has 3, wanted the same", [](Attempt& c) { c.out.shape[1] = 4; }},
      {"out has 2 heads, wanted 1 or 3", [](Attempt& c) { c.out = view(c.memory.data(), {2, 3, 2, 4}); }},
      {"out has width 8, wanted 4 (one value per pair)", [](Attempt& c) { c.out = view(c.memory.data(), {2, 3, 1, 8}); }},
      {"out is a view in which elements repeat", [](Attempt& c) { c.out.strides[0] = 0; }},
      {"out overlaps rotated, wanted memory apart", [](Attempt& c) { c.rotated.data = c.memory.data() + 20; }},
      {"out overlaps gradient, wanted memory apart", [](Attempt& c) { c.gradient.data = c.memory.data(); }},
  });
}

TEST(PhaseGradient, layouts_that_do_not_fit_are_refused) {
  check_cases({
      {"rotary_width is 7, wanted an even number", [](Attempt& c) { c.layout.rotary_width = 7; }},
      {"rotary_width 8 at rotary_offset 3 does not fit head_dim 10", [](Attempt& c) { c.layout.rotary_offset = 3; }},
      {"segments is 3, wanted a divisor of 4, half the rotary width", [](Attempt& c) { c.layout.segments = 3; }},
      {"layout has an unknown pairing", [](Attempt& c) { c.layout.output_pairing = Pairing{5}; }},
      {"layout has an unknown sense (4)", [](Attempt& c) { c.layout.sense = Sense{4}; }},
      {"accumulate is 2, wanted replace or add", [](Attempt& c) { c.options.accumulate = Accumulate{2}; }},
  });
}

}  // namespace
}  // namespace phasor::test

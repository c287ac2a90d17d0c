// SPDX-License-Identifier: Apache-2.0
// Several axes through the operators: tables against apply, axes that share positions, prefix tokens, segments across pairings.
#include "ops/rotary/axes_models.hpp"
#include "ops/rotary/rotary_call.hpp"

namespace phasor::test {
namespace {

using RotaryAxes = EveryTarget;

/// (axes, 1, T): a token at 0 on every axis, one at 0 on all but the last, a run, and a grid.
std::vector<std::int64_t> some_places(std::int64_t axes, std::int64_t tokens) {
  std::vector<std::int64_t> list;
  for (std::int64_t a = 0; a < axes; ++a) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t in_grid = a == axes - 1 ? 5 + t % 4 : 70 * (a + 1) + t / 4;
      list.push_back(t == 0 ? 0 : t == 1 ? (a == axes - 1 ? 3 : 0) : t < 9 ? t + 100 * a : in_grid);
    }
  }
  return list;
}

/// Rows of a spec, as wide and of as many heads as cos_sin gives them.
template <class V>
struct RowTensors {
  Tensor<V> cos;
  Tensor<V> sin;
};

template <class V>
RowTensors<V> filled_rows(const Rotary& rotary, const Positions& at, std::int64_t tokens, Direction direction) {
  const auto* directions = std::get_if<GivenDirections>(&rotary.spec().scaling);
  const std::int64_t width = rotary.rotary_width() / (rotary.spec().lanes == Lanes::per_channel_frequencies ? 1 : 2);
  const Extents shape = {1, tokens, directions == nullptr ? 1 : directions->heads, width};
  RowTensors<V> rows = {Tensor<V>(shape, 31), Tensor<V>(shape, 32)};
  const Status status = rotary.cos_sin(at, rows.cos.view(), rows.sin.view(), {.direction = direction});
  EXPECT_TRUE(status.ok()) << status.message();
  return rows;
}

TableLayout layout_of(const RotarySpec& spec) {
  TableLayout layout = {.rotary_width = spec.rotary_width, .rotary_offset = spec.rotary_offset, .pairing = spec.pairing};
  layout.output_pairing = spec.output_pairing;
  layout.sense = spec.sense;
  layout.segments = spec.segments;
  return layout;
}

template <class T>
void check_tables(const RotarySpec& spec, const Positions& at, std::int64_t tokens, std::int64_t heads) {
  using V = typename Element<T>::Value;
  const Rotary rotary = make_rotary(spec);
  for (const Direction direction : {Direction::forward, Direction::transpose}) {
    const RowTensors<V> made = filled_rows<V>(rotary, at, tokens, direction);
    RowTensors<V> rows = made;
    Tensor<T> x({2, tokens, heads, spec.head_dim}, 33);
    x.with_numbers(rotary.spec().rotary_offset, rotary.rotary_width());
    Tensor<T> by_tables = x;
    ASSERT_TRUE(rotary.apply(x.view(), at, {.direction = direction}).ok());
    TableLayout layout = layout_of(rotary.spec());
    if (direction == Direction::transpose && spec.output_pairing) std::swap(layout.pairing, *layout.output_pairing);
    const Status status = apply_rotary(by_tables.view(), rows.cos.view(), rows.sin.view(), layout);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(same_bits(by_tables.memory, x.memory)) << (direction == Direction::forward ? "forward" : "transpose");
  }
}

TEST_F(RotaryAxes, rows_of_cos_sin_applied_are_bitwise_what_apply_gives) {
  on_every_target([] {
    for (const Model& model : recorded_models()) {
      SCOPED_TRACE(model.name);
      const std::vector<std::int64_t> at = some_places(model.axes, 23);
      RotarySpec spec = model.spec;
      for (const Sense sense : {Sense::counterclockwise, Sense::clockwise}) {
        spec.sense = sense;
        for_each_dtype([&](auto tag) { check_tables<typename decltype(tag)::type>(spec, positions(at.data(), model.axes, 1, 23), 23, 3); });
      }
    }
  });
}

/// A value for each channel, laid out as the output is.
template <class T>
void check_full_width(const RotarySpec& spec, std::int64_t tokens) {
  using V = typename Element<T>::Value;
  const Rotary rotary = make_rotary(spec);
  const RowTensors<V> half = filled_rows<V>(rotary, positions_from(-2), tokens, Direction::forward);
  const std::int64_t pairs = rotary.rotary_width() / 2;
  const std::int64_t in_segment = pairs / spec.segments;
  RowTensors<V> full = {Tensor<V>({1, tokens, 1, 2 * pairs}, 1), Tensor<V>({1, tokens, 1, 2 * pairs}, 2)};
  const bool written_half = spec.output_pairing.value_or(spec.pairing) == Pairing::half;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      for (const std::int64_t lane : {0, 1}) {
        const std::int64_t c = written_half ? i / in_segment * 2 * in_segment + i % in_segment + lane * in_segment : 2 * i + lane;
        full.cos.at(0, t, 0, c) = half.cos.at(0, t, 0, i);
        full.sin.at(0, t, 0, c) = half.sin.at(0, t, 0, i);
      }
    }
  }
  Tensor<T> x({1, tokens, 3, spec.head_dim}, 5);
  x.with_numbers(rotary.spec().rotary_offset, 2 * pairs);
  Tensor<T> by_tables = x;
  ASSERT_TRUE(rotary.apply(x.view(), positions_from(-2)).ok());
  const Status status = apply_rotary(by_tables.view(), full.cos.view(), full.sin.view(), layout_of(rotary.spec()));
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same_bits(by_tables.memory, x.memory));
}

RotarySpec segmented(std::int64_t pairs, std::int64_t segments, Pairing read, Pairing write) {
  RotarySpec spec{.head_dim = 2 * pairs + 5, .rotary_width = 2 * pairs, .rotary_offset = 2, .pairing = read, .output_pairing = write};
  spec.segments = segments;
  return spec;
}

TEST_F(RotaryAxes, full_width_tables_follow_the_segments_of_the_output) {
  on_every_target([] {
    for (const Pairing read : {Pairing::half, Pairing::interleaved}) {
      for (const Pairing write : {Pairing::half, Pairing::interleaved}) {
        for_each_dtype([&](auto tag) { check_full_width<typename decltype(tag)::type>(segmented(33, 3, read, write), 6); });
      }
    }
  });
}

// ---- Segments: each is a rotation of its own ----

/// A spec of several segments is as many rotations of one segment, side by side.
template <class T>
void check_segments(const RotarySpec& spec, std::int64_t tokens, Direction direction) {
  const std::int64_t width = spec.rotary_width / spec.segments;
  const Rotary rotary = make_rotary(spec);
  Tensor<T> in({2, tokens, 3, spec.head_dim}, 41);
  in.with_numbers(spec.rotary_offset, spec.rotary_width);
  Tensor<T> wanted = in;
  for (std::int64_t s = 0; s < spec.segments; ++s) {
    RotarySpec one = spec;
    one.segments = 1;
    one.rotary_width = width;
    one.rotary_offset = spec.rotary_offset + s * width;
    GivenFrequencies frequencies;
    for (std::int64_t i = 0; i < width / 2; ++i) {
      frequencies.frequencies.push_back(std::get<GivenFrequencies>(spec.scaling).frequencies[static_cast<std::size_t>(s * width / 2 + i)]);
    }
    one.scaling = frequencies;
    ASSERT_TRUE(make_rotary(one).apply(wanted.view(), positions_from(3), {.direction = direction}).ok());
  }
  Tensor<T> out(in.shape(), 42);
  Tensor<T> before = in;
  const Status apart = rotary.apply({in.view(), out.view()}, positions_from(3), {.direction = direction});
  ASSERT_TRUE(apart.ok()) << apart.message();
  out.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
    EXPECT_TRUE(same_bits(out.head(b, t, h), wanted.head(b, t, h))) << "out of place, token " << t;
  });
  EXPECT_TRUE(same_bits(in.memory, before.memory));
  ASSERT_TRUE(rotary.apply(in.view(), positions_from(3), {.direction = direction}).ok());
  EXPECT_TRUE(same_bits(in.memory, wanted.memory)) << "in place";
}

RotarySpec with_frequencies(RotarySpec spec) {
  GivenFrequencies s;
  for (std::int64_t i = 0; i < spec.rotary_width / 2; ++i) s.frequencies.push_back(std::pow(0.97, static_cast<double>(i % 400)));
  spec.scaling = s;
  return spec;
}

TEST_F(RotaryAxes, segments_are_rotations_side_by_side_in_every_pairing) {
  on_every_target([] {
    for (const Pairing read : {Pairing::half, Pairing::interleaved}) {
      for (const Pairing write : {Pairing::half, Pairing::interleaved}) {
        for (const Direction direction : {Direction::forward, Direction::inverse}) {
          for_each_dtype([&](auto tag) {
            using T = typename decltype(tag)::type;
            check_segments<T>(with_frequencies(segmented(57, 3, read, write)), 5, direction);
            check_segments<T>(with_frequencies(segmented(64, 64, read, write)), 2, direction);
          });
        }
      }
    }
  });
}

TEST_F(RotaryAxes, segments_may_be_wider_than_a_block_of_rows) {
  on_every_target([] {
    check_segments<float>(with_frequencies(segmented(2 * 2500, 2, Pairing::half, Pairing::half)), 3, Direction::forward);
    check_segments<BFloat16>(with_frequencies(segmented(2 * 2049, 2, Pairing::half, Pairing::half)), 2, Direction::forward);
  });
}

// ---- Axes that share their positions ----

TEST_F(RotaryAxes, an_offset_or_one_row_of_positions_is_every_axis) {
  on_every_target([] {
    for (const Model& model : recorded_models()) {
      SCOPED_TRACE(model.name);
      const Rotary rotary = make_rotary(model.spec);
      constexpr std::int64_t tokens = 37;
      std::vector<std::int64_t> one;
      for (std::int64_t t = 0; t < tokens; ++t) one.push_back(t - 4);
      std::vector<std::int64_t> all;
      for (std::int64_t a = 0; a < model.axes; ++a) all.insert(all.end(), one.begin(), one.end());
      Tensor<float> x({1, tokens, 2, model.spec.head_dim}, 51);
      x.with_numbers(0, model.spec.head_dim);
      Tensor<float> by_offset = x;
      Tensor<float> by_row = x;
      ASSERT_TRUE(rotary.apply(x.view(), positions(all.data(), model.axes, 1, tokens)).ok());
      ASSERT_TRUE(rotary.apply(by_offset.view(), positions_from(-4)).ok());
      ASSERT_TRUE(rotary.apply(by_row.view(), positions(one.data(), tokens)).ok());
      EXPECT_TRUE(same_bits(by_offset.memory, x.memory));
      EXPECT_TRUE(same_bits(by_row.memory, x.memory));
    }
  });
}

TEST_F(RotaryAxes, axes_that_agree_are_one_axis) {
  on_every_target([] {
    for (const Model& model : recorded_models()) {
      if (model.spec.axes.ladder != AxisLadder::shared) continue;
      SCOPED_TRACE(model.name);
      RotarySpec single = model.spec;
      single.axes = {};
      std::vector<std::int64_t> all;
      for (std::int64_t i = 0; i < model.axes * 35; ++i) all.push_back(i % 35 * (i % 35 < 20 ? 1 : 13));
      Tensor<float> x({1, 35, 2, model.spec.head_dim}, 52);
      x.with_numbers(0, model.spec.head_dim);
      Tensor<float> wanted = x;
      ASSERT_TRUE(make_rotary(model.spec).apply(x.view(), positions(all.data(), model.axes, 1, 35)).ok());
      ASSERT_TRUE(make_rotary(single).apply(wanted.view(), positions(all.data(), 35)).ok());
      EXPECT_TRUE(same_bits(x.memory, wanted.memory));
    }
  });
}

TEST_F(RotaryAxes, positions_may_have_any_strides) {
  on_every_target([] {
    const Model model = qwen2_vl();
    const std::vector<std::int64_t> places = some_places(3, 19);
    std::vector<std::int32_t> interleaved(19 * 3 * 2, 77);  // (T, axes) with a gap after each number
    for (std::size_t a = 0; a < 3; ++a) {
      for (std::size_t t = 0; t < 19; ++t) interleaved[(t * 3 + a) * 2] = static_cast<std::int32_t>(places[a * 19 + t]);
    }
    Positions strided = positions(interleaved.data(), 3, 1, 19);
    strided.strides = {2, 0, 6};
    Tensor<Float16> x({2, 19, 1, 128}, 53);
    x.with_numbers(0, 128);
    Tensor<Float16> wanted = x;
    ASSERT_TRUE(make_rotary(model.spec).apply(x.view(), strided).ok());
    ASSERT_TRUE(make_rotary(model.spec).apply(wanted.view(), positions(places.data(), 3, 1, 19)).ok());
    EXPECT_TRUE(same_bits(x.memory, wanted.memory));
  });
}

// ---- Prefix tokens ----

TEST_F(RotaryAxes, prefix_tokens_at_0_are_left_bit_for_bit_and_may_be_sliced_off) {
  on_every_target([] {
    for (const Model& model : recorded_models()) {
      SCOPED_TRACE(model.name);
      for_each_dtype([&](auto tag) {
        using T = typename decltype(tag)::type;
        constexpr std::int64_t prefix = 5;
        constexpr std::int64_t tokens = 21;
        std::vector<double> at;
        for (std::int64_t i = 0; i < model.axes * tokens; ++i) {
          at.push_back(i % tokens < prefix ? 0 : static_cast<double>(i % tokens) / 8 - static_cast<double>(i / tokens));
        }
        const Rotary rotary = make_rotary(model.spec);
        Tensor<T> x({1, tokens, 3, model.spec.head_dim}, 61);  // odd bits, NaN payloads among them
        Tensor<T> patches = x;
        patches.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
          if (t < prefix) return;
          std::vector<T> numbers(static_cast<std::size_t>(model.spec.head_dim));
          for (std::size_t c = 0; c < numbers.size(); ++c) numbers[c] = Element<T>::narrow(0.25F * static_cast<float>(c % 9) - 1);
          x.set_head(b, t, h, numbers);
        });
        patches = x;
        const Tensor<T> before = x;
        ASSERT_TRUE(rotary.apply(x.view(), positions(at.data(), model.axes, 1, tokens)).ok());
        for (std::int64_t t = 0; t < prefix; ++t) {
          for (std::int64_t h = 0; h < 3; ++h) EXPECT_TRUE(same_bits(x.head(0, t, h), before.head(0, t, h)));
        }
        TensorView sliced = patches.view();
        sliced.shape[1] = tokens - prefix;
        sliced.data = static_cast<T*>(sliced.data) + prefix * sliced.strides[1];
        Positions rest = positions(at.data() + prefix, model.axes, 1, tokens - prefix);
        rest.strides[0] = tokens;
        ASSERT_TRUE(rotary.apply(sliced, rest).ok());
        EXPECT_TRUE(same_bits(patches.memory, x.memory));
      });
    }
  });
}

}  // namespace
}  // namespace phasor::test

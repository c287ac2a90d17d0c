// SPDX-License-Identifier: Apache-2.0
// Axes, segments, lanes and units that do not fit are errors that name the field; the orders of axes are the published ones.
#include "spec/axes.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "spec/bad_specs.hpp"
#include "spec/rotary.hpp"

namespace phasor::test {
namespace {

using test::expect_messages;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

/// 16 channels, 8 pairs.
template <class Change>
RotarySpec changed(Change change) {
  RotarySpec spec{.head_dim = 16};
  change(spec);
  return spec;
}

RotarySpec with_axes(const Axes& axes) {
  return changed([&](RotarySpec& s) { s.axes = axes; });
}

RotarySpec with_scaling(const Axes& axes, const Scaling& scaling) {
  return changed([&](RotarySpec& s) { s.axes = axes, s.scaling = scaling; });
}

TEST(AxesCheck, sections_that_are_not_the_pairs_are_named) {
  expect_messages({
      {with_axes({.sections = {4, 3}}), "axes.sections sum to 7, wanted 8, half the rotary width"},
      {with_axes({.sections = {4, 5}}), "axes.sections sum to 9, wanted 8, half the rotary width"},
      {with_axes({.sections = {8, 0}}), "axes.sections[1] is 0, wanted 1 to 8, half the rotary width"},
      {with_axes({.sections = {-1, 9}}), "axes.sections[0] is -1, wanted 1 to 8, half the rotary width"},
      {with_axes({.sections = {huge, huge}}), "axes.sections[0] is 9223372036854775807, wanted 1 to 8, half the rotary width"},
      {with_axes({.sections = {2, 2, 2, 1, 1}}), "axes.sections has 5 entries, wanted at most 4"},
      {with_axes({.sections = {4, 4}, .order = AxisOrder{9}}), "axes.order is 9, wanted chunked, interleaved, alternating or given"},
      {with_axes({.sections = {4, 4}, .ladder = AxisLadder{3}}), "axes.ladder is 3, wanted shared, own or dealt"},
      {with_axes({.order = AxisOrder::interleaved}), "axes.sections is empty, wanted the pairs of each axis for the order interleaved"},
      {with_axes({.order = AxisOrder::alternating}), "axes.sections is empty, wanted the pairs of each axis for the order alternating"},
      {with_axes({.sections = {4, 4}, .order = AxisOrder::alternating}), "axes.sections has 2 entries, wanted 3 for the alternating order"},
      {with_axes({.sections = {2, 2, 4}, .order = AxisOrder::alternating}),
       "axes.sections[1] is 2 and axes.sections[2] is 4, wanted the same for the alternating order"},
  });
}

TEST(AxesCheck, given_axes_that_do_not_fit_are_named) {
  const auto given = [](std::vector<std::int64_t> sections, std::vector<std::uint8_t> list) {
    return with_axes({.sections = std::move(sections), .order = AxisOrder::given, .axis_of_pair = std::move(list)});
  };
  expect_messages({
      {given({}, {0, 1}), "axes.axis_of_pair has 2 entries, wanted 8, half the rotary width"},
      {given({}, {}), "axes.axis_of_pair has 0 entries, wanted 8, half the rotary width"},
      {given({}, {0, 1, 2, 3, 4, 0, 0, 0}), "axes.axis_of_pair[4] is 4, wanted less than 4"},
      {given({4, 4}, {0, 1, 2, 0, 1, 1, 0, 0}), "axes.axis_of_pair[2] is 2, wanted less than 2"},
      {given({4, 4}, {0, 0, 0, 0, 0, 1, 1, 1}), "axes.axis_of_pair names axis 0 5 times, wanted axes.sections[0], 4"},
      {with_axes({.sections = {4, 4}, .axis_of_pair = {0}}), "axes.axis_of_pair has 1 entries, wanted none unless axes.order is given"},
  });
  EXPECT_TRUE(spec::check(given({}, {3, 0, 0, 0, 0, 0, 0, 0})).ok());  // axes 1 and 2 turn nothing
}

TEST(AxesCheck, segments_lanes_and_units_that_do_not_fit_are_named) {
  const std::string per_channel =
      "lanes is per_channel_frequencies and a pairing is half, wanted interleaved: in half pairing both lanes of a pair have one frequency";
  expect_messages({
      {changed([](RotarySpec& s) { s.segments = 0; }), "segments is 0, wanted a divisor of 8, half the rotary width"},
      {changed([](RotarySpec& s) { s.segments = -2; }), "segments is -2, wanted a divisor of 8, half the rotary width"},
      {changed([](RotarySpec& s) { s.segments = 3; }), "segments is 3, wanted a divisor of 8, half the rotary width"},
      {changed([](RotarySpec& s) { s.segments = 16; }), "segments is 16, wanted a divisor of 8, half the rotary width"},
      {changed([](RotarySpec& s) { s.segments = huge; }), "segments is 9223372036854775807, wanted a divisor of 8, half the rotary width"},
      {changed([](RotarySpec& s) { s.lanes = Lanes{7}; }), "lanes is 7, wanted alike or per_channel_frequencies"},
      {changed([](RotarySpec& s) { s.lanes = Lanes::per_channel_frequencies; }), per_channel},
      {changed([](RotarySpec& s) {
         s.lanes = Lanes::per_channel_frequencies, s.pairing = Pairing::interleaved, s.output_pairing = Pairing::half;
       }),
       per_channel},
      {changed([](RotarySpec& s) { s.unit = FrequencyUnit{2}; }), "unit is 2, wanted radians or turns"},
      {changed([](RotarySpec& s) { s.unit = FrequencyUnit::turns, s.scaling = Llama3Scaling{}; }),
       "unit is turns, wanted radians for a scaling by wavelength"},
      {changed([](RotarySpec& s) { s.unit = FrequencyUnit::turns, s.scaling = YarnScaling{.factor = 2, .original_length = 9}; }),
       "unit is turns, wanted radians for a scaling by wavelength"},
  });
}

TEST(AxesCheck, ladders_and_scalings_that_make_no_sense_together_are_named) {
  const Axes own = {.sections = {4, 4}, .ladder = AxisLadder::own};
  const Axes dealt = {.sections = {4, 4}, .ladder = AxisLadder::dealt};
  const std::vector<double> eight(8, 1.0);
  const LongRopeScaling longrope{.short_factors = eight, .long_factors = eight, .original_length = 9, .length = 9};
  expect_messages({
      {with_scaling(own, longrope), "axes.ladder is own and the scaling has a list for each pair, wanted a shared ladder"},
      {with_scaling(dealt, longrope), "axes.ladder is dealt and the scaling has a list for each pair, wanted a shared ladder"},
      {with_scaling(own, GivenFactors{eight}), "axes.ladder is own and the scaling has a list for each pair, wanted a shared ladder"},
      {with_scaling(dealt, GivenFrequencies{eight}),
       "axes.ladder is dealt and the scaling has a list for each pair, wanted a shared ladder"},
      {with_scaling({.sections = {7, 1}, .ladder = AxisLadder::own}, NtkScaling{2}),
       "axes.ladder is own and twice a section is 2, wanted more than 2 for NTK scaling"},
      {with_axes({.sections = {5, 3}, .ladder = AxisLadder::dealt}),
       "axes.ladder is dealt and axis 0 has 5 of 8 pairs, wanted sections alike"},
      {with_axes({.sections = {3, 5}, .ladder = AxisLadder::dealt}),
       "axes.ladder is dealt and axis 1 has 5 of 8 pairs, wanted sections alike"},
  });
  EXPECT_TRUE(spec::check(with_axes({.sections = {3, 3, 2}, .ladder = AxisLadder::dealt})).ok());  // 0, 3, 6; 1, 4, 7; 2, 5
  EXPECT_TRUE(spec::check(with_scaling(own, YarnScaling{.factor = 4, .original_length = 4096})).ok());
}

TEST(AxesCheck, directions_that_do_not_fit_are_named) {
  const auto given = [](std::int64_t axes, std::int64_t heads, std::size_t size) {
    return changed([&](RotarySpec& s) { s.scaling = GivenDirections{axes, heads, std::vector<double>(size, 1)}; });
  };
  RotarySpec with_sections = given(2, 1, 16);
  with_sections.axes.sections = {4, 4};
  RotarySpec with_ladder = given(2, 1, 16);
  with_ladder.axes.ladder = AxisLadder::own;
  RotarySpec per_channel = given(2, 1, 16);
  per_channel.pairing = Pairing::interleaved;
  per_channel.lanes = Lanes::per_channel_frequencies;
  RotarySpec fast = given(2, 1, 16);
  std::get<GivenDirections>(fast.scaling).frequencies[9] = std::numeric_limits<double>::infinity();
  expect_messages({
      {given(0, 1, 0), "scaling.axes is 0, wanted 1 to 4"},
      {given(5, 1, 40), "scaling.axes is 5, wanted 1 to 4"},
      {given(2, 0, 0), "scaling.heads is 0, wanted 1 to 1048576"},
      {given(2, huge, 16), "scaling.heads is 9223372036854775807, wanted 1 to 1048576"},
      {given(2, 3, 16), "scaling.frequencies has 16 entries, wanted 48, axes * heads * half the rotary width"},
      {with_sections, "axes are given and the scaling has directions, wanted axes {} with GivenDirections"},
      {with_ladder, "axes are given and the scaling has directions, wanted axes {} with GivenDirections"},
      {per_channel, "lanes is per_channel_frequencies and the scaling has directions, wanted alike"},
      {fast, "scaling.frequencies[9] is inf, wanted a finite number, less than 2^64 either way"},
  });
}

// ---- Orders ----

std::vector<std::uint8_t> axes_of(std::int64_t width, const Axes& axes) {
  const RotarySpec spec{.head_dim = width, .axes = axes};
  EXPECT_TRUE(spec::check(spec).ok()) << spec::check(spec).message();
  return spec::axis_of_pair(spec);
}

TEST(AxisOrders, chunks_follow_each_other) {
  EXPECT_EQ(axes_of(16, {.sections = {1, 4, 3}}), (std::vector<std::uint8_t>{0, 1, 1, 1, 1, 2, 2, 2}));
}

TEST(AxisOrders, one_axis_turns_every_pair_where_none_are_given) {
  EXPECT_EQ(axes_of(8, {}), (std::vector<std::uint8_t>{0, 0, 0, 0}));
  EXPECT_EQ(spec::axis_count({.head_dim = 8}), 1);
}

/// Qwen3-VL: pair k is of axis 1 if k % 3 == 1 and k < 3 s_h, of axis 2 if k % 3 == 2 and k < 3 s_w, else of axis 0.
TEST(AxisOrders, interleaved_axes_go_round_and_the_first_has_the_rest) {
  for (const auto& sections : {std::vector<std::int64_t>{24, 20, 20}, {11, 11, 10}, {2, 3, 3}, {1, 1, 6}, {6, 1, 1}}) {
    const std::int64_t pairs = sections[0] + sections[1] + sections[2];
    const std::vector<std::uint8_t> is = axes_of(2 * pairs, {.sections = sections, .order = AxisOrder::interleaved});
    for (std::int64_t k = 0; k < pairs; ++k) {
      const bool height = k % 3 == 1 && k < 3 * sections[1];
      const bool width = k % 3 == 2 && k < 3 * sections[2];
      EXPECT_EQ(is[static_cast<std::size_t>(k)], height ? 1 : width ? 2 : 0) << k << " of " << pairs;
    }
  }
  EXPECT_EQ(axes_of(16, {.sections = {4, 4}, .order = AxisOrder::interleaved}), (std::vector<std::uint8_t>{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(axes_of(16, {.sections = {4, 2, 1, 1}, .order = AxisOrder::interleaved}), (std::vector<std::uint8_t>{0, 1, 2, 3, 0, 1, 0, 0}));
}

TEST(AxisOrders, published_interleaved_sections_are_what_the_rule_counts) {
  for (const auto& sections : {std::vector<std::int64_t>{24, 20, 20}, {11, 11, 10}}) {
    const std::int64_t pairs = sections[0] + sections[1] + sections[2];
    EXPECT_EQ(spec::pairs_of_axis({.head_dim = 2 * pairs, .axes = {.sections = sections, .order = AxisOrder::interleaved}}), sections);
  }
}

TEST(AxisOrders, alternating_axes_come_before_the_first) {
  EXPECT_EQ(axes_of(16, {.sections = {2, 3, 3}, .order = AxisOrder::alternating}), (std::vector<std::uint8_t>{1, 2, 1, 2, 1, 2, 0, 0}));
}

TEST(AxisOrders, given_axes_are_taken_as_they_are) {
  const std::vector<std::uint8_t> list = {3, 0, 0, 3};
  EXPECT_EQ(axes_of(8, {.order = AxisOrder::given, .axis_of_pair = list}), list);
  EXPECT_EQ(spec::axis_count({.head_dim = 8, .axes = {.order = AxisOrder::given, .axis_of_pair = list}}), 4);
}

}  // namespace
}  // namespace phasor::test

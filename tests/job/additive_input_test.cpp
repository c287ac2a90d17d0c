// SPDX-License-Identifier: Apache-2.0
// Specs and calls of sinusoidal encoding that do not fit: each is an error that says what is and what is wanted, and writes nothing.
#include <limits>

#include "phasor/additive.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

void expect_message(const Status& status, const std::string& wanted) {
  EXPECT_FALSE(status.ok()) << wanted;
  EXPECT_EQ(status.message(), wanted);
}

void expect_spec(const SinusoidalSpec& spec, const std::string& wanted) {
  expect_message(Sinusoidal::make(spec).status(), "SinusoidalSpec: " + wanted);
}

TEST(SinusoidalSpecs, that_do_not_fit_name_the_field) {
  const double infinity = std::numeric_limits<double>::infinity();
  expect_spec({}, "width is 0, wanted 1 to 1048576");
  expect_spec({.width = (1 << 20) + 1}, "width is 1048577, wanted 1 to 1048576");
  expect_spec({.width = 8, .axis_widths = {4, 3}}, "axis_widths sum to 7, wanted 8");
  expect_spec({.width = 8, .axis_widths = {4, 5}}, "axis_widths has 5, wanted numbers above 0 whose sum is 8");
  expect_spec({.width = 8, .axis_widths = {0, 8}}, "axis_widths has 0, wanted numbers above 0 whose sum is 8");
  expect_spec({.width = 8, .order = static_cast<SinusoidOrder>(9)}, "order is 9, wanted interleaved, sin_cos or cos_sin");
  expect_spec({.width = 8, .odd = static_cast<OddChannel>(2)}, "odd is 2, wanted zero or unpaired");
  expect_spec({.width = 8, .unit = static_cast<FrequencyUnit>(2)}, "unit is 2, wanted radians or turns");
  expect_spec({.width = 8, .position_scale = 0}, "position_scale is 0, wanted a finite number but 0");
  expect_spec({.width = 8, .position_scale = infinity}, "position_scale is inf, wanted a finite number but 0");
  expect_spec({.width = 8, .amplitude = 0}, "amplitude is 0, wanted 2^-64 to 2^64 (or below 0)");
  expect_spec({.width = 8, .ladder = GeometricLadder{.base = -1}}, "ladder.base is -1, wanted a finite number above 0");
  expect_spec({.width = 8, .ladder = GeometricLadder{.shift = 4}}, "ladder.shift is 4, wanted less than the 4 pairs of an axis");
  expect_spec({.width = 3, .ladder = GeometricLadder{.shift = 1.5}, .odd = OddChannel::unpaired},
              "ladder.shift is 1.5, wanted less than the 1.5 pairs of an axis");
  expect_spec({.width = 8, .ladder = GeometricLadder{.shift = infinity}}, "ladder.shift is inf, wanted a finite number");
  expect_spec({.width = 8, .ladder = LogSpacedLadder{.fastest = 0}}, "ladder.fastest is 0, wanted 2^-200 to 2^200");
  expect_spec({.width = 8, .ladder = LogSpacedLadder{.slowest = -2}}, "ladder.slowest is -2, wanted 2^-200 to 2^200");
  expect_spec({.width = 8, .ladder = BandLadder{.highest = -2}}, "ladder.highest is -2, wanted a finite number above 0");
  expect_spec({.width = 8, .ladder = BandLadder{.spacing = static_cast<BandLadder::Spacing>(3)}},
              "ladder.spacing is 3, wanted even or ratio");
  expect_spec({.width = 8, .ladder = BandLadder{}, .unit = FrequencyUnit::turns},
              "unit is turns, wanted radians: bands have their pi already");
  expect_spec({.width = 8, .ladder = GivenLadder{{1, 2, 3}}}, "ladder.frequencies has 3 elements, wanted 4");
  expect_spec({.width = 4, .ladder = GivenLadder{{1, infinity}}}, "ladder.frequencies has inf, wanted finite numbers");
  EXPECT_FALSE(Sinusoidal::make({.width = 4, .ladder = GivenLadder{{1, 0x1p65}}}).ok());
  EXPECT_FALSE(Sinusoidal::make({.width = 4, .ladder = GivenLadder{{1, 0x1p-131}}}).ok());
}

TEST(SinusoidalCalls, that_do_not_fit_say_so_and_write_nothing) {
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 6, .axis_widths = {2, 4}});
  Tensor<float> x({2, 3, 1, 6}, 1);
  const Tensor<float> before = x;
  const std::vector<std::int64_t> list(3 * 2 * 3, 1);
  Tensor<float> narrow({2, 3, 1, 5}, 1);
  Tensor<float> heads({2, 3, 2, 6}, 1);
  expect_message(sinusoidal.add(narrow.view(), positions_from(0)), "add_sinusoidal: x has 5 channels, the encoding has 6");
  expect_message(sinusoidal.fill(heads.view(), positions_from(0)), "fill_sinusoidal: out has 2 heads, wanted 1");
  expect_message(sinusoidal.add(x.view(), positions(list.data(), 3, 2, 3)),
                 "add_sinusoidal: positions have 3 axes, the spec wants 2, or 1 for all");
  expect_message(sinusoidal.add(x.view(), positions(list.data(), 4)), "add_sinusoidal: positions have 4 tokens, wanted 3");
  expect_message(sinusoidal.add(x.view(), positions_from(0), {.amplitude = 0.0}),
                 "add_sinusoidal: amplitude is 0, wanted 2^-64 to 2^64 (or below 0)");
  TensorView shifted = x.view();
  shifted.data = static_cast<float*>(shifted.data) + 1;
  expect_message(sinusoidal.add({x.view(), shifted}, positions_from(0)),
                 "add_sinusoidal: x's output overlaps its input, wanted the same elements or none");
  TensorView repeated = x.view();
  repeated.strides[1] = 0;
  EXPECT_FALSE(sinusoidal.fill(repeated, positions_from(0)).ok());
  const Positions inside = {.data = x.view().data, .type = PositionType::i32, .shape = {1, 1, 3}, .strides = {0, 0, 1}};
  expect_message(sinusoidal.fill(x.view(), inside), "fill_sinusoidal: positions overlap out, wanted memory apart");
  expect_message(sinusoidal.amplitude_gradient(narrow.view(), positions_from(0)).status(),
                 "amplitude_gradient: gradient has 5 channels, the encoding has 6");
  expect_message(sinusoidal.amplitude_gradient(heads.view(), positions_from(0)).status(),
                 "amplitude_gradient: gradient has 2 heads, wanted 1");
  expect_message(sinusoidal.amplitude_gradient(x.view(), positions(list.data(), 4)).status(),
                 "amplitude_gradient: positions have 4 tokens, wanted 3");
  EXPECT_TRUE(same_bits(x.memory, before.memory));
}

TEST(SinusoidalCalls, without_a_token_do_nothing) {
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 6});
  EXPECT_TRUE(sinusoidal.add(TensorView{nullptr, DType::f32, {0, 3, 1, 6}, {}}, positions_from(0)).ok());
  EXPECT_TRUE(sinusoidal.fill(TensorView{nullptr, DType::bf16, {2, 0, 1, 6}, {}}, positions_from(0)).ok());
  EXPECT_EQ(*sinusoidal.amplitude_gradient(TensorView{nullptr, DType::f32, {0, 3, 1, 6}, {}}, positions_from(0)), 0);
}

TEST(ShiftOperators, that_do_not_fit_say_so) {
  const Sinusoidal unpaired = *Sinusoidal::make({.width = 5, .odd = OddChannel::unpaired});
  expect_message(unpaired.shift(1).status(), "shift: the last channel is unpaired, wanted pairs: half a pair does not turn");
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 6, .axis_widths = {2, 2, 2}});
  const std::vector<double> two = {1, 2};
  expect_message(sinusoidal.shift(two).status(), "shift: distances has 2 elements, wanted 1 or 3");
  expect_message(sinusoidal.shift(std::nan("")).status(), "shift: distance is nan, wanted below 2^63");
  std::vector<double> values(5);
  expect_message(apply_shift(*sinusoidal.shift(1), values, values), "apply_shift: 5 channels become 5, wanted 6");
}

}  // namespace
}  // namespace phasor::test

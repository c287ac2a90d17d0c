// SPDX-License-Identifier: Apache-2.0
// A spec of every scaling, ladder and form, with a field of every kind away from its default, for tests of the serialised form.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "bias_specs.hpp"
#include "phasor/serialised.hpp"

namespace phasor::test {

struct NamedAnySpec {
  std::string name;
  AnySpec spec;
};

inline RotarySpec rotary_of(Scaling scaling) { return {.head_dim = 8, .scaling = std::move(scaling)}; }

inline std::vector<NamedAnySpec> rotary_specs() {
  const std::vector<double> four = {1, 1.0 / 3, 0x1.fffffffffffffp+9, 5e-324};
  return {
      {"plain", RotarySpec{.head_dim = 128}},
      {"linear", rotary_of(LinearScaling{.factor = 0.1})},
      {"ntk", rotary_of(NtkScaling{.alpha = 4})},
      {"ntk_mixed", rotary_of(NtkMixedScaling{.factor = 2, .mixed_exponent = 0.625})},
      {"dynamic", rotary_of(DynamicNtkScaling{.factor = 2, .trained_length = 2048, .length = 9999})},
      {"yarn", rotary_of(YarnScaling{.factor = 40,
                                     .original_length = 4096,
                                     .beta_fast = 31.5,
                                     .beta_slow = 1.5,
                                     .ramp = YarnRamp::exact,
                                     .attention_factor = 0.75,
                                     .mscale = 0.707,
                                     .mscale_all_dim = 0,
                                     .softmax = YarnSoftmax::unchanged})},
      {"longrope", rotary_of(LongRopeScaling{.short_factors = four,
                                             .long_factors = four,
                                             .original_length = 4096,
                                             .factor = 32,
                                             .attention_factor = 1.25,
                                             .choice = LongRopeChoice::long_factors,
                                             .length = 1})},
      {"llama3", RotarySpec{.head_dim = 128, .base = 500000, .scaling = Llama3Scaling{}}},
      {"proportional", rotary_of(ProportionalScaling{.factor = 8, .share = 0.25})},
      {"factors", rotary_of(GivenFactors{.factors = four, .amplitude = 1.1})},
      {"frequencies", rotary_of(GivenFrequencies{.frequencies = {-0.0, 0, -1e-300, 0x1p63}, .amplitude = 0x1p-64})},
      {"directions", rotary_of(GivenDirections{.axes = 2, .heads = 2, .frequencies = numbers(16, 1)})},
      {"everything", RotarySpec{.head_dim = 24,
                                .rotary_width = 16,
                                .rotary_offset = 4,
                                .base = 10000.5,
                                .pairing = Pairing::interleaved,
                                .output_pairing = Pairing::half,
                                .sense = Sense::clockwise,
                                .numerics = Numerics::hf_float32}},
      {"sections", RotarySpec{.head_dim = 16, .axes = {.sections = {2, 3, 3}, .order = AxisOrder::interleaved}}},
      {"axis_of_pair", RotarySpec{.head_dim = 8, .axes = {.order = AxisOrder::given, .axis_of_pair = {0, 1, 2, 1}}}},
      {"vision", RotarySpec{.head_dim = 16, .axes = {.sections = {4, 4}, .ladder = AxisLadder::own}, .unit = FrequencyUnit::turns}},
  };
}

inline std::vector<NamedAnySpec> sinusoidal_specs() {
  return {
      {"sinusoidal", SinusoidalSpec{.width = 512}},
      {"log_spaced", SinusoidalSpec{.width = 8, .ladder = LogSpacedLadder{.fastest = 2, .slowest = 1e-5}}},
      {"band", SinusoidalSpec{.width = 8, .ladder = BandLadder{.highest = 16, .spacing = BandLadder::Spacing::ratio}}},
      {"given_ladder", SinusoidalSpec{.width = 4, .ladder = GivenLadder{.frequencies = {1, -0.5}}}},
      {"every_field", SinusoidalSpec{.width = 9,
                                     .ladder = GeometricLadder{.base = 100, .shift = 1},
                                     .order = SinusoidOrder::cos_sin,
                                     .unit = FrequencyUnit::turns,
                                     .position_scale = 1000,
                                     .amplitude = -0.125,
                                     .zero_position = -3}},
      {"two_axes", SinusoidalSpec{.width = 12, .order = SinusoidOrder::sin_cos, .axis_widths = {4, 8}}},
      {"unpaired", SinusoidalSpec{.width = 7, .odd = OddChannel::unpaired}},
  };
}

inline std::vector<NamedAnySpec> scheme_specs() {
  const BiasSpec alibi = Alibi{.heads = 4, .form = AlibiForm::causal};
  return {
      {"plain_attention", AttentionScheme{}},
      {"skipping", AttentionScheme{.terms = {BiasScheme{.bias = alibi}}, .mask = Mask::causal, .skip = TileSkip::certified}},
      {"every_number", AttentionScheme{.content_shift = true,
                                       .scale = 1.0 / 3,
                                       .softcap = 30,
                                       .sinks = true,
                                       .mask = Mask::causal,
                                       .left = 4096,
                                       .right = 0,
                                       .dropout = 0.1}},
      {"every_term",
       AttentionScheme{
           .terms = {BiasScheme{.bias = T5Buckets{.heads = 8}, .first_head = 4, .gate = true, .parameters = true},
                     TableScheme{.rows = ClipRows{.left = 3, .right = 2, .outside = OutsideRows::zero}, .features = true, .shift = true},
                     TableScheme{.side = TableSide::key, .rows = BiasSpec(DebertaBuckets{.heads = 1}), .scale = -0.0},
                     TableScheme{.side = TableSide::value}, SegmentScheme{.shift = true, .scale = 0.25},
                     GridScheme{.window = {7, 7}, .class_token = ClassToken::first},
                     DecomposedScheme{.query_grid = {2, 3}, .key_grid = {4, 6}, .scale = 2}, DenseScheme{},
                     CopeScheme{.gate_scale = 0.5, .scale = 0.125}},
           .mask = Mask::causal}},
      {"rotary_attention", AttentionScheme{.content = RotaryScheme{.rotary = {.head_dim = 64}, .keys = KeyState::rotated}}},
      {"rerope", AttentionScheme{.content = RotaryScheme{.rotary = {.head_dim = 64}, .map = ReRope{.window = 512}}, .mask = Mask::causal}},
      {"leaky", AttentionScheme{.content = RotaryScheme{.rotary = {.head_dim = 8}, .map = LeakyReRope{.window = 5, .factor = 8}},
                                .mask = Mask::causal}},
      {"self_extend", AttentionScheme{.content = RotaryScheme{.rotary = {.head_dim = 8}, .map = SelfExtend{.window = 5, .group = 4}},
                                      .mask = Mask::causal}},
      {"dual_chunk",
       AttentionScheme{.content = RotaryScheme{.rotary = {.head_dim = 8}, .map = DualChunk{.chunk = 8, .local = 2, .critical = true}},
                       .mask = Mask::causal}},
      {"xpos", AttentionScheme{.content = XposScheme{.rotary = {.head_dim = 64}, .gamma = 0.5, .scale_base = 256}}},
  };
}

/// Every bias of bias_specs.hpp, and those of all types above.
inline std::vector<NamedAnySpec> any_specs() {
  std::vector<NamedAnySpec> list = rotary_specs();
  for (NamedAnySpec& one : sinusoidal_specs()) list.push_back(std::move(one));
  for (NamedBias& one : every_bias()) list.push_back({one.name, std::move(one.spec)});
  list.push_back({"alibi_bf16", Alibi{.heads = 2, .rounding = SlopeRounding::bf16}});
  for (NamedAnySpec& one : scheme_specs()) list.push_back(std::move(one));
  return list;
}

inline Result<std::string> text_of(const AnySpec& spec) {
  return std::visit([](const auto& one) { return spec_to_json(one); }, spec);
}

}  // namespace phasor::test

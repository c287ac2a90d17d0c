// SPDX-License-Identifier: Apache-2.0
// Models by hand, with the parameters their makers published: what explain and diff are tested on.
#pragma once

#include "phasor/model.hpp"

namespace phasor::models {

inline ModelPositions of(const char* type, std::size_t layers, const LayerPositions& layer) {
  ModelPositions model;
  model.dialect = "huggingface";
  model.model_type = type;
  model.layers.assign(layers, layer);
  return model;
}

inline LayerPositions rotary_layer(const RotarySpec& spec) {
  LayerPositions layer;
  layer.rotary = spec;
  return layer;
}

inline ModelPositions llama31() {
  const RotarySpec spec{.head_dim = 128,
                        .base = 500000,
                        .scaling = Llama3Scaling{.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_length = 8192}};
  ModelPositions model = of("llama", 32, rotary_layer(spec));
  model.trained_length = 8192;
  model.length = 131072;
  return model;
}

/// 4B: five layers of a window of 1024, then one that sees everything.
inline ModelPositions gemma3() {
  LayerPositions local = rotary_layer({.head_dim = 256, .base = 10000});
  local.type = "sliding_attention";
  local.window = 1024;
  local.attention_scale = 1.0 / 16;
  LayerPositions global = rotary_layer({.head_dim = 256, .base = 1000000, .scaling = LinearScaling{8}});
  global.type = "full_attention";
  global.attention_scale = 1.0 / 16;
  ModelPositions model = of("gemma3_text", 34, local);
  for (std::size_t i = 5; i < model.layers.size(); i += 6) model.layers[i] = global;
  model.length = 131072;
  return model;
}

/// 20B.
inline ModelPositions gpt_oss() {
  LayerPositions full = rotary_layer(
      {.head_dim = 64,
       .base = 150000,
       .scaling = YarnScaling{.factor = 32, .original_length = 4096, .beta_fast = 32, .beta_slow = 1, .ramp = YarnRamp::exact}});
  full.type = "full_attention";
  LayerPositions sliding = full;
  sliding.type = "sliding_attention";
  sliding.window = 128;
  ModelPositions model = of("gpt_oss", 24, full);
  for (std::size_t i = 0; i < model.layers.size(); i += 2) model.layers[i] = sliding;
  model.trained_length = 4096;
  model.length = 131072;
  return model;
}

/// 7B, with its vision tower.
inline ModelPositions qwen2_vl() {
  ModelPositions model = of("qwen2_vl", 28, rotary_layer({.head_dim = 128, .base = 1000000, .axes = {.sections = {16, 24, 24}}}));
  model.trained_length = model.length = 32768;
  const RotarySpec vision{.head_dim = 80, .base = 10000, .axes = {.sections = {20, 20}, .ladder = AxisLadder::own}};
  model.towers.emplace_back();
  model.towers[0].name = "vision";
  model.towers[0].layers.assign(32, rotary_layer(vision));
  return model;
}

inline ModelPositions deepseek_v3() {
  LayerPositions layer =
      rotary_layer({.head_dim = 192,
                    .rotary_width = 64,
                    .rotary_offset = 128,
                    .base = 10000,
                    .scaling = YarnScaling{.factor = 40, .original_length = 4096, .attention_factor = {}, .mscale = 1, .mscale_all_dim = 1},
                    .pairing = Pairing::interleaved,
                    .output_pairing = Pairing::half});
  ModelPositions model = of("deepseek_v3", 61, layer);
  model.trained_length = 4096;
  model.length = 163840;
  return model;
}

/// 176B: 112 heads, no power of two.
inline ModelPositions bloom() {
  LayerPositions layer;
  layer.bias = ModelBias{.kind = ModelBias::Kind::alibi, .heads = 112};
  ModelPositions model = of("bloom", 70, layer);
  model.trained_length = 2048;
  return model;
}

inline ModelPositions bert() {
  LayerPositions layer;
  layer.additive = ModelAdditive{.kind = ModelAdditive::Kind::learned, .length = 512, .width = 768};
  ModelPositions model = of("bert", 12, layer);
  model.trained_length = model.length = 512;
  return model;
}

/// Scout: every fourth layer knows no positions, and its queries grow with theirs.
inline ModelPositions llama4() {
  LayerPositions rope = rotary_layer({.head_dim = 128, .base = 500000, .pairing = Pairing::interleaved});
  rope.numerics = Numerics::hf_float32;
  LayerPositions none;
  none.query_temperature = QueryTemperature{.kind = QueryTemperature::Kind::floored_log, .scale = 0.1, .length = 8192, .shift = 1};
  ModelPositions model = of("llama4_text", 48, rope);
  for (std::size_t i = 3; i < model.layers.size(); i += 4) model.layers[i] = none;
  model.length = 10485760;
  return model;
}

inline ModelPositions t5() {
  LayerPositions layer;
  layer.bias = ModelBias{.kind = ModelBias::Kind::t5_buckets, .heads = 8, .buckets = 32, .max_distance = 128, .bidirectional = true};
  layer.attention_scale = 1;
  return of("t5", 6, layer);
}

}  // namespace phasor::models

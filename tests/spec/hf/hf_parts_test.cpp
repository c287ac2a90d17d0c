// SPDX-License-Identifier: Apache-2.0
// Towers of multimodal models, image encoders, and models that bias scores or add positions to tokens, by name.
#include <cmath>

#include "spec/hf/hf_golden.hpp"

namespace phasor::test {
namespace {

constexpr Pairing half = Pairing::half;
constexpr Pairing interleaved = Pairing::interleaved;

const LayerPositions& layer_of(const ModelPositions& model, std::size_t i) { return model.layers.at(i); }

// ---- Towers ----

TEST(HfParts, multimodal_models_have_their_towers) {
  const std::pair<const char*, std::vector<std::string>> wanted[] = {{"qwen2_vl", {"vision"}},   {"qwen2_5_vl", {"vision"}},
                                                                     {"qwen3_vl", {"vision"}},   {"qwen2_5_omni", {"vision", "audio"}},
                                                                     {"llama4", {"vision"}},     {"mistral3", {"vision"}},
                                                                     {"glm4v", {"vision"}},      {"gemma4", {"vision"}},
                                                                     {"mllama", {"vision"}},     {"ernie4_5_vl_moe", {"vision"}},
                                                                     {"whisper", {"encoder"}},   {"t5", {"encoder"}},
                                                                     {"hunyuan_vl", {"vision"}}, {"qwen3_omni_moe", {"vision", "audio"}}};
  for (const auto& [name, towers] : wanted) {
    std::vector<std::string> found;
    for (const ModelTower& tower : test::parsed_golden(name).towers) found.push_back(tower.name);
    EXPECT_EQ(found, towers) << name;
  }
}

const RotarySpec& vision(const ModelPositions& model) { return model.towers.at(0).layers.at(0).rotary.value(); }

TEST(HfParts, image_encoders_rotate_by_rows_and_columns_each_in_its_way) {
  const ModelPositions qwen = test::parsed_golden("qwen2_vl");
  EXPECT_EQ(vision(qwen).head_dim, 80);
  EXPECT_EQ(vision(qwen).axes.ladder, AxisLadder::own);
  EXPECT_EQ(vision(qwen).axes.sections, (std::vector<std::int64_t>{20, 20}));
  EXPECT_EQ(qwen.towers[0].layers.size(), 32U);
  EXPECT_EQ(qwen.towers[0].layers[0].numerics, Numerics::hf_float32);
  const ModelPositions pixtral = test::parsed_golden("mistral3");
  EXPECT_EQ(vision(pixtral).axes.ladder, AxisLadder::dealt);
  EXPECT_EQ(vision(pixtral).pairing, half);
  const ModelPositions llama4 = test::parsed_golden("llama4");
  EXPECT_EQ(vision(llama4).pairing, interleaved);
  EXPECT_EQ(llama4.towers[0].layers[0].first_position, 1);
  const ModelPositions gemma4 = test::parsed_golden("gemma4");
  EXPECT_EQ(vision(gemma4).segments, 2);
  EXPECT_EQ(vision(gemma4).base, 100);
}

TEST(HfParts, vision_models_of_their_own_are_read) {
  const RotarySpec sam2 = layer_of(test::parsed_golden("sam2_video"), 0).rotary.value();
  EXPECT_EQ(sam2.pairing, interleaved);
  EXPECT_EQ(sam2.axes.sections, (std::vector<std::int64_t>{64, 64}));
  const RotarySpec vjepa2 = layer_of(test::parsed_golden("vjepa2"), 0).rotary.value();
  EXPECT_EQ(vjepa2.rotary_width, 60);
  EXPECT_EQ(vjepa2.segments, 3);
  EXPECT_EQ(vjepa2.lanes, Lanes::per_channel_frequencies);
  EXPECT_EQ(vjepa2.axes.sections, (std::vector<std::int64_t>{10, 10, 10}));
  const LayerPositions dinov3 = layer_of(test::parsed_golden("dinov3_vit"), 0);
  EXPECT_EQ(dinov3.rotary->unit, FrequencyUnit::turns);
  EXPECT_EQ(dinov3.rotary->base, 100);
  EXPECT_EQ(dinov3.skipped_tokens, 5);
}

TEST(HfParts, an_older_qwen2_vl_file_with_text_keys_on_top_is_read) {
  const ModelPositions model = test::parsed(
      R"({"model_type": "qwen2_vl", "hidden_size": 1536, "num_attention_heads": 12, "num_hidden_layers": 2, "rope_theta": 1000000.0,
    "max_position_embeddings": 32768, "use_sliding_window": false, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "vision_config": {"depth": 32, "embed_dim": 1280, "hidden_size": 1536, "model_type": "qwen2_vl", "num_heads": 16}})");
  EXPECT_EQ(layer_of(model, 0).rotary->axes.sections, (std::vector<std::int64_t>{16, 24, 24}));
  EXPECT_EQ(layer_of(model, 0).rotary->axes.order, AxisOrder::chunked);
  EXPECT_EQ(vision(model).head_dim, 80);
  EXPECT_EQ(model.warnings, std::vector<std::string>{});
}

// ---- Biases and additions ----

TEST(HfParts, biases_are_read) {
  const ModelBias bloom = layer_of(test::parsed_golden("bloom"), 0).bias.value();
  EXPECT_EQ(bloom.kind, ModelBias::Kind::alibi);
  EXPECT_EQ(bloom.heads, 8);
  EXPECT_EQ(layer_of(test::parsed_golden("mpt"), 0).bias.value().max_alibi, 8);
  const ModelPositions falcon =
      test::parsed(R"({"model_type": "falcon", "alibi": true, "num_attention_heads": 64, "num_hidden_layers": 2})");
  EXPECT_EQ(layer_of(falcon, 0).bias.value().heads, 64);
  EXPECT_FALSE(layer_of(falcon, 0).rotary);
  const ModelPositions t5 = test::parsed_golden("t5");
  EXPECT_EQ(layer_of(t5, 0).bias.value().buckets, 32);
  EXPECT_FALSE(layer_of(t5, 0).bias.value().bidirectional);
  EXPECT_TRUE(t5.towers[0].layers[0].bias.value().bidirectional);
  EXPECT_EQ(layer_of(t5, 0).attention_scale, 1);
  EXPECT_EQ(layer_of(test::parsed_golden("xlnet"), 0).bias.value().kind, ModelBias::Kind::xlnet);
  const LayerPositions deberta = layer_of(test::parsed_golden("deberta-v2"), 0);
  EXPECT_EQ(deberta.bias.value().buckets, 256);
  EXPECT_EQ(deberta.bias.value().max_distance, 512);
  EXPECT_DOUBLE_EQ(deberta.attention_scale.value(), 1 / std::sqrt(64.0 * 3));
  EXPECT_FALSE(deberta.additive);
  const ModelPositions swin = test::parsed(R"({"model_type": "swin", "depths": [2, 6], "num_heads": [3, 6], "window_size": 7})");
  EXPECT_EQ(swin.layers.size(), 8U);
  EXPECT_EQ(layer_of(swin, 7).bias.value().heads, 6);
}

TEST(HfParts, added_positions_are_read) {
  EXPECT_EQ(layer_of(test::parsed_golden("bert"), 0).additive.value().length, 512);
  EXPECT_EQ(layer_of(test::parsed_golden("gpt2"), 0).additive.value().length, 1024);
  const ModelPositions roberta = test::parsed_golden("roberta");
  EXPECT_EQ(layer_of(roberta, 0).additive.value().first_position, 2);
  EXPECT_EQ(roberta.length, 510);
  EXPECT_EQ(layer_of(test::parsed_golden("opt"), 0).additive.value().first_position, 2);
  EXPECT_EQ(layer_of(test::parsed_golden("opt"), 0).additive.value().length, 2050);
  const ModelPositions whisper = test::parsed_golden("whisper");
  EXPECT_EQ(layer_of(whisper, 0).additive.value().kind, ModelAdditive::Kind::learned);
  EXPECT_EQ(layer_of(whisper, 0).additive.value().length, 448);
  EXPECT_EQ(whisper.towers[0].layers[0].additive.value().kind, ModelAdditive::Kind::sinusoidal);
  EXPECT_EQ(whisper.towers[0].layers[0].additive.value().length, 1500);
}

}  // namespace
}  // namespace phasor::test

// SPDX-License-Identifier: Apache-2.0
// Every model by name: pairing, width, offset, axes, windows, layers without rotary, temperature, scale and the rest, written by hand.
#include <algorithm>
#include <sstream>

#include "spec/hf/hf_golden.hpp"

namespace phasor::test {
namespace {

constexpr Pairing half = Pairing::half;
constexpr Pairing interleaved = Pairing::interleaved;

/// The first rotary layer of a recorded model, and what its layers have in common.
struct Expected {
  const char* name;
  std::int64_t head_dim;
  std::int64_t width;
  double base;
  Pairing pairing = half;
  Pairing output = half;
  std::int64_t offset = 0;
  std::int64_t window = 0;      // largest of any layer
  std::uint32_t unrotated = 0;  // bit i: layer i does not rotate
  Numerics numerics = Numerics::hf;
};

constexpr Numerics in_float32 = Numerics::hf_float32;
constexpr Numerics upcast = Numerics::vllm;

// Seven layers each, unless the record says otherwise.
const Expected table[] = {
    {"llama", 128, 128, 1e4},
    {"llama-3.1", 128, 128, 5e5},
    {"v4-llama-3.1", 128, 128, 5e5},
    {"llama4_text", 128, 128, 5e5, interleaved, interleaved, 0, 0, 0b0001000, in_float32},
    {"qwen2", 128, 128, 1e4},
    {"qwen2.5-yarn", 128, 128, 1e6},
    {"qwen3", 128, 128, 1e4},
    {"qwen3_moe", 64, 64, 1e4},
    {"qwen3_next", 256, 64, 1e4, half, half, 0, 0, 0b1110111},
    {"qwen2_vl", 128, 128, 1e6},
    {"qwen2_5_vl", 128, 128, 1e6},
    {"qwen3_vl", 128, 128, 5e5},
    {"qwen3_5", 256, 64, 1e4, half, half, 0, 0, 0b10111},
    {"mistral", 128, 128, 1e4, half, half, 0, 4096},
    {"ministral", 128, 128, 1e4, half, half, 0, 4096},
    {"ministral3", 128, 128, 1e6},
    {"mistral4", 128, 64, 1e4, interleaved, half, 64},
    {"mixtral", 128, 128, 1e6},
    {"gemma", 256, 256, 1e4},
    {"gemma2", 256, 256, 1e4, half, half, 0, 4096},
    {"gemma3_text", 256, 256, 1e4, half, half, 0, 4096},
    {"gemma3n_text", 256, 256, 1e4, half, half, 0, 512},
    {"gemma4_text", 256, 256, 1e4, half, half, 0, 512},
    {"gpt_oss", 64, 64, 1.5e5, half, half, 0, 128},
    {"phi", 64, 32, 1e4},
    {"v4-phi", 80, 32, 1e4},
    {"phi3", 96, 96, 1e4},
    {"phimoe", 128, 128, 1e6},
    {"phi4_multimodal", 96, 96, 1e4},
    {"gptj", 256, 64, 1e4, interleaved, interleaved, 0, 0, 0, in_float32},
    {"codegen", 256, 64, 1e4, interleaved, interleaved, 0, 0, 0, in_float32},
    {"gpt_neox", 96, 24, 1e4},
    {"v4-gpt_neox", 64, 24, 2e4},
    {"stablelm", 80, 20, 1e4},
    {"persimmon", 64, 32, 1e4},
    {"nemotron", 128, 64, 1e4},
    {"cohere", 128, 128, 5e5, interleaved, interleaved, 0, 0, 0, upcast},
    {"cohere2", 128, 128, 1e4, interleaved, interleaved, 0, 4096, 0b0001000, upcast},
    {"glm", 128, 64, 1e4, interleaved, interleaved},
    {"glm4", 128, 64, 1e4, interleaved, interleaved},
    {"glm4v", 128, 64, 1e4, interleaved, interleaved},
    {"glm4.5", 128, 64, 1e4},
    {"glm_moe_dsa", 256, 64, 1e4, interleaved, half, 192},
    {"glm4_moe_lite", 256, 64, 1e4, interleaved, half, 192},
    {"ernie4_5", 128, 128, 5e5, interleaved, interleaved, 0, 0, 0, in_float32},
    {"ernie4_5_moe", 128, 128, 5e5, interleaved, interleaved, 0, 0, 0, in_float32},
    {"ernie4_5_vl_moe", 128, 128, 5e5, interleaved, interleaved, 0, 0, 0, in_float32},
    {"deepseek_v2", 192, 64, 1e4, interleaved, interleaved, 128, 0, 0, in_float32},
    {"deepseek_v3", 192, 64, 1e4, interleaved, half, 128},
    {"v4-deepseek_v3", 192, 64, 1e4, interleaved, half, 128},
    {"deepseek_v32", 192, 64, 1e4, interleaved, half, 128},
    {"deepseek_v4", 512, 64, 1.6e5, interleaved, interleaved, 448, 0, 0, upcast},
    {"longcat_flash", 192, 64, 1e7, interleaved, half, 128},
    {"youtu", 192, 64, 1e4, interleaved, half, 128},
    {"minicpm3", 96, 32, 1e4, half, half, 64},
    {"hunyuan_v1_dense", 128, 128, 1e4},
    {"hunyuan_v1_moe", 128, 128, 1e4},
    {"hunyuan_vl", 128, 128, 1e4},
    {"mimo_v2_flash", 192, 64, 5e6, half, half, 0, 129},
    {"v4-mimo", 192, 64, 5e6, half, half, 0, 129},
    {"olmo2", 128, 128, 1e4},
    {"olmo3", 128, 128, 5e5, half, half, 0, 4096},
    {"falcon", 64, 64, 1e4},
    {"modernbert", 64, 64, 1.6e5, half, half, 0, 128, 0, upcast},
    {"v4-modernbert", 64, 64, 1.7e5, half, half, 0, 64, 0, upcast},
    {"roformer", 64, 64, 1e4, interleaved, interleaved},
    {"nanochat", 128, 128, 1e4},
    {"helium", 128, 128, 1e5, interleaved, interleaved},
    {"smollm3", 128, 128, 2e6, half, half, 0, 0, 0b0001000},
    {"granite", 128, 128, 1e4},
    {"granite_swa-nope", 128, 128, 1e4, half, half, 0, 128, 0b0010001},
    {"exaone4", 128, 128, 1e4, half, half, 0, 4096, 0b0001000},
    {"laguna", 128, 64, 5e5},
    {"zaya", 128, 64, 5e6},
    {"minimax", 128, 128, 1e6, half, half, 0, 0, 0b0101010},
    {"minimax_m2-partial", 128, 64, 5e6},
};

TEST(HfModels, every_model_of_the_table_reads_as_written_here_by_hand) {
  for (const Expected& row : table) {
    const ModelPositions model = test::parsed_golden(row.name);
    const RotarySpec* first = nullptr;
    std::int64_t window = 0;
    std::uint32_t unrotated = 0;
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const LayerPositions& layer = model.layers[i];
      if (!layer.rotary) unrotated |= i < 32 ? 1U << i : 0U;
      if (layer.rotary && first == nullptr) first = &*layer.rotary;
      window = std::max(window, layer.window);
      EXPECT_EQ(layer.numerics, row.numerics) << row.name;
    }
    ASSERT_NE(first, nullptr) << row.name;
    EXPECT_EQ(first->head_dim, row.head_dim) << row.name;
    EXPECT_EQ(first->rotary_width, row.width) << row.name;
    EXPECT_EQ(first->rotary_offset, row.offset) << row.name;
    EXPECT_EQ(first->base, row.base) << row.name;
    EXPECT_EQ(first->pairing, row.pairing) << row.name;
    EXPECT_EQ(first->output_pairing.value_or(first->pairing), row.output) << row.name;
    EXPECT_EQ(first->numerics, Numerics::exact) << row.name;
    EXPECT_EQ(window, row.window) << row.name;
    EXPECT_EQ(unrotated, row.unrotated) << row.name;
    EXPECT_EQ(model.warnings, (row.name == std::string("phi4_multimodal") ? model.warnings : std::vector<std::string>{})) << row.name;
  }
}

const LayerPositions& layer_of(const ModelPositions& model, std::size_t i) { return model.layers.at(i); }

// ---- Scalings ----

TEST(HfModels, gpt_oss_has_yarn_without_truncation_on_every_layer) {
  const ModelPositions model = test::parsed_golden("gpt_oss");
  for (const LayerPositions& layer : model.layers) {
    const auto& yarn = std::get<YarnScaling>(layer.rotary->scaling);
    EXPECT_EQ(yarn.factor, 32);
    EXPECT_EQ(yarn.original_length, 4096);
    EXPECT_EQ(yarn.ramp, YarnRamp::exact);
  }
  EXPECT_EQ(layer_of(model, 0).window, 128);
  EXPECT_EQ(layer_of(model, 1).window, 0);
  EXPECT_EQ(model.trained_length, 4096);
  EXPECT_EQ(model.length, 131072);
}

TEST(HfModels, only_latent_attention_squares_mscale_all_dim_into_the_softmax) {
  for (const char* name : {"deepseek_v2-yarn", "deepseek_v3-yarn", "mistral4"}) {
    EXPECT_EQ(std::get<YarnScaling>(layer_of(test::parsed_golden(name), 0).rotary->scaling).softmax, YarnSoftmax::mscale_all_dim_squared)
        << name;
  }
  EXPECT_EQ(std::get<YarnScaling>(layer_of(test::parsed_golden("ministral3"), 0).rotary->scaling).softmax, YarnSoftmax::unchanged);
}

TEST(HfModels, deepseek_v4_scales_compressed_layers_only_and_turns_its_output_back) {
  const std::string text =
      R"({"model_type": "deepseek_v4", "num_hidden_layers": 3, "compress_ratios": [0, 4, 128, 4], "qk_rope_head_dim": 64, "head_dim": 512,
    "rope_theta": 10000, "compress_rope_theta": 160000, "sliding_window": 128,
    "rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536, "beta_fast": 32, "beta_slow": 1}})";
  const ModelPositions model = test::parsed(text);
  EXPECT_EQ(layer_of(model, 0).type, "sliding_attention");
  EXPECT_EQ(layer_of(model, 0).rotary->base, 10000);
  EXPECT_TRUE(std::holds_alternative<Unscaled>(layer_of(model, 0).rotary->scaling));
  EXPECT_EQ(layer_of(model, 0).window, 128);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(layer_of(model, i).output_turned_back);
    EXPECT_EQ(layer_of(model, i).rotary->rotary_offset, 448);
  }
  EXPECT_EQ(layer_of(model, 1).rotary->base, 160000);
  EXPECT_EQ(std::get<YarnScaling>(layer_of(model, 2).rotary->scaling).attention_factor, 1);
}

TEST(HfModels, gemma3_and_4_have_two_bases_and_gemma4_two_heads) {
  const ModelPositions gemma3 = test::parsed_golden("gemma3-linear");
  EXPECT_EQ(layer_of(gemma3, 5).rotary->base, 1e6);
  EXPECT_EQ(std::get<LinearScaling>(layer_of(gemma3, 5).rotary->scaling).factor, 8);
  EXPECT_TRUE(std::holds_alternative<Unscaled>(layer_of(gemma3, 0).rotary->scaling));
  EXPECT_EQ(layer_of(gemma3, 0).attention_scale, 1.0 / 16);
  const ModelPositions gemma4 = test::parsed_golden("gemma4_text");
  EXPECT_EQ(layer_of(gemma4, 5).rotary->head_dim, 512);
  EXPECT_EQ(layer_of(gemma4, 5).rotary->rotary_width, 512);
  EXPECT_EQ(std::get<ProportionalScaling>(layer_of(gemma4, 5).rotary->scaling).share, 0.25);
  EXPECT_EQ(layer_of(gemma4, 0).attention_scale, 1);
}

TEST(HfModels, a_gemma4_file_without_rope_parameters_means_the_same) {
  const ModelPositions model = test::parsed(R"({"model_type": "gemma4_text", "num_hidden_layers": 7})");
  EXPECT_EQ(layer_of(model, 0).rotary->base, 1e4);
  EXPECT_EQ(layer_of(model, 5).rotary->base, 1e6);
  EXPECT_EQ(layer_of(model, 5).rotary->head_dim, 512);
  EXPECT_EQ(std::get<ProportionalScaling>(layer_of(model, 5).rotary->scaling).share, 0.25);
  EXPECT_EQ(layer_of(model, 6).type, "full_attention");
}

TEST(HfModels, hunyuan_has_a_fixed_alpha) {
  EXPECT_EQ(std::get<NtkScaling>(layer_of(test::parsed_golden("hunyuan-alpha"), 0).rotary->scaling).alpha, 1000);
}

TEST(HfModels, nanochat_turns_clockwise) {
  EXPECT_EQ(layer_of(test::parsed_golden("nanochat"), 0).rotary->sense, Sense::clockwise);
  EXPECT_EQ(layer_of(test::parsed_golden("llama"), 0).rotary->sense, Sense::counterclockwise);
}

// ---- Temperatures and scales ----

TEST(HfModels, llama4_tempers_queries_where_it_does_not_rotate_and_chunks_where_it_does) {
  const ModelPositions model = test::parsed_golden("llama4_text");
  EXPECT_EQ(layer_of(model, 0).chunk, 8192);
  EXPECT_FALSE(layer_of(model, 0).query_temperature);
  const QueryTemperature& temperature = layer_of(model, 3).query_temperature.value();
  EXPECT_EQ(temperature.kind, QueryTemperature::Kind::floored_log);
  EXPECT_EQ(temperature.scale, 0.1);
  EXPECT_EQ(temperature.length, 8192);
  EXPECT_EQ(temperature.shift, 1);
  EXPECT_EQ(layer_of(model, 3).chunk, 0);
}

TEST(HfModels, ministral3_and_mistral4_temper_every_query_beyond_the_original_length) {
  for (const auto& [name, length] : {std::pair("ministral3", 16384), std::pair("mistral4", 8192)}) {
    const QueryTemperature temperature = layer_of(test::parsed_golden(name), 0).query_temperature.value();
    EXPECT_EQ(temperature.scale, 0.1) << name;
    EXPECT_EQ(temperature.length, length) << name;
    EXPECT_EQ(temperature.shift, 0) << name;
  }
}

TEST(HfModels, granite_multiplies_by_its_own_scale) {
  EXPECT_EQ(layer_of(test::parsed(R"({"model_type": "granite", "attention_multiplier": 0.0078125})"), 0).attention_scale, 0.0078125);
}

TEST(HfModels, qwen1_tempers_by_log_n) {
  const ModelPositions model =
      test::parsed(R"({"model_type": "qwen", "seq_length": 2048, "kv_channels": 128, "rotary_pct": 1.0, "rotary_emb_base": 10000,
    "use_dynamic_ntk": true, "use_logn_attn": true, "num_hidden_layers": 2, "max_position_embeddings": 2048})");
  EXPECT_EQ(layer_of(model, 0).query_temperature.value().kind, QueryTemperature::Kind::log_n);
  EXPECT_EQ(layer_of(model, 0).query_temperature.value().length, 2048);
  EXPECT_EQ(model.warnings.size(), 1U);
}

TEST(HfModels, every_model_that_the_project_names_is_in_the_table) {
  std::istringstream named(
      "llama llama4 mllama qwen qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe "
      "qwen2_5_omni qwen3_omni_moe qwen3_5 mistral ministral ministral3 mistral4 mixtral gemma gemma2 gemma3 gemma3_text "
      "gemma3n gemma4 gpt_oss phi phi3 phimoe phi4_multimodal gptj gpt_neox codegen stablelm persimmon nemotron cohere "
      "cohere2 glm glm4 glm4v glm4_moe glm4v_moe glm_moe_dsa ernie4_5 ernie4_5_moe ernie4_5_vl_moe deepseek_v2 deepseek_v3 "
      "deepseek_v32 deepseek_v4 hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl mimo_v2_flash olmo2 falcon bloom mpt t5 bert "
      "roberta opt gpt2 modernbert roformer xlnet deberta deberta-v2 whisper pixtral sam2 sam2_video vjepa2 dinov3_vit "
      "nanochat helium smollm3 granite longcat_flash youtu laguna zaya");
  for (std::string type; named >> type;) {
    const auto model = parse_hf_config("{\"model_type\": \"" + type + "\", \"num_hidden_layers\": 4, \"head_dim\": 128}");
    // Models of several axes whose default sections want another width are still known: only then may an error name the sections.
    if (model) {
      EXPECT_EQ(model->warnings, std::vector<std::string>{}) << type;
    } else {
      EXPECT_NE(model.status().message().find("mrope_section"), std::string::npos) << type << ": " << model.status().message();
    }
  }
}

}  // namespace
}  // namespace phasor::test

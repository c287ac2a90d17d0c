// SPDX-License-Identifier: Apache-2.0
// GGUF: files written by the gguf package against the formulas of transformers, and each key by itself.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "gguf_bytes.hpp"
#include "golden_file.hpp"
#include "phasor/model.hpp"
#include "spec/gguf/architectures.hpp"

namespace phasor::test {
namespace {

// Files and truth are float32: a few roundings on either side.
constexpr double float32_error = 4 * 0x1p-24;

ModelPositions parse(const std::string& bytes, const ReadOptions& options = {}) {
  Result<ModelPositions> model = parse_gguf(as_bytes(bytes), options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model ? *model : ModelPositions{};
}

std::string message_of(const std::string& bytes) { return parse_gguf(as_bytes(bytes)).status().message(); }

/// transformers rounds the exponent to float32 too, which costs a frequency ln(base) times as much.
void expect_near(const std::vector<double>& are, const std::vector<double>& wanted, double base) {
  ASSERT_EQ(are.size(), wanted.size());
  const double error = float32_error + std::log(base) * 0x1p-24;
  for (std::size_t i = 0; i < are.size(); ++i) EXPECT_NEAR(are[i], wanted[i], std::fabs(wanted[i]) * error) << "pair " << i;
}

void expect_rotary(const LayerPositions& layer, const nlohmann::json& truth) {
  ASSERT_TRUE(layer.rotary.has_value());
  const RotarySpec& spec = *layer.rotary;
  EXPECT_EQ(spec.pairing == Pairing::half ? "half" : "interleaved", truth["pairing"]);
  EXPECT_EQ(spec.head_dim, truth["head_dim"]);
  EXPECT_EQ(spec.rotary_width, truth["width"]);
  EXPECT_EQ(spec.rotary_offset, truth["offset"]);
  EXPECT_EQ(spec.axes.sections, truth.value("sections", std::vector<std::int64_t>()));
  if (truth.contains("order")) {
    EXPECT_EQ(spec.axes.order == AxisOrder::chunked ? "chunked" : "interleaved", truth["order"]);
  }
  RotarySpec one_axis = spec;  // frequencies do not depend on axes
  one_axis.axes = {};
  const Result<Rotary> rotary = Rotary::make(one_axis);
  ASSERT_TRUE(rotary.ok()) << rotary.status().message();
  expect_near(rotary->frequencies(), truth["frequencies"], spec.base);
  EXPECT_NEAR(rotary->amplitude(), truth["amplitude"], float32_error);
  EXPECT_NEAR(rotary->softmax_scale(), truth.value("softmax_scale", 1.0), 2 * float32_error);
}

void expect_layer(const LayerPositions& layer, const nlohmann::json& truth) {
  EXPECT_EQ(layer.numerics, Numerics::ggml);
  EXPECT_EQ(layer.window, truth.value("window", 0));
  EXPECT_EQ(layer.attention_scale.has_value(), truth.contains("attention_scale"));
  EXPECT_EQ(layer.query_temperature.has_value(), truth.contains("temperature"));
  if (truth.contains("pairing")) {
    expect_rotary(layer, truth);
  } else {
    EXPECT_FALSE(layer.rotary.has_value());
  }
  ASSERT_EQ(layer.bias.has_value(), truth.contains("alibi") || truth.contains("buckets"));
  if (layer.bias) {
    EXPECT_EQ(layer.bias->heads, truth["heads"]);
  }
  if (truth.contains("alibi")) {
    EXPECT_EQ(layer.bias->max_alibi, truth["alibi"]);
  }
  if (truth.contains("buckets")) {
    EXPECT_EQ(layer.bias->buckets, truth["buckets"]);
  }
  ASSERT_EQ(layer.additive.has_value(), truth.contains("learned"));
  if (layer.additive) {
    EXPECT_EQ((std::vector<std::int64_t>{layer.additive->length, layer.additive->width}),
              truth["learned"].get<std::vector<std::int64_t>>());
  }
}

TEST(Gguf, files_of_the_gguf_package_say_what_transformers_computes) {
  const nlohmann::json truth = nlohmann::json::parse(file_bytes(golden_file("gguf/truth.json")))["models"];
  ASSERT_GE(truth.size(), 17U);
  for (const auto& [name, layers] : truth.items()) {
    SCOPED_TRACE(name);
    const ModelPositions model = parse(file_bytes(golden_file("gguf/" + name + ".gguf")));
    EXPECT_EQ(model.dialect, "gguf");
    ASSERT_EQ(model.layers.size(), layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      SCOPED_TRACE(i);
      expect_layer(model.layers[i], layers[i]);
    }
  }
}

std::string words_of(const ModelPositions& model) {
  const Result<std::string> words = explain(model);
  return words ? *words : words.status().message();
}

/// As llama.cpp ships vocabularies: every key of the model, no tensor.
ModelPositions vocabulary_of(const std::string& architecture, const std::vector<std::pair<std::string, std::string>>& more = {}) {
  GgufBuilder file(architecture);
  file.key(architecture + ".block_count", u32_value(2)).key(architecture + ".embedding_length", u32_value(64));
  file.key(architecture + ".attention.head_count", u32_value(4)).key(architecture + ".context_length", u32_value(1024));
  for (const auto& [key, value] : more) file.key(architecture + "." + key, value);
  return parse(file.bytes());
}

TEST(Gguf, a_vocabulary_of_an_architecture_with_learned_positions_says_learned) {
  for (const std::string architecture : {"bert", "gpt2", "starcoder"}) {
    const ModelPositions model = vocabulary_of(architecture);
    ASSERT_EQ(model.layers.size(), 2U) << architecture;
    for (const LayerPositions& layer : model.layers) {
      ASSERT_TRUE(layer.additive.has_value()) << architecture;
      EXPECT_EQ(layer.additive->kind, ModelAdditive::Kind::learned);
      EXPECT_EQ(layer.additive->length, 1024);
      EXPECT_EQ(layer.additive->width, 64);
    }
    EXPECT_NE(words_of(model).find("learned: a table of 1,024 rows of 64 channels"), std::string::npos) << words_of(model);
  }
}

TEST(Gguf, mpt_has_learned_positions_where_it_has_no_alibi) {
  EXPECT_TRUE(vocabulary_of("mpt", {{"attention.max_alibi_bias", f32_value(0)}}).layers[0].additive.has_value());
  const ModelPositions alibi = vocabulary_of("mpt", {{"attention.max_alibi_bias", f32_value(8)}});
  EXPECT_FALSE(alibi.layers[0].additive.has_value());
  EXPECT_TRUE(alibi.layers[0].bias.has_value());
  // With its weights in the file, but no table of positions, it has none: llama.cpp loads it so.
  GgufBuilder file("mpt");
  file.key("mpt.block_count", u32_value(1)).key("mpt.embedding_length", u32_value(64)).key("mpt.attention.head_count", u32_value(4));
  file.tensor("output_norm.weight", {1, 1});
  EXPECT_FALSE(parse(file.bytes()).layers[0].additive.has_value());
}

TEST(Gguf, a_learned_table_of_unknown_length_is_still_said) {
  GgufBuilder file("gpt2");
  file.key("gpt2.block_count", u32_value(1));
  const ModelPositions model = parse(file.bytes());
  ASSERT_TRUE(model.layers[0].additive.has_value());
  EXPECT_NE(words_of(model).find("learned: a table of rows (how many the file does not say), added"), std::string::npos) << words_of(model);
}

/// Every architecture that neither turns nor adds positions is known to have none, or to bias its scores by them.
TEST(Gguf, no_other_architecture_without_rotation_is_silent_by_mistake) {
  const std::set<std::string> without = {"arwkv7",     "clip",           "jamba", "kimi-k3",    "kimi-linear", "mamba",           "mamba2",
                                         "nemotron_h", "nemotron_h_moe", "rwkv6", "rwkv6qwen2", "rwkv7",       "wavtokenizer-dec"};
  const std::set<std::string> biased = {"bloom", "jais", "jina-bert-v2", "refact", "t5", "t5encoder"};
  std::set<std::string> silent;
  for (const spec::GgufArchitecture& row : spec::gguf_architectures()) {
    if (row.layout == spec::GgufLayout::none && row.learned == spec::GgufLearned::none) silent.emplace(row.name);
  }
  std::set<std::string> wanted = without;
  wanted.insert(biased.begin(), biased.end());
  EXPECT_EQ(silent, wanted);
  for (const std::string& architecture : without) EXPECT_FALSE(vocabulary_of(architecture).layers[0].additive.has_value()) << architecture;
}

TEST(Gguf, longrope_takes_the_long_list_beyond_the_original_length) {
  const nlohmann::json truth = nlohmann::json::parse(file_bytes(golden_file("gguf/truth.json")))["models"]["phi3"][0];
  const ModelPositions model = parse(file_bytes(golden_file("gguf/phi3.gguf")), {.length = 8192});
  const Result<Rotary> rotary = Rotary::make(*model.layers[0].rotary);
  ASSERT_TRUE(rotary.ok());
  // The list is stored in float16 here.
  const std::vector<double> wanted = truth["long_frequencies"];
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(rotary->frequencies()[i], wanted[i], wanted[i] * 0x1p-11) << i;
}

TEST(Gguf, a_t5_has_its_encoder_as_a_tower) {
  const ModelPositions model = parse(file_bytes(golden_file("gguf/t5.gguf")));
  ASSERT_EQ(model.towers.size(), 1U);
  EXPECT_EQ(model.towers[0].layers.size(), 2U);
  EXPECT_TRUE(model.towers[0].layers[0].bias->bidirectional);
  EXPECT_FALSE(model.layers[0].bias->bidirectional);
}

TEST(Gguf, gpt_oss_warns_that_gguf_cannot_say_its_ramp_and_qwen3vl_of_ggmls_fourth_position) {
  ASSERT_EQ(parse(file_bytes(golden_file("gguf/gpt-oss.gguf"))).warnings.size(), 1U);
  const ModelPositions qwen = parse(file_bytes(golden_file("gguf/qwen3vl.gguf")));
  ASSERT_EQ(qwen.warnings.size(), 1U);
  EXPECT_EQ(qwen.warnings[0],
            "2 pairs beyond their axis' section turn by time, as in the model; llama.cpp turns them by a fourth position");
}

TEST(Gguf, versions_1_to_3_are_read_alike) {
  for (const std::uint32_t version : {1U, 2U, 3U}) {
    SCOPED_TRACE(version);
    // Version 1 has 32-bit lengths, for strings in values too.
    GgufBuilder file;
    file.version = version;
    const std::string name = "llama";
    const std::string length = version == 1 ? raw(std::uint32_t{5}) : raw(std::uint64_t{5});
    file.key("general.architecture", raw(std::uint32_t{8}) + length + name).key("llama.block_count", u32_value(1));
    file.key("llama.embedding_length", u32_value(64)).key("llama.attention.head_count", u32_value(4));
    file.tensor("rope_freqs.weight", std::vector<float>(8, 2.0F));
    const ModelPositions model = parse(file.bytes());
    ASSERT_EQ(model.layers.size(), 1U);
    EXPECT_EQ(std::get<GivenFactors>(model.layers[0].rotary->scaling).factors, std::vector<double>(8, 2.0));
  }
}

TEST(Gguf, an_absent_scaling_type_means_linear_and_none_means_none) {
  const ModelPositions absent = parse(small_llama().key("llama.rope.scaling.factor", f32_value(4)).bytes());
  EXPECT_EQ(std::get<LinearScaling>(absent.layers[1].rotary->scaling).factor, 4);
  const ModelPositions old = parse(small_llama().key("llama.rope.scale_linear", f32_value(2)).bytes());
  EXPECT_EQ(std::get<LinearScaling>(old.layers[1].rotary->scaling).factor, 2);
  GgufBuilder none = small_llama();
  none.key("llama.rope.scaling.type", text_value("none")).key("llama.rope.scaling.factor", f32_value(4));
  const ModelPositions unscaled = parse(none.bytes());
  EXPECT_TRUE(std::holds_alternative<Unscaled>(unscaled.layers[0].rotary->scaling));
  EXPECT_EQ(unscaled.warnings.size(), 1U);
}

TEST(Gguf, yarn_attn_factor_is_the_amplitude_although_llama_cpp_overwrites_it) {
  GgufBuilder file = small_llama();
  file.key("llama.rope.scaling.type", text_value("yarn")).key("llama.rope.scaling.factor", f32_value(4));
  file.key("llama.rope.scaling.original_context_length", u32_value(1024)).key("llama.rope.scaling.yarn_attn_factor", f32_value(0.75F));
  const ModelPositions model = parse(file.bytes());
  EXPECT_EQ(std::get<YarnScaling>(model.layers[0].rotary->scaling).attention_factor, 0.75);
  EXPECT_EQ(model.warnings.size(), 1U);
  EXPECT_EQ(model.trained_length, 1024);
  EXPECT_EQ(model.length, 4096);
}

TEST(Gguf, yarn_without_extrapolation_is_linear) {
  GgufBuilder file = small_llama();
  file.key("llama.rope.scaling.type", text_value("yarn")).key("llama.rope.scaling.factor", f32_value(4));
  file.key("llama.rope.scaling.yarn_ext_factor", f32_value(0));
  EXPECT_EQ(std::get<LinearScaling>(parse(file.bytes()).layers[0].rotary->scaling).factor, 4);
}

TEST(Gguf, an_alpha_is_ntk_aware) {
  GgufBuilder file("hunyuan_vl");
  file.key("hunyuan_vl.block_count", u32_value(1)).key("hunyuan_vl.attention.key_length", u32_value(128));
  file.key("hunyuan_vl.rope.scaling.alpha", f32_value(1000));
  file.key("hunyuan_vl.rope.dimension_sections", array_value(GgufType::i32, 4, raw(16) + raw(16) + raw(16) + raw(16)));
  const RotarySpec spec = *parse(file.bytes()).layers[0].rotary;
  EXPECT_EQ(std::get<NtkScaling>(spec.scaling).alpha, 1000);
  EXPECT_EQ(spec.axes.sections, (std::vector<std::int64_t>{16, 16, 16, 16}));
}

TEST(Gguf, sections_that_do_not_cover_the_pairs_begin_again_as_in_ggml) {
  GgufBuilder file("qwen2vl");
  file.key("qwen2vl.block_count", u32_value(1)).key("qwen2vl.attention.key_length", u32_value(16));
  file.key("qwen2vl.rope.dimension_sections", array_value(GgufType::i32, 4, raw(1) + raw(2) + raw(2) + raw(0)));
  const RotarySpec spec = *parse(file.bytes()).layers[0].rotary;
  EXPECT_EQ(spec.axes.order, AxisOrder::given);
  EXPECT_EQ(spec.axes.axis_of_pair, (std::vector<std::uint8_t>{0, 1, 1, 2, 2, 0, 1, 1}));
}

TEST(Gguf, deepseek4_turns_compressed_layers_by_another_base_and_scales_only_them) {
  GgufBuilder file("deepseek4");
  file.key("deepseek4.block_count", u32_value(2)).key("deepseek4.attention.key_length", u32_value(512));
  file.key("deepseek4.rope.dimension_count", u32_value(64)).key("deepseek4.attention.sliding_window", u32_value(128));
  file.key("deepseek4.attention.compress_rope_freq_base", f32_value(160000)).key("deepseek4.context_length", u32_value(1 << 20));
  file.key("deepseek4.attention.compress_ratios", array_value(GgufType::u32, 2, raw(0U) + raw(4U)));
  file.key("deepseek4.rope.scaling.type", text_value("yarn")).key("deepseek4.rope.scaling.factor", f32_value(16));
  file.key("deepseek4.rope.scaling.original_context_length", u32_value(65536));
  const ModelPositions model = parse(file.bytes());
  EXPECT_EQ(model.layers[0].rotary->base, 10000);
  EXPECT_TRUE(std::holds_alternative<Unscaled>(model.layers[0].rotary->scaling));
  EXPECT_EQ(model.layers[1].rotary->base, 160000);
  EXPECT_EQ(std::get<YarnScaling>(model.layers[1].rotary->scaling).factor, 16);
  EXPECT_EQ(model.layers[1].rotary->rotary_offset, 448);
  EXPECT_TRUE(model.layers[1].output_turned_back);
}

TEST(Gguf, llama4_leaves_every_fourth_layer_unrotated_and_heats_its_queries) {
  GgufBuilder file("llama4");
  file.key("llama4.block_count", u32_value(5)).key("llama4.attention.key_length", u32_value(128));
  const ModelPositions model = parse(file.bytes());
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(model.layers[i].rotary.has_value(), i != 3) << i;
    EXPECT_EQ(model.layers[i].query_temperature.has_value(), i == 3) << i;
    EXPECT_EQ(model.layers[i].window, i == 3 ? 0 : 8192) << i;
  }
}

TEST(Gguf, layers_without_key_heads_or_between_full_attention_have_no_positions) {
  GgufBuilder file("granitehybrid");
  file.key("granitehybrid.block_count", u32_value(3)).key("granitehybrid.attention.key_length", u32_value(64));
  file.key("granitehybrid.attention.head_count_kv", array_value(GgufType::i32, 3, raw(0) + raw(4) + raw(0)));
  const ModelPositions hybrid = parse(file.bytes());
  EXPECT_FALSE(hybrid.layers[0].rotary.has_value());
  EXPECT_TRUE(hybrid.layers[1].rotary.has_value());
  GgufBuilder next("qwen3next");
  next.key("qwen3next.block_count", u32_value(4)).key("qwen3next.attention.key_length", u32_value(256));
  next.key("qwen3next.rope.dimension_count", u32_value(64));
  const ModelPositions interval = parse(next.bytes());
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(interval.layers[i].rotary.has_value(), i == 3) << i;
}

TEST(Gguf, unknown_rope_keys_are_warnings) {
  const ModelPositions model = parse(small_llama().key("llama.rope.scaling.truncate", bool_value(false)).bytes());
  EXPECT_EQ(model.warnings, (std::vector<std::string>{"key llama.rope.scaling.truncate is not known and not used"}));
}

TEST(Gguf, an_unknown_architecture_is_an_error_because_the_pairing_is_not_in_the_file) {
  const Result<ModelPositions> result = parse_gguf(as_bytes(GgufBuilder("nollama").bytes()));
  EXPECT_EQ(result.status().kind(), ErrorKind::unsupported);
  EXPECT_NE(result.status().message().find("nollama"), std::string::npos);
}

TEST(Gguf, the_table_of_architectures_is_sorted_and_has_the_known_pairings) {
  using L = spec::GgufLayout;
  const std::vector<std::pair<const char*, L>> known = {{"llama", L::interleaved},
                                                        {"qwen2", L::half},
                                                        {"gptneox", L::half},
                                                        {"falcon", L::half},
                                                        {"deepseek2", L::interleaved},
                                                        {"bloom", L::none},
                                                        {"gpt-oss", L::half},
                                                        {"command-r", L::interleaved},
                                                        {"phi3", L::half},
                                                        {"zzz", L::none},
                                                        {"afmoe", L::half},
                                                        {"xverse", L::interleaved}};
  for (const auto& [name, layout] : known) {
    const spec::GgufArchitecture* found = spec::find_gguf_architecture(name);
    if (std::string_view(name) == "zzz") {
      EXPECT_EQ(found, nullptr);
    } else {
      ASSERT_NE(found, nullptr) << name;
      EXPECT_EQ(found->layout, layout) << name;
    }
  }
}

TEST(Gguf, errors_name_key_value_and_byte) {
  EXPECT_EQ(message_of(small_llama().key("llama.rope.freq_base", u32_value(10000)).bytes()),
            "gguf: byte 250: llama.rope.freq_base is of another type, wanted a float32 or float64");
  EXPECT_EQ(message_of(small_llama().key("llama.rope.scaling.type", text_value("su")).bytes()),
            "gguf: byte 253: llama.rope.scaling.type is su, wanted none, linear, yarn or longrope");
  EXPECT_EQ(message_of(GgufBuilder("llama").bytes()), "gguf: llama.block_count is missing, wanted 1 to 1024");
}

}  // namespace
}  // namespace phasor::test

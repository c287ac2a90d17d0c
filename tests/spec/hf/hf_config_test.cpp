// SPDX-License-Identifier: Apache-2.0
// The dialects of config.json: which key wins, what legacy and vLLM keys mean, and strict errors for what does not fit.
#include <cmath>

#include "spec/hf/hf_golden.hpp"

namespace phasor::test {
namespace {

/// A small llama with these further members.
std::string llama(const std::string& members) {
  return R"({"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2, )"
         R"("max_position_embeddings": 8192)" +
         (members.empty() ? "" : ", " + members) + "}";
}

LayerPositions first_layer(const std::string& text, std::int64_t length = 0) { return test::parsed(text, length).layers.at(0); }
RotarySpec spec_of(const std::string& members, std::int64_t length = 0) { return first_layer(llama(members), length).rotary.value(); }
std::string error_of(const std::string& members) { return test::message_of(llama(members)); }
std::vector<std::string> warnings_of(const std::string& members) { return test::parsed(llama(members)).warnings; }

template <class T>
T scaling_of(const std::string& members, std::int64_t length = 0) {
  const RotarySpec spec = spec_of(members, length);
  const T* scaling = std::get_if<T>(&spec.scaling);
  EXPECT_NE(scaling, nullptr) << members;
  return scaling == nullptr ? T{} : *scaling;
}

// ---- Priority ----

TEST(HfConfig, the_base_is_that_of_the_dictionary_else_of_the_file_else_of_the_model) {
  EXPECT_EQ(spec_of("").base, 10000);
  EXPECT_EQ(spec_of(R"("rope_theta": 20000)").base, 20000);
  EXPECT_EQ(spec_of(R"("rope_theta": 20000, "rope_parameters": {"rope_type": "default", "rope_theta": 30000})").base, 30000);
  EXPECT_EQ(spec_of(R"("rope_theta": 20000, "rope_scaling": null)").base, 20000);
  EXPECT_EQ(first_layer(R"({"model_type": "mixtral"})").rotary->base, 1e6);
}

TEST(HfConfig, an_older_rope_scaling_is_read_before_rope_parameters_with_a_warning) {
  const std::string both = R"("rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"rope_type": "linear", "factor": 4})";
  EXPECT_EQ(scaling_of<LinearScaling>(both).factor, 2);
  EXPECT_EQ(warnings_of(both), std::vector<std::string>{"rope_scaling and rope_parameters are both there; rope_scaling is read"});
  EXPECT_EQ(scaling_of<LinearScaling>(R"("rope_scaling": {}, "rope_parameters": {"rope_type": "linear", "factor": 4})").factor, 4);
}

TEST(HfConfig, the_share_is_truncated_as_python_truncates) {
  EXPECT_EQ(spec_of(R"("head_dim": 192, "partial_rotary_factor": 0.334)").rotary_width, 64);
  EXPECT_EQ(spec_of(R"("partial_rotary_factor": 0.5)").rotary_width, 32);
  EXPECT_EQ(
      spec_of(R"("partial_rotary_factor": 0.5, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25})").rotary_width,
      16);
  EXPECT_EQ(spec_of(R"("rotary_pct": 0.25)").rotary_width, 16);
  EXPECT_EQ(spec_of(R"("rotary_dim": 48)").rotary_width, 48);
}

TEST(HfConfig, a_null_head_dim_means_hidden_size_over_heads) {
  EXPECT_EQ(spec_of(R"("head_dim": null)").head_dim, 64);
  EXPECT_EQ(first_layer(R"({"model_type": "qwen3", "hidden_size": 512, "num_attention_heads": 16, "head_dim": null})").rotary->head_dim,
            32);
  EXPECT_EQ(first_layer(R"({"model_type": "qwen3", "hidden_size": 512, "num_attention_heads": 16})").rotary->head_dim, 128);
}

TEST(HfConfig, the_original_length_on_top_wins_in_a_flat_dictionary_and_the_models_length_stands_in) {
  const std::string yarn = R"("rope_scaling": {"rope_type": "yarn", "factor": 4)";
  EXPECT_EQ(scaling_of<YarnScaling>(yarn + "}").original_length, 8192);
  EXPECT_EQ(scaling_of<YarnScaling>(yarn + R"(, "original_max_position_embeddings": 2048})").original_length, 2048);
  EXPECT_EQ(scaling_of<YarnScaling>(yarn + R"(, "original_max_position_embeddings": 2048}, "original_max_position_embeddings": 1024)")
                .original_length,
            1024);
}

TEST(HfConfig, layer_types_make_a_dictionary_nested_and_null_means_no_encoding) {
  const ModelPositions model = test::parsed(R"({"model_type": "llama", "num_hidden_layers": 3, "head_dim": 64,
    "layer_types": ["full_attention", "sliding_attention", "linear_attention"], "sliding_window": 512,
    "rope_parameters": {"full_attention": null, "sliding_attention": {"rope_type": "linear", "factor": 3, "rope_theta": 7}}})");
  EXPECT_FALSE(model.layers[0].rotary);
  EXPECT_EQ(model.layers[1].rotary->base, 7);
  EXPECT_EQ(model.layers[1].window, 512);
  EXPECT_EQ(model.layers[0].window, 0);
  EXPECT_FALSE(model.layers[2].rotary);
}

TEST(HfConfig, a_nested_dictionary_wants_layer_types_and_all_of_them) {
  EXPECT_EQ(error_of(R"("rope_parameters": {"full_attention": {"rope_type": "default"}})"),
            "parse_hf_config: layer_types is missing, wanted the type of each layer, because rope_parameters is by type");
  EXPECT_EQ(
      error_of(
          R"("layer_types": ["full_attention", "sliding_attention"], "rope_parameters": {"full_attention": {"rope_type": "default"}})"),
      "parse_hf_config: rope_parameters.sliding_attention is missing, wanted the parameters of layer type \"sliding_attention\"");
  EXPECT_EQ(error_of(R"("layer_types": ["full_attention"])"),
            "parse_hf_config: layer_types is a list of 1, wanted an entry for each of 2 layers");
}

TEST(HfConfig, gemma3s_flat_scaling_is_of_full_layers_and_modernberts_of_both) {
  const ModelPositions gemma = test::parsed(
      R"({"model_type": "gemma3_text", "num_hidden_layers": 6, "rope_scaling": {"rope_type": "linear", "factor": 8}, "rope_theta": 5e5})");
  EXPECT_TRUE(std::holds_alternative<Unscaled>(gemma.layers[0].rotary->scaling));
  EXPECT_EQ(gemma.layers[0].rotary->base, 1e4);
  EXPECT_TRUE(std::holds_alternative<LinearScaling>(gemma.layers[5].rotary->scaling));
  EXPECT_EQ(gemma.layers[5].rotary->base, 5e5);
  const ModelPositions bert =
      test::parsed(R"({"model_type": "modernbert", "num_hidden_layers": 2, "rope_scaling": {"rope_type": "linear", "factor": 8}})");
  EXPECT_TRUE(std::holds_alternative<LinearScaling>(bert.layers[0].rotary->scaling));
  EXPECT_TRUE(std::holds_alternative<LinearScaling>(bert.layers[1].rotary->scaling));
}

TEST(HfConfig, layers_without_rotary_are_told_by_list_interval_or_base_0) {
  EXPECT_FALSE(test::parsed(llama(R"("no_rope_layers": [1, 0])")).layers[1].rotary);
  EXPECT_TRUE(test::parsed(llama(R"("no_rope_layers": [1, 0])")).layers[0].rotary);
  EXPECT_FALSE(test::parsed(llama(R"("no_rope_layer_interval": 2)")).layers[1].rotary);
  const ModelPositions bases = test::parsed(llama(R"("layer_rope_theta": [0, 500])"));
  EXPECT_FALSE(bases.layers[0].rotary);
  EXPECT_EQ(bases.layers[1].rotary->base, 500);
}

TEST(HfConfig, windows_need_use_sliding_window_where_the_model_asks_it) {
  const std::string qwen = R"({"model_type": "qwen2", "num_hidden_layers": 3, "sliding_window": 1024, "max_window_layers": 1)";
  EXPECT_EQ(test::parsed(qwen + "}").layers[2].window, 0);
  const ModelPositions on = test::parsed(qwen + R"(, "use_sliding_window": true})");
  EXPECT_EQ(on.layers[0].window, 0);
  EXPECT_EQ(on.layers[1].window, 1024);
  EXPECT_EQ(first_layer(R"({"model_type": "mistral"})").window, 4096);
  EXPECT_EQ(first_layer(R"({"model_type": "mistral", "sliding_window": null})").window, 0);
}

TEST(HfConfig, rope_interleave_false_means_half_pairing) {
  const std::string text = R"({"model_type": "deepseek_v3", "num_hidden_layers": 1)";
  EXPECT_EQ(first_layer(text + "}").rotary->output_pairing, Pairing::half);
  EXPECT_EQ(first_layer(text + R"(, "rope_interleave": false})").rotary->pairing, Pairing::half);
  EXPECT_EQ(first_layer(text + R"(, "rope_interleave": false})").rotary->output_pairing, std::nullopt);
}

// ---- Scalings whose length is chosen ----

TEST(HfConfig, the_length_in_use_decides_dynamic_ntk_and_longrope) {
  const std::string dynamic = R"("rope_scaling": {"type": "dynamic", "factor": 2})";
  EXPECT_EQ(scaling_of<DynamicNtkScaling>(dynamic).length, 8192);
  EXPECT_EQ(scaling_of<DynamicNtkScaling>(dynamic, 20000).length, 20000);
  EXPECT_EQ(scaling_of<DynamicNtkScaling>(dynamic, 100).length, 8192);
  const std::string phi =
      R"({"model_type": "phi3", "hidden_size": 16, "num_attention_heads": 4, "max_position_embeddings": 8192,
    "original_max_position_embeddings": 1024,
    "rope_scaling": {"type": "su", "short_factor": [1, 1], "long_factor": [2, 4], "short_mscale": 1.5, "long_mscale": 2.5}})";
  const auto near = std::get<LongRopeScaling>(first_layer(phi).rotary->scaling);
  const auto far = std::get<LongRopeScaling>(first_layer(phi, 1025).rotary->scaling);
  EXPECT_EQ(near.length, 1024);
  EXPECT_EQ(near.attention_factor, 1.5);
  EXPECT_EQ(far.length, 1025);
  EXPECT_EQ(far.attention_factor, 2.5);
  EXPECT_EQ(near.factor, 8);
  EXPECT_EQ(parse_hf_config(phi, {.length = -1}).status().message(), "parse_hf_config: options.length is -1, wanted 0 to 2^48");
}

TEST(HfConfig, yarn_without_a_factor_is_the_ratio_of_lengths_when_null_and_an_error_when_missing) {
  EXPECT_EQ(scaling_of<YarnScaling>(R"("rope_scaling": {"type": "yarn", "factor": null, "original_max_position_embeddings": 2048})").factor,
            4);
  EXPECT_EQ(error_of(R"("rope_scaling": {"type": "yarn", "original_max_position_embeddings": 2048})"),
            "parse_hf_config: rope_scaling.factor is missing, wanted a number above 0");
}

// ---- vLLM and SGLang ----

TEST(HfConfig, attn_factor_multiplies_and_attention_factor_replaces) {
  const double gain = 0.1 * std::log(4.0) + 1;
  const std::string yarn = R"("rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 2048, )";
  EXPECT_EQ(scaling_of<YarnScaling>(yarn + R"("attention_factor": 1.5})").attention_factor, 1.5);
  EXPECT_DOUBLE_EQ(scaling_of<YarnScaling>(yarn + R"("attn_factor": 1.5})").attention_factor.value(), 1.5 * gain);
  EXPECT_EQ(scaling_of<YarnScaling>(yarn + R"("attn_factor": 1})").attention_factor, std::nullopt);
  EXPECT_EQ(scaling_of<YarnScaling>(yarn + R"("apply_yarn_scaling": false})").attention_factor, 1);
}

TEST(HfConfig, deepseek_and_telechat_yarn_have_gains_of_their_own) {
  const std::string rest = R"(, "factor": 4, "original_max_position_embeddings": 2048})";
  const auto deepseek = scaling_of<YarnScaling>(R"("rope_scaling": {"rope_type": "deepseek_yarn", "mscale": 0.5, "attn_factor": 2)" + rest);
  EXPECT_DOUBLE_EQ(deepseek.attention_factor.value(), 2 * (0.05 * std::log(4.0) + 1));
  EXPECT_EQ(deepseek.softmax, YarnSoftmax::mscale_all_dim_squared);
  EXPECT_EQ(scaling_of<YarnScaling>(R"("rope_scaling": {"rope_type": "deepseek_llama_scaling")" + rest).softmax, YarnSoftmax::unchanged);
  EXPECT_DOUBLE_EQ(scaling_of<YarnScaling>(R"("rope_scaling": {"rope_type": "telechat3-yarn")" + rest).attention_factor.value(),
                   0.07 * std::log(4.0) + 1);
  EXPECT_EQ(error_of(R"("rope_scaling": {"rope_type": "deepseek_yarn", "extrapolation_factor": 0.5)" + rest),
            "parse_hf_config: rope_scaling.extrapolation_factor is 0.5, wanted 1");
}

TEST(HfConfig, ntk_alpha_and_xdrope_are_read) {
  EXPECT_EQ(scaling_of<NtkMixedScaling>(R"("rope_scaling": {"type": "ntk", "factor": 3, "mixed_b": 0.625})").mixed_exponent, 0.625);
  EXPECT_EQ(scaling_of<NtkMixedScaling>(R"("rope_scaling": {"type": "ntk", "factor": 3})").factor, 3);
  EXPECT_EQ(scaling_of<NtkScaling>(R"("rope_scaling": {"type": "dynamic", "alpha": 50, "factor": 1})").alpha, 50);
  const RotarySpec xdrope = spec_of(R"("rope_scaling": {"type": "xdrope", "alpha": 50, "xdrope_section": [8, 8, 8, 8]})");
  EXPECT_EQ(std::get<NtkScaling>(xdrope.scaling).alpha, 50);
  EXPECT_EQ(xdrope.axes.sections, (std::vector<std::int64_t>{8, 8, 8, 8}));
}

TEST(HfConfig, sections_are_chunked_interleaved_or_dealt_out) {
  EXPECT_EQ(spec_of(R"("rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]})").axes.order, AxisOrder::chunked);
  EXPECT_EQ(spec_of(R"("rope_scaling": {"type": "default", "mrope_section": [12, 10, 10], "mrope_interleaved": true})").axes.order,
            AxisOrder::interleaved);
  // Worked by hand from the rule: 5 (one kept for the end), 5 and 5, never one axis twice in a row.
  const RotarySpec pangu =
      spec_of(R"("head_dim": 32, "rope_scaling": {"rope_type": "openpangu", "mrope_section": [6, 5, 5], "mrope_interleaved": true})");
  EXPECT_EQ(pangu.axes.order, AxisOrder::given);
  EXPECT_EQ(pangu.axes.axis_of_pair, (std::vector<std::uint8_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0}));
  const RotarySpec uneven =
      spec_of(R"("head_dim": 16, "rope_scaling": {"rope_type": "openpangu", "mrope_section": [5, 2, 1], "mrope_interleaved": true})");
  EXPECT_EQ(uneven.axes.axis_of_pair, (std::vector<std::uint8_t>{0, 1, 2, 0, 1, 0, 0, 0}));
  EXPECT_EQ(error_of(R"("rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 13]})"),
            "parse_hf_config: rope_scaling.mrope_section has 3 entries of 33 pairs in all, wanted 2 to 4 of 32, half the rotary width");
}

TEST(HfConfig, fope_and_glm_interleaving_are_refused_in_words) {
  const auto fope = parse_hf_config(llama(R"("rope_scaling": {"rope_type": "default", "use_fope": true})"));
  EXPECT_EQ(fope.status().kind(), ErrorKind::unsupported);
  EXPECT_EQ(fope.status().message(),
            "parse_hf_config: rope_scaling asks for FoPE, whose coefficients are in the weights, wanted a rotary encoding");
  EXPECT_EQ(error_of(R"("rope_scaling": {"type": "default", "mrope_section": [8, 12, 12], "mrope_interleaved_glm": true})"),
            "parse_hf_config: rope_scaling.mrope_interleaved_glm is true, wanted mrope_interleaved or neither");
}

TEST(HfConfig, dual_chunk_attention_is_read) {
  const LayerPositions layer = first_layer(
      llama(R"("dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192, "original_max_position_embeddings": 262144})"));
  EXPECT_EQ(layer.dual_chunk.value().chunk_size, 262144);
  EXPECT_EQ(layer.dual_chunk.value().local_size, 8192);
}

TEST(HfConfig, llama4_vision_of_vllm_is_two_axes) {
  const RotarySpec spec = spec_of(R"("rope_scaling": {"rope_type": "mllama4"})");
  EXPECT_EQ(spec.pairing, Pairing::interleaved);
  EXPECT_EQ(spec.axes.ladder, AxisLadder::own);
}

// ---- Warnings and unknown models ----

TEST(HfConfig, unknown_keys_in_a_rope_dictionary_are_warnings) {
  EXPECT_EQ(warnings_of(R"("rope_scaling": {"type": "linear", "factor": 2, "beta_fast": 32, "colour": "red"})"),
            (std::vector<std::string>{"rope_scaling.beta_fast is not a key that rope type linear has; it is not read",
                                      "rope_scaling.colour is not a key that rope type linear has; it is not read"}));
  EXPECT_EQ(warnings_of(R"("colour": "red")"), std::vector<std::string>{});
}

TEST(HfConfig, an_unknown_model_with_rope_keys_is_half_pairing_with_a_warning) {
  const ModelPositions model = test::parsed(R"({"model_type": "newest", "head_dim": 64, "num_hidden_layers": 2, "rope_theta": 5000})");
  EXPECT_EQ(model.layers[1].rotary->pairing, Pairing::half);
  EXPECT_EQ(model.layers[1].rotary->base, 5000);
  EXPECT_EQ(model.warnings, std::vector<std::string>{
                                "model_type is \"newest\", which the table of models does not have; read as rotary with half pairing"});
  EXPECT_EQ(test::message_of(R"({"model_type": "newest", "num_hidden_layers": 2})"),
            "parse_hf_config: model_type is \"newest\", wanted a model of the table or a file with keys of rotary encoding");
  EXPECT_EQ(test::message_of(R"({"rope_theta": 5000, "num_hidden_layers": 2})"),
            "parse_hf_config: head_dim is missing, wanted it, or hidden_size and num_attention_heads");
}

TEST(HfConfig, a_file_that_names_no_model_is_invalid_not_unsupported) {
  for (const auto& [text, message] : {std::pair<std::string, std::string>{"{}", "model_type is missing"},
                                      {R"({"model_type": null})", "model_type is null"},
                                      {R"({"model_type": ""})", "model_type is \"\""},
                                      {R"({"text_config": {}})", "text_config.model_type is missing"}}) {
    const Status status = parse_hf_config(text).status();
    EXPECT_EQ(status.kind(), ErrorKind::invalid) << text;
    EXPECT_EQ(status.message(), "parse_hf_config: " + message + ", wanted a model of the table, or keys of rotary encoding");
  }
  EXPECT_EQ(parse_hf_config(R"({"model_type": "newest"})").status().kind(), ErrorKind::unsupported);
}

TEST(HfConfig, infinities_in_keys_of_others_do_no_harm_and_in_ours_are_errors) {
  EXPECT_EQ(error_of(R"("time_step_limit": [0.0, Infinity])"), "");
  EXPECT_EQ(error_of(R"("rope_theta": Infinity)"), "parse_hf_config: rope_theta is inf, wanted a number above 0");
  EXPECT_EQ(error_of(R"("rope_scaling": {"type": "linear", "factor": {"__float__": "NaN"}})"),
            "parse_hf_config: rope_scaling.factor is NaN, wanted a number above 0");
}

// ---- Strictness: what is, what is wanted ----

struct Bad {
  const char* members;
  const char* message;
};

TEST(HfConfig, what_does_not_fit_is_an_error_that_names_the_key) {
  const Bad table[] = {
      {R"("rope_scaling": {"type": "linear"})", "rope_scaling.factor is missing, wanted a number above 0"},
      {R"("rope_scaling": {"type": "linear", "factor": 0})", "rope_scaling.factor is 0, wanted a number above 0"},
      {R"("rope_scaling": {"type": "linear", "factor": -2})", "rope_scaling.factor is -2, wanted a number above 0"},
      {R"("rope_scaling": {"type": "linear", "factor": "x"})", "rope_scaling.factor is \"x\", wanted a number above 0"},
      {R"("rope_scaling": {"type": "linear", "factor": null})", "rope_scaling.factor is null, wanted a number above 0"},
      {R"("rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2})",
       "rope_scaling.type is \"linear\" and rope_scaling.rope_type is \"yarn\", wanted one of them, or both the same"},
      {R"("rope_scaling": {"type": "cubic"})",
       "rope_scaling.type is \"cubic\", wanted default, linear, proportional, dynamic, yarn, longrope, llama3 or a rope type of vLLM or "
       "SGLang"},
      {R"("rope_scaling": {"type": 3})", "rope_scaling.type is 3, wanted a string"},
      {R"("rope_scaling": [1])", "rope_scaling is a list of 1, wanted an object"},
      {R"("rope_scaling": {"type": "longrope", "long_factor": [1]})",
       "rope_scaling.short_factor is missing, wanted a list of 32 numbers above 0, half the rotary width"},
      {R"("rope_scaling": {"type": "longrope", "short_factor": [1, 2], "long_factor": [1]})",
       "rope_scaling.short_factor is a list of 2, wanted a list of 32 numbers above 0, half the rotary width"},
      {R"("rope_scaling": {"type": "longrope", "short_factor": [1, "x"]})",
       "rope_scaling.short_factor[1] is \"x\", wanted a finite number"},
      {R"("rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1})",
       "rope_scaling.high_freq_factor is missing, wanted a number above 0"},
      {R"("rope_scaling": {"type": "yarn", "factor": 8, "original_max_position_embeddings": 0})",
       "rope_scaling.original_max_position_embeddings is 0, wanted a whole number from 1 to 281474976710656"},
      {R"("rope_scaling": {"type": "yarn", "factor": 8, "original_max_position_embeddings": 0.5})",
       "rope_scaling.original_max_position_embeddings is 0.5, wanted a whole number"},
      {R"("rope_scaling": {"type": "yarn", "factor": 8, "truncate": "no"})", "rope_scaling.truncate is \"no\", wanted true or false"},
      {R"("rope_scaling": {"type": "yarn", "factor": 8, "beta_fast": -1})", "rope_scaling.beta_fast is -1, wanted a number above 0"},
      {R"("rope_theta": 0)", "rope_theta is 0, wanted a number above 0"},
      {R"("rope_theta": -1)", "rope_theta is -1, wanted a number above 0"},
      {R"("rope_theta": "10000")", "rope_theta is \"10000\", wanted a number above 0"},
      {R"("head_dim": 7)", "partial_rotary_factor gives a rotary width of 7 for a head of 7 channels, wanted an even number above 0"},
      {R"("head_dim": 0)", "head_dim is 0, wanted a whole number from 1 to 16384"},
      {R"("partial_rotary_factor": 1.5)", "partial_rotary_factor is 1.5, wanted a number above 0, at most 1"},
      {R"("partial_rotary_factor": 0)", "partial_rotary_factor is 0, wanted a number above 0, at most 1"},
      {R"("partial_rotary_factor": 0.3)",
       "partial_rotary_factor gives a rotary width of 19 for a head of 64 channels, wanted an even number above 0"},
      {R"("rope_parameters": {"partial_rotary_factor": 2})",
       "rope_parameters.partial_rotary_factor is 2, wanted a number above 0, at most 1"},
      {R"("rotary_dim": 65)", "rotary_dim is 65, wanted a whole number from 1 to 64"},
      {R"("no_rope_layers": [1])", "no_rope_layers is a list of 1, wanted an entry for each of 2 layers"},
      {R"("layer_rope_theta": [1, -3])", "layer_rope_theta is a list of 2, wanted numbers above 0, or 0 for a layer without positions"},
      {R"("layer_types": "full_attention")", "layer_types is \"full_attention\", wanted a list of strings"},
  };
  for (const Bad& bad : table) EXPECT_EQ(error_of(bad.members), std::string("parse_hf_config: ") + bad.message) << bad.members;
}

TEST(HfConfig, sizes_that_do_not_fit_are_errors) {
  EXPECT_EQ(test::message_of(R"({"model_type": "llama", "num_attention_heads": 0})"),
            "parse_hf_config: num_attention_heads is 0, wanted a whole number from 1 to 4294967296");
  EXPECT_EQ(test::message_of(R"({"model_type": "llama", "num_hidden_layers": 100000000})"),
            "parse_hf_config: num_hidden_layers is 100000000, wanted a whole number from 1 to 1024");
  EXPECT_EQ(test::message_of(R"({"model_type": "llama", "hidden_size": 3, "num_attention_heads": 4})"),
            "parse_hf_config: hidden_size of 3 for 4 heads gives heads of 0 channels, wanted 1 to 16384");
  EXPECT_EQ(test::message_of("[1]"), "parse_hf_config: the file is a list of 1, wanted an object");
  EXPECT_EQ(test::message_of(R"({"model_type": 3})"), "parse_hf_config: model_type is 3, wanted a string");
}

TEST(HfConfig, paths_lead_through_nested_parts_and_layer_types) {
  EXPECT_EQ(
      test::message_of(
          R"({"model_type": "gemma3", "text_config": {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": "x"}}}})"),
      "parse_hf_config: text_config.rope_parameters.full_attention.factor is \"x\", wanted a number above 0");
}

TEST(HfConfig, a_base_of_1_or_of_1e308_is_read_and_what_cannot_be_planned_says_so_later) {
  EXPECT_EQ(spec_of(R"("rope_theta": 1)").base, 1);
  EXPECT_EQ(spec_of(R"("rope_theta": 1e308)").base, 1e308);
  EXPECT_TRUE(Rotary::make(spec_of(R"("rope_theta": 1)")));
  EXPECT_NE(Rotary::make(spec_of(R"("rope_theta": 1e308)")).status().message(), "");
}

TEST(HfConfig, what_the_spec_itself_refuses_says_in_which_layer) {
  EXPECT_EQ(error_of(R"("rope_theta": 1, "rope_scaling": {"type": "yarn", "factor": 2})"),
            "parse_hf_config: layer 0: RotarySpec: base is 1, wanted more than 1 for YaRN scaling");
}

}  // namespace
}  // namespace phasor::test

// SPDX-License-Identifier: Apache-2.0
// to_hf_config: what is written reads back as the same layers, for every recorded model, and what the dialect cannot say is refused.
#include "spec/hf/hf_golden.hpp"
#include "spec/hf_export/export.hpp"

namespace phasor::test {
namespace {

std::string exported(const ModelPositions& model) {
  const auto text = to_hf_config(model);
  EXPECT_EQ(text.status().message(), "") << model.model_type;
  return text ? *text : "";
}

void expect_same(const std::vector<LayerPositions>& left, const std::vector<LayerPositions>& right, const std::string& what) {
  ASSERT_EQ(left.size(), right.size()) << what;
  for (std::size_t i = 0; i < left.size(); ++i) EXPECT_EQ(spec::first_difference(left[i], right[i]), "") << what << " layer " << i;
}

TEST(HfExport, every_recorded_model_reads_back_with_the_same_layers_towers_and_lengths) {
  int models = 0;
  for (const std::string& name : test::golden_names()) {
    if (name.rfind("vision-", 0) == 0) continue;  // a tower alone
    const ModelPositions model = test::parsed_golden(name);
    const ModelPositions back = test::parsed(exported(model));
    EXPECT_EQ(back.model_type, model.model_type);
    EXPECT_EQ(back.text_type, model.text_type);
    expect_same(model.layers, back.layers, name);
    ASSERT_EQ(model.towers.size(), back.towers.size()) << name;
    for (std::size_t i = 0; i < model.towers.size(); ++i) expect_same(model.towers[i].layers, back.towers[i].layers, name + " tower");
    EXPECT_EQ(back.trained_length, model.trained_length) << name;
    EXPECT_EQ(back.length, model.length) << name;
    EXPECT_EQ(back.warnings, std::vector<std::string>{}) << name;
    ++models;
  }
  EXPECT_GE(models, 120);
}

TEST(HfExport, random_parameters_of_every_rope_type_read_back) {
  const spec::Json record = test::golden("random.json");
  for (const spec::Json& one : record.find("cases")->items) {
    const ModelPositions model = test::parsed(test::text_of(*one.find("config")));
    expect_same(model.layers, test::parsed(exported(model)).layers, test::text_of(one));
  }
}

TEST(HfExport, writing_twice_gives_the_same_text) {
  const std::string once = exported(test::parsed_golden("gemma3-linear"));
  EXPECT_EQ(exported(test::parsed(once)), once);
}

TEST(HfExport, a_flat_model_has_flat_rope_parameters_and_layer_types_make_them_nested) {
  EXPECT_NE(exported(test::parsed_golden("llama-3.1")).find("\"rope_type\": \"llama3\""), std::string::npos);
  EXPECT_NE(exported(test::parsed_golden("gemma3_text")).find("\"sliding_attention\": {"), std::string::npos);
  EXPECT_NE(exported(test::parsed_golden("cohere2")).find("\"rope_type\""), std::string::npos);
}

// ---- What the dialect cannot say ----

std::string refusal(const RotarySpec& spec, const std::string& type = "llama") {
  ModelPositions model;
  model.dialect = "huggingface";
  model.model_type = type;
  model.length = 2048;
  LayerPositions layer;
  layer.rotary = spec;
  model.layers = {layer, layer};
  return to_hf_config(model).status().message();
}

RotarySpec plain() {
  RotarySpec spec;
  spec.head_dim = 64;
  return spec;
}

TEST(HfExport, a_plain_llama_can_be_said) { EXPECT_EQ(refusal(plain()), ""); }

TEST(HfExport, given_numbers_are_refused) {
  RotarySpec spec = plain();
  spec.scaling = GivenFrequencies{.frequencies = std::vector<double>(32, 0.5)};
  EXPECT_EQ(refusal(spec), "to_hf_config: the model has given frequencies, which a Hugging Face config cannot say");
  spec.scaling = GivenFactors{.factors = std::vector<double>(32, 2)};
  EXPECT_EQ(refusal(spec), "to_hf_config: the model has given factors, which a Hugging Face config cannot say");
  spec.scaling = GivenDirections{};
  EXPECT_EQ(refusal(spec), "to_hf_config: the model has given directions, which a Hugging Face config cannot say");
}

TEST(HfExport, what_the_model_type_decides_is_refused_when_it_differs) {
  const std::string tail = " in layer 0 that a config of model_type \"llama\" cannot say";
  RotarySpec spec = plain();
  spec.pairing = Pairing::interleaved;
  EXPECT_EQ(refusal(spec), "to_hf_config: the model has a rotary.pairing" + tail);
  spec = plain();
  spec.sense = Sense::clockwise;
  EXPECT_EQ(refusal(spec), "to_hf_config: the model has a rotary.sense" + tail);
  EXPECT_EQ(refusal(spec, "nanochat"), "");
  spec = plain();
  spec.rotary_width = 32;
  spec.rotary_offset = 32;
  EXPECT_EQ(refusal(spec), "to_hf_config: the model has a rotary.rotary_offset" + tail);
  spec.rotary_offset = 0;
  EXPECT_EQ(refusal(spec), "");
  spec = plain();
  spec.unit = FrequencyUnit::turns;
  EXPECT_EQ(refusal(spec), "to_hf_config: the model has a rotary.unit" + tail);
  spec = plain();
  spec.output_pairing = Pairing::interleaved;
  EXPECT_EQ(refusal(spec), "to_hf_config: the model has a rotary.output_pairing" + tail);
}

TEST(HfExport, a_width_that_only_truncation_gives_reads_back) {
  for (std::int64_t head_dim = 2; head_dim <= 256; head_dim += 2) {
    for (std::int64_t width = 2; width <= head_dim; width += 2) {
      RotarySpec spec;
      spec.head_dim = head_dim;
      spec.rotary_width = width;
      ASSERT_EQ(refusal(spec), "") << width << " of " << head_dim;
    }
  }
}

TEST(HfExport, a_model_without_layers_is_refused) {
  EXPECT_EQ(to_hf_config({}).status().message(), "to_hf_config: the model has a part without layers");
}

}  // namespace
}  // namespace phasor::test

// SPDX-License-Identifier: Apache-2.0
// to_gguf_keys: written to a file and read again it is the same model; what GGUF cannot say is an error.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "gguf_bytes.hpp"
#include "golden_file.hpp"
#include "phasor/model.hpp"

namespace phasor::test {
namespace {

// Values are stored in float32, and read into exact frequencies: one rounding of the base, one of a factor.
constexpr double float32_error = 2 * 0x1p-23;

std::string value_bytes(const nlohmann::json& entry) {
  const std::string type = entry["type"];
  const nlohmann::json& value = entry["value"];
  if (type == "u32") return u32_value(value);
  if (type == "f32") return f32_value(value);
  if (type == "bool") return bool_value(value);
  if (type == "string") return text_value(value.get<std::string>());
  std::string entries;
  for (const nlohmann::json& item : value) {
    entries += type == "array of bool" ? raw(static_cast<std::uint8_t>(item.get<bool>())) : raw(item.get<std::int32_t>());
  }
  return array_value(type == "array of bool" ? GgufType::boolean : GgufType::i32, value.size(), entries);
}

/// A file with just these keys and tensors.
std::string file_of(const std::string& json) {
  const nlohmann::json all = nlohmann::json::parse(json);
  GgufBuilder file;
  for (const auto& [name, entry] : all["keys"].items()) file.key(name, value_bytes(entry));
  for (const auto& [name, entry] : all["tensors"].items()) file.tensor(name, entry["data"].get<std::vector<float>>());
  return file.bytes();
}

Rotary make_rotary(RotarySpec spec) {
  spec.axes = {};  // compared by themselves
  const Result<Rotary> rotary = Rotary::make(spec);
  EXPECT_TRUE(rotary.ok()) << rotary.status().message();
  return *rotary;
}

void expect_same(const RotarySpec& left, const RotarySpec& right) {
  EXPECT_EQ(left.head_dim, right.head_dim);
  EXPECT_EQ(left.pairing, right.pairing);
  EXPECT_EQ(left.rotary_offset, right.rotary_offset);
  EXPECT_EQ(left.axes.sections, right.axes.sections);
  EXPECT_EQ(left.axes.order, right.axes.order);
  const Rotary are = make_rotary(left);
  const Rotary were = make_rotary(right);
  ASSERT_EQ(are.frequencies().size(), were.frequencies().size());
  for (std::size_t i = 0; i < are.frequencies().size(); ++i) {
    EXPECT_NEAR(are.frequencies()[i], were.frequencies()[i], std::fabs(were.frequencies()[i]) * float32_error) << "pair " << i;
  }
  EXPECT_NEAR(are.amplitude(), were.amplitude(), float32_error);
  EXPECT_NEAR(are.softmax_scale(), were.softmax_scale(), 2 * float32_error);
}

void expect_same(const ModelPositions& left, const ModelPositions& right) {
  ASSERT_EQ(left.layers.size(), right.layers.size());
  EXPECT_EQ(left.length, right.length);
  for (std::size_t i = 0; i < left.layers.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(left.layers[i].window, right.layers[i].window);
    EXPECT_EQ(left.layers[i].bias.has_value(), right.layers[i].bias.has_value());
    ASSERT_EQ(left.layers[i].rotary.has_value(), right.layers[i].rotary.has_value());
    if (left.layers[i].rotary) expect_same(*left.layers[i].rotary, *right.layers[i].rotary);
  }
}

/// Writes the model's keys into a file, reads it, compares.
void expect_round_trip(const ModelPositions& model, std::string_view architecture) {
  const Result<std::string> keys = to_gguf_keys(model, architecture);
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  const std::string file = file_of(*keys);
  const Result<ModelPositions> read = parse_gguf(as_bytes(file));
  ASSERT_TRUE(read.ok()) << read.status().message();
  expect_same(*read, model);
}

/// Three alike layers.
ModelPositions model_of(const RotarySpec& spec) {
  ModelPositions model;
  model.length = 32768;
  model.layers.resize(3);
  for (LayerPositions& layer : model.layers) layer.rotary = spec;
  return model;
}

RotarySpec spec_of(Scaling scaling) {
  RotarySpec spec{.head_dim = 64, .rotary_width = 64, .base = 500000, .scaling = std::move(scaling)};
  spec.pairing = Pairing::interleaved;
  return spec;
}

void expect_refused(const ModelPositions& model, std::string_view architecture, std::string_view reason) {
  const std::string message = to_gguf_keys(model, architecture).status().message();
  EXPECT_NE(message.find(reason), std::string::npos) << (message.empty() ? "accepted" : message);
}

TEST(GgufExport, every_golden_file_comes_back) {
  const nlohmann::json truth = nlohmann::json::parse(file_bytes(golden_file("gguf/truth.json")))["models"];
  for (const auto& [name, layers] : truth.items()) {
    SCOPED_TRACE(name);
    const std::string bytes = file_bytes(golden_file("gguf/" + name + ".gguf"));
    const Result<ModelPositions> model = parse_gguf(as_bytes(bytes));
    ASSERT_TRUE(model.ok()) << model.status().message();
    if (name == "bert") {  // its table is a tensor, which keys alone do not bring
      EXPECT_TRUE(to_gguf_keys(*model, "bert").ok());
    } else {
      expect_round_trip(*model, model->model_type);
    }
  }
}

TEST(GgufExport, every_scaling_that_gguf_can_say_comes_back) {
  expect_round_trip(model_of(spec_of(Unscaled{})), "llama");
  expect_round_trip(model_of(spec_of(LinearScaling{4})), "llama");
  expect_round_trip(model_of(spec_of(NtkScaling{8})), "llama");
  expect_round_trip(model_of(spec_of(NtkMixedScaling{4, 0.625})), "llama");
  expect_round_trip(model_of(spec_of(Llama3Scaling{})), "llama");
  expect_round_trip(model_of(spec_of(ProportionalScaling{2, 0.25})), "llama");
  expect_round_trip(model_of(spec_of(YarnScaling{.factor = 4, .original_length = 8192})), "llama");
  expect_round_trip(model_of(spec_of(YarnScaling{.factor = 4, .original_length = 8192, .beta_fast = 16, .attention_factor = 0.9})),
                    "llama");
  expect_round_trip(model_of(spec_of(GivenFactors{std::vector<double>(32, 1.25), 1.5})), "llama");
  expect_round_trip(model_of(spec_of(GivenFrequencies{std::vector<double>(32, 0.125), 1})), "llama");
  expect_round_trip(model_of(spec_of(LongRopeScaling{.short_factors = std::vector<double>(32, 1.5),
                                                     .long_factors = std::vector<double>(32, 7.25),
                                                     .original_length = 4096,
                                                     .factor = 8,
                                                     .length = 4096})),
                    "llama");
}

TEST(GgufExport, mscale_goes_into_the_log_multiplier_where_the_architecture_reads_one) {
  YarnScaling yarn{.factor = 40, .original_length = 4096, .mscale = 1, .mscale_all_dim = 1};
  RotarySpec spec = spec_of(yarn);
  spec.head_dim = 192;
  spec.rotary_offset = 128;
  const Result<std::string> keys = to_gguf_keys(model_of(spec), "deepseek2");
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  const nlohmann::json all = nlohmann::json::parse(*keys)["keys"];
  EXPECT_EQ(all["deepseek2.rope.scaling.yarn_log_multiplier"]["value"].get<float>(), 0.1F);
  expect_round_trip(model_of(spec), "deepseek2");
  yarn.mscale = 0.5;
  spec.scaling = yarn;
  expect_refused(model_of(spec), "deepseek2", "an mscale of 0.5");
}

TEST(GgufExport, what_gguf_cannot_say_is_an_error) {
  expect_refused(model_of(spec_of(YarnScaling{.factor = 4, .original_length = 8192, .ramp = YarnRamp::exact})), "llama", "truncate: false");
  expect_refused(model_of(spec_of(DynamicNtkScaling{.factor = 2, .trained_length = 4096})), "llama", "dynamic NTK");
  expect_refused(model_of(spec_of(Unscaled{})), "qwen2", "the pairing: qwen2 is half there");
  expect_refused(model_of(spec_of(Unscaled{})), "bloom", "rotary positions for bloom");
  expect_refused(model_of(spec_of(Unscaled{})), "no-such", "is not known");
  expect_refused(ModelPositions{}, "llama", "no layers");
  RotarySpec spec = spec_of(Unscaled{});
  spec.rotary_width = 32;
  spec.rotary_offset = 16;
  expect_refused(model_of(spec), "llama", "a rotary offset of 16");
  spec = spec_of(Unscaled{});
  spec.sense = Sense::clockwise;
  expect_refused(model_of(spec), "llama", "clockwise");
  spec = spec_of(Unscaled{});
  spec.output_pairing = Pairing::half;
  expect_refused(model_of(spec), "llama", "pairing of the output");
  spec = spec_of(GivenFrequencies{std::vector<double>(32, -0.125), 1});
  expect_refused(model_of(spec), "llama", "negative frequency");
}

TEST(GgufExport, layers_that_differ_otherwise_than_gguf_allows_are_an_error) {
  ModelPositions bases = model_of(spec_of(Unscaled{}));
  bases.layers[1].rotary->base = 10000;
  expect_refused(bases, "llama", "what layer 1 does, for llama: its frequencies would be another");
  ModelPositions unrotated = model_of(spec_of(Unscaled{}));
  unrotated.layers[2].rotary.reset();
  expect_refused(unrotated, "llama", "whether it is rotated");
  ModelPositions scaled = model_of(spec_of(LinearScaling{8}));
  for (LayerPositions& layer : scaled.layers) layer.rotary->pairing = Pairing::half;
  scaled.layers[0].window = scaled.layers[1].window = 1024;  // Gemma 3 scales only its full layers
  expect_refused(scaled, "gemma3", "frequencies");
}

}  // namespace
}  // namespace phasor::test

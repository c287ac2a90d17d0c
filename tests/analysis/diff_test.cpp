// SPDX-License-Identifier: Apache-2.0
// diff: the same meaning in other words is no difference that matters, and what matters is said with a number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analysis/models.hpp"
#include "spec/gguf/gguf_bytes.hpp"

namespace phasor::test {
namespace {

std::vector<Difference> found(const ModelPositions& left, const ModelPositions& right) {
  const auto result = diff(left, right);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *result : std::vector<Difference>{};
}

bool matters(const std::vector<Difference>& all) {
  return std::any_of(all.begin(), all.end(), [](const Difference& one) { return one.matters; });
}

/// The one difference at this place.
Difference at(const std::vector<Difference>& all, const std::string& where) {
  const auto one = std::find_if(all.begin(), all.end(), [&](const Difference& d) { return d.where == where; });
  EXPECT_NE(one, all.end()) << where;
  return one == all.end() ? Difference{} : *one;
}

ModelPositions as_gguf(ModelPositions model) {
  model.dialect = "gguf";
  for (LayerPositions& layer : model.layers) {
    layer.type.clear();
    layer.numerics = Numerics::ggml;
  }
  return model;
}

/// Every layer's spec changed.
template <class Change>
ModelPositions with(ModelPositions model, const Change& change) {
  for (LayerPositions& layer : model.layers) change(layer);
  return model;
}

ModelPositions plain() { return models::of("llama", 3, models::rotary_layer({.head_dim = 64})); }

TEST(Diff, a_model_does_not_differ_from_itself) {
  for (const ModelPositions& model : {models::llama31(), models::gemma3(), models::gpt_oss(), models::qwen2_vl(), models::deepseek_v3(),
                                      models::bloom(), models::bert(), models::llama4(), models::t5()}) {
    EXPECT_TRUE(found(model, model).empty()) << model.model_type;
  }
}

TEST(Diff, gguf_cannot_say_that_the_ramp_of_gpt_oss_is_not_rounded) {
  const ModelPositions config = models::gpt_oss();
  const ModelPositions gguf =
      with(as_gguf(config), [](LayerPositions& layer) { std::get<YarnScaling>(layer.rotary->scaling).ramp = YarnRamp::truncated; });
  const Difference one = at(found(config, gguf), "layers 0-23: scaling");
  EXPECT_TRUE(one.matters);
  EXPECT_EQ(one.left, "base 150,000, YaRN factor 32 over 4,096, ramp not rounded");
  // Ramp (8.0928, 17.3980) against (8, 18): pair 17's share of the slowing is 0.957 against 0.9, so 0.0726 w against 0.128 w.
  EXPECT_NE(one.why.find("pair 17 most: it turns 1.763x as fast on the right, 1 rad apart after 10,140 positions"), std::string::npos)
      << one.why;
}

TEST(Diff, llama_3_1_and_its_gguf_differ_in_nothing_that_matters) {
  const ModelPositions config = models::llama31();
  GivenFactors factors;
  for (int i = 0; i < 64; ++i) {  // as convert_hf_to_gguf writes rope_freqs.weight, in float32
    const double wavelength = 2 * 3.14159265358979 * std::pow(500000.0, i / 64.0);
    const double share = (8192 / wavelength - 1) / 3;
    const double factor = wavelength < 2048 ? 1 : wavelength > 8192 ? 8 : 1 / ((1 - share) / 8 + share);
    factors.factors.push_back(static_cast<float>(factor));
  }
  const ModelPositions gguf = with(as_gguf(config), [&](LayerPositions& layer) {
    layer.rotary->scaling = factors;
    layer.rotary->pairing = Pairing::interleaved;
  });
  const auto all = found(config, gguf);
  EXPECT_FALSE(matters(all));
  EXPECT_NE(at(all, "layers 0-31: scaling").why.find("written differently"), std::string::npos);
  EXPECT_NE(at(all, "layers 0-31: pairing").why.find("phasor permute --detect"), std::string::npos);
  EXPECT_EQ(at(all, "layers 0-31: numerics").right, "ggml");
}

TEST(Diff, one_wrong_factor_among_the_stored_ones_is_found) {
  GivenFactors factors{.factors = std::vector<double>(32, 1.0)};
  const auto given = [&](LayerPositions& layer) { layer.rotary->scaling = factors; };
  EXPECT_FALSE(matters(found(plain(), with(plain(), given))));
  factors.factors[30] = 1 + 1e-6;
  const auto all = found(plain(), with(plain(), given));
  EXPECT_NE(at(all, "layers 0-2: scaling").why.find("1 of 32 pairs turn at another speed, pair 30 most"), std::string::npos);
}

TEST(Diff, a_factor_of_1e30_is_a_pair_that_never_turns) {
  const ModelPositions config = with(plain(), [](LayerPositions& layer) { layer.rotary->scaling = ProportionalScaling{.share = 0.25}; });
  GivenFactors factors{.factors = std::vector<double>(32, 1e30)};
  std::fill_n(factors.factors.begin(), 8, 1.0);
  EXPECT_FALSE(matters(found(config, with(as_gguf(config), [&](LayerPositions& layer) { layer.rotary->scaling = factors; }))));
}

TEST(Diff, a_base_lost_on_the_way_matters_and_is_told_for_its_layers) {
  ModelPositions wrong = models::gemma3();
  for (std::size_t i = 5; i < wrong.layers.size(); i += 6) wrong.layers[i].rotary->base = 10000;
  const auto all = found(models::gemma3(), wrong);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].where, "every 6th layer (5, 11, 17, ..., 29): base");
  // Pair 127 of 128: (1000000 / 10000)^(127/128) = 96.47.
  EXPECT_NE(all[0].why.find("127 of 128 pairs turn at another speed, pair 127 most: it turns 96.47x as fast"), std::string::npos)
      << all[0].why;
}

TEST(Diff, pairing_matters_between_files_of_one_dialect) {
  const auto interleaved = [](LayerPositions& layer) { layer.rotary->pairing = Pairing::interleaved; };
  EXPECT_TRUE(at(found(plain(), with(plain(), interleaved)), "layers 0-2: pairing").matters);
  EXPECT_FALSE(at(found(with(as_gguf(plain()), interleaved), plain()), "layers 0-2: pairing").matters);
  EXPECT_TRUE(at(found(with(plain(), interleaved), as_gguf(plain())), "layers 0-2: pairing").matters);
}

TEST(Diff, what_is_written_in_another_order_changes_no_score) {
  const auto all =
      found(models::deepseek_v3(), with(models::deepseek_v3(), [](LayerPositions& layer) { layer.rotary->output_pairing.reset(); }));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_FALSE(all[0].matters);
}

TEST(Diff, amplitude_and_scale_can_make_up_for_each_other) {
  const auto amplitude = [](LayerPositions& layer) { layer.rotary->scaling = GivenFactors{std::vector<double>(32, 1.0), 2}; };
  const auto all = found(plain(), with(plain(), amplitude));
  EXPECT_NE(at(all, "layers 0-2: amplitude").why.find("4x as large"), std::string::npos);
  EXPECT_TRUE(matters(all));
  const auto both = [&](LayerPositions& layer) {
    amplitude(layer);
    layer.attention_scale = 1.0 / 32;
  };
  EXPECT_FALSE(matters(found(plain(), with(plain(), both))));
}

TEST(Diff, a_forgotten_softmax_factor_matters) {
  const auto forget = [](LayerPositions& layer) { std::get<YarnScaling>(layer.rotary->scaling).softmax = YarnSoftmax::unchanged; };
  const auto all = found(models::deepseek_v3(), with(models::deepseek_v3(), forget));
  // (0.1 ln 40 + 1)^2 = 1.8738, its inverse 0.5337.
  EXPECT_NE(at(all, "layers 0-60: attention scale").why.find("0.5337x as large"), std::string::npos);
}

TEST(Diff, clockwise_by_negative_frequencies_is_counterclockwise) {
  GivenFrequencies turning{.frequencies = std::vector<double>(32, 0.5)};
  const ModelPositions left = with(plain(), [&](LayerPositions& layer) { layer.rotary->scaling = turning; });
  for (double& frequency : turning.frequencies) frequency = -frequency;
  const auto backwards = [&](LayerPositions& layer) {
    layer.rotary->scaling = turning;
    layer.rotary->sense = Sense::clockwise;
  };
  EXPECT_FALSE(matters(found(left, with(left, backwards))));
  EXPECT_TRUE(matters(found(left, with(left, [](LayerPositions& layer) { layer.rotary->sense = Sense::clockwise; }))));
}

TEST(Diff, axes_lengths_windows_and_towers) {
  const ModelPositions left = models::qwen2_vl();
  ModelPositions right = with(left, [](LayerPositions& layer) { layer.rotary->axes.sections = {24, 20, 20}; });
  right.towers.clear();
  right.length = 1;
  auto all = found(left, right);
  EXPECT_NE(at(all, "layers 0-27: axes").why.find("12 of 64 pairs follow another axis (pairs 16-23, 40-43)"), std::string::npos)
      << at(all, "layers 0-27: axes").why;
  EXPECT_TRUE(at(all, "vision").matters);
  EXPECT_FALSE(at(all, "length").matters);
  right.dialect = "gguf";
  EXPECT_FALSE(at(found(left, right), "vision").matters);
  EXPECT_TRUE(at(found(plain(), with(plain(), [](LayerPositions& layer) { layer.window = 128; })), "layers 0-2: window").matters);
  ModelPositions fewer = plain();
  fewer.layers.pop_back();
  EXPECT_TRUE(at(found(plain(), fewer), "layers").matters);
}

TEST(Diff, bias_added_vectors_and_temperature) {
  ModelPositions heads = models::bloom();
  for (LayerPositions& layer : heads.layers) layer.bias->heads = 64;
  // 112 heads: the steepest is 2^(-8/128); 64 heads: 2^(-8/64).
  EXPECT_NE(at(found(models::bloom(), heads), "layers 0-69: bias").why.find("0.9576 on the left, 0.917 on the right"), std::string::npos);
  const auto later = [](LayerPositions& layer) { layer.additive->first_position = 2; };
  EXPECT_TRUE(at(found(models::bert(), with(models::bert(), later)), "layers 0-11: added: first row").matters);
  const auto cold = [](LayerPositions& layer) { layer.query_temperature.reset(); };
  // 1 + 0.1 ln(1 + 1280) = 1.7155.
  EXPECT_NE(at(found(models::llama4(), with(models::llama4(), cold)), "every 4th layer (3, 7, 11, ..., 47): query temperature")
                .why.find("0.5829x as large on the right at position 10,485,759"),
            std::string::npos);
  EXPECT_TRUE(matters(found(models::t5(), models::bert())));
}

TEST(Diff, what_a_file_does_not_say_of_a_learned_table_is_no_difference) {
  test::GgufBuilder file("gpt2");  // a vocabulary: neither context_length nor embedding_length
  file.key("gpt2.block_count", test::u32_value(12));
  const auto silent = parse_gguf(test::as_bytes(file.bytes()));
  ASSERT_TRUE(silent.ok()) << silent.status().message();
  ASSERT_EQ(silent->layers[0].additive->length, 0);
  for (const auto& all : {found(models::bert(), *silent), found(*silent, models::bert())}) {
    EXPECT_FALSE(matters(all));
    for (const Difference& one : all) EXPECT_EQ(one.where.find("added"), std::string::npos) << one.where << ": " << one.why;
  }
  const ModelPositions longer = with(models::bert(), [](LayerPositions& layer) { layer.additive->length = 1024; });
  EXPECT_EQ(at(found(models::bert(), longer), "layers 0-11: added: rows").why, "the same up to row 511; beyond, one side has none");
  const ModelPositions wider = with(models::bert(), [](LayerPositions& layer) { layer.additive->width = 1024; });
  EXPECT_TRUE(at(found(models::bert(), wider), "layers 0-11: added: width").matters);
}

TEST(Diff, a_spec_that_does_not_fit_is_an_error_with_its_side) {
  ModelPositions wrong = plain();
  wrong.layers[1].rotary->base = -1;
  const auto result = diff(plain(), wrong);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message().substr(0, 40), "diff: right, layer 1: RotarySpec: base i");
}

}  // namespace
}  // namespace phasor::test

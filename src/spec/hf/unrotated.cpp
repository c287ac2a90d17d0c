// SPDX-License-Identifier: Apache-2.0
// Models that bias scores or add positions to tokens, one function per family, and the choice of reader for every encoding.
#include <algorithm>

#include "math/gain.hpp"
#include "spec/hf/layers.hpp"

namespace phasor::spec {
namespace {

// ---- Biases ----

ModelBias alibi(std::int64_t heads, double largest = 8) { return {.kind = ModelBias::Kind::alibi, .heads = heads, .max_alibi = largest}; }

LayerPositions biased(const ModelBias& bias) {
  LayerPositions layer;
  layer.bias = bias;
  return layer;
}

Part bloom(const Section& config, const Model& model) {
  const Shape shape = read_shape(config, model);
  return alike(biased(alibi(shape.heads)), shape);
}

ModelAdditive learned(const Shape& shape, std::int64_t first = 0) {
  return {.kind = ModelAdditive::Kind::learned, .length = shape.length, .width = shape.hidden, .first_position = first};
}

/// ALiBi unless attn_config says otherwise; then learned positions.
Part mpt(const Section& config, const Model& model) {
  const Shape shape = read_shape(config, model);
  LayerPositions layer;
  const std::optional<Section> attention = config.section({"attn_config"});
  if (attention && !attention->boolean({"alibi"}).value_or(true)) {
    if (config.boolean({"learned_pos_emb"}).value_or(true)) layer.additive = learned(shape);
  } else {
    layer.bias = alibi(shape.heads, attention ? attention->positive({"alibi_bias_max"}).value_or(8) : 8);
  }
  if (attention) layer.attention_scale = attention->positive({"softmax_scale"});
  return alike(layer, shape);
}

Part falcon(Reading& reading, const Section& config, const Model& model) {
  if (!config.boolean({"alibi"}).value_or(false)) return read_rotary(reading, config, model);
  const Shape shape = read_shape(config, model);
  return alike(biased(alibi(shape.heads)), shape);
}

/// An encoder that looks both ways and a decoder that does not; scores are not scaled.
Part t5(const Section& config, const Model& model) {
  constexpr std::int64_t most_buckets = std::int64_t{1} << 20;
  Shape shape = read_shape(config, model);
  shape.length = 0;
  LayerPositions layer;
  layer.attention_scale = 1;
  ModelBias bias{.kind = ModelBias::Kind::t5_buckets, .heads = shape.heads};
  bias.buckets = config.count({"relative_attention_num_buckets"}, most_buckets).value_or(32);
  bias.max_distance = config.count({"relative_attention_max_distance"}, most_positions).value_or(128);
  bias.bidirectional = true;
  layer.bias = bias;
  ModelTower encoder{.name = "encoder", .model_type = {}, .layers = alike(layer, shape).layers};
  layer.bias->bidirectional = false;
  shape.layers = config.count({"num_decoder_layers"}, most_layers).value_or(shape.layers);
  Part part = alike(layer, shape);
  part.towers.push_back(std::move(encoder));
  return part;
}

Part xlnet(const Section& config, const Model& model) {
  Shape shape = read_shape(config, model);
  shape.length = 0;
  ModelBias bias{.kind = ModelBias::Kind::xlnet, .heads = shape.heads};
  bias.max_distance = std::max<std::int64_t>(config.integer({"clamp_len"}).value_or(-1), 0);
  bias.bidirectional = config.text({"attn_type"}).value_or("bi") == "bi";
  return alike(biased(bias), shape);
}

/// How often the scores hold a product of channels: content, and each direction of position that the file names.
std::int64_t deberta_terms(const Section& config) {
  const Found found = config.find({"pos_att_type"});
  if (!found) return 1;
  std::string names;
  if (found.json->is(Json::Kind::string)) {
    names = found.json->string;
  } else {
    const std::vector<std::string> listed = held(config.texts({"pos_att_type"}));
    for (const std::string& name : listed) names += name + "|";
  }
  return 1 + static_cast<std::int64_t>(names.find("c2p") != std::string::npos) +
         static_cast<std::int64_t>(names.find("p2c") != std::string::npos);
}

Part deberta(const Section& config, const Model& model) {
  const Shape shape = read_shape(config, model);
  LayerPositions layer;
  if (config.boolean({"position_biased_input"}).value_or(true)) layer.additive = learned(shape);
  if (config.boolean({"relative_attention"}).value_or(false)) {
    ModelBias bias{.kind = ModelBias::Kind::deberta, .heads = shape.heads};
    bias.buckets = std::max<std::int64_t>(config.integer({"position_buckets"}).value_or(0), 0);
    const std::int64_t own = config.integer({"max_relative_positions"}).value_or(-1);
    bias.max_distance = own < 1 ? shape.length : own;
    bias.bidirectional = true;
    layer.bias = bias;
    layer.attention_scale = math::attention_scale(static_cast<double>(shape.head_dim * deberta_terms(config)));
  }
  return alike(layer, shape);
}

Part swin(const Section& config) {
  constexpr std::int64_t most_window = 4096;
  ModelBias bias{.kind = ModelBias::Kind::swin, .bidirectional = true};
  bias.max_distance = config.count({"window_size"}, most_window).value_or(7) - 1;
  const std::vector<std::int64_t> depths = config.integers({"depths"}).value_or(std::vector<std::int64_t>{2, 2, 6, 2});
  const std::vector<std::int64_t> heads = config.integers({"num_heads"}).value_or(std::vector<std::int64_t>{3, 6, 12, 24});
  if (heads.size() != depths.size()) config.missing("num_heads", "a number for each of depths");
  Part part;
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    if (depths[stage] < 0 || depths[stage] > most_layers) config.find({"depths"}).wrong("numbers of layers");
    bias.heads = heads[stage];
    part.layers.insert(part.layers.end(), static_cast<std::size_t>(depths[stage]), biased(bias));
    if (part.layers.size() > static_cast<std::size_t>(most_layers)) config.find({"depths"}).wrong("at most 1024 layers in all");
  }
  return part;
}

// ---- Added to tokens ----

LayerPositions with(const ModelAdditive& additive, const Model& model) {
  LayerPositions layer;
  layer.additive = additive;
  if (model.scale == AttentionScale::one) layer.attention_scale = 1;
  return layer;
}

/// Patches of an image, for a table that has a row for each.
std::int64_t patches(const Section& config) {
  constexpr std::int64_t most_pixels = 1 << 20;
  const auto side = [&](std::string_view key) -> std::int64_t {
    const Found found = config.find({key});
    if (!found || found.json->is(Json::Kind::array)) return 0;
    return *config.count({key}, most_pixels);
  };
  const std::int64_t image = side("image_size");
  const std::int64_t patch = side("patch_size");
  return patch == 0 ? 0 : (image / patch) * (image / patch);
}

Part plainly_learned(const Section& config, const Model& model) {
  Shape shape = read_shape(config, model);
  if (shape.length == 0) shape.length = patches(config);
  const std::string kind = config.text({"position_embedding_type"}).value_or("absolute");
  if (kind != "absolute" && kind != "learned" && kind != "learned_absolute") {
    fail_unsupported(config.path_of("position_embedding_type") + " is " + json_string(kind) + ", wanted absolute");
  }
  LayerPositions layer = with(learned(shape), model);
  if (config.boolean({"sinusoidal_pos_embds"}).value_or(false)) held(layer.additive).kind = ModelAdditive::Kind::sinusoidal;
  if (!config.boolean({"scale_attn_weights"}).value_or(true)) layer.attention_scale = 1;
  return alike(layer, shape);
}

/// The first token has row padding_idx + 1, so the table has that many rows more than positions.
Part roberta(const Section& config, const Model& model) {
  Shape shape = read_shape(config, model);
  const std::int64_t padding = config.integer({"pad_token_id"}).value_or(1);
  if (padding < 0 || padding >= shape.length) config.find({"pad_token_id"}).wrong("a row of the position table");
  Part part = alike(with(learned(shape, padding + 1), model), shape);
  part.length = part.trained_length = shape.length - padding - 1;
  return part;
}

/// Two rows more than positions, and the first token has row 2.
Part bart(const Section& config, const Model& model) {
  const Shape shape = read_shape(config, model);
  ModelAdditive additive = learned(shape, 2);
  additive.length += 2;
  return alike(with(additive, model), shape);
}

ModelAdditive sinusoidal(const Section& config, const Shape& shape) {
  const std::int64_t rows = config.count({"max_source_positions"}, most_positions).value_or(1500);
  return {.kind = ModelAdditive::Kind::sinusoidal, .length = rows, .width = shape.hidden};
}

Part whisper(const Section& config, const Model& model) {
  Shape shape = read_shape(config, model);
  ModelTower encoder{.name = "encoder", .model_type = {}, .layers = alike(with(sinusoidal(config, shape), model), shape).layers};
  shape.layers = config.count({"decoder_layers"}, most_layers).value_or(model.sizes.layers);
  shape.length = config.count({"max_target_positions"}, most_positions).value_or(448);
  Part part = alike(with(learned(shape), model), shape);
  part.towers.push_back(std::move(encoder));
  return part;
}

Part sinusoidal_encoder(const Section& config, const Model& model) {
  const Shape shape = read_shape(config, model);
  return alike(with(sinusoidal(config, shape), model), shape);
}

}  // namespace

Part read_unrotated(Reading& reading, const Section& config, const Model& model) {
  switch (model.encoding) {
    case Encoding::bloom:
      return bloom(config, model);
    case Encoding::mpt:
      return mpt(config, model);
    case Encoding::falcon:
      return falcon(reading, config, model);
    case Encoding::t5:
      return t5(config, model);
    case Encoding::xlnet:
      return xlnet(config, model);
    case Encoding::deberta:
      return deberta(config, model);
    case Encoding::swin:
      return swin(config);
    case Encoding::roberta:
      return roberta(config, model);
    case Encoding::bart:
      return bart(config, model);
    case Encoding::whisper:
      return whisper(config, model);
    case Encoding::sinusoidal:
      return sinusoidal_encoder(config, model);
    case Encoding::none:
      return alike({}, read_shape(config, model));
    default:
      return plainly_learned(config, model);
  }
}

Part read_part(Reading& reading, const Section& config, const Model& model) {
  if (model.encoding == Encoding::rotary) return read_rotary(reading, config, model);
  if (model.encoding <= Encoding::dinov3) return read_patches(reading, config, model);
  return read_unrotated(reading, config, model);
}

}  // namespace phasor::spec

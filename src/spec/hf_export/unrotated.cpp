// SPDX-License-Identifier: Apache-2.0
// Writing models that bias scores or add positions to tokens.
#include "spec/hf_export/export.hpp"

#include <cmath>

namespace phasor::spec {
namespace {

std::int64_t count(const std::vector<LayerPositions>& layers) { return static_cast<std::int64_t>(layers.size()); }

const std::vector<LayerPositions>* encoder_of(const ExportPart& part) {
  if (part.towers == nullptr) return nullptr;
  for (const ModelTower& tower : *part.towers) {
    if (tower.name == "encoder") return &tower.layers;
  }
  return nullptr;
}

void write_alibi(JsonObject& out, const ExportPart& part) {
  const LayerPositions& layer = part.layers->front();
  if (part.model->encoding == Encoding::falcon) out.add("alibi", layer.bias.has_value());
  if (layer.bias) out.add("num_attention_heads", layer.bias->heads);
  if (part.model->encoding != Encoding::mpt) return;
  JsonObject attention(out.depth() + 1);
  attention.add("alibi", layer.bias.has_value());
  if (layer.bias) attention.add("alibi_bias_max", layer.bias->max_alibi);
  attention.add_optional("softmax_scale", layer.attention_scale);
  out.add("attn_config", attention);
  out.add("learned_pos_emb", layer.additive.has_value());
}

void write_t5(JsonObject& out, const ExportPart& part) {
  const std::vector<LayerPositions>* encoder = encoder_of(part);
  const LayerPositions& layer = part.layers->front();
  if (encoder == nullptr || !layer.bias) throw ExportError("has no encoder or no bias, which a T5 config cannot say");
  out.add("num_layers", count(*encoder));
  out.add("num_decoder_layers", count(*part.layers));
  out.add("num_heads", layer.bias->heads);
  out.add("relative_attention_num_buckets", layer.bias->buckets);
  out.add("relative_attention_max_distance", layer.bias->max_distance);
}

void write_bias(JsonObject& out, const LayerPositions& layer, const Model& model) {
  if (model.encoding == Encoding::xlnet && layer.bias) {
    out.add("clamp_len", layer.bias->max_distance == 0 ? std::int64_t{-1} : layer.bias->max_distance);
    out.add("attn_type", layer.bias->bidirectional ? "bi" : "uni");
  }
  if (model.encoding != Encoding::deberta) return;
  out.add("position_biased_input", layer.additive.has_value());
  out.add("relative_attention", layer.bias.has_value());
  if (!layer.bias) return;
  out.add("position_buckets", layer.bias->buckets == 0 ? std::int64_t{-1} : layer.bias->buckets);
  out.add("max_relative_positions", layer.bias->max_distance);
}

void write_swin(JsonObject& out, const std::vector<LayerPositions>& layers) {
  std::vector<std::int64_t> depths;
  std::vector<std::int64_t> heads;
  for (const LayerPositions& layer : layers) {
    const std::int64_t own = layer.bias ? layer.bias->heads : 0;
    if (heads.empty() || heads.back() != own) {
      heads.push_back(own);
      depths.push_back(0);
    }
    depths.back() += 1;
  }
  out.add_list("depths", depths);
  out.add_list("num_heads", heads);
  if (layers.front().bias) out.add("window_size", held(layers.front().bias).max_distance + 1);
}

void write_additive(JsonObject& out, const ExportPart& part) {
  const LayerPositions& layer = part.layers->front();
  if (!layer.additive) return;
  const ModelAdditive& additive = *layer.additive;
  out.add("hidden_size", additive.width);
  const bool rows_of_source = additive.kind == ModelAdditive::Kind::sinusoidal;
  if (rows_of_source && part.model->encoding == Encoding::learned) out.add("sinusoidal_pos_embds", true);
  switch (part.model->encoding) {
    case Encoding::sinusoidal:
      out.add("max_source_positions", additive.length);
      break;
    case Encoding::whisper:
      out.add("max_target_positions", additive.length);
      break;
    case Encoding::bart:
      out.add("max_position_embeddings", additive.length - 2);
      break;
    case Encoding::roberta:
      out.add("max_position_embeddings", additive.length);
      out.add("pad_token_id", additive.first_position - 1);
      break;
    default:
      out.add("max_position_embeddings", additive.length);
  }
}

void write_whisper_encoder(JsonObject& out, const ExportPart& part) {
  const std::vector<LayerPositions>* encoder = encoder_of(part);
  if (encoder == nullptr || encoder->empty() || !encoder->front().additive)
    throw ExportError("has no encoder, which a Whisper config cannot say");
  out.add("encoder_layers", count(*encoder));
  out.add("decoder_layers", count(*part.layers));
  out.add("max_source_positions", held(encoder->front().additive).length);
}

/// Heads of a width of their own, so that the scale follows: DeBERTa's depends on them.
void write_heads(JsonObject& out, const ExportPart& part) {
  const LayerPositions& layer = part.layers->front();
  if (part.model->encoding == Encoding::deberta && layer.bias && layer.attention_scale) {
    const double channels = 1 / (*layer.attention_scale * *layer.attention_scale);  // head_dim times the terms of the score
    out.add("head_dim", static_cast<std::int64_t>(std::llround(channels)));
  }
  if (layer.bias) out.add("num_attention_heads", layer.bias->heads);
}

}  // namespace

void write_unrotated(JsonObject& out, const ExportPart& part) {
  const Encoding encoding = part.model->encoding;
  const LayerPositions& layer = part.layers->front();
  if (encoding == Encoding::falcon && !layer.bias) {
    out.add("alibi", false);
    return write_rotary(out, part);
  }
  if (encoding == Encoding::t5) return write_t5(out, part);
  if (encoding == Encoding::swin) return write_swin(out, *part.layers);
  if (encoding == Encoding::whisper) {
    write_whisper_encoder(out, part);
  } else {
    out.add("num_hidden_layers", count(*part.layers));
  }
  if (encoding == Encoding::bloom || encoding == Encoding::mpt || encoding == Encoding::falcon) {
    write_alibi(out, part);
  } else {
    write_heads(out, part);
  }
  write_bias(out, layer, *part.model);
  write_additive(out, part);
  if (!layer.additive && part.length > 0) out.add("max_position_embeddings", part.length);
  if (encoding == Encoding::learned && layer.attention_scale && part.model->scale != AttentionScale::one)
    out.add("scale_attn_weights", false);
}

}  // namespace phasor::spec

// SPDX-License-Identifier: Apache-2.0
// Encoders of images and video: rotary by the rows and columns of patches, one function for each layout of the table.
#include <algorithm>

#include "spec/hf/layers.hpp"
#include "spec/rotary.hpp"

namespace phasor::spec {
namespace {

double base_of(const Section& config, const Model& model) {
  const double top = config.positive({"rope_theta", "memory_attention_rope_theta"}).value_or(model.base);
  const std::optional<Section> dict = config.section({"rope_parameters", "rope_scaling"});
  return dict ? dict->positive({"rope_theta"}).value_or(top) : top;
}

/// Every axis gets as many pairs; what remains of the head is not rotated.
RotarySpec split_evenly(const Shape& shape, std::int64_t axes, double base) {
  RotarySpec spec;
  spec.head_dim = shape.head_dim;
  spec.base = base;
  const std::int64_t pairs = shape.head_dim / (2 * axes);
  spec.rotary_width = 2 * axes * pairs;
  if (pairs < 1)
    fail_config("a head of " + std::to_string(shape.head_dim) + " channels has no pair for each of " + std::to_string(axes) + " axes");
  spec.axes.sections.assign(static_cast<std::size_t>(axes), pairs);
  spec.axes.ladder = AxisLadder::own;
  return spec;
}

/// Heads whose channels do not divide by 4 would leave pairs over, which the models do not have.
void check_quarters(const Section& config, const Shape& shape) {
  if (shape.head_dim % 4 != 0) {
    fail_config(config.path_of("head_dim") + " is " + std::to_string(shape.head_dim) +
                ", wanted a multiple of 4 for rotary by rows and columns");
  }
}

LayerPositions axial(const Section& config, const Model& model, const Shape& shape) {
  check_quarters(config, shape);
  LayerPositions layer;
  layer.rotary = split_evenly(shape, 2, base_of(config, model));
  return layer;
}

LayerPositions pixtral(const Section& config, const Model& model, const Shape& shape) {
  LayerPositions layer = axial(config, model, shape);
  held(layer.rotary).axes.ladder = AxisLadder::dealt;
  return layer;
}

LayerPositions llama4_vision(const Section& config, const Model& model, const Shape& shape) {
  LayerPositions layer = axial(config, model, shape);
  held(layer.rotary).pairing = Pairing::interleaved;
  layer.first_position = 1;  // the class token stays at 0
  return layer;
}

LayerPositions gemma4_vision(const Section& config, const Model& model, const Shape& shape) {
  LayerPositions layer = axial(config, model, shape);
  held(layer.rotary).segments = 2;
  layer.attention_scale = 1;
  return layer;
}

LayerPositions sam2_memory(const Section& config, const Model& model, const Shape& shape) {
  LayerPositions layer = axial(config, model, shape);
  held(layer.rotary).pairing = Pairing::interleaved;
  return layer;
}

LayerPositions vjepa2(const Section&, const Model& model, const Shape& shape) {
  LayerPositions layer;
  layer.rotary = split_evenly(shape, 3, model.base);
  held(layer.rotary).pairing = Pairing::interleaved;
  held(layer.rotary).segments = 3;
  held(layer.rotary).lanes = Lanes::per_channel_frequencies;
  return layer;
}

LayerPositions dinov3(const Section& config, const Model& model, const Shape& shape) {
  LayerPositions layer = axial(config, model, shape);
  held(layer.rotary).unit = FrequencyUnit::turns;
  const std::int64_t registers = config.integer({"num_register_tokens"}).value_or(0);
  if (registers < 0 || registers > most_channels) config.find({"num_register_tokens"}).wrong("a number of tokens");
  layer.skipped_tokens = 1 + registers;
  return layer;
}

LayerPositions read_layer(const Section& config, const Model& model, const Shape& shape) {
  switch (model.encoding) {
    case Encoding::pixtral:
      return pixtral(config, model, shape);
    case Encoding::llama4_vision:
      return llama4_vision(config, model, shape);
    case Encoding::gemma4_vision:
      return gemma4_vision(config, model, shape);
    case Encoding::sam2_memory:
      return sam2_memory(config, model, shape);
    case Encoding::vjepa2:
      return vjepa2(config, model, shape);
    case Encoding::dinov3:
      return dinov3(config, model, shape);
    default:
      return axial(config, model, shape);
  }
}

/// SAM 2 names the sizes of its memory attention in its own way.
Shape memory_shape(const Section& config, const Model& model) {
  Shape shape;
  constexpr std::int64_t most = std::int64_t{1} << 32;
  shape.hidden = config.count({"memory_attention_hidden_size"}, most).value_or(model.sizes.hidden);
  shape.heads = config.count({"memory_attention_num_attention_heads"}, most).value_or(model.sizes.heads);
  shape.layers = config.count({"memory_attention_num_layers"}, most_layers).value_or(model.sizes.layers);
  const std::int64_t smaller = config.count({"memory_attention_downsample_rate"}, most).value_or(1);
  shape.head_dim = shape.hidden / smaller / shape.heads;
  if (shape.head_dim < 1 || shape.head_dim > most_channels) config.missing("memory_attention_hidden_size", "heads of 1 to 16384 channels");
  return shape;
}

}  // namespace

Part read_patches(Reading&, const Section& config, const Model& model) {
  const Shape shape = model.encoding == Encoding::sam2_memory ? memory_shape(config, model) : read_shape(config, model);
  LayerPositions layer = read_layer(config, model, shape);
  layer.numerics = model.numerics;
  if (const Status status = check(held(layer.rotary)); !status) fail_config(status.message());
  return alike(layer, shape);
}

}  // namespace phasor::spec

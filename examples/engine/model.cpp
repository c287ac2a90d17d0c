// SPDX-License-Identifier: Apache-2.0
// Reads config.json and model.safetensors; what is not about positions, by the device's products and norms.
#include "model.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using nlohmann::json;

/// Numbers on a device.
class Floats {
 public:
  Floats(const engine_device& device, std::int64_t count)
      : device_(device), data_(static_cast<float*>(device.take(static_cast<std::size_t>(count) * sizeof(float)))) {}
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  ~Floats() { device_.give_back(data_); }
  float* get() const { return data_; }

 private:
  const engine_device& device_;
  float* data_;
};

struct Model : engine_model {
  Model() : engine_model{} {}
  std::vector<engine_layer> layer_list;
  std::unique_ptr<Floats> values;  // of all tensors
  json tensors;                    // name -> dtype, shape, data_offsets
};

std::ifstream opened(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " cannot be read");
  return file;
}

/// The header of a safetensors file is its length in 8 bytes, then JSON; the tensors follow.
void read_tensors(const std::string& path, Model& model) {
  std::ifstream file = opened(path);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  if (!file || length > (1U << 24)) throw std::runtime_error(path + " is no safetensors file");
  std::string header(length, '\0');
  file.read(header.data(), static_cast<std::streamsize>(length));
  model.tensors = json::parse(header);
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : model.tensors.items()) {
    if (name == "__metadata__") continue;
    if (tensor.at("dtype") != "F32") throw std::runtime_error(name + " is " + tensor.at("dtype").get<std::string>() + ", wanted F32");
    bytes = std::max(bytes, tensor.at("data_offsets").at(1).get<std::uint64_t>());
  }
  std::vector<char> values(bytes);
  file.read(values.data(), static_cast<std::streamsize>(bytes));
  if (!file) throw std::runtime_error(path + " ends before its tensors do");
  model.values = std::make_unique<Floats>(*model.device, static_cast<std::int64_t>(bytes / sizeof(float)));
  model.device->copy(model.values->get(), values.data(), bytes);
}

const float* vector_of(const Model& model, const std::string& name, std::int64_t count) {
  const json& tensor = model.tensors.at(name);
  const auto offsets = tensor.at("data_offsets").get<std::vector<std::uint64_t>>();
  if (offsets.at(1) - offsets.at(0) != static_cast<std::uint64_t>(count) * sizeof(float))
    throw std::runtime_error(name + " has another size");
  return model.values->get() + offsets[0] / sizeof(float);
}

engine_matrix matrix_of(const Model& model, const std::string& name, std::int64_t in) {
  const auto shape = model.tensors.at(name).at("shape").get<std::vector<std::int64_t>>();
  if (shape.size() != 2 || shape[1] != in) throw std::runtime_error(name + " has another shape");
  return {vector_of(model, name, shape[0] * in), shape[0], in};
}

engine_norm norm_of(const Model& model, const std::string& name) {
  return {vector_of(model, name, model.hidden), model.hidden, model.norm.epsilon};
}

engine_layer layer_of(const Model& model, std::int64_t index) {
  const std::string at = "model.layers." + std::to_string(index) + ".";
  const std::int64_t hidden = model.hidden;
  engine_layer layer{};
  layer.input_norm = norm_of(model, at + "input_layernorm.weight");
  layer.q = matrix_of(model, at + "self_attn.q_proj.weight", hidden);
  layer.k = matrix_of(model, at + "self_attn.k_proj.weight", hidden);
  layer.v = matrix_of(model, at + "self_attn.v_proj.weight", hidden);
  layer.o = matrix_of(model, at + "self_attn.o_proj.weight", model.heads * model.head_dim);
  layer.feed_forward_norm = norm_of(model, at + "post_attention_layernorm.weight");
  layer.gate = matrix_of(model, at + "mlp.gate_proj.weight", hidden);
  layer.up = matrix_of(model, at + "mlp.up_proj.weight", hidden);
  layer.down = matrix_of(model, at + "mlp.down_proj.weight", layer.up.out);
  return layer;
}

std::unique_ptr<Model> loaded(const std::string& folder, const engine_device* device) {
  auto model = std::make_unique<Model>();
  const json config = json::parse(opened(folder + "/config.json"));
  engine_model& shown = *model;
  shown.device = device;
  shown.layers = config.at("num_hidden_layers");
  shown.hidden = config.at("hidden_size");
  shown.heads = config.at("num_attention_heads");
  shown.kv_heads = config.value("num_key_value_heads", shown.heads);
  shown.head_dim = config.value("head_dim", shown.hidden / shown.heads);
  shown.norm.epsilon = config.at("rms_norm_eps");
  shown.vocabulary = config.at("vocab_size");
  read_tensors(folder + "/model.safetensors", *model);
  shown.embedding = matrix_of(*model, "model.embed_tokens.weight", shown.hidden);
  shown.head = model->tensors.contains("lm_head.weight") ? matrix_of(*model, "lm_head.weight", shown.hidden) : shown.embedding;
  shown.norm = norm_of(*model, "model.norm.weight");
  for (std::int64_t i = 0; i < shown.layers; ++i) model->layer_list.push_back(layer_of(*model, i));
  shown.layer = model->layer_list.data();
  return model;
}

}  // namespace

const engine_model* engine_load(const char* folder, const engine_device* device, char* message, size_t room) {
  try {
    return loaded(folder, device).release();
  } catch (const std::exception& error) {
    std::snprintf(message, room, "%s", error.what());
    return nullptr;
  }
}

void engine_unload(const engine_model* model) { delete static_cast<const Model*>(model); }

void engine_embed(float* x, const int64_t* tokens, int64_t rows, const engine_model* model) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const row = model->embedding.values + tokens[r] * model->hidden;
    model->device->copy(x + r * model->hidden, row, static_cast<std::size_t>(model->hidden) * sizeof(float));
  }
}

void engine_feed_forward(float* x, int64_t rows, const engine_model* model, const engine_layer* layer) {
  const engine_device& device = *model->device;
  const std::int64_t inner = rows * layer->gate.out;
  const Floats h(device, rows * model->hidden), gate(device, inner), up(device, inner);
  device.norm(h.get(), x, rows, layer->feed_forward_norm);
  device.linear(gate.get(), h.get(), rows, layer->gate);
  device.linear(up.get(), h.get(), rows, layer->up);
  device.gate(gate.get(), up.get(), inner);
  device.linear(h.get(), gate.get(), rows, layer->down);
  device.add(x, h.get(), rows * model->hidden);
}

void engine_logits(float* logits, const float* hidden, const engine_model* model) {
  const engine_device& device = *model->device;
  const Floats normed(device, model->hidden), made(device, model->vocabulary);
  device.norm(normed.get(), hidden, 1, model->norm);
  device.linear(made.get(), normed.get(), 1, model->head);
  device.copy(logits, made.get(), static_cast<std::size_t>(model->vocabulary) * sizeof(float));
  device.wait();
}

int64_t engine_likeliest(const float* logits, const engine_model* model) {
  return std::max_element(logits, logits + model->vocabulary) - logits;
}

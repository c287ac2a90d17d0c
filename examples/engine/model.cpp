// SPDX-License-Identifier: Apache-2.0
// Reads config.json and model.safetensors; plain loops for everything that is not about positions.
#include "model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using nlohmann::json;

struct Model : engine_model {
  Model() : engine_model{} {}
  std::vector<engine_layer> layer_list;
  std::vector<float> values;  // of all tensors
  json tensors;               // name -> dtype, shape, data_offsets
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
  model.values.resize(bytes / sizeof(float));
  file.read(reinterpret_cast<char*>(model.values.data()), static_cast<std::streamsize>(bytes));
  if (!file) throw std::runtime_error(path + " ends before its tensors do");
}

const float* vector_of(const Model& model, const std::string& name, std::int64_t count) {
  const json& tensor = model.tensors.at(name);
  const auto offsets = tensor.at("data_offsets").get<std::vector<std::uint64_t>>();
  if (offsets.at(1) - offsets.at(0) != static_cast<std::uint64_t>(count) * sizeof(float))
    throw std::runtime_error(name + " has another size");
  return model.values.data() + offsets[0] / sizeof(float);
}

engine_matrix matrix_of(const Model& model, const std::string& name, std::int64_t in) {
  const auto shape = model.tensors.at(name).at("shape").get<std::vector<std::int64_t>>();
  if (shape.size() != 2 || shape[1] != in) throw std::runtime_error(name + " has another shape");
  return {vector_of(model, name, shape[0] * in), shape[0], in};
}

engine_layer layer_of(const Model& model, std::int64_t index) {
  const std::string at = "model.layers." + std::to_string(index) + ".";
  const std::int64_t hidden = model.hidden;
  engine_layer layer{};
  layer.input_norm = vector_of(model, at + "input_layernorm.weight", hidden);
  layer.q = matrix_of(model, at + "self_attn.q_proj.weight", hidden);
  layer.k = matrix_of(model, at + "self_attn.k_proj.weight", hidden);
  layer.v = matrix_of(model, at + "self_attn.v_proj.weight", hidden);
  layer.o = matrix_of(model, at + "self_attn.o_proj.weight", model.heads * model.head_dim);
  layer.feed_forward_norm = vector_of(model, at + "post_attention_layernorm.weight", hidden);
  layer.gate = matrix_of(model, at + "mlp.gate_proj.weight", hidden);
  layer.up = matrix_of(model, at + "mlp.up_proj.weight", hidden);
  layer.down = matrix_of(model, at + "mlp.down_proj.weight", layer.up.out);
  return layer;
}

std::unique_ptr<Model> loaded(const std::string& folder) {
  auto model = std::make_unique<Model>();
  const json config = json::parse(opened(folder + "/config.json"));
  engine_model& shown = *model;
  shown.layers = config.at("num_hidden_layers");
  shown.hidden = config.at("hidden_size");
  shown.heads = config.at("num_attention_heads");
  shown.kv_heads = config.value("num_key_value_heads", shown.heads);
  shown.head_dim = config.value("head_dim", shown.hidden / shown.heads);
  shown.epsilon = config.at("rms_norm_eps");
  shown.vocabulary = config.at("vocab_size");
  read_tensors(folder + "/model.safetensors", *model);
  shown.embedding = matrix_of(*model, "model.embed_tokens.weight", shown.hidden);
  shown.head = model->tensors.contains("lm_head.weight") ? matrix_of(*model, "lm_head.weight", shown.hidden) : shown.embedding;
  shown.norm = vector_of(*model, "model.norm.weight", shown.hidden);
  for (std::int64_t i = 0; i < shown.layers; ++i) model->layer_list.push_back(layer_of(*model, i));
  shown.layer = model->layer_list.data();
  return model;
}

}  // namespace

const engine_model* engine_load(const char* folder, char* message, size_t room) {
  try {
    return loaded(folder).release();
  } catch (const std::exception& error) {
    std::strncpy(message, error.what(), room - 1);
    message[room - 1] = '\0';
    return nullptr;
  }
}

void engine_unload(const engine_model* model) { delete static_cast<const Model*>(model); }

void engine_linear(float* y, const float* x, int64_t rows, engine_matrix matrix) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < matrix.out; ++o) {
      float sum = 0;
      for (std::int64_t i = 0; i < matrix.in; ++i) sum += matrix.values[o * matrix.in + i] * x[r * matrix.in + i];
      y[r * matrix.out + o] = sum;
    }
  }
}

void engine_rms_norm(float* y, const float* x, int64_t rows, const engine_model* model, const float* weight) {
  const std::int64_t n = model->hidden;
  for (std::int64_t r = 0; r < rows; ++r) {
    float squares = 0;
    for (std::int64_t i = 0; i < n; ++i) squares += x[r * n + i] * x[r * n + i];
    const float scale = 1 / std::sqrt(squares / static_cast<float>(n) + model->epsilon);
    for (std::int64_t i = 0; i < n; ++i) y[r * n + i] = weight[i] * (x[r * n + i] * scale);
  }
}

void engine_feed_forward(float* x, int64_t rows, const engine_model* model, const engine_layer* layer) {
  const auto sized = [rows](std::int64_t width) { return std::vector<float>(static_cast<std::size_t>(rows * width)); };
  std::vector<float> h = sized(model->hidden), gate = sized(layer->gate.out), up = sized(layer->up.out), down = sized(model->hidden);
  engine_rms_norm(h.data(), x, rows, model, layer->feed_forward_norm);
  engine_linear(gate.data(), h.data(), rows, layer->gate);
  engine_linear(up.data(), h.data(), rows, layer->up);
  for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  engine_linear(down.data(), gate.data(), rows, layer->down);
  for (std::size_t i = 0; i < down.size(); ++i) x[i] += down[i];
}

int64_t engine_next_token(const float* hidden, const engine_model* model) {
  std::vector<float> normed(static_cast<std::size_t>(model->hidden)), logits(static_cast<std::size_t>(model->vocabulary));
  engine_rms_norm(normed.data(), hidden, 1, model, model->norm);
  engine_linear(logits.data(), normed.data(), 1, model->head);
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

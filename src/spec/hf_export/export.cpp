// SPDX-License-Identifier: Apache-2.0
// to_hf_config: writes a v5 config, reads it back, and refuses when that is not the same model.
#include "spec/hf_export/export.hpp"

#include <algorithm>

#include "phasor/model.hpp"
#include "spec/files/json.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::spec {
namespace {

const Model& row_of(const ModelPositions& model) {
  static constexpr Model plain{.type = ""};
  for (const std::string* type : {&model.text_type, &model.model_type}) {
    if (const Model* row = type->empty() ? nullptr : find_model(*type)) return *row;
  }
  return plain;
}

void write_part(JsonObject& out, const ExportPart& part) {
  if (part.layers->empty()) throw ExportError("has a part without layers");
  if (part.model->encoding == Encoding::rotary) {
    write_rotary(out, part);
  } else if (part.model->encoding <= Encoding::dinov3) {
    write_patches(out, part);
  } else {
    write_unrotated(out, part);
  }
}

bool is_member(const ModelTower& tower) { return tower.name == "vision" || tower.name == "audio"; }

void write_towers(JsonObject& out, const ModelPositions& model) {
  for (const ModelTower& tower : model.towers) {
    if (!is_member(tower)) continue;
    const Model* row = find_tower(tower.model_type, model.model_type, tower.name);
    if (row == nullptr) throw ExportError("has a tower " + json_string(tower.name) + " of an unknown kind");
    JsonObject nested(out.depth() + 1);
    if (!tower.model_type.empty()) nested.add("model_type", tower.model_type);
    write_part(nested, {.layers = &tower.layers, .model = row, .length = 0});
    out.add(tower.name + "_config", nested);
  }
}

std::string write(const ModelPositions& model) {
  const ExportPart text{.layers = &model.layers, .model = &row_of(model), .length = model.length, .towers = &model.towers};
  const bool nested = !model.text_type.empty() || std::any_of(model.towers.begin(), model.towers.end(), is_member);
  JsonObject root;
  if (!model.model_type.empty()) root.add("model_type", model.model_type);
  if (!nested) {
    write_part(root, text);
    return root.text() + "\n";
  }
  const bool thinks = model.model_type.find("_omni") != std::string::npos;  // there the parts are one level deeper
  JsonObject outer(thinks ? 1 : 0);
  JsonObject& parts = thinks ? outer : root;
  JsonObject inner(parts.depth() + 1);
  if (!model.text_type.empty()) inner.add("model_type", model.text_type);
  write_part(inner, text);
  parts.add("text_config", inner);
  write_towers(parts, model);
  if (thinks) root.add("thinker_config", outer);
  return root.text() + "\n";
}

/// The positions in use that a dynamic scaling was made for; a config does not hold them.
std::int64_t length_in_use(const ModelPositions& model) {
  std::int64_t length = 0;
  for (const LayerPositions& layer : model.layers) {
    if (!layer.rotary) continue;
    if (const auto* dynamic = std::get_if<DynamicNtkScaling>(&layer.rotary->scaling)) length = std::max(length, dynamic->length);
    if (const auto* longrope = std::get_if<LongRopeScaling>(&layer.rotary->scaling)) length = std::max(length, longrope->length);
  }
  return length;
}

void check_layers(const std::string& where, const std::vector<LayerPositions>& wanted, const std::vector<LayerPositions>& read,
                  const std::string& type) {
  if (wanted.size() != read.size())
    throw ExportError("has " + std::to_string(wanted.size()) + " " + where + "layers, which read back as " + std::to_string(read.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string field = first_difference(wanted[i], read[i]);
    if (field.empty()) continue;
    std::string message = "has a ";
    message.append(field).append(" in ").append(where).append("layer ").append(std::to_string(i));
    throw ExportError(message.append(" that a config of model_type ").append(json_string(type)).append(" cannot say"));
  }
}

void check_same(const ModelPositions& wanted, const std::string& text) {
  const Result<ModelPositions> read = parse_hf_config(text, {.length = length_in_use(wanted)});
  if (!read) throw ExportError("does not read back: " + read.status().message());
  check_layers("", wanted.layers, read->layers, wanted.model_type);
  if (wanted.towers.size() != read->towers.size())
    throw ExportError("has towers that a config of model_type " + json_string(wanted.model_type) + " cannot say");
  for (std::size_t i = 0; i < wanted.towers.size(); ++i) {
    check_layers(wanted.towers[i].name + " ", wanted.towers[i].layers, read->towers[i].layers, wanted.model_type);
  }
}

}  // namespace
}  // namespace phasor::spec

namespace phasor {

Result<std::string> to_hf_config(const ModelPositions& model) {
  return spec::without_exceptions("to_hf_config", [&]() -> Result<std::string> {
    try {
      std::string text = spec::write(model);
      spec::check_same(model, text);
      return text;
    } catch (const spec::ExportError& error) {
      return Status::unsupported(std::string("to_hf_config: the model ") + error.what());
    }
  });
}

}  // namespace phasor

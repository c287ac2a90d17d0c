// SPDX-License-Identifier: Apache-2.0
// Finding a row of the table of models.
#include "spec/hf/models.hpp"

#include <initializer_list>
#include <string>

namespace phasor::spec {
namespace {

const Model* exact(std::string_view type) {
  for (const auto rows : {text_models(), other_models()}) {
    for (const Model& row : rows) {
      if (row.type == type) return &row;
    }
  }
  return nullptr;
}

/// The name without the first of these endings that it has.
std::string_view without(std::string_view name, std::initializer_list<std::string_view> endings) {
  for (const std::string_view ending : endings) {
    if (name.size() > ending.size() && name.substr(name.size() - ending.size()) == ending)
      return name.substr(0, name.size() - ending.size());
  }
  return name;
}

}  // namespace

const Model* find_model(std::string_view type) {
  if (const Model* row = exact(type)) return row;
  return exact(without(type, {"_text", "_text_model", "_thinker", "_language_model"}));
}

const Model* find_tower(std::string_view type, std::string_view parent, std::string_view part) {
  if (type != parent) {  // older files name the whole model in the tower
    if (const Model* row = exact(type)) return row;
  }
  const auto named = [part](std::string_view name) {
    const std::string_view family =
        without(name, {"_vision_model", "_vision_encoder", "_vision", "_audio_encoder", "_audio_model", "_audio", "_encoder"});
    return exact(std::string(family) + "_" + std::string(part));
  };
  if (const Model* row = named(type)) return row;
  return named(parent);
}

}  // namespace phasor::spec

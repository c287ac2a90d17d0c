// SPDX-License-Identifier: Apache-2.0
// explain_json: the facts of explain for programs, under stable names. The keys of a spec are the names of its fields.

#include "analysis/model/explain_words.hpp"
#include "analysis/model/groups.hpp"
#include "analysis/model/json.hpp"
#include "analysis/model/words.hpp"
#include "spec/format.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using namespace analysis;

Json run_json(const PairRun& run) {
  Json json{{"first_pair", run.first}, {"last_pair", run.last}};
  json["axis"] = run.axis < 0 ? Json() : Json(run.axis);  // null: the run cuts across axes
  json["slowed_from"] = json_number(run.slowed_from);     // null: never turns
  json["slowed_to"] = json_number(run.slowed_to);
  json["fastest_wavelength"] = json_number(run.fastest_wavelength);
  json["slowest_wavelength"] = json_number(run.slowest_wavelength);
  return json;
}

Json limit_json(const Float32Limit& limit) {
  Json json{{"error", kLost}};
  json["position"] = limit.position ? Json(*limit.position) : Json();
  json["good_below"] = limit.good_below;
  return json;
}

/// Null for what is not known, not 0.
Json if_known(std::int64_t length, const Json& value) { return length == 0 ? Json() : value; }

Json facts_json(const RopeFacts& facts, const Lengths& lengths) {
  Json json{{"pairs", facts.pairs}};
  json["frequencies"] = facts.rotary.frequencies();
  json["axis_of_pair"] = axes_of_pairs(facts.rotary.spec());
  json["fastest_wavelength"] = facts.runs.empty() ? Json() : json_number(facts.fastest_wavelength);
  json["slowest_wavelength"] = facts.runs.empty() ? Json() : json_number(facts.slowest_wavelength);
  json["still_pairs"] = facts.still_pairs;
  json["pairs_slower_than_trained_length"] = if_known(lengths.trained, facts.slower_than_trained);
  json["pairs_slower_than_length"] = if_known(lengths.allowed, facts.slower_than_allowed);
  json["interpolation"] = Json::array();
  for (const PairRun& run : facts.runs) json["interpolation"].push_back(run_json(run));
  json["amplitude"] = facts.rotary.amplitude();
  json["softmax_scale"] = facts.rotary.softmax_scale();
  json["float32_angles"] = facts.float32 ? limit_json(*facts.float32) : Json();
  json["table_bytes"] = if_known(lengths.allowed, facts.table_bytes_per_position * static_cast<double>(lengths.allowed));
  json["table_bytes_phasor"] = 0;
  return json;
}

Result<Json> group_json(const LayerGroup& group, const Lengths& lengths) {
  Json json{{"where", group.where}};
  json["layers"] = group.layers;
  json.update(layer_json(*group.layer));
  json["rotary_facts"] = Json();
  json["score_scale"] = Json();
  if (!group.layer->rotary) {
    if (group.layer->attention_scale) json["score_scale"] = *group.layer->attention_scale;
    return json;
  }
  const auto facts = rope_facts(*group.layer->rotary, lengths);
  if (!facts.ok()) return Status::invalid(spec::format("explain_json: {}: {}", group.where, facts.status().message()));
  json["rotary_facts"] = facts_json(*facts, lengths);
  json["score_scale"] = attention_scale(*group.layer, facts->rotary.softmax_scale());
  return json;
}

Result<Json> groups_json(const std::vector<LayerPositions>& layers, const ExplainOptions& options, const Lengths& lengths) {
  const auto groups = group_layers(layers, options.layer);
  if (!groups.ok()) return groups.status();
  Json json = Json::array();
  for (const LayerGroup& group : *groups) {
    auto one = group_json(group, lengths);
    if (!one.ok()) return one.status();
    json.push_back(*std::move(one));
  }
  return json;
}

Result<Json> model_json(const ModelPositions& model, const ExplainOptions& options) {
  const Lengths lengths{model.trained_length, model.length == 0 ? model.trained_length : model.length};
  Json json{{"dialect", model.dialect}, {"model_type", model.model_type}};
  json["text_type"] = model.text_type;
  json["layer_count"] = model.layers.size();
  json["trained_length"] = if_known(model.trained_length, model.trained_length);
  json["length"] = if_known(lengths.allowed, lengths.allowed);
  auto groups = groups_json(model.layers, options, lengths);
  if (!groups.ok()) return groups.status();
  json["groups"] = *std::move(groups);
  json["towers"] = Json::array();
  for (const ModelTower& tower : model.towers) {
    if (options.layer) break;
    auto parts = groups_json(tower.layers, {}, {});
    if (!parts.ok()) return parts.status();
    json["towers"].push_back(
        Json{{"name", tower.name}, {"model_type", tower.model_type}, {"layer_count", tower.layers.size()}, {"groups", *std::move(parts)}});
  }
  json["warnings"] = model.warnings;
  return json;
}

}  // namespace

Result<std::string> explain_json(const ModelPositions& model, const ExplainOptions& options) {
  return spec::without_exceptions("explain_json", [&]() -> Result<std::string> {
    const auto json = model_json(model, options);
    if (!json.ok()) return json.status();
    return dumped(*json, 1) + "\n";
  });
}

}  // namespace phasor

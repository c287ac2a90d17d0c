// SPDX-License-Identifier: Apache-2.0
// explain: a model's positions on one screen, in plain words and a table.

#include <cmath>

#include "analysis/model/explain_words.hpp"
#include "analysis/model/groups.hpp"
#include "analysis/model/json.hpp"
#include "analysis/model/words.hpp"
#include "spec/format.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using namespace analysis;

/// More groups than this would not fit on a screen: each then gets a sentence instead of a table.
constexpr std::size_t kMostTables = 3;

Lengths lengths_of(const ModelPositions& model) { return {model.trained_length, model.length == 0 ? model.trained_length : model.length}; }

std::string slowed(const PairRun& run) {
  if (std::isinf(run.slowed_from)) return "never turn";
  if (run.slowed_from == 1 && run.slowed_to == 1) return "untouched";
  if (std::isinf(run.slowed_to)) return number(run.slowed_from) + "x to never";
  const std::string from = number(run.slowed_from);
  const std::string to = number(run.slowed_to);
  return from == to ? spec::format("{}x slower", to) : spec::format("{}x to {}x slower", from, to);
}

std::string turns(const PairRun& run, std::int64_t length) {
  if (length == 0 || std::isinf(run.fastest_wavelength)) return "";
  const auto positions = static_cast<double>(length);
  return span_of(positions / run.fastest_wavelength, positions / run.slowest_wavelength, Digits::three);
}

/// What a position is counted in; coordinates are no tokens.
std::string unit_of(const RotarySpec& spec) { return spec.unit == FrequencyUnit::turns ? "units" : "positions"; }

/// One line a run of pairs.
void add_runs(Page& page, const RopeFacts& facts, const Lengths& lengths) {
  const std::int64_t axes = axis_count(facts.rotary.spec());
  const bool by_axis = axes > 1 && facts.runs.front().axis >= 0;
  const std::int64_t trained = lengths.allowed == lengths.trained ? 0 : lengths.trained;
  const auto heading = [](std::int64_t length) { return length == 0 ? "" : "turns in " + grouped(length); };
  std::vector<std::vector<std::string>> rows{{"pairs", by_axis ? "axis" : "", "against unscaled",
                                              unit_of(facts.rotary.spec()) + " in a turn", heading(lengths.allowed), heading(trained)}};
  for (const PairRun& run : facts.runs) {
    const bool still = std::isinf(run.fastest_wavelength);
    rows.push_back({run.first == run.last ? std::to_string(run.first) : spec::format("{}-{}", run.first, run.last),
                    by_axis ? axis_name(run.axis, axes) : "", slowed(run),
                    still ? "" : span_of(run.fastest_wavelength, run.slowest_wavelength), turns(run, lengths.allowed),
                    turns(run, trained)});
  }
  page.table(rows);
}

std::string slow_pairs(const RopeFacts& facts, const Lengths& lengths) {
  if (lengths.allowed == 0) return "";
  const bool extended = lengths.trained > 0 && lengths.allowed != lengths.trained;
  std::string text =
      spec::format("{} of {} turn less than once in {} positions", facts.slower_than_allowed, facts.pairs, grouped(lengths.allowed));
  if (extended) text += spec::format(" (allowed), {} in {} (trained)", facts.slower_than_trained, grouped(lengths.trained));
  if (facts.still_pairs > 0) text += spec::format("; {} never turn", facts.still_pairs);
  return text;
}

std::string scale_words(const LayerPositions& layer, double amplitude, double softmax) {
  const std::string scale = layer.attention_scale ? number(*layer.attention_scale)
                            : layer.rotary        ? spec::format("1/sqrt({})", layer.rotary->head_dim)
                                                  : std::string();
  if (scale.empty()) return "";
  const std::string factor = softmax == 1 ? "" : spec::format(" x softmax factor {}", number(softmax));
  const bool is_number = layer.attention_scale.has_value() && softmax == 1;
  std::string text =
      is_number ? "q k times " + scale : spec::format("q k times {}{} = {}", scale, factor, number(attention_scale(layer, softmax)));
  if (!layer.rotary) return text;
  text += spec::format("; amplitude {}", number(amplitude));
  if (amplitude != 1) text += spec::format(" (cos and sin are that much larger, rotated scores {}x)", number(amplitude * amplitude));
  return text;
}

std::string float32_words(const RopeFacts& facts) {
  if (!facts.float32) return "";
  if (facts.float32->position) {
    return spec::format("err by {} or more in a cosine or sine first at position {}; phasor's nowhere", number(kLost),
                        grouped(*facts.float32->position));
  }
  return spec::format("err by less than {} in every cosine and sine up to position {} at least", number(kLost),
                      grouped(facts.float32->good_below - 1));
}

std::string table_words(const RopeFacts& facts, const Lengths& lengths) {
  const std::string what = "in float32; phasor keeps 0 bytes";
  if (lengths.allowed == 0) return spec::format("{} a position {}", bytes_in_words(facts.table_bytes_per_position), what);
  return spec::format("{} for {} positions {}", bytes_in_words(facts.table_bytes_per_position * static_cast<double>(lengths.allowed)),
                      grouped(lengths.allowed), what);
}

std::string dual_chunk_words(const ModelDualChunk& dual) {
  return spec::format("positions are mapped so that no distance exceeds {} ({} of them local)", grouped(dual.chunk_size),
                      grouped(dual.local_size));
}

void add_common(Page& page, const LayerPositions& layer, const Lengths& lengths) {
  if (layer.bias) page.item("bias", bias_words(*layer.bias));
  if (layer.additive) page.item("added", additive_words(*layer.additive));
  if (layer.query_temperature) page.item("temperature", temperature_words(*layer.query_temperature, lengths.allowed));
  if (layer.window > 0) page.item("window", spec::format("a token sees the last {} positions only", grouped(layer.window)));
  if (layer.chunk > 0) page.item("chunks", spec::format("a token sees its own chunk of {} positions only", grouped(layer.chunk)));
  if (layer.dual_chunk) page.item("dual chunks", dual_chunk_words(*layer.dual_chunk));
  if (layer.output_turned_back) page.item("values", "rotated too, and the output turned back by the query's position");
  if (layer.skipped_tokens > 0) page.item("skipped", spec::format("the first {} not rotated", counted(layer.skipped_tokens, "token")));
  if (layer.first_position != 0) page.item("positions", spec::format("begin at {}", grouped(layer.first_position)));
}

std::string rounding_words(const LayerPositions& layer) {
  if (layer.numerics == Numerics::exact) return "exact";
  return spec::format("the model's own is that of the numerics profile {}", name_of(layer.numerics));
}

/// Groups that turn alike are told of once.
const LayerGroup* same_rotation(const LayerGroup& group, const std::vector<LayerGroup>& groups) {
  if (!group.layer->rotary) return nullptr;
  for (const LayerGroup& other : groups) {
    if (&other == &group) return nullptr;
    if (other.layer->rotary && rotary_json(*other.layer->rotary) == rotary_json(*group.layer->rotary)) return &other;
  }
  return nullptr;
}

void add_rotation(Page& page, const RopeFacts& facts, const Lengths& lengths) {
  const RotarySpec& spec = facts.rotary.spec();
  page.item("pairing", pairing_words(spec));
  page.item("base", base_words(spec));
  page.item("scaling", scaling_words(spec));
  page.item("axes", axes_words(spec));
  if (!facts.runs.empty()) page.item("slow pairs", slow_pairs(facts, lengths));
  page.item("float32 angles", float32_words(facts));
  page.item("cos/sin table", table_words(facts, lengths));
}

Status add_rotary(Page& page, const LayerGroup& group, const std::vector<LayerGroup>& groups, const Lengths& lengths) {
  const LayerPositions& layer = *group.layer;
  if (!layer.rotary) return {};
  const auto facts = rope_facts(*layer.rotary, lengths);
  if (!facts.ok()) return Status::invalid(spec::format("explain: {}: {}", group.where, facts.status().message()));
  const LayerGroup* same = same_rotation(group, groups);
  if (same != nullptr) {
    page.item("rotation", "the same as that of " + same->where);
  } else {
    add_rotation(page, *facts, lengths);
  }
  page.item("scores", scale_words(layer, facts->rotary.amplitude(), facts->rotary.softmax_scale()));
  page.item("rounding", rounding_words(layer));
  add_common(page, layer, lengths);
  if (same == nullptr && !facts->runs.empty()) add_runs(page, *facts, lengths);
  return {};
}

std::string kind_of(const LayerPositions& layer) {
  std::vector<std::string> kinds;
  if (layer.rotary) kinds.emplace_back("rotary");
  if (layer.bias) kinds.emplace_back("a bias on the scores");
  if (layer.additive) kinds.emplace_back("vectors added to the tokens");
  if (kinds.empty()) return "no positions at all (NoPE)";
  return joined(kinds, " and ");
}

std::size_t layers_in(const std::vector<LayerGroup>& groups) {
  std::size_t layers = 0;
  for (const LayerGroup& group : groups) layers += group.layers.size();
  return layers;
}

std::string heading_of(const LayerGroup& group, std::size_t layers) {
  std::string where = group.layers.size() == layers && layers > 1 ? spec::format("all {} layers", layers) : group.where;
  where[0] = static_cast<char>(where[0] - 'a' + 'A');
  const std::string type = group.layer->type.empty() ? "" : spec::format(", {}", group.layer->type);
  return spec::format("{}{}: {}", where, type, kind_of(*group.layer));
}

Status add_group(Page& page, const LayerGroup& group, const std::vector<LayerGroup>& groups, const Lengths& lengths) {
  page.blank();
  page.paragraph(heading_of(group, layers_in(groups)), 2);
  if (group.layer->rotary) return add_rotary(page, group, groups, lengths);
  page.item("scores", scale_words(*group.layer, 1, 1));
  add_common(page, *group.layer, lengths);
  return {};
}

/// A group in a sentence, for towers and for models with many groups.
Status add_sentence(Page& page, const LayerGroup& group, const std::vector<LayerGroup>& groups, const Lengths& lengths) {
  const LayerPositions& layer = *group.layer;
  std::vector<std::string> parts;
  if (layer.rotary) {
    const auto facts = rope_facts(*layer.rotary, lengths);
    if (!facts.ok()) return Status::invalid(spec::format("explain: {}: {}", group.where, facts.status().message()));
    parts = {pairing_words(*layer.rotary), "base " + base_words(*layer.rotary), scaling_words(*layer.rotary)};
    if (base_words(*layer.rotary).empty()) parts[1].clear();
    if (const std::string axes = axes_words(*layer.rotary); !axes.empty()) parts.push_back("axes " + axes);
    if (!facts->runs.empty()) {
      parts.push_back(
          spec::format("{} {} in a turn", span_of(facts->fastest_wavelength, facts->slowest_wavelength), unit_of(*layer.rotary)));
    }
    if (facts->rotary.amplitude() != 1) parts.push_back("amplitude " + number(facts->rotary.amplitude()));
  }
  if (layer.bias) parts.push_back(bias_words(*layer.bias));
  if (layer.additive) parts.push_back(additive_words(*layer.additive));
  if (layer.query_temperature) parts.push_back(temperature_words(*layer.query_temperature, lengths.allowed));
  if (layer.window > 0) parts.push_back(spec::format("window {}", grouped(layer.window)));
  if (layer.chunk > 0) parts.push_back(spec::format("chunks of {}", grouped(layer.chunk)));
  if (layer.dual_chunk) parts.push_back(dual_chunk_words(*layer.dual_chunk));
  if (layer.first_position != 0) parts.push_back(spec::format("positions begin at {}", grouped(layer.first_position)));
  if (layer.skipped_tokens > 0) parts.push_back(spec::format("the first {} skipped", counted(layer.skipped_tokens, "token")));
  const std::string tail = joined(parts, "; ");
  page.paragraph(spec::format("  {}{}{}", heading_of(group, layers_in(groups)), tail.empty() ? "" : "; ", tail), 4);
  return {};
}

std::string context_words(const ModelPositions& model) {
  if (model.trained_length == 0 && model.length == 0) return "The file does not say how many positions it was trained for.";
  if (model.trained_length == 0) return spec::format("The file allows {} positions.", grouped(model.length));
  if (model.length == 0 || model.length == model.trained_length) {
    return spec::format("Trained for {} positions, not extended.", grouped(model.trained_length));
  }
  return spec::format("Trained for {} positions, extended to {} ({}x).", grouped(model.trained_length), grouped(model.length),
                      number(static_cast<double>(model.length) / static_cast<double>(model.trained_length)));
}

Status add_layers(Page& page, const ModelPositions& model, const ExplainOptions& options) {
  const auto groups = group_layers(model.layers, options.layer);
  if (!groups.ok()) return groups.status();
  for (const LayerGroup& group : *groups) {
    const Status status = (groups->size() <= kMostTables ? add_group : add_sentence)(page, group, *groups, lengths_of(model));
    if (!status.ok()) return status;
  }
  return {};
}

Status add_towers(Page& page, const ModelPositions& model) {
  for (const ModelTower& tower : model.towers) {
    page.blank();
    page.paragraph(spec::format("Beside the text, {}{}: {}", tower.name, tower.model_type.empty() ? "" : " (" + tower.model_type + ")",
                                counted(static_cast<std::int64_t>(tower.layers.size()), "layer")));
    const std::vector<LayerGroup> groups = group_layers(tower.layers);
    for (const LayerGroup& group : groups) {
      const Status status = add_sentence(page, group, groups, {});
      if (!status.ok()) return status;
    }
  }
  return {};
}

Result<std::string> explain_model(const ModelPositions& model, const ExplainOptions& options) {
  Page page;
  const std::string file = model.dialect == "huggingface" ? "Hugging Face config" : model.dialect == "gguf" ? "GGUF file" : "file";
  page.paragraph(spec::format("{} ({}): {}. {}", model.model_type.empty() ? "A model" : model.model_type, file,
                              counted(static_cast<std::int64_t>(model.layers.size()), "layer"), context_words(model)));
  if (Status status = add_layers(page, model, options); !status.ok()) return status;
  if (!options.layer) {
    if (Status status = add_towers(page, model); !status.ok()) return status;
  }
  if (!model.warnings.empty()) page.blank();
  for (const std::string& warning : model.warnings) page.paragraph("Warning: " + warning, 2);
  return page.take();
}

}  // namespace

Result<std::string> explain(const ModelPositions& model, const ExplainOptions& options) {
  return spec::without_exceptions("explain", [&] { return explain_model(model, options); });
}

}  // namespace phasor

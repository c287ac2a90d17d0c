// SPDX-License-Identifier: Apache-2.0
// Models: presets, what a file says, two of them side by side, other dialects.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "figures/models.hpp"
#include "phasor/gguf_head.hpp"
#include "web/core/methods.hpp"
#include "web/core/spec_json.hpp"

namespace phasor::web {
namespace {

using figures::Numbers;

constexpr const char* kBiases[] = {"alibi", "t5_buckets", "deberta", "xlnet", "transformer_xl", "swin"};  // as ModelBias::Kind

/// A model, or what is missing of its file.
struct Source {
  std::optional<ModelPositions> model = std::nullopt;
  std::vector<FileRange> missing = {};
};

Source read_gguf(Request gguf, const ReadOptions& options) {
  const auto size = static_cast<std::uint64_t>(gguf.integer("size", 0));
  std::vector<FilePart> parts;
  for (Request& range : gguf.objects("ranges")) {
    const auto attached = static_cast<std::int64_t>(range.attached().size());
    const std::int64_t at = range.integer("at", 0, {0, attached});
    const std::int64_t length = range.integer("length", 0, {0, attached - at});
    const std::int64_t offset = range.integer("offset", 0);
    range.finish();
    parts.push_back(
        {static_cast<std::uint64_t>(offset), range.attached().subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(length))});
  }
  gguf.finish();
  GgufParts found = value_of(parse_gguf_parts(size, parts, options), "source");
  return {std::move(found.model), std::move(found.missing)};
}

/// A file that is no GGUF, with the words that read_model has about its size.
Source read_config(Request file, const std::string& where, const ReadOptions& options) {
  constexpr std::int64_t largest = std::int64_t{64} << 20;
  const auto attached = static_cast<std::int64_t>(file.attached().size());
  const std::int64_t at = file.integer("at", 0, {0, attached});
  const std::int64_t length = file.integer("length", 0, {0, attached - at});
  const std::int64_t size = file.integer("size", length);
  file.finish();
  if (size == 0) fail(Status::invalid("is empty, wanted a config.json or a GGUF file"), where);
  if (size > largest) {
    fail(Status::invalid(fmt::format("is neither a GGUF file nor a config.json, which has at most {} bytes", largest)), where);
  }
  if (length != size) refuse(where.c_str(), fmt::format("length is {}, wanted the file's size, {}", length, size));
  const auto bytes = file.attached().subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(length));
  return {value_of(parse_hf_config({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options), where), {}};
}

Source read_source(Request& request, const char* name, const ReadOptions& options) {
  Request source = request.object(name);
  const std::string where = request.where(name);
  Source found;
  if (source.has("gguf")) {
    found = read_gguf(source.object("gguf"), options);
  } else if (source.has("config_bytes")) {
    found = read_config(source.object("config_bytes"), where, options);
  } else if (source.has("config")) {
    found.model = value_of(parse_hf_config(source.text("config", ""), options), where);
  } else {
    found.model = value_of(figures::built_in_model(source.text("preset", "llama3.1"), options), where);
  }
  source.finish();
  return found;
}

ReadOptions options_of(Request& request) { return {.length = request.integer("length", 0, {0, std::int64_t{1} << 40})}; }

Json json_of(const std::vector<FileRange>& ranges) {
  Json list = Json::array();
  for (const FileRange& range : ranges) list.push_back(Json::object().with("offset", range.offset).with("length", range.length));
  return list;
}

Json json_of(const std::optional<ModelBias>& bias) {
  if (!bias) return nullptr;
  return Json::object()
      .with("kind", kBiases[static_cast<std::size_t>(bias->kind)])
      .with("heads", bias->heads)
      .with("buckets", bias->buckets)
      .with("max_distance", bias->max_distance)
      .with("max_alibi", bias->max_alibi)
      .with("bidirectional", bias->bidirectional);
}

Json json_of(const std::optional<ModelAdditive>& additive) {
  if (!additive) return nullptr;
  return Json::object()
      .with("kind", additive->kind == ModelAdditive::Kind::learned ? "learned" : "sinusoidal")
      .with("length", additive->length)
      .with("width", additive->width)
      .with("first_position", additive->first_position);
}

Json json_of(const std::optional<QueryTemperature>& temperature) {
  if (!temperature) return nullptr;
  return Json::object()
      .with("kind", temperature->kind == QueryTemperature::Kind::log_n ? "log_n" : "floored_log")
      .with("scale", temperature->scale)
      .with("length", temperature->length)
      .with("shift", temperature->shift);
}

Json json_of(const std::optional<ModelDualChunk>& chunks) {
  if (!chunks) return nullptr;
  return Json::object().with("chunk_size", chunks->chunk_size).with("local_size", chunks->local_size);
}

/// Everything that a layer says, but for its number: layers of equal ones are alike.
Json facts_of(const LayerPositions& layer) {
  const auto& rotary = layer.rotary;
  return Json::object()
      .with("type", layer.type)
      .with("label", rotary ? figures::label_of(*rotary) : std::string())
      .with("describe", rotary ? figures::describe(*rotary) : std::string())
      .with("spec", rotary ? spec_json(*rotary) : Json())
      .with("numerics", figures::name_of(layer.numerics))
      .with("window", layer.window)
      .with("chunk", layer.chunk)
      .with("attention_scale", layer.attention_scale ? Json(*layer.attention_scale) : Json())
      .with("bias", json_of(layer.bias))
      .with("additive", json_of(layer.additive))
      .with("dual_chunk", json_of(layer.dual_chunk))
      .with("query_temperature", json_of(layer.query_temperature))
      .with("skipped_tokens", layer.skipped_tokens)
      .with("first_position", layer.first_position)
      .with("output_turned_back", layer.output_turned_back);
}

struct Group {
  std::string text;  // of the facts
  Json facts;
  Numbers layers;
};

void append_groups(const std::string& tower, const std::vector<LayerPositions>& layers, Json& list) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Json facts = facts_of(layers[i]);
    std::string text = facts.line();
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return group.text == text; });
    Group& group = same == groups.end() ? groups.emplace_back(Group{std::move(text), std::move(facts), {}}) : *same;
    group.layers.push_back(static_cast<std::int64_t>(i));
  }
  for (Group& group : groups) {
    group.facts.add("tower", tower);
    group.facts.add("words", (tower.empty() ? "" : tower + ", ") + figures::layer_words(group.layers));
    group.facts.add("layers", group.layers);
    list.push_back(std::move(group.facts));
  }
}

Json groups_of(const ModelPositions& model) {
  Json list = Json::array();
  append_groups("", model.layers, list);
  for (const ModelTower& tower : model.towers) append_groups(tower.name, tower.layers, list);
  return list;
}

Json head_of(const ModelPositions& model) {
  return Json::object()
      .with("dialect", model.dialect)
      .with("model_type", model.model_type)
      .with("text_type", model.text_type)
      .with("layers", model.layers.size())
      .with("trained_length", model.trained_length)
      .with("length", model.length)
      .with("warnings", model.warnings);
}

Json first_spec(const ModelPositions& model) {
  const auto spec = figures::rotary_of(model, std::nullopt);
  return spec.ok() ? spec_json(*spec) : Json();
}

}  // namespace

Json presets(Request& /*request*/, Blocks& /*blocks*/) {
  Json list = Json::array();
  for (const std::string& name : figures::built_in_names()) {
    const ModelPositions model = value_of(figures::built_in_model(name), "presets");
    const RotarySpec spec = value_of(figures::rotary_of(model, std::nullopt), "presets");
    list.push_back(Json::object()
                       .with("name", name)
                       .with("label", figures::label_of(spec))
                       .with("describe", figures::describe(spec))
                       .with("layers", model.layers.size())
                       .with("trained_length", model.trained_length)
                       .with("length", model.length)
                       .with("spec", spec_json(spec)));
  }
  return Json::object().with("presets", list);
}

Json model_read(Request& request, Blocks& /*blocks*/) {
  const Source source = read_source(request, "source", options_of(request));
  if (!source.model) return Json::object().with("need", json_of(source.missing));
  const ModelPositions& model = *source.model;
  return Json::object()
      .with("model", head_of(model))
      .with("explain", value_of(explain(model), "source"))
      .with("facts", Json::parse(value_of(explain_json(model), "source")))
      .with("spec", first_spec(model))
      .with("groups", groups_of(model));
}

Json model_diff(Request& request, Blocks& /*blocks*/) {
  const ReadOptions options = options_of(request);
  const Source left = read_source(request, "left", options);
  const Source right = read_source(request, "right", options);
  if (!left.model || !right.model)
    return Json::object().with("need_left", json_of(left.missing)).with("need_right", json_of(right.missing));
  const auto found = value_of(diff(*left.model, *right.model), "left");
  Json list = Json::array();
  for (const Difference& one : found) {
    list.push_back(Json::object()
                       .with("where", one.where)
                       .with("left", one.left)
                       .with("right", one.right)
                       .with("matters", one.matters)
                       .with("why", one.why));
  }
  const auto matter = std::count_if(found.begin(), found.end(), [](const Difference& one) { return one.matters; });
  return Json::object().with("differences", list).with("matter", matter);
}

Json model_export(Request& request, Blocks& /*blocks*/) {
  const ReadOptions options = options_of(request);
  const Source source = read_source(request, "source", options);
  const std::string given = request.text("architecture", "");
  if (!source.model) return Json::object().with("need", json_of(source.missing));
  const std::string& architecture = given.empty() ? source.model->model_type : given;  // as the tool has it
  return Json::object()
      .with("hf_config", text_or_error(to_hf_config(*source.model)))
      .with("gguf_keys", text_or_error(to_gguf_keys(*source.model, architecture)));
}

}  // namespace phasor::web

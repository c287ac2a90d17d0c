// SPDX-License-Identifier: Apache-2.0
// parse_hf_config: where the text part and the towers of a config are, and which row of the table each has.
#include "phasor/model.hpp"
#include "spec/files/json.hpp"
#include "spec/hf/layers.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::spec {
namespace {

bool rotates(const Section& config) {
  for (const char* key :
       {"rope_parameters", "rope_scaling", "rope_theta", "rotary_pct", "rotary_dim", "rotary_emb_base", "partial_rotary_factor"}) {
    if (config.mentions(key)) return true;
  }
  return false;
}

/// What a model_type means that the table does not have, if the file has keys of rotary encoding.
const Model& unknown_model() {
  static constexpr Model model{.type = "", .sizes = {1, 1, 0, 1, 0}};
  return model;
}

/// The text part: the whole file, or one of its members.
struct Text {
  Section section;
  std::string type;         // of the section; empty when it names none
  std::string parent_type;  // of the whole file
};

Text find_text(const Section& root, const std::string& type) {
  for (const char* key : {"thinker_config", "text_config", "llm_config", "language_config"}) {
    const std::optional<Section> nested = root.section({key});
    if (!nested) continue;
    Text text = find_text(*nested, nested->text({"model_type"}).value_or(""));
    if (text.type.empty()) text.type = nested->text({"model_type"}).value_or("");
    text.parent_type = type;
    return text;
  }
  return {root, type, type};
}

const Model& model_of(Reading& reading, const Text& text) {
  const Model* model = find_model(text.type.empty() ? text.parent_type : text.type);
  if (model == nullptr && text.type != text.parent_type) model = find_model(text.parent_type);
  if (model != nullptr) return *model;
  const std::string named = text.type.empty() ? text.parent_type : text.type;
  const std::string path = text.section.path_of("model_type");
  if (!rotates(text.section)) {
    constexpr std::string_view wanted = "a model of the table, or keys of rotary encoding";
    if (named.empty() && !text.section.find({"model_type"})) text.section.missing("model_type", wanted);
    if (named.empty()) text.section.find({"model_type"}).wrong(wanted);
    fail_unsupported(path + " is " + json_string(named) + ", wanted a model of the table or a file with keys of rotary encoding");
  }
  reading.warn(path + " is " + json_string(named) + ", which the table of models does not have; read as rotary with half pairing");
  const Section& config = text.section;
  if (!config.find({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}))
    config.missing("num_hidden_layers", "a whole number above 0");
  const bool has_heads = config.find({"num_attention_heads", "n_head", "n_heads"}) && config.find({"hidden_size", "n_embd", "d_model"});
  if (!config.has("head_dim") && !has_heads) config.missing("head_dim", "it, or hidden_size and num_attention_heads");
  return unknown_model();
}

void read_tower(Reading& reading, const Section& parent, const std::string& parent_type, std::string_view part, ModelPositions& positions) {
  const std::string key = std::string(part) + "_config";
  const std::optional<Section> section = parent.section({key});
  if (!section) return;
  const std::string type = section->text({"model_type"}).value_or("");
  const Model* model = find_tower(type, parent_type, part);
  if (model == nullptr) {
    reading.warn(section->path_of("model_type") + " is " + json_string(type) +
                 ", which the table of models does not have; the part is not read");
    return;
  }
  Part read = read_part(reading, *section, *model);
  positions.towers.push_back({std::string(part), type, std::move(read.layers)});
}

ModelPositions read(Reading& reading, const Json& json) {
  if (!json.is(Json::Kind::object)) fail_config("the file is " + json.describe() + ", wanted an object");
  const Section root(json, "");
  ModelPositions positions;
  positions.dialect = "huggingface";
  positions.model_type = root.text({"model_type"}).value_or("");
  const Text text = find_text(root, positions.model_type);
  if (!text.section.path().empty()) positions.text_type = text.type;
  Part part = read_part(reading, text.section, model_of(reading, text));
  positions.layers = std::move(part.layers);
  positions.towers = std::move(part.towers);
  positions.trained_length = part.trained_length;
  positions.length = part.length;
  const std::optional<Section> thinker = root.section({"thinker_config"});
  const Section& around = thinker ? *thinker : root;
  const std::string around_type = thinker ? thinker->text({"model_type"}).value_or(positions.model_type) : positions.model_type;
  for (const std::string_view name : {"vision", "audio"}) {
    read_tower(reading, around, find_tower("", around_type, name) != nullptr ? around_type : positions.model_type, name, positions);
  }
  return positions;
}

/// The tree of the text, which must be an object. What is not JSON at all is not a matter of syntax: some other file.
Json object_of(std::string_view text) {
  Result<Json> tree = parse_json(text, "parse_hf_config");
  const std::string_view mark = "\xef\xbb\xbf";
  const std::size_t begin = text.find_first_not_of(" \t\r\n", text.starts_with(mark) ? mark.size() : 0);
  if (begin == std::string_view::npos) fail_config("the text is empty, wanted a JSON object");
  if (!tree && tree.status().kind() == ErrorKind::invalid && text[begin] != '{') {
    fail_config("the text begins with " + json_string(text.substr(begin, 20)) + ", wanted a JSON object");
  }
  if (!tree) throw ConfigError(tree.status());
  return *std::move(tree);
}

Result<ModelPositions> parse_config(std::string_view text, const ReadOptions& options) {
  try {
    if (options.length < 0 || options.length > most_positions) {
      fail_config("options.length is " + std::to_string(options.length) + ", wanted 0 to 2^48");
    }
    Reading reading{.options = options, .warnings = {}};
    ModelPositions positions = read(reading, object_of(text));
    positions.warnings = std::move(reading.warnings);
    return positions;
  } catch (const ConfigError& error) {
    return error.status();
  }
}

}  // namespace
}  // namespace phasor::spec

namespace phasor {

Result<ModelPositions> parse_hf_config(std::string_view json, const ReadOptions& options) {
  return spec::without_exceptions("parse_hf_config", [&] { return spec::parse_config(json, options); });
}

}  // namespace phasor

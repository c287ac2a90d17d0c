// SPDX-License-Identifier: Apache-2.0
// One rope dictionary: its type, base, width, scaling and axes, and warnings for keys that nobody reads.
#include "spec/hf/rope.hpp"

#include <algorithm>
#include <numeric>

#include "spec/hf/rope_types.hpp"

namespace phasor::spec {
namespace {

// ---- Type ----

/// Names that mean the same.
std::string canonical(const std::string& name, const Model& model) {
  if (model.has(quirk_su_is_longrope) && (name == "su" || name == "yarn")) return "longrope";
  if (name == "su") return "longrope";
  if (name == "mrope" || name == "axial") return "default";
  return name;
}

/// rope_type or the older type; both must agree.
std::string type_of(const Section& dict, const RopeFrame& frame) {
  if (dict.boolean({"use_fope"}).value_or(false)) return "fope";
  const std::optional<std::string> older = dict.text({"type"});
  const std::optional<std::string> newer = dict.text({"rope_type"});
  if (older && newer && canonical(*older, *frame.model) != canonical(*newer, *frame.model)) {
    fail_config(dict.path_of("type") + " is " + json_string(*older) + " and " + dict.path_of("rope_type") + " is " + json_string(*newer) +
                ", wanted one of them, or both the same");
  }
  if (newer) return canonical(*newer, *frame.model);
  return older ? canonical(*older, *frame.model) : frame.type;
}

const RopeType& known_type(const Section& dict, const std::string& name) {
  const RopeType* type = find_rope_type(name);
  if (type == nullptr) {
    const std::string_view key = dict.has("rope_type") ? "rope_type" : "type";
    dict.find({key}).wrong("default, linear, proportional, dynamic, yarn, longrope, llama3 or a rope type of vLLM or SGLang");
  }
  return *type;
}

void warn_of_unknown_keys(Reading& reading, const Section& dict, const RopeType& type) {
  static const std::initializer_list<std::string_view> every_type = {
      "type",           "rope_type",         "rope_theta",           "partial_rotary_factor",   "rope_dim", "mrope_section",
      "xdrope_section", "mrope_interleaved", "llama_4_scaling_beta", "max_position_embeddings", "use_fope", "interleaved"};
  for (const auto& [key, value] : dict.json().members) {
    const auto among = [&key = key](std::initializer_list<std::string_view> keys) {
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    };
    if (among(every_type) || among(type.keys) || value.is(Json::Kind::null)) continue;
    reading.warn(dict.path_of(key) + " is not a key that rope type " + std::string(type.name) + " has; it is not read");
  }
}

// ---- Width ----

/// int(head_dim * share): truncated, as Python does.
std::int64_t width_by_share(const Found& found, std::int64_t head_dim, double share) {
  if (!(share > 0 && share <= 1)) found.wrong("a number above 0, at most 1");
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * share);
}

std::int64_t width_of(const Section* dict, const RopeFrame& frame, bool whole_head) {
  std::int64_t width = frame.width;
  std::string path = "partial_rotary_factor";
  if (whole_head) {
    width = frame.head_dim;
    path = "head_dim";
  } else if (dict != nullptr && dict->has("rope_dim")) {
    width = held(dict->count({"rope_dim"}, frame.head_dim));
    path = dict->path_of("rope_dim");
  } else if (dict != nullptr && dict->has("partial_rotary_factor") && frame.model->place != Place::after_nope) {
    const Found found = dict->find({"partial_rotary_factor"});
    width = width_by_share(found, frame.head_dim, *dict->number({"partial_rotary_factor"}));
    path = found.path;
  } else if (width == 0) {
    width = static_cast<std::int64_t>(static_cast<double>(frame.head_dim) * frame.share);
  }
  if (width < 2 || width % 2 != 0) {
    fail_config(path + " gives a rotary width of " + std::to_string(width) + " for a head of " + std::to_string(frame.head_dim) +
                " channels, wanted an even number above 0");
  }
  return width;
}

// ---- Axes ----

/// openPangu: axes dealt out greedily, the one that is furthest behind its share next, never one twice in a row if that can be helped;
/// the last pair is of axis 0.
std::vector<std::uint8_t> dealt_axes(std::vector<std::int64_t> counts) {
  std::vector<std::uint8_t> axes;
  counts[0] -= 1;
  std::vector<std::int64_t> placed(counts.size(), 0);
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const auto left = [&](std::size_t axis) { return placed[axis] < counts[axis]; };
  std::size_t last = counts.size();
  for (std::int64_t i = 0; i < total; ++i) {
    std::size_t best = counts.size();
    for (const bool again : {false, true}) {
      for (std::size_t axis = 0; axis < counts.size(); ++axis) {
        if (!left(axis) || (axis == last && !again)) continue;
        if (best == counts.size() || placed[axis] * counts[best] < placed[best] * counts[axis]) best = axis;
      }
      if (best != counts.size()) break;
    }
    placed[best] += 1;
    last = best;
    axes.push_back(static_cast<std::uint8_t>(best));
  }
  axes.push_back(0);
  return axes;
}

std::vector<std::int64_t> default_sections(const Model& model) {
  std::vector<std::int64_t> sections(model.axes.sections.begin(), model.axes.sections.end());
  while (!sections.empty() && sections.back() == 0) sections.pop_back();
  return sections;
}

std::vector<std::int64_t> checked_sections(const Found& found, std::vector<std::int64_t> sections, std::int64_t pairs) {
  const std::string path = found ? found.path : "mrope_section";
  std::int64_t total = 0;
  for (const std::int64_t section : sections) {
    if (section < 0 || section > pairs)
      fail_config(path + " has an entry " + std::to_string(section) + ", wanted 0 to " + std::to_string(pairs) + " pairs");
    total += section;
  }
  if (sections.size() < 2 || sections.size() > 4 || total != pairs) {
    fail_config(path + " has " + std::to_string(sections.size()) + " entries of " + std::to_string(total) +
                " pairs in all, wanted 2 to 4 of " + std::to_string(pairs) + ", half the rotary width");
  }
  return sections;
}

Axes axes_of(const Section* dict, const Model& model, const std::string& raw_type, std::int64_t pairs) {
  const Found found = dict == nullptr ? Found{} : dict->find({"mrope_section", "xdrope_section"});
  std::vector<std::int64_t> sections = default_sections(model);
  if (found) sections = held(dict->integers({"mrope_section", "xdrope_section"}));
  if (sections.empty()) return {};
  sections = checked_sections(found, std::move(sections), pairs);
  Axes axes;
  axes.order = model.axes.order;
  if (dict != nullptr && dict->boolean({"mrope_interleaved_glm"}).value_or(false)) {
    fail_unsupported(dict->path_of("mrope_interleaved_glm") + " is true, wanted mrope_interleaved or neither");
  }
  const bool dealt = dict != nullptr && dict->boolean({"mrope_interleaved"}).value_or(false);
  if (dealt && axes.order == AxisOrder::chunked) axes.order = AxisOrder::interleaved;
  if (raw_type == "openpangu") {
    if (sections[0] < 1) found.wrong("a first entry above 0");
    axes.order = AxisOrder::given;
    axes.axis_of_pair = dealt_axes(sections);
  }
  // The file's order is height, width, time; positions come as time, height, width.
  if (model.has(quirk_sections_hwt) && sections.size() == 3) sections = {sections[2], sections[0], sections[1]};
  axes.sections = std::move(sections);
  return axes;
}

}  // namespace

Rope read_rope(Reading& reading, const Section* dict, const RopeFrame& frame) {
  static const Json nothing = [] {
    Json json;
    json.kind = Json::Kind::object;
    return json;
  }();
  const Section empty(nothing, "rope_parameters");
  const Section& section = dict == nullptr ? empty : *dict;
  const std::string name = type_of(section, frame);
  const RopeType& type = known_type(section, name);
  warn_of_unknown_keys(reading, section, type);

  Rope rope;
  rope.spec.head_dim = frame.head_dim;
  rope.spec.rotary_width = width_of(dict, frame, type.whole_head);
  rope.spec.base = section.positive({"rope_theta"}).value_or(frame.base);
  RopeScaling scaled = type.read({.options = &reading.options, .dict = &section, .frame = &frame, .width = rope.spec.rotary_width});
  if (auto* proportional = std::get_if<ProportionalScaling>(&scaled.scaling);
      proportional != nullptr && !section.has("partial_rotary_factor")) {
    proportional->share = frame.share;
  }
  rope.spec.scaling = std::move(scaled.scaling);
  rope.spec.axes = axes_of(dict, *frame.model, name, rope.spec.rotary_width / 2);
  rope.trained_length = scaled.trained_length;
  rope.extended_length = scaled.extended_length;
  if (name == "mllama4") {  // Llama 4 vision: columns, then rows
    rope.pairing = Pairing::interleaved;
    rope.spec.axes = {.sections = {rope.spec.rotary_width / 4, rope.spec.rotary_width / 4}, .ladder = AxisLadder::own};
  }
  rope.temperature = section.number({"llama_4_scaling_beta"});
  return rope;
}

}  // namespace phasor::spec

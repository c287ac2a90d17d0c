// SPDX-License-Identifier: Apache-2.0
// Figures as JSON, for whoever draws them otherwise: python/phasor/_figure.py does.
#include <array>
#include <optional>
#include <utility>

#include "json.hpp"
#include "plot/figure.hpp"

namespace phasor::cli {
namespace {

constexpr std::array<const char*, 4> kMarks{"line", "points", "line and points", "arrows"};  // as Mark

/// What is not given is not there.
template <class T>
void add_given(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json.add(key, *value);
}

Json json_of(const Axis& axis) {
  Json json = Json::object({{"label", axis.label}, {"log", axis.log}});
  add_given(json, "low", axis.low);
  add_given(json, "high", axis.high);
  return json;
}

Json json_of(const Cells& cells) {
  Json json = Json::object({{"label", cells.label}, {"rows", cells.row_names}, {"columns", cells.column_names}, {"values", cells.values}});
  add_given(json, "low", cells.low);
  add_given(json, "high", cells.high);
  return json;
}

Json json_of(const Curve& curve) {
  Json json = Json::object({{"name", curve.name}, {"x", curve.x}, {"y", curve.y}, {"mark", kMarks[static_cast<std::size_t>(curve.mark)]}});
  add_given(json, "color", curve.color);
  if (curve.dashed) json.add("dashed", true);
  return json;
}

Json json_of(const Panel& panel) {
  Json json = Json::object({{"title", panel.title}, {"x", json_of(panel.x)}, {"y", json_of(panel.y)}});
  if (panel.square) json.add("square", true);
  add_given(json, "circle", panel.circle);
  if (panel.cells) {
    json.add("cells", json_of(*panel.cells));
    return json;
  }
  Json curves = Json::array();
  for (const Curve& curve : panel.curves) curves.push_back(json_of(curve));
  json.add("curves", std::move(curves));
  return json;
}

}  // namespace

std::string to_json(const Figure& figure) {
  Json panels = Json::array();
  for (const Panel& panel : figure.panels) panels.push_back(json_of(panel));
  return Json::object({{"title", figure.title}, {"columns", figure.columns}, {"legend", figure.legend}, {"panels", panels}}).lines() + "\n";
}

}  // namespace phasor::cli

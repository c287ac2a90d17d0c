// SPDX-License-Identifier: Apache-2.0
// Figures as JSON, for whoever draws them otherwise: python/phasor/_figure.py does.
#include <array>
#include <optional>
#include <utility>

#include "figures/figure.hpp"
#include "figures/json.hpp"

namespace phasor::figures {
namespace {

constexpr std::array<const char*, 4> kMarks{"line", "points", "line and points", "arrows"};  // as Mark

/// What is not given is not there.
template <class T>
void add_given(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json.add(key, *value);
}

Json json_of(const Axis& axis) {
  Json json = Json::object().with("label", axis.label).with("log", axis.log);
  add_given(json, "low", axis.low);
  add_given(json, "high", axis.high);
  return json;
}

Json json_of(const Cells& cells) {
  Json json = Json::object()
                  .with("label", cells.label)
                  .with("rows", cells.row_names)
                  .with("columns", cells.column_names)
                  .with("values", cells.values);
  add_given(json, "low", cells.low);
  add_given(json, "high", cells.high);
  return json;
}

Json json_of(const Curve& curve) {
  Json json = Json::object()
                  .with("name", curve.name)
                  .with("x", curve.x)
                  .with("y", curve.y)
                  .with("mark", kMarks[static_cast<std::size_t>(curve.mark)]);
  add_given(json, "color", curve.color);
  if (curve.dashed) json.add("dashed", true);
  return json;
}

Json json_of(const Panel& panel) {
  Json json = Json::object().with("title", panel.title).with("x", json_of(panel.x)).with("y", json_of(panel.y));
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
  return Json::object()
             .with("title", figure.title)
             .with("columns", figure.columns)
             .with("legend", figure.legend)
             .with("panels", panels)
             .lines() +
         "\n";
}

}  // namespace phasor::figures

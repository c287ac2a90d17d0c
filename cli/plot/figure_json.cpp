// SPDX-License-Identifier: Apache-2.0
// Figures as JSON, for whoever draws them otherwise.

#include "json.hpp"
#include "plot/figure.hpp"

namespace phasor::cli {
namespace {

Json json_of(const Axis& axis) { return Json::object({{"label", axis.label}, {"log", axis.log}}); }

Json json_of(const Panel& panel) {
  Json json = Json::object({{"title", panel.title}, {"x", json_of(panel.x)}, {"y", json_of(panel.y)}});
  if (panel.cells) {
    const Cells& cells = *panel.cells;
    json.add("cells",
             Json::object({{"label", cells.label}, {"rows", cells.row_names}, {"columns", cells.column_names}, {"values", cells.values}}));
    return json;
  }
  Json curves = Json::array();
  for (const Curve& curve : panel.curves) curves.push_back(Json::object({{"name", curve.name}, {"x", curve.x}, {"y", curve.y}}));
  json.add("curves", std::move(curves));
  return json;
}

}  // namespace

std::string to_json(const Figure& figure) {
  Json panels = Json::array();
  for (const Panel& panel : figure.panels) panels.push_back(json_of(panel));
  return Json::object({{"title", figure.title}, {"legend", figure.legend}, {"panels", panels}}).lines() + "\n";
}

}  // namespace phasor::cli

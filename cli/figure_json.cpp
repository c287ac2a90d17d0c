// SPDX-License-Identifier: Apache-2.0
// Figures as JSON, for whoever draws them otherwise.
#include <nlohmann/json.hpp>

#include "figure.hpp"

namespace phasor::cli {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Axis& axis) { return {{"label", axis.label}, {"log", axis.log}}; }

Json json_of(const Panel& panel) {
  Json json{{"title", panel.title}, {"x", json_of(panel.x)}, {"y", json_of(panel.y)}};
  if (panel.cells) {
    const Cells& cells = *panel.cells;
    json["cells"] = {{"label", cells.label}, {"rows", cells.row_names}, {"columns", cells.column_names}, {"values", cells.values}};
    return json;
  }
  json["curves"] = Json::array();
  for (const Curve& curve : panel.curves) json["curves"].push_back({{"name", curve.name}, {"x", curve.x}, {"y", curve.y}});
  return json;
}

}  // namespace

std::string to_json(const Figure& figure) {
  Json json{{"title", figure.title}, {"legend", figure.legend}, {"panels", Json::array()}};
  for (const Panel& panel : figure.panels) json["panels"].push_back(json_of(panel));
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace phasor::cli

// SPDX-License-Identifier: Apache-2.0
// Maps of queries by keys: what a bias adds, and which distance a position map shows.
#include <algorithm>
#include <limits>
#include <utility>

#include "phasor/bias.hpp"
#include "phasor/position_maps.hpp"
#include "phasor/scheme.hpp"
#include "web/core/methods.hpp"

namespace phasor::web {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Queries and keys of a map, and where they begin.
struct Field {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
};

Field field_of(Request& request) {
  const Range cells{1, kMostCells};
  const Range places{0, std::int64_t{1} << 50};
  Field field{request.integer("queries", 64, cells), request.integer("keys", 64, cells)};
  field.first_query = request.integer("first_query", 0, places);
  field.first_key = request.integer("first_key", 0, places);
  return field;
}

/// Rows of the table by distance, from -(keys - 1) to queries - 1 (both from position 0).
std::vector<double> rows_by_distance(const Bias& bias, const Field& field) {
  std::vector<double> rows;
  for (std::int64_t distance = 1 - field.keys; distance < field.queries; ++distance) {
    const std::int64_t row = bias.row(distance);
    rows.push_back(row < 0 ? kNone : static_cast<double>(row));
  }
  return rows;
}

/// A map is a field of a scheme alone: read as one.
PositionMap map_of(Request& request) {
  Request map = request.object("map");
  const std::string type = map.choice("type", {"ReRope", "LeakyReRope", "SelfExtend", "DualChunk"});
  const Range lengths{1, std::int64_t{1} << 40};
  PositionMap made = ReRope{};
  if (type == "ReRope") made = ReRope{map.integer("window", 16, lengths)};
  if (type == "LeakyReRope") {
    const std::int64_t window = map.integer("window", 16, lengths);
    made = LeakyReRope{window, map.number("factor", 4)};
  }
  if (type == "SelfExtend") {
    const std::int64_t window = map.integer("window", 16, lengths);
    made = SelfExtend{window, map.integer("group", 4, lengths)};
  }
  if (type == "DualChunk") {
    const std::int64_t chunk = map.integer("chunk", 32, lengths);
    const std::int64_t local = map.integer("local", 8, {0, lengths.most});
    made = DualChunk{chunk, local, map.flag("critical", false)};
  }
  map.finish();
  AttentionScheme scheme;  // the library's own checks of a map
  scheme.content = RotaryScheme{.rotary = {.head_dim = 2}, .map = made};
  scheme.mask = Mask::causal;
  must(Attention::make(scheme).status(), "map");
  return made;
}

double pass_of(const PositionMap& map, std::int64_t query, std::int64_t key) {
  for (int pass = 0; pass < passes_of(map); ++pass) {
    const KeyRange range = keys_of_pass(map, pass, query);
    if (key >= range.first && key < range.end) return pass;
  }
  return kNone;
}

}  // namespace

Json bias_map(Request& request, Blocks& blocks) {
  const Bias bias = value_of(Bias::make(request.bias_spec("bias", R"({"type": "Alibi", "heads": 8})")), "bias");
  const Field field = field_of(request);
  const std::int64_t head = request.integer("head", 0, {0, bias.heads() - 1});
  std::vector<double> values(static_cast<std::size_t>(field.queries * field.keys));
  const TensorView out = view(values.data(), {1, 1, field.queries, field.keys});
  must(bias.fill(out, positions_from(field.first_query), positions_from(field.first_key), head), "bias");
  return Json::object()
      .with("values", blocks.add(std::move(values), {field.queries, field.keys}))
      .with("heads", bias.heads())
      .with("rows", bias.rows())
      .with("row_of_distance", blocks.add(rows_by_distance(bias, field)))
      .with("slopes", bias.slopes());
}

Json distance_map(Request& request, Blocks& blocks) {
  const PositionMap map = map_of(request);
  const Field field = field_of(request);
  std::vector<double> distances;
  std::vector<double> passes;
  double largest = 0;
  for (std::int64_t q = field.first_query; q < field.first_query + field.queries; ++q) {
    for (std::int64_t k = field.first_key; k < field.first_key + field.keys; ++k) {
      distances.push_back(mapped_distance(map, q, k));
      passes.push_back(pass_of(map, q, k));
      largest = std::max(largest, distances.back());  // NaN is not larger
    }
  }
  const Shape shape{field.queries, field.keys};
  return Json::object()
      .with("distances", blocks.add(std::move(distances), shape))
      .with("pass", blocks.add(std::move(passes), shape))
      .with("passes", passes_of(map))
      .with("largest", largest);
}

}  // namespace phasor::web

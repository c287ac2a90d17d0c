// SPDX-License-Identifier: Apache-2.0
// Image tokens: positions of a text with images and clips, or of grids, and the score of a query by axis.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "phasor/analysis_by_pair.hpp"
#include "phasor/position_builders.hpp"
#include "web/core/methods.hpp"
#include "web/core/random.hpp"
#include "web/core/spec_json.hpp"

namespace phasor::web {
namespace {

constexpr const char* kAxisNames[] = {"frame", "row", "column"};  // as GridAxis
constexpr std::int64_t kTemporalMerge = 2;                        // of Ernie's videos
constexpr const char* kStory = R"({"parts": [{"text": 4}, {"image": {"rows": 6, "columns": 8}}, {"text": 3}]})";
constexpr const char* kQwen2Vl = R"({"head_dim": 128, "base": 1000000, "axes": {"sections": [16, 24, 24]}})";

/// What a token is: of a part of the request, text, a marker around images, or a place in a grid.
struct Token {
  std::int64_t part = 0;
  const char* kind = "text";
  std::int64_t frame = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

struct Placed {
  std::vector<std::string> axis_names;
  std::vector<double> positions;  // (axes, T)
  std::vector<Token> tokens;
  std::optional<double> delta = std::nullopt;
};

std::int64_t axes_of(const Placed& placed) { return static_cast<std::int64_t>(placed.axis_names.size()); }
std::int64_t count_of(const Placed& placed) { return static_cast<std::int64_t>(placed.tokens.size()); }

[[noreturn]] void too_many() { refuse("tokens", fmt::format("there are too many tokens, wanted at most {}", kMostTokens)); }

ImageGrid grid_of(Request& request) {
  const Range extent{1, 256};
  return {request.integer("frames", 1, extent), request.integer("rows", 4, extent), request.integer("columns", 4, extent)};
}

/// Tokens of a grid, frames first; `alone`: each frame stands between markers of its own.
void append_grid(const ImageGrid& grid, Token token, bool alone, std::vector<Token>& tokens) {
  if (grid.frames * grid.rows * grid.columns > kMostTokens) too_many();
  const Token marker{.part = token.part, .kind = "marker"};
  tokens.push_back(marker);
  for (token.frame = 0; token.frame < grid.frames; ++token.frame) {
    if (alone && token.frame > 0) tokens.push_back(marker);
    for (token.row = 0; token.row < grid.rows; ++token.row) {
      for (token.column = 0; token.column < grid.columns; ++token.column) tokens.push_back(token);
    }
  }
  tokens.push_back(marker);
}

/// A text with images and clips, as M-RoPE's builder takes it.
struct Document {
  std::vector<Token> tokens = {};
  std::vector<ImageGrid> images = {};
  std::vector<ImageGrid> videos = {};
  std::vector<float> seconds = {};
};

ImageGrid patches(ImageGrid grid, std::int64_t merge) { return {grid.frames, grid.rows * merge, grid.columns * merge}; }

void append_part(Request& part, std::int64_t index, const MropeInput& input, Document& document) {
  const bool alone = input.model == MropeModel::qwen3_vl || input.model == MropeModel::glm4v;
  if (part.has("image")) {
    Request image = part.object("image");
    const ImageGrid grid = grid_of(image);
    image.finish();
    if (grid.frames != 1) throw RequestError{Status::invalid("an image has one frame"), part.where("image")};
    append_grid(grid, {.part = index, .kind = "image"}, false, document.tokens);
    document.images.push_back(patches(grid, input.merge));
  } else if (part.has("video")) {
    Request video = part.object("video");
    ImageGrid grid = grid_of(video);
    document.seconds.push_back(static_cast<float>(video.number("seconds", 1)));
    video.finish();
    append_grid(grid, {.part = index, .kind = "video"}, alone, document.tokens);
    if (input.model == MropeModel::ernie4_5_vl) grid.frames *= kTemporalMerge;
    document.videos.push_back(patches(grid, input.merge));
  } else {
    const std::int64_t text = part.integer("text", 1, {0, kMostTokens});
    document.tokens.insert(document.tokens.end(), static_cast<std::size_t>(text), Token{.part = index});
  }
  part.finish();
  if (document.tokens.size() > static_cast<std::size_t>(kMostTokens)) too_many();
}

MropeModel model_of(const std::string& name) {
  static const std::map<std::string, MropeModel> models{{"qwen2_vl", MropeModel::qwen2_vl},
                                                        {"qwen2_5_vl", MropeModel::qwen2_5_vl},
                                                        {"qwen3_vl", MropeModel::qwen3_vl},
                                                        {"glm4v", MropeModel::glm4v},
                                                        {"ernie4_5_vl", MropeModel::ernie4_5_vl}};
  return models.at(name);
}

Placed mrope_of(Request& request) {
  MropeInput input{.model = model_of(request.choice("model", {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v", "ernie4_5_vl"}))};
  input.merge = request.integer("merge", 1, {1, 16});
  input.temporal_merge = kTemporalMerge;
  Document document;
  std::int64_t index = 0;
  std::vector<Request> parts = request.objects("parts");
  if (!request.has("parts")) parts = Request::parse(kStory, {}).objects("parts");
  for (Request& part : parts) append_part(part, index++, input, document);
  std::vector<std::uint8_t> types;
  for (const Token& token : document.tokens)
    types.push_back(token.kind == std::string("image") ? 1 : token.kind == std::string("video") ? 2 : 0);
  input.token_types = types;
  input.images = document.images;
  input.videos = document.videos;
  if (input.model == MropeModel::qwen2_5_vl) input.seconds_per_grid = document.seconds;
  Placed placed{{"frame", "row", "column"}, std::vector<double>(3 * types.size()), std::move(document.tokens)};
  double delta = 0;
  const PositionsView out = positions(placed.positions.data(), 3, 1, count_of(placed));
  must(fill_mrope(out, std::span(&delta, 1), input), "tokens");
  placed.delta = delta;
  return placed;
}

std::vector<GridAxis> grid_axes(Request& request) {
  std::vector<GridAxis> axes;
  for (const std::string& name : request.texts("axes", {"row", "column"})) {
    const auto* found = std::find(std::begin(kAxisNames), std::end(kAxisNames), name);
    if (found == std::end(kAxisNames) || axes.size() == 3) {
      throw RequestError{Status::invalid("axes are others, wanted some of frame, row and column"), request.where("axes")};
    }
    axes.push_back(static_cast<GridAxis>(found - std::begin(kAxisNames)));
  }
  return axes;
}

/// Tokens of a grid in the order of the builder: squares of merge x merge, rows of squares first.
void append_cells(const ImageGrid& grid, std::int64_t part, std::int64_t merge, std::vector<Token>& tokens) {
  if (grid.rows % merge != 0 || grid.columns % merge != 0) return;  // the builder says so
  for (std::int64_t f = 0; f < grid.frames; ++f) {
    for (std::int64_t i = 0; i < grid.rows * grid.columns; ++i) {
      const std::int64_t square = i / (merge * merge);
      const std::int64_t in_square = i % (merge * merge);
      const std::int64_t across = grid.columns / merge;
      tokens.push_back({part, "image", f, square / across * merge + in_square / merge, square % across * merge + in_square % merge});
    }
  }
}

Placed grids_of(Request& request) {
  const std::vector<GridAxis> axes = grid_axes(request);
  GridLayout layout{.axes = axes};
  layout.merge = request.integer("merge", 1, {1, 16});
  layout.unit = request.choice("unit", {"index", "centre"}) == "index" ? GridUnit::index : GridUnit::centre;
  layout.first = request.integer("first", 0, {0, 1024});
  layout.prefix = request.integer("prefix", 0, {0, 64});
  layout.suffix = request.integer("suffix", 0, {0, 64});
  Placed placed;
  for (const GridAxis axis : axes) placed.axis_names.emplace_back(kAxisNames[static_cast<std::size_t>(axis)]);
  std::vector<ImageGrid> grids;
  std::int64_t tokens = 0;
  std::vector<Request> parts = request.objects("grids");
  for (Request& one : parts) {
    grids.push_back(grid_of(one));
    one.finish();
    tokens += grids.back().frames * grids.back().rows * grids.back().columns + layout.prefix + layout.suffix;
    if (tokens > kMostTokens) too_many();
    const auto part = static_cast<std::int64_t>(grids.size()) - 1;
    placed.tokens.insert(placed.tokens.end(), static_cast<std::size_t>(layout.prefix), Token{part, "prefix"});
    append_cells(grids.back(), part, layout.merge, placed.tokens);
    placed.tokens.insert(placed.tokens.end(), static_cast<std::size_t>(layout.suffix), Token{part, "suffix"});
  }
  placed.positions.resize(static_cast<std::size_t>(axes_of(placed) * tokens));
  must(fill_from_grids(positions(placed.positions.data(), axes_of(placed), 1, tokens), grids, layout), "tokens");
  return placed;
}

Placed placed_of(Request& request) {
  Request tokens = request.object("tokens");
  const std::string kind = tokens.choice("kind", {"mrope", "grid"});
  Placed placed = kind == "mrope" ? mrope_of(tokens) : grids_of(tokens);
  tokens.finish();
  if (placed.tokens.empty()) refuse("tokens", "there are no tokens");
  return placed;
}

Json json_of(const std::vector<Token>& tokens) {
  Json list = Json::array();
  for (const Token& token : tokens) {
    list.push_back(Json::object()
                       .with("part", token.part)
                       .with("kind", token.kind)
                       .with("frame", token.frame)
                       .with("row", token.row)
                       .with("column", token.column));
  }
  return list;
}

Json json_of(Placed placed, Blocks& blocks) {
  const Shape shape{axes_of(placed), count_of(placed)};
  return Json::object()
      .with("axes", axes_of(placed))
      .with("axis_names", placed.axis_names)
      .with("positions", blocks.add(std::move(placed.positions), shape))
      .with("token", json_of(placed.tokens))
      .with("delta", placed.delta ? Json(*placed.delta) : Json());
}

bool in_grid(const Token& token) { return token.kind == std::string("image") || token.kind == std::string("video"); }

/// The token in the middle of the first frame of the first grid; the first token where there is no grid.
std::int64_t middle_of(const std::vector<Token>& tokens) {
  const auto first = std::find_if(tokens.begin(), tokens.end(), in_grid);
  if (first == tokens.end()) return 0;
  Token middle = *first;
  for (const Token& token : tokens) {
    if (!in_grid(token) || token.part != first->part) continue;
    middle.row = std::max(middle.row, (token.row + 1) / 2);
    middle.column = std::max(middle.column, (token.column + 1) / 2);
  }
  const auto found = std::find_if(
      first, tokens.end(), [&](const Token& token) { return in_grid(token) && token.row == middle.row && token.column == middle.column; });
  return found - tokens.begin();
}

/// RoPE-Mixed as it begins before training: frequencies of a ladder of base 10, each pair along a direction of its own.
RotarySpec mixed_spec(std::int64_t head_dim) {
  const std::int64_t pairs = head_dim / 2;
  const Rotary ladder = value_of(Rotary::make({.head_dim = head_dim, .base = 10}), "spec");
  const Rotary turn = value_of(Rotary::make({.head_dim = 2}), "spec");  // one pair, a radian for each position
  Random random(3);
  const std::vector<double> angles = random.normal<double>(pairs, 3);
  std::vector<double> cosines(angles.size());
  std::vector<double> sines(angles.size());
  const Extents shape{1, pairs, 1, 1};
  must(turn.cos_sin(positions(angles.data(), pairs), view(cosines.data(), shape), view(sines.data(), shape)), "spec");
  GivenDirections directions{.axes = 2};
  for (const std::vector<double>* part : {&cosines, &sines}) {
    for (std::size_t i = 0; i < angles.size(); ++i) directions.frequencies.push_back(ladder.frequencies()[i] * (*part)[i]);
  }
  return {.head_dim = head_dim, .scaling = directions};
}

struct Example {
  const char* name;
  RotarySpec spec;
  const char* tokens;
};

std::vector<Example> examples() {
  constexpr const char* kQwen2 =
      R"({"kind": "mrope", "model": "qwen2_vl", "parts": [{"text": 4}, {"image": {"rows": 6, "columns": 8}}, {"text": 3}]})";
  constexpr const char* kQwen3 =
      R"({"kind": "mrope", "model": "qwen3_vl", "parts": [{"text": 4}, {"image": {"rows": 6, "columns": 8}}, {"text": 3}]})";
  constexpr const char* kGrid = R"({"kind": "grid", "grids": [{"rows": 12, "columns": 12}]})";
  const std::vector<std::int64_t> halves{20, 20};
  return {{"Qwen2-VL", {.head_dim = 128, .base = 1000000, .axes = {.sections = {16, 24, 24}}}, kQwen2},
          {"Qwen3-VL", {.head_dim = 128, .base = 5000000, .axes = {.sections = {24, 20, 20}, .order = AxisOrder::interleaved}}, kQwen3},
          {"axial (Qwen vision)", {.head_dim = 80, .axes = {.sections = halves, .ladder = AxisLadder::own}}, kGrid},
          {"dealt (Pixtral)", {.head_dim = 64, .axes = {.sections = {16, 16}, .ladder = AxisLadder::dealt}}, kGrid},
          {"mixed (RoPE-Mixed)", mixed_spec(64), kGrid}};
}

}  // namespace

Json image_specs(Request& /*request*/, Blocks& /*blocks*/) {
  Json list = Json::array();
  for (const Example& one : examples()) {
    list.push_back(Json::object().with("name", one.name).with("spec", spec_json(one.spec)).with("tokens", Json::parse(one.tokens)));
  }
  return Json::object().with("specs", list);
}

Json image_positions(Request& request, Blocks& blocks) { return json_of(placed_of(request), blocks); }

Json image_scores(Request& request, Blocks& blocks) {
  const Rotary rotary = value_of(Rotary::make(request.rotary_spec("spec", kQwen2Vl)), "spec");
  Placed placed = placed_of(request);
  const std::int64_t asked = request.integer("query", 0, {-1, kMostTokens - 1});
  const std::int64_t query = asked < 0 || asked >= count_of(placed) ? middle_of(placed.tokens) : asked;
  const std::int64_t head = request.integer("head", 0);
  const Positions at = positions(std::as_const(placed.positions).data(), axes_of(placed), 1, count_of(placed));
  AxisScores scores = value_of(axis_scores(rotary, at, query, head), "tokens");
  const bool separable = !scores.pairs_of_axis.empty();
  return json_of(std::move(placed), blocks)
      .with("query", query)
      .with("score", blocks.add(std::move(scores.score)))
      .with("by_axis", blocks.add(std::move(scores.by_axis)))
      .with("pairs_of_axis", scores.pairs_of_axis)
      .with("separable", separable);
}

}  // namespace phasor::web

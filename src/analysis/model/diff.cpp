// SPDX-License-Identifier: Apache-2.0
// diff: what differs between two models' positions, and whether it changes what the model computes.

#include <algorithm>
#include <cmath>

#include "analysis/model/diff_parts.hpp"
#include "analysis/model/explain_words.hpp"
#include "analysis/model/rope.hpp"
#include "analysis/model/words.hpp"
#include "spec/format.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using namespace analysis;

/// Positions that matter when no file says: a long context.
constexpr std::int64_t kUsualLength = 1 << 20;

Sides sides(std::int64_t left, std::int64_t right) { return {grouped(left), grouped(right)}; }

std::string or_none(std::int64_t value) { return value == 0 ? "none" : grouped(value); }

std::string kind_of(const LayerPositions& layer) { return layer.rotary ? "rotary" : "none"; }

void diff_bias(const LayerPairs& layers, DiffPen& pen) {
  const auto& left = layers.left->bias;
  const auto& right = layers.right->bias;
  if (!left && !right) return;
  if (!left || !right || left->kind != right->kind) {
    pen.matters("bias", {left ? bias_words(*left) : "none", right ? bias_words(*right) : "none"}, "scores get another bias");
    return;
  }
  if (left->heads != right->heads || relative_difference(left->max_alibi, right->max_alibi) > kStoredRounding) {
    const std::string why = left->kind == ModelBias::Kind::alibi
                                ? spec::format("the steepest slope is {} on the left, {} on the right", number(steepest_slope(*left)),
                                               number(steepest_slope(*right)))
                                : "the bias has another number of heads";
    pen.matters("bias", {bias_words(*left), bias_words(*right)}, why);
  }
  if (left->buckets != right->buckets) pen.matters("bias: buckets", sides(left->buckets, right->buckets), "distances share other numbers");
  if (left->max_distance != right->max_distance) {
    pen.matters(
        "bias: max_distance", sides(left->max_distance, right->max_distance),
        spec::format("distances from {} on share a bucket on one side only", grouped(std::min(left->max_distance, right->max_distance))));
  }
  if (left->bidirectional != right->bidirectional) {
    const auto name = [](bool both) { return both ? "both directions" : "backwards only"; };
    pen.matters("bias: direction", {name(left->bidirectional), name(right->bidirectional)}, "a key after the query gets another bias");
  }
}

void diff_additive(const LayerPairs& layers, DiffPen& pen) {
  const auto& left = layers.left->additive;
  const auto& right = layers.right->additive;
  if (!left && !right) return;
  if (!left || !right || left->kind != right->kind) {
    pen.matters("added", {left ? additive_words(*left) : "none", right ? additive_words(*right) : "none"}, "tokens get another vector");
    return;
  }
  const auto differ = [](std::int64_t a, std::int64_t b) { return a != 0 && b != 0 && a != b; };  // 0: not said
  if (differ(left->width, right->width)) pen.matters("added: width", sides(left->width, right->width), "the vectors have another width");
  if (left->first_position != right->first_position) {
    pen.matters("added: first row", sides(left->first_position, right->first_position),
                spec::format("every token takes the row {} away", std::abs(left->first_position - right->first_position)));
  }
  if (differ(left->length, right->length)) {
    pen.harmless("added: rows", sides(left->length, right->length),
                 spec::format("the same up to row {}; beyond, one side has none", grouped(std::min(left->length, right->length) - 1)));
  }
}

bool same(const std::optional<QueryTemperature>& a, const std::optional<QueryTemperature>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  const bool scale = a->kind == QueryTemperature::Kind::log_n || relative_difference(a->scale, b->scale) <= kStoredRounding;
  return a->kind == b->kind && scale && a->length == b->length && a->shift == b->shift;
}

void diff_temperature(const LayerPairs& layers, std::int64_t length, DiffPen& pen) {
  const auto& left = layers.left->query_temperature;
  const auto& right = layers.right->query_temperature;
  if (same(left, right)) return;
  const auto words = [](const auto& one) { return one ? temperature_words(*one, 0) : "none"; };
  const auto at = [&](const auto& one) { return one ? temperature_at(*one, length - 1) : 1.0; };
  pen.matters("query temperature", {words(left), words(right)},
              spec::format("queries are {}x as large on the right at position {}", number(at(right) / at(left)), grouped(length - 1)));
}

void diff_chunks(const LayerPositions& left, const LayerPositions& right, DiffPen& pen) {
  if (left.chunk != right.chunk) {
    pen.matters("chunk", {or_none(left.chunk), or_none(right.chunk)}, "attention stops at other places");
  }
  const ModelDualChunk a = left.dual_chunk.value_or(ModelDualChunk{});
  const ModelDualChunk b = right.dual_chunk.value_or(ModelDualChunk{});
  if (a.chunk_size != b.chunk_size || a.local_size != b.local_size) {
    pen.matters("dual chunk", {or_none(a.chunk_size), or_none(b.chunk_size)}, "positions far apart are mapped differently");
  }
}

void diff_rest(const LayerPairs& layers, DiffPen& pen) {
  const LayerPositions& left = *layers.left;
  const LayerPositions& right = *layers.right;
  if (left.window != right.window) {
    const std::int64_t narrow =
        left.window == 0 || right.window == 0 ? std::max(left.window, right.window) : std::min(left.window, right.window);
    pen.matters("window", {or_none(left.window), or_none(right.window)},
                spec::format("tokens {} positions back and more are seen on one side only", grouped(narrow)));
  }
  diff_chunks(left, right, pen);
  if (left.output_turned_back != right.output_turned_back) {
    const auto name = [](bool yes) { return yes ? "values rotated, output turned back" : "values as they are"; };
    pen.matters("values", {name(left.output_turned_back), name(right.output_turned_back)}, "the output is another");
  }
  if (left.skipped_tokens != right.skipped_tokens) {
    pen.matters("skipped tokens", sides(left.skipped_tokens, right.skipped_tokens),
                spec::format("{} rotated on one side only", counted(std::abs(left.skipped_tokens - right.skipped_tokens), "token")));
  }
  if (left.first_position != right.first_position) {
    pen.matters("first position", sides(left.first_position, right.first_position), "every position is another");
  }
  if (left.type != right.type && !left.type.empty() && !right.type.empty()) {
    pen.harmless("type", {left.type, right.type}, "a name; what the layers do is compared by itself");
  }
}

void diff_scale_alone(const LayerPairs& layers, DiffPen& pen) {
  const auto words = [](const std::optional<double>& scale) { return scale ? number(*scale) : "not given"; };
  const auto& left = layers.left->attention_scale;
  const auto& right = layers.right->attention_scale;
  if (!left && !right) return;
  if (left && right && relative_difference(*left, *right) <= kStoredRounding) return;
  pen.matters(
      "attention scale", {words(left), words(right)},
      left && right ? spec::format("scores are {}x as large on the right", number(*right / *left)) : "one side takes 1/sqrt(head_dim)");
}

/// How the model rounds. Never what it means, so never a difference that matters; but the bits are not the same.
Status diff_numerics(const LayerPairs& layers, DiffPen& pen) {
  if (layers.left->numerics == layers.right->numerics || !layers.left->rotary) return {};
  const auto facts = rope_facts(*layers.left->rotary, {});
  if (!facts.ok()) return facts.status();
  std::string why = "rounding only: the last bits differ, the more the larger the position";
  const std::optional<std::int64_t> lost = facts->float32.value_or(Float32Limit{}).position;
  if (lost) why += spec::format(" (float32 angles err by {} first at position {})", number(kLost), grouped(*lost));
  pen.harmless("numerics", {name_of(layers.left->numerics), name_of(layers.right->numerics)}, why);
  return {};
}

Status diff_layers(const LayerPairs& layers, const DiffFrame& frame, std::vector<Difference>& found) {
  DiffPen pen(found);
  if (layers.left->rotary && layers.right->rotary) {
    if (Status status = diff_rotary(layers, frame, pen); !status.ok()) return status;
    if (Status status = diff_numerics(layers, pen); !status.ok()) return status;
  } else if (layers.left->rotary || layers.right->rotary) {
    const RotarySpec& spec = layers.left->rotary ? *layers.left->rotary : *layers.right->rotary;
    pen.matters("rotary", {kind_of(*layers.left), kind_of(*layers.right)},
                spec::format("{} pairs turn on one side only", (spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width) / 2));
  } else {
    diff_scale_alone(layers, pen);
  }
  diff_bias(layers, pen);
  diff_additive(layers, pen);
  diff_temperature(layers, frame.length, pen);
  diff_rest(layers, pen);
  return {};
}

/// A difference and the layers that have it.
struct Placed {
  Difference difference;
  std::vector<std::int64_t> layers;
};

bool same(const Difference& a, const Difference& b) {
  return a.where == b.where && a.left == b.left && a.right == b.right && a.matters == b.matters && a.why == b.why;
}

/// The same difference of other layers is one difference.
void place(std::vector<Difference>& found, const std::vector<std::int64_t>& layers, std::vector<Placed>& all) {
  for (Difference& difference : found) {
    auto at = std::find_if(all.begin(), all.end(), [&](const Placed& one) { return same(one.difference, difference); });
    if (at == all.end()) at = all.insert(at, {std::move(difference), {}});
    at->layers.insert(at->layers.end(), layers.begin(), layers.end());
    std::sort(at->layers.begin(), at->layers.end());
  }
}

Status diff_stack(const std::vector<LayerPositions>& left, const std::vector<LayerPositions>& right, const std::string& tower,
                  const DiffFrame& frame, std::vector<Difference>& found) {
  const std::string before = tower.empty() ? "" : tower + " ";
  if (left.size() != right.size()) {
    DiffPen(found).matters("layers", sides(static_cast<std::int64_t>(left.size()), static_cast<std::int64_t>(right.size())),
                           spec::format("only the first {} are compared", std::min(left.size(), right.size())));
    found.back().where = before + found.back().where;
  }
  std::vector<Placed> all;
  for (const LayerPairs& layers : pair_layers(left, right)) {
    std::vector<Difference> here;
    if (Status status = diff_layers(layers, frame, here); !status.ok()) return status;
    place(here, layers.layers, all);
  }
  for (Placed& one : all) {
    one.difference.where = spec::format("{}{}: {}", before, indices_in_words("layer", one.layers), one.difference.where);
    found.push_back(std::move(one.difference));
  }
  return {};
}

const ModelTower* tower_named(const ModelPositions& model, const std::string& name) {
  const auto at = std::find_if(model.towers.begin(), model.towers.end(), [&](const ModelTower& tower) { return tower.name == name; });
  return at == model.towers.end() ? nullptr : &*at;
}

void add_missing_tower(const ModelTower& tower, Sides sides, bool dialects_differ, std::vector<Difference>& found) {
  DiffPen pen(found);
  if (dialects_differ) {
    pen.harmless(tower.name.c_str(), std::move(sides), "GGUF keeps it in a file of its own: not compared");
  } else {
    pen.matters(tower.name.c_str(), std::move(sides),
                spec::format("{} on one side only", counted(static_cast<std::int64_t>(tower.layers.size()), "layer")));
  }
}

Status diff_towers(const ModelPositions& left, const ModelPositions& right, const DiffFrame& frame, std::vector<Difference>& found) {
  const bool dialects_differ = left.dialect != right.dialect;
  for (const ModelTower& tower : left.towers) {
    const ModelTower* other = tower_named(right, tower.name);
    if (other == nullptr) {
      add_missing_tower(tower, {"there", "missing"}, dialects_differ, found);
    } else if (Status status = diff_stack(tower.layers, other->layers, tower.name, frame, found); !status.ok()) {
      return status;
    }
  }
  for (const ModelTower& tower : right.towers) {
    if (tower_named(left, tower.name) == nullptr) add_missing_tower(tower, {"missing", "there"}, dialects_differ, found);
  }
  return {};
}

void diff_lengths(const ModelPositions& left, const ModelPositions& right, std::vector<Difference>& found) {
  DiffPen pen(found);
  const auto known = [](std::int64_t length) { return length == 0 ? "not said" : grouped(length); };
  if (left.trained_length != right.trained_length) {
    pen.harmless("trained length", {known(left.trained_length), known(right.trained_length)}, "changes no angle");
  }
  if (left.length != right.length) {
    pen.harmless("length", {known(left.length), known(right.length)}, "how far the file allows; changes no angle");
  }
}

Result<std::vector<Difference>> diff_models(const ModelPositions& left, const ModelPositions& right) {
  const std::int64_t longest = std::max({left.length, right.length, left.trained_length, right.trained_length});
  const DiffFrame frame{left.dialect, right.dialect, longest == 0 ? kUsualLength : longest};
  std::vector<Difference> found;
  if (left.model_type != right.model_type) {
    DiffPen(found).harmless("model type", {left.model_type, right.model_type}, "a name; what the layers do is compared by itself");
  }
  diff_lengths(left, right, found);
  if (Status status = diff_stack(left.layers, right.layers, "", frame, found); !status.ok()) return status;
  if (Status status = diff_towers(left, right, frame, found); !status.ok()) return status;
  return found;
}

}  // namespace

Result<std::vector<Difference>> diff(const ModelPositions& left, const ModelPositions& right) {
  return spec::without_exceptions("diff", [&] { return diff_models(left, right); });
}

}  // namespace phasor

// SPDX-License-Identifier: Apache-2.0
// Keys in a cache: what a context shift or a change of the plan does to them, as they are and after rerotate.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "phasor/analysis.hpp"
#include "phasor/attention.hpp"
#include "phasor/rotary.hpp"
#include "web/core/methods.hpp"
#include "web/core/random.hpp"

namespace phasor::web {
namespace {

using figures::Numbers;

/// Tokens that were rotated by one plan, and where.
struct Stored {
  Rotary rotary;
  std::int64_t first = 0;  // among the tokens that stay
  Numbers at = {};
};

/// What was, and what is wanted now.
struct Change {
  std::vector<Stored> stored;
  Rotary now;
  Numbers to;              // of every token
  std::int64_t query = 0;  // position of the query
};

struct Keys {
  std::int64_t width = 0;
  std::vector<float> stale;
  std::vector<float> moved;
  std::vector<float> fresh;
  std::vector<float> query;
};

std::int64_t count_of(const Numbers& list) { return static_cast<std::int64_t>(list.size()); }

TensorView rows_of(std::vector<float>& keys, std::int64_t first, std::int64_t tokens, std::int64_t width) {
  return view(keys.data() + first * width, {1, tokens, 1, width});
}

/// One random head, the same in every token, so that only positions make a difference; the query likewise.
Keys make_keys(const Change& change, std::int64_t seed) {
  Random random(seed);
  const std::int64_t width = change.now.spec().head_dim;
  const auto key = random.normal<float>(width);
  Keys keys{width, {}, {}, {}, random.normal<float>(width)};
  for (std::size_t t = 0; t < change.to.size(); ++t) keys.stale.insert(keys.stale.end(), key.begin(), key.end());
  keys.fresh = keys.stale;
  must(change.now.apply(rows_of(keys.fresh, 0, count_of(change.to), width), positions(change.to.data(), count_of(change.to))), "spec");
  for (const Stored& part : change.stored) {
    const TensorView rows = rows_of(keys.stale, part.first, count_of(part.at), width);
    must(part.rotary.apply(rows, positions(part.at.data(), count_of(part.at))), "spec");
  }
  keys.moved = keys.stale;
  for (const Stored& part : change.stored) {
    const Positions to = positions(change.to.data() + part.first, count_of(part.at));
    const RotatedAt from{part.rotary, positions(part.at.data(), count_of(part.at))};
    must(rerotate(rows_of(keys.moved, part.first, count_of(part.at), width), from, {change.now, to}), "spec");
  }
  must(change.now.apply(view(keys.query.data(), {1, 1, 1, width}), positions_from(change.query)), "spec");
  return keys;
}

/// The largest difference of a channel, token by token.
std::vector<double> errors_of(const Keys& keys, const std::vector<float>& is) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < is.size(); ++i) {
    if (i % static_cast<std::size_t>(keys.width) == 0) errors.push_back(0);
    errors.back() = std::max(errors.back(), std::abs(static_cast<double>(is[i]) - keys.fresh[i]));
  }
  return errors;
}

/// q . k, before any scale.
std::vector<double> scores_of(const Keys& keys, const std::vector<float>& is) {
  const ConstTensorView query = view(keys.query.data(), {1, 1, 1, keys.width});
  const ConstTensorView all = view(is.data(), {1, static_cast<std::int64_t>(is.size()) / keys.width, 1, keys.width});
  return value_of(similarity(query, all, Similarity::inner_product), "spec").values;
}

/// What attention gives each key: the query takes the plan's own factor on the softmax along.
std::vector<double> weights_of(const Keys& keys, const std::vector<float>& is, double softmax_scale) {
  std::vector<float> query = keys.query;
  for (float& value : query) value *= static_cast<float>(softmax_scale);
  const std::int64_t tokens = static_cast<std::int64_t>(is.size()) / keys.width;
  const ConstTensorView rows = view(is.data(), {1, tokens, 1, keys.width});
  const AttentionInputs inputs{view(std::as_const(query).data(), {1, 1, 1, keys.width}), rows, rows};
  std::vector<float> values(static_cast<std::size_t>(tokens));
  const AttentionWeights weights{.weights = view(values.data(), {1, 1, 1, tokens})};
  const auto bytes = value_of(attention_weights_workspace(inputs, {}, {}, weights), "spec");
  std::vector<std::byte> memory(static_cast<std::size_t>(bytes));
  must(attention_weights(inputs, {}, {}, weights, memory), "spec");
  return {values.begin(), values.end()};
}

Json json_of(const Change& change, std::int64_t seed, Blocks& blocks) {
  const Keys keys = make_keys(change, seed);
  Numbers from;
  for (const Stored& part : change.stored) from.insert(from.end(), part.at.begin(), part.at.end());
  const auto largest = [](const std::vector<double>& list) { return *std::max_element(list.begin(), list.end()); };
  std::vector<double> stale = errors_of(keys, keys.stale);
  std::vector<double> moved = errors_of(keys, keys.moved);
  Json json = Json::object()
                  .with("tokens", count_of(change.to))
                  .with("query_position", change.query)
                  .with("largest_stale", largest(stale))
                  .with("largest_moved", largest(moved))
                  .with("from", blocks.add(from))
                  .with("to", blocks.add(change.to))
                  .with("error_stale", blocks.add(std::move(stale)))
                  .with("error_moved", blocks.add(std::move(moved)));
  const auto add_scores = [&](const char* score, const char* weight, const std::vector<float>& of) {
    json.add(score, blocks.add(scores_of(keys, of)));
    json.add(weight, blocks.add(weights_of(keys, of, change.now.softmax_scale())));
  };
  add_scores("score_fresh", "weight_fresh", keys.fresh);
  add_scores("score_stale", "weight_stale", keys.stale);
  add_scores("score_moved", "weight_moved", keys.moved);
  return json;
}

Numbers counted(std::int64_t first, std::int64_t count) {
  Numbers list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), first);
  return list;
}

Rotary with_scaling(RotarySpec spec, Scaling scaling) {
  spec.scaling = std::move(scaling);
  return value_of(Rotary::make(spec), "spec");
}

/// Rerotation is exact, and so is what it is compared with; keys of heads with directions of their own would need as many heads.
RotarySpec spec_of(Request& request) {
  RotarySpec spec = request.rotary_spec();
  spec.numerics = Numerics::exact;
  if (const auto* directions = std::get_if<GivenDirections>(&spec.scaling); directions != nullptr && directions->heads > 1) {
    fail(Status::unsupported("heads with directions of their own are more than the one key head here"), "spec");
  }
  if (spec.head_dim > kMostTokens) refuse("spec", "head_dim is too large, wanted at most 4096");
  return spec;
}

/// A made-up list of LongRoPE's: short factors 1, long ones rising evenly to `factor`.
LongRopeScaling made_up(std::int64_t pairs, std::int64_t original_length, double factor) {
  LongRopeScaling scaling{.original_length = original_length, .factor = factor};
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double part = pairs > 1 ? static_cast<double>(i) / static_cast<double>(pairs - 1) : 0;
    scaling.short_factors.push_back(1);
    scaling.long_factors.push_back(1 + (factor - 1) * part);
  }
  return scaling;
}

constexpr Range kTokens{1, kMostTokens};

}  // namespace

Json cache_shift(Request& request, Blocks& blocks) {
  const Rotary rotary = value_of(Rotary::make(spec_of(request)), "spec");
  const std::int64_t tokens = request.integer("tokens", 64, kTokens);
  const std::int64_t keep = request.integer("keep", std::min<std::int64_t>(4, tokens), {0, tokens});
  const std::int64_t discard = request.integer("discard", std::min<std::int64_t>(16, tokens - keep), {0, tokens - keep});
  const std::int64_t seed = request.integer("seed", 1);
  if (tokens == discard) refuse("discard", "every token is dropped, wanted one that stays");
  Numbers at = counted(0, keep);
  const Numbers later = counted(keep + discard, tokens - keep - discard);
  at.insert(at.end(), later.begin(), later.end());
  const std::int64_t left = tokens - discard;
  return json_of({{{rotary, 0, at}}, rotary, counted(0, left), left}, seed, blocks);
}

Json cache_dynamic(Request& request, Blocks& blocks) {
  const RotarySpec spec = spec_of(request);
  const std::int64_t tokens = request.integer("tokens", 64, {1, 1024});
  DynamicNtkScaling scaling{.factor = request.number("factor", 2)};
  scaling.trained_length = request.integer("trained_length", 32, {1, std::int64_t{1} << 40});
  const std::int64_t seed = request.integer("seed", 1);
  const auto at_length = [&](std::int64_t length) {
    scaling.length = length;
    return with_scaling(spec, scaling);
  };
  // Up to the trained length one plan holds; each later token came when the context was that long.
  const std::int64_t calm = std::min(tokens, scaling.trained_length);
  std::vector<Stored> stored{{at_length(calm), 0, counted(0, calm)}};
  for (std::int64_t t = calm; t < tokens; ++t) stored.push_back({at_length(t + 1), t, {t}});
  return json_of({std::move(stored), at_length(tokens + 1), counted(0, tokens), tokens}, seed, blocks);
}

Json cache_longrope(Request& request, Blocks& blocks) {
  const RotarySpec spec = spec_of(request);
  const std::int64_t tokens = request.integer("tokens", 64, kTokens);
  const std::int64_t original = request.integer("original_length", 32, {2, std::int64_t{1} << 40});
  const double factor = request.number("factor", 16);
  const std::int64_t seed = request.integer("seed", 1);
  const std::int64_t pairs = (spec.rotary_width > 0 ? spec.rotary_width : spec.head_dim) / 2;
  const auto* given = std::get_if<LongRopeScaling>(&spec.scaling);
  LongRopeScaling scaling = given != nullptr ? *given : made_up(pairs, original, factor);
  scaling.choice = LongRopeChoice::short_factors;
  const Rotary before = with_scaling(spec, scaling);
  scaling.choice = LongRopeChoice::long_factors;
  const Rotary now = with_scaling(spec, scaling);
  return json_of({{{before, 0, counted(0, tokens)}}, now, counted(0, tokens), tokens}, seed, blocks);
}

}  // namespace phasor::web

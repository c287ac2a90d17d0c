// SPDX-License-Identifier: Apache-2.0
// Scores: what scalings do to every pair, what q and k score by distance, and the four terms of a score of tokens with encodings added.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "phasor/additive.hpp"
#include "phasor/analysis.hpp"
#include "web/core/methods.hpp"
#include "web/core/random.hpp"
#include "web/core/spec_json.hpp"

namespace phasor::web {
namespace {

constexpr double kNever = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kLongestContext = std::int64_t{1} << 20;

std::vector<double> column(const PlannedScaling& one, double PlannedPair::* member) {
  std::vector<double> values;
  for (const PlannedPair& pair : one.pairs) values.push_back(pair.*member);
  return values;
}

Json json_of(const PlannedScaling& one, Blocks& blocks) {
  if (!one.error.empty()) return Json::object().with("name", one.name).with("error", one.error);
  std::vector<double> unseen;
  for (const PlannedPair& pair : one.pairs) unseen.push_back(pair.unseen_from ? static_cast<double>(*pair.unseen_from) : kNever);
  return Json::object()
      .with("name", one.name)
      .with("scaling", scaling_json(one.scaling))
      .with("amplitude", one.amplitude)
      .with("softmax_scale", one.softmax_scale)
      .with("unseen_pairs", one.unseen_pairs)
      .with("unseen_from", one.unseen_from)
      .with("frequency", blocks.add(column(one, &PlannedPair::frequency)))
      .with("ratio", blocks.add(column(one, &PlannedPair::ratio)))
      .with("trained_turns", blocks.add(column(one, &PlannedPair::trained_turns)))
      .with("wanted_turns", blocks.add(column(one, &PlannedPair::wanted_turns)))
      .with("unseen_from_of_pair", blocks.add(std::move(unseen)));
}

/// `scalings` of the request: a spec with each of them.
std::vector<Scaling> scalings_of(Request& request) {
  std::vector<Scaling> list;
  for (Request& one : request.objects("scalings")) {
    list.push_back(one.rotary_spec("spec").scaling);
    one.finish();
  }
  return list;
}

struct Distances {
  figures::Numbers list;
  std::int64_t context = 0;
  std::int64_t length = 0;  // in which the first negative is looked for
};

Distances distances_of(Request& request) {
  Distances at{request.positions("distances", "0:2049:4"), request.integer("context", 0, {0, kLongestContext})};
  for (const std::int64_t distance : at.list) {
    at.length = std::max(at.length, distance + 1);
    if (at.context > 0 && (distance < 0 || distance >= at.context)) {
      refuse("distances",
             fmt::format("distances: distance is {}, wanted 0 to {} in a context of {}", distance, at.context - 1, at.context));
    }
  }
  at.length = at.context > 0 ? at.context : std::min(at.length, kLongestContext);
  return at;
}

void add_weights(const Rotary& rotary, const Distances& at, Json& json, Blocks& blocks) {
  const auto weights = value_of(distance_weights(rotary, at.context), "context");
  const auto values = [&](double DistanceWeight::* member) {
    std::vector<double> list;
    for (const std::int64_t distance : at.list) list.push_back(weights[static_cast<std::size_t>(distance)].*member);
    return blocks.add(std::move(list));
  };
  json.add("share", values(&DistanceWeight::share));
  json.add("score", values(&DistanceWeight::score));
  json.add("weight", values(&DistanceWeight::weight));
}

Json json_of(const figures::NamedSpec& one, const Distances& at, Blocks& blocks) {
  const Rotary rotary = value_of(Rotary::make(one.spec), "specs");
  Json json = Json::object()
                  .with("name", one.name)
                  .with("spec", spec_json(one.spec))
                  .with("sum", blocks.add(value_of(decay(rotary, at.list), "specs")));
  if (at.length > 0) json.add("first_negative", value_of(first_negative(rotary, at.length), "specs"));
  if (at.context > 0) add_weights(rotary, at, json, blocks);
  return json;
}

}  // namespace

Json plan(Request& request, Blocks& blocks) {
  PlannerInput input{.spec = request.rotary_spec()};
  const Range lengths{1, std::int64_t{1} << 40};
  input.trained_length = request.integer("trained_length", 4096, lengths);
  input.wanted_length = request.integer("wanted_length", std::min(8 * input.trained_length, lengths.most), lengths);
  input.scalings = scalings_of(request);
  const auto planned = value_of(plan_scalings(input), "spec");
  Json list = Json::array();
  for (const PlannedScaling& one : planned) list.push_back(json_of(one, blocks));
  return Json::object()
      .with("trained_length", input.trained_length)
      .with("wanted_length", input.wanted_length)
      .with("pairs", planned.front().pairs.size())
      .with("scalings", list);
}

Json decay_of_specs(Request& request, Blocks& blocks) {
  const auto specs = request.named_specs();
  const Distances at = distances_of(request);
  Json encodings = Json::array();
  for (const figures::NamedSpec& one : specs) encodings.push_back(json_of(one, at, blocks));
  return Json::object().with("distances", blocks.add(at.list)).with("context", at.context).with("encodings", encodings);
}

Json terms_of_scores(Request& request, Blocks& blocks) {
  const SinusoidalSpec spec = request.sinusoidal_spec();
  const std::int64_t tokens = request.integer("tokens", 32, {1, 256});
  const double content = request.number("content", 1);
  Random random(request.integer("seed", 1));
  const Sinusoidal sinusoidal = value_of(Sinusoidal::make(spec), "sinusoidal");
  const std::int64_t width = spec.width;
  const Extents shape{1, tokens, 1, width};
  if (width > kMostTokens) refuse("sinusoidal", fmt::format("width is {}, wanted at most {}", width, kMostTokens));
  std::vector<double> x = random.normal<double>(tokens * width, content);
  std::vector<double> p(x.size());
  must(sinusoidal.fill(view(p.data(), shape), positions_from(0)), "sinusoidal");
  const ScoreInput input{.x = view(x.data(), shape), .p = view(p.data(), shape), .scale = request.number("scale", 1)};
  ScoreTerms terms = value_of(score_terms(input), "scale");
  return Json::object()
      .with("content_content", blocks.add(std::move(terms.content_content)))
      .with("content_position", blocks.add(std::move(terms.content_position)))
      .with("position_content", blocks.add(std::move(terms.position_content)))
      .with("position_position", blocks.add(std::move(terms.position_position)))
      .with("score", blocks.add(std::move(terms.score)));
}

}  // namespace phasor::web

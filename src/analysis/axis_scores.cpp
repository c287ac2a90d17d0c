// SPDX-License-Identifier: Apache-2.0
// What each axis of a position adds to the score of a query with every token.
#include <cstring>
#include <utility>

#include "job/check.hpp"
#include "phasor/analysis_by_pair.hpp"
#include "spec/axes.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

constexpr const char* kAxisScores = "axis_scores";
constexpr std::int64_t kMostScored = std::int64_t{1} << 16;

/// Positions as float64, (axes, T); wider ones than 2^53 would lose digits, and are not met in grids.
struct Coordinates {
  std::int64_t axes = 1;
  std::int64_t tokens = 0;
  std::vector<double> values = {};
  double* axis(std::int64_t a) { return values.data() + a * tokens; }
};

double coordinate(const Positions& positions, std::int64_t axis, std::int64_t token) {
  const std::int64_t place = axis * positions.strides[0] + token * positions.strides[2];
  if (positions.type == PositionType::f64) return static_cast<const double*>(positions.data)[place];
  if (positions.type == PositionType::i64) return static_cast<double>(static_cast<const std::int64_t*>(positions.data)[place]);
  return static_cast<const std::int32_t*>(positions.data)[place];
}

Coordinates read(const Positions& positions, std::int64_t axes) {
  Coordinates all{axes, positions.shape[2], {}};
  all.values.resize(static_cast<std::size_t>(axes * all.tokens));
  for (std::int64_t a = 0; a < axes; ++a) {
    for (std::int64_t t = 0; t < all.tokens; ++t) all.axis(a)[t] = coordinate(positions, positions.shape[0] == 1 ? 0 : a, t);
  }
  return all;
}

struct Tables {
  std::int64_t pairs = 0;
  std::vector<double> cos;  // (T, pairs), of one head
  std::vector<double> sin;
};

Result<Tables> tables_of(const Rotary& rotary, const Coordinates& at, std::int64_t head) {
  const auto* directions = std::get_if<GivenDirections>(&rotary.spec().scaling);
  const std::int64_t heads = directions != nullptr ? directions->heads : 1;
  const std::int64_t pairs = rotary.rotary_width() / 2;
  std::vector<double> cos(static_cast<std::size_t>(at.tokens * heads * pairs));
  std::vector<double> sin(cos.size());
  const Extents shape{1, at.tokens, heads, pairs};
  const Positions where = positions(at.values.data(), at.axes, 1, at.tokens);
  if (Status status = rotary.cos_sin(where, view(cos.data(), shape), view(sin.data(), shape)); !status) return status;
  Tables tables{pairs, {}, {}};
  for (std::int64_t t = 0; t < at.tokens; ++t) {
    const std::int64_t first = (t * heads + (heads > 1 ? head : 0)) * pairs;
    tables.cos.insert(tables.cos.end(), cos.begin() + first, cos.begin() + first + pairs);
    tables.sin.insert(tables.sin.end(), sin.begin() + first, sin.begin() + first + pairs);
  }
  return tables;
}

/// Adds the cosine of each pair's phase difference with the query to sums[axis of the pair], in parts of all pairs' own.
void add_parts(const Tables& tables, std::int64_t query, const std::vector<std::uint8_t>& axis_of, Matrix& parts) {
  const auto pairs = static_cast<std::size_t>(tables.pairs);
  const double* q_cos = tables.cos.data() + static_cast<std::size_t>(query) * pairs;
  const double* q_sin = tables.sin.data() + static_cast<std::size_t>(query) * pairs;
  double own = 0;
  for (std::size_t p = 0; p < pairs; ++p) own += q_cos[p] * q_cos[p] + q_sin[p] * q_sin[p];
  for (std::int64_t t = 0; t < parts.columns; ++t) {
    const auto first = static_cast<std::size_t>(t) * pairs;
    for (std::size_t p = 0; p < pairs; ++p) {
      const double cos = q_cos[p] * tables.cos[first + p] + q_sin[p] * tables.sin[first + p];
      parts.values[static_cast<std::size_t>(axis_of[p] * parts.columns + t)] += cos / own;
    }
  }
}

Result<AxisScores> separable(const Rotary& rotary, const Coordinates& at, std::int64_t query) {
  const auto tables = tables_of(rotary, at, 0);
  if (!tables) return tables.status();
  AxisScores scores{std::vector<double>(static_cast<std::size_t>(at.tokens)),
                    {at.axes, at.tokens, std::vector<double>(at.values.size())},
                    spec::pairs_of_axis(rotary.spec())};
  add_parts(*tables, query, spec::axis_of_pair(rotary.spec()), scores.by_axis);
  for (std::size_t i = 0; i < scores.by_axis.values.size(); ++i) scores.score[i % scores.score.size()] += scores.by_axis.values[i];
  return scores;
}

/// Tokens that differ from the query along one axis alone.
Coordinates along(Coordinates at, std::int64_t axis, std::int64_t query) {
  for (std::int64_t a = 0; a < at.axes; ++a) {
    const double here = at.axis(a)[query];
    for (std::int64_t t = 0; a != axis && t < at.tokens; ++t) at.axis(a)[t] = here;
  }
  return at;
}

Result<AxisScores> by_directions(const Rotary& rotary, const Coordinates& at, std::int64_t query, std::int64_t head) {
  const std::vector<std::uint8_t> together(static_cast<std::size_t>(rotary.rotary_width() / 2), 0);
  const auto score_at = [&](const Coordinates& where) -> Result<Matrix> {
    const auto tables = tables_of(rotary, where, head);
    if (!tables) return tables.status();
    Matrix scores{1, at.tokens, std::vector<double>(static_cast<std::size_t>(at.tokens))};
    add_parts(*tables, query, together, scores);
    return scores;
  };
  auto whole = score_at(at);
  if (!whole) return whole.status();
  AxisScores scores{std::move(whole->values), {at.axes, at.tokens, {}}, {}};
  for (std::int64_t a = 0; a < at.axes; ++a) {
    const auto one = score_at(along(at, a, query));
    if (!one) return one.status();
    scores.by_axis.values.insert(scores.by_axis.values.end(), one->values.begin(), one->values.end());
  }
  return scores;
}

Status check(const Rotary& rotary, const Positions& positions, std::int64_t query, std::int64_t head) {
  const std::int64_t tokens = positions.shape[2];
  const std::int64_t axes = spec::axis_count(rotary.spec());
  if (rotary.spec().lanes != Lanes::alike) return Status::unsupported("axis_scores: per-channel frequencies have no pairs to score");
  if (positions.data == nullptr || positions.device != Device{})
    return job::error(kAxisScores, "positions have no memory here, wanted a list");
  if (positions.shape[1] != 1) return job::error(kAxisScores, "positions have {} batch rows, wanted 1", positions.shape[1]);
  if (positions.shape[0] != axes && positions.shape[0] != 1) {
    return job::error(kAxisScores, "positions have {} axes, wanted {}", positions.shape[0], axes);
  }
  if (tokens < 1 || tokens > kMostScored) return job::error(kAxisScores, "there are {} tokens, wanted 1 to {}", tokens, kMostScored);
  if (query < 0 || query >= tokens) return job::error(kAxisScores, "query is {}, wanted 0 to {}", query, tokens - 1);
  const auto* directions = std::get_if<GivenDirections>(&rotary.spec().scaling);
  const std::int64_t heads = directions != nullptr && directions->heads > 1 ? directions->heads : head + 1;
  if (head < 0 || head >= heads) return job::error(kAxisScores, "head is {}, wanted 0 to {}", head, heads - 1);
  return {};
}

Result<AxisScores> scores_of(const Rotary& rotary, const Positions& positions, std::int64_t query, std::int64_t head) {
  if (Status status = check(rotary, positions, query, head); !status) return status;
  RotarySpec spec = rotary.spec();
  spec.numerics = Numerics::exact;
  const auto exact = Rotary::make(spec);
  if (!exact) return exact.status();
  const Coordinates at = read(positions, spec::axis_count(spec));
  return std::holds_alternative<GivenDirections>(spec.scaling) ? by_directions(*exact, at, query, head) : separable(*exact, at, query);
}

}  // namespace

Result<AxisScores> axis_scores(const Rotary& rotary, const Positions& positions, std::int64_t query, std::int64_t head) {
  return spec::without_exceptions([&] { return scores_of(rotary, positions, query, head); });
}

}  // namespace phasor

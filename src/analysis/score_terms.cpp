// SPDX-License-Identifier: Apache-2.0
// The score of x + p in its four terms: content and position of the query with content and position of the key.
#include <string>

#include "analysis/rows.hpp"
#include "job/check.hpp"
#include "phasor/analysis.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using analysis::Rows;

constexpr const char* kWhere = "score_terms";
constexpr std::int64_t kMostTokens = 2048;
constexpr std::int64_t kWidest = 1 << 20;

struct Sides {
  Rows content;
  Rows position;
  Rows both;  // of x + p, projected after the sum: nothing is shared with the terms
};

Rows sum_of(const Rows& a, const Rows& b) {
  Rows sum = a;
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += b.values[i];
  return sum;
}

/// y = x W.
Rows project(const Rows& x, const Rows& weights) {
  Rows y{x.rows, weights.width, std::vector<double>(static_cast<std::size_t>(x.rows * weights.width))};
  for (std::int64_t row = 0; row < x.rows; ++row) {
    double* out = y.values.data() + row * y.width;
    for (std::int64_t c = 0; c < x.width; ++c) {
      const double value = x.row(row)[c];
      for (std::int64_t e = 0; e < y.width; ++e) out[e] += value * weights.row(c)[e];
    }
  }
  return y;
}

Result<Sides> project_sides(const Sides& sides, const ConstTensorView& weights, const char* name) {
  if (weights.data == nullptr) return sides;
  const auto rows = analysis::read_rows(weights, {kWhere, name, 1, kWidest});
  if (!rows.ok()) return rows.status();
  if (rows->rows != sides.content.width) {
    return job::error(kWhere, "{} have {} rows, wanted the width of x, {}", name, rows->rows, sides.content.width);
  }
  return Sides{project(sides.content, *rows), project(sides.position, *rows), project(sides.both, *rows)};
}

Matrix scores(const Rows& query, const Rows& key, double scale) {
  Matrix matrix{query.rows, key.rows, {}};
  matrix.values.reserve(static_cast<std::size_t>(query.rows * key.rows));
  for (std::int64_t i = 0; i < query.rows; ++i) {
    for (std::int64_t j = 0; j < key.rows; ++j) matrix.values.push_back(scale * analysis::dot(query.row(i), key.row(j), query.width));
  }
  return matrix;
}

Result<ScoreTerms> terms_of(const ScoreInput& input) {
  Result<Rows> x = analysis::read_rows(input.x, {kWhere, "x", 1, kMostTokens});
  if (!x.ok()) return x.status();
  Result<Rows> p = analysis::read_rows(input.p, {kWhere, "p", 1, kMostTokens});
  if (!p.ok()) return p.status();
  if (p->rows != x->rows || p->width != x->width) {
    return job::error(kWhere, "p has {} rows of {}, wanted those of x, {} of {}", p->rows, p->width, x->rows, x->width);
  }
  Rows both = sum_of(*x, *p);
  const Sides sides{*std::move(x), *std::move(p), std::move(both)};
  const Result<Sides> q = project_sides(sides, input.query_weights, "query_weights");
  if (!q.ok()) return q.status();
  const Result<Sides> k = project_sides(sides, input.key_weights, "key_weights");
  if (!k.ok()) return k.status();
  if (q->both.width != k->both.width) {
    return job::error(kWhere, "keys have width {}, wanted that of the queries, {}", k->both.width, q->both.width);
  }
  return ScoreTerms{scores(q->content, k->content, input.scale), scores(q->content, k->position, input.scale),
                    scores(q->position, k->content, input.scale), scores(q->position, k->position, input.scale),
                    scores(q->both, k->both, input.scale)};
}

}  // namespace

Result<ScoreTerms> score_terms(const ScoreInput& input) {
  return spec::without_exceptions([&] { return terms_of(input); });
}

}  // namespace phasor

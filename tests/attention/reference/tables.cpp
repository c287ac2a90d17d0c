// SPDX-License-Identifier: Apache-2.0
// Schemes of the reference with query-side or key-side tables: Shaw, DeBERTa, Inkling.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "attention/reference/parts.hpp"
#include "attention/reference/powers.hpp"

namespace phasor::attend::reference {
namespace {

std::int64_t shaw_row(const Shaw& s, const Problem& p, const Cell& c) {
  const std::int64_t row = std::clamp(-distance(p, c), -s.left, s.right) + s.left;
  return s.per_head ? c.h * (s.left + 1 + s.right) + row : row;
}

std::int64_t deberta_span(const Deberta& s) { return s.buckets > 0 ? s.buckets : s.max_distance; }

/// Where a cell's row of KR or QR begins.
std::int64_t deberta_offset(const Deberta& s, DebertaReading reading, const Problem& p, const Cell& c) {
  return (c.h * 2 * deberta_span(s) + deberta_row(s, reading, distance(p, c))) * p.shape.width;
}

double temperature(const Inkling& s, const Problem& p, const Cell& c) {
  return s.scale * (1 + s.alpha * std::log(std::max(static_cast<double>(query_position(p, c) + 1) / s.floor, 1.0)));
}

std::int64_t feature_row(const Inkling& s, const Problem& p, const Cell& c) {
  return ((c.b * p.shape.queries + c.i) * p.shape.heads + c.h) * s.feature_width;
}

}  // namespace

double Shaw::term(const Problem& p, const Cell& c) const {
  if (keys.empty()) return 0;
  return p.scale * dot(query(p, c), keys.data() + shaw_row(*this, p, c) * p.shape.width, p.shape.width);
}
void Shaw::term_gradient(const Problem& p, const Cell& c, double ds, Gradients& sum, Shaw& own) const {
  if (keys.empty()) return;
  const std::int64_t row = shaw_row(*this, p, c) * p.shape.width;
  add(sum.q.data() + query_row(p, c), p.scale * ds, keys.data() + row, p.shape.width);
  add(own.keys.data() + row, p.scale * ds, query(p, c), p.shape.width);
}
double Shaw::value(const Problem& p, const Cell& c, std::int64_t channel) const {
  return values.empty() ? 0 : values[static_cast<std::size_t>(shaw_row(*this, p, c) * p.shape.value_width + channel)];
}
void Shaw::value_gradient(const Problem& p, const Cell& c, std::int64_t channel, double dv, Shaw& own) const {
  if (!values.empty()) own.values[static_cast<std::size_t>(shaw_row(*this, p, c) * p.shape.value_width + channel)] += dv;
}
void Shaw::check(const Problem& p) const {
  const std::int64_t rows = (left + 1 + right) * (per_head ? p.shape.heads : 1);
  if (!keys.empty()) expect_size(keys, rows * p.shape.width, "keys");
  if (!values.empty()) expect_size(values, rows * p.shape.value_width, "values");
}

std::int64_t deberta_row(const Deberta& s, DebertaReading reading, std::int64_t r) {
  const std::int64_t span = deberta_span(s);
  const auto clamped = [&](std::int64_t bucket) { return std::clamp<std::int64_t>(bucket + span, 0, 2 * span - 1); };
  if (s.buckets == 0) return clamped(r);
  const bool swapped = reading == DebertaReading::hf_swapped;
  const std::int64_t mid = (swapped ? s.max_distance : s.buckets) / 2;
  const std::int64_t farthest = (swapped ? s.buckets : s.max_distance) - 1;
  if (reading == DebertaReading::microsoft) r = std::clamp(r, -farthest, farthest);
  const std::int64_t far = std::abs(r);
  if (far <= mid) return clamped(r);
  // ceil(ln(far / mid) / ln(farthest / mid) (mid - 1)) + mid, without rounding: where farthest < mid the quotient is negative, where they
  // are equal it is infinite. Beyond 2 span every bucket is clamped.
  const std::int64_t most = mid + 2 * span;
  std::int64_t grown = most;
  if (farthest > mid) grown = scaled_logarithm(mid - 1, {far, mid}, {farthest, mid}, most).ceil;
  if (farthest < mid) grown = -scaled_logarithm(mid - 1, {far, mid}, {mid, farthest}, most).floor;
  return clamped(r > 0 ? mid + grown : -(mid + grown));
}

double Deberta::term(const Problem& p, const Cell& c) const {
  double sum = 0;
  if (!keys.empty()) sum += dot(query(p, c), keys.data() + deberta_offset(*this, c2p, p, c), p.shape.width);
  if (!queries.empty()) sum += dot(key(p, c), queries.data() + deberta_offset(*this, p2c, p, c), p.shape.width);
  return p.scale * sum;
}
void Deberta::term_gradient(const Problem& p, const Cell& c, double ds, Gradients& sum, Deberta& own) const {
  const double d = p.scale * ds;
  if (!keys.empty()) {
    const std::int64_t at = deberta_offset(*this, c2p, p, c);
    add(sum.q.data() + query_row(p, c), d, keys.data() + at, p.shape.width);
    add(own.keys.data() + at, d, query(p, c), p.shape.width);
  }
  if (!queries.empty()) {
    const std::int64_t at = deberta_offset(*this, p2c, p, c);
    add(sum.k.data() + key_row(p, c), d, queries.data() + at, p.shape.width);
    add(own.queries.data() + at, d, key(p, c), p.shape.width);
  }
}
void Deberta::check(const Problem& p) const {
  const std::int64_t count = p.shape.heads * 2 * deberta_span(*this) * p.shape.width;
  if (!keys.empty()) expect_size(keys, count, "keys");
  if (!queries.empty()) expect_size(queries, count, "queries");
}

double Inkling::term(const Problem& p, const Cell& c) const {
  const std::int64_t r = distance(p, c);
  if (r < 0 || r >= extent) return 0;
  double sum = 0;
  for (std::int64_t e = 0; e < feature_width; ++e) {
    sum += features[static_cast<std::size_t>(feature_row(*this, p, c) + e)] * table[static_cast<std::size_t>(e * extent + r)];
  }
  return temperature(*this, p, c) * sum;
}
void Inkling::term_gradient(const Problem& p, const Cell& c, double ds, Gradients&, Inkling& own) const {
  const std::int64_t r = distance(p, c);
  if (r < 0 || r >= extent) return;
  const double d = temperature(*this, p, c) * ds;
  for (std::int64_t e = 0; e < feature_width; ++e) {
    const auto f = static_cast<std::size_t>(feature_row(*this, p, c) + e);
    const auto t = static_cast<std::size_t>(e * extent + r);
    own.features[f] += d * table[t];
    own.table[t] += d * features[f];
  }
}
void Inkling::check(const Problem& p) const {
  expect_size(features, p.shape.batch * p.shape.queries * p.shape.heads * feature_width, "features");
  expect_size(table, feature_width * extent, "table");
}

}  // namespace phasor::attend::reference

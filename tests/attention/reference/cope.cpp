// SPDX-License-Identifier: Apache-2.0
// CoPE in the reference: positions that are sums of gates.
#include <algorithm>
#include <cmath>

#include "attention/reference/parts.hpp"

namespace phasor::attend::reference {
namespace {

/// Gates, and so places, are those of the problem itself where its magnitudes are added up.
double gate(const Cope& s, const Problem& p, const Cell& c) {
  if (p.magnitudes_of != nullptr) return gate(s, *p.magnitudes_of, c);
  return 1 / (1 + std::exp(-s.gate_scale * dot(query(p, c), key(p, c), p.shape.width)));
}

/// The keys whose gates a cell's position adds up: seen, not before the key, not after the query.
template <class Body>
void each_counted(const Problem& p, const Cell& cell, const Body& body) {
  const std::int64_t first = key_position(p, cell);
  Cell other = cell;
  for (other.j = 0; other.j < p.shape.keys; ++other.j) {
    const std::int64_t at = key_position(p, other);
    if (at >= first && at <= query_position(p, cell) && visible(p, other)) body(other);
  }
}

/// Of a scale, where magnitudes are added up.
double size(const Problem& p, double scale) { return p.magnitudes_of != nullptr ? std::fabs(scale) : scale; }

struct Place {
  double upper_part;
  double lower_part;
  std::int64_t lower;  // where the rows begin
  std::int64_t upper;
};

Place place_of(const Cope& s, const Problem& p, const Cell& cell) {
  double count = 0;
  each_counted(p, cell, [&](const Cell& other) { count += gate(s, p, other); });
  const double at = std::min(count, static_cast<double>(s.rows - 1));
  const double below = std::floor(at);
  const std::int64_t base = s.per_head ? cell.h * s.rows : 0;
  const auto row = [&](double x) { return (base + static_cast<std::int64_t>(x)) * p.shape.width; };
  // A part is what is left of a count of gates, and off by as much as the count is.
  if (p.magnitudes_of != nullptr) return {1 + count, 1 + count, row(below), row(std::ceil(at))};
  return {at - below, 1 - (at - below), row(below), row(std::ceil(at))};
}

}  // namespace

double Cope::term(const Problem& p, const Cell& c) const {
  const Place at = place_of(*this, p, c);
  const double lower = dot(query(p, c), table.data() + at.lower, p.shape.width);
  const double upper = dot(query(p, c), table.data() + at.upper, p.shape.width);
  return size(p, term_scale) * (upper * at.upper_part + lower * at.lower_part);
}

void Cope::term_gradient(const Problem& p, const Cell& c, double ds, Gradients& sum, Cope& own) const {
  const std::int64_t width = p.shape.width;
  const Place at = place_of(*this, p, c);
  const double d = size(p, term_scale) * ds;
  const double* q = query(p, c);
  double* dq = sum.q.data() + query_row(p, c);
  add(dq, d * at.upper_part, table.data() + at.upper, width);
  add(dq, d * at.lower_part, table.data() + at.lower, width);
  add(own.table.data() + at.upper, d * at.upper_part, q, width);
  add(own.table.data() + at.lower, d * at.lower_part, q, width);
  // 0 where the count was cut: both rows are the last.
  const double upper = dot(q, table.data() + at.upper, width);
  const double lower = dot(q, table.data() + at.lower, width);
  const double dcount = d * (p.magnitudes_of != nullptr ? upper + lower : upper - lower);
  each_counted(p, c, [&](const Cell& other) {
    const double g = gate(*this, p, other);
    const double through = dcount * g * (1 - g) * size(p, gate_scale);
    add(dq, through, key(p, other), width);
    add(sum.k.data() + key_row(p, other), through, q, width);
  });
}

void Cope::check(const Problem& p) const {
  expect(rows > 0, "CoPE has no rows");
  expect_size(table, rows * p.shape.width * (per_head ? p.shape.heads : 1), "table");
}

}  // namespace phasor::attend::reference

// SPDX-License-Identifier: Apache-2.0
// Transformer-XL and its kin in the reference.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "attention/reference/parts.hpp"
#include "attention/reference/remembered.hpp"

namespace phasor::attend::reference {
namespace {

/// r(distance), as the problem adds it up.
Values sinusoid_of(const TransformerXl& s, const Problem& p, std::int64_t r) {
  using Key = std::tuple<std::int64_t, double, std::int64_t, XlOrder>;
  thread_local std::map<Key, Values> memory;
  Values row = remembered(memory, Key{r, s.base, s.model_width, s.order}, [&] { return xl_sinusoid(s, static_cast<long double>(r)); });
  if (p.magnitudes_of != nullptr) {
    for (double& x : row) x = std::fabs(x);
  }
  return row;
}

/// Where the row of a distance begins in the table of head h.
std::int64_t table_row(const TransformerXl& s, const Problem& p, std::int64_t r, std::int64_t h) {
  const std::int64_t rows = static_cast<std::int64_t>(s.table.size()) / (p.shape.heads * p.shape.width);
  expect(r >= s.first_distance && r < s.first_distance + rows, "a distance is outside the table");
  return (h * rows + r - s.first_distance) * p.shape.width;
}

/// W r, D values of head h.
Values position_key(const TransformerXl& s, const Problem& p, std::int64_t r, std::int64_t h) {
  const std::int64_t width = p.shape.width;
  if (!s.table.empty()) {
    const double* row = s.table.data() + table_row(s, p, r, h);
    return Values(row, row + width);
  }
  const Values sinusoid = sinusoid_of(s, p, r);
  Values result;
  for (std::int64_t c = 0; c < width; ++c) {
    result.push_back(dot(s.projection.data() + (h * width + c) * s.model_width, sinusoid.data(), s.model_width));
  }
  return result;
}

/// x + bias of the head.
Values biased(const double* x, const Values& bias, std::int64_t h, std::int64_t width) {
  Values result(x, x + width);
  add(result.data(), 1, bias.data() + h * width, width);
  return result;
}

/// (b), (c) and (d) of the paper's four terms; (a) is q . k.
double xl_term(const TransformerXl& s, const Problem& p, const Cell& c, std::int64_t r) {
  const std::int64_t width = p.shape.width;
  const Values key_r = position_key(s, p, r, c.h);
  const double content = dot(s.u.data() + c.h * width, key(p, c), width);
  return p.scale * (content + dot(biased(query(p, c), s.v, c.h, width).data(), key_r.data(), width));
}

/// ds times the scale.
struct ScaledGradient {
  const Problem& p;
  const Cell& c;
  double d;
};
void xl_gradient(const TransformerXl& s, const ScaledGradient& g, std::int64_t r, Gradients& sum, TransformerXl& own) {
  const std::int64_t width = g.p.shape.width;
  const std::int64_t head = g.c.h * width;
  const Values key_r = position_key(s, g.p, r, g.c.h);
  const Values query_v = biased(query(g.p, g.c), s.v, g.c.h, width);
  add(own.u.data() + head, g.d, key(g.p, g.c), width);
  add(sum.k.data() + key_row(g.p, g.c), g.d, s.u.data() + head, width);
  add(own.v.data() + head, g.d, key_r.data(), width);
  add(sum.q.data() + query_row(g.p, g.c), g.d, key_r.data(), width);
  if (!s.table.empty()) {
    add(own.table.data() + table_row(s, g.p, r, g.c.h), g.d, query_v.data(), width);
    return;
  }
  const Values sinusoid = sinusoid_of(s, g.p, r);
  for (std::int64_t c = 0; c < width; ++c) {
    add(own.projection.data() + (head + c) * s.model_width, g.d * query_v[static_cast<std::size_t>(c)], sinusoid.data(), s.model_width);
  }
}

std::int64_t xlnet_distance(const Xlnet& s, const Problem& p, const Cell& c) {
  std::int64_t r = distance(p, c);
  if (s.clamp > 0) r = std::clamp(r, -s.clamp, s.clamp);
  if (!s.direction.empty()) r *= s.direction[static_cast<std::size_t>(c.b)];
  return r;
}

/// Where E of the cell begins: whether the segments differ, then the head.
std::int64_t segment_row(const Xlnet& s, const Problem& p, const Cell& c) {
  const std::int64_t query_segment = s.query_segments[static_cast<std::size_t>(c.b * p.shape.queries + c.i)];
  const std::int64_t key_segment = s.key_segments[static_cast<std::size_t>(c.b * p.shape.keys + c.j)];
  return ((query_segment != key_segment ? p.shape.heads : 0) + c.h) * p.shape.width;
}

}  // namespace

Values xl_sinusoid(const TransformerXl& s, long double r) {
  const std::int64_t pairs = s.model_width / 2;
  Values row(static_cast<std::size_t>(s.model_width));
  for (std::int64_t n = 0; n < pairs; ++n) {
    const long double exponent = static_cast<long double>(2 * n) / static_cast<long double>(s.model_width);
    const long double angle = r / std::pow(static_cast<long double>(s.base), exponent);
    const bool halves = s.order == XlOrder::halves;
    row[static_cast<std::size_t>(halves ? n : 2 * n)] = static_cast<double>(std::sin(angle));
    row[static_cast<std::size_t>(halves ? n + pairs : 2 * n + 1)] = static_cast<double>(std::cos(angle));
  }
  return row;
}

double TransformerXl::term(const Problem& p, const Cell& c) const { return xl_term(*this, p, c, distance(p, c)); }
void TransformerXl::term_gradient(const Problem& p, const Cell& c, double ds, Gradients& sum, TransformerXl& own) const {
  xl_gradient(*this, {p, c, p.scale * ds}, distance(p, c), sum, own);
}
void TransformerXl::check(const Problem& p) const {
  const std::int64_t count = p.shape.heads * p.shape.width;
  expect(model_width % 2 == 0, "the width of the sinusoids is odd");
  expect_size(u, count, "u");
  expect_size(v, count, "v");
  if (!table.empty()) {
    expect(projection.empty() && static_cast<std::int64_t>(table.size()) % count == 0, "table is not (H, rows, D) alone");
  } else {
    expect_size(projection, count * model_width, "projection");
  }
}

double Xlnet::term(const Problem& p, const Cell& c) const {
  const double position = xl_term(xl, p, c, xlnet_distance(*this, p, c));
  if (segment_bias.empty()) return position;
  const Values query_s = biased(query(p, c), segment_bias, c.h, p.shape.width);
  return position + p.scale * dot(query_s.data(), segment_table.data() + segment_row(*this, p, c), p.shape.width);
}
void Xlnet::term_gradient(const Problem& p, const Cell& c, double ds, Gradients& sum, Xlnet& own) const {
  const double d = p.scale * ds;
  xl_gradient(xl, {p, c, d}, xlnet_distance(*this, p, c), sum, own.xl);
  if (segment_bias.empty()) return;
  const std::int64_t width = p.shape.width;
  const std::int64_t row = segment_row(*this, p, c);
  add(sum.q.data() + query_row(p, c), d, segment_table.data() + row, width);
  add(own.segment_bias.data() + c.h * width, d, segment_table.data() + row, width);
  add(own.segment_table.data() + row, d, biased(query(p, c), segment_bias, c.h, width).data(), width);
}
void Xlnet::check(const Problem& p) const {
  const Shape& s = p.shape;
  xl.check(p);
  expect(direction.empty() || static_cast<std::int64_t>(direction.size()) == s.batch, "direction is not (B)");
  if (segment_bias.empty()) return;
  expect_size(segment_bias, s.heads * s.width, "segment_bias");
  expect_size(segment_table, 2 * s.heads * s.width, "segment_table");
  expect(static_cast<std::int64_t>(query_segments.size()) == s.batch * s.queries, "query_segments are not (B, Tq)");
  expect(static_cast<std::int64_t>(key_segments.size()) == s.batch * s.keys, "key_segments are not (B, Tk)");
}

}  // namespace phasor::attend::reference

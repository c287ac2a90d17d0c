// SPDX-License-Identifier: Apache-2.0
// A bias given whole, and those of images, in the reference.
#include <algorithm>

#include "attention/reference/parts.hpp"

namespace phasor::attend::reference {
namespace {

std::size_t dense_index(const Dense& s, const Cell& c) {
  const std::array<std::int64_t, 4> place = {c.b, c.h, c.i, c.j};
  std::int64_t at = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) at = at * s.extents[axis] + (s.extents[axis] == 1 ? 0 : place[axis]);
  return static_cast<std::size_t>(at);
}

std::int64_t swin_rows(const Swin& s) { return (2 * s.height - 1) * (2 * s.width - 1) + (s.class_token ? 3 : 0); }

std::size_t swin_index(const Swin& s, const Problem& p, const Cell& c) {
  std::int64_t m = query_position(p, c);
  std::int64_t n = key_position(p, c);
  const std::int64_t rows = swin_rows(s);
  std::int64_t row = 0;
  if (s.class_token && (m == 0 || n == 0)) {
    row = m == 0 && n == 0 ? rows - 1 : m == 0 ? rows - 3 : rows - 2;
  } else {
    if (s.class_token) --m, --n;
    const std::int64_t dy = m / s.width - n / s.width;
    const std::int64_t dx = m % s.width - n % s.width;
    row = (dy + s.height - 1) * (2 * s.width - 1) + dx + s.width - 1;
  }
  return static_cast<std::size_t>(c.h * rows + row);
}

/// MViTv2's row of one axis: both coordinates in units of the finer grid.
std::int64_t sam_row(std::int64_t query_at, std::int64_t key_at, std::int64_t queries, std::int64_t keys) {
  const double query_step = std::max(static_cast<double>(keys) / static_cast<double>(queries), 1.0);
  const double key_step = std::max(static_cast<double>(queries) / static_cast<double>(keys), 1.0);
  const double offset = static_cast<double>(query_at) * query_step - static_cast<double>(key_at) * key_step;
  return static_cast<std::int64_t>(offset + static_cast<double>(keys - 1) * key_step);
}

/// Where the two rows of a cell begin.
std::array<std::int64_t, 2> sam_rows(const Sam& s, const Problem& p, const Cell& c) {
  const std::int64_t m = query_position(p, c);
  const std::int64_t n = key_position(p, c);
  const std::int64_t y = sam_row(m / s.query_grid[1], n / s.key_grid[1], s.query_grid[0], s.key_grid[0]);
  const std::int64_t x = sam_row(m % s.query_grid[1], n % s.key_grid[1], s.query_grid[1], s.key_grid[1]);
  return {y * p.shape.width, x * p.shape.width};
}

}  // namespace

double Dense::term(const Problem&, const Cell& c) const { return bias[dense_index(*this, c)]; }
void Dense::term_gradient(const Problem&, const Cell& c, double ds, Gradients&, Dense& own) const { own.bias[dense_index(*this, c)] += ds; }
void Dense::check(const Problem& p) const {
  const std::array<std::int64_t, 4> whole = {p.shape.batch, p.shape.heads, p.shape.queries, p.shape.keys};
  for (std::size_t axis = 0; axis < 4; ++axis)
    expect(extents[axis] == 1 || extents[axis] == whole[axis], "a dense bias does not broadcast");
  expect_size(bias, extents[0] * extents[1] * extents[2] * extents[3], "bias");
}

double Swin::term(const Problem& p, const Cell& c) const { return table[swin_index(*this, p, c)]; }
void Swin::term_gradient(const Problem& p, const Cell& c, double ds, Gradients&, Swin& own) const {
  own.table[swin_index(*this, p, c)] += ds;
}
void Swin::check(const Problem& p) const { expect_size(table, p.shape.heads * swin_rows(*this), "table"); }

double Sam::term(const Problem& p, const Cell& c) const {
  const auto [y, x] = sam_rows(*this, p, c);
  return dot(query(p, c), rows_h.data() + y, p.shape.width) + dot(query(p, c), rows_w.data() + x, p.shape.width);
}
void Sam::term_gradient(const Problem& p, const Cell& c, double ds, Gradients& sum, Sam& own) const {
  const auto [y, x] = sam_rows(*this, p, c);
  double* dq = sum.q.data() + query_row(p, c);
  add(dq, ds, rows_h.data() + y, p.shape.width);
  add(dq, ds, rows_w.data() + x, p.shape.width);
  add(own.rows_h.data() + y, ds, query(p, c), p.shape.width);
  add(own.rows_w.data() + x, ds, query(p, c), p.shape.width);
}
void Sam::check(const Problem& p) const {
  expect_size(rows_h, (2 * std::max(query_grid[0], key_grid[0]) - 1) * p.shape.width, "rows_h");
  expect_size(rows_w, (2 * std::max(query_grid[1], key_grid[1]) - 1) * p.shape.width, "rows_w");
}

}  // namespace phasor::attend::reference

// SPDX-License-Identifier: Apache-2.0
// Places, positions and masks of the reference.
#include <algorithm>

#include "attention/reference/parts.hpp"

namespace phasor::attend::reference {
namespace {

std::int64_t at(const Integers& list, std::int64_t index) { return list[static_cast<std::size_t>(index)]; }

/// The sequence that a token is in: starts[n] <= token < starts[n + 1].
std::int64_t sequence_of(const Integers& starts, std::int64_t token) {
  return std::upper_bound(starts.begin(), starts.end(), token) - starts.begin() - 1;
}

std::int64_t length_of(const Integers& starts, std::int64_t n) { return at(starts, n + 1) - at(starts, n); }

}  // namespace

std::int64_t query_row(const Problem& p, const Cell& c) { return ((c.b * p.shape.queries + c.i) * p.shape.heads + c.h) * p.shape.width; }

std::int64_t key_row(const Problem& p, const Cell& c) {
  const std::int64_t head = c.h / (p.shape.heads / p.shape.key_heads);
  return ((c.b * p.shape.keys + c.j) * p.shape.key_heads + head) * p.shape.width;
}

std::int64_t value_row(const Problem& p, const Cell& c) {
  const std::int64_t head = c.h / (p.shape.heads / p.shape.key_heads);
  return ((c.b * p.shape.keys + c.j) * p.shape.key_heads + head) * p.shape.value_width;
}

std::int64_t out_row(const Problem& p, const Cell& c) {
  return ((c.b * p.shape.queries + c.i) * p.shape.heads + c.h) * p.shape.value_width;
}

std::int64_t query_position(const Problem& p, const Cell& c) {
  if (!p.query_positions.empty()) return at(p.query_positions, c.b * p.shape.queries + c.i);
  const Visibility& see = p.visibility;
  if (see.query_starts.empty()) return c.i + p.shape.keys - p.shape.queries;
  const std::int64_t n = sequence_of(see.query_starts, c.i);
  return c.i - at(see.query_starts, n) + length_of(see.key_starts, n) - length_of(see.query_starts, n);
}

std::int64_t key_position(const Problem& p, const Cell& c) {
  if (!p.key_positions.empty()) return at(p.key_positions, c.b * p.shape.keys + c.j);
  const Integers& starts = p.visibility.key_starts;
  return starts.empty() ? c.j : c.j - at(starts, sequence_of(starts, c.j));
}

std::int64_t sequence_of(const Problem& p, const Cell& c) {
  return p.visibility.query_starts.empty() ? c.b : sequence_of(p.visibility.query_starts, c.i);
}

std::int64_t distance(const Problem& p, const Cell& c) { return query_position(p, c) - key_position(p, c); }

bool visible(const Problem& p, const Cell& c) {
  const Visibility& see = p.visibility;
  std::int64_t sequence = c.b;
  if (!see.query_starts.empty()) {
    sequence = sequence_of(see.query_starts, c.i);
    if (sequence != sequence_of(see.key_starts, c.j)) return false;
  }
  if (!see.key_mask.empty() && see.key_mask[static_cast<std::size_t>(c.b * p.shape.keys + c.j)] == 0) return false;
  const std::int64_t r = distance(p, c);
  const bool in_prefix = !see.prefix.empty() && key_position(p, c) < at(see.prefix, sequence);
  if (see.causal && r < 0 && !in_prefix) return false;
  if (see.left && r > *see.left) return false;
  return !see.right || -r <= *see.right;
}

}  // namespace phasor::attend::reference

// SPDX-License-Identifier: Apache-2.0
// How the terms of the random calls of mma_terms.hpp are drawn.
#pragma once

#include "cuda/attention/mma_terms.hpp"

namespace phasor::test {

inline void TermsProblem::add_table(TermWork& term) {
  AttentionWork& w = *work_;
  cuda::attention::TableWork& table = term.table;
  table.use = any({RowUse::query, RowUse::key, RowUse::query, RowUse::number});
  table.own_features = table.use == RowUse::query && chance(3);
  table.features = table.use == RowUse::key ? w.k : w.q;
  if (table.own_features) table.features = tensor(dtype_, {w.shape.batch, w.shape.queries, w.shape.heads, any({3, 16, 20})});
  table.map.left = any({0, 5, 40, 300});
  table.map.right = any({0, 3, 100});
  table.map.zero_outside = chance(2);
  std::int64_t rows = table.map.left + 1 + table.map.right;
  if (chance(4)) {
    table.kind = RowKind::segment;
    table.segments[0] = list(w.shape.batch, w.shape.queries, 2, 1);
    table.segments[1] = list(w.shape.batch, w.shape.keys, 2, 1);
    rows = 2;
  }
  const std::int64_t width = table.use == RowUse::number ? 1 : table.features.shape[3];
  table.table = tensor(dtype_, {any<std::int64_t>({1, w.shape.batch}), rows, any<std::int64_t>({1, w.shape.heads}), width}, 0.5F);
  if (table.use != RowUse::number && chance(3)) {  // channels apart: copies do not take them
    std::swap(table.table.shape[1], table.table.shape[3]);
    table.table.strides = contiguous_strides(table.table.shape);
    std::swap(table.table.shape[1], table.table.shape[3]);
    std::swap(table.table.strides[1], table.table.strides[3]);
    say("transposed");
  }
  table.scale = any({1.0, 0.2});
  if (table.use == RowUse::query && chance(2)) table.shift = tensor(DType::f32, {1, 1, w.shape.heads, width});
  say("table for " + std::to_string(static_cast<int>(table.use)) + (table.shift.data != nullptr ? " shifted" : "") + " of " +
      std::to_string(rows) + " x " + std::to_string(width));
}

/// Rows by distance for scores, and some for values, with one clip: tiles beyond it are of one row each. Or those for values alone.
inline void TermsProblem::add_shaw(bool of_queries) {
  AttentionWork& w = *work_;
  job::RowMap map;
  map.left = any({0, 5, 40, 300});
  map.right = any({0, 3, 100});
  map.zero_outside = chance(4);
  const std::int64_t rows = map.left + 1 + map.right, heads = any<std::int64_t>({1, w.shape.heads});
  for (const RowUse use : {RowUse::query, RowUse::value}) {
    if (use == RowUse::query && (!of_queries || chance(4))) continue;
    TermWork& term = w.terms[w.term_count++];
    term.use = TermUse::table;
    term.table.use = use;
    term.table.map = map;
    term.table.features = w.q;
    const std::int64_t width = use == RowUse::value ? w.shape.value_width : w.shape.width;
    term.table.table = tensor(dtype_, {any<std::int64_t>({1, w.shape.batch}), rows, heads, width}, 0.5F);
    if (use == RowUse::query) term.table.scale = w.scale;
    say("shaw " + std::to_string(static_cast<int>(use)) + " of " + std::to_string(rows) + (map.zero_outside ? " or none" : ""));
  }
}

inline void TermsProblem::add_term(bool with_tables) {
  AttentionWork& w = *work_;
  TermWork& term = w.terms[w.term_count++];
  term.use = with_tables ? any({TermUse::bias, TermUse::dense, TermUse::table, TermUse::table}) : any({TermUse::bias, TermUse::dense});
  if (term.use == TermUse::table) return add_table(term);
  if (term.use == TermUse::dense) {
    term.dense = tensor(any({DType::f32, dtype_}), {any<std::int64_t>({1, w.shape.batch}), any<std::int64_t>({1, w.shape.queries}),
                                                    any<std::int64_t>({1, w.shape.heads}), w.shape.keys});
    return say("dense");
  }
  auto* const slopes = memory_.take<double>(w.shape.heads);
  for (std::int64_t h = 0; h < w.shape.heads; ++h) slopes[h] = 0.01 + 0.1 * static_cast<double>(h);
  term.bias.bias.slopes = slopes;
  term.bias.bias.heads = w.shape.heads;
  if (chance(4)) term.bias.bias.form = AlibiForm::key_position;
  if (chance(2)) term.bias.gate = tensor(dtype_, {w.shape.batch, w.shape.queries, w.shape.heads, 1});
  say("alibi");
  if (w.has_positions[0]) return;
  const std::int64_t first = -(w.shape.queries + w.shape.keys), count = w.shape.queries + 2 * w.shape.keys + 1;
  auto* const diagonal = memory_.take<float>(w.shape.heads * count);
  const bool by_key = term.bias.bias.form == AlibiForm::key_position;
  for (std::int64_t n = 0; n < w.shape.heads * count; ++n) {
    const auto r = static_cast<double>(first + n % count);
    diagonal[n] = static_cast<float>(slopes[n / count] * (by_key ? -r : -std::abs(r)));
  }
  term.bias.diagonal = diagonal, term.bias.first_distance = first, term.bias.distances = count;
}

/// Queries, and keys, that the call has rotated: any numbers are as good. Nothing meets q and k as they are given.
inline void TermsProblem::add_rotated() {
  AttentionWork& w = *work_;
  w.content_shift = {};
  w.contents[0].q = tensor(dtype_, w.q.shape);
  if (chance(2)) w.contents[0].k = tensor(dtype_, w.k.shape);
  say(w.contents[0].k.data == w.k.data ? "rotated queries" : "rotated");
  const int terms = any({0, 0, 1, 2});
  for (int t = 0; t < terms; ++t) add_term(false);
  if (!w.has_positions[0] && chance(3)) add_shaw(false);
}

}  // namespace phasor::test

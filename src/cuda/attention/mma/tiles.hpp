// SPDX-License-Identifier: Apache-2.0
// Which work a block has, and which keys its queries see, by numbers of 32 bits.
#pragma once

#include "cuda/attention/forward.hpp"

namespace phasor::cuda::attention::mma {

/// Positions beyond this are as good as this: tensors are shorter (call.cpp).
constexpr int kFar = 1 << 29;
PHASOR_HD inline int near(int64_t x) { return static_cast<int>(most(-kFar, least(kFar, x))); }

// ---- Tables of values ----

PHASOR_HD inline bool is_of_values(const TermWork& term) { return term.use == TermUse::table && term.table.use == RowUse::value; }
PHASOR_HD inline bool has_values(const AttentionWork& work) {
  for (int t = 0; t < work.term_count; ++t) {
    if (is_of_values(work.terms[t])) return true;
  }
  return false;
}

// ---- Features of the call's own that meet a table ----

PHASOR_HD inline bool has_own_features(const AttentionWork& work) {
  for (int t = 0; t < work.term_count; ++t) {
    if (work.terms[t].use == TermUse::table && work.terms[t].table.own_features) return true;
  }
  return false;
}

// ---- Tables by distance ----

/// Tables that calls with scores in registers may have.
constexpr int kMostTables = 2;
/// Where they are among the terms: those that queries meet, then those that keys do, then one that is added to values.
struct TableList {
  int first = 0;
  int second = 0;
  int count = 0;
  bool valued = false;
  bool own_features = false;  // of the only table, which queries meet: features lie in the place of a second table's rows
  bool shifted = false;       // something is added to what meets them, or to queries
  PHASOR_HD int term(int t) const { return t == 0 ? first : second; }  // no array: it would lie in a kernel's memory
};
PHASOR_HD inline TableList tables_of(const AttentionWork& work) {
  TableList list;
  list.shifted = work.content_shift.data != nullptr;
  for (const RowUse use : {RowUse::query, RowUse::key, RowUse::value}) {
    for (int t = 0; t < work.term_count; ++t) {
      const TermWork& term = work.terms[t];
      if (term.use != TermUse::table || term.table.use != use || list.count == kMostTables) continue;
      (list.count == 0 ? list.first : list.second) = t;
      ++list.count;
      list.valued = use == RowUse::value;
      list.own_features = term.table.own_features;
      list.shifted = list.shifted || term.table.shift.data != nullptr;
    }
  }
  return list;
}

// ---- Rows that all distances of a tile have ----

/// Whether the rows of distances from `low` to `high` can be one and that is known by both ends' (rows that only rise or fall), without a
/// search: buckets by thresholds only where all of those have been passed.
PHASOR_HD inline bool ends_tell(const plan::RowRule& rule, int64_t low, int64_t high) {
  using Kind = plan::RowRule::Kind;
  if (rule.kind == Kind::window) return false;
  if (rule.kind != Kind::t5 && rule.kind != Kind::deberta) return true;
  const int64_t near = low > 0 ? low : -high;                                   // how far the nearer end is, if both are on one side
  const int64_t own = rule.kind == Kind::t5 ? rule.buckets / 2 : rule.mid + 1;  // nearer distances have buckets of their own
  return near >= own && plan::has_passed_all(rule, near);
}
/// The row of all distances from `low` to `high`: -1 where none of them has one, kSeveralRows where they differ (or are not looked at).
constexpr int64_t kSeveralRows = -2;
PHASOR_HD inline int64_t row_of_all(const job::RowMap& map, int64_t low, int64_t high) {
  if (map.has_buckets) {
    if (!ends_tell(map.buckets, low, high)) return kSeveralRows;
    const int64_t row = row_by_distance(map, low);
    return row == row_by_distance(map, high) ? row : kSeveralRows;
  }
  const bool is_outside = low > map.left || high < -map.right;
  if (map.zero_outside) return is_outside ? -1 : kSeveralRows;
  const int64_t row = row_by_distance(map, low);
  return row == row_by_distance(map, high) ? row : kSeveralRows;
}
/// The same of a table; only where rows are by distance, and queries or weights meet them as they are.
PHASOR_HD inline int64_t row_of_all(const TableWork& table, int64_t low, int64_t high) {
  const bool of_queries = table.use == RowUse::query || table.use == RowUse::value;
  const bool known = of_queries && table.kind == RowKind::distance && !table.own_features && table.shift.data == nullptr;
  return known ? row_of_all(table.map, low, high) : kSeveralRows;
}

// ---- Blocks and bands ----

struct BlockPlace {
  int64_t tile;
  int64_t head;
  int64_t split;
};
/// Splits side by side, then tiles of queries from the last to the first (under a causal mask those have the most to do), then heads.
PHASOR_HD inline BlockPlace block_place(const AttentionWork& work, int queries, int64_t index) {
  const int64_t splits = work.partial.splits;
  const int64_t tiles = most_query_tiles(work, queries);
  const int64_t rest = index / splits;
  const int64_t of_sequence = is_varlen(work) ? tiles : tiles / work.sequences;
  const int64_t tile = of_sequence - 1 - rest % of_sequence;
  const int64_t head = rest / of_sequence % work.shape.heads;
  const int64_t sequence = rest / of_sequence / work.shape.heads;
  return {sequence * of_sequence + tile, head, index % splits};
}

/// The keys that a query at a position sees, by number in its sequence: first to first + count - 1.
struct Band {
  int first;
  int count;
};
/// What decides it, of a sequence.
struct Bands {
  int left;
  int right;
  int keys;
  int ahead;  // keys below are seen whatever the causal mask says; beyond the last: there is none
  PHASOR_HD Band at(int position) const {
    const int first = position - left > 0 ? position - left : 0;
    const int behind = position + 1 > ahead ? position + 1 : ahead;
    int end = position + right + 1 < keys ? position + right + 1 : keys;
    end = end < behind ? end : behind;
    return {first, end > first ? end - first : 0};
  }
};
PHASOR_HD inline Bands bands_of(const AttentionWork& work, const Sequence& s) {
  return {near(work.see.left), near(work.see.right), static_cast<int>(s.keys), work.see.causal ? near(s.prefix) : kFar};
}

}  // namespace phasor::cuda::attention::mma
